//! What the operator's words about skills amount to: which of them hold for one skill, and what rules approve.
//!
//! Words stand in three places: rules, an origin, and the defaults of the file. The first rule that matches a skill comes
//! first; what it does not say is as the origin says, then as the file says, then as [`Policy::default`] says. A
//! [`Policy`] has the outcome; `ruling` says what it means for one set.

mod pattern;
mod ruling;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::Serialize;

pub use pattern::InvalidPattern;
pub use pattern::InvalidRuleName;
pub use pattern::RuleName;
pub use pattern::SkillPattern;
pub use ruling::Barred;
pub use ruling::Change;
pub use ruling::Conditions;
pub use ruling::Content;
pub use ruling::Facts;
pub use ruling::MaxSeverity;
pub use ruling::Review;
pub use ruling::Ruling;
pub use ruling::Unmet;
pub use ruling::Wait;

use super::frontmatter::FrontmatterPolicy;
use super::label::Label;
use super::origin::SkillKey;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How a skill comes to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Who decides.
    pub trust: Trust,
    /// Whose word `trust` is: what is written on the record when a rule approves.
    pub source: Source,
    /// What happens to an approval when another set is seen.
    pub on_change: OnChange,
    /// How strictly frontmatter is compared.
    pub frontmatter: FrontmatterPolicy,
    /// How long an origin may be silent before its skills are held; without it, for ever.
    pub max_stale: Option<Duration>,
    /// How many people it takes to approve.
    pub quorum: NonZeroU32,
    /// How long an approval holds; without it, until somebody ends it.
    pub expires: Option<Duration>,
    /// How long a set has to be seen before a rule may approve it.
    pub hold: Duration,
    /// What has to be true of a set that a rule approves.
    pub auto: Conditions,
    /// How long a trial lasts in which what merely waits is served too; without it, there is none.
    pub observe: Option<Duration>,
}

impl Default for Policy {
    /// What holds where an operator says nothing: one person decides, and every change is held.
    fn default() -> Self {
        Self {
            trust: Trust::Review,
            source: Source::BuiltIn,
            on_change: OnChange::Suspend,
            frontmatter: FrontmatterPolicy::Readings,
            max_stale: None,
            quorum: NonZeroU32::MIN,
            expires: None,
            hold: Duration::ZERO,
            auto: Conditions::default(),
            observe: None,
        }
    }
}

/// Who decides about sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// People, one set at a time.
    Review,
    /// A rule, where its conditions hold; people may too.
    Auto,
    /// Nobody: the skills are listed to operators and never served.
    Deny,
}

/// What happens to an approval when another set is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnChange {
    /// It ends (the protocol's letter, H-59).
    Suspend,
    /// The approved set goes on being served from the store while the new one waits.
    Keep,
}

/// The words in one place: each may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Keys {
    /// As [`Policy::trust`].
    pub trust: Option<Trust>,
    /// As [`Policy::on_change`].
    pub on_change: Option<OnChange>,
    /// As [`Policy::frontmatter`].
    pub frontmatter: Option<FrontmatterPolicy>,
    /// As [`Policy::max_stale`].
    pub max_stale: Option<Duration>,
    /// As [`Policy::quorum`].
    pub quorum: Option<NonZeroU32>,
    /// As [`Policy::expires`].
    pub expires: Option<Duration>,
    /// As [`Policy::hold`].
    pub hold: Option<Duration>,
    /// As [`Policy::auto`], all conditions together.
    pub auto: Option<Conditions>,
    /// As [`Policy::observe`]; never in a rule.
    pub observe: Option<Duration>,
}

impl Keys {
    /// The same with what holds where nothing is said, as far as that is a value.
    #[must_use]
    pub fn with_defaults(&self) -> Self {
        let standard = Policy::default();
        Self {
            trust: self.trust.or(Some(standard.trust)),
            on_change: self.on_change.or(Some(standard.on_change)),
            frontmatter: self.frontmatter.or(Some(standard.frontmatter)),
            quorum: self.quorum.or(Some(standard.quorum)),
            hold: self.hold.or(Some(standard.hold)),
            auto: self.auto.clone().or(Some(standard.auto)),
            ..self.clone()
        }
    }
}

