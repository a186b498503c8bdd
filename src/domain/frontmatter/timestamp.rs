//! YAML 1.1's timestamps, printed as Python and JavaScript print theirs.
//!
//! Imports nothing. The form read is that of PyYAML, js-yaml 3 and js-yaml 4, which is one and the same.

/// A date, or a date with a time.
pub(super) struct Timestamp {
    year: i64,
    month: i64,
    day: i64,
    time: Option<Time>,
}

/// A time of day.
struct Time {
    hour: i64,
    minute: i64,
    second: i64,
    /// Microseconds.
    micros: i64,
    /// Minutes east of UTC, where a zone is written.
    offset: Option<i64>,
}

impl Timestamp {
    /// Reads `yyyy-mm-dd`, or `yyyy-m-d` followed by `T` or blanks, `h:mm:ss`, a fraction and a zone.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut rest = text;
        let year = digits(&mut rest, 4, 4)?;
        eat(&mut rest, "-")?;
        let month_at = rest.len();
        let month = digits(&mut rest, 1, 2)?;
        eat(&mut rest, "-")?;
        let day = digits(&mut rest, 1, 2)?;
        if rest.is_empty() {
            // A date alone must have both digits of month and day.
            return (month_at == "mm-dd".len()).then_some(Self {
                year,
                month,
                day,
                time: None,
            });
        }
        if eat(&mut rest, "T").or_else(|| eat(&mut rest, "t")).is_none() {
            let blanks = rest.len();
            rest = rest.trim_start_matches([' ', '\t']);
            if rest.len() == blanks {
                return None;
            }
        }
        let time = Time::parse(rest)?;
        Some(Self {
            year,
            month,
            day,
            time: Some(time),
        })
    }

    /// Prints it as Python's `isoformat` does; None for a moment that Python refuses.
    pub(super) fn python(&self) -> Option<String> {
        if self.year < 1 || !(1..=12).contains(&self.month) || !(1..=days_in(self.year, self.month)).contains(&self.day)
        {
            return None;
        }
        let date = format!("{:04}-{:02}-{:02}", self.year, self.month, self.day);
        let Some(time) = &self.time else { return Some(date) };
        if time.hour > 23 || time.minute > 59 || time.second > 59 {
            return None;
        }
        let mut text = format!("{date}T{:02}:{:02}:{:02}", time.hour, time.minute, time.second);
        if time.micros > 0 {
            text.push_str(&format!(".{:06}", time.micros));
        }
        if let Some(offset) = time.offset {
            if offset.abs() >= 24 * 60 {
                return None;
            }
            let sign = if offset < 0 { '-' } else { '+' };
            text.push_str(&format!("{sign}{:02}:{:02}", offset.abs() / 60, offset.abs() % 60));
        }
        Some(text)
    }

    /// Prints it as JavaScript's `Date.toISOString` does, in UTC with milliseconds. Days beyond the end of a month roll
    /// over, as `Date.UTC` has it. None for years outside 100 to 9999, which JavaScript prints in forms of their own.
    pub(super) fn javascript(&self) -> Option<String> {
        if self.year < 100 || !(1..=12).contains(&self.month) {
            return None;
        }
        let (seconds, millis) = self.time.as_ref().map_or((0, 0), |time| {
            let minutes = time.hour * 60 + time.minute - time.offset.unwrap_or(0);
            (minutes * 60 + time.second, time.micros / 1000)
        });
        let moment = (days_before(self.year, self.month) + self.day - 1) * 86_400 + seconds;
        let (year, month, day) = civil(moment.div_euclid(86_400));
        let second = moment.rem_euclid(86_400);
        (100..=9999).contains(&year).then(|| {
            format!(
                "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{millis:03}Z",
                second / 3600,
                second / 60 % 60,
                second % 60
            )
        })
    }
}

impl Time {
    /// Reads `h:mm:ss`, `.` and a fraction, blanks and `Z` or a zone.
    fn parse(text: &str) -> Option<Self> {
        let mut rest = text;
        let hour = digits(&mut rest, 1, 2)?;
        eat(&mut rest, ":")?;
        let minute = digits(&mut rest, 2, 2)?;
        eat(&mut rest, ":")?;
        let second = digits(&mut rest, 2, 2)?;
        let mut micros = 0;
        if eat(&mut rest, ".").is_some() {
            let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            let fraction = rest.strip_suffix(after)?;
            micros = fraction
                .bytes()
                .chain(std::iter::repeat(b'0'))
                .take(6)
                .fold(0, |sum, d| sum * 10 + i64::from(d - b'0'));
            rest = after;
        }
        let offset = if rest.is_empty() {
            None
        } else {
            Some(zone(rest.trim_start_matches([' ', '\t']))?)
        };
        Some(Self {
            hour,
            minute,
            second,
            micros,
            offset,
        })
    }
}

/// Reads `Z`, `+h` or `+hh:mm` as minutes east of UTC.
fn zone(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let mut rest = text;
    let sign = if eat(&mut rest, "-").is_some() {
        -1
    } else {
        eat(&mut rest, "+").map(|()| 1)?
    };
    let hours = digits(&mut rest, 1, 2)?;
    let minutes = if eat(&mut rest, ":").is_some() {
        digits(&mut rest, 2, 2)?
    } else {
        0
    };
    rest.is_empty().then_some(sign * (hours * 60 + minutes))
}

/// Takes `word` off the front of `rest`.
fn eat(rest: &mut &str, word: &str) -> Option<()> {
    *rest = rest.strip_prefix(word)?;
    Some(())
}

/// Takes a number of `least` to `most` digits off the front of `rest`.
fn digits(rest: &mut &str, least: usize, most: usize) -> Option<i64> {
    let count = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if count < least {
        return None;
    }
    let (number, after) = rest.split_at_checked(count)?;
    *rest = after;
    number.parse().ok()
}

/// Whether `year` has a 29th of February.
fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days of a month from 1 to 12.
fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from the 1st of January of year 1 to the first of a month.
fn days_before(year: i64, month: i64) -> i64 {
    let past = year - 1;
    past * 365 + past / 4 - past / 100 + past / 400 + (1..month).map(|month| days_in(year, month)).sum::<i64>()
}

/// Year, month and day of a day counted from the 1st of January of year 1.
fn civil(days: i64) -> (i64, i64, i64) {
    // 146097 days are 400 years; the guess is at most one year too early.
    let mut year = (days * 400).div_euclid(146_097);
    while days_before(year + 1, 1) <= days {
        year += 1;
    }
    let mut month = 1;
    while month < 12 && days_before(year, month + 1) <= days {
        month += 1;
    }
    (year, month, days - days_before(year, month) + 1)
}
