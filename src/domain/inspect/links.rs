//! Links: where a text leads a reader or a model that follows it.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::sync::LazyLock;

use crate::domain::uri::SKILL_FILE;

use super::check::Check;
use super::pattern::Pattern;
use super::remark::Sheet;
use super::remark::shown;

/// Looks for web sites and absolute links to skills anywhere in `text`; one remark for each host.
pub(super) fn inspect(text: &str, sheet: &mut Sheet) {
    let mut hosts = BTreeSet::new();
    for found in WEB.find(text) {
        let host = host(found.text).to_ascii_lowercase();
        if let Some(why) = unusual(found.text, &host) {
            sheet.add(Check::UnusualHost, found.at, || format!("{why}: {}", shown(found.text)));
        } else if !is_placeholder(&host) && !hosts.contains(&host) {
            sheet.add(Check::WebLink, found.at, || shown(&host));
            if hosts.len() < MAX_HOSTS {
                hosts.insert(host);
            }
        }
    }
    for found in SKILL.find(text) {
        sheet.add(Check::SkillLink, found.at, || shown(found.text));
    }
}

/// Looks for links in the Markdown or HTML `prose` of the file at `path` that lead out of the skill's folder: to
/// another skill, or to anything else.
pub(super) fn inspect_targets(path: &str, prose: &str, sheet: &mut Sheet) {
    for found in TARGET.find(prose).filter(|found| leads_out(path, found.text)) {
        let file = found.text.split('#').next().unwrap_or_default();
        let is_skill = file.rsplit('/').next() == Some(SKILL_FILE);
        let check = if is_skill { Check::SkillLink } else { Check::OutsideLink };
        sheet.add(check, found.at, || shown(found.text));
    }
}

/// Every pattern here.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = &'static Pattern> {
    [&*WEB, &*SKILL, &*TARGET].into_iter()
}

/// Hosts that are kept to be told once.
const MAX_HOSTS: usize = 1024;

