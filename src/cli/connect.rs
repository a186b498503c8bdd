//! `connect`: what to paste into a host's configuration, with this gateway's own address in it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use clap::ValueEnum;
use serde_json::Value;
use serde_json::json;

use super::output::Output;
use super::output::write;
use crate::admin::Failure;
use crate::config::Auth;
use crate::config::Config;
use crate::config::Server;
use crate::domain::Label;
use crate::domain::quoted;

/// What the gateway is called in a host's configuration, unless it stands for one origin.
const NAME: &str = "portcullis";

/// The variable of the environment that a token is taken from.
const TOKEN: &str = "PORTCULLIS_TOKEN";

/// Prints what to paste into a host's configuration.
#[derive(Debug, Args)]
pub(super) struct Connect {
    /// The host; without it, those that are known are listed.
    host: Option<Host>,
    /// Only this origin, under its own names.
    #[arg(long, value_name = "LABEL")]
    origin: Option<Label>,
    /// Have the host start `portcullis stdio`, instead of asking over HTTP.
    #[arg(long)]
    stdio: bool,
}

/// A host whose configuration is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Host {
    /// Claude Code.
    ClaudeCode,
    /// Claude Desktop, which starts commands.
    ClaudeDesktop,
    /// Codex.
    Codex,
    /// VS Code.
    Vscode,
    /// Cursor.
    Cursor,
    /// goose.
    Goose,
    /// fast-agent.
    FastAgent,
    /// Gemini CLI.
    GeminiCli,
    /// ChatGPT, which asks over HTTPS.
    Chatgpt,
    /// The MCP Inspector.
    Inspector,
}

/// The way in that a host is given.
enum Way {
    /// It asks at a URL, with a token if it needs one.
    Http { url: String, needs_token: bool },
    /// It starts a command.
    Command { program: String, arguments: Vec<String> },
}

/// What to paste, and where.
struct Told {
    place: &'static str,
    text: String,
}

impl Connect {
    /// Does it, and gives the exit code.
    pub(super) fn run(&self, config: &Config, file: &Path, output: &Output) -> Result<ExitCode, Failure> {
        let Some(host) = self.host else {
            return list(output);
        };
        if let Some(origin) = &self.origin
            && !config.origins.iter().any(|known| known.label == *origin)
        {
            return Err(Failure::no(format!("no origin has the label {origin}")));
        }
        let way = if self.stdio || host == Host::ClaudeDesktop {
            self.command(file)?
        } else {
            self.http(&config.server, host)?
        };
        let name = self.origin.as_ref().map_or(NAME, Label::as_str);
        let told = host.told(name, &way)?;
        let text = if output.is_json() {
            let value = json!({ "host": host.name(), "place": told.place, "text": told.text });
            format!("{value}\n")
        } else {
            format!("{}:\n\n{}\n{}", told.place, told.text, way.afterword())
        };
        write(text.as_bytes()).map(|()| ExitCode::SUCCESS)
    }

    fn command(&self, file: &Path) -> Result<Way, Failure> {
        let ours = |error: std::io::Error| Failure::ours(error.to_string());
        let program = std::env::current_exe().map_err(ours)?.display().to_string();
        let file = std::path::absolute(file).map_err(ours)?.display().to_string();
        let mut arguments = vec!["--config".to_owned(), file, "stdio".to_owned()];
        if let Some(origin) = &self.origin {
            arguments.extend(["--origin".to_owned(), origin.to_string()]);
        }
        Ok(Way::Command { program, arguments })
    }

    fn http(&self, server: &Server, host: Host) -> Result<Way, Failure> {
        if server.listen.port() == 0 {
            let words = "server.listen takes a free port at each start, so that nothing can be pasted that lasts; name a port, or use --stdio";
            return Err(Failure::no(words.to_owned()));
        }
        let scheme = if server.tls.is_some() { "https" } else { "http" };
        let view = match (&self.origin, host) {
            (None, _) => "mcp".to_owned(),
            // It puts another /mcp behind any path that ends otherwise, unless there is a query.
            (Some(origin), Host::FastAgent) => format!("mcp/{origin}?own"),
            (Some(origin), _) => format!("mcp/{origin}"),
        };
        Ok(Way::Http {
            url: format!("{scheme}://{}:{}/{view}", host_of(server), server.listen.port()),
            needs_token: server.auth == Auth::Token,
        })
    }
}

