//! What the skill map owns: URIs that no door but the skill family's may answer for (design §3).
//!
//! Decided on the upstream URI after everything that another reader might do to it (percent-decoding, case folding,
//! dropping dots and doubled slashes), because a byte of a skill must not leave under another spelling of its name.

use std::collections::HashSet;

use super::uri::SKILL_FILE;
use super::uri::SkillUri;

/// How often an escape may itself be escaped before decoding stops looking.
const MAX_DECODINGS: usize = 8;

/// The roots of all skills ever seen at one origin, in whatever state.
#[derive(Clone, Debug, Default)]
pub struct SkillRoots(HashSet<Vec<String>>);

impl SkillRoots {
    /// Adds the root of a skill that was seen.
    pub fn add(&mut self, skill: &SkillUri) {
        self.0.insert(loosest_form(skill.root()).segments);
    }

    /// Says whether the skill map owns `uri`: its scheme is `skill`, or it names some `SKILL.md`, or it lies under a root.
    pub fn own(&self, uri: &str) -> bool {
        let form = loosest_form(uri);
        let names_a_skill = form
            .segments
            .last()
            .is_some_and(|last| *last == SKILL_FILE.to_lowercase());
        form.scheme == "skill" || names_a_skill || self.contain(&form.segments)
    }

    fn contain(&self, segments: &[String]) -> bool {
        (1..=segments.len()).any(|end| segments.get(..end).is_some_and(|head| self.0.contains(head)))
    }
}

/// A URI as the most forgiving reader would see it.
struct LoosestForm {
    scheme: String,
    segments: Vec<String>,
}

fn loosest_form(uri: &str) -> LoosestForm {
    let decoded = fold(&decode_wholly(uri));
    let (scheme, rest) = decoded.split_once(':').unwrap_or(("", &decoded));
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    let mut segments: Vec<String> = vec![scheme.to_owned()];
    for segment in path.split(['/', '\\']) {
        match segment {
            "" | "." => {}
            ".." if segments.len() > 1 => drop(segments.pop()),
            ".." => {}
            name => segments.push(name.to_owned()),
        }
    }
    LoosestForm {
        scheme: scheme.to_owned(),
        segments,
    }
}

/// Upper case first, so that letters such as `ſ` and the Kelvin sign meet their ASCII twins.
fn fold(text: &str) -> String {
    text.chars()
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect()
}

fn decode_wholly(uri: &str) -> String {
    let mut text = uri.to_owned();
    for _ in 0..MAX_DECODINGS {
        let decoded = decode_once(&text);
        if decoded == text {
            break;
        }
        text = decoded;
    }
    text
}

fn decode_once(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let escaped = match (byte, tail) {
            (b'%', [high, low, ..]) => hex_digit(*high)
                .zip(hex_digit(*low))
                .map(|(high, low)| (high << 4) | low),
            _ => None,
        };
        bytes.push(escaped.unwrap_or(byte));
        rest = tail.get(if escaped.is_some() { 2.. } else { 0.. }).unwrap_or_default();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn roots(skills: &[&str]) -> SkillRoots {
        let mut roots = SkillRoots::default();
        for skill in skills {
            roots.add(&skill.parse().unwrap());
        }
        roots
    }

    #[test]
    fn other_spellings_of_a_skill_are_owned() {
        let roots = roots(&["repo://team/deploy/SKILL.md"]);
        for uri in [
            "skill://anything",
            "SKILL:x",
            "Skill://a/b",
            "docs://a/SKILL.md",
            "docs://a/SKILL%2Emd",
            "docs://a/SKILL%252Emd",
            "docs://a/%53kill.MD",
            "docs://a/ſKILL.md",
            "docs:a/SKILL.md?x=1",
            "docs://a/SKILL.md#top",
            "repo://team/deploy",
            "repo://team/deploy/_manifest",
            "REPO://team//deploy/./x",
            "repo://team/x/../deploy/a.sh",
            "repo://team%2Fdeploy%2Fa.sh",
            "repo:team\\deploy\\a.sh",
        ] {
            assert!(roots.own(uri), "{uri}");
        }
    }

    #[test]
    fn what_is_no_skill_is_not_owned() {
        let roots = roots(&["repo://team/deploy/SKILL.md"]);
        for uri in [
            "repo://team/deployment/x",
            "repo://team",
            "https://x/skills.md",
            "docs://skill/a.md",
            "{x}",
        ] {
            assert!(!roots.own(uri), "{uri}");
        }
    }

    proptest! {
        #[test]
        fn everything_under_a_seen_root_is_owned(path in "[a-zA-Z0-9%._-]{1,12}", tail in "[ -~]{0,12}") {
            let skill = format!("repo://{path}/deploy/SKILL.md");
            if let Ok(skill) = skill.parse::<SkillUri>() {
                let mut roots = SkillRoots::default();
                roots.add(&skill);
                prop_assert!(roots.own(skill.as_str()));
                prop_assert!(roots.own(skill.root()));
                if !tail.contains("..") && !tail.contains('%') {
                    let below = format!("{}/{tail}", skill.root());
                    prop_assert!(roots.own(&below));
                }
            }
        }
    }
}
