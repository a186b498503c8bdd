//! `serve` and `stdio`: open, listen, say so, run until told to end, drain.

use std::io::IsTerminal as _;
use std::io::Write as _;
use std::io::stderr;
use std::io::stdout;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use tokio::task::JoinHandle;

use crate::admin;
use crate::admin::Failure;
use crate::admin::Fault;
use crate::cli::StdioOptions;
use crate::clock::Clock;
use crate::config::Config;
use crate::config::Log;
use crate::domain::Label;
use crate::domain::Limits;
use crate::gateway;
use crate::gateway::Gateway;
use crate::gateway::Mode;
use crate::gateway::Witness;
use crate::gateway::WitnessOptions;
use crate::server;
use crate::server::BridgeError;
use crate::server::Doors;
use crate::shutdown::Shutdown;
use crate::telemetry;
use crate::telemetry::chain;
use crate::tls;

/// How long what runs may take to come to its end.
const DRAIN: Duration = Duration::from_secs(15);

/// How long the friendly summary waits for the first answers of the origins.
const FIRST_LOOK: Duration = Duration::from_secs(3);

/// Why the gateway did not run.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The gateway did not open.
    #[error("it cannot open")]
    Open(#[from] Box<gateway::Error>),
    /// A listener did not come about.
    #[error("it cannot listen")]
    Listen(#[from] server::Error),
    /// The admin socket did not come about.
    #[error("the gateway cannot take commands")]
    Socket(#[from] admin::SocketError),
    /// The socket for hosts that start a command did not come about.
    #[error("the gateway cannot take in hosts that start a command")]
    HostSocket(#[from] server::SocketError),
    /// A host cannot be led to the gateway.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    /// There is no such address.
    #[error("{0}")]
    Nowhere(String),
    /// The TLS files cannot be used.
    #[error("the listener's certificate or key cannot be used")]
    Tls(#[from] tls::Error),
    /// Signals cannot be heard, or standard output is closed.
    #[error("the process cannot be set up")]
    Process(#[from] std::io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = chain(&error);
        let fault = match error {
            Error::Open(error) => Self::from(*error).fault,
            Error::Listen(_) | Error::Socket(_) | Error::HostSocket(_) | Error::Tls(_) | Error::Nowhere(_) => {
                Fault::Usage
            }
            Error::Bridge(BridgeError::Refused(_)) => Fault::Usage,
            Error::Bridge(BridgeError::NotRunning(_) | BridgeError::Ended | BridgeError::Io(_)) => Fault::Unknown,
            Error::Process(_) => Fault::Ours,
        };
        Self { fault, message }
    }
}

/// Runs the gateway until SIGTERM or SIGINT. Prints `ready mcp=<url> admin=<url>` once everything listens.
///
/// # Errors
///
/// [`Failure`] when it could not begin.
pub async fn serve(config: Config, mode: Mode) -> Result<(), Failure> {
    Ok(Box::pin(run(&config, mode)).await?)
}

async fn run(config: &Config, mode: Mode) -> Result<(), Error> {
    let shutdown = Shutdown::new();
    shutdown.on_signals()?;
    let tls = config
        .server
        .tls
        .as_ref()
        .map(|files| tls::server_config(&files.cert, &files.key))
        .transpose()?;
    let opened = Box::pin(Gateway::open(config, mode, Clock::system(), shutdown.clone())).await;
    let gateway = opened.map_err(Box::new)?;
    let (mcp, mcp_address) = server::bind(config.server.listen).await?;
    let (health, health_address) = server::bind(config.admin.listen).await?;
    let (doors, sockets) = open_sockets(config, &gateway).await?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let public = if config.audit.publish {
        admin::log_router(&gateway)
    } else {
        Router::new()
    };
    let router = doors.router(&config.server, public);
    let (limits, end) = (config.limits.clone(), shutdown.clone());
    let mcp = shutdown.spawn(async move { server::serve(mcp, tls, router, &limits, end).await });
    let router_of_admin = admin::health_router(&gateway, &config.server.hosts);
    let (limits, end, router) = (config.limits.clone(), shutdown.clone(), router_of_admin);
    let health = shutdown.spawn(async move { server::serve(health, None, router, &limits, end).await });
    start(&gateway);

    let listening = Listening {
        scheme,
        mcp: mcp_address,
        admin: health_address,
    };
    listening.announce()?;
    if stderr().is_terminal() {
        let (gateway, end) = (gateway.clone(), shutdown.clone());
        drop(shutdown.spawn(async move { listening.summarise(&gateway, &end).await }));
    }
    shutdown.begun().await;
    come_to_an_end(config, &gateway, sockets.into_iter().chain([mcp, health])).await;
    Ok(())
}

/// Leads the host that started this process to the running gateway, or is the gateway itself, until the host closes
/// standard input. Standard output carries messages and nothing else.
///
/// # Errors
///
/// [`Failure`] when no gateway runs, or it could not begin.
pub async fn stdio(config: Config, options: StdioOptions) -> Result<(), Failure> {
    let origin = options.origin.as_ref();
    if options.is_standalone {
        Box::pin(run_alone(&config, origin)).await?;
    } else {
        let bridged = server::bridge(&config.mcp_socket(), origin).await;
        bridged.map_err(Error::from)?;
    }
    Ok(())
}

async fn run_alone(config: &Config, origin: Option<&Label>) -> Result<(), Error> {
    let shutdown = Shutdown::new();
    shutdown.on_signals()?;
    let opened = Box::pin(Gateway::open(
        config,
        Mode::default(),
        Clock::system(),
        shutdown.clone(),
    ))
    .await;
    let gateway = opened.map_err(Box::new)?;
    let (doors, sockets) = open_sockets(config, &gateway).await?;
    start(&gateway);
    let served = doors.serve_stdio(origin).await;
    shutdown.begin();
    come_to_an_end(config, &gateway, sockets).await;
    served.map_err(Error::Nowhere)
}

/// Takes commands and hosts' bridges in.
async fn open_sockets(config: &Config, gateway: &Gateway) -> Result<(Doors, [JoinHandle<()>; 2]), Error> {
    let (admin, hosts, people) = (config.admin_socket(), config.mcp_socket(), config.admin.socket);
    for socket in [&admin, &hosts] {
        gateway.clear_socket(socket.clone()).await.map_err(Box::new)?;
    }
    let (admin, hosts) = (admin::bind_socket(&admin, people)?, server::bind_socket(&hosts)?);
    let doors = Doors::new(gateway, config);
    let shutdown = gateway.shutdown();
    let commands = shutdown.spawn(admin::serve_socket(admin, people, gateway.clone()));
    let bridges = shutdown.spawn(doors.clone().serve_socket(hosts));
    Ok((doors, [commands, bridges]))
}

/// Begins what the gateway does by itself.
fn start(gateway: &Gateway) {
    gateway.start_refreshers();
    gateway.start_recording();
    gateway.start_keeping_deliveries();
    gateway.start_timely();
    gateway.start_witnessing();
}

/// Waits for the listeners, then for the record, then for what still runs.
async fn come_to_an_end(config: &Config, gateway: &Gateway, listeners: impl IntoIterator<Item = JoinHandle<()>>) {
    for task in listeners {
        if let Err(error) = task.await {
            tracing::error!(%error, "a listener ended by itself");
        }
    }
    if let Err(error) = gateway.clear_socket(config.mcp_socket()).await {
        tracing::warn!(error = %chain(&error), "the socket for hosts that start a command was left behind");
    }
    // Whatever answers from here on finds no place on the record, and is refused.
    gateway.close_deliveries().await;
    gateway.close_origins().await;
    let drained = gateway.shutdown().drain(DRAIN).await;
    if !drained.all {
        tracing::warn!(left = drained.left, "ended before everything had come to its end");
    }
}

/// Runs a witness of other logs until SIGTERM or SIGINT. Prints its key, then `ready witness=<url>` once it listens.
///
/// # Errors
///
/// [`Failure`] when it could not begin.
pub async fn witness(options: WitnessOptions) -> Result<(), Failure> {
    telemetry::init(&Log::default()).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(Box::pin(run_witness(&options)).await?)
}

async fn run_witness(options: &WitnessOptions) -> Result<(), Error> {
    let shutdown = Shutdown::new();
    shutdown.on_signals()?;
    let opened = Witness::open(options, Clock::system()).await;
    let witness = opened.map_err(Box::new)?;
    let (listener, address) = server::bind(options.listen).await?;
    let (end, router) = (shutdown.clone(), admin::witness_router(&witness));
    let serving = shutdown.spawn(async move { server::serve(listener, None, router, &Limits::default(), end).await });
    {
        let mut out = stdout().lock();
        writeln!(out, "{}\nready witness=http://{address}", witness.key())?;
        out.flush()?;
    }
    shutdown.begun().await;
    if let Err(error) = serving.await {
        tracing::error!(%error, "the listener ended by itself");
    }
    let drained = shutdown.drain(DRAIN).await;
    tracing::debug!(?drained, "the witness ends");
    Ok(())
}

/// Where the gateway listens.
struct Listening {
    scheme: &'static str,
    mcp: SocketAddr,
    admin: SocketAddr,
}

impl Listening {
    /// The line that scripts wait for.
    fn announce(&self) -> Result<(), std::io::Error> {
        let Self { scheme, mcp, admin } = self;
        let mut out = stdout().lock();
        writeln!(out, "ready mcp={scheme}://{mcp}/mcp admin=http://{admin}")?;
        out.flush()
    }

    /// What a person who started the gateway by hand wants to know next.
    async fn summarise(&self, gateway: &Gateway, end: &Shutdown) {
        let looked = async {
            loop {
                let origins = gateway.origins().await;
                if origins.iter().all(|origin| origin.state != "connecting") {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            _ = tokio::time::timeout(FIRST_LOOK, looked) => {}
            () = end.begun() => return,
        }
        let text = self.summary(gateway).await;
        // A terminal that went away needs no summary.
        let _gone = stderr().lock().write_all(text.as_bytes()).is_err();
    }

    async fn summary(&self, gateway: &Gateway) -> String {
        let Self { scheme, mcp, .. } = self;
        let mut text = format!("\n  all origins   {scheme}://{mcp}/mcp\n");
        for origin in gateway.origins().await {
            let error = origin.last_error.map(|error| format!(": {error}")).unwrap_or_default();
            text.push_str(&format!(
                "  {:<13} {scheme}://{mcp}/mcp/{}   {}, {} skills{error}\n",
                origin.label, origin.label, origin.state, origin.skills
            ));
        }
        let summary = gateway.summary();
        text.push_str(&format!(
            "\n  {} skills served, {} waiting for a decision\n",
            summary.served, summary.waiting
        ));
        text.push_str(if summary.waiting > 0 {
            "  next: portcullis skills --state pending, then portcullis show <skill> and approve <skill>\n\n"
        } else {
            "  next: portcullis skills\n\n"
        });
        text
    }
}
