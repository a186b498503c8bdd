//! What the values of the file mean.
//!
//! Each function makes one typed value of what is written, or says what is wrong in one clause. Only values that cannot
//! hold a secret are quoted.

use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;

use http::uri::Authority;
use reqwest::Url;
use toml::de::DeValue;

use super::file::wanted;
use super::shape::Address;
use super::shape::HostName;
use super::shape::WebOrigin;
use crate::domain::Label;

/// The longest duration that may be written: ten years. Timers hold it without overflow.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Units of a size, and the bytes of each.
const UNITS: [(&str, u64); 9] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// A string.
pub(super) fn text<'v>(value: &'v DeValue<'_>) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| wanted("a string", value))
}

/// `true` or `false`.
pub(super) fn flag(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| wanted("true or false", value))
}

/// One of a few words.
pub(super) fn word<T: Copy>(words: &[(&'static str, T)]) -> impl Fn(&DeValue<'_>) -> Result<T, String> {
    move |value| {
        let written = text(value)?;
        let found = words.iter().find(|(word, _)| *word == written);
        found.map(|(_, meant)| *meant).ok_or_else(|| {
            let known: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            format!("{written:?} is not {}", known.join(" or "))
        })
    }
}

/// An IP address with a port.
pub(super) fn address(value: &DeValue<'_>) -> Result<SocketAddr, String> {
    let written = text(value)?;
    written
        .parse()
        .map_err(|_| format!("{written:?} is not an IP address with a port such as 127.0.0.1:8788"))
}

/// A label.
pub(super) fn label(value: &DeValue<'_>) -> Result<Label, String> {
    text(value)?.parse().map_err(|why| format!("{why}"))
}

/// A duration of at least `shortest`.
pub(super) fn duration(shortest: Duration) -> impl Fn(&DeValue<'_>) -> Result<Duration, String> {
    move |value| {
        let written = text(value)?;
        let span = humantime::parse_duration(written)
            .map_err(|why| format!("{written:?} is not a duration: {}", clause(why)))?;
        if span < shortest {
            return Err(format!(
                "{written:?} is less than {}",
                humantime::format_duration(shortest)
            ));
        }
        if span > LONGEST {
            return Err(format!("{written:?} is more than ten years"));
        }
        Ok(span)
    }
}

/// A whole number of at least `least`.
pub(super) fn count(least: usize) -> impl Fn(&DeValue<'_>) -> Result<usize, String> {
    move |value| {
        let number = whole(value)?.ok_or_else(|| wanted("a whole number", value))?;
        at_least(number, least)
    }
}

/// Bytes, at least `least`: a whole number, or one with a unit such as `"20 GiB"`.
pub(super) fn size<N>(least: N) -> impl Fn(&DeValue<'_>) -> Result<N, String>
where
    N: TryFrom<u64> + PartialOrd + Display + Copy,
{
    move |value| {
        let bytes = match whole(value)? {
            Some(bytes) => bytes,
            None => {
                let written = value
                    .as_str()
                    .ok_or_else(|| wanted("a size such as \"16 MiB\"", value))?;
                bytes_of(written).ok_or_else(|| format!("{written:?} is not a size such as \"16 MiB\""))?
            }
        };
        at_least(bytes, least)
    }
}

/// The address of an origin: over HTTP or a WebSocket, a host, and neither user, password nor fragment.
pub(super) fn origin_url(value: &DeValue<'_>) -> Result<Address, String> {
    let url = url(value, &["http", "https", "ws", "wss"])?;
    // The address is told to operators and stands on the record, for good.
    if url.query_pairs().any(|(name, _)| names_a_secret(&name)) {
        return Err(
            "has a query that looks like a credential, and the address is on the record; credentials belong into headers"
                .to_owned(),
        );
    }
    Ok(match url.scheme() {
        "ws" | "wss" => Address::WebSocket(url),
        _ => Address::Http(url),
    })
}

/// Words in the name of a parameter that holds a credential.
const SECRET_WORDS: [&str; 11] = [
    "key",
    "apikey",
    "token",
    "accesstoken",
    "secret",
    "password",
    "passwd",
    "auth",
    "signature",
    "sig",
    "credential",
];

/// Says whether a parameter's name says that it holds a credential, as `api_key` does.
fn names_a_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| SECRET_WORDS.contains(&word))
}

/// A web address: `http` or `https`, a host, and neither user, password nor fragment.
pub(super) fn http_url(value: &DeValue<'_>) -> Result<Url, String> {
    url(value, &["http", "https"])
}

/// A URL under one of these schemes. It is never quoted: what was pasted may hold a password.
fn url(value: &DeValue<'_>, schemes: &[&str]) -> Result<Url, String> {
    let url = Url::parse(text(value)?).map_err(|why| format!("is not a URL: {why}"))?;
    if !schemes.contains(&url.scheme()) {
        let wanted: Vec<_> = schemes.iter().map(|scheme| format!("{scheme}:")).collect();
        return Err(format!("begins with {}:; wanted {}", url.scheme(), wanted.join(" or ")));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("holds a user or a password; credentials belong into headers".to_owned());
    }
    if url.fragment().is_some() {
        return Err("has a fragment (#), which is never sent".to_owned());
    }
    Ok(url)
}

/// One word of a command line. It stands in the record and in lists of processes, so that no secret is put in.
pub(super) fn word_of_command(value: &DeValue<'_>) -> Result<String, String> {
    let word = text(value)?;
    if word.contains('\0') {
        return Err("holds a NUL, which no argument can".to_owned());
    }
    if word.contains("${env:") {
        return Err("holds ${env:…}; a command line is seen by others, so secrets belong into env".to_owned());
    }
    Ok(word.to_owned())
}

/// A name that a request's `Host` may bear.
pub(super) fn host_name(value: &DeValue<'_>) -> Result<HostName, String> {
    let written = text(value)?;
    let authority = written.parse::<Authority>().ok();
    match authority {
        Some(authority) if !written.is_empty() && authority.host() == written => {
            Ok(HostName(written.to_ascii_lowercase().into()))
        }
        Some(_) | None => Err(format!(
            "{written:?} is not a host name without a port (IPv6 stands in brackets)"
        )),
    }
}

/// A web page's origin as browsers send it.
pub(super) fn web_origin(value: &DeValue<'_>) -> Result<WebOrigin, String> {
    let written = text(value)?;
    let origin = Url::parse(written)
        .ok()
        .map(|url| url.origin())
        .filter(|origin| origin.is_tuple());
    match origin.map(|origin| origin.ascii_serialization()) {
        Some(sent) if sent == written => Ok(WebOrigin(sent.into())),
        Some(sent) => Err(format!("{written:?} is not as browsers send it; write {sent:?}")),
        None => Err(format!(
            "{written:?} is not the origin of a web page such as https://app.example"
        )),
    }
}

/// A number that fits and is not too small.
fn at_least<N>(number: u64, least: N) -> Result<N, String>
where
    N: TryFrom<u64> + PartialOrd + Display + Copy,
{
    let fitting = N::try_from(number).map_err(|_| format!("{number} is more than this machine can count"))?;
    if fitting < least {
        return Err(format!("{number} is less than {least}"));
    }
    Ok(fitting)
}

/// A whole number, or nothing when the value is not a number at all.
fn whole(value: &DeValue<'_>) -> Result<Option<u64>, String> {
    let Some(integer) = value.as_integer() else {
        return Ok(None);
    };
    let number = u64::from_str_radix(integer.as_str(), integer.radix())
        .map_err(|_| format!("{integer} is not a whole number from 0 to {}", u64::MAX))?;
    Ok(Some(number))
}

/// The bytes of `20 GiB`, with or without the space.
fn bytes_of(written: &str) -> Option<u64> {
    let digits = written.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = written.split_at_checked(digits)?;
    let unit = unit.strip_prefix(' ').unwrap_or(unit);
    let (_, bytes) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*bytes)
}

/// What a library says, as a clause of ours: without the period.
fn clause(why: impl Display) -> String {
    why.to_string().trim_end_matches('.').to_owned()
}
