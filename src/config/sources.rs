//! What the file refers to: paths, environment variables, files with secrets.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::path::PathBuf;

use toml::de::DeValue;

use super::secret::Secret;
use super::value;

/// The most bytes that a secret's file may have.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// Tells the value of an environment variable.
pub(super) type Environment<'e> = dyn Fn(&str) -> Option<String> + 'e;

/// Where paths begin and secrets are looked up.
pub(super) struct Sources<'s> {
    /// The folder that relative paths begin at.
    pub(super) folder: &'s Path,
    /// The value of an environment variable; without it, secrets are not looked up.
    pub(super) environment: Option<&'s Environment<'s>>,
}

impl Sources<'_> {
    /// A path, which begins at the folder of the file when it is relative.
    pub(super) fn path(&self, written: &DeValue<'_>) -> Result<PathBuf, String> {
        let text = value::text(written)?;
        if text.is_empty() || text.contains('\0') {
            return Err("is not a path".to_owned());
        }
        // Dots and needless slashes go, so that one folder has one spelling; `..` stays, since links may give it a meaning.
        Ok(self.folder.join(text).components().collect())
    }

    /// Like [`Self::path`], but that `~/` is the home folder of the gateway's own user.
    pub(super) fn folder(&self, written: &DeValue<'_>) -> Result<PathBuf, String> {
        let Some(below) = value::text(written)?.strip_prefix("~/") else {
            return self.path(written);
        };
        let home = std::env::home_dir().filter(|home| home.is_absolute());
        let home = home.ok_or("begins with ~/, and the gateway's user has no home folder")?;
        if below.contains('\0') {
            return Err("is not a path".to_owned());
        }
        Ok(home.join(below).components().collect())
    }

    /// The secret that `written` stands for: the content of a file for `file:PATH`, else the text with every `${env:NAME}`
    /// replaced. What was put in is not looked at again. Empty when secrets are not looked up.
    ///
    /// # Errors
    ///
    /// What cannot be found, in one clause that quotes no secret.
    pub(super) fn secret(&self, written: &DeValue<'_>) -> Result<Secret, String> {
        let written = value::text(written)?;
        let Some(environment) = self.environment else {
            return Ok(Secret(Box::default()));
        };
        match written.strip_prefix("file:") {
            Some(path) => self.read_file(path),
            None => replace_variables(written, environment),
        }
    }

    /// The content of a file, without the line end that editors add.
    fn read_file(&self, path: &str) -> Result<Secret, String> {
        let mut text = String::new();
        File::open(self.folder.join(path))
            .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text))
            .map_err(|why| format!("the file {path:?} cannot be read: {why}"))?;
        let secret = text.strip_suffix('\n').unwrap_or(&text);
        let secret = secret.strip_suffix('\r').unwrap_or(secret);
        if secret.is_empty() {
            return Err(format!("the file {path:?} is empty"));
        }
        if u64::try_from(text.len()).is_ok_and(|bytes| bytes > MAX_FILE_BYTES) {
            return Err(format!("the file {path:?} has more than {MAX_FILE_BYTES} bytes"));
        }
        Ok(Secret(secret.into()))
    }
}

/// The text with its variables replaced.
fn replace_variables(written: &str, environment: &Environment<'_>) -> Result<Secret, String> {
    let mut made = String::with_capacity(written.len());
    let mut rest = written;
    while let Some((before, after)) = rest.split_once("${") {
        let name = after.strip_prefix("env:").and_then(|after| after.split_once('}'));
        let (name, after) = name.ok_or("holds a ${ that does not begin ${env:NAME}")?;
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err("holds ${env:…} without the name of an environment variable".to_owned());
        }
        // An empty credential would be sent as if it were one.
        let value = environment(name)
            .filter(|value| !value.is_empty())
            .ok_or_else(|| format!("the environment variable {name} is not set, or empty"))?;
        made.push_str(before);
        made.push_str(&value);
        rest = after;
    }
    made.push_str(rest);
    Ok(Secret(made.into()))
}