/// Words for some skills.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// What it is called, on the record too.
    pub name: RuleName,
    /// The origin that it is for; without it, all.
    pub origin: Option<Label>,
    /// The skills that it is for; without it, all.
    pub skill: Option<SkillPattern>,
    /// What it says.
    pub keys: Keys,
}

/// Where a word stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Source {
    /// Nowhere: it holds without being said.
    BuiltIn,
    /// `[policy]`.
    Policy,
    /// An `[[origin]]`.
    Origin(Label),
    /// A `[[rule]]`.
    Rule(RuleName),
}

/// Everything that the operator says about skills.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// What holds for an origin that says nothing else.
    pub standard: Keys,
    /// What origins say.
    pub origins: BTreeMap<Label, Keys>,
    /// The rules, in the order in which they are tried.
    pub rules: Vec<Rule>,
}

/// One word that holds for a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The key.
    pub key: &'static str,
    /// Its value as it would be written; `none` where nothing is.
    pub value: String,
    /// Where it stands.
    pub source: Source,
}

/// The places that speak about one skill, the first one first.
struct Places<'a> {
    rule: Option<&'a Rule>,
    label: &'a Label,
    origin: Option<&'a Keys>,
    standard: &'a Keys,
}

impl Rule {
    fn is_for(&self, skill: &SkillKey) -> bool {
        let label = self.origin.as_ref().is_none_or(|label| *label == skill.label);
        label && self.skill.as_ref().is_none_or(|pattern| pattern.matches(&skill.uri))
    }
}

impl Policies {
    /// The policy for a skill.
    pub fn of(&self, skill: &SkillKey) -> Policy {
        self.places(skill).policy()
    }

    /// The first rule that is for a skill.
    pub fn rule(&self, skill: &SkillKey) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.is_for(skill))
    }

    /// Every word that holds for a skill, and where it stands.
    pub fn explain(&self, skill: &SkillKey) -> Vec<Explained> {
        self.places(skill).explain()
    }

    /// How many people it takes to accept another address of an origin: as many as for any skill that it may have.
    pub fn quorum_of_origin(&self, label: &Label) -> NonZeroU32 {
        let own = self.origins.get(label).and_then(|keys| keys.quorum);
        let own = own.or(self.standard.quorum).unwrap_or(NonZeroU32::MIN);
        let may_match = |rule: &&Rule| rule.origin.as_ref().is_none_or(|of| of == label);
        let rules = self.rules.iter().filter(may_match).filter_map(|rule| rule.keys.quorum);
        rules.fold(own, NonZeroU32::max)
    }

    /// Says whether a rule may approve anything of an origin.
    pub fn may_approve(&self, label: &Label) -> bool {
        let is_auto = |keys: &Keys| keys.trust == Some(Trust::Auto);
        let may_match = |rule: &&Rule| rule.origin.as_ref().is_none_or(|of| of == label);
        is_auto(&self.standard)
            || self.origins.get(label).is_some_and(is_auto)
            || self.rules.iter().filter(may_match).any(|rule| is_auto(&rule.keys))
    }

    /// How long an origin's trial lasts, if it has one.
    pub fn trial_of(&self, label: &Label) -> Option<Duration> {
        let own = self.origins.get(label).and_then(|keys| keys.observe);
        own.or(self.standard.observe)
    }

    fn places<'a>(&'a self, skill: &'a SkillKey) -> Places<'a> {
        Places {
            rule: self.rule(skill),
            label: &skill.label,
            origin: self.origins.get(&skill.label),
            standard: &self.standard,
        }
    }
}

