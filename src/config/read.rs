//! From the tables of the file to the values that run.

use std::collections::BTreeSet;
use std::fs::File as Opened;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::audit::audit;
use super::file::File;
use super::file::Section;
use super::file::line_of;
use super::origin::origin;
use super::people::people;
use super::policy::policy;
use super::policy::rules;
use super::problem::Invalid;
use super::problem::Problem;
use super::shape::Admin;
use super::shape::Auth;
use super::shape::Bridge;
use super::shape::BridgeFor;
use super::shape::BridgedText;
use super::shape::Config;
use super::shape::HostName;
use super::shape::Level;
use super::shape::Log;
use super::shape::LogFormat;
use super::shape::Server;
use super::shape::SocketFor;
use super::shape::Store;
use super::shape::TlsFiles;
use super::sources::Environment;
use super::sources::Sources;
use super::value;
use crate::domain::Limits;

/// The most bytes that a configuration file may have.
const MAX_FILE_BYTES: usize = 1024 * 1024;

/// The shortest wait that means anything.
pub(super) const MOMENT: Duration = Duration::from_millis(1);

/// Host names of a gateway that only its own machine reaches.
const LOCAL_HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

impl Config {
    /// Reads a configuration file, with secrets from the process's environment.
    ///
    /// # Errors
    ///
    /// [`Invalid`] with every problem there is.
    pub fn load(path: &Path) -> Result<Self, Invalid> {
        let environment = |name: &str| std::env::var(name).ok();
        read(&read_bytes(path)?, path, Some(&environment))
    }

    /// Reads a configuration file and leaves every secret empty: for commands that ask a running gateway, which need none
    /// and are often run by somebody who has none.
    ///
    /// # Errors
    ///
    /// [`Invalid`] with every problem there is, but for secrets that cannot be found.
    pub fn load_without_secrets(path: &Path) -> Result<Self, Invalid> {
        read(&read_bytes(path)?, path, None)
    }

    /// Reads the text of a configuration file. Relative paths in it begin at the folder of `path`; secrets come from
    /// `environment`, which tells the value of a variable.
    ///
    /// # Errors
    ///
    /// [`Invalid`] with every problem there is.
    pub fn parse(bytes: &[u8], path: &Path, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, Invalid> {
        read(bytes, path, Some(environment))
    }
}

/// Makes a configuration of the bytes of a file. Without an environment, secrets stay empty.
fn read(bytes: &[u8], path: &Path, environment: Option<&Environment<'_>>) -> Result<Config, Invalid> {
    let text = text_of(bytes, path)?;
    let absolute = std::path::absolute(path)
        .map_err(|why| invalid(path, vec![whole_file(format!("has no absolute path: {why}"))]))?;
    let sources = Sources {
        folder: absolute.parent().unwrap_or(&absolute),
        environment,
    };
    File::new(text)
        .read(|root| config(root, &sources))
        .map_err(|problems| invalid(path, problems))
}

/// What `read` makes of the text of the file at `path`.
pub(super) fn read_text<T>(path: &Path, read: impl FnOnce(&str) -> Result<T, Vec<Problem>>) -> Result<T, Invalid> {
    let bytes = read_bytes(path)?;
    read(text_of(&bytes, path)?).map_err(|problems| invalid(path, problems))
}

/// The text of the file at `path`, of which these are the bytes.
fn text_of<'b>(bytes: &'b [u8], path: &Path) -> Result<&'b str, Invalid> {
    if bytes.len() > MAX_FILE_BYTES {
        return Err(invalid(
            path,
            vec![whole_file(format!("has more than {MAX_FILE_BYTES} bytes"))],
        ));
    }
    std::str::from_utf8(bytes).map_err(|why| {
        let line = Some(line_of(bytes, why.valid_up_to()));
        invalid(
            path,
            vec![Problem {
                line,
                key: String::new(),
                text: "is not UTF-8".to_owned(),
            }],
        )
    })
}

