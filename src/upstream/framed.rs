//! Whole messages over a pipe or a WebSocket: answers to our own requests are taken as text before the SDK types them.
//!
//! A message that answers a request with a [`Sink`] goes into the sink, and the SDK is told that an empty result came; every
//! other message goes to the SDK as it is. Imports `sink`. Invariants: no message is read further than the largest answer
//! that is waited for may be long; whoever waits when the connection ends is told why.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::model::GetMeta as _;
use rmcp::model::RequestId;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::transport::Transport;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::answer::Envelope;
use super::relay::Interim;
use super::sink::Sink;
use super::sink::over;
use super::sink::text_of;

/// Messages in a row that are no JSON-RPC, after which it is not worth listening any more: banners are shorter.
const MAX_NOISE: usize = 100;

/// Where messages come from.
pub(super) trait Source: Send + 'static {
    /// The next message, of at most `cap` bytes; nothing that was read is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// Why there will be none.
    fn next(&mut self, cap: u64) -> impl Future<Output = Result<bytes::Bytes, Error>> + Send;
}

/// Where messages go.
pub(super) trait Outlet: Send + 'static {
    /// Sends one message; a future that is dropped half-way leaves the outlet unusable.
    fn put(&mut self, message: String) -> impl Future<Output = Result<(), Error>> + Send;

    /// Says that nothing more will come.
    fn end(&mut self) -> impl Future<Output = ()> + Send;
}

/// What is known of a connection from outside of the SDK.
#[derive(Clone, Default)]
pub(super) struct Line(Arc<State>);

#[derive(Default)]
struct State {
    /// Messages that came, ever.
    heard: AtomicU64,
    /// Why it ended; held for a copy.
    end: Mutex<Option<Error>>,
}

impl Line {
    /// How many messages have come.
    pub(super) fn heard(&self) -> u64 {
        self.0.heard.load(Ordering::Relaxed)
    }

    /// Why it ended, once it has.
    pub(super) fn end(&self) -> Option<Error> {
        self.0.end.lock().clone()
    }
}

/// A request of ours that is not answered yet.
struct Tap {
    id: RequestId,
    sink: Sink,
    /// The token under which its progress is told of.
    progress: Option<Value>,
}

/// A transport of the SDK.
pub(super) struct Framed<S, O> {
    source: S,
    outlet: Arc<tokio::sync::Mutex<O>>,
    closed: CancellationToken,
    line: Line,
    taps: HashMap<String, Tap>,
    /// Bytes of a message that nobody of us waits for.
    longest: u64,
    noise: usize,
}

impl<S: Source, O: Outlet> Framed<S, O> {
    /// A transport over both ways; a message that answers none of our requests has at most `longest` bytes.
    pub(super) fn new(source: S, outlet: Arc<tokio::sync::Mutex<O>>, line: Line, longest: u64) -> Self {
        Self {
            source,
            outlet,
            closed: CancellationToken::new(),
            line,
            taps: HashMap::new(),
            longest,
            noise: 0,
        }
    }

    /// What the SDK is given of a message; nothing when it is none.
    fn take(&mut self, message: &[u8]) -> Option<ServerJsonRpcMessage> {
        self.line.0.heard.fetch_add(1, Ordering::Relaxed);
        let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(message) else {
            self.noise += 1;
            return None;
        };
        if envelope.method.is_none()
            && let Some(Tap { id, sink, .. }) = envelope.id.and_then(|id| self.taps.remove(id.get()))
        {
            self.noise = 0;
            let answer = match (envelope.result, envelope.error) {
                (Some(_), None) if message.len() as u64 > sink.cap() => Err(Error::TooLong { limit: sink.cap() }),
                (Some(result), None) => Ok(result.get().to_owned()),
                (None, Some(error)) => Err(error.into()),
                _ => Err(Error::Malformed("it has both result and error, or neither".to_owned())),
            };
            sink.put(answer);
            return Some(over(id));
        }
        if envelope.id.is_none() && self.pass_on(message) {
            self.noise = 0;
            return None;
        }
        let typed = serde_json::from_slice(message).ok();
        self.noise = if typed.is_some() { 0 } else { self.noise + 1 };
        typed
    }

