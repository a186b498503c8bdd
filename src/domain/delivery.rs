//! Deliveries: who was given what, or refused it, when, and under which approval (design §7).
//!
//! A record of them is made of lines. Each delivery is one; a page of a listing is written out once for all the deliveries
//! that name its digest, so that "who received set X" covers listings too.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::Serialize;
use sha2::Digest as _;
use sha2::Sha256;
use thiserror::Error;

use super::approval::SkillState;
use super::digest::Digest;
use super::label::Label;
use super::limits::MAX_URI_BYTES;
use super::origin::SkillKey;
use super::set::SetId;
use super::text::serde_as_text;
use super::time::Timestamp;
use super::uri::SkillUri;

/// One answer to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// When it was given.
    pub time: Timestamp,
    /// To whom: a salted commitment, `person1:` and 64 hexadecimal digits.
    pub caller: String,
    /// Where it was asked for.
    pub endpoint: Endpoint,
    /// What was asked.
    pub method: Method,
    /// The origin, where the question named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Label>,
    /// The URI as the host asked it; see [`clip_uri`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// The skill, as its origin spells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<SkillUri>,
    /// The digest of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The set that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<SetId>,
    /// The approval it was served under: the index of its leaf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<u64>,
    /// The digest of the page, for a listing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<Digest>,
    /// What came of it.
    pub outcome: Outcome,
    /// Where the file came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The state for which it would have been held, had no trial let it through (`observe`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would: Option<SkillState>,
}

/// An address that hosts ask at: `/mcp`, or `/mcp/<label>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(pub Option<Label>);

/// A text that is no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not /mcp or /mcp/<label>")]
pub struct InvalidEndpoint(pub String);

/// What a host may ask of skills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// A page of the skills (`skills/list`).
    List,
    /// One entry (`skills/get`).
    Get,
    /// One file (`resources/read`).
    Read,
    /// One directory (`resources/directory/read`), or the paths of a skill's files as completions of its prompt.
    Directory,
    /// What lists the skills for hosts without the extension, in their instructions, tools or prompts.
    Catalog,
    /// A skill, loaded by a tool.
    LoadSkill,
    /// A file of one, read by a tool.
    ReadSkillFile,
    /// A skill, or a file of one, as a prompt.
    Prompt,
}

/// Where a file came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// From memory.
    Memory,
    /// From the disk, hashed again.
    Disk,
    /// From its origin, just now.
    Fetched,
}

/// What came of a question: it was delivered, or refused for a reason, by the word that the host was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was handed over. Whether it arrived, no server knows.
    Delivered,
    /// It was not.
    Refused(Cow<'static, str>),
}

/// The skills on one page of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The digest that deliveries name it by.
    pub page: Digest,
    /// What is on it, in its order.
    pub skills: Vec<Listed>,
}

/// One skill on a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Which.
    #[serde(flatten)]
    pub skill: SkillKey,
    /// The set that was shown.
    pub set: SetId,
}

/// Which deliveries somebody asks about: those that fit everything that is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Files with this digest.
    pub digest: Option<Digest>,
    /// Anything of this origin.
    pub origin: Option<Label>,
    /// Anything of this skill.
    pub skill: Option<SkillKey>,
    /// Anything of this set.
    pub set: Option<SetId>,
    /// To one of these callers, by their commitments.
    pub callers: Option<BTreeSet<String>>,
    /// Not before this moment.
    pub since: Option<Timestamp>,
    /// Not after this moment.
    pub until: Option<Timestamp>,
    /// Whether refusals are left out.
    pub delivered: bool,
}

impl Page {
    /// The page with these skills.
    pub fn new(skills: Vec<Listed>) -> Self {
        let digest = Self::digest_of(skills.iter().map(|listed| (&listed.skill.label, listed.set)));
        Self { page: digest, skills }
    }

    /// The digest of a page with these sets; a set id binds its skill's URI.
    pub fn digest_of<'a>(skills: impl Iterator<Item = (&'a Label, SetId)>) -> Digest {
        let mut hash = Sha256::new();
        hash.update(b"portcullis page v1\n");
        for (label, set) in skills {
            hash.update(label.as_str());
            hash.update(b"\n");
            hash.update(set.as_bytes());
        }
        Digest::from_hash(hash)
    }

    /// Says whether the page has something of what is wanted of a skill or a set.
    pub fn shows(&self, wanted: &Wanted) -> bool {
        self.skills.iter().any(|listed| {
            let label = &listed.skill.label;
            wanted.origin.as_ref().is_none_or(|origin| origin == label)
                && wanted.skill.as_ref().is_none_or(|skill| *skill == listed.skill)
                && wanted.set.is_none_or(|set| set == listed.set)
        })
    }
}

