//! `policy …`: what holds for a skill and why, and whether the configuration does what a file of cases expects.

use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use serde::Deserialize;
use serde::Serialize;

use super::arguments::Skill;
use super::ask::Ask;
use super::output::Output;
use super::output::plain;
use crate::admin::Command;
use crate::admin::Failure;
use crate::config::Case;
use crate::config::Cases;
use crate::config::Config;
use crate::domain::policy::Ruling;
use crate::gateway::Explanation;
use crate::gateway::parse_skill;

/// Looks at policies.
#[derive(Debug, Subcommand)]
pub(super) enum Act {
    /// Show what holds for a skill, which rule and line says so, and what becomes of the set now seen.
    Explain {
        /// label/path, or the URI of the merged view.
        skill: Skill,
    },
    /// Check the configuration against a file of cases; needs no gateway.
    Test {
        /// The file, with a [[case]] for each.
        file: PathBuf,
    },
}

/// How one case came out.
#[derive(Debug, Serialize, Deserialize)]
struct Tried {
    name: String,
    /// Whether it came out as expected.
    ok: bool,
    /// What was expected, and by which rule.
    expected: String,
    /// What came out, and by which rule.
    got: String,
    /// The same in words.
    why: String,
}

impl Act {
    /// Does it, and gives the exit code.
    pub(super) async fn run(self, ask: &Ask, output: &Output) -> Result<ExitCode, Failure> {
        match self {
            Self::Explain { skill } => {
                let explained = ask.value(&Command::Explain { skill: skill.0 }).await?;
                output.print(&explained, |explanation: Explanation| described(&explanation))?;
                Ok(ExitCode::SUCCESS)
            }
            Self::Test { file } => test(ask.config(), &file, output),
        }
    }
}

fn test(config: &Path, file: &Path, output: &Output) -> Result<ExitCode, Failure> {
    let config = Config::load_without_secrets(config).map_err(|invalid| Failure::usage(invalid.to_string()))?;
    let cases = Cases::load(file, parse_skill).map_err(|invalid| Failure::usage(invalid.to_string()))?;
    let policies = config.policies();
    let tried: Vec<Tried> = cases
        .iter()
        .map(|case| {
            let policy = policies.of(&case.skill);
            let rule = policies.rule(&case.skill).map(|rule| rule.name.to_string());
            Tried::new(case, &policy.ruling(&case.facts), rule.as_deref())
        })
        .collect();
    let all = tried.iter().all(|tried| tried.ok);
    let value = serde_json::to_value(&tried).map_err(|error| Failure::ours(error.to_string()))?;
    output.print(&value, |tried: Vec<Tried>| table(&tried))?;
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

impl Tried {
    fn new(case: &Case, ruling: &Ruling, rule: Option<&str>) -> Self {
        let named = |word: &str, rule: Option<&str>| match rule {
            Some(rule) => format!("{word} ({rule})"),
            None => word.to_owned(),
        };
        let is_rule = case.rule.is_none() || case.rule.as_deref() == rule;
        Self {
            name: case.name.clone(),
            ok: is_rule && case.expect.word() == ruling.word(),
            expected: named(case.expect.word(), case.rule.as_deref()),
            got: named(ruling.word(), rule),
            why: ruling.to_string(),
        }
    }
}

fn table(tried: &[Tried]) -> String {
    let width = |text: fn(&Tried) -> &str| tried.iter().map(|tried| text(tried).chars().count()).max().unwrap_or(0);
    let (name, expected) = (width(|tried| &tried.name), width(|tried| &tried.expected));
    let failed = tried.iter().filter(|tried| !tried.ok).count();
    let mut text = String::new();
    for one in tried {
        let mark = if one.ok { "ok  " } else { "FAIL" };
        text.push_str(&format!(
            "{mark}  {:<name$}  {:<expected$}  {}: {}\n",
            plain(&one.name),
            one.expected,
            one.got,
            plain(&one.why)
        ));
    }
    text.push_str(&format!("{} cases, {failed} failed\n", tried.len()));
    text
}

fn described(explanation: &Explanation) -> String {
    let rule = explanation.rule.as_deref().unwrap_or("none is for it");
    let mut text = format!("{}\n  rule         {rule}\n", explanation.skill);
    for word in &explanation.policy {
        text.push_str(&format!("  {:<12} {:<24} {}\n", word.key, word.value, word.source));
    }
    if let Some(set) = explanation.set {
        text.push_str(&format!("  set          {set}\n"));
    }
    if let Some(state) = explanation.state {
        text.push_str(&format!("  state        {state}\n"));
    }
    text.push_str(&format!("  outlook      {}\n", plain(&explanation.outlook)));
    text
}
