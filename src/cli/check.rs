//! `check`: what an author of skills runs before publishing them, by hand or in CI. Needs neither configuration nor gateway.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use serde_json::Value;
use serde_json::json;

use super::output::Output;
use super::output::plain;
use super::output::write;
use crate::admin::Failure;
use crate::domain::inspect::Check as Checked;
use crate::domain::inspect::Remark;
use crate::domain::inspect::Severity;
use crate::gateway::FolderCheck;
use crate::gateway::check_folder;
use crate::gateway::mend_folder;

/// Where the form of SARIF is told.
const SARIF: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// Check folders of skills: what would not be published, and where a reviewer would look.
#[derive(Debug, clap::Args)]
pub(super) struct Check {
    /// Folders of skills, or of one skill each.
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// How it is told.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// What weighs so much is a problem too.
    #[arg(long, value_enum, default_value = "high", value_name = "SEVERITY")]
    fail_on: FailOn,
    /// Mend what can be mended without a doubt: missing quotes, a name that is not the folder's, a last line without an end.
    #[arg(long)]
    fix: bool,
}

/// How findings are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// One JSON value.
    Json,
    /// SARIF 2.1.0, as code hosts read it.
    Sarif,
}

/// From which severity on a remark is a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    Note,
    Warning,
    High,
    Never,
}

impl Check {
    /// Does it, and gives the exit code: 1 where there are problems.
    pub(super) async fn run(&self, output: &Output) -> Result<ExitCode, Failure> {
        if self.fix {
            for folder in &self.folders {
                for file in mend_folder(folder).await? {
                    // Who reads the findings reads standard output.
                    let told = format!("mended {}\n", file.display());
                    let _gone = std::io::Write::write_all(&mut std::io::stderr(), told.as_bytes()).is_err();
                }
            }
        }
        let mut found = Vec::new();
        for folder in &self.folders {
            found.push(check_folder(folder).await?);
        }
        let format = if output.is_json() { Format::Json } else { self.format };
        let text = match format {
            Format::Text => found.iter().map(told).collect(),
            Format::Json => format!("{}\n", json!(found)),
            Format::Sarif => format!("{}\n", sarif(&found)),
        };
        write(text.as_bytes())?;
        let is_clean = found.iter().all(|found| self.is_clean(found));
        Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    fn is_clean(&self, found: &FolderCheck) -> bool {
        let least = match self.fail_on {
            FailOn::Note => Some(Severity::Note),
            FailOn::Warning => Some(Severity::Warning),
            FailOn::High => Some(Severity::High),
            FailOn::Never => None,
        };
        let mut remarks = found.skills.iter().flat_map(|skill| &skill.remarks);
        let is_grave = |remark: &Remark| least.is_some_and(|least| remark.check.severity() >= least);
        found.problems.is_empty() && found.unseen.is_none() && !remarks.any(is_grave)
    }
}

/// One folder, for a person.
fn told(found: &FolderCheck) -> String {
    let mut text = String::new();
    for problem in &found.problems {
        let line = problem.line.map(|line| format!(":{line}")).unwrap_or_default();
        let fix = problem.fix.as_ref().map(|fix| format!("; {fix}")).unwrap_or_default();
        let said = format!(
            "{}/{}{line}: {} [{}]{fix}",
            found.folder, problem.file, problem.problem, problem.rule
        );
        text.push_str(&format!("{}\n", plain(&said)));
    }
    for skill in &found.skills {
        for remark in &skill.remarks {
            text.push_str(&format!(
                "{}: {}\n",
                plain(&place(found, &skill.path)),
                plain(&remark.to_string())
            ));
        }
    }
    if let Some(unseen) = &found.unseen {
        text.push_str(&format!(
            "{}: not everything was looked at: {}\n",
            plain(&found.folder),
            plain(unseen)
        ));
    }
    let (skills, problems) = (found.skills.len(), found.problems.len());
    text.push_str(&format!(
        "{}: {skills} skills would be published, {problems} problems\n",
        plain(&found.folder)
    ));
    text
}

/// A path in a checked folder, as the folder was named.
fn place(found: &FolderCheck, path: &str) -> String {
    if path.is_empty() {
        found.folder.clone()
    } else {
        format!("{}/{path}", found.folder)
    }
}

/// Everything as one SARIF log (OASIS SARIF 2.1.0).
fn sarif(found: &[FolderCheck]) -> Value {
    let rules: Vec<_> = Checked::ALL
        .iter()
        .map(|check| {
            json!({
                "id": check.id(),
                "shortDescription": { "text": check.look_at() },
                "defaultConfiguration": { "level": level(check.severity()) },
            })
        })
        .collect();
    let problems = found.iter().flat_map(|of| {
        of.problems.iter().map(move |problem| {
            let fix = problem.fix.as_ref().map(|fix| format!("; {fix}")).unwrap_or_default();
            result(
                &problem.rule,
                "error",
                &format!("{}{fix}", problem.problem),
                &place(of, &problem.file),
                problem.line.map(|line| json!({ "startLine": line })),
            )
        })
    });
    let remarks = found.iter().flat_map(|of| {
        of.skills.iter().flat_map(move |skill| {
            skill.remarks.iter().map(move |remark| {
                let region = remark
                    .position
                    .map(|at| json!({ "startLine": at.line, "startColumn": at.column }));
                let file = format!("{}/{}", place(of, &skill.path), remark.path);
                let severity = level(remark.check.severity());
                result(remark.check.id(), severity, &remark.detail, &file, region)
            })
        })
    });
    let results: Vec<_> = problems.chain(remarks).collect();
    let driver = json!({ "name": "portcullis", "version": env!("CARGO_PKG_VERSION"), "rules": rules });
    json!({
        "$schema": SARIF,
        "version": "2.1.0",
        "runs": [{ "tool": { "driver": driver }, "columnKind": "unicodeCodePoints", "results": results }],
    })
}

fn result(rule: &str, level: &str, message: &str, file: &str, region: Option<Value>) -> Value {
    let mut location = json!({ "artifactLocation": { "uri": file } });
    if let Some(region) = region {
        location["region"] = region;
    }
    json!({
        "ruleId": rule,
        "level": level,
        "message": { "text": message },
        "locations": [{ "physicalLocation": location }],
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::High => "error",
    }
}
