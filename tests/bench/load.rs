//! The load: requests over keep-alive connections, one after another on each.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// A connection.
pub(crate) struct Connection {
    socket: TcpStream,
    /// What was received and not yet taken.
    held: Vec<u8>,
}

/// What one turn gave.
pub(crate) struct Turn {
    pub(crate) requests: usize,
    pub(crate) elapsed: Duration,
}

impl Turn {
    pub(crate) fn rate(&self) -> f64 {
        self.requests as f64 / self.elapsed.as_secs_f64()
    }
}

impl Connection {
    pub(crate) async fn open(address: &str) -> Self {
        let socket = TcpStream::connect(address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        Self {
            socket,
            held: Vec::with_capacity(16 * 1024),
        }
    }

    /// Sends a request and gives the body of its answer, which must be a 200.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        self.socket.write_all(request).await.unwrap();
        let head = self.until(b"\r\n\r\n").await;
        let text = String::from_utf8(head).unwrap().to_ascii_lowercase();
        assert!(text.starts_with("http/1.1 200"), "{text}");
        match text.split_once("content-length: ") {
            Some((_, rest)) => {
                let length = rest.split("\r\n").next().unwrap().parse().unwrap();
                self.exactly(length).await
            }
            None => self.chunks().await,
        }
    }

    /// A body in chunks (RFC 9112 §7.1).
    async fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let line = String::from_utf8(self.until(b"\r\n").await).unwrap();
            let length = usize::from_str_radix(line.trim(), 16).unwrap();
            body.extend(self.exactly(length).await);
            self.until(b"\r\n").await;
            if length == 0 {
                return body;
            }
        }
    }

    async fn until(&mut self, mark: &[u8]) -> Vec<u8> {
        let mut from = 0;
        loop {
            let found = self.held[from..].windows(mark.len()).position(|bytes| bytes == mark);
            if let Some(at) = found {
                return self.held.drain(..from + at + mark.len()).collect();
            }
            from = self.held.len().saturating_sub(mark.len());
            self.receive().await;
        }
    }

    async fn exactly(&mut self, length: usize) -> Vec<u8> {
        while self.held.len() < length {
            self.receive().await;
        }
        let rest = self.held.split_off(length);
        std::mem::replace(&mut self.held, rest)
    }

    async fn receive(&mut self) {
        let received = self.socket.read_buf(&mut self.held).await.unwrap();
        assert!(received > 0, "the server closed the connection");
    }
}

/// A request of a modern host, ready to send.
pub(crate) fn request(path: &str, method: &str, uri: Option<&str>) -> Vec<u8> {
    let mut params = json!({ "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    } });
    let mut name = String::new();
    if let Some(uri) = uri {
        params["uri"] = uri.into();
        name = format!("Mcp-Name: {uri}\r\n");
    }
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Sends the same request for as long as `turn` over so many connections.
pub(crate) async fn repeat(address: &str, request: Vec<u8>, connections: usize, turn: Duration) -> Turn {
    let (begun, request) = (Instant::now(), Arc::new(request));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let (address, request) = (address.to_owned(), Arc::clone(&request));
        tasks.spawn(async move {
            let (mut connection, mut sent) = (Connection::open(&address).await, 0);
            while begun.elapsed() < turn {
                connection.ask(&request).await;
                sent += 1;
            }
            sent
        });
    }
    Turn {
        requests: tasks.join_all().await.into_iter().sum(),
        elapsed: begun.elapsed(),
    }
}

/// Sends each request once over so many connections.
pub(crate) async fn each_once(address: &str, requests: Vec<Vec<u8>>, connections: usize) -> Turn {
    let (begun, requests, next) = (Instant::now(), Arc::new(requests), Arc::new(AtomicUsize::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let (address, requests, next) = (address.to_owned(), Arc::clone(&requests), Arc::clone(&next));
        tasks.spawn(async move {
            let mut connection = Connection::open(&address).await;
            while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                assert_result(&connection.ask(request).await);
            }
        });
    }
    tasks.join_all().await;
    Turn {
        requests: requests.len(),
        elapsed: begun.elapsed(),
    }
}

/// How long each of `times` took, one after another on one connection; the first one, which warms up, is not told.
pub(crate) async fn latencies(address: &str, request: &[u8], times: usize) -> Vec<f64> {
    let (mut connection, mut figures) = (Connection::open(address).await, Vec::new());
    for _ in 0..=times {
        let begun = Instant::now();
        connection.ask(request).await;
        figures.push(begun.elapsed().as_secs_f64());
    }
    figures.split_off(1)
}

/// One answer, which must be a result.
pub(crate) async fn ask_once(address: &str, request: &[u8]) -> Vec<u8> {
    let body = Connection::open(address).await.ask(request).await;
    assert_result(&body);
    body
}

fn assert_result(body: &[u8]) {
    let answer: Value = serde_json::from_slice(body).unwrap();
    assert!(answer["result"].is_object(), "it is served: {answer}");
}