/// Reads a file, and no more of it than shows that it is too long.
fn read_bytes(path: &Path) -> Result<Vec<u8>, Invalid> {
    let mut bytes = Vec::new();
    Opened::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|why| invalid(path, vec![whole_file(format!("cannot be read: {why}"))]))?;
    Ok(bytes)
}

/// The problems of the file at `path`.
fn invalid(path: &Path, problems: Vec<Problem>) -> Invalid {
    Invalid {
        path: path.to_owned(),
        problems,
    }
}

/// A problem of the file as a whole.
fn whole_file(text: String) -> Problem {
    Problem {
        line: None,
        key: String::new(),
        text,
    }
}

/// The root table.
fn config(root: &Section<'_>, sources: &Sources<'_>) -> Config {
    let server = root.table("server", |section| server(section, sources));
    let admin = root.table("admin", |section| admin(section, server.listen, sources));
    let people = people(root);
    let policy = root.table("policy", |section| policy(section, &people));
    let mut taken = BTreeSet::new();
    let origins = root.tables("origin", |section| {
        let origin = origin(section, &people, sources)?;
        if !taken.insert(origin.label.clone()) {
            section.problem(
                "label",
                format!("{:?} is the label of an origin above", origin.label.as_str()),
            );
        }
        Some(origin)
    });
    Config {
        store: root.table("store", |section| store(section, sources)),
        audit: root.table("audit", audit),
        bridge: root.table("bridge", bridge),
        log: root.table("log", log),
        limits: root.table("limits", limits),
        origins: origins.into_iter().flatten().collect(),
        rules: rules(root, &people, &taken),
        server,
        admin,
        people,
        policy,
    }
}

/// `[server]`.
fn server(section: &Section<'_>, sources: &Sources<'_>) -> Server {
    let server = Server {
        listen: section.read("listen", value::address).unwrap_or(Server::LISTEN),
        hosts: section
            .list("hosts", value::host_name)
            .unwrap_or_else(|| LOCAL_HOSTS.map(|name| HostName(name.into())).to_vec()),
        origins: section.list("origins", value::web_origin).unwrap_or_default(),
        auth: section
            .read("auth", value::word(&[("none", Auth::None), ("token", Auth::Token)]))
            .unwrap_or(Auth::None),
        tls: tls_files(section, sources),
        insecure_listen: section.read("insecure_listen", value::flag).unwrap_or(false),
        socket_path: section.read("socket_path", |v| sources.path(v)),
    };
    if server.hosts.is_empty() {
        section.problem("hosts", "is empty; no request would be accepted".to_owned());
    }
    if !server.is_guarded() && !server.insecure_listen {
        let text = format!(
            "{} can be reached from elsewhere; that needs tls and auth = \"token\", or insecure_listen = true",
            server.listen
        );
        section.problem("listen", text);
    }
    server
}

/// `[bridge]`.
fn bridge(section: &Section<'_>) -> Bridge {
    let hosts = [
        ("auto", BridgeFor::Others),
        ("on", BridgeFor::All),
        ("off", BridgeFor::None),
    ];
    let texts = [("body", BridgedText::Body), ("file", BridgedText::File)];
    let standard = Bridge::default();
    Bridge {
        offer: section.read("offer", value::word(&hosts)).unwrap_or(standard.offer),
        catalog_tokens: section
            .read("catalog_tokens", value::count(100))
            .unwrap_or(standard.catalog_tokens),
        dedupe: section.read("dedupe", value::flag).unwrap_or(standard.dedupe),
        text: section.read("text", value::word(&texts)).unwrap_or(standard.text),
    }
}

/// `server.tls`, of which both files are needed.
fn tls_files(section: &Section<'_>, sources: &Sources<'_>) -> Option<TlsFiles> {
    section.table("tls", |tls| {
        let file = |key| tls.require(key, |v| sources.path(v));
        let (cert, key) = (file("cert"), file("key"));
        Some(TlsFiles { cert: cert?, key: key? })
    })
}

