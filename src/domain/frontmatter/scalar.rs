//! Resolves scalars: what a text means in each reading.
//!
//! Imports the module's numbers and timestamps. The grammars are those of YAML 1.2's core schema (section 10.3) and, for
//! YAML 1.1, of the parsers that servers are built on: PyYAML 6, js-yaml 3 (inside gray-matter) and js-yaml 4, checked
//! against their output.

use std::borrow::Cow;

use super::Dialect;
use super::Reading;
use super::number::Decimal;
use super::number::all_digits;
use super::number::split_sign;
use super::timestamp::Timestamp;

/// A scalar as the file has it.
#[derive(Debug)]
pub(super) struct Scalar {
    /// The text, with quotes, escapes and line folding undone.
    pub(super) text: String,
    /// How it is written.
    pub(super) style: Style,
    /// The explicit tag.
    pub(super) tag: Option<ScalarTag>,
    /// Its place among the document's nodes.
    pub(super) ordinal: usize,
}

/// How a scalar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Without quotes; the only style whose type depends on the text.
    Plain,
    /// In single or double quotes.
    Quoted,
    /// A literal `|` or folded `>` block.
    Block,
}

/// A core tag for scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarTag {
    /// `!!str`, and `!` alone.
    Str,
    /// `!!int`
    Int,
    /// `!!float`
    Float,
    /// `!!bool`
    Bool,
    /// `!!null`
    Null,
}

/// What a scalar means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Resolved<'a> {
    /// Null.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number without point or exponent.
    Integer(Decimal),
    /// Any other number.
    Float(Decimal),
    /// `.inf`, `-.inf` or `.nan`.
    NonFinite,
    /// A string.
    String(Cow<'a, str>),
    /// A value that its tag forbids, that its parser refuses, or that is out of all bounds. Equals nothing.
    Unrepresentable,
}

impl Scalar {
    /// What it means in `reading`.
    pub(super) fn resolve(&self, reading: Reading) -> Resolved<'_> {
        let schema = match reading {
            Reading::Strings => return Resolved::String(Cow::Borrowed(&self.text)),
            Reading::Core12 => Schema::Core,
            Reading::Yaml11(dialect) => Schema::Yaml11(dialect),
        };
        match (self.tag, self.style) {
            (Some(ScalarTag::Str), _) | (None, Style::Quoted | Style::Block) => {
                Resolved::String(Cow::Borrowed(&self.text))
            }
            (Some(tag), _) => schema.resolve(&self.text).tagged(tag),
            (None, Style::Plain) => schema.resolve(&self.text),
        }
    }
}

impl Resolved<'_> {
    /// The value under an explicit tag, which a text of another kind cannot have.
    fn tagged(self, tag: ScalarTag) -> Self {
        match (tag, self) {
            (ScalarTag::Float, Resolved::Integer(number)) => Resolved::Float(number),
            (ScalarTag::Null, value @ Resolved::Null)
            | (ScalarTag::Bool, value @ Resolved::Bool(_))
            | (ScalarTag::Int, value @ Resolved::Integer(_))
            | (ScalarTag::Float, value @ (Resolved::Float(_) | Resolved::NonFinite))
            | (ScalarTag::Str, value @ Resolved::String(_)) => value,
            (ScalarTag::Str | ScalarTag::Int | ScalarTag::Float | ScalarTag::Bool | ScalarTag::Null, _) => {
                Resolved::Unrepresentable
            }
        }
    }
}

/// How plain scalars get their types.
#[derive(Clone, Copy)]
enum Schema {
    Core,
    Yaml11(Dialect),
}

impl Schema {
    /// What a plain `text` means.
    fn resolve(self, text: &str) -> Resolved<'_> {
        if matches!(text, "" | "~" | "null" | "Null" | "NULL") {
            return Resolved::Null;
        }
        if let Some(value) = self.boolean(text) {
            return Resolved::Bool(value);
        }
        // A number or a timestamp begins with one of these; most texts do not.
        if text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'))
            && let Some(value) = self
                .non_finite(text)
                .or_else(|| self.number(text))
                .or_else(|| self.timestamp(text))
        {
            return value;
        }
        Resolved::String(Cow::Borrowed(text))
    }

    fn boolean(self, text: &str) -> Option<bool> {
        match text {
            "true" | "True" | "TRUE" => return Some(true),
            "false" | "False" | "FALSE" => return Some(false),
            _ => {}
        }
        match (self, text) {
            (Self::Yaml11(Dialect::PyYaml | Dialect::JavaScript), "yes" | "Yes" | "YES" | "on" | "On" | "ON") => {
                Some(true)
            }
            (Self::Yaml11(Dialect::PyYaml | Dialect::JavaScript), "no" | "No" | "NO" | "off" | "Off" | "OFF") => {
                Some(false)
            }
            _ => None,
        }
    }

    fn non_finite(self, text: &str) -> Option<Resolved<'static>> {
        let infinite = matches!(split_sign(text).1, ".inf" | ".Inf" | ".INF");
        (infinite || matches!(text, ".nan" | ".NaN" | ".NAN")).then_some(Resolved::NonFinite)
    }

    fn number(self, text: &str) -> Option<Resolved<'static>> {
        match self {
            Self::Core => core_number(text),
            Self::Yaml11(dialect) => old_number(text, dialect),
        }
    }

    fn timestamp(self, text: &str) -> Option<Resolved<'static>> {
        let Self::Yaml11(dialect) = self else { return None };
        let moment = Timestamp::parse(text)?;
        let printed = match dialect {
            Dialect::PyYaml => moment.python(),
            Dialect::JavaScript | Dialect::JsYaml3 | Dialect::JsYaml4 => moment.javascript(),
        };
        Some(printed.map_or(Resolved::Unrepresentable, |text| Resolved::String(Cow::Owned(text))))
    }
}