impl Wanted {
    /// Says whether a delivery fits; of a listing, `shown` says whether its page [shows](Page::shows) what is wanted.
    pub fn fits(&self, delivery: &Delivery, shown: bool) -> bool {
        self.fits_in_time(delivery.time, delivery.time)
            && self.digest.is_none_or(|digest| delivery.digest == Some(digest))
            && (shown && delivery.page.is_some() || self.fits_by_itself(delivery))
            && self
                .callers
                .as_ref()
                .is_none_or(|callers| callers.contains(&delivery.caller))
            && (!self.delivered || delivery.outcome == Outcome::Delivered)
    }

    /// Says whether anything made between two moments can fit.
    pub fn fits_in_time(&self, from: Timestamp, until: Timestamp) -> bool {
        self.since.is_none_or(|since| until >= since) && self.until.is_none_or(|end| from <= end)
    }

    fn fits_by_itself(&self, delivery: &Delivery) -> bool {
        let is_skill = |skill: &SkillKey| {
            delivery.label.as_ref() == Some(&skill.label) && delivery.skill.as_ref() == Some(&skill.uri)
        };
        let is_origin = |label: &Label| delivery.label.as_ref() == Some(label);
        self.origin.as_ref().is_none_or(is_origin)
            && self.skill.as_ref().is_none_or(is_skill)
            && self.set.is_none_or(|set| delivery.set == Some(set))
    }
}

/// What the record keeps of a URI that a host asked for: [`MAX_URI_BYTES`], and then a visible mark.
pub fn clip_uri(uri: &str) -> String {
    if uri.len() <= MAX_URI_BYTES {
        return uri.to_owned();
    }
    let end = uri.floor_char_boundary(MAX_URI_BYTES);
    let (kept, _) = uri.split_at(end);
    format!("{kept}…")
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("/mcp"),
            Some(label) => write!(f, "/mcp/{label}"),
        }
    }
}

impl FromStr for Endpoint {
    type Err = InvalidEndpoint;

    fn from_str(text: &str) -> Result<Self, InvalidEndpoint> {
        let invalid = || InvalidEndpoint(text.to_owned());
        match text.strip_prefix("/mcp").ok_or_else(invalid)? {
            "" => Ok(Self(None)),
            rest => {
                let label = rest.strip_prefix('/').and_then(|label| label.parse().ok());
                label.map(|label| Self(Some(label))).ok_or_else(invalid)
            }
        }
    }
}

serde_as_text!(Endpoint);

/// The word of a delivery that was made.
const DELIVERED: &str = "delivered";

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Delivered => DELIVERED,
            Self::Refused(reason) => reason,
        })
    }
}

impl FromStr for Outcome {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == DELIVERED {
            Self::Delivered
        } else {
            Self::Refused(text.to_owned().into())
        })
    }
}

