//! The values that run, table by table.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use reqwest::Url;
use serde::Serialize;
use serde::Serializer;

use super::audit::Audit;
use super::people::People;
use super::secret::Secret;
use crate::domain::Label;
use crate::domain::Limits;
use crate::domain::Policies;
use crate::domain::policy::Keys;
use crate::domain::policy::Rule;

/// Everything that `proxy.toml` decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `[server]`: the listener towards hosts.
    pub server: Server,
    /// `[admin]`: the listener towards operators.
    pub admin: Admin,
    /// `[store]`: where the data lies.
    pub store: Store,
    /// `[policy]`: what holds for an origin that says nothing else.
    pub policy: Keys,
    /// `[[rule]]`: what holds for some skills, in the order of the file. No two have the same name.
    pub rules: Vec<Rule>,
    /// `[[person]]`: whose word counts where several are needed.
    pub people: People,
    /// `[audit]`: the log towards others, and the record of who received what.
    pub audit: Audit,
    /// `[bridge]`: skills for hosts without the extension.
    pub bridge: Bridge,
    /// `[log]`: log lines.
    pub log: Log,
    /// `[limits]`: bounds on what outsiders can make grow.
    pub limits: Limits,
    /// `[[origin]]`: the origins, in the order of the file. No two have the same label.
    pub origins: Vec<OriginConfig>,
}

/// `[server]`: the MCP listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Server {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Host names that a request may be meant for, against DNS rebinding; at least one.
    pub hosts: Vec<HostName>,
    /// Web pages that may ask from a browser; a request with any other `Origin` is refused.
    pub origins: Vec<WebOrigin>,
    /// Who may ask.
    pub auth: Auth,
    /// Certificate and key; without them the listener speaks plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Whether an address that others can reach may do without TLS or tokens.
    pub insecure_listen: bool,
    /// Where the socket for hosts that start a command is, as an absolute path; without it, `mcp.sock` in the data folder.
    pub socket_path: Option<PathBuf>,
}

/// Who may ask for skills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Auth {
    /// Whoever reaches the listener.
    None,
    /// Whoever sends a token that `portcullis token new` made.
    Token,
}

/// The files of a TLS listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TlsFiles {
    /// PEM file with the certificate and its chain.
    pub cert: PathBuf,
    /// PEM file with the private key.
    pub key: PathBuf,
}

/// `[admin]`: the operators' listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Admin {
    /// Address and port; never the one of [`Server::listen`]. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Whose commands the socket takes.
    pub socket: SocketFor,
    /// Where the socket is, as an absolute path; without it, `admin.sock` in the data folder.
    pub socket_path: Option<PathBuf>,
}

/// `[bridge]`: skills as tools and prompts, for hosts that do not speak the extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bridge {
    /// Which hosts are offered it.
    pub offer: BridgeFor,
    /// About how many tokens the list of skills may take, at four bytes a token.
    pub catalog_tokens: usize,
    /// Whether a skill that a conversation has already is not given to it again.
    pub dedupe: bool,
    /// What a model is given of a skill.
    pub text: BridgedText,
}

impl Default for Bridge {
    fn default() -> Self {
        Self {
            offer: BridgeFor::Others,
            catalog_tokens: 4_000,
            dedupe: true,
            text: BridgedText::Body,
        }
    }
}

/// Which hosts are offered the bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum BridgeFor {
    /// Those that do not say that they speak the extension.
    Others,
    /// All.
    All,
    /// None.
    None,
}

/// What a model is given of a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum BridgedText {
    /// What follows its frontmatter.
    Body,
    /// The whole file.
    File,
}

/// Whose commands the socket takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SocketFor {
    /// The gateway's own user; the file belongs to nobody else.
    Owner,
    /// The gateway's own user and everybody listed with a uid; anybody can knock.
    People,
}

/// `[store]`: the data folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Store {
    /// The folder, as an absolute path.
    pub data_dir: PathBuf,
    /// Whether the folder may lie where hosts look for skills, or on a network file system (design §6).
    pub allow_unsafe_location: bool,
}