/// YAML 1.2's core numbers: decimal (leading zeros and all), `0o`, `0x`, and floats.
fn core_number(text: &str) -> Option<Resolved<'static>> {
    if let Some(digits) = text.strip_prefix("0o") {
        return integer(false, digits, 8, false);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return integer(false, digits, 16, false);
    }
    if all_digits(split_sign(text).1) {
        return decimal(text, Resolved::Integer);
    }
    is_float(text).then(|| decimal(text, Resolved::Float).unwrap_or(Resolved::Unrepresentable))
}

/// YAML 1.1's numbers as `dialect` reads them.
fn old_number(text: &str, dialect: Dialect) -> Option<Resolved<'static>> {
    let (negative, unsigned) = split_sign(text);
    let lenient_end = matches!(dialect, Dialect::PyYaml | Dialect::JavaScript);
    if text.ends_with('_') && !lenient_end {
        return None;
    }
    if let Some(digits) = unsigned.strip_prefix("0b") {
        return integer(negative, digits, 2, true);
    }
    if let Some(digits) = unsigned.strip_prefix("0x") {
        return integer(negative, digits, 16, true);
    }
    if dialect == Dialect::JsYaml4 {
        if let Some(digits) = unsigned.strip_prefix("0o") {
            return integer(negative, digits, 8, true);
        }
    } else if let Some(value) = sexagesimal(text) {
        return Some(value);
    }
    if !unsigned.starts_with(|c: char| c.is_ascii_digit()) || !unsigned.bytes().all(|b| b.is_ascii_digit() || b == b'_')
    {
        return old_float(text, dialect);
    }
    match unsigned.strip_prefix('0') {
        Some(octal) if !octal.is_empty() && dialect != Dialect::JsYaml4 => integer(negative, octal, 8, true),
        _ => decimal(&text.replace('_', ""), Resolved::Integer),
    }
}

/// YAML 1.1's floats: `_` between digits, and in PyYAML a point and an exponent's sign are needed.
fn old_float(text: &str, dialect: Dialect) -> Option<Resolved<'static>> {
    let (_, unsigned) = split_sign(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let whole = mantissa.split_once('.').map_or(mantissa, |(whole, _)| whole);
    let fits = match dialect {
        Dialect::PyYaml | Dialect::JavaScript => {
            let first = mantissa.trim_start_matches('.');
            mantissa.contains('.')
                && first.starts_with(|c: char| c.is_ascii_digit())
                && exponent.is_none_or(|exponent| exponent.starts_with(['+', '-']))
        }
        Dialect::JsYaml3 => whole.is_empty() || whole == "0" || whole.starts_with(|c: char| matches!(c, '1'..='9')),
        Dialect::JsYaml4 => whole.is_empty() || whole.starts_with(|c: char| c.is_ascii_digit()),
    };
    // All of them take a sign before a digit only.
    let signed_point = unsigned.len() < text.len() && whole.is_empty();
    let underscored_exponent = exponent.is_some_and(|exponent| exponent.contains('_'));
    if !fits || signed_point || underscored_exponent {
        return None;
    }
    let text = text.replace('_', "");
    is_float(&text).then(|| decimal(&text, Resolved::Float).unwrap_or(Resolved::Unrepresentable))
}

/// Base 60: `[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+`, or `[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*`.
fn sexagesimal(text: &str) -> Option<Resolved<'static>> {
    let (negative, unsigned) = split_sign(text);
    let (groups, fraction) = match unsigned.split_once('.') {
        Some((groups, fraction)) => (groups, Some(fraction.replace('_', ""))),
        None => (unsigned, None),
    };
    let (first, rest) = groups.split_once(':')?;
    let begins_well =
        first.starts_with(|c: char| c.is_ascii_digit()) && (fraction.is_some() || !first.starts_with('0'));
    let first = first.replace('_', "");
    if !begins_well || !all_digits(&first) || fraction.as_ref().is_some_and(|fraction| !all_digits(fraction)) {
        return None;
    }
    let mut sum: Option<u128> = first.parse().ok();
    for group in rest.split(':') {
        let value = u128::from(
            group
                .parse::<u8>()
                .ok()
                .filter(|_| group.len() <= 2 && all_digits(group))?,
        );
        if value > 59 {
            return None;
        }
        sum = sum.and_then(|sum| sum.checked_mul(60)?.checked_add(value));
    }
    let Some(sum) = sum else {
        return Some(Resolved::Unrepresentable);
    };
    match fraction {
        None => Decimal::integer(negative, sum).map(Resolved::Integer),
        Some(fraction) => decimal(
            &format!("{}{sum}.{fraction}", if negative { "-" } else { "" }),
            Resolved::Float,
        ),
    }
}

/// An integer in another base; None when a character is no digit of it. Over 128 bits it is out of bounds.
fn integer(negative: bool, digits: &str, radix: u32, underscores: bool) -> Option<Resolved<'static>> {
    let digits: String = digits.chars().filter(|&c| !(underscores && c == '_')).collect();
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let value = u128::from_str_radix(&digits, radix)
        .ok()
        .and_then(|value| Decimal::integer(negative, value));
    Some(value.map_or(Resolved::Unrepresentable, Resolved::Integer))
}

/// A decimal number of the kind `kind`.
fn decimal(text: &str, kind: fn(Decimal) -> Resolved<'static>) -> Option<Resolved<'static>> {
    Decimal::parse(text).map(kind)
}

/// `[-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`
fn is_float(text: &str) -> bool {
    let (_, unsigned) = split_sign(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(split_sign(exponent).1)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    all_digits(whole)
        && all_digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && all_digits(exponent))
}
