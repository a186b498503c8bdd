//! What is wrong with a configuration file.

use std::fmt;
use std::path::PathBuf;

/// One thing that is wrong, with the place to mend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1; nothing when the file as a whole is meant.
    pub line: Option<usize>,
    /// The key with its table, as `origin.refresh`; empty when no key is meant.
    pub key: String,
    /// What is wrong, one clause without a period. It quotes no secret.
    pub text: String,
}

/// A configuration that cannot run, with everything that is wrong with it.
///
/// Prints one problem a line: `proxy.toml:12: origin.refresh: "5 moons" is not a duration: …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The file, as it was named.
    pub path: PathBuf,
    /// At least one problem, in the order of their lines.
    pub problems: Vec<Problem>,
}

impl std::error::Error for Invalid {}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}", self.path.display())?;
            if let Some(line) = problem.line {
                write!(f, ":{line}")?;
            }
            if !problem.key.is_empty() {
                write!(f, ": {}", problem.key)?;
            }
            write!(f, ": {}", problem.text)?;
        }
        Ok(())
    }
}
