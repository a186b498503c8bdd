//! The file as written: its tables, its lines, and what is wrong with it.
//!
//! A [`Section`] remembers which keys it was asked for. What it holds beyond them is an unknown key, so the legal keys are
//! exactly those that are read.

use std::cell::RefCell;

use toml::Spanned;
use toml::de::DeTable;
use toml::de::DeValue;

use super::nearest::nearest;
use super::problem::Problem;

/// The text of a configuration file, collecting its problems.
pub(super) struct File<'t> {
    /// The text.
    text: &'t str,
    /// What was found so far.
    problems: RefCell<Vec<Problem>>,
}

impl<'t> File<'t> {
    /// A file without problems so far.
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            problems: RefCell::default(),
        }
    }

    /// Parses the text and has `read` make something of its root table. With syntax errors, nothing is read: what was
    /// recovered after one would only bring problems that are none.
    ///
    /// # Errors
    ///
    /// Every problem found, in the order of lines.
    pub(super) fn read<T>(self, read: impl FnOnce(&Section<'_>) -> T) -> Result<T, Vec<Problem>> {
        let (root, errors) = DeTable::parse_recoverable(self.text);
        if !errors.is_empty() {
            for error in errors {
                self.report(
                    error.span().map(|span| span.start),
                    String::new(),
                    error.message().to_owned(),
                );
            }
            return Err(self.into_problems());
        }
        let section = Section::new(&self, String::new(), None, Some(root.get_ref()));
        let made = read(&section);
        section.report_unknown_keys();
        drop(section);
        let problems = self.into_problems();
        if problems.is_empty() { Ok(made) } else { Err(problems) }
    }

    /// Takes a problem down; `at` is a byte offset.
    fn report(&self, at: Option<usize>, key: String, text: String) {
        let line = at.map(|offset| line_of(self.text.as_bytes(), offset));
        self.problems.borrow_mut().push(Problem { line, key, text });
    }

    /// What is wrong, from the top of the file to its end.
    fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.line);
        problems
    }
}

/// The line, from 1, on which the byte at `offset` stands.
pub(super) fn line_of(text: &[u8], offset: usize) -> usize {
    1 + text.iter().take(offset).filter(|byte| **byte == b'\n').count()
}

/// One table of the file. A table that is not there reads as one without keys.
pub(super) struct Section<'d> {
    /// Where problems go.
    file: &'d File<'d>,
    /// The table's name, as `server.tls`; empty for the root.
    name: String,
    /// Where the table begins, if it is there and not the root.
    at: Option<usize>,
    /// Its keys and values.
    table: Option<&'d DeTable<'d>>,
    /// The keys it was asked for: the legal ones.
    asked: RefCell<Vec<&'static str>>,
}

impl<'d> Section<'d> {
    /// The table called `name`.
    fn new(file: &'d File<'d>, name: String, at: Option<usize>, table: Option<&'d DeTable<'d>>) -> Self {
        Self {
            file,
            name,
            at,
            table,
            asked: RefCell::default(),
        }
    }

    /// What `parse` makes of a value. Nothing when the key is absent, or when `parse` says what is wrong with it.
    pub(super) fn read<T>(
        &self,
        key: &'static str,
        parse: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.find(key)?;
        self.noted(key, value, parse(value.get_ref()))
    }

    /// Like [`Section::read`], for a key that must be there if its table is.
    pub(super) fn require<T>(
        &self,
        key: &'static str,
        parse: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<T> {
        if self.table.is_some_and(|table| !table.contains_key(key)) {
            self.problem(key, "is missing".to_owned());
        }
        self.read(key, parse)
    }

    /// What `parse` makes of each item of an array; bad items are reported one by one and left out.
    pub(super) fn list<T>(
        &self,
        key: &'static str,
        mut parse: impl FnMut(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let value = self.find(key)?;
        let DeValue::Array(items) = value.get_ref() else {
            return self.noted(key, value, Err(wanted("an array", value.get_ref())));
        };
        Some(
            items
                .iter()
                .filter_map(|item| self.noted(key, item, parse(item.get_ref())))
                .collect(),
        )
    }

    /// What `read` makes of the table under `key`.
    pub(super) fn table<T>(&self, key: &'static str, read: impl FnOnce(&Section<'_>) -> T) -> T {
        let found = self.find(key).and_then(|value| match value.get_ref() {
            DeValue::Table(table) => Some((value.span().start, table)),
            other @ (DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_)) => self.noted(key, value, Err(wanted("a table", other))),
        });
        self.enter(key, found, read)
    }

