//! Sockets: accept within a bound, TLS, time limits, and a drain that lets what runs come to its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::server::conn::http2;
use hyper_util::rt::TokioExecutor;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use hyper_util::service::TowerToHyperService;
use thiserror::Error;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use crate::domain::Limits;
use crate::gateway::Caller;
use crate::shutdown::Shutdown;

/// Bytes of a request's head.
const HEAD_BYTES: usize = 64 * 1024;

/// Header fields of a request.
const MAX_HEADERS: usize = 100;

/// How long accepting rests after the system refused a socket (too many open files).
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// How long connections may take to come to their end in a drain.
const DRAIN: Duration = Duration::from_secs(10);

/// The place of a connection among those that there may be. A connection that became something else than HTTP keeps it.
#[derive(Clone)]
pub(super) struct Place {
    /// Given back with the last clone.
    _place: Arc<OwnedSemaphorePermit>,
}

/// Why a listener did not come about.
#[derive(Debug, Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// Takes an address; port 0 takes a free one.
///
/// # Errors
///
/// [`enum@Error`] when the address is taken or not ours.
pub async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let bound = async {
        let listener = TcpListener::bind(address).await?;
        let local = listener.local_addr()?;
        Ok((listener, local))
    };
    bound.await.map_err(|source| Error::Bind { address, source })
}

/// Runs a pinned connection, which comes to its end in good order once the end of the process begins. The two protocols'
/// connections have no trait in common.
macro_rules! run_to_its_end {
    ($connection:ident, $end:ident) => {
        let ended = tokio::select! {
            ended = $connection.as_mut() => ended,
            () = $end.begun() => {
                $connection.as_mut().graceful_shutdown();
                $connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    };
}

/// Serves `router` on `listener` until the end begins, then waits for what runs.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    router: Router,
    limits: &Limits,
    shutdown: Shutdown,
) {
    let acceptor = tls.map(TlsAcceptor::from);
    let places = Arc::new(Semaphore::new(limits.connections));
    let protocols = Arc::new(Protocols::new(limits));
    loop {
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place,
            () = shutdown.begun() => break,
        };
        let Some((socket, caller)) = next(&listener, &shutdown).await else {
            break;
        };
        let (protocols, router, acceptor) = (Arc::clone(&protocols), router.clone(), acceptor.clone());
        let (time, end) = (limits.request_time, shutdown.clone());
        let Ok(place) = place else { break };
        let place = Place {
            _place: Arc::new(place),
        };
        drop(shutdown.spawn(async move {
            let Some(secured) = Secured::new(socket, acceptor, time).await else {
                return;
            };
            // Who asks is known before the router is: without a token it is whoever has this address.
            let service = TowerToHyperService::new(router.map_request(move |mut request: http::Request<Incoming>| {
                request.extensions_mut().insert(caller.clone());
                request.extensions_mut().insert(place.clone());
                request
            }));
            let stream = TokioIo::new(secured.stream);
            if secured.is_http2 {
                let mut connection = std::pin::pin!(protocols.http2.serve_connection(stream, service));
                run_to_its_end!(connection, end);
            } else {
                let connection = protocols.http1.serve_connection(stream, service);
                let mut connection = std::pin::pin!(connection.with_upgrades());
                run_to_its_end!(connection, end);
            }
        }));
    }
    drop(listener);
    // Each connection holds its place until it has come to its end.
    let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    if tokio::time::timeout(DRAIN, places.acquire_many(all)).await.is_err() {
        tracing::warn!("connections were still open when the drain ended");
    }
}

/// The next connection, and who makes it; nothing once the end begins.
async fn next(listener: &TcpListener, shutdown: &Shutdown) -> Option<(TcpStream, Caller)> {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.begun() => return None,
        };
        match accepted {
            Ok((socket, peer)) => return Some((socket, Caller::at(peer.ip()))),
            Err(error) => {
                tracing::warn!(%error, "no connection could be accepted");
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    }
}

/// How each of the two protocols is served. Which one it is was agreed on in the TLS handshake, never guessed from the
/// first bytes: a guess would wait for them without end.
struct Protocols {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

impl Protocols {
    fn new(limits: &Limits) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(limits.request_time)
            .max_buf_size(HEAD_BYTES)
            .max_headers(MAX_HEADERS);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(HEAD_BYTES).unwrap_or(u32::MAX))
            .keep_alive_interval(limits.request_time)
            .keep_alive_timeout(limits.request_time);
        Self { http1, http2 }
    }
}

/// Either kind of stream.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection that may speak HTTP.
struct Secured {
    stream: Box<dyn Stream>,
    is_http2: bool,
}

impl Secured {
    /// The socket without Nagle's delay, with a bound on how long a reader may not take what it asked for, and TLS if wanted.
    async fn new(socket: TcpStream, acceptor: Option<TlsAcceptor>, time: Duration) -> Option<Self> {
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "a socket keeps its delay");
        }
        let mut socket = TimeoutStream::new(socket);
        socket.set_write_timeout(Some(time));
        let socket = Box::pin(socket);
        let Some(acceptor) = acceptor else {
            return Some(Self {
                stream: Box::new(socket),
                is_http2: false,
            });
        };
        let mut stream = match tokio::time::timeout(time, acceptor.accept(socket)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                return None;
            }
            Err(_elapsed) => return None,
        };
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if is_http2 {
            // A live peer answers the pings, so that only a dead or a silent one is quiet for so long.
            stream
                .get_mut()
                .0
                .as_mut()
                .set_read_timeout_pinned(Some(time.saturating_mul(2)));
        }
        Some(Self {
            stream: Box::new(stream),
            is_http2,
        })
    }
}
