//! Cases for `policy test`: facts about a set, and what the configuration is expected to say of it.

use std::path::Path;
use std::time::Duration;

use super::file::File;
use super::file::Section;
use super::problem::Invalid;
use super::read::read_text;
use super::value;
use crate::domain::SkillKey;
use crate::domain::inspect::Severity;
use crate::domain::policy::Barred;
use crate::domain::policy::Change;
use crate::domain::policy::Content;
use crate::domain::policy::Facts;

/// One `[[case]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// What it is called.
    pub name: String,
    /// The skill.
    pub skill: SkillKey,
    /// What is known of its set.
    pub facts: Facts,
    /// What is to come of it.
    pub expect: Expect,
    /// The rule that is to be for the skill, where that is asked.
    pub rule: Option<String>,
}

/// What is expected of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// A rule approves it.
    Approve,
    /// People decide.
    Review,
    /// It is too early to say.
    Wait,
    /// It is never served.
    Deny,
}

/// A file of cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cases(Vec<Case>);

impl Expect {
    /// The word for it, as a ruling's.
    pub fn word(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Review => "review",
            Self::Wait => "wait",
            Self::Deny => "deny",
        }
    }
}

impl Cases {
    /// Reads a file of cases; `skill` reads what a skill is called.
    ///
    /// # Errors
    ///
    /// [`Invalid`] with every problem there is.
    pub fn load(path: &Path, skill: impl Fn(&str) -> Option<SkillKey>) -> Result<Self, Invalid> {
        read_text(path, |text| {
            File::new(text).read(|root| {
                let cases = root.tables("case", |section| case(section, &skill));
                Self(cases.into_iter().flatten().collect())
            })
        })
    }

    /// The cases in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Case> {
        self.0.iter()
    }
}

fn case(section: &Section<'_>, skill: &impl Fn(&str) -> Option<SkillKey>) -> Option<Case> {
    let word = |key| section.require(key, |written| value::text(written).map(str::to_owned));
    let name = word("name");
    let skill = section.require("skill", |written| {
        let text = value::text(written)?;
        skill(text).ok_or_else(|| format!("{text:?} is not label/path, nor a URI of the merged view"))
    });
    let expect = section.require(
        "expect",
        value::word(&[
            ("approve", Expect::Approve),
            ("review", Expect::Review),
            ("wait", Expect::Wait),
            ("deny", Expect::Deny),
        ]),
    );
    let rule = section.read("rule", |written| value::text(written).map(str::to_owned));
    let facts = facts(section);
    Some(Case {
        name: name?,
        skill: skill?,
        facts,
        expect: expect?,
        rule,
    })
}

/// What the weightiest remark may weigh.
const SEVERITIES: [(&str, Severity); 3] = [
    ("note", Severity::Note),
    ("warning", Severity::Warning),
    ("high", Severity::High),
];

/// What is known; where the case says nothing, the set was just seen, is like the one before, and is not stored.
fn facts(section: &Section<'_>) -> Facts {
    let flag = |key, standard| section.read(key, value::flag).unwrap_or(standard);
    let stored = flag("stored", false);
    let content = Content {
        text_only: flag("text_only", true),
        no_shebang: flag("no_shebang", true),
        worst: section.read("worst", value::word(&SEVERITIES)),
    };
    Facts {
        seen_for: section
            .read("seen_for", value::duration(Duration::ZERO))
            .unwrap_or_default(),
        barred: section.read(
            "barred",
            value::word(&[
                ("denied", Barred::Denied),
                ("revoked", Barred::Revoked),
                ("expired", Barred::Expired),
                ("recalled", Barred::Recalled),
                ("unmeasured", Barred::Unmeasured),
                ("moved", Barred::AddressMoved),
                ("gone", Barred::Gone),
            ]),
        ),
        change: Some(Change {
            first: flag("first", false),
            name_changed: flag("name_changed", false),
            description_changed: flag("description_changed", false),
            added: section
                .list("added", |written| value::text(written).map(str::to_owned))
                .unwrap_or_default(),
            new_bytes: section.read("new_bytes", value::size::<u64>(0)).unwrap_or_default(),
        }),
        content: stored.then_some(content),
    }
}