    /// Passes progress on to the call that it is about, and a log message to the only call there is: whose it would be
    /// otherwise, nobody knows. Says whether it was such a notice.
    fn pass_on(&self, message: &[u8]) -> bool {
        let waiting = || self.taps.values().filter(|tap| tap.sink.is_relaying());
        let Some((_, Interim::Notice { params, .. })) = waiting().find_map(|tap| tap.sink.notice(message)) else {
            return false;
        };
        let token = params.get("progressToken");
        let whose = match token {
            Some(token) => waiting().find(|tap| tap.progress.as_ref() == Some(token)),
            None => waiting().next().filter(|_| waiting().count() == 1),
        };
        if let Some((interim, notice)) = whose.and_then(|tap| tap.sink.notice(message)) {
            // One that is not listened to holds up nobody else's answers.
            let _heard = interim.try_send(notice).is_ok();
        }
        true
    }

    /// Nothing more will come; whoever waits is told why.
    fn ended(&mut self, why: &Error) {
        for (_, tap) in self.taps.drain() {
            tap.sink.put(Err(why.clone()));
        }
        self.line.0.end.lock().get_or_insert_with(|| why.clone());
    }
}

impl<S: Source, O: Outlet> Transport<RoleClient> for Framed<S, O> {
    type Error = Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let Some((sink, id)) = Sink::of(&message) {
            self.taps.retain(|_, tap| !tap.sink.is_abandoned());
            let tap = Tap {
                progress: progress_of(&message),
                id,
                sink,
            };
            self.taps.insert(text_of(&tap.id), tap);
        }
        let text = serde_json::to_string(&message).map_err(|error| Error::Malformed(error.to_string()));
        let (outlet, closed) = (Arc::clone(&self.outlet), self.closed.clone());
        async move {
            let put = async { outlet.lock().await.put(text?).await };
            tokio::select! {
                biased;
                () = closed.cancelled() => Err(Error::Unreachable("the connection is closed".to_owned())),
                put = put => put,
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let largest = self.taps.values().map(|tap| tap.sink.cap()).max();
            let cap = self.longest.max(largest.unwrap_or_default());
            let message = match self.source.next(cap).await {
                Ok(message) => message,
                Err(why) => {
                    self.ended(&why);
                    return None;
                }
            };
            if let Some(message) = self.take(&message) {
                return Some(message);
            }
            if self.noise > MAX_NOISE {
                self.ended(&Error::Malformed(format!(
                    "over {MAX_NOISE} messages in a row are no JSON-RPC; a server writes nothing else where its messages go"
                )));
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.closed.cancel();
        self.ended(&Error::Unreachable("the connection is closed".to_owned()));
        self.outlet.lock().await.end().await;
        Ok(())
    }
}

/// The token under which the progress of a request is told of.
fn progress_of(message: &ClientJsonRpcMessage) -> Option<Value> {
    match message {
        ClientJsonRpcMessage::Request(request) => {
            let token = request.request.get_meta().get_progress_token()?;
            serde_json::to_value(token).ok()
        }
        ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Notification(_) | ClientJsonRpcMessage::Error(_) => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use bytes::Bytes;
    use rmcp::model::ClientRequest;
    use rmcp::model::CustomRequest;
    use rmcp::model::GetExtensions as _;

    use super::*;

    /// Says what it was told to say, then that it is over.
    struct Script(VecDeque<&'static str>);

    impl Source for Script {
        async fn next(&mut self, cap: u64) -> Result<Bytes, Error> {
            match self.0.pop_front() {
                Some(message) if message.len() as u64 > cap => Err(Error::TooLong { limit: cap }),
                Some(message) => Ok(Bytes::from(message)),
                None => Err(Error::Unreachable("over".to_owned())),
            }
        }
    }

    struct Nowhere;

    impl Outlet for Nowhere {
        async fn put(&mut self, _message: String) -> Result<(), Error> {
            Ok(())
        }

        async fn end(&mut self) {}
    }

    fn framed(script: &[&'static str]) -> Framed<Script, Nowhere> {
        let script = Script(script.iter().copied().collect());
        Framed::new(script, Arc::new(tokio::sync::Mutex::new(Nowhere)), Line::default(), 200)
    }

    async fn asked(framed: &mut Framed<Script, Nowhere>, id: i64, cap: u64) -> Sink {
        let sink = Sink::new(cap);
        let mut request = CustomRequest::new("skills/list", None);
        request.extensions_mut().insert(sink.clone());
        let message = ClientJsonRpcMessage::request(ClientRequest::CustomRequest(request), RequestId::Number(id));
        framed.send(message).await.unwrap();
        sink
    }

    fn written(message: &Option<ServerJsonRpcMessage>) -> String {
        serde_json::to_string(message).unwrap()
    }

    #[tokio::test]
    async fn an_answer_of_ours_is_taken_as_text_and_the_rest_goes_to_the_sdk() {
        let mut framed = framed(&[
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"b":1.10, "a":[]}}"#,
            r#"{"jsonrpc":"2.0","id":8,"error":{"code":-32602,"message":"no"}}"#,
        ]);
        let sink = asked(&mut framed, 7, 100).await;
        let refused = asked(&mut framed, 8, 100).await;
        let given = framed.receive().await;
        assert!(matches!(given, Some(ServerJsonRpcMessage::Notification(_))));
        let given = framed.receive().await;
        assert!(
            matches!(given, Some(ServerJsonRpcMessage::Request(_))),
            "it has our id and is no answer"
        );
        assert!(sink.take().is_none());
        assert_eq!(
            written(&framed.receive().await),
            written(&Some(over(RequestId::Number(7))))
        );
        assert_eq!(sink.take(), Some(Ok(r#"{"b":1.10, "a":[]}"#.to_owned())));
        assert_eq!(
            written(&framed.receive().await),
            written(&Some(over(RequestId::Number(8))))
        );
        assert!(matches!(refused.take(), Some(Err(Error::Rpc { code: -32602, .. }))));
    }

    #[tokio::test]
    async fn who_waits_when_it_ends_is_told_why() {
        let mut framed = framed(&["a banner", "{}x"]);
        let sinks = [asked(&mut framed, 1, 10).await, asked(&mut framed, 2, 10).await];
        assert!(framed.receive().await.is_none());
        for sink in sinks {
            assert_eq!(sink.take(), Some(Err(Error::Unreachable("over".to_owned()))));
        }
        assert_eq!(framed.line.end(), Some(Error::Unreachable("over".to_owned())));
        assert_eq!(framed.line.heard(), 2);
    }

    #[tokio::test]
    async fn a_message_may_be_as_long_as_the_longest_answer_that_is_waited_for() {
        let long = r#"{"jsonrpc":"2.0","id":1,"result":{"x":"                                                                                                                                                                                                        "}}"#;
        let mut patient = framed(&[long]);
        let sink = asked(&mut patient, 1, 300).await;
        assert!(patient.receive().await.is_some());
        assert!(sink.take().unwrap().is_ok());
        let mut other = framed(&[long]);
        let sink = asked(&mut other, 1, 20).await;
        assert!(other.receive().await.is_none());
        assert_eq!(sink.take(), Some(Err(Error::TooLong { limit: 200 })));
        let mut between = framed(&[long]);
        let (sink, other) = (asked(&mut between, 1, 20).await, asked(&mut between, 2, 300).await);
        assert!(between.receive().await.is_some());
        assert_eq!(
            sink.take(),
            Some(Err(Error::TooLong { limit: 20 })),
            "each has a bound of its own"
        );
        assert!(other.take().is_none());
    }

    #[tokio::test]
    async fn what_nobody_waits_for_takes_no_room() {
        let mut framed = framed(&[]);
        for id in 0..100 {
            drop(asked(&mut framed, id, u64::MAX).await);
        }
        assert_eq!(framed.taps.len(), 1);
    }

    #[tokio::test]
    async fn noise_without_end_is_not_listened_to() {
        let mut framed = framed(&["blah"; 2 * MAX_NOISE]);
        assert!(framed.receive().await.is_none());
        assert!(matches!(framed.line.end(), Some(Error::Malformed(_))));
        assert_eq!(framed.source.0.len(), MAX_NOISE - 1);
    }
}
