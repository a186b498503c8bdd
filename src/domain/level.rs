//! How urgent a log message is (RFC 5424 §6.2.1; base protocol §15).

use serde::Deserialize;
use serde::Serialize;

/// A level of log messages, the least urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For who looks for a fault.
    Debug,
    /// What goes on.
    Info,
    /// What is worth a note.
    Notice,
    /// What may become a fault.
    Warning,
    /// A fault.
    Error,
    /// A fault that stops something.
    Critical,
    /// What has to be seen to at once.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LogLevel {
    /// The level of this name in a message; none of any other.
    pub fn of(name: &serde_json::Value) -> Option<Self> {
        Self::deserialize(name).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn levels_are_ordered_by_urgency_and_have_exactly_these_names() {
        let names = [
            "debug",
            "info",
            "notice",
            "warning",
            "error",
            "critical",
            "alert",
            "emergency",
        ];
        let levels: Vec<_> = names.iter().filter_map(|name| LogLevel::of(&json!(name))).collect();
        assert_eq!(levels.len(), names.len());
        assert!(levels.is_sorted() && levels.first() < levels.last());
        for other in [json!("Debug"), json!("trace"), json!(""), json!(1), json!(null)] {
            assert_eq!(LogLevel::of(&other), None, "{other}");
        }
    }
}