/// `[log]`: log lines on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Log {
    /// The least urgent lines that are written; `RUST_LOG` stands in for it.
    pub level: Level,
    /// How a line looks.
    pub format: LogFormat,
}

/// How urgent a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Level {
    /// Something is broken.
    Error,
    /// Somebody should look.
    Warn,
    /// Something happened.
    Info,
    /// How it happened.
    Debug,
    /// Every step.
    Trace,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum LogFormat {
    /// Text for people.
    Human,
    /// One JSON object a line.
    Json,
}

/// `[[origin]]`: an upstream server, or a folder, under the label that we give it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OriginConfig {
    /// The label, unique in the file.
    pub label: Label,
    /// Where it is.
    pub address: Address,
    /// Time between two listings; at least a second.
    pub refresh: Duration,
    /// The longest time between two listings that the origin's own `ttlMs` may ask for; at least `refresh`.
    pub refresh_max: Duration,
    /// The longest that one request may take.
    pub timeout: Duration,
    /// The longest that connecting may take.
    pub connect_timeout: Duration,
    /// The longest that a whole listing, or the fetch of one file, may take with all its requests.
    pub total: Duration,
    /// Header fields sent with every request. None of them is the transport's own.
    #[serde(serialize_with = "names_alone")]
    pub headers: Vec<(HeaderName, Secret)>,
    /// PEM file with the certificate authority to trust instead of the system's.
    pub ca: Option<PathBuf>,
    /// Variables that are set for its program alone.
    #[serde(serialize_with = "names_alone")]
    pub env: Vec<(String, Secret)>,
    /// What is put right although the extension requires it of the origin.
    pub repair: Vec<Repair>,
    /// What of it reaches hosts.
    pub pass: Pass,
    /// What it says of its skills.
    pub policy: Keys,
}

/// What of an origin reaches hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pass {
    /// The kinds of things.
    pub kinds: BTreeSet<Passed>,
    /// Which definitions of tools.
    pub tools: PassTools,
    /// Whether its `instructions` do too, which nobody approves.
    pub instructions: bool,
}

/// A kind of thing that an origin may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Passed {
    /// Skills, once they are approved.
    Skills,
    /// Tools.
    Tools,
    /// Prompts.
    Prompts,
    /// Resources that belong to no skill, and templates of them.
    Resources,
    /// Completions of prompts' and templates' arguments.
    Completions,
}

/// Which definitions of tools reach hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum PassTools {
    /// Those that were approved.
    Approved,
    /// Whatever the origin says at the time.
    AsIs,
}

impl Pass {
    /// Says whether a kind of thing reaches hosts.
    pub fn passes(&self, kind: Passed) -> bool {
        self.kinds.contains(&kind)
    }

    /// Says whether anything but skills does.
    pub fn passes_more(&self) -> bool {
        self.kinds.iter().any(|kind| *kind != Passed::Skills)
    }
}

/// Where an origin is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Address {
    /// An MCP server over Streamable HTTP: `http` or `https`, without user, password and fragment.
    #[serde(serialize_with = "as_text")]
    Http(Url),
    /// An MCP server over a WebSocket: `ws` or `wss`, without user, password and fragment.
    #[serde(serialize_with = "as_text")]
    WebSocket(Url),
    /// An MCP server that the gateway runs itself and speaks with over standard input and output.
    Program(Program),
    /// A folder of skills, as an absolute path.
    Folder(PathBuf),
    /// Folders of skills, each before those that it goes before; at least one.
    Folders(Vec<SkillFolder>),
}

/// One of several folders of skills.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillFolder {
    /// What its skills' URIs begin with; unique in the origin.
    pub name: Label,
    /// Where it is, as an absolute path.
    pub path: PathBuf,
    /// Whether it belongs to a project, and so says what whoever wrote the project wants.
    pub project: bool,
    /// Whether the operator trusts the project.
    pub trusted: bool,
}

