//! The modules import each other only as the table in the README says.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

/// One word or sign of a source file.
#[derive(Debug, PartialEq, Eq)]
struct Token {
    /// The word, or one sign; `::` counts as one.
    text: String,
    /// The line it stands on.
    line: usize,
    /// The modules it stands in, from the crate's root.
    inside: Vec<String>,
}

/// One module naming another.
#[derive(Debug, PartialEq, Eq)]
struct Edge {
    /// The line where it does.
    line: usize,
    /// The module that is named.
    to: String,
}

/// The README's module table.
struct Table {
    /// What each module may import; nothing where it may import all.
    may_import: BTreeMap<String, Option<BTreeSet<String>>>,
}

#[test]
fn modules_import_only_what_the_table_allows() {
    let table = Table::of(include_str!("../../README.md"));
    assert!(table.may_import.len() >= 14, "the README's module table was not read");
    let mut wrong = Vec::new();
    let mut drawn: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, modules, tokens) in sources() {
        let from = modules.first().cloned().unwrap_or_else(|| stem(&path));
        if !table.may_import.contains_key(&from) {
            wrong.push(format!("{}: the table has no module {from}", path.display()));
            continue;
        }
        for edge in edges(&tokens) {
            if !table.allows(&from, &edge.to) {
                wrong.push(format!(
                    "{}:{}: {from} may not import {}",
                    path.display(),
                    edge.line,
                    edge.to
                ));
            }
            drawn.entry(from.clone()).or_default().insert(edge.to);
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert_eq!(ring(&drawn), None, "modules that import each other in a ring");
}

#[test]
fn every_file_says_what_it_owns() {
    let silent: Vec<_> = files()
        .into_iter()
        .filter(|path| !fs::read_to_string(path).unwrap().starts_with("//!"))
        .collect();
    assert!(silent.is_empty(), "without a //! header: {silent:?}");
}

#[test]
fn the_image_is_built_with_every_target_that_the_manifest_names() {
    let manifest = include_str!("../../Cargo.toml");
    let taken = |text: &str, before: &str, after: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(before));
        lines.map(|line| line.split(after).next().unwrap().to_owned()).collect()
    };
    let let_in = taken(include_str!("../../.dockerignore"), "!", "\n");
    let copied = taken(include_str!("../../deploy/Dockerfile"), "COPY ", " ");
    for path in taken(manifest, "path = \"", "\"") {
        let covers = |known: &String| Path::new(&path).starts_with(known);
        assert!(let_in.iter().any(covers), "{path} is not let in by .dockerignore");
        assert!(copied.iter().any(covers), "{path} is not copied by the Dockerfile");
    }
}

