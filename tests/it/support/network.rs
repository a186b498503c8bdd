//! What lies between the gateway and an origin: a proxy, and encryption.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use portcullis::tls;
use rcgen::CertifiedKey;
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::io::copy_bidirectional;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// A certificate of this machine that nobody knows, and its key, as files.
pub(crate) struct Certificate(TempDir);

impl Certificate {
    /// Makes one, valid for 127.0.0.1 and localhost.
    pub(crate) fn new() -> Self {
        let names = ["127.0.0.1", "localhost"].map(str::to_owned);
        let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(names).unwrap();
        let folder = TempDir::new().unwrap();
        super::disk::write(&folder.path().join("cert.pem"), cert.pem().as_bytes());
        super::disk::write(&folder.path().join("key.pem"), signing_key.serialize_pem().as_bytes());
        Self(folder)
    }

    /// The certificate's file.
    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("cert.pem")
    }

    /// The setting that trusts it.
    pub(crate) fn trusted(&self) -> String {
        format!("refresh = \"1s\"\nca = \"{}\"", self.path().display())
    }

    /// The server's side of a connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        drop(super::client::http());
        let config = tls::server_config(&self.path(), &self.0.path().join("key.pem")).unwrap();
        // What is passed on is spoken with as it comes.
        let mut config = (*config).clone();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config).into()
    }

    /// Listens, and passes on to an address what comes encrypted.
    pub(crate) async fn before(&self, plain: SocketAddr) -> Listening {
        let acceptor = self.acceptor();
        Listening::new(move |stream| {
            let acceptor = acceptor.clone();
            async move {
                // One that trusts us not goes away.
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                let mut plain = TcpStream::connect(plain).await.unwrap();
                let _gone = copy_bidirectional(&mut stream, &mut plain).await.is_err();
            }
        })
        .await
    }
}

/// Something that listens until it is dropped.
pub(crate) struct Listening {
    pub(crate) address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Listening {
    /// Listens, and does this with each connection.
    pub(crate) async fn new<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, _tasks: tasks }
    }
}

/// A proxy that notes down the head of each first request.
pub(crate) struct Proxy {
    listening: Listening,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// Starts one.
    pub(crate) async fn new() -> Self {
        let heads = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&heads);
        let listening = Listening::new(move |stream| pass_on(stream, Arc::clone(&noted))).await;
        Self { listening, heads }
    }

    /// Its address, with somebody's name and password.
    pub(crate) fn url(&self, user: &str) -> String {
        format!("http://{user}@{}", self.listening.address)
    }

    /// What was asked of it.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().clone()
    }
}

async fn pass_on(mut stream: TcpStream, heads: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    heads.lock().push(head.clone());
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let to = target.trim_start_matches("http://").split('/').next().unwrap();
    let mut origin = TcpStream::connect(to).await.unwrap();
    if method == "CONNECT" {
        stream.write_all(b"HTTP/1.1 200 OK\r\nvia: x\r\n\r\n").await.unwrap();
    } else {
        // A server takes the whole address as well (RFC 9112 §3.2.2).
        origin.write_all(head.as_bytes()).await.unwrap();
    }
    let _gone = copy_bidirectional(&mut stream, &mut origin).await.is_err();
}
