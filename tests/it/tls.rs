//! Encrypted towards hosts, and towards an origin with a certificate authority of its own.

use std::sync::Arc;

use futures_util::SinkExt as _;
use futures_util::StreamExt as _;
use portcullis::tls;
use rcgen::CertifiedKey;
use serde_json::Value;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::Message;

use crate::support::client;
use crate::support::client::Host;
use crate::support::disk;
use crate::support::gateway::DEADLINE;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Origin;
use crate::support::pipe::upgrade_over;
use crate::support::refunds;

/// A certificate of 127.0.0.1 and its key, as files.
fn certificate() -> (TempDir, String) {
    let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let folder = TempDir::new().unwrap();
    disk::write(&folder.path().join("cert.pem"), cert.pem().as_bytes());
    disk::write(&folder.path().join("key.pem"), signing_key.serialize_pem().as_bytes());
    (folder, cert.pem())
}

#[tokio::test]
async fn hosts_are_served_over_tls_and_not_without() {
    let origin = Origin::with([refunds()]);
    let (files, pem) = certificate();
    let file = |name: &str| files.path().join(name).display().to_string();
    let (cert, key) = (file("cert.pem"), file("key.pem"));
    let gateway = Setup::new()
        .origin("acme", &origin)
        .set(&format!("server.tls = {{ cert = \"{cert}\", key = \"{key}\" }}"))
        .set("server.auth = \"token\"")
        .start()
        .await;
    assert!(gateway.mcp().starts_with("https://"), "{}", gateway.mcp());
    gateway.approve("acme/refunds").await;
    let token = gateway.cli(&["token", "new", "someone"]).await.expect(0).out;
    let token = token.split_whitespace().last().unwrap();
    let root = reqwest::Certificate::from_pem(pem.as_bytes()).unwrap();
    drop(client::http());
    let trusting = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([root])
        .build()
        .unwrap();
    let host = Host::modern(gateway.mcp()).with_token(token).with_client(trusting);
    assert_eq!(host.uris().await, ["skill://acme/refunds/SKILL.md"]);
    assert_eq!(
        host.read("skill://acme/refunds/SKILL.md").await.bytes(),
        refunds().bytes("SKILL.md")
    );
    reads_over_a_websocket(&gateway, &pem, token).await;
    let plain = gateway.mcp().replacen("https", "http", 1);
    assert!(client::http().post(plain).body("{}").send().await.is_err());
    assert!(
        client::http().post(gateway.mcp()).body("{}").send().await.is_err(),
        "it is not trusted by others"
    );
    gateway.finish().await;
}

/// A WebSocket is as good inside of TLS, for whom trusts the certificate.
async fn reads_over_a_websocket(gateway: &Gateway, pem: &str, token: &str) {
    let address = gateway.mcp().trim_start_matches("https://").trim_end_matches("/mcp");
    let connector = TlsConnector::from(Arc::new(tls::client_config(Some(pem.as_bytes()), &[]).unwrap()));
    let plain = TcpStream::connect(address).await.unwrap();
    let encrypted = connector.connect("127.0.0.1".try_into().unwrap(), plain).await.unwrap();
    let token = format!("Bearer {token}");
    let url = format!("wss://{address}/ws");
    let mut socket = upgrade_over(encrypted, &url, &[("authorization", &token)])
        .await
        .unwrap();
    let params = json!({ "uri": "skill://acme/refunds/SKILL.md", "_meta": client::meta() });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params });
    socket.send(Message::text(request.to_string())).await.unwrap();
    let heard = async {
        loop {
            if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
                return text;
            }
        }
    };
    let answer = tokio::time::timeout(DEADLINE, heard).await.unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let text = answer["result"]["contents"][0]["text"].as_str().unwrap();
    assert_eq!(text.as_bytes(), refunds().bytes("SKILL.md"));
}

#[tokio::test]
async fn a_key_that_cannot_be_used_ends_the_start_with_its_name() {
    let (files, _) = certificate();
    let cert = files.path().join("cert.pem").display().to_string();
    let gateway = Setup::new()
        .set(&format!("server.tls = {{ cert = \"{cert}\", key = \"{cert}\" }}"))
        .written();
    let ended = gateway.cli(&["serve"]).await.expect(64);
    assert!(ended.err.contains("cert.pem"), "{}", ended.err);
    gateway.abandon();
}
