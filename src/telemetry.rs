//! Where log lines go: standard error, as text for people or as JSON for machines.
//!
//! Never standard output, which belongs to what a command answers. Imports `config` for the wanted level and format.
//! Nothing secret is ever in an event: secrets have no `Display` and print as `***`.

use std::io;
use std::io::IsTerminal as _;

use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::util::TryInitError;

use crate::config::Level;
use crate::config::Log;
use crate::config::LogFormat;

/// The environment variable that, when set, stands in for `log.level`.
const OVERRIDE: &str = "RUST_LOG";

/// What is silent whatever a filter says: it prints handshakes of WebSockets with the credentials in them.
const SILENT: &str = "tungstenite::handshake::client";

/// Why no log lines can be written.
#[derive(Debug, Error)]
pub enum Error {
    /// `RUST_LOG` holds no filter.
    #[error("the environment variable {OVERRIDE} holds no log filter")]
    Filter(#[source] ParseError),
    /// Log lines go elsewhere already.
    #[error("log lines have a destination already")]
    Taken(#[source] TryInitError),
}

/// Sends the log lines of this process to standard error. To be called once.
///
/// `RUST_LOG`, when set, stands in for the configured level and can name modules. A line that cannot be written is lost,
/// and nothing else.
///
/// # Errors
///
/// [`Error::Filter`] for a `RUST_LOG` that is no filter, [`Error::Taken`] at a second call.
pub fn init(log: &Log) -> Result<(), Error> {
    let filter = filter(log.level, std::env::var(OVERRIDE).ok().as_deref())?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // A line that cannot be written would be told to standard error too, and panic the task that wrote it.
        .log_internal_errors(false)
        .with_writer(io::stderr);
    match log.format {
        LogFormat::Human => lines.with_ansi(io::stderr().is_terminal()).finish().try_init(),
        LogFormat::Json => lines.json().flatten_event(true).finish().try_init(),
    }
    .map_err(Error::Taken)
}

/// The filter of `level`, or of `named` where the environment has one.
fn filter(level: Level, named: Option<&str>) -> Result<EnvFilter, Error> {
    let directives = match named {
        Some(directives) if !directives.is_empty() => directives.to_owned(),
        Some(_) | None => directives(level),
    };
    // Of two directives for one module, the last holds.
    EnvFilter::try_new(format!("{directives},{SILENT}=off")).map_err(Error::Filter)
}

/// Our own events from `level` on. Libraries speak from `warn` on at most: below, some of them print what passes through.
/// Two do not speak at all: what they would say is told by us, and they say it with whole addresses, or of each refusal.
fn directives(level: Level) -> String {
    let level = match level {
        Level::Error => "error,portcullis=error",
        Level::Warn => "warn,portcullis=warn",
        Level::Info => "warn,portcullis=info",
        Level::Debug => "warn,portcullis=debug",
        Level::Trace => "warn,portcullis=trace",
    };
    format!("{level},rmcp=off,rustls_platform_verifier=off")
}

/// An error and its causes in one line, each cause said once.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let next = source.to_string();
        if !words.ends_with(&next) {
            words.push_str(": ");
            words.push_str(&next);
        }
        cause = source.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_stands_in_for_the_configured_level() {
        let shown = |named| filter(Level::Info, named).unwrap().to_string();
        assert_eq!(
            shown(Some("portcullis=trace")),
            "tungstenite::handshake::client=off,portcullis=trace"
        );
        assert_eq!(shown(Some("")), shown(None));
        assert!(shown(None).contains("portcullis=info"));
    }

    #[test]
    fn no_filter_lets_handshakes_be_printed() {
        for named in ["trace", "tungstenite=trace", "tungstenite::handshake::client=trace"] {
            let shown = filter(Level::Info, Some(named)).unwrap().to_string();
            assert_eq!(shown.matches("tungstenite::handshake::client=").count(), 1, "{shown}");
            assert!(shown.contains("tungstenite::handshake::client=off"), "{shown}");
        }
    }

    #[test]
    fn a_filter_that_is_none_is_an_error() {
        assert!(matches!(
            filter(Level::Info, Some("portcullis=loud")),
            Err(Error::Filter(_))
        ));
    }

    #[test]
    fn every_level_is_a_filter() {
        for level in [Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace] {
            assert!(EnvFilter::try_new(directives(level)).is_ok(), "{level:?}");
        }
    }
}