/// A program that is an MCP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Program {
    /// The program and its arguments, none of which is a secret; at least one.
    pub command: Vec<String>,
    /// Where it runs, as an absolute path: the folder of the file unless that says otherwise.
    pub cwd: PathBuf,
    /// Whether the file says otherwise.
    pub has_own_cwd: bool,
}

/// A departure from the extension that the gateway makes good by its own work (design §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Repair {
    /// Entries without sizes: every file is fetched once to measure it.
    Size,
}

/// A name that a request's `Host` may bear: lower case, without a port, IPv6 in brackets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct HostName(pub(super) Box<str>);

/// The `Origin` that a browser sends for a web page: scheme, host and port as browsers write them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct WebOrigin(pub(super) Box<str>);

impl Config {
    /// Everything that is said of skills.
    pub fn policies(&self) -> Policies {
        let of_origin = |origin: &OriginConfig| (origin.label.clone(), origin.policy.clone());
        Policies {
            standard: self.policy.clone(),
            origins: self.origins.iter().map(of_origin).collect(),
            rules: self.rules.clone(),
        }
    }

    /// Where the socket for operators' commands is.
    pub fn admin_socket(&self) -> PathBuf {
        let own = || self.store.data_dir.join("admin.sock");
        self.admin.socket_path.clone().unwrap_or_else(own)
    }

    /// Where the socket for hosts that start a command is.
    pub fn mcp_socket(&self) -> PathBuf {
        let own = || self.store.data_dir.join("mcp.sock");
        self.server.socket_path.clone().unwrap_or_else(own)
    }
}

impl Server {
    /// Where hosts find the gateway unless the file says otherwise.
    pub(super) const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8788);

    /// Whether only this machine reaches the listener, or what reaches it comes encrypted and with a token.
    pub(super) fn is_guarded(&self) -> bool {
        let alone = self.listen.ip().to_canonical().is_loopback();
        alone || (self.tls.is_some() && self.auth == Auth::Token)
    }
}

impl Default for Log {
    /// What holds without a file.
    fn default() -> Self {
        Self {
            level: Level::Info,
            format: LogFormat::Human,
        }
    }
}

impl Admin {
    /// Where operators find the gateway unless the file says otherwise.
    pub(super) const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8789);
}

impl OriginConfig {
    /// The address as text, for the origin's fingerprint (design §7): the URL, the command line, or the absolute paths of
    /// the folders. It holds no secret, since those stand in `headers` and `env` only.
    pub fn fingerprint_text(&self) -> String {
        match &self.address {
            Address::Http(url) | Address::WebSocket(url) => url.as_str().to_owned(),
            Address::Program(program) => program.line(),
            Address::Folder(path) => path.display().to_string(),
            Address::Folders(folders) => {
                let told = folders.iter().map(|folder| {
                    let path = quoted(&folder.path.display().to_string());
                    format!(" {}={path}", folder.name)
                });
                format!("folders{}", told.collect::<String>())
            }
        }
    }
}

impl Program {
    /// The command as a line that no folder, no URL and no other command has: what is not plain stands in quotes.
    fn line(&self) -> String {
        let words: Vec<_> = self.command.iter().map(|word| quoted(word)).collect();
        let mut line = format!("run {}", words.join(" "));
        if self.has_own_cwd {
            line.push_str(&format!(" in {}", quoted(&self.cwd.display().to_string())));
        }
        line
    }
}

/// The word as a shell takes it for one.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

impl SkillFolder {
    /// Says whether nothing of it is published until the operator trusts its project.
    pub fn is_held(&self) -> bool {
        self.project && !self.trusted
    }
}

impl HostName {
    /// The name as it is compared.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl WebOrigin {
    /// The origin as browsers write it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A configuration that is told of has its secrets left out: not even their digests could be guessed at.
fn names_alone<N: AsRef<str>, S: Serializer>(secrets: &[(N, Secret)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(secrets.iter().map(|(name, _)| name.as_ref()))
}

/// Writes a value as it prints itself.
pub(super) fn as_text<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
