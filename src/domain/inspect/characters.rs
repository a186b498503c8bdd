//! Characters that people do not see as they are: invisible ones, tags, direction and other controls, letters that look
//! like others, and text behind a wall of blanks.

use unicode_security::confusable_detection::skeleton;

use super::check::Check;
use super::remark::Sheet;
use super::remark::shown;

/// Invisible characters in a row that can carry a message: what scripts and emoji need is shorter.
const MESSAGE_CHARS: usize = 8;

/// Blanks in a row, inside a line, behind which text is out of sight.
const FAR_BLANKS: usize = 160;

/// Empty lines in a row below which text is out of sight.
const FAR_LINES: usize = 40;

/// Characters to each side in which a script is looked for.
const NEAR_CHARS: usize = 100;

/// Regions whose flags emoji have in tags; others could spell anything.
const FLAGS: &[&str] = &["gbeng", "gbsct", "gbwls"];

/// Looks at every character of `text`, once.
pub(super) fn inspect(text: &str, sheet: &mut Sheet) {
    runs(text, sheet);
    words(text, sheet);
    blanks(text, sheet);
    controls(text, sheet);
}

/// Whether nobody sees `char`, whatever stands beside it.
pub(super) fn is_unseen(char: char) -> bool {
    is_tag(char)
        || is_direction_control(char)
        || is_variation_selector(char)
        || matches!(char,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{2064}' | '\u{206a}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}')
}

/// Whether `char` is none of the Latin letters that it looks like.
pub(super) fn is_homoglyph(char: char) -> bool {
    let foreign = matches!(char,
        '\u{391}'..='\u{3a9}' | 'ο' | 'ϲ' | 'ϳ' | '\u{400}'..='\u{52f}' | '\u{13a0}'..='\u{13ff}'
        | '\u{a4d0}'..='\u{a4ff}');
    foreign && {
        let mut buffer = [0; 4];
        let mut seen_as = skeleton(char.encode_utf8(&mut buffer));
        seen_as.next().is_some_and(|first| first.is_ascii_alphabetic()) && seen_as.next().is_none()
    }
}

/// Runs of invisible characters.
fn runs(text: &str, sheet: &mut Sheet) {
    let mut chars = text.char_indices().peekable();
    let mut before = None;
    while let Some((start, char)) = chars.next() {
        if !is_unseen(char) {
            before = Some(char);
            continue;
        }
        let mut end = start + char.len_utf8();
        while let Some((_, next)) = chars.next_if(|&(_, next)| is_unseen(next)) {
            end += next.len_utf8();
        }
        let after = chars.peek().map(|&(_, next)| next);
        let run = Run {
            text,
            start,
            chars: text.get(start..end).unwrap_or_default(),
            before,
            after,
        };
        if let Some(check) = run.check() {
            sheet.add(check, start, || run.detail());
        }
    }
}

/// Invisible characters in a row, and what stands around them.
struct Run<'a> {
    text: &'a str,
    start: usize,
    chars: &'a str,
    before: Option<char>,
    after: Option<char>,
}