    /// What `read` makes of each table under `key`, which is written `[[key]]`.
    pub(super) fn tables<T>(&self, key: &'static str, mut read: impl FnMut(&Section<'_>) -> T) -> Vec<T> {
        let as_table = |value: &DeValue<'_>| match value {
            DeValue::Table(_) => Ok(()),
            other @ (DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_)) => Err(wanted("a table", other)),
        };
        let Some(value) = self.find(key) else { return Vec::new() };
        let DeValue::Array(items) = value.get_ref() else {
            let _reported: Option<()> = self.noted(key, value, Err(format!("is one table; write [[{key}]]")));
            return Vec::new();
        };
        items
            .iter()
            .filter(|item| self.noted(key, item, as_table(item.get_ref())).is_some())
            .map(|item| {
                self.enter(
                    key,
                    item.get_ref().as_table().map(|table| (item.span().start, table)),
                    &mut read,
                )
            })
            .collect()
    }

    /// What `parse` makes of each key of the table under `key`, in which any key may stand.
    pub(super) fn entries<T>(
        &self,
        key: &'static str,
        mut parse: impl FnMut(&str, &DeValue<'_>) -> Result<T, String>,
    ) -> Vec<T> {
        let Some(value) = self.find(key) else { return Vec::new() };
        let DeValue::Table(table) = value.get_ref() else {
            let _reported: Option<()> = self.noted(key, value, Err(wanted("a table", value.get_ref())));
            return Vec::new();
        };
        let mut made = Vec::new();
        for (name, value) in table {
            let path = format!("{key}.{}", name.get_ref());
            made.extend(self.noted(&path, value, parse(name.get_ref(), value.get_ref())));
        }
        made
    }

    /// Whether an array is written under the key.
    pub(super) fn has_list(&self, key: &str) -> bool {
        let value = self.table.and_then(|table| table.get(key));
        value.is_some_and(|value| value.get_ref().as_array().is_some())
    }

    /// Whether the key is written.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    /// Takes down what is wrong with `key`, whether it is written or not.
    pub(super) fn problem(&self, key: &str, text: String) {
        let at = self
            .table
            .and_then(|table| table.get(key))
            .map(|value| value.span().start)
            .or(self.at);
        self.file.report(at, self.path(key), text);
    }

    /// Takes down every key that nobody asked for.
    fn report_unknown_keys(&self) {
        let mut legal = self.asked.borrow().clone();
        legal.sort_unstable();
        legal.dedup();
        let unknown = self.table.into_iter().flatten().map(|(name, _)| name);
        for name in unknown.filter(|name| !legal.contains(&name.get_ref().as_ref())) {
            let text = match nearest(name.get_ref(), legal.iter().copied()) {
                Some(word) => format!("is no key here; did you mean \"{word}\"?"),
                None => format!("is no key here; there are {}", legal.join(", ")),
            };
            self.file
                .report(Some(name.span().start), self.path(name.get_ref()), text);
        }
    }

    /// Has `read` make something of a table inside this one.
    fn enter<T>(&self, key: &str, found: Option<(usize, &'d DeTable<'d>)>, read: impl FnOnce(&Section<'_>) -> T) -> T {
        let section = Section::new(
            self.file,
            self.path(key),
            found.map(|(at, _)| at),
            found.map(|(_, table)| table),
        );
        let made = read(&section);
        section.report_unknown_keys();
        made
    }

    /// The value of a key, which is a legal one from now on.
    fn find(&self, key: &'static str) -> Option<&'d Spanned<DeValue<'d>>> {
        self.asked.borrow_mut().push(key);
        self.table?.get(key)
    }

    /// What was made of a value, or nothing once it is noted what is wrong.
    fn noted<T>(&self, key: &str, value: &Spanned<DeValue<'_>>, made: Result<T, String>) -> Option<T> {
        made.map_err(|text| self.file.report(Some(value.span().start), self.path(key), text))
            .ok()
    }

    /// The key with its table before it.
    fn path(&self, key: &str) -> String {
        if self.name.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.name)
        }
    }
}

/// What is wrong with a value of another type.
pub(super) fn wanted(what: &str, found: &DeValue<'_>) -> String {
    format!("has the type {}; wanted {what}", found.type_str())
}
