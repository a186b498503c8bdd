//! Our own cursors: the last skill of a page, sealed, so that one of them goes on where it was or is refused.
//!
//! A page goes by label and URI, not by place, so a refresh between two pages neither skips nor repeats what was there
//! all along. The seal is no security boundary: it only tells our cursors from made-up ones.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rand::RngCore as _;

use crate::domain::Digest;
use crate::domain::SkillKey;
use crate::gateway::View;

/// Bytes of the seal.
const SEAL: usize = 16;

/// What cursors are sealed with; another one after each start.
pub(super) struct CursorKey([u8; 32]);

impl CursorKey {
    pub(super) fn random() -> Self {
        let mut key = [0; 32];
        rand::rng().fill_bytes(&mut key);
        Self(key)
    }

    /// The cursor for what comes after `last` in `view`.
    pub(super) fn seal(&self, view: &View, last: &SkillKey) -> String {
        let place = format!("{} {}", last.label, last.uri);
        let mut bytes = self.seal_of(view, &place).to_vec();
        bytes.extend_from_slice(place.as_bytes());
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The place that a cursor of ours stands for; none for any other text, or one given out in another view.
    pub(super) fn open(&self, view: &View, cursor: &str) -> Option<SkillKey> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let (seal, place) = bytes.split_at_checked(SEAL)?;
        let place = std::str::from_utf8(place).ok()?;
        if seal != self.seal_of(view, place) {
            return None;
        }
        let (label, uri) = place.split_once(' ')?;
        Some(SkillKey {
            label: label.parse().ok()?,
            uri: uri.parse().ok()?,
        })
    }

    fn seal_of(&self, view: &View, place: &str) -> [u8; SEAL] {
        let view = match view {
            View::Merged => "",
            View::Origin(label) => label.as_str(),
        };
        let whole = [&self.0[..], view.as_bytes(), b" ", place.as_bytes(), &self.0[..]].concat();
        let digest = Digest::of(&whole);
        let mut seal = [0; SEAL];
        seal.iter_mut()
            .zip(digest.as_bytes())
            .for_each(|(to, from)| *to = *from);
        seal
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> SkillKey {
        SkillKey {
            label: "acme".parse().unwrap(),
            uri: "skill://a b/é/SKILL.md".parse().unwrap(),
        }
    }

    #[test]
    fn a_cursor_opens_in_the_view_and_the_process_that_gave_it_out() {
        let cursors = CursorKey::random();
        let view = View::Origin("acme".parse().unwrap());
        let cursor = cursors.seal(&view, &key());
        assert_eq!(cursors.open(&view, &cursor), Some(key()));
        assert_eq!(cursors.open(&View::Merged, &cursor), None);
        assert_eq!(CursorKey::random().open(&view, &cursor), None);
    }

    proptest! {
        #[test]
        fn made_up_cursors_are_refused(text in ".{0,80}") {
            prop_assert_eq!(CursorKey::random().open(&View::Merged, &text), None);
        }
    }
}
