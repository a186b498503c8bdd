//! Hosts on a stream of messages: a command that they start, and a WebSocket.

use std::process::Stdio;

use futures_util::SinkExt as _;
use futures_util::StreamExt as _;
use http::HeaderMap;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use http::header::SEC_WEBSOCKET_PROTOCOL;
use serde_json::Value;
use serde_json::json;
use tokio::io::AsyncBufReadExt as _;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::io::AsyncWriteExt as _;
use tokio::io::BufReader;
use tokio::io::Lines;
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::process::ChildStdin;
use tokio::process::ChildStdout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::client;
use super::client::Answer;
use super::gateway::DEADLINE;
use super::gateway::Ended;
use super::gateway::Gateway;

/// A stream of messages to a gateway.
pub(crate) struct Pipe {
    end: End,
    version: &'static str,
    next: u64,
}

/// What it is made of.
enum End {
    Command(Box<Command>),
    Socket(Box<WebSocketStream<TcpStream>>),
}

/// A command that a host started.
struct Command {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

/// Asks for a WebSocket, as `header` says beside what is needed.
pub(crate) async fn upgrade(
    url: &str,
    headers: &[(&'static str, &str)],
) -> Result<WebSocketStream<TcpStream>, tungstenite::Error> {
    let address = url.trim_start_matches("ws://").split('/').next().unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    upgrade_over(stream, url, headers).await
}

/// The same over a connection that there is.
pub(crate) async fn upgrade_over<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    url: &str,
    headers: &[(&'static str, &str)],
) -> Result<WebSocketStream<S>, tungstenite::Error> {
    let mut request = url.into_client_request().unwrap();
    let mcp = HeaderValue::from_static("mcp");
    request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, mcp);
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let (socket, response) = client_async_with_config(request, stream, Some(of_any_size())).await?;
    assert_eq!(response.headers()[SEC_WEBSOCKET_PROTOCOL], "mcp");
    Ok(socket)
}

/// Takes messages as they come: how long they may be is for the gateway to say.
fn of_any_size() -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(None).max_frame_size(None)
}

impl Pipe {
    /// A WebSocket, at the address of all origins or of one.
    pub(crate) async fn socket(gateway: &Gateway, origin: Option<&str>) -> Self {
        Self::socket_with(gateway, origin, &[]).await
    }

    /// The same with a token.
    pub(crate) async fn socket_with_token(gateway: &Gateway, token: &str) -> Self {
        let token = format!("Bearer {token}");
        Self::socket_with(gateway, None, &[(AUTHORIZATION.as_str(), &token)]).await
    }

    async fn socket_with(gateway: &Gateway, origin: Option<&str>, headers: &[(&'static str, &str)]) -> Self {
        let url = gateway.websocket(origin);
        Self::of(End::Socket(Box::new(upgrade(&url, headers).await.unwrap())))
    }

    /// `portcullis stdio`, at the address of all origins or of one.
    pub(crate) fn command(gateway: &Gateway, origin: Option<&str>) -> Self {
        let mut words = vec!["stdio"];
        words.extend(origin.iter().flat_map(|origin| ["--origin", origin]));
        Self::of_command(gateway, &words)
    }

    /// A command that serves its standard input and output.
    pub(crate) fn of_command(gateway: &Gateway, words: &[&str]) -> Self {
        let mut command = gateway.command(words);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let input = child.stdin.take();
        Self::of(End::Command(Box::new(Command { child, input, output })))
    }

    fn of(end: End) -> Self {
        Self {
            end,
            version: client::MODERN,
            next: 1,
        }
    }

    /// The same as a host of this revision, after its handshake if there is one.
    pub(crate) async fn speaking(mut self, version: &'static str) -> Self {
        if version == client::MODERN {
            return self;
        }
        let answer = self.ask("initialize", client::hello(version)).await;
        assert_eq!(answer.result()["protocolVersion"], version, "{}", answer.text);
        self.version = version;
        let done = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        self.say(&done.to_string()).await;
        self
    }

    /// Sends any request, and waits for its answer.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Answer {
        let id = json!(self.next);
        self.next += 1;
        self.request(&id, method, params).await;
        let answer = self.hear().await;
        assert_eq!(answer.json["id"], id, "{}", answer.text);
        answer
    }

    /// Sends a request with this id, and does not wait.
    pub(crate) async fn request(&mut self, id: &Value, method: &str, mut params: Value) {
        if self.version == client::MODERN && method != "initialize" {
            params["_meta"] = client::meta();
        }
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.say(&message.to_string()).await;
    }

    /// Sends a request with these parameters and no others, and does not wait.
    pub(crate) async fn send(&mut self, id: &str, method: &str, params: &Value) {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.say(&message.to_string()).await;
    }

    /// Asks for a file.
    pub(crate) async fn read(&mut self, uri: &str) -> Answer {
        self.ask("resources/read", json!({ "uri": uri })).await
    }

    /// Sends a text as one message.
    pub(crate) async fn say(&mut self, text: &str) {
        self.say_bytes(text.as_bytes()).await;
    }

    /// Sends bytes as one message.
    pub(crate) async fn say_bytes(&mut self, bytes: &[u8]) {
        match &mut self.end {
            End::Command(command) => {
                let input = command.input.as_mut().unwrap();
                input.write_all(&[bytes, b"\n"].concat()).await.unwrap();
            }
            End::Socket(socket) => {
                let text = std::str::from_utf8(bytes).unwrap();
                socket.send(Message::text(text)).await.unwrap();
            }
        }
    }

    /// The next message.
    pub(crate) async fn hear(&mut self) -> Answer {
        self.try_to_hear().await.expect("a message, not the end")
    }

    /// The next message; nothing when there is none any more.
    pub(crate) async fn try_to_hear(&mut self) -> Option<Answer> {
        let text = tokio::time::timeout(DEADLINE, self.text())
            .await
            .expect("a message in time")?;
        let json = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why} in {text:?}"));
        Some(Answer {
            status: 200,
            headers: HeaderMap::new(),
            text,
            json,
        })
    }

    async fn text(&mut self) -> Option<String> {
        match &mut self.end {
            End::Command(command) => command.output.next_line().await.unwrap(),
            End::Socket(socket) => loop {
                match socket.next().await? {
                    Ok(Message::Text(text)) => return Some(text.to_string()),
                    Ok(Message::Close(_)) | Err(_) => return None,
                    Ok(_) => {}
                }
            },
        }
    }

    /// Sends a frame, and gives the goodbye that it brings about.
    pub(crate) async fn goodbye_after(mut self, frame: Message) -> Option<CloseFrame> {
        let End::Socket(socket) = &mut self.end else {
            panic!("only a WebSocket has frames")
        };
        // It may be refused before it is wholly sent.
        let _sent = socket.send(frame).await;
        self.goodbye().await
    }

    /// Waits for the goodbye.
    pub(crate) async fn goodbye(self) -> Option<CloseFrame> {
        let End::Socket(mut socket) = self.end else {
            panic!("only a WebSocket says goodbye")
        };
        let heard = async {
            while let Some(next) = socket.next().await {
                if let Ok(Message::Close(frame)) = next {
                    return frame;
                }
            }
            None
        };
        tokio::time::timeout(DEADLINE, heard).await.expect("an end in time")
    }

    /// Closes what the command reads.
    pub(crate) fn close_input(&mut self) {
        let End::Command(command) = &mut self.end else {
            panic!("only a command has an input")
        };
        drop(command.input.take());
    }

    /// Waits for the end of the command, and gives what it still said.
    pub(crate) async fn ended(self) -> Ended {
        let End::Command(command) = self.end else {
            panic!("only a command ends by itself")
        };
        let Command {
            child,
            input,
            mut output,
        } = *command;
        let rest = async {
            let mut rest = String::new();
            while let Some(line) = output.next_line().await.unwrap() {
                rest.push_str(&line);
                rest.push('\n');
            }
            (rest, child.wait_with_output().await.unwrap())
        };
        let (out, ended) = tokio::time::timeout(DEADLINE, rest).await.expect("an end in time");
        drop(input);
        Ended {
            code: ended.status.code().unwrap_or(-1),
            out,
            err: String::from_utf8(ended.stderr).unwrap(),
        }
    }
}