impl Run<'_> {
    /// What to say of it; nothing where the script or an emoji needs it.
    fn check(&self) -> Option<Check> {
        if self.is_flag() || self.is_needed() {
            None
        } else if self.chars.chars().any(is_tag) {
            Some(Check::TagCharacters)
        } else if self.chars.chars().any(is_direction_control) {
            // Where two directions meet, isolates are how the text is made readable; an override is not.
            let isolates = !self.chars.contains(['\u{202d}', '\u{202e}']);
            Some(match isolates && self.is_among_right_to_left() {
                true => Check::InvisibleCharacters,
                false => Check::BidirectionalControls,
            })
        } else if self.chars.chars().nth(MESSAGE_CHARS - 1).is_some() {
            Some(Check::HiddenMessage)
        } else {
            Some(Check::InvisibleCharacters)
        }
    }

    /// One of the flags that are spelled so: a black flag, its region in tags, and the tag that ends it.
    fn is_flag(&self) -> bool {
        self.before == Some('\u{1f3f4}')
            && self.chars.ends_with('\u{e007f}')
            && self.chars.chars().all(is_tag)
            && FLAGS.contains(&self.tagged().as_str())
    }

    /// Whether what stands around it needs it to be shown rightly.
    fn is_needed(&self) -> bool {
        let mut chars = self.chars.chars();
        match (chars.next(), chars.next(), chars.next()) {
            (Some(selector), None, None) if is_variation_selector(selector) => self.takes(selector),
            (Some('\u{200d}'), None, None) => self.joins() || self.beside(needs_joiners),
            (Some('\u{fe0f}'), Some('\u{200d}'), None) => self.joins(),
            (Some('\u{200c}'), None, None) => self.beside(needs_joiners),
            (Some('\u{200b}'), None, None) => self.beside(is_written_without_spaces),
            (Some('\u{200e}' | '\u{200f}' | '\u{61c}'), None, None) => self.is_among_right_to_left(),
            _ => false,
        }
    }

    /// Whether what stands before it has variants that `selector` chooses from.
    fn takes(&self, selector: char) -> bool {
        self.before.is_some_and(|before| match selector {
            '\u{fe0e}' | '\u{fe0f}' => is_pictograph(before) || matches!(before, '0'..='9' | '#' | '*'),
            '\u{fe00}'..='\u{fe0d}' => is_ideograph(before) || has_variants(before),
            _ => is_ideograph(before),
        })
    }

    /// Whether it joins two emoji to one.
    fn joins(&self) -> bool {
        self.before.is_some_and(is_pictograph) && self.after.is_some_and(is_pictograph)
    }

    /// Whether a character of `kind` stands on either side.
    fn beside(&self, kind: fn(char) -> bool) -> bool {
        self.before.is_some_and(kind) || self.after.is_some_and(kind)
    }

    /// Whether letters that are written from right to left stand near it, in its line.
    fn is_among_right_to_left(&self) -> bool {
        let before = self.text.get(..self.start).unwrap_or_default().chars().rev();
        let after = self.text.get(self.start..).unwrap_or_default().chars();
        let in_line = |char: &char| *char != '\n';
        before.take(NEAR_CHARS).take_while(in_line).any(is_right_to_left)
            || after.take(NEAR_CHARS).take_while(in_line).any(is_right_to_left)
    }

    /// The ASCII that its tags spell.
    fn tagged(&self) -> String {
        let ascii = |char: char| char::from_u32(u32::from(char).checked_sub(0xe0000)?);
        let chars = self.chars.chars().filter(|&char| is_tag(char));
        chars.filter_map(ascii).filter(|char| !char.is_control()).collect()
    }

    fn detail(&self) -> String {
        let tagged = self.tagged();
        let count = self.chars.chars().count();
        match tagged.is_empty() {
            false => format!("tags that spell \"{}\"", shown(&tagged)),
            true if count == 1 => shown(self.chars),
            true => format!("{count} in a row: {}", shown(self.chars)),
        }
    }
}

/// Words in which Latin letters stand beside others that look like them. A word that has further letters of the other
/// script is one of that script, with a typing error.
fn words(text: &str, sheet: &mut Sheet) {
    if text.is_ascii() {
        return;
    }
    let mut at = 0;
    for word in text.split_inclusive(|char: char| !char.is_alphabetic()) {
        let mut letters = word.chars().filter(|char| char.is_alphabetic());
        let latin = word.contains(|char: char| char.is_ascii_alphabetic());
        if latin && word.contains(is_homoglyph) && letters.all(|char| char.is_ascii() || is_homoglyph(char)) {
            sheet.add(Check::MixedScripts, at, || {
                let unlike: String = word.chars().filter(|&char| is_homoglyph(char)).take(8).collect();
                let codes: Vec<String> = unlike
                    .chars()
                    .map(|char| format!("U+{:04X}", u32::from(char)))
                    .collect();
                format!("{} has {}", shown(word), codes.join(" "))
            });
        }
        at += word.len();
    }
}