serde_as_text!(Outcome);

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List => "list",
            Self::Get => "get",
            Self::Read => "read",
            Self::Directory => "directory",
            Self::Catalog => "catalog",
            Self::LoadSkill => "load-skill",
            Self::ReadSkillFile => "read-skill-file",
            Self::Prompt => "prompt",
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Fetched => "fetched",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn skill(name: &str) -> SkillKey {
        SkillKey {
            label: "acme".parse().unwrap(),
            uri: format!("skill://{name}/SKILL.md").parse().unwrap(),
        }
    }

    fn set(digit: char) -> SetId {
        format!("set1:{}", digit.to_string().repeat(64)).parse().unwrap()
    }

    fn read() -> Delivery {
        Delivery {
            time: Timestamp::from_millis(1_790_000_000_123),
            caller: format!("person1:{}", "a".repeat(64)),
            endpoint: Endpoint(Some("acme".parse().unwrap())),
            method: Method::Read,
            label: Some("acme".parse().unwrap()),
            uri: Some("skill://a/b.md".to_owned()),
            skill: Some(skill("a").uri),
            digest: Some(Digest::of(b"b")),
            set: Some(set('0')),
            approval: Some(7),
            page: None,
            outcome: Outcome::Delivered,
            source: Some(Source::Memory),
            would: None,
        }
    }

    fn listing() -> Delivery {
        Delivery {
            method: Method::List,
            uri: None,
            skill: None,
            label: None,
            digest: None,
            set: None,
            approval: None,
            source: None,
            page: Some(Digest::of(b"page")),
            ..read()
        }
    }

    #[test]
    fn a_delivery_reads_back() {
        for delivery in [
            read(),
            listing(),
            Delivery {
                outcome: Outcome::Refused("held".into()),
                endpoint: Endpoint(None),
                ..listing()
            },
        ] {
            let text = serde_json::to_string(&delivery).unwrap();
            assert_eq!(serde_json::from_str::<Delivery>(&text).unwrap(), delivery, "{text}");
        }
    }

    /// A question that names what `name` puts in.
    fn wanted(name: impl FnOnce(&mut Wanted)) -> Wanted {
        let mut wanted = Wanted::default();
        name(&mut wanted);
        wanted
    }

    #[test]
    fn everything_that_is_named_must_fit() {
        assert!(Wanted::default().fits(&read(), false) && Wanted::default().fits(&listing(), false));
        let later = read().time.checked_add(std::time::Duration::from_millis(1));
        for (fits, wanted) in [
            (true, wanted(|w| w.digest = Some(Digest::of(b"b")))),
            (false, wanted(|w| w.digest = Some(Digest::of(b"c")))),
            (true, wanted(|w| (w.skill, w.set) = (Some(skill("a")), Some(set('0'))))),
            (false, wanted(|w| w.skill = Some(skill("b")))),
            (false, wanted(|w| w.set = Some(set('1')))),
            (
                false,
                wanted(|w| w.callers = Some(BTreeSet::from(["person1:b".to_owned()]))),
            ),
            (false, wanted(|w| w.since = later)),
            (
                true,
                wanted(|w| (w.since, w.until) = (Some(read().time), Some(read().time))),
            ),
        ] {
            assert_eq!(wanted.fits(&read(), false), fits, "{wanted:?}");
        }
        let refused = Delivery {
            outcome: Outcome::Refused("held".into()),
            ..read()
        };
        assert!(!wanted(|w| w.delivered = true).fits(&refused, false));
    }

    #[test]
    fn a_listing_fits_by_what_its_page_shows() {
        let page = Page::new(vec![
            Listed {
                skill: skill("a"),
                set: set('0'),
            },
            Listed {
                skill: skill("b"),
                set: set('1'),
            },
        ]);
        let fits = |wanted: &Wanted| wanted.fits(&listing(), page.shows(wanted));
        assert!(fits(&wanted(|w| (w.skill, w.set) = (Some(skill("b")), Some(set('1'))))));
        assert!(!fits(
            &wanted(|w| (w.skill, w.set) = (Some(skill("b")), Some(set('0'))))
        ));
        assert!(!fits(&wanted(|w| w.skill = Some(skill("c")))));
        let file = wanted(|w| w.digest = Some(Digest::of(b"b")));
        assert!(!fits(&file), "a listing hands over no file");
    }

    #[test]
    fn pages_with_other_sets_or_labels_have_other_digests() {
        let listed = |label: &str, set: SetId| Listed {
            skill: SkillKey {
                label: label.parse().unwrap(),
                ..skill("a")
            },
            set,
        };
        let pages = [
            vec![],
            vec![listed("a", set('0'))],
            vec![listed("b", set('0'))],
            vec![listed("a", set('1'))],
            vec![listed("a", set('0')), listed("a", set('1'))],
            vec![listed("a", set('1')), listed("a", set('0'))],
        ];
        let digests: BTreeSet<Digest> = pages.into_iter().map(|skills| Page::new(skills).page).collect();
        assert_eq!(digests.len(), 6);
    }

    proptest! {
        #[test]
        fn what_is_kept_of_a_uri_is_bounded(uri in ".{0,3000}") {
            let kept = clip_uri(&uri);
            prop_assert!(kept.len() <= MAX_URI_BYTES + '…'.len_utf8());
            prop_assert!(uri.starts_with(kept.trim_end_matches('…')));
            prop_assert_eq!(kept == uri, uri.len() <= MAX_URI_BYTES || uri == kept);
        }

        #[test]
        fn an_endpoint_that_parses_prints_as_it_was(text in "/mcp(/[a-z-]{0,5})?") {
            if let Ok(endpoint) = text.parse::<Endpoint>() {
                prop_assert_eq!(endpoint.to_string(), text);
            }
        }
    }
}
