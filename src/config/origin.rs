//! `[[origin]]`: one upstream, its address, its waits and its header fields.

use std::collections::BTreeSet;
use std::time::Duration;

use http::HeaderName;
use http::HeaderValue;

use super::file::Section;
use super::people::People;
use super::policy::policy;
use super::read::MOMENT;
use super::secret::Secret;
use super::shape::Address;
use super::shape::OriginConfig;
use super::shape::Pass;
use super::shape::PassTools;
use super::shape::Passed;
use super::shape::Program;
use super::shape::Repair;
use super::shape::SkillFolder;
use super::sources::Sources;
use super::value;

/// The shortest time between two listings.
const OFTEN: Duration = Duration::from_secs(1);

/// The usual time between two listings.
const REFRESH: Duration = Duration::from_secs(5 * 60);

/// The usual bound on one request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The usual bound on connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The usual bound on a whole listing or the fetch of one file.
const TOTAL: Duration = Duration::from_secs(60);

/// Header fields that belong to one connection or to the transport, beside those that begin with `mcp-` or `sec-websocket-`.
const TRANSPORT_HEADERS: [&str; 17] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// One `[[origin]]`, or nothing when it has no label or no address. Every key is read even then, for its problems.
pub(super) fn origin(section: &Section<'_>, people: &People, sources: &Sources<'_>) -> Option<OriginConfig> {
    let label = section.require("label", value::label);
    let address = origin_address(section, sources);
    let wait = |key, standard| section.read(key, value::duration(MOMENT)).unwrap_or(standard);
    let refresh = section.read("refresh", value::duration(OFTEN)).unwrap_or(REFRESH);
    let refresh_max = section.read("refresh_max", value::duration(refresh)).unwrap_or(refresh);
    let (timeout, total) = (wait("timeout", TIMEOUT), wait("total", TOTAL));
    let connect_timeout = wait("connect_timeout", CONNECT_TIMEOUT);
    let headers = headers(section, sources);
    let ca = section.read("ca", |v| sources.path(v));
    let env = variables(section, sources);
    let repair = section
        .list("repair", value::word(&[("size", Repair::Size)]))
        .unwrap_or_default();
    let policy = policy(section, people);
    let pass = pass(section);
    if let Some(Address::Folder(_) | Address::Folders(_)) = &address
        && pass.passes_more()
    {
        section.problem(
            "pass",
            "lets more than skills pass; a folder has nothing else".to_owned(),
        );
    }
    Some(OriginConfig {
        label: label?,
        address: address?,
        refresh,
        refresh_max,
        timeout,
        connect_timeout,
        total,
        headers,
        ca,
        env,
        repair,
        pass,
        policy,
    })
}

/// The kinds of address, and the keys that go with each of them alone.
const KINDS: [(&str, &[&str]); 3] = [
    ("url", &["headers", "ca", "connect_timeout"]),
    ("command", &["env", "cwd"]),
    ("dir", &[]),
];

/// What of the origin reaches hosts: its skills, unless it is said otherwise.
fn pass(section: &Section<'_>) -> Pass {
    let words = [
        ("skills", Passed::Skills),
        ("tools", Passed::Tools),
        ("prompts", Passed::Prompts),
        ("resources", Passed::Resources),
        ("completions", Passed::Completions),
    ];
    let kinds = section
        .list("pass", value::word(&words))
        .unwrap_or_else(|| vec![Passed::Skills]);
    let tools = [("approved", PassTools::Approved), ("as-is", PassTools::AsIs)];
    Pass {
        tools: section
            .read("pass_tools", value::word(&tools))
            .unwrap_or(PassTools::Approved),
        instructions: section.read("forward_instructions", value::flag).unwrap_or(false),
        kinds: kinds.into_iter().collect(),
    }
}

