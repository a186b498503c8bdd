//! `[[person]]`: who counts, and how they are known.
//!
//! A person is one person through whatever door they come: a uid at `admin.sock`, a token, a subject of a sign-in. Each of
//! these belongs to one person at most, so that nobody's word counts twice.

use std::collections::BTreeSet;
use std::fmt;
use std::fmt::Debug;

use serde::Serialize;
use toml::de::DeValue;

use super::file::Section;
use super::value;

/// Characters in a person's name.
const MAX_NAME_CHARS: usize = 64;

/// What a person is called, on the record too: at most 64 visible characters and single spaces, and no colon, so that no
/// name reads as one of ours for somebody who is not listed (`uid:1000`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct PersonName(Box<str>);

/// A person whose word counts where several are needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Person {
    /// What the record calls them.
    pub name: PersonName,
    /// Their user id on this machine.
    pub uid: Option<u32>,
    /// The names of the tokens that speak for them.
    pub tokens: Vec<String>,
    /// Who they are at the identity provider.
    pub oidc: Option<String>,
}

/// Everybody who is listed; no uid, token or subject stands for two of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct People(Vec<Person>);

impl PersonName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PersonName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl People {
    /// Everybody who is listed, in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Person> {
        self.0.iter()
    }

    /// Says whether somebody listed has this user id.
    pub fn has_uid(&self, uid: u32) -> bool {
        self.by_uid(uid).is_some()
    }

    /// What the record calls whoever has a user id: the person's name, or `uid:N` for somebody who is not listed.
    pub fn of_uid(&self, uid: u32) -> String {
        self.by_uid(uid)
            .map_or_else(|| format!("uid:{uid}"), |person| person.name.to_string())
    }

    /// What the record calls whoever shows a token that `minted_by` made, as the record calls them. A token made by somebody
    /// listed is that somebody, whatever it is called, so that nobody makes a second voice for themselves; any other is
    /// whoever lists its name, or its maker.
    pub fn of_token(&self, token: &str, minted_by: &str) -> String {
        let is_maker = |person: &&Person| person.name.as_str() == minted_by;
        let has_token = |person: &&Person| person.tokens.iter().any(|name| name == token);
        let found = self.iter().find(is_maker).or_else(|| self.iter().find(has_token));
        found.map_or_else(|| minted_by.to_owned(), |person| person.name.to_string())
    }

    fn by_uid(&self, uid: u32) -> Option<&Person> {
        self.0.iter().find(|person| person.uid == Some(uid))
    }
}

/// Every `[[person]]`.
pub(super) fn people(root: &Section<'_>) -> People {
    let mut taken = Taken::default();
    let people = root.tables("person", |section| person(section, &mut taken));
    People(people.into_iter().flatten().collect())
}

/// What belongs to somebody already.
#[derive(Default)]
struct Taken {
    names: BTreeSet<PersonName>,
    uids: BTreeSet<u32>,
    tokens: BTreeSet<String>,
    subjects: BTreeSet<String>,
}

/// One `[[person]]`, or nothing when it has no name.
fn person(section: &Section<'_>, taken: &mut Taken) -> Option<Person> {
    let name = section.require("name", name);
    let uid = section.read("uid", uid);
    let tokens = section.list("tokens", word).unwrap_or_default();
    let oidc = section.read("oidc", word);
    if !["uid", "tokens", "oidc"].into_iter().any(|key| section.has(key)) {
        section.problem(
            "name",
            "has neither uid, tokens nor oidc; nobody could be them".to_owned(),
        );
    }
    own(section, "name", name.as_ref(), &mut taken.names);
    own(section, "uid", uid.as_ref(), &mut taken.uids);
    for token in &tokens {
        own(section, "tokens", Some(token), &mut taken.tokens);
    }
    own(section, "oidc", oidc.as_ref(), &mut taken.subjects);
    Some(Person {
        name: name?,
        uid,
        tokens,
        oidc,
    })
}

/// Takes down that a value stands for two people.
fn own<T: Ord + Clone + Debug>(section: &Section<'_>, key: &str, value: Option<&T>, taken: &mut BTreeSet<T>) {
    if let Some(value) = value
        && !taken.insert(value.clone())
    {
        section.problem(key, "belongs to a person above; nobody counts twice".to_owned());
    }
}

fn name(written: &DeValue<'_>) -> Result<PersonName, String> {
    let text = value::text(written)?;
    let is_plain = |c: char| !c.is_control() && c != ':' && (c == ' ' || !c.is_whitespace());
    let words = text.split(' ').all(|word| !word.is_empty());
    if words && text.chars().count() <= MAX_NAME_CHARS && text.chars().all(is_plain) {
        Ok(PersonName(text.into()))
    } else {
        Err(format!(
            "{text:?} is not a name of at most {MAX_NAME_CHARS} visible characters with single spaces and no colon"
        ))
    }
}

fn uid(written: &DeValue<'_>) -> Result<u32, String> {
    let number = value::count(0)(written)?;
    u32::try_from(number).map_err(|_| format!("{number} is not a user id"))
}

fn word(written: &DeValue<'_>) -> Result<String, String> {
    let text = value::text(written)?;
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    Ok(text.to_owned())
}