/// `[admin]`.
fn admin(section: &Section<'_>, server: SocketAddr, sources: &Sources<'_>) -> Admin {
    let listen = section.read("listen", value::address).unwrap_or(Admin::LISTEN);
    if collide(listen, server) {
        section.problem(
            "listen",
            format!("{listen} is taken by server.listen; operators have a listener of their own"),
        );
    }
    let socket = section
        .read(
            "socket",
            value::word(&[("owner", SocketFor::Owner), ("people", SocketFor::People)]),
        )
        .unwrap_or(SocketFor::Owner);
    let socket_path = section.read("socket_path", |v| sources.path(v));
    if socket == SocketFor::People && !section.has("socket_path") {
        let text = "is \"people\", and nobody else reaches a socket in the data folder; name a socket_path";
        section.problem("socket", text.to_owned());
    }
    Admin {
        listen,
        socket,
        socket_path,
    }
}

/// Whether two listeners want the same address. Port 0 is a port of its own each time.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let same_ip = one.ip().to_canonical() == other.ip().to_canonical();
    let everywhere = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && (same_ip || everywhere)
}

/// `[store]`.
fn store(section: &Section<'_>, sources: &Sources<'_>) -> Store {
    Store {
        data_dir: section
            .read("data_dir", |v| sources.path(v))
            .unwrap_or_else(|| sources.folder.join("data")),
        allow_unsafe_location: section.read("allow_unsafe_location", value::flag).unwrap_or(false),
    }
}

/// `[log]`.
fn log(section: &Section<'_>) -> Log {
    let levels = [
        ("error", Level::Error),
        ("warn", Level::Warn),
        ("info", Level::Info),
        ("debug", Level::Debug),
        ("trace", Level::Trace),
    ];
    let formats = [("human", LogFormat::Human), ("json", LogFormat::Json)];
    Log {
        level: section.read("level", value::word(&levels)).unwrap_or(Level::Info),
        format: section
            .read("format", value::word(&formats))
            .unwrap_or(LogFormat::Human),
    }
}

/// `[limits]`. Two caches may be nothing; any other bound of nothing would stop the gateway.
fn limits(section: &Section<'_>) -> Limits {
    let standard = Limits::default();
    let count = |key, standard| section.read(key, value::count(1)).unwrap_or(standard);
    let buffer = |key, standard| section.read(key, value::size(1_usize)).unwrap_or(standard);
    let bytes = |key, least, standard| section.read(key, value::size::<u64>(least)).unwrap_or(standard);
    Limits {
        skill_files: count("skill_files", standard.skill_files),
        skill_bytes: bytes("skill_bytes", 1, standard.skill_bytes),
        entry_bytes: buffer("entry_bytes", standard.entry_bytes),
        listing_entries: count("listing_entries", standard.listing_entries),
        listing_pages: count("listing_pages", standard.listing_pages),
        listing_bytes: buffer("listing_bytes", standard.listing_bytes),
        answer_bytes: buffer("answer_bytes", standard.answer_bytes),
        fetches_per_origin: count("fetches_per_origin", standard.fetches_per_origin),
        memory_cache_bytes: bytes("memory_cache_bytes", 0, standard.memory_cache_bytes),
        quarantine_bytes: bytes("quarantine_bytes", 0, standard.quarantine_bytes),
        content_bytes: bytes("content_bytes", 1, standard.content_bytes),
        page_entries: count("page_entries", standard.page_entries),
        page_bytes: buffer("page_bytes", standard.page_bytes),
        connections: count("connections", standard.connections),
        request_bytes: buffer("request_bytes", standard.request_bytes),
        request_time: section
            .read("request_time", value::duration(MOMENT))
            .unwrap_or(standard.request_time),
        sessions: count("sessions", standard.sessions),
        session_idle: section
            .read("session_idle", value::duration(MOMENT))
            .unwrap_or(standard.session_idle),
    }
}
