//! Decimal numbers of any length, compared by value and never through a double.
//!
//! Imports nothing. Work is linear in the text: an exponent is kept, never written out.

/// A decimal number: sign, digits without zeros at either end, and the power of ten of the last digit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Reads `[+-]? (digits [. digits?] | . digits) ([eE] [+-]? digits)?`, which covers JSON's numbers and YAML's decimal
    /// ones. None for another text, and for an exponent beyond 18 digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (negative, unsigned) = split_sign(text);
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() && fraction.is_empty() || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        Self::normal(negative, &format!("{whole}{fraction}"), exponent)
    }

    /// The number `value`, negative or not.
    pub(super) fn integer(negative: bool, value: u128) -> Option<Self> {
        Self::normal(negative, &value.to_string(), 0)
    }

    /// Brings every number to its one form; there is one zero.
    fn normal(negative: bool, digits: &str, exponent: i64) -> Option<Self> {
        let significant = digits.trim_end_matches('0');
        let dropped = i64::try_from(digits.len() - significant.len()).ok()?;
        let significant = significant.trim_start_matches('0');
        if significant.is_empty() {
            return Some(Self {
                negative: false,
                digits: String::new(),
                exponent: 0,
            });
        }
        Some(Self {
            negative,
            digits: significant.to_owned(),
            exponent: exponent.checked_add(dropped)?,
        })
    }

    /// What is left of this number after a trip through a double, printed with the fewest digits as JavaScript does.
    pub(super) fn through_double(&self) -> Option<Self> {
        let double: f64 = self.to_json().parse().ok()?;
        if double.is_finite() {
            Self::parse(&format!("{double:e}"))
        } else {
            None
        }
    }

    /// The number as JSON.
    pub(super) fn to_json(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        match (self.digits.is_empty(), self.exponent) {
            (true, _) => "0".to_owned(),
            (false, 0) => format!("{sign}{}", self.digits),
            (false, exponent) => format!("{sign}{}e{exponent}", self.digits),
        }
    }
}

/// Splits off a sign: whether it is `-`, and the rest.
pub(super) fn split_sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// Whether `text` is ASCII digits alone, or nothing.
pub(super) fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Reads a signed exponent of at most 18 significant digits.
fn parse_exponent(text: &str) -> Option<i64> {
    let (negative, unsigned) = split_sign(text);
    if unsigned.is_empty() || !all_digits(unsigned) {
        return None;
    }
    let significant = unsigned.trim_start_matches('0');
    if significant.len() > 18 {
        return None;
    }
    let size: i64 = if significant.is_empty() {
        0
    } else {
        significant.parse().ok()?
    };
    Some(if negative { -size } else { size })
}
