//! The proxy between the gateway and an origin, where the environment names one (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`).
//!
//! For HTTP the client does all of this itself; a WebSocket goes through a tunnel made here.

use ::http::Uri;
use ::http::header::HeaderValue;
use hyper_util::client::proxy::matcher::Intercept;
use hyper_util::client::proxy::matcher::Matcher;
use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::Error;

/// Bytes of a proxy's answer.
const ANSWER: usize = 8 * 1024;

/// A proxy that makes tunnels.
pub(super) struct Proxy(Intercept);

/// The proxy for a WebSocket's address, chosen as for the web address with the same host.
pub(super) fn for_websocket(uri: &Uri) -> Option<Proxy> {
    let scheme = match uri.scheme_str() {
        Some("wss") => "https",
        _ => "http",
    };
    let same = Uri::builder()
        .scheme(scheme)
        .authority(uri.authority()?.as_str())
        .path_and_query("/")
        .build()
        .ok()?;
    Matcher::from_env().intercept(&same).map(Proxy)
}

impl Proxy {
    /// Connects through it.
    pub(super) async fn tunnel(&self, host: &str, port: u16) -> Result<TcpStream, Error> {
        let proxy = self.0.uri();
        let failed = |why: &dyn std::fmt::Display| Error::Unreachable(format!("through the proxy: {why}"));
        if proxy.scheme_str().is_some_and(|scheme| scheme != "http") {
            return Err(failed(&"a proxy for a WebSocket has to be an http: one"));
        }
        let name = proxy.host().unwrap_or_default().trim_matches(['[', ']']);
        let mut stream = TcpStream::connect((name, proxy.port_u16().unwrap_or(80)))
            .await
            .map_err(|error| failed(&error))?;
        let target = if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n").into_bytes();
        if let Some(credential) = self.0.basic_auth().map(HeaderValue::as_bytes) {
            request.extend_from_slice(b"proxy-authorization: ");
            request.extend_from_slice(credential);
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        stream.write_all(&request).await.map_err(|error| failed(&error))?;
        let status = answer(&mut stream).await.map_err(|error| failed(&error))?;
        match status.as_str() {
            "200" => Ok(stream),
            other => Err(failed(&format!("it answers CONNECT with {other:?}"))),
        }
    }
}

/// The status of a proxy's answer; not one byte behind its head is read, since that is the tunnel's.
async fn answer(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == ANSWER {
            return Err(std::io::Error::other("its answer is too long"));
        }
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    Ok(head.split_whitespace().nth(1).unwrap_or_default().to_owned())
}