/// Addresses of the web.
static WEB: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(r#"(?i)\b(?:https?|wss?|ftp)://[^\s<>"'`(){}|\\^$]+"#));

/// Absolute addresses of skills.
static SKILL: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(r#"(?i)\bskill://[^\s<>"'`(){}|\\^$]+"#));

/// Targets of links: of Markdown's inline ones and definitions, of HTML's attributes, and of imports.
static TARGET: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(
        r#"(?m)\]\(\s*<?([^)\s>]+) | ^\x20{0,3}\[[^\]\n]+\]:\s*<?([^\s>]+)
        | \b(?:href|src)\s*=\s*["']([^"'\s]+) | (?:^|[\s(])@((?:~|\.{1,2})?/[\w./-]+)"#,
    )
});

/// Whether `target`, linked from the file at `path`, is a file outside of the skill.
fn leads_out(path: &str, target: &str) -> bool {
    let target = target
        .replace("%2e", ".")
        .replace("%2E", ".")
        .replace("%2f", "/")
        .replace("%2F", "/")
        .replace('\\', "/");
    if target.starts_with("~/") || target.to_ascii_lowercase().starts_with("file:") {
        return true;
    }
    let absolute = target.starts_with('/') && SYSTEM_FOLDERS.iter().any(|folder| target.starts_with(folder));
    absolute || (!target.starts_with(['/', '#']) && !target.contains(':') && climbs_out(path, &target))
}

/// Folders of a machine; other paths from `/` on are a web site's.
const SYSTEM_FOLDERS: &[&str] = &[
    "/etc/", "/home/", "/Users/", "/root/", "/var/", "/usr/", "/tmp/", "/proc/", "/opt/",
];

/// Whether `..` segments lead above the folder that the path of the file is counted from.
fn climbs_out(path: &str, target: &str) -> bool {
    let mut depth = path.matches('/').count();
    for segment in target.split(['?', '#']).next().unwrap_or_default().split('/') {
        match segment {
            "" | "." => {}
            ".." if depth == 0 => return true,
            ".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

/// The host of an address, without what stands before `@` and without its port.
fn host(address: &str) -> &str {
    let authority = authority(address);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.strip_prefix('[') {
        Some(inner) => inner.split(']').next().unwrap_or_default(),
        None => host
            .split(':')
            .next()
            .unwrap_or_default()
            .trim_end_matches(['.', ',', ';', '!', ']', '*']),
    }
}

fn authority(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// Why the host of an address is worth a look.
fn unusual(address: &str, host: &str) -> Option<&'static str> {
    let ends_in = |known: &&str| {
        host.strip_suffix(*known)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    if authority(address)
        .rsplit_once('@')
        .is_some_and(|(user, _)| looks_like_a_host(user))
    {
        Some("a host's name before @")
    } else if METADATA_HOSTS.contains(&host) {
        Some("a cloud's metadata service")
    } else if is_public_ip(host) {
        Some("a bare IP address")
    } else if host.split('.').any(|part| part.starts_with("xn--")) {
        Some("a name in other letters")
    } else if SHORTENERS.iter().any(ends_in) {
        Some("a link shortener")
    } else if DROPS.iter().any(ends_in) || DROP_PATHS.iter().any(|path| address.contains(path)) {
        Some("a place to drop data")
    } else {
        None
    }
}

fn looks_like_a_host(user: &str) -> bool {
    let name = user.split(':').next().unwrap_or_default();
    name.rsplit_once('.')
        .is_some_and(|(_, end)| end.len() >= 2 && end.bytes().all(|byte| byte.is_ascii_alphabetic()))
}

/// Where a cloud's machines ask for their own credentials.
const METADATA_HOSTS: &[&str] = &["169.254.169.254", "metadata.google.internal", "fd00:ec2::254"];

/// Whether `host` is an address that is neither private, nor one of documentation, nor known to everybody; or a number
/// in place of one.
fn is_public_ip(host: &str) -> bool {
    if let Ok(ip) = host.parse::<Ipv4Addr>() {
        let [first, ..] = ip.octets();
        let known = ["1.1.1.1", "1.0.0.1", "8.8.8.8", "8.8.4.4", "1.2.3.4"].contains(&host);
        let inner = ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_documentation();
        return !(known || inner || ip.is_unspecified() || ip.is_broadcast() || first == 0 || first >= 224);
    }
    if let Ok(ip) = host.parse::<Ipv6Addr>() {
        let documentation = matches!(ip.segments(), [0x2001, 0xdb8, ..]);
        return !(ip.is_loopback()
            || ip.is_unspecified()
            || ip.is_unique_local()
            || ip.is_unicast_link_local()
            || documentation);
    }
    let hexadecimal = host
        .strip_prefix("0x")
        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    hexadecimal || (host.len() >= 8 && host.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Services behind whose links anything may be.
const SHORTENERS: &[&str] = &[
    "bit.ly",
    "tinyurl.com",
    "t.co",
    "goo.gl",
    "is.gd",
    "v.gd",
    "ow.ly",
    "cutt.ly",
    "rb.gy",
    "shorturl.at",
    "rebrand.ly",
    "tiny.cc",
    "t.ly",
    "s.id",
    "shorten.is",
    "bl.ink",
];

/// Services that take data from anybody for somebody unknown.
const DROPS: &[&str] = &[
    "webhook.site",
    "requestbin.com",
    "requestbin.net",
    "m.pipedream.net",
    "ngrok.io",
    "ngrok.app",
    "ngrok-free.app",
    "trycloudflare.com",
    "loca.lt",
    "serveo.net",
    "beeceptor.com",
    "hookbin.com",
    "interact.sh",
    "oast.fun",
    "oast.live",
    "oast.me",
    "oast.online",
    "oast.pro",
    "oast.site",
    "oastify.com",
    "burpcollaborator.net",
    "pastebin.com",
    "paste.ee",
    "hastebin.com",
    "transfer.sh",
    "file.io",
    "0x0.st",
    "termbin.com",
    "dpaste.com",
    "dpaste.org",
    "gofile.io",
    "requestcatcher.com",
    "onion",
];

/// Paths at which other services do the same.
const DROP_PATHS: &[&str] = &[
    "discord.com/api/webhooks/",
    "discordapp.com/api/webhooks/",
    "api.telegram.org/bot",
];

/// Hosts of examples, of the machine itself, and of names that nobody asks for.
fn is_placeholder(host: &str) -> bool {
    let ends_in = |known: &&str| {
        host.strip_suffix(*known)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let own = [
        "localhost",
        "example",
        "example.com",
        "example.org",
        "example.net",
        "test",
        "invalid",
        "local",
    ];
    let names = [
        "w3.org",
        "schemas.openxmlformats.org",
        "schemas.microsoft.com",
        "json-schema.org",
        "json.schemastore.org",
    ];
    host.parse::<Ipv4Addr>().is_ok()
        || host.parse::<Ipv6Addr>().is_ok()
        || !host.contains('.')
        || own.iter().any(ends_in)
        || names.iter().any(ends_in)
}