/// The name that hosts find the gateway under: its own address, or where that is everywhere, the first name that it answers
/// to and others know.
fn host_of(server: &Server) -> String {
    let own = |address: SocketAddr| match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    };
    let is_named = server.tls.is_some() || server.listen.ip().is_unspecified();
    let is_local = |name: &str| ["127.0.0.1", "localhost", "[::1]"].contains(&name);
    let mut names = server.hosts.iter().map(|host| host.as_str());
    let named = names.find(|name| is_named && !is_local(name));
    match named {
        Some(name) => name.to_owned(),
        None if server.listen.ip().is_unspecified() => "127.0.0.1".to_owned(),
        None => own(server.listen),
    }
}

/// Lists the hosts that are known.
fn list(output: &Output) -> Result<ExitCode, Failure> {
    let names: Vec<&str> = Host::value_variants().iter().map(|host| host.name()).collect();
    let text = if output.is_json() {
        format!("{}\n", json!(names))
    } else {
        format!(
            "{}\n\nportcullis connect <host> [--origin LABEL] [--stdio]\n",
            names.join("\n")
        )
    };
    write(text.as_bytes()).map(|()| ExitCode::SUCCESS)
}

impl Way {
    fn afterword(&self) -> &'static str {
        match self {
            Self::Http { needs_token: true, .. } => {
                "\nMake a token with: portcullis token new NAME, and put it where PORTCULLIS_TOKEN stands.\n"
            }
            Self::Http { needs_token: false, .. } => "",
            Self::Command { .. } => "\nThe gateway has to run: portcullis serve. Without one, add --standalone.\n",
        }
    }

    /// The members that most hosts have in JSON; `token` is how one writes a variable of the environment.
    fn json(&self, url: &str, token: &str) -> Value {
        match self {
            Self::Http {
                url: address,
                needs_token,
            } => {
                let mut server = json!({ url: address });
                if let (true, Some(server)) = (*needs_token, server.as_object_mut()) {
                    let headers = json!({ "Authorization": format!("Bearer {token}") });
                    server.insert("headers".to_owned(), headers);
                }
                server
            }
            Self::Command { program, arguments } => json!({ "command": program, "args": arguments }),
        }
    }

    /// As one line of a shell, with these words for what asks over HTTP.
    fn shell(&self, flags: &str) -> String {
        match self {
            Self::Http { url, needs_token: true } => {
                format!("{flags} {url} --header \"Authorization: Bearer ${TOKEN}\"")
            }
            Self::Http {
                url,
                needs_token: false,
            } => format!("{flags} {url}"),
            Self::Command { program, arguments } => {
                let words = std::iter::once(program).chain(arguments);
                words.map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

/// A word as a shell reads it.
fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A list as TOML, YAML and JSON write it.
fn list_text(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("[{}]", words.join(", "))
}

impl Host {
    fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Codex => "codex",
            Self::Vscode => "vscode",
            Self::Cursor => "cursor",
            Self::Goose => "goose",
            Self::FastAgent => "fast-agent",
            Self::GeminiCli => "gemini-cli",
            Self::Chatgpt => "chatgpt",
            Self::Inspector => "inspector",
        }
    }

    /// What to paste, and where.
    fn told(self, name: &str, way: &Way) -> Result<Told, Failure> {
        let environment = format!("${{{TOKEN}}}");
        let pretty = |value: Value| serde_json::to_string_pretty(&value).unwrap_or_default();
        let servers = |server: Value| pretty(json!({ "mcpServers": { name: server } }));
        let told = |place, text| Ok(Told { place, text });
        match (self, way) {
            (Self::ClaudeCode, Way::Http { .. }) => {
                let line = way.shell(&format!("claude mcp add --transport http {name}"));
                told("In a terminal", format!("{line}\n"))
            }
            (Self::ClaudeCode, Way::Command { .. }) => {
                told("In a terminal", format!("claude mcp add {name} -- {}\n", way.shell("")))
            }
            (Self::ClaudeDesktop, _) => told("claude_desktop_config.json", servers(way.json("url", &environment))),
            (Self::Codex, _) => told("~/.codex/config.toml", codex(name, way)),
            (Self::Vscode, _) => told(".vscode/mcp.json", pretty(vscode(name, way))),
            (Self::Cursor, _) => {
                let token = format!("${{env:{TOKEN}}}");
                told(".cursor/mcp.json", servers(way.json("url", &token)))
            }
            (Self::Goose, _) => told("~/.config/goose/config.yaml", goose(name, way)),
            (Self::FastAgent, _) => told("fastagent.config.yaml", fast_agent(name, way)),
            (Self::GeminiCli, _) => told("~/.gemini/settings.json", servers(way.json("httpUrl", &environment))),
            (Self::Chatgpt, Way::Http { url, needs_token: false }) if url.starts_with("https:") => told(
                "In ChatGPT, Settings, Apps & Connectors, Create (developer mode)",
                format!("Name: {name}\nMCP server URL: {url}\nAuthentication: none\n"),
            ),
            (Self::Chatgpt, _) => Err(Failure::no(
                "ChatGPT asks from elsewhere, over https, and shows no tokens made here: it needs tls, an address that it reaches, and something in front that signs its users in".to_owned(),
            )),
            (Self::Inspector, Way::Http { .. }) => {
                let line = way.shell("npx @modelcontextprotocol/inspector --transport http --server-url");
                told("In a terminal", format!("{line}\n"))
            }
            (Self::Inspector, Way::Command { .. }) => told(
                "In a terminal",
                format!("npx @modelcontextprotocol/inspector -- {}\n", way.shell("")),
            ),
        }
    }
}

fn codex(name: &str, way: &Way) -> String {
    let rest = match way {
        Way::Http { url, needs_token } => {
            let token = if *needs_token {
                format!("bearer_token_env_var = {}\n", quoted(TOKEN))
            } else {
                String::new()
            };
            format!("url = {}\n{token}", quoted(url))
        }
        Way::Command { program, arguments } => {
            format!("command = {}\nargs = {}\n", quoted(program), list_text(arguments))
        }
    };
    format!("[mcp_servers.{name}]\n{rest}")
}

fn vscode(name: &str, way: &Way) -> Value {
    let mut server = way.json("url", "${input:portcullis-token}");
    let (kind, needs_token) = match way {
        Way::Http { needs_token, .. } => ("http", *needs_token),
        Way::Command { .. } => ("stdio", false),
    };
    if let Some(server) = server.as_object_mut() {
        server.insert("type".to_owned(), json!(kind));
    }
    let mut file = json!({ "servers": { name: server } });
    if let (true, Some(file)) = (needs_token, file.as_object_mut()) {
        let input = json!({
            "type": "promptString", "id": "portcullis-token", "description": "Portcullis token", "password": true,
        });
        file.insert("inputs".to_owned(), json!([input]));
    }
    file
}

fn goose(name: &str, way: &Way) -> String {
    let rest = match way {
        Way::Http { url, needs_token } => {
            let headers = if *needs_token {
                format!("    headers:\n      Authorization: \"Bearer ${{{TOKEN}}}\"\n    env_keys: [{TOKEN}]\n")
            } else {
                String::new()
            };
            format!("    type: streamable_http\n    uri: {}\n{headers}", quoted(url))
        }
        Way::Command { program, arguments } => {
            let (program, arguments) = (quoted(program), list_text(arguments));
            format!("    type: stdio\n    cmd: {program}\n    args: {arguments}\n")
        }
    };
    format!("extensions:\n  {name}:\n    enabled: true\n    name: {name}\n    timeout: 300\n{rest}")
}

fn fast_agent(name: &str, way: &Way) -> String {
    let rest = match way {
        Way::Http { url, needs_token } => {
            let headers = if *needs_token {
                format!("      headers:\n        Authorization: \"Bearer ${{{TOKEN}}}\"\n")
            } else {
                String::new()
            };
            format!("      transport: http\n      url: {}\n{headers}", quoted(url))
        }
        Way::Command { program, arguments } => {
            let (program, arguments) = (quoted(program), list_text(arguments));
            format!("      command: {program}\n      args: {arguments}\n")
        }
    };
    format!("mcp:\n  servers:\n    {name}:\n{rest}")
}
