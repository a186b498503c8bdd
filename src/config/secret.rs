//! Values that nothing prints.

use std::fmt;

/// A value that nothing prints: it has no `Display`, cannot be serialized, and its `Debug` is `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub(super) Box<str>);

impl Secret {
    /// Hands the secret out, to be sent to whom it is for.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
impl From<&str> for Secret {
    fn from(secret: &str) -> Self {
        Self(secret.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
