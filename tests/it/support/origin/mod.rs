//! A scripted MCP origin: a real HTTP server in the test's process, honest until it is told otherwise.
//!
//! Everything can be changed while it runs. It logs each request before it answers, so that a test can say what was not
//! asked, and wait for what is.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::net::TcpSocket;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::skill::Skill;
use super::skill::Spoil;

mod wire;

/// The longest that a test waits for a request to come.
const DEADLINE: Duration = Duration::from_secs(30);

/// The revision that an origin speaks, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2026-07-28, stateless.
    Modern,
    /// 2025-11-25, after `initialize`.
    Legacy,
    /// The same with session ids.
    LegacyWithSessions,
}

/// The form of its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// `application/json`.
    Json,
    /// `text/event-stream`, with a comment and a notice before the message.
    Events,
    /// The same, byte after byte.
    DrippedEvents,
    /// The same with `event:` lines and CRLF, as Python's servers write it.
    CrlfEvents,
    /// The same with an event before the message that has an id and no data.
    PrimedEvents,
}

/// What becomes of requests that are not answered as they should be.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// Accepted and not answered, until the fault is taken away.
    Hang,
    /// Answered with an HTTP status and no body.
    Status(u16),
    /// Answered with this text as the whole body.
    Body(&'static str),
    /// Answered with an HTTP status, a content type and this text, in which `{id}` stands for the request's id.
    Whole(u16, &'static str, &'static str),
    /// Answered with a redirect to this place.
    Redirect(String),
    /// Answered with this content type and a gibibyte of one string that has not come to its end.
    Flood(&'static str),
}

/// How a listing is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paging {
    /// Into pages of at most so many entries.
    Of(usize),
    /// The same, and the cursor of the second page is the empty string.
    EmptyCursor(usize),
    /// Everything on each page, and always another page.
    Endless,
    /// Everything on each page, and always the same next page.
    Repeated,
}

/// What is done to the result of a method before it is sent.
pub(crate) type Rewrite = Box<dyn Fn(&str, &mut Value) + Send + Sync>;

/// What it publishes and how it behaves.
pub(crate) struct Script {
    /// Its skills, in the order of its listing.
    pub(crate) skills: Vec<Skill>,
    /// Entries of the listing that are what they are.
    pub(crate) extra_entries: Vec<String>,
    /// Resources beside the skills: URI and text.
    pub(crate) resources: Vec<(String, String)>,
    /// How its listing is divided.
    pub(crate) paging: Paging,
    /// Whether results say how long they are fresh.
    pub(crate) has_hints: bool,
    /// What is done to results before they are sent; their numbers and the order of their members may not survive it.
    pub(crate) rewrite: Option<Rewrite>,
    /// The event stream that a GET gives, which is over at once; without one, GET is not allowed.
    pub(crate) stream: Option<&'static str>,
    /// What is wrong with the answers to a method, or about a URI.
    pub(crate) faults: BTreeMap<String, Fault>,
    /// What is wrong with the next answer to a method.
    pub(crate) once: BTreeMap<String, Fault>,
    /// What is wrong with every answer.
    pub(crate) fault: Option<Fault>,
}

/// A request that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Its method.
    pub(crate) method: String,
    /// The `uri` of its parameters.
    pub(crate) uri: Option<String>,
    /// The `cursor` of its parameters.
    pub(crate) cursor: Option<String>,
    /// Its `Authorization` header.
    pub(crate) authorization: Option<String>,
}

/// What its connections share.
struct Shared {
    era: Era,
    answers: Answers,
    script: watch::Sender<Script>,
    log: watch::Sender<Vec<Asked>>,
    sessions: Mutex<Vec<String>>,
}

/// An origin. It stops when it is dropped.
pub(crate) struct Origin {
    /// Bound and never listening: while the origin is stopped, nobody else is given its port.
    reservation: TcpSocket,
    shared: Arc<Shared>,
    server: JoinSet<()>,
}

impl Origin {
    /// Starts a modern one with these skills.
    pub(crate) fn with(skills: impl IntoIterator<Item = Skill>) -> Self {
        Self::speaking(Era::Modern, Answers::Json, skills)
    }

