//! How origins are reached: through proxies, by whom they are vouched for, and with no credential but their own.

use crate::support::client::Host;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::network::Certificate;
use crate::support::network::Proxy;
use crate::support::origin::Fault;
use crate::support::origin::Origin;
use crate::support::refunds;

/// The name and password for a proxy, as an address has them and as a header does.
const USER: [&str; 2] = ["ada:s3cret-4711", "YWRhOnMzY3JldC00NzEx"];

async fn is_up(gateway: &Gateway, label: &str) {
    gateway
        .origin_when(label, "is up", |item| item["state"] == "up" && item["skills"] == 1)
        .await;
}

/// Waits until an origin is down, and gives what is told of it.
async fn told_of(gateway: &Gateway, label: &str) -> String {
    let told = gateway
        .origin_when(label, "is told of", |item| item["last_error"].is_string())
        .await;
    assert_eq!(told["state"], "down");
    told["last_error"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_proxy_of_the_environment_is_used_but_where_it_is_not_to_be() {
    // case R5; of case P4, a password in the proxy's address.
    let (certificate, proxy) = (Certificate::new(), Proxy::new().await);
    let origin = Origin::with([refunds()]);
    let encrypted = certificate.before(origin.address()).await;
    let port = encrypted.address.port();
    let gateway = Setup::new()
        .env("HTTPS_PROXY", &proxy.url(USER[0]))
        .env("HTTP_PROXY", &proxy.url(USER[0]))
        .env("NO_PROXY", "127.0.0.2, 127.0.0.1")
        .set("log.level = \"trace\"")
        .origin_at("far", &format!("https://localhost:{port}/mcp"), &certificate.trusted())
        .origin_at("near", &format!("https://127.0.0.1:{port}/mcp"), &certificate.trusted())
        .origin_at(
            "plain",
            &format!("http://localhost:{}/mcp", origin.address().port()),
            "refresh = \"1s\"",
        )
        .start()
        .await;
    for label in ["far", "near", "plain"] {
        is_up(&gateway, label).await;
    }
    let heads = proxy.heads();
    let through = |line: String| heads.iter().filter(|head| head.starts_with(&line)).count();
    assert!(
        through(format!("CONNECT localhost:{port} HTTP/1.1\r\n")) > 0,
        "{heads:?}"
    );
    assert!(
        through(format!("POST http://localhost:{}/mcp ", origin.address().port())) > 0,
        "{heads:?}"
    );
    assert!(!heads.iter().any(|head| head.contains("127.0.0.1:")), "{heads:?}");
    assert!(heads.iter().all(|head| head.contains(USER[1])), "{heads:?}");
    for secret in USER {
        assert!(!gateway.stderr().contains(secret), "a password in the log");
    }
    gateway.finish().await;
}

#[tokio::test]
async fn an_authority_of_the_environment_is_trusted_and_no_other() {
    // case R5.
    let (known, unknown) = (Certificate::new(), Certificate::new());
    let origin = Origin::with([refunds()]);
    let [known_at, unknown_at] = [
        known.before(origin.address()).await,
        unknown.before(origin.address()).await,
    ];
    let url = |address| format!("https://{address}/mcp");
    let gateway = Setup::new()
        .env("SSL_CERT_FILE", known.path().to_str().unwrap())
        .origin_at("known", &url(known_at.address), "refresh = \"1s\"")
        .origin_at("unknown", &url(unknown_at.address), "refresh = \"1s\"")
        .origin_at("named", &url(unknown_at.address), &unknown.trusted())
        .origin_at("wrong", &url(known_at.address), &unknown.trusted())
        .start()
        .await;
    is_up(&gateway, "known").await;
    is_up(&gateway, "named").await;
    for label in ["unknown", "wrong"] {
        let told = told_of(&gateway, label).await;
        assert!(
            told.contains("certificate not trusted, issuer \"CN=rcgen self signed cert\""),
            "{told}"
        );
        assert!(told.contains("nobody vouches for it who is trusted here"), "{told}");
    }
    gateway.finish().await;
}

#[tokio::test]
async fn no_credential_follows_a_redirect() {
    // case P3.
    let (origin, thief) = (Origin::with([refunds()]), Origin::with([refunds()]));
    origin.break_everything(Fault::Redirect(thief.url()));
    let settings = "refresh = \"1s\"\nheaders = { Authorization = \"Bearer s3cret-4711\" }";
    let gateway = Setup::new().origin_with("acme", &origin, settings).start().await;
    let told = told_of(&gateway, "acme").await;
    assert!(told.contains("307"), "{told}");
    assert_eq!(thief.log(), []);
    origin.mend();
    gateway.approve("acme/refunds").await;
    origin.break_method("resources/read", Fault::Redirect(thief.url()));
    let read = gateway.host().read("skill://acme/refunds/SKILL.md").await;
    assert_eq!(read.reason(), "origin-fault");
    assert_eq!(thief.log(), []);
    gateway.finish().await;
}

#[tokio::test]
async fn an_origin_gets_its_own_credential_and_nothing_of_a_hosts() {
    // case P2.
    let (with, without) = (Origin::with([refunds()]), Origin::with([refunds()]));
    let settings = "refresh = \"1s\"\nheaders = { Authorization = \"Bearer its-own\" }";
    let gateway = Setup::new()
        .origin_with("with", &with, settings)
        .origin("without", &without)
        .start()
        .await;
    for label in ["with", "without"] {
        gateway.approve(&format!("{label}/refunds")).await;
        let host = Host::modern(gateway.mcp()).with_token("a-hosts-own");
        host.read(&format!("skill://{label}/refunds/SKILL.md")).await.result();
    }
    let credentials = |origin: &Origin| -> Vec<Option<String>> {
        let log = origin.log();
        assert!(log.iter().any(|asked| asked.method == "resources/read"));
        log.into_iter().map(|asked| asked.authorization).collect()
    };
    assert!(
        credentials(&with)
            .iter()
            .all(|sent| sent.as_deref() == Some("Bearer its-own"))
    );
    assert!(credentials(&without).iter().all(Option::is_none));
    gateway.finish().await;
}
