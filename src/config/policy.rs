//! `[policy]`, the same keys of an `[[origin]]`, and `[[rule]]`: what holds for which skills.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use toml::de::DeValue;

use super::file::Section;
use super::people::People;
use super::read::MOMENT;
use super::value;
use crate::domain::FrontmatterPolicy;
use crate::domain::Label;
use crate::domain::OnChange;
use crate::domain::Trust;
use crate::domain::policy::Conditions;
use crate::domain::policy::Keys;
use crate::domain::policy::MaxSeverity;
use crate::domain::policy::Rule;
use crate::domain::policy::RuleName;
use crate::domain::policy::SkillPattern;

/// `[policy]`, or the same keys of an origin.
pub(super) fn policy(section: &Section<'_>, people: &People) -> Keys {
    Keys {
        observe: section.read("observe", value::duration(MOMENT)),
        ..keys(section, people)
    }
}

/// Every `[[rule]]`, in the order of the file. One for an origin that is not there is a slip, since it could never match.
pub(super) fn rules(root: &Section<'_>, people: &People, origins: &BTreeSet<Label>) -> Vec<Rule> {
    let mut taken = BTreeSet::new();
    let rules = root.tables("rule", |section| {
        let rule = rule(section, people, origins)?;
        if !taken.insert(rule.name.clone()) {
            section.problem(
                "name",
                format!("{:?} is the name of a rule above", rule.name.to_string()),
            );
        }
        Some(rule)
    });
    rules.into_iter().flatten().collect()
}

/// One rule, or nothing when it has no name.
fn rule(section: &Section<'_>, people: &People, origins: &BTreeSet<Label>) -> Option<Rule> {
    let name = section.require("name", parsed::<RuleName>);
    let origin = section.read("origin", |written| {
        let label = value::label(written)?;
        let is_there = origins.contains(&label);
        is_there
            .then_some(label)
            .ok_or_else(|| "is the label of no origin".to_owned())
    });
    let skill = section.read("skill", parsed::<SkillPattern>);
    // A rule whose words about itself are wrong is none, rather than one for all skills.
    let is_whole = origin.is_some() == section.has("origin") && skill.is_some() == section.has("skill");
    let keys = keys(section, people);
    Some(Rule {
        name: name.filter(|_| is_whole)?,
        origin,
        skill,
        keys,
    })
}

/// The keys that stand in all three places.
fn keys(section: &Section<'_>, people: &People) -> Keys {
    let span = |key| section.read(key, value::duration(MOMENT));
    Keys {
        trust: section.read(
            "trust",
            value::word(&[("review", Trust::Review), ("auto", Trust::Auto), ("deny", Trust::Deny)]),
        ),
        on_change: section.read(
            "on_change",
            value::word(&[("suspend", OnChange::Suspend), ("keep", OnChange::Keep)]),
        ),
        frontmatter: section.read(
            "frontmatter",
            value::word(&[
                ("readings", FrontmatterPolicy::Readings),
                ("strict", FrontmatterPolicy::Strict),
            ]),
        ),
        max_stale: span("max_stale"),
        quorum: section.read("quorum", |written| quorum(written, people)),
        expires: span("expires"),
        hold: section.read("hold", value::duration(Duration::ZERO)),
        auto: Some(section.table("auto", conditions)).filter(|_| section.has("auto")),
        observe: None,
    }
}

/// How many people it takes: no more than there are, since nothing could then be approved.
fn quorum(written: &DeValue<'_>, people: &People) -> Result<NonZeroU32, String> {
    let wanted = value::count(1)(written)?;
    let listed = people.iter().len();
    if wanted > 1 && wanted > listed {
        return Err(format!("asks for {wanted} people, and [[person]] lists {listed}"));
    }
    let number = u32::try_from(wanted).ok().and_then(NonZeroU32::new);
    number.ok_or_else(|| format!("{wanted} is more than anybody can count"))
}

/// The most that a remark may weigh.
const MAX_SEVERITIES: [(&str, MaxSeverity); 3] = [
    ("none", MaxSeverity::None),
    ("note", MaxSeverity::Note),
    ("warning", MaxSeverity::Warning),
];

/// `auto`: conditions.
fn conditions(section: &Section<'_>) -> Conditions {
    let flag = |key| section.read(key, value::flag).unwrap_or(false);
    Conditions {
        same_name_and_description: flag("same_name_and_description"),
        no_new_executables: flag("no_new_executables"),
        max_new_files: section
            .read("max_new_files", value::count(0))
            .map(|count| u64::try_from(count).unwrap_or(u64::MAX)),
        max_new_bytes: section.read("max_new_bytes", value::size::<u64>(0)),
        text_only: flag("text_only"),
        no_shebang: flag("no_shebang"),
        max_severity: section.read("max_severity", value::word(&MAX_SEVERITIES)),
    }
}

fn parsed<T>(written: &DeValue<'_>) -> Result<T, String>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    value::text(written)?.parse().map_err(|why| format!("{why}"))
}
