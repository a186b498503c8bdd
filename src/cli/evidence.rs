//! What auditors see of the record: proofs, keys, consistency; and checking a proof with nothing but a key.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;
use serde_json::json;

use super::output::Output;
use super::output::plain;
use crate::admin::Failure;
use crate::admin::Proven;
use crate::domain::Lock;
use crate::domain::audit::Attested;
use crate::domain::audit::Envelope;
use crate::domain::audit::MAX_ATTESTATION_BYTES;
use crate::domain::audit::MAX_CHECKPOINT_BYTES;
use crate::domain::audit::Proof;
use crate::domain::audit::VerifierKey;
use crate::gateway::Consistent;
use crate::gateway::LogKeys;
use crate::gateway::Point;
use crate::gateway::Rotated;
use crate::gateway::write_out;

/// Reads a checkpoint that was kept in a file.
pub(super) fn read_checkpoint(path: &Path) -> Result<String, Failure> {
    let bytes = read(path, MAX_CHECKPOINT_BYTES)?;
    String::from_utf8(bytes).map_err(|_| Failure::no(format!("{} is no checkpoint", path.display())))
}

/// A point of the log: so many leaves, or a checkpoint in a file.
pub(super) fn point(text: &str) -> Result<Point, Failure> {
    match text.parse() {
        Ok(size) => Ok(Point::Size(size)),
        Err(_) => read_checkpoint(Path::new(text)).map(Point::Checkpoint),
    }
}

/// Checks a proof, or an attestation, with the log's key alone; each of the witnesses must have cosigned the checkpoint.
pub(super) fn check(
    output: &Output,
    file: &Path,
    key: &VerifierKey,
    witnesses: &[VerifierKey],
) -> Result<ExitCode, Failure> {
    let bytes = read(file, MAX_ATTESTATION_BYTES)?;
    let no = |why: &dyn std::fmt::Display| Failure::no(format!("{} proves nothing: {why}", file.display()));
    let (proof, leaf, skill) = if bytes.starts_with(b"{") {
        let envelope: Envelope = serde_json::from_slice(&bytes).map_err(|why| no(&why))?;
        let Attested { skill, proof, approval } = envelope.check(key).map_err(|why| no(&why))?;
        (proof, approval, Some(Lock::of(vec![skill])))
    } else {
        let proof = Proof::parse(&bytes).map_err(|why| no(&why))?;
        let leaf = proof.check(key).map_err(|why| no(&why))?;
        (proof, leaf, None)
    };
    let mut cosigned = Vec::new();
    for witness in witnesses {
        let signed = proof.checkpoint.verify(witness).map_err(|why| no(&why))?;
        cosigned.push(json!({ "key": witness.to_string(), "time": signed.time }));
    }
    let covered = proof.checkpoint.checkpoint();
    let value = json!({
        "valid": true,
        "origin": covered.origin,
        "size": covered.size,
        "index": proof.index,
        "witnesses": cosigned,
        "leaf": leaf,
        "lock": skill.as_ref().map(Lock::to_text),
    });
    output.print(&value, |value: Value| {
        let mut text = format!(
            "leaf {} of {} is under its checkpoint of {} leaves\n",
            proof.index,
            plain(&covered.origin),
            covered.size
        );
        let members = value.get("leaf").and_then(Value::as_object).into_iter().flatten();
        members.for_each(|(name, value)| text.push_str(&member(name, value)));
        if let Some(lock) = &skill {
            text.push_str("it approves exactly these files:\n");
            for file in lock.skills().iter().flat_map(|skill| &skill.files) {
                text.push_str(&format!("  {}  {}\n", file.digest, plain(file.uri.as_str())));
            }
        }
        for witness in witnesses {
            text.push_str(&format!("cosigned by {}\n", plain(witness.name())));
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
}

impl Output {
    pub(super) fn keys(&self, value: &Value) -> Result<ExitCode, Failure> {
        self.print(value, |keys: LogKeys| keys_as_text(&keys))?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn rotated(&self, value: &Value) -> Result<ExitCode, Failure> {
        self.print(value, |Rotated { leaf, keys }: Rotated| {
            format!(
                "another key signs from leaf {leaf} on; tell auditors:\n{}",
                keys_as_text(&keys)
            )
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Prints an attestation, or writes it to a file.
    pub(super) fn attested(&self, envelope: &Value, file: Option<&Path>) -> Result<ExitCode, Failure> {
        let text = format!("{envelope}\n");
        match file {
            Some(file) => {
                write_out(file, text.as_bytes()).map_err(|error| Failure::unknown(crate::telemetry::chain(&error)))?;
            }
            None => super::output::write(text.as_bytes())?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Prints a proof, or writes it to a file.
    pub(super) fn proven(&self, value: &Value, file: Option<&Path>) -> Result<ExitCode, Failure> {
        let Some(file) = file else {
            self.print(value, |proven: Proven| proven.proof)?;
            return Ok(ExitCode::SUCCESS);
        };
        let proven: Proven = serde_json::from_value(value.clone()).map_err(|error| Failure::ours(error.to_string()))?;
        let written = write_out(file, proven.proof.as_bytes());
        written.map_err(|error| Failure::unknown(crate::telemetry::chain(&error)))?;
        self.print(value, |proven: Proven| {
            let Proven { index, size, .. } = proven;
            format!(
                "leaf {index}, under the checkpoint of {size} leaves: {}\n",
                file.display()
            )
        })?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn consistency(&self, value: &Value) -> Result<ExitCode, Failure> {
        self.print(value, |found: Consistent| match (&found.why, &found.old, &found.new) {
            (None, Some(old), Some(new)) => format!(
                "consistent: the first {} of {} leaves are the same ({} hashes prove it)\n",
                old.size,
                new.size,
                found.proof.len()
            ),
            (why, _, _) => format!("not consistent: {}\n", plain(why.as_deref().unwrap_or_default())),
        })?;
        let consistent = value.get("consistent").and_then(Value::as_bool) == Some(true);
        Ok(ExitCode::from(u8::from(!consistent)))
    }
}

fn keys_as_text(keys: &LogKeys) -> String {
    let mut text = format!("{}\n", keys.key);
    for earlier in &keys.earlier {
        text.push_str(&format!(
            "{}  (until leaf {})\n",
            earlier.key,
            earlier.until.saturating_sub(1)
        ));
    }
    text
}

/// One member of a leaf, for a person.
fn member(name: &str, value: &Value) -> String {
    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    format!("  {:<12} {}\n", plain(name), plain(&value))
}

/// Reads a file that is not longer than it may be.
fn read(path: &Path, limit: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(limit as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display())))?;
    if bytes.len() > limit {
        return Err(Failure::no(format!("{} is too long", path.display())));
    }
    Ok(bytes)
}