impl Places<'_> {
    fn policy(&self) -> Policy {
        let standard = Policy::default();
        let (trust, source) = self.trust().unwrap_or((standard.trust, standard.source));
        Policy {
            trust,
            source,
            on_change: self.find(|keys| keys.on_change).unwrap_or(standard.on_change),
            frontmatter: self.find(|keys| keys.frontmatter).unwrap_or(standard.frontmatter),
            max_stale: self.find(|keys| keys.max_stale),
            quorum: self.find(|keys| keys.quorum).unwrap_or(standard.quorum),
            expires: self.find(|keys| keys.expires),
            hold: self.find(|keys| keys.hold).unwrap_or(standard.hold),
            auto: self.find(|keys| keys.auto.clone()).unwrap_or(standard.auto),
            observe: self.find(|keys| keys.observe),
        }
    }

    fn trust(&self) -> Option<(Trust, Source)> {
        self.find_where(|keys| keys.trust)
    }

    fn explain(&self) -> Vec<Explained> {
        let policy = self.policy();
        let line = |key, value: String, says: &dyn Fn(&Keys) -> bool| Explained {
            key,
            value,
            source: self
                .find_where(|keys| says(keys).then_some(()))
                .map_or(Source::BuiltIn, |(_, source)| source),
        };
        vec![
            line("trust", policy.trust.to_string(), &|keys| keys.trust.is_some()),
            line("on_change", policy.on_change.to_string(), &|keys| {
                keys.on_change.is_some()
            }),
            line("frontmatter", word(policy.frontmatter).to_owned(), &|keys| {
                keys.frontmatter.is_some()
            }),
            line("max_stale", span(policy.max_stale), &|keys| keys.max_stale.is_some()),
            line("quorum", policy.quorum.to_string(), &|keys| keys.quorum.is_some()),
            line("expires", span(policy.expires), &|keys| keys.expires.is_some()),
            line("hold", span(Some(policy.hold)), &|keys| keys.hold.is_some()),
            line("auto", policy.auto.to_string(), &|keys| keys.auto.is_some()),
            line("observe", span(policy.observe), &|keys| keys.observe.is_some()),
        ]
    }

    fn find<T>(&self, word: impl Fn(&Keys) -> Option<T>) -> Option<T> {
        let of_rule = self.rule.and_then(|rule| word(&rule.keys));
        let of_origin = || self.origin.and_then(&word);
        of_rule.or_else(of_origin).or_else(|| word(self.standard))
    }

    fn find_where<T>(&self, word: impl Fn(&Keys) -> Option<T>) -> Option<(T, Source)> {
        let of_rule = self
            .rule
            .and_then(|rule| Some((word(&rule.keys)?, Source::Rule(rule.name.clone()))));
        let of_origin = || {
            let found = self.origin.and_then(&word)?;
            Some((found, Source::Origin(self.label.clone())))
        };
        let of_file = || Some((word(self.standard)?, Source::Policy));
        of_rule.or_else(of_origin).or_else(of_file)
    }
}

fn word(frontmatter: FrontmatterPolicy) -> &'static str {
    match frontmatter {
        FrontmatterPolicy::Readings => "readings",
        FrontmatterPolicy::Strict => "strict",
    }
}

/// A duration as people write it: whole days are no months and hours.
fn span(span: Option<Duration>) -> String {
    match span {
        None => "none".to_owned(),
        Some(span) if span >= DAY && span.as_nanos().is_multiple_of(DAY.as_nanos()) => {
            format!("{}days", span.as_secs() / DAY.as_secs())
        }
        Some(span) => humantime::format_duration(span).to_string(),
    }
}

impl Source {
    /// The name on the record of what approved a set: the rule's own, `policy` or `origin.<label>`.
    pub fn on_record(&self) -> String {
        match self {
            Self::BuiltIn | Self::Policy => RuleName::POLICY.to_owned(),
            Self::Origin(label) => format!("origin.{label}"),
            Self::Rule(name) => name.to_string(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("the default"),
            Self::Policy => f.write_str("[policy]"),
            Self::Origin(label) => write!(f, "the origin {label}"),
            Self::Rule(name) => write!(f, "the rule {name}"),
        }
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Review => "review",
            Self::Auto => "auto",
            Self::Deny => "deny",
        })
    }
}