/// `url`, `command` or `dir`: exactly one. What belongs to another kind is of no use.
fn origin_address(section: &Section<'_>, sources: &Sources<'_>) -> Option<Address> {
    let url = section.read("url", value::origin_url);
    let command = section.list("command", value::word_of_command);
    let cwd = section.read("cwd", |v| sources.path(v));
    let dir = if section.has_list("dir") {
        Some(Address::Folders(folders(section, sources)))
    } else {
        section.read("dir", |v| sources.folder(v)).map(Address::Folder)
    };
    let written: Vec<_> = KINDS.into_iter().filter(|(kind, _)| section.has(kind)).collect();
    match written.as_slice() {
        [] => section.problem("url", "is missing; an origin has a url, a command or a dir".to_owned()),
        [(kind, _)] => {
            let others = KINDS.iter().filter(|(other, _)| other != kind);
            for (other, key) in others.flat_map(|(other, keys)| keys.iter().map(move |key| (other, key))) {
                if section.has(key) {
                    section.problem(key, format!("goes with {other}, not with {kind}"));
                }
            }
        }
        [(first, _), others @ ..] => {
            for (other, _) in others {
                section.problem(other, format!("stands beside {first}; an origin has one address"));
            }
        }
    }
    let program = command.filter(|_| section.has("command")).and_then(|command| {
        if command.is_empty() {
            section.problem("command", "is empty; it begins with a program".to_owned());
            return None;
        }
        let has_own_cwd = cwd.is_some();
        Some(Address::Program(Program {
            command,
            cwd: cwd.unwrap_or_else(|| sources.folder.to_owned()),
            has_own_cwd,
        }))
    });
    url.or(program).or(dir)
}

/// The folders of an origin that has several.
fn folders(section: &Section<'_>, sources: &Sources<'_>) -> Vec<SkillFolder> {
    let mut taken = BTreeSet::new();
    let found = section.tables("dir", |folder| {
        let name = folder.require("name", |v| {
            let name = value::label(v)?;
            if taken.insert(name.clone()) {
                Ok(name)
            } else {
                Err(format!(
                    "{:?} is the name of another folder of the origin",
                    name.as_str()
                ))
            }
        });
        let path = folder.require("path", |v| sources.folder(v));
        let project = folder.read("project", value::flag).unwrap_or(false);
        let trusted = folder.read("trusted", value::flag).unwrap_or(false);
        if folder.has("trusted") && !project {
            folder.problem("trusted", "goes with project = true".to_owned());
        }
        Some(SkillFolder {
            name: name?,
            path: path?,
            project,
            trusted,
        })
    });
    if found.is_empty() {
        section.problem("dir", "is empty; it names at least one folder".to_owned());
    }
    found.into_iter().flatten().collect()
}

/// The variables that an origin's program is given, with their secrets looked up.
fn variables(section: &Section<'_>, sources: &Sources<'_>) -> Vec<(String, Secret)> {
    section.entries("env", |name, written| {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err("is not the name of a variable".to_owned());
        }
        let secret = sources.secret(written)?;
        if secret.expose().contains('\0') {
            return Err("has a value that no variable can have".to_owned());
        }
        Ok((name.to_owned(), secret))
    })
}

/// The header fields of an origin, with their secrets looked up.
fn headers(section: &Section<'_>, sources: &Sources<'_>) -> Vec<(HeaderName, Secret)> {
    let mut taken = BTreeSet::new();
    section.entries("headers", |name, written| {
        let name = header_name(name)?;
        if !taken.insert(name.as_str().to_owned()) {
            return Err("stands there twice, since case does not matter".to_owned());
        }
        let secret = sources.secret(written)?;
        HeaderValue::from_str(secret.expose())
            .map_err(|_| "has a value with characters that no header field may have".to_owned())?;
        Ok((name, secret))
    })
}

/// The name of a header field that an operator may set.
fn header_name(written: &str) -> Result<HeaderName, String> {
    let name: HeaderName = written
        .parse()
        .map_err(|_| "is not the name of a header field".to_owned())?;
    if name.as_str().starts_with("mcp-")
        || name.as_str().starts_with("sec-websocket-")
        || TRANSPORT_HEADERS.contains(&name.as_str())
    {
        return Err("is set by the gateway itself".to_owned());
    }
    Ok(name)
}
