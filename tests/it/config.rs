//! `proxy.toml`: what loads, what does not, and that the README tells all of it.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use portcullis::config::Address;
use portcullis::config::Config;
use portcullis::config::Invalid;

/// The environment that fixtures may count on.
fn environment(name: &str) -> Option<String> {
    match name {
        "ACME_TOKEN" => Some("s3cret-from-the-environment".to_owned()),
        "EMPTY" => Some(String::new()),
        "LINES" => Some("s3cret\r\nInjected: yes".to_owned()),
        _ => None,
    }
}

fn parse(text: &str, path: &Path) -> Result<Config, Invalid> {
    Config::parse(text.as_bytes(), path, &environment)
}

/// The configuration files of one folder of fixtures.
fn fixtures(folder: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(Path::new("tests/fixtures/config").join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    paths.sort();
    paths
}

#[test]
fn the_example_is_the_default_and_loads_as_it_stands() {
    let config = Config::load(Path::new("proxy.toml")).unwrap();
    let [samples] = config.origins.as_slice() else {
        panic!("one origin is live")
    };
    assert_eq!(samples.label.as_str(), "samples");
    let Address::Folder(folder) = &samples.address else {
        panic!("it is a folder")
    };
    for skill in ["release-notes", "incident-review", "teams/onboarding"] {
        assert!(folder.join(skill).join("SKILL.md").is_file(), "{skill}");
    }
    let bare = parse(
        "[[origin]]\nlabel = \"samples\"\ndir = \"tests/fixtures/skills\"\nrefresh = \"5s\"",
        Path::new("proxy.toml"),
    );
    assert_eq!(
        bare.map(running),
        Ok(running(config)),
        "what proxy.toml writes out is what holds without it"
    );
}

#[test]
fn every_setting_that_the_example_comments_out_can_be_switched_on() {
    // `#key = …` is a setting, `# words` are words.
    let text = fs::read_to_string("proxy.toml").unwrap();
    let on: String = text
        .lines()
        .map(|line| {
            format!(
                "{}
",
                switched_on(line)
            )
        })
        .collect();
    let config = parse(&on, Path::new("proxy.toml")).unwrap_or_else(|why| panic!("{why}"));
    assert!(config.origins.len() > 1);
    let written: BTreeSet<&str> = on.lines().filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
    let missing: Vec<String> = keys()
        .into_iter()
        .filter(|key| !written.contains(key.rsplit('.').next().unwrap()) && !is_nested(key))
        .collect();
    assert!(missing.is_empty(), "proxy.toml shows nothing of {missing:?}");
}

#[test]
fn good_files_load() {
    let paths = fixtures("valid");
    for path in &paths {
        let text = fs::read_to_string(path).unwrap();
        if let Err(why) = parse(&text, path) {
            panic!("{why}");
        }
    }
    assert_eq!(paths.len(), 6);
}

#[test]
fn bad_files_tell_everything_that_is_wrong_with_them() {
    // case B7; of case A3, the labels that there may not be.
    let paths = fixtures("invalid");
    for path in &paths {
        let invalid = Config::parse(&fs::read(path).unwrap(), path, &environment).unwrap_err();
        let folder = format!("{}/", path.parent().unwrap().display());
        let told = invalid.to_string().replace(&folder, "");
        let expected = fs::read_to_string(path.with_extension("expected")).unwrap();
        assert_eq!(told.trim_end(), expected.trim_end(), "{}", path.display());
    }
    assert_eq!(paths.len(), 18);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let invalid = Config::load(Path::new("no/such/proxy.toml")).unwrap_err();
    assert!(
        invalid.to_string().starts_with("no/such/proxy.toml: cannot be read: "),
        "{invalid}"
    );
}

#[test]
fn the_readme_tells_every_key_and_no_other() {
    assert_eq!(readme_rows().into_keys().collect::<BTreeSet<_>>(), keys());
}

#[test]
fn the_readme_tells_the_defaults_that_hold() {
    let path = Path::new("proxy.toml");
    let bare = "[[origin]]\nlabel = \"acme\"\nurl = \"https://acme.example/mcp\"\n";
    let plain = running(parse(bare, path).unwrap());
    let mut compared = 0;
    for (key, default) in readme_rows() {
        let Some(default) = default else { continue };
        let (table, name) = key.rsplit_once('.').unwrap();
        let written = match table {
            "origin" => format!("{bare}{name} = {default}\n"),
            _ => format!("[{table}]\n{name} = {default}\n{bare}"),
        };
        assert_eq!(
            parse(&written, path).map(running).as_ref(),
            Ok(&plain),
            "{key} = {default}"
        );
        compared += 1;
    }
    assert_eq!(compared, 55, "defaults read from the README");
}

/// The configuration with what holds where `[policy]` says nothing written out.
fn running(config: Config) -> Config {
    Config {
        policy: config.policy.with_defaults(),
        ..config
    }
}

/// The line with the setting on it live, if it is commented out.
fn switched_on(line: &str) -> &str {
    match line.strip_prefix('#') {
        Some(setting) if !setting.starts_with([' ', '#']) && !setting.is_empty() => setting,
        Some(_) | None => line,
    }
}

/// Whether the key stands inside another table that is written on one line.
fn is_nested(key: &str) -> bool {
    key.matches('.').count() > 1
}

/// The keys in the README's configuration tables, each with its default if the table names a value.
fn readme_rows() -> BTreeMap<String, Option<String>> {
    include_str!("../../README.md")
        .lines()
        .skip_while(|line| *line != "## Configuration")
        .skip(1)
        .take_while(|line| !line.starts_with("## "))
        .filter_map(|line| {
            let cells: Vec<&str> = line.strip_prefix("| `")?.split(" | ").collect();
            let key = cells[0].strip_suffix('`')?;
            let default = cells[2].strip_prefix('`').and_then(|cell| cell.strip_suffix('`'));
            Some((key.to_owned(), default.map(str::to_owned)))
        })
        .collect()
}

/// Every legal key, as the program itself tells them when it meets one that is none.
fn keys() -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for table in legal("zzzzzzzz = 1").unwrap() {
        let head = if ["origin", "rule", "person"].contains(&table.as_str()) {
            format!("[[{table}]]")
        } else {
            format!("[{table}]")
        };
        for name in legal(&format!("{head}\nzzzzzzzz = 1")).unwrap() {
            let key = format!("{table}.{name}");
            match legal(&format!("{head}\n{name}.zzzzzzzz = 1")) {
                // Told of once, in the table of defaults.
                Some(_) if name == "auto" && table != "policy" => assert!(keys.insert(key)),
                Some(nested) => keys.extend(nested.into_iter().map(|inner| format!("{key}.{inner}"))),
                None => assert!(keys.insert(key)),
            }
        }
    }
    keys
}

/// The keys that may stand where `text` has one that may not.
fn legal(text: &str) -> Option<Vec<String>> {
    let invalid = parse(text, Path::new("proxy.toml")).unwrap_err();
    let told = invalid
        .problems
        .iter()
        .find_map(|problem| problem.text.strip_prefix("is no key here; there are "));
    told.map(|list| list.split(", ").map(str::to_owned).collect())
}