impl fmt::Display for OnChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Suspend => "suspend",
            Self::Keep => "keep",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(label: &str, uri: &str) -> SkillKey {
        SkillKey {
            label: label.parse().unwrap(),
            uri: uri.parse().unwrap(),
        }
    }

    fn quorum(people: u32) -> Option<NonZeroU32> {
        NonZeroU32::new(people)
    }

    fn rule(name: &str, origin: Option<&str>, pattern: Option<&str>, keys: Keys) -> Rule {
        Rule {
            name: name.parse().unwrap(),
            origin: origin.map(|label| label.parse().unwrap()),
            skill: pattern.map(|pattern| pattern.parse().unwrap()),
            keys,
        }
    }

    fn policies() -> Policies {
        let trust = |trust| Keys {
            trust: Some(trust),
            ..Keys::default()
        };
        let acme = Keys {
            quorum: quorum(2),
            hold: Some(DAY),
            ..Keys::default()
        };
        let legal = Keys {
            quorum: quorum(3),
            ..trust(Trust::Auto)
        };
        Policies {
            standard: Keys {
                expires: Some(180 * DAY),
                quorum: quorum(1),
                observe: Some(14 * DAY),
                ..Keys::default()
            },
            origins: BTreeMap::from([("acme".parse().unwrap(), acme)]),
            rules: vec![
                rule("no-legal", None, Some("legal/secret"), trust(Trust::Deny)),
                rule("legal", Some("acme"), Some("legal/**"), legal),
                rule("never-reached", Some("acme"), Some("legal/**"), trust(Trust::Review)),
            ],
        }
    }

    #[test]
    fn the_first_rule_that_matches_wins_and_what_it_does_not_say_falls_through() {
        let policies = policies();
        let policy = policies.of(&skill("acme", "skill://legal/nda/SKILL.md"));
        assert_eq!(
            (policy.trust, policy.source.on_record().as_str()),
            (Trust::Auto, "legal")
        );
        assert_eq!((policy.quorum.get(), policy.hold), (3, DAY));
        assert_eq!((policy.expires, policy.on_change), (Some(180 * DAY), OnChange::Suspend));
        let other = policies.of(&skill("beta", "skill://legal/nda/SKILL.md"));
        assert_eq!(
            (other.trust, other.quorum.get(), other.hold),
            (Trust::Review, 1, Duration::ZERO)
        );
        let secret = policies.of(&skill("acme", "skill://legal/secret/SKILL.md"));
        assert_eq!((secret.trust, secret.quorum.get()), (Trust::Deny, 2));
        assert_eq!(
            Policies::default().of(&skill("acme", "skill://a/SKILL.md")),
            Policy::default()
        );
    }

    #[test]
    fn each_word_is_explained_with_the_place_where_it_stands() {
        let explained = policies().explain(&skill("acme", "skill://legal/nda/SKILL.md"));
        let told: Vec<_> = explained
            .iter()
            .map(|word| format!("{} = {} from {}", word.key, word.value, word.source))
            .collect();
        assert_eq!(
            told,
            [
                "trust = auto from the rule legal",
                "on_change = suspend from the default",
                "frontmatter = readings from the default",
                "max_stale = none from the default",
                "quorum = 3 from the rule legal",
                "expires = 180days from [policy]",
                "hold = 1days from the origin acme",
                "auto = {} from the default",
                "observe = 14days from [policy]",
            ]
        );
    }

    #[test]
    fn an_address_takes_as_many_people_as_the_strictest_rule_that_may_match_the_origin() {
        let policies = policies();
        for (label, people) in [("acme", 3), ("beta", 1)] {
            assert_eq!(
                policies.quorum_of_origin(&label.parse().unwrap()).get(),
                people,
                "{label}"
            );
        }
        assert_eq!(policies.trial_of(&"beta".parse().unwrap()), Some(14 * DAY));
        assert_eq!(Policies::default().trial_of(&"beta".parse().unwrap()), None);
    }
}
