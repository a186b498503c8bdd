//! Moments, as the audit log and approvals carry them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use thiserror::Error;

use super::text::serde_as_text;

/// A moment in UTC, to the millisecond, from 1970 to the last one of the year 9999.
///
/// It has exactly one spelling, RFC 3339 with three decimals and `Z`, so that canonical JSON over it hashes the same
/// everywhere (design §7). Only `clock` asks what time it is; here time is an argument.
///
/// ```
/// use portcullis::domain::Timestamp;
/// let moment = Timestamp::from_millis(1_700_000_000_123);
/// assert_eq!(moment.to_string(), "2023-11-14T22:13:20.123Z");
/// assert_eq!(moment.to_string().parse(), Ok(moment));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

/// A text that is no moment: not `YYYY-MM-DDThh:mm:ss.mmmZ`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a moment such as 2026-07-28T09:30:00.000Z")]
pub struct InvalidTimestamp(pub String);

impl Timestamp {
    /// The last moment there is, 9999-12-31T23:59:59.999Z: RFC 3339 has four digits for the year.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// The moment `millis` milliseconds after 1970 began; at most [`Timestamp::MAX`].
    pub const fn from_millis(millis: u64) -> Self {
        Self(if millis < Self::MAX.0 { millis } else { Self::MAX.0 })
    }

    /// The milliseconds since 1970 began.
    pub fn as_millis(self) -> u64 {
        self.0
    }

    /// The moment `span` later (whole milliseconds), if there is one.
    pub fn checked_add(self, span: Duration) -> Option<Self> {
        let millis = self.0.checked_add(u64::try_from(span.as_millis()).ok()?)?;
        (millis <= Self::MAX.0).then_some(Self(millis))
    }

    /// How long after `earlier` this is; nothing when it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl From<SystemTime> for Timestamp {
    /// The moment, to the millisecond before it; before 1970, its beginning.
    fn from(moment: SystemTime) -> Self {
        let span = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    }
}

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        humantime::parse_rfc3339(text)
            .ok()
            .and_then(|moment| moment.duration_since(UNIX_EPOCH).ok())
            .and_then(|span| Self(0).checked_add(span))
            // One moment, one spelling: other precisions and offsets are refused.
            .filter(|moment| moment.to_string() == text)
            .ok_or_else(|| InvalidTimestamp(text.to_owned()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = UNIX_EPOCH + Duration::from_millis(self.0);
        humantime::format_rfc3339_millis(moment).fmt(f)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

serde_as_text!(Timestamp);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_one_spelling_is_a_moment() {
        for bad in [
            "",
            "now",
            "2026-07-28",
            "2026-07-28T09:30:00Z",
            "2026-07-28T09:30:00.0Z",
            "2026-07-28T09:30:00.0000Z",
            "2026-07-28T09:30:00.000+00:00",
            "2026-07-28 09:30:00.000Z",
            "1969-12-31T23:59:59.999Z",
        ] {
            assert_eq!(bad.parse::<Timestamp>(), Err(InvalidTimestamp(bad.to_owned())));
        }
    }

    #[test]
    fn time_ends_with_the_year_9999() {
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::from_millis(u64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MAX.checked_add(Duration::from_millis(1)), None);
        assert_eq!(Timestamp::MAX.checked_add(Duration::MAX), None);
    }

    #[test]
    fn what_is_not_after_is_no_time_after() {
        let (early, late) = (Timestamp::from_millis(1_000), Timestamp::from_millis(3_500));
        assert_eq!(late.since(early), Duration::from_millis(2_500));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(early.checked_add(Duration::from_millis(2_500)), Some(late));
    }

    proptest! {
        #[test]
        fn printing_and_parsing_are_inverse(millis in 0..=Timestamp::MAX.0) {
            let moment = Timestamp(millis);
            prop_assert_eq!(moment.to_string().parse(), Ok(moment));
        }

        #[test]
        fn text_sorts_as_time_does(a in 0..=Timestamp::MAX.0, b in 0..=Timestamp::MAX.0) {
            prop_assert_eq!(Timestamp(a).to_string().cmp(&Timestamp(b).to_string()), a.cmp(&b));
        }

        #[test]
        fn whatever_parses_prints_as_it_was(text in "[0-9]{4}-[0-2][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{3})?Z") {
            if let Ok(moment) = text.parse::<Timestamp>() {
                prop_assert_eq!(moment.to_string(), text);
            }
        }
    }
}
