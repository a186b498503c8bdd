//! How fast a cached read is, beside a bare handler that parses the same request and returns the same bytes.
//!
//! `cargo bench --bench cached_read [-- ROUNDS]`. Both servers are processes of their own; the load is a third. They take turns, the
//! order reversed each round, and what is printed is ratios of medians: requests a second, and processor time a request.
#![expect(clippy::missing_docs_in_private_items, reason = "read from top to bottom, once")]
#![expect(clippy::print_stdout, reason = "a benchmark prints")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on ends")]
#![expect(clippy::disallowed_methods, reason = "files of its own, in a folder of its own")]

use std::fs;
use std::io::BufRead as _;
use std::io::BufReader;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use serde_json::Value;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// How long each target is asked in one turn.
const TURN: Duration = Duration::from_secs(2);

/// What is read.
const URI: &str = "skill://bench/demo/SKILL.md";

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    match arguments.iter().position(|word| word == "--bare") {
        Some(at) => runtime.block_on(bare(Path::new(&arguments[at + 1]))),
        None => runtime.block_on(compare(
            arguments.iter().find_map(|word| word.parse().ok()).unwrap_or(4),
        )),
    }
}

/// The limit: reads the request as JSON and returns bytes that are there already.
async fn bare(answer: &Path) {
    async fn answer_with(State(body): State<Bytes>, request: Bytes) -> ([(&'static str, &'static str); 1], Bytes) {
        let request: Value = serde_json::from_slice(&request).unwrap();
        assert_eq!(request["params"]["uri"], URI);
        ([("content-type", "application/json")], body)
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("ready mcp=http://{}/mcp", listener.local_addr().unwrap());
    let router = Router::new()
        .route("/mcp", post(answer_with))
        .with_state(Bytes::from(fs::read(answer).unwrap()));
    let listener = axum::serve::ListenerExt::tap_io(listener, |socket| socket.set_nodelay(true).unwrap());
    axum::serve(listener, router).await.unwrap();
}

async fn compare(rounds: usize) {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Server::start(gateway(folder.path()));
    approve(&folder.path().join("proxy.toml")).await;
    let answer = ask(&gateway.address).await;
    let answer_file = folder.path().join("answer.json");
    fs::write(&answer_file, &answer).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("--bare").arg(&answer_file);
    let limit = Server::start(command);

    println!(
        "cached read of {} bytes, {rounds} rounds of {TURN:?}; each figure is gateway : bare handler",
        answer.len()
    );
    for connections in [1, 8, 32, 128] {
        let (mut gateways, mut limits) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let gateway_first = round % 2 == 0;
            if gateway_first {
                gateways.push(gateway.measure(connections).await);
            }
            limits.push(limit.measure(connections).await);
            if !gateway_first {
                gateways.push(gateway.measure(connections).await);
            }
        }
        let rate = |turns: &[Turn]| {
            median(
                turns
                    .iter()
                    .map(|turn| turn.requests as f64 / TURN.as_secs_f64())
                    .collect(),
            )
        };
        let cost = |turns: &[Turn]| {
            median(
                turns
                    .iter()
                    .map(|turn| turn.ticks as f64 / turn.requests as f64)
                    .collect(),
            )
        };
        println!(
            "{connections:>4} connections: {:.2} of the requests a second ({:.0} : {:.0}), {:.2} times the processor time a request",
            rate(&gateways) / rate(&limits),
            rate(&gateways),
            rate(&limits),
            cost(&gateways) / cost(&limits),
        );
    }
}

/// The gateway over a folder with one approved skill of about 3 KB.
fn gateway(folder: &Path) -> Command {
    let skill = folder.join("skills/demo");
    fs::create_dir_all(&skill).unwrap();
    let body = "A line of a skill that says what to do next.\n".repeat(66);
    fs::write(
        skill.join("SKILL.md"),
        format!("---\nname: demo\ndescription: Something to read.\n---\n\n{body}"),
    )
    .unwrap();
    let config = folder.join("proxy.toml");
    let text = "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\nlevel = \"warn\"\n\
                [[origin]]\nlabel = \"bench\"\ndir = \"skills\"\n";
    fs::write(&config, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.arg("--config").arg(&config).arg("serve");
    command
}

/// Approves the skill once the gateway has seen it.
async fn approve(config: &Path) {
    let run = |words: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_portcullis"))
            .arg("--config")
            .arg(config)
            .args(words)
            .output()
            .unwrap()
    };
    loop {
        let skills: Value = serde_json::from_slice(&run(&["skills", "--json"]).stdout).unwrap();
        if let Some(set) = skills[0]["set"].as_str() {
            assert!(run(&["approve", "bench/demo", "--set", set]).status.success());
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A server under load.
struct Server {
    process: Child,
    address: String,
}

/// What one turn gave.
struct Turn {
    requests: u64,
    /// Processor time of the server, in clock ticks.
    ticks: u64,
}

impl Server {
    fn start(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let url = line.split_once("mcp=http://").unwrap().1;
        let address = url.split_once("/mcp").unwrap().0.to_owned();
        Self { process, address }
    }

    async fn measure(&self, connections: usize) -> Turn {
        let before = self.ticks();
        let end = Instant::now() + TURN;
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..connections {
            let address = self.address.clone();
            tasks.spawn(async move { load(&address, end).await });
        }
        let requests = tasks.join_all().await.into_iter().sum();
        Turn {
            requests,
            ticks: self.ticks() - before,
        }
    }

    /// User and system time so far (proc(5): the 14th and 15th field).
    fn ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn request(id: u64) -> Vec<u8> {
    let body = json!({ "jsonrpc": "2.0", "id": id, "method": "resources/read", "params": { "uri": URI, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {} } } })
    .to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: resources/read\r\nMcp-Name: {URI}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Sends one request after another until `end`.
async fn load(address: &str, end: Instant) -> u64 {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.set_nodelay(true).unwrap();
    let (mut sent, request, mut held) = (0, request(1), Vec::with_capacity(16 * 1024));
    while Instant::now() < end {
        socket.write_all(&request).await.unwrap();
        held.clear();
        let length = read_answer(&mut socket, &mut held).await;
        assert!(
            held.len() == length && held.starts_with(b"HTTP/1.1 200"),
            "a whole answer"
        );
        sent += 1;
    }
    sent
}

/// Reads one answer with a `content-length`; gives the length of the whole.
async fn read_answer(socket: &mut TcpStream, held: &mut Vec<u8>) -> usize {
    loop {
        assert!(
            socket.read_buf(held).await.unwrap() > 0,
            "the server closed the connection"
        );
        let Some(head) = held.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
            continue;
        };
        let text = std::str::from_utf8(&held[..head]).unwrap().to_ascii_lowercase();
        let length: usize = text
            .split_once("content-length: ")
            .unwrap()
            .1
            .split("\r\n")
            .next()
            .unwrap()
            .parse()
            .unwrap();
        while held.len() < head + 4 + length {
            assert!(
                socket.read_buf(held).await.unwrap() > 0,
                "the server closed the connection"
            );
        }
        return head + 4 + length;
    }
}

/// One answer's body.
async fn ask(address: &str) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(&request(1)).await.unwrap();
    let mut held = Vec::new();
    read_answer(&mut socket, &mut held).await;
    let head = held.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let body = held.split_off(head + 4);
    assert!(
        serde_json::from_slice::<Value>(&body).unwrap()["result"].is_object(),
        "it is served"
    );
    body
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
