//! The packages that peers are made of, with the versions that the lock files pin.

use std::fmt;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::installed::HERE;

/// A package, by the lock file that knows it.
#[derive(Clone, Copy)]
pub(crate) enum Package {
    /// Of `npm/package-lock.json`.
    Npm(&'static str),
    /// Of one of the Python environments.
    Python(&'static str, &'static str),
    /// Of `Cargo.lock`.
    Cargo(&'static str),
}

impl Package {
    fn name(self) -> &'static str {
        match self {
            Self::Npm(name) | Self::Python(_, name) | Self::Cargo(name) => name,
        }
    }

    fn version(self) -> Option<String> {
        let read = |path: &str| fs::read_to_string(Path::new(HERE).join(path)).unwrap();
        match self {
            Self::Npm(name) => {
                let lock: Value = serde_json::from_str(&read("npm/package-lock.json")).unwrap();
                let version = &lock["packages"][format!("node_modules/{name}")]["version"];
                version.as_str().map(str::to_owned)
            }
            Self::Python(environment, name) => {
                let lock = read(&format!("python/{environment}.txt"));
                let version = lock
                    .lines()
                    .find_map(|line| line.strip_prefix(name)?.strip_prefix("=="));
                version.map(str::to_owned)
            }
            Self::Cargo(name) => {
                let lock: toml::Table = read("../../Cargo.lock").parse().unwrap();
                let packages = lock["package"].as_array().unwrap();
                let package = packages.iter().find(|package| package["name"].as_str() == Some(name))?;
                package["version"].as_str().map(str::to_owned)
            }
        }
    }
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        let version = self.version().unwrap_or_else(|| panic!("{name} is pinned nowhere"));
        write!(f, "{name} {version}")
    }
}