/// Text behind blanks or below empty lines.
fn blanks(text: &str, sheet: &mut Sheet) {
    let mut at = 0;
    let mut empty_lines = 0;
    for line in text.split_inclusive('\n') {
        match line.trim_start() {
            "" => empty_lines += 1,
            rest => {
                if empty_lines >= FAR_LINES {
                    sheet.add(Check::TextOutOfSight, at + line.len() - rest.len(), || {
                        format!("below {empty_lines} empty lines: {}", shown(rest))
                    });
                }
                empty_lines = 0;
                far_right(line, at, sheet);
            }
        }
        at += line.len();
    }
}

/// Text of the line at byte `at` that stands behind blanks; a cell's border is no text.
fn far_right(line: &str, at: usize, sheet: &mut Sheet) {
    let mut blanks = 0;
    for (offset, char) in line.char_indices() {
        if char.is_whitespace() {
            blanks += 1;
            continue;
        }
        if blanks >= FAR_BLANKS && char != '|' {
            let rest = line.get(offset..).unwrap_or_default();
            sheet.add(Check::TextOutOfSight, at + offset, || {
                format!("behind {blanks} blanks: {}", shown(rest))
            });
        }
        blanks = 0;
    }
}

/// Control characters beside those of plain text.
fn controls(text: &str, sheet: &mut Sheet) {
    let odd = |char: char| char.is_control() && !matches!(char, '\t' | '\n' | '\r' | '\u{c}');
    for (at, found) in text.match_indices(odd) {
        sheet.add(Check::ControlCharacters, at, || {
            let rest: String = text.get(at..).unwrap_or_default().chars().take(20).collect();
            format!(
                "{} in {}",
                found.escape_unicode(),
                shown(rest.lines().next().unwrap_or_default())
            )
        });
    }
}

/// Letters that are written from right to left.
fn is_right_to_left(char: char) -> bool {
    char.is_alphabetic() && matches!(char, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}')
}

/// Unicode's tags.
fn is_tag(char: char) -> bool {
    matches!(char, '\u{e0000}'..='\u{e007f}')
}

/// Embeddings, overrides and isolates.
fn is_direction_control(char: char) -> bool {
    matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What chooses a variant of the character before it.
fn is_variation_selector(char: char) -> bool {
    matches!(char, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Emoji and the symbols that can be shown as such.
fn is_pictograph(char: char) -> bool {
    matches!(char, '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{2bff}'
        | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

/// Han characters, which have registered variants.
fn is_ideograph(char: char) -> bool {
    matches!(char, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Operators, letters and a digit that have registered variants.
fn has_variants(char: char) -> bool {
    matches!(char, '0' | '\u{1000}'..='\u{109f}' | '\u{1820}'..='\u{18aa}' | '\u{2200}'..='\u{22ff}'
        | '\u{2a00}'..='\u{2aff}' | '\u{3000}'..='\u{303f}' | '\u{a840}'..='\u{a87f}' | '\u{ff00}'..='\u{ff60}')
}

/// Scripts whose letters join, where a joiner or non-joiner changes the word.
fn needs_joiners(char: char) -> bool {
    matches!(char, '\u{600}'..='\u{8ff}' | '\u{900}'..='\u{dff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{18af}'
        | '\u{a840}'..='\u{a87f}' | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' | '\u{1e900}'..='\u{1e95f}')
}

/// Scripts without spaces between words, where a zero-width one says where a line may break.
fn is_written_without_spaces(char: char) -> bool {
    matches!(char, '\u{e00}'..='\u{fff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{1980}'..='\u{19df}')
}