#[test]
fn what_one_file_owns_no_other_does() {
    let owned: [(&str, &[&[&str]]); 3] = [
        ("src/store/index.rs", &[&["sled"]]),
        (
            "src/store/durable",
            &[
                &["OpenOptions"],
                &["File", "::", "create"],
                &["File", "::", "create_new"],
                &["fs", "::", "write"],
                &["fs", "::", "rename"],
                &["fs", "::", "remove_file"],
                &["fs", "::", "copy"],
            ],
        ),
        (
            "src/clock.rs",
            &[&["SystemTime", "::", "now"], &["std", "::", "time", "::", "Instant"]],
        ),
    ];
    let mut wrong = Vec::new();
    for (path, _, tokens) in sources() {
        let product: Vec<&Token> = tokens
            .iter()
            .filter(|token| !token.inside.iter().any(|m| m == "tests"))
            .collect();
        for (owner, patterns) in owned.iter().filter(|(owner, _)| !path.starts_with(owner)) {
            for pattern in *patterns {
                let hits = product
                    .windows(pattern.len())
                    .filter(|w| w.iter().map(|t| &t.text).eq(pattern.iter()));
                wrong.extend(hits.map(|hit| {
                    format!(
                        "{}:{}: {} belongs to {owner}",
                        path.display(),
                        hit[0].line,
                        pattern.concat()
                    )
                }));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_spelling_of_an_import_is_seen() {
    let text = r##"//! Mentions crate::nothing.
        use crate::domain::Label;
        use crate::{store, gateway::{self, Catalog}};
        /* crate::comment /* crate::nested */ */
        const TEXT: &str = "crate::text \" crate::more";
        const RAW: &str = r#"crate::raw "quoted" crate::raw"#;
        fn f<'a>(c: char) -> bool { c == '"' || crate::cli::run() }
        use super::super::upstream::Origin;
        use super::sibling::Thing;
        mod tests { use super::super::super::admin; use super::super::own; use crate::*; }
        pub(crate) fn g() {}
    "##;
    let seen: Vec<(usize, String)> = edges(&tokens(text, &["server".to_owned(), "lane".to_owned()]))
        .into_iter()
        .map(|edge| (edge.line, edge.to))
        .collect();
    let known = [
        (2, "domain"),
        (3, "store"),
        (3, "gateway"),
        (7, "cli"),
        (8, "upstream"),
        (10, "admin"),
        (10, "*"),
    ];
    assert_eq!(seen, known.map(|(line, to)| (line, to.to_owned())));
}

#[test]
fn the_table_tells_leaves_from_layers() {
    let table = Table::of(
        "| module | owns | may import |\n| --- | --- | --- |\n| `domain` | truth | – |\n| `store` | disk | `domain` |\n\
         | `clock`, `tls` | leaves, open to all but `domain` | `domain` |\n| `lib`, `main` | wiring | all |\n\nafter",
    );
    for (from, to, allowed) in [
        ("store", "domain", true),
        ("domain", "store", false),
        ("store", "clock", true),
        ("domain", "clock", false),
        ("clock", "tls", true),
        ("clock", "store", false),
        ("main", "store", true),
        ("store", "store", true),
        ("store", "elsewhere", false),
    ] {
        assert_eq!(table.allows(from, to), allowed, "{from} -> {to}");
    }
}

#[test]
fn a_ring_of_modules_is_found() {
    let edge = |from: &str, to: &str| (from.to_owned(), BTreeSet::from([to.to_owned()]));
    assert!(ring(&BTreeMap::from([edge("a", "b"), edge("b", "c"), edge("c", "a")])).is_some());
    assert_eq!(
        ring(&BTreeMap::from([edge("a", "b"), edge("b", "c"), edge("d", "a")])),
        None
    );
}

impl Table {
    /// Reads the table whose head is `| module | owns | may import |`.
    fn of(readme: &str) -> Self {
        let rows: Vec<[&str; 3]> = readme
            .lines()
            .skip_while(|line| !line.starts_with("| module | owns | may import |"))
            .skip(2)
            .map_while(|line| line.strip_prefix('|')?.strip_suffix('|'))
            .map(|row| {
                row.split('|')
                    .map(str::trim)
                    .collect::<Vec<_>>()
                    .try_into()
                    .expect("a row of three cells")
            })
            .collect();
        let mut may_import = BTreeMap::new();
        for [modules, _, imports] in &rows {
            let allowed = (*imports != "all").then(|| names(imports));
            may_import.extend(names(modules).into_iter().map(|module| (module, allowed.clone())));
        }
        for [modules, owns, _] in &rows {
            let Some(closed_to) = owns.strip_prefix("leaves, open to all but ").map(names) else {
                continue;
            };
            let open_to = may_import.iter_mut().filter(|(module, _)| !closed_to.contains(*module));
            open_to
                .filter_map(|(_, allowed)| allowed.as_mut())
                .for_each(|allowed| allowed.extend(names(modules)));
        }
        Self { may_import }
    }

    /// Whether `from` may name `to`.
    fn allows(&self, from: &str, to: &str) -> bool {
        match &self.may_import[from] {
            Some(allowed) => from == to || allowed.contains(to),
            None => true,
        }
    }
}

/// The words in back quotes.
fn names(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The first module found to import itself through others, if any.
fn ring(edges: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    edges
        .keys()
        .find(|start| {
            let mut reached: BTreeSet<&String> = BTreeSet::new();
            let mut open: Vec<&String> = edges[*start].iter().filter(|to| to != start).collect();
            while let Some(module) = open.pop() {
                if reached.insert(module) {
                    open.extend(edges.get(module).into_iter().flatten().filter(|to| *to != module));
                }
            }
            reached.contains(start)
        })
        .cloned()
}

/// Every source file with its module path and its tokens.
fn sources() -> Vec<(PathBuf, Vec<String>, Vec<Token>)> {
    files()
        .into_iter()
        .map(|path| {
            let modules = modules_of(path.strip_prefix("src").unwrap());
            let tokens = tokens(&fs::read_to_string(&path).unwrap(), &modules);
            (path, modules, tokens)
        })
        .collect()
}

/// Every source file; some, or the walk is broken.
fn files() -> Vec<PathBuf> {
    let mut open = vec![PathBuf::from("src")];
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    assert!(files.len() > 10, "only {} source files were found", files.len());
    files
}

/// The modules that a file is, from the root: none for `lib.rs` and `main.rs`.
fn modules_of(path: &Path) -> Vec<String> {
    let mut modules: Vec<String> = path
        .parent()
        .unwrap()
        .iter()
        .map(|folder| folder.to_str().unwrap().to_owned())
        .collect();
    let stem = stem(path);
    let is_root = modules.is_empty() && (stem == "lib" || stem == "main");
    if stem != "mod" && !is_root {
        modules.push(stem);
    }
    modules
}

/// A file's name without its extension.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_str().unwrap().to_owned()
}

/// The first segments of all paths that lead out of the crate's root.
fn edges(tokens: &[Token]) -> Vec<Edge> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let mut edges = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let mut next = at + 1;
        let begins_path = at == 0 || text(at - 1) != "::";
        let depth = match text(at) {
            "crate" | "portcullis" if text(at + 1) == "::" => Some(0),
            "super" if begins_path && text(at + 1) == "::" => {
                let mut supers = 1;
                while text(at + 2 * supers) == "super" && text(at + 2 * supers + 1) == "::" {
                    supers += 1;
                }
                next = at + 2 * supers - 1;
                tokens[at].inside.len().checked_sub(supers)
            }
            _ => None,
        };
        if depth == Some(0) {
            edges.extend(firsts(&tokens[next + 1..]));
        }
        at = next;
    }
    edges
}

/// What stands first after `crate::`: one name, or the first names of a group.
fn firsts(tokens: &[Token]) -> Vec<Edge> {
    let edge = |token: &Token| Edge {
        line: token.line,
        to: token.text.clone(),
    };
    let [first, rest @ ..] = tokens else { return Vec::new() };
    if first.text != "{" {
        return vec![edge(first)];
    }
    let mut edges = Vec::new();
    let mut depth = 1;
    let mut begins = true;
    for token in rest {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 1 => begins = true,
            _ if begins && depth == 1 => {
                edges.push(edge(token));
                begins = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    edges
}

/// The words and signs of a file without its comments, strings and characters.
fn tokens(text: &str, modules: &[String]) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens: Vec<Token> = Vec::new();
    // The modules around, each with the number of braces open outside it.
    let mut inside: Vec<(String, usize)> = modules.iter().map(|name| (name.clone(), 0)).collect();
    let (mut at, mut line, mut braces) = (0, 1, 0);
    while at < chars.len() {
        let length = skipped(&chars[at..]).unwrap_or(0);
        if length > 0 {
            line += chars[at..at + length].iter().filter(|c| **c == '\n').count();
            at += length;
            continue;
        }
        let word = chars[at..]
            .iter()
            .take_while(|c| c.is_alphanumeric() || **c == '_')
            .count();
        let length = if word > 0 {
            word
        } else {
            1 + usize::from(chars[at..].starts_with(&[':', ':']))
        };
        let text: String = chars[at..at + length].iter().collect();
        if text == "{" {
            if let [.., Token { text: keyword, .. }, Token { text: name, .. }] = tokens.as_slice()
                && keyword == "mod"
            {
                inside.push((name.clone(), braces));
            }
            braces += 1;
        } else if text == "}" {
            braces -= 1;
            inside.truncate(
                modules.len()
                    + inside[modules.len()..]
                        .iter()
                        .filter(|(_, outside)| *outside < braces)
                        .count(),
            );
        }
        tokens.push(Token {
            text,
            line,
            inside: inside.iter().map(|(name, _)| name.clone()).collect(),
        });
        at += length;
    }
    tokens
}

/// How many characters at the beginning are a blank, a comment, a string or a character; nothing when none are.
fn skipped(chars: &[char]) -> Option<usize> {
    let ends = |from: usize, end: &[char]| {
        (from..chars.len())
            .find(|at| chars[*at..].starts_with(end))
            .map_or(chars.len(), |at| at + end.len())
    };
    match chars {
        [c, ..] if c.is_whitespace() => Some(1),
        ['/', '/', ..] => Some(ends(0, &['\n'])),
        ['/', '*', ..] => Some(block_comment(chars)),
        ['"', ..] => Some(quoted(chars, '"')),
        ['r', '"' | '#', ..] => {
            let hashes = chars[1..].iter().take_while(|c| **c == '#').count();
            // `r#name` is a raw word, not a string.
            (chars.get(1 + hashes) == Some(&'"')).then(|| {
                let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
                ends(2 + hashes, &end)
            })
        }
        ['\'', '\\', ..] => Some(quoted(chars, '\'')),
        ['\'', _, '\'', ..] => Some(3),
        _ => None,
    }
}

/// The length of a block comment with those inside it.
fn block_comment(chars: &[char]) -> usize {
    let (mut at, mut depth) = (2, 1);
    while at < chars.len() && depth > 0 {
        let step = match &chars[at..] {
            ['/', '*', ..] => {
                depth += 1;
                2
            }
            ['*', '/', ..] => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        at += step;
    }
    at
}

/// The length of a string or a character with escapes.
fn quoted(chars: &[char], end: char) -> usize {
    let mut at = 1;
    while at < chars.len() && chars[at] != end {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    chars.len().min(at + 1)
}
