//! `connect` prints what to paste into a host's configuration.

use serde_json::Value;

use crate::support::gateway::Ended;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Origin;
use crate::support::refunds;

/// What is printed for one host.
async fn told(gateway: &Gateway, words: &[&str]) -> Ended {
    let words: Vec<&str> = ["connect"].into_iter().chain(words.iter().copied()).collect();
    gateway.cli(&words).await
}

/// The text to paste.
async fn text(gateway: &Gateway, words: &[&str]) -> String {
    let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
    let told = told(gateway, &words).await.expect(0).json();
    told["text"].as_str().unwrap().to_owned()
}

fn plain(origin: &Origin) -> Setup {
    let setup = Setup::default().set("server.listen = \"127.0.0.1:8788\"");
    setup.origin("acme", origin)
}

#[tokio::test]
async fn each_host_that_is_known_is_told_the_address() {
    let origin = Origin::with([refunds()]);
    let gateway = plain(&origin).written();
    let listed = told(&gateway, &["--json"]).await.expect(0).json();
    let hosts: Vec<&str> = listed.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(hosts.len(), 10);
    for host in hosts {
        for (words, wanted) in [
            (vec![host], "http://127.0.0.1:8788/mcp"),
            (vec![host, "--origin", "acme"], "http://127.0.0.1:8788/mcp/acme"),
            (vec![host, "--stdio"], "proxy.toml"),
        ] {
            let told = told(&gateway, &words).await;
            match host {
                "chatgpt" => assert!(told.code == 1 && told.err.contains("https"), "{told:?}"),
                "claude-desktop" => assert!(told.expect(0).out.contains("stdio")),
                _ => {
                    let told = told.expect(0);
                    assert!(
                        told.out.contains(wanted) && !told.out.contains("Bearer"),
                        "{words:?}: {}",
                        told.out
                    );
                }
            }
        }
    }
    told(&gateway, &["nothing-known"]).await.expect(64);
    told(&gateway, &["codex", "--origin", "other"]).await.expect(1);
    gateway.abandon();
}

#[tokio::test]
async fn what_is_printed_is_what_the_hosts_read() {
    let origin = Origin::with([refunds()]);
    let gateway = plain(&origin).set("server.auth = \"token\"").written();
    for (host, place) in [
        ("cursor", "/mcpServers/portcullis"),
        ("vscode", "/servers/portcullis"),
        ("gemini-cli", "/mcpServers/portcullis"),
    ] {
        let file: Value = serde_json::from_str(&text(&gateway, &[host]).await).unwrap();
        let server = file.pointer(place).unwrap();
        let url = server.get("url").or_else(|| server.get("httpUrl")).unwrap();
        assert_eq!(url, "http://127.0.0.1:8788/mcp");
        assert!(
            server["headers"]["Authorization"]
                .as_str()
                .unwrap()
                .starts_with("Bearer ${"),
            "{server}"
        );
    }
    let codex: toml::Table = text(&gateway, &["codex"]).await.parse().unwrap();
    assert_eq!(
        codex["mcp_servers"]["portcullis"]["url"].as_str(),
        Some("http://127.0.0.1:8788/mcp")
    );
    assert_eq!(
        codex["mcp_servers"]["portcullis"]["bearer_token_env_var"].as_str(),
        Some("PORTCULLIS_TOKEN")
    );
    let codex: toml::Table = text(&gateway, &["codex", "--stdio", "--origin", "acme"])
        .await
        .parse()
        .unwrap();
    let words: Vec<&str> = codex["mcp_servers"]["acme"]["args"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(toml::Value::as_str)
        .collect();
    assert_eq!(
        (words[0], &words[2..]),
        ("--config", ["stdio", "--origin", "acme"].as_slice())
    );
    assert!(
        text(&gateway, &["fast-agent", "--origin", "acme"])
            .await
            .contains("/mcp/acme?own")
    );
    assert!(
        text(&gateway, &["claude-code"])
            .await
            .contains("--header \"Authorization: Bearer $PORTCULLIS_TOKEN\"")
    );
    gateway.abandon();
}

#[tokio::test]
async fn an_address_that_others_reach_is_told_by_its_name() {
    let origin = Origin::with([refunds()]);
    let setup = Setup::default().origin("acme", &origin);
    let everywhere = setup
        .set("server.listen = \"0.0.0.0:8443\"")
        .set("server.insecure_listen = true")
        .set("server.hosts = [\"localhost\", \"skills.example\"]");
    let gateway = everywhere.written();
    assert!(
        text(&gateway, &["codex"])
            .await
            .contains("\"http://skills.example:8443/mcp\"")
    );
    gateway.abandon();
    let free = Setup::new().origin("acme", &origin).written();
    let told = told(&free, &["codex"]).await.expect(1);
    assert!(told.err.contains("--stdio"), "{}", told.err);
    free.abandon();
}
