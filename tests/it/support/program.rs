//! Origins that are programs: a script that is run, spoken with over pipes, and misbehaves as it is told to.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use serde_json::Value;
use serde_json::json;
use tempfile::TempDir;

use super::disk;
use super::skill::Skill;

/// What programs serve, and where they note down what they are asked.
pub(crate) struct World(TempDir);

/// What one program noted down: its process id before each line.
pub(crate) struct Notes(PathBuf);

impl World {
    /// Writes down what they serve.
    pub(crate) fn with(skills: &[Skill]) -> Self {
        let entries: Vec<Value> = skills
            .iter()
            .map(|skill| serde_json::from_str(&skill.entry()).unwrap())
            .collect();
        let uris = entries.iter().flat_map(|entry| entry["resources"].as_array().unwrap());
        let contents: serde_json::Map<String, Value> = uris
            .map(|resource| resource["uri"].as_str().unwrap())
            .map(|uri| {
                let content = skills.iter().find_map(|skill| skill.content(uri)).unwrap();
                (uri.to_owned(), content)
            })
            .collect();
        let folder = TempDir::new().unwrap();
        let world = json!({ "entries": entries, "contents": contents });
        disk::write(&folder.path().join("world.json"), world.to_string().as_bytes());
        Self(folder)
    }

    /// The table of an origin whose program misbehaves in this way, which is its label too.
    pub(crate) fn origin(&self, mode: &str, more: &str) -> String {
        self.labelled(mode, mode, more)
    }

    /// The same with a label of its own.
    pub(crate) fn labelled(&self, label: &str, mode: &str, more: &str) -> String {
        self.table(label, &["python3"], mode, more)
    }

    /// The same behind a shell, which notes down its own process id and stays.
    pub(crate) fn in_a_shell(&self, mode: &str, more: &str) -> String {
        let script = "echo $$ shell >> $4; python3 $@; exit $?";
        self.table(mode, &["sh", "-c", script, "sh"], mode, more)
    }

    fn table(&self, label: &str, command: &[&str], mode: &str, more: &str) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/servers/stdio.py");
        let paths = [&script, &self.0.path().join("world.json"), &self.notes(label).0];
        let [script, world, notes] = paths.map(|path| path.to_str().unwrap());
        let words: Vec<&str> = command.iter().copied().chain([script, mode, world, notes]).collect();
        format!(
            "[[origin]]\nlabel = \"{label}\"\nrefresh = \"1s\"\ncommand = {}\n{more}",
            json!(words)
        )
    }

    /// What the program of an origin noted down.
    pub(crate) fn notes(&self, label: &str) -> Notes {
        Notes(self.0.path().join(format!("{label}.notes")))
    }
}

impl Notes {
    /// Each line with the process that wrote it.
    fn lines(&self) -> Vec<(i32, String)> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines
            .map(|(pid, line)| (pid.parse().unwrap(), line.to_owned()))
            .collect()
    }

    /// From now on the program ends after the first answer of each of its processes.
    pub(crate) fn turn(&self) {
        disk::write(&self.0.with_extension("notes.turned"), b"");
    }

    /// The process that was started last.
    pub(crate) fn newest(&self) -> i32 {
        let lines = self.lines();
        lines.iter().rfind(|(_, line)| line == "starts").unwrap().0
    }

    /// How often a line was written.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.lines().iter().filter(|(_, line)| line == what).count()
    }

    /// Every process that ran, and what it started.
    pub(crate) fn processes(&self) -> BTreeSet<i32> {
        let lines = self.lines();
        let children = lines
            .iter()
            .filter_map(|(_, line)| line.strip_prefix("child ")?.parse().ok());
        lines.iter().map(|(pid, _)| *pid).chain(children).collect()
    }

    /// What follows a word on a line of its own.
    pub(crate) fn told(&self, word: &str) -> String {
        let lines = self.lines();
        let told = lines.iter().find_map(|(_, line)| line.strip_prefix(word));
        told.unwrap().trim().to_owned()
    }
}