    /// Starts one.
    pub(crate) fn speaking(era: Era, answers: Answers, skills: impl IntoIterator<Item = Skill>) -> Self {
        let script = Script {
            skills: skills.into_iter().collect(),
            extra_entries: Vec::new(),
            resources: Vec::new(),
            paging: Paging::Of(100),
            has_hints: true,
            rewrite: None,
            stream: None,
            faults: BTreeMap::new(),
            once: BTreeMap::new(),
            fault: None,
        };
        let shared = Shared {
            era,
            answers,
            script: watch::Sender::new(script),
            log: watch::Sender::default(),
            sessions: Mutex::default(),
        };
        let mut origin = Self {
            reservation: bound_to(([127, 0, 0, 1], 0).into()),
            shared: Arc::new(shared),
            server: JoinSet::new(),
        };
        origin.restart();
        origin
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address())
    }

    /// Its address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.reservation.local_addr().unwrap()
    }

    /// Closes the listener and every connection.
    pub(crate) async fn stop(&mut self) {
        self.server.shutdown().await;
        self.shared.sessions.lock().clear();
    }

    /// Listens, at the same port as before.
    pub(crate) fn restart(&mut self) {
        let listener = bound_to(self.address()).listen(1024).unwrap();
        let router = Router::new()
            .route("/mcp", post(wire::answer).get(wire::stream))
            .with_state(Arc::clone(&self.shared));
        self.server.spawn(serve(listener, router));
    }

    /// Changes anything.
    pub(crate) fn set<T>(&self, change: impl FnOnce(&mut Script) -> T) -> T {
        let mut returned = None;
        self.shared.script.send_modify(|script| returned = Some(change(script)));
        returned.unwrap()
    }

    /// Changes one skill.
    pub(crate) fn change<T>(&self, uri: &str, change: impl FnOnce(&mut Skill) -> T) -> T {
        self.set(|script| change(script.skills.iter_mut().find(|skill| skill.uri == uri).unwrap()))
    }

    /// Changes or adds a file of a skill, and the entry with it.
    pub(crate) fn change_file(&self, skill: &str, path: &str, text: &str) {
        self.change(skill, |skill| skill.set_file(path, text.as_bytes()));
    }

    /// Sends something else for a file than its entry says.
    pub(crate) fn spoil(&self, skill: &str, path: &str, spoil: Spoil) {
        self.change(skill, |skill| skill.spoil(path, spoil));
    }

    /// Publishes one more skill.
    pub(crate) fn publish(&self, skill: Skill) {
        self.set(|script| script.skills.push(skill));
    }

    /// Serves a skill no more, and says so when asked.
    pub(crate) fn withdraw(&self, uri: &str) -> Skill {
        self.set(|script| {
            let at = script.skills.iter().position(|skill| skill.uri == uri).unwrap();
            script.skills.remove(at)
        })
    }

    /// Makes the answers to one method wrong.
    pub(crate) fn break_method(&self, method: &str, fault: Fault) {
        self.set(|script| script.faults.insert(method.to_owned(), fault));
    }

    /// Makes the next answer to one method wrong.
    pub(crate) fn break_once(&self, method: &str, fault: Fault) {
        self.set(|script| script.once.insert(method.to_owned(), fault));
    }

    /// Makes the answers about one URI wrong.
    pub(crate) fn break_uri(&self, uri: &str, fault: Fault) {
        self.break_method(uri, fault);
    }

    /// Does something to every result before it is sent.
    pub(crate) fn rewrite(&self, rewrite: impl Fn(&str, &mut Value) + Send + Sync + 'static) {
        self.set(|script| script.rewrite = Some(Box::new(rewrite)));
    }

    /// Makes every answer wrong.
    pub(crate) fn break_everything(&self, fault: Fault) {
        self.set(|script| script.fault = Some(fault));
    }

    /// Answers as it should again, also what still waits.
    pub(crate) fn mend(&self) {
        self.set(|script| {
            script.fault = None;
            script.faults.clear();
        });
    }

    /// How often a method was asked until now.
    pub(crate) fn count(&self, method: &str) -> usize {
        self.log().iter().filter(|asked| asked.method == method).count()
    }

    /// Every request until now.
    pub(crate) fn log(&self) -> Vec<Asked> {
        self.shared.log.borrow().clone()
    }

    /// The URIs of all `resources/read` until now.
    pub(crate) fn reads(&self) -> Vec<String> {
        let reads = self.log().into_iter().filter(|asked| asked.method == "resources/read");
        reads.filter_map(|asked| asked.uri).collect()
    }

    /// Waits until a method was asked so often.
    pub(crate) async fn was_asked(&self, method: &str, times: usize) {
        let mut log = self.shared.log.subscribe();
        let enough = |log: &Vec<Asked>| log.iter().filter(|asked| asked.method == method).count() >= times;
        let waited = tokio::time::timeout(DEADLINE, log.wait_for(enough)).await;
        assert!(waited.is_ok(), "{method} was not asked {times} times: {:?}", self.log());
    }

    /// Waits until a method is asked once more from now on.
    pub(crate) async fn is_asked_again(&self, method: &str) {
        self.was_asked(method, self.count(method) + 1).await;
    }
}

/// A socket at an address, which the tests' own sockets may share.
fn bound_to(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.set_reuseport(true).unwrap();
    socket.bind(address).unwrap();
    socket
}

/// Accepts until it is dropped, and all connections with it.
async fn serve(listener: TcpListener, router: Router) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let service = TowerToHyperService::new(router.clone());
        connections.spawn(async move {
            // A client that goes away is no failure of ours.
            let _gone = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
        while connections.try_join_next().is_some() {}
    }
}
