//! What is printed: tables and sentences for people, one JSON value for programs.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io::BufRead as _;
use std::io::Write as _;
use std::io::stdin;
use std::io::stdout;
use std::process::ExitCode;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::approve::FromLock;
use crate::admin::Accepted;
use crate::admin::Checked;
use crate::admin::Failure;
use crate::admin::Lifted;
use crate::admin::Look;
use crate::admin::NewToken;
use crate::admin::Removed;
use crate::admin::TokensRevoked;
use crate::domain::Tally;
use crate::domain::inspect::Check;
use crate::domain::inspect::Remark;
use crate::domain::inspect::Severity;
use crate::gateway::ClosedSet;
use crate::gateway::Decided;
use crate::gateway::Difference;
use crate::gateway::Forgotten;
use crate::gateway::OriginStatus;
use crate::gateway::Pulled;
use crate::gateway::Recalled;
use crate::gateway::Receiver;
use crate::gateway::SegmentFault;
use crate::gateway::SkillDetails;
use crate::gateway::SkillStatus;
use crate::gateway::TokenStatus;
use crate::gateway::TrialStatus;

/// Columns of text before a description is cut.
const DESCRIPTION: usize = 72;

/// Standard output, in one of two languages.
pub(super) struct Output {
    json: bool,
}

type Printed = Result<ExitCode, Failure>;

/// A list whose items come one by one, too many to be held: as lines, or as one JSON array.
pub(super) struct List {
    json: bool,
    nothing: &'static str,
    given: u64,
}

impl List {
    /// Prints an item: itself, or the line that `line` makes of it.
    pub(super) fn give(
        &mut self,
        item: Value,
        line: impl FnOnce(Value) -> Result<String, Failure>,
    ) -> Result<(), Failure> {
        let before = if self.given == 0 { "[" } else { "," };
        self.given += 1;
        let text = if self.json {
            format!("{before}{item}\n")
        } else {
            line(item)?
        };
        write(text.as_bytes())
    }

    /// Ends the list.
    pub(super) fn end(self) -> Result<(), Failure> {
        match (self.json, self.given) {
            (true, 0) => write(b"[]\n"),
            (true, _) => write(b"]\n"),
            (false, 0) => write(format!("{}\n", self.nothing).as_bytes()),
            (false, _) => Ok(()),
        }
    }
}

impl Output {
    pub(super) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether JSON is wanted.
    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints the value itself, or the text that `text` makes of it.
    pub(super) fn print<T: DeserializeOwned>(
        &self,
        value: &Value,
        text: impl FnOnce(T) -> String,
    ) -> Result<(), Failure> {
        let out = if self.json {
            format!("{value}\n")
        } else {
            let typed = serde_json::from_value(value.clone());
            text(typed.map_err(|error| Failure::ours(format!("an answer of ours has another form: {error}")))?)
        };
        write(out.as_bytes())
    }

    /// A list whose items come one by one; `nothing` stands for an empty one.
    pub(super) fn list(&self, nothing: &'static str) -> List {
        List {
            json: self.json,
            nothing,
            given: 0,
        }
    }

    pub(super) fn skills(&self, value: &Value) -> Printed {
        self.print(value, |skills: Vec<SkillStatus>| {
            if skills.is_empty() {
                return "no skills\n".to_owned();
            }
            let names: Vec<_> = skills.iter().map(name_of).collect();
            let width = names.iter().map(|name| name.chars().count()).max().unwrap_or_default();
            let line = |(skill, name): (&SkillStatus, &String)| {
                let held = skill
                    .reason
                    .as_deref()
                    .filter(|_| skill.served_set.is_none() && skill.state.to_string() != "pending")
                    .or_else(|| skill.reason.as_deref().filter(|_| skill.observed_until.is_some()));
                let words = held.or(skill.description.as_deref()).unwrap_or_default();
                let trial = skill.observed_until.map(|until| format!("on trial until {until}: "));
                let words = format!("{}{words}", trial.unwrap_or_default());
                let mark = if skill.findings.is_empty() { ' ' } else { '!' };
                format!(
                    "{:<9} {mark} {name:<width$}  {}\n",
                    skill.state.to_string(),
                    cut(&words, DESCRIPTION)
                )
            };
            skills.iter().zip(&names).map(line).collect()
        })?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn origins(&self, value: &Value) -> Printed {
        self.print(value, |origins: Vec<OriginStatus>| {
            origins
                .iter()
                .map(|origin| {
                    let era = origin.era.as_deref().map(|era| format!(", {era}")).unwrap_or_default();
                    let mut text = format!(
                        "{:<12} {:<10} {} ({}{era}), {} skills\n",
                        origin.label,
                        origin.state,
                        plain(&origin.address),
                        origin.kind,
                        origin.skills
                    );
                    if let Some(error) = &origin.last_error {
                        text.push_str(&format!("    last error: {}\n", plain(error)));
                    }
                    if origin.state == "moved" {
                        text.push_str(&format!(
                            "    it points elsewhere; to accept: portcullis origin accept {}\n",
                            origin.label
                        ));
                    }
                    for rejected in &origin.rejected {
                        let uri = rejected.uri.as_deref().unwrap_or("an entry without a URI");
                        text.push_str(&format!(
                            "    not published: {} ({}): {}\n",
                            plain(uri),
                            rejected.rule,
                            plain(&rejected.reason)
                        ));
                    }
                    text
                })
                .collect()
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// What lists the skills, as it is.
    pub(super) fn catalog(&self, value: &Value) -> Printed {
        let nothing = if self.json { "[]" } else { "" };
        let text = value.as_str().unwrap_or(nothing);
        write(format!("{text}\n").as_bytes()).map(|()| ExitCode::SUCCESS)
    }

    pub(super) fn accepted(&self, value: &Value) -> Printed {
        self.print(value, |Accepted { label, changed, votes }: Accepted| {
            if let Some(tally) = votes {
                format!("voted to accept the address of {label}: {}\n", counted(tally))
            } else if changed {
                format!("accepted the address of {label}; its approvals hold there\n")
            } else {
                format!("{label} points where it did; nothing to accept\n")
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn removed(&self, value: &Value) -> Printed {
        self.print(value, |Removed { label, freed }: Removed| {
            format!("removed {label}: its approvals ended, {freed} bytes freed; its record stays\n")
        })?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn details(&self, value: &Value) -> Printed {
        self.print(value, |details: SkillDetails| described(&details))?;
        Ok(ExitCode::SUCCESS)
    }

    /// What is about to be approved, for the person who is asked.
    pub(super) fn preview(&self, value: &Value) -> Result<(), Failure> {
        Self { json: false }.print(value, |details: SkillDetails| described(&details))
    }

    pub(super) fn diff(&self, value: &Value) -> Printed {
        let differs = value
            .get("files")
            .and_then(Value::as_array)
            .is_some_and(|files| !files.is_empty())
            || value.get("frontmatter_after").is_some_and(|after| !after.is_null());
        let gone = value.get("gone").is_some_and(|gone| !gone.is_null());
        self.print(value, |diff: Difference| {
            let gone = diff.gone.as_deref().map(plain);
            let gone = gone.map_or_else(String::new, |why| {
                format!("the set seen last is offered no more: {why}\n")
            });
            if !differs {
                return format!("{gone}nothing differs from {}\n", diff.seen);
            }
            let approved = diff
                .approved
                .map_or_else(|| "nothing (never approved)".to_owned(), |set| set.to_string());
            let mut text = format!("{gone}approved: {approved}\nseen:     {}\n", diff.seen);
            if let Some(after) = &diff.frontmatter_after {
                let before = diff.frontmatter_before.as_deref().unwrap_or("(none)");
                text.push_str(&format!("frontmatter\n- {}\n+ {}\n", plain(before), plain(after)));
            }
            let unread = diff
                .files
                .iter()
                .any(|file| file.change == "changed" && file.text.is_none());
            if unread {
                text.push_str(
                    "(lines are shown of texts whose both sides are stored; portcullis pull fetches the seen one)\n",
                );
            }
            for file in &diff.files {
                text.push_str(&format!("{:<8} {}\n", file.change, plain(file.uri.as_str())));
                if let Some(lines) = &file.text {
                    lines
                        .lines()
                        .for_each(|line| text.push_str(&format!("    {}\n", plain(line))));
                }
                text.push_str(&remarked(&file.remarks));
            }
            text
        })?;
        Ok(if differs || gone {
            ExitCode::from(1)
        } else {
            ExitCode::SUCCESS
        })
    }

    pub(super) fn file(&self, value: &Value) -> Printed {
        if self.json {
            write(format!("{value}\n").as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        let look: Look = serde_json::from_value(value.clone()).map_err(|error| Failure::ours(error.to_string()))?;
        let bytes = BASE64_STANDARD
            .decode(look.base64)
            .map_err(|error| Failure::ours(error.to_string()))?;
        write(&bytes)?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn decided(&self, what: &str, value: &Value) -> Printed {
        self.print(value, |decided: Decided| {
            let sets: Vec<_> = decided.sets.iter().map(ToString::to_string).collect();
            let sets = sets.join(", ");
            if let Some(tally) = decided.votes {
                return format!("voted for {}: {sets}, {}\n", decided.skill, counted(tally));
            }
            let before = if decided.changed { "" } else { " (as before)" };
            format!("{what} {}: {sets}{before}\n", decided.skill)
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// What came of each set of a lock file.
    pub(super) fn lock_approved(&self, outcomes: &[FromLock]) -> Result<(), Failure> {
        let value = serde_json::to_value(outcomes).map_err(|error| Failure::ours(error.to_string()))?;
        self.print(&value, |outcomes: Vec<FromLock>| {
            let line = |outcome: &FromLock| {
                let FromLock {
                    skill,
                    set,
                    decided,
                    refused,
                } = outcome;
                match (decided, refused) {
                    (Some(Decided { votes: Some(tally), .. }), _) => {
                        format!("voted for {skill}: {set}, {}\n", counted(*tally))
                    }
                    (Some(Decided { changed: true, .. }), _) => format!("approved {skill}: {set}\n"),
                    (Some(_), _) => format!("approved {skill}: {set} (as before)\n"),
                    (None, why) => format!("refused {}\n", plain(why.as_deref().unwrap_or_default())),
                }
            };
            outcomes.iter().map(line).collect()
        })
    }

    pub(super) fn recalled(&self, value: &Value) -> Printed {
        self.print(value, |recalled: Recalled| {
            let closed = |set: &ClosedSet| format!("closed {}: {}\n", set.skill, set.set);
            let received = |receiver: &Receiver| {
                let who = receiver.name.as_deref().unwrap_or(&receiver.caller);
                let Receiver { first, last, count, .. } = receiver;
                format!("received by {}, {count} times from {first} to {last}\n", plain(who))
            };
            let damaged = |fault: &SegmentFault| {
                format!(
                    "segment {} of deliveries is damaged: {}\n",
                    fault.segment,
                    plain(&fault.why)
                )
            };
            let lines = recalled.closed.iter().map(closed);
            let lines = lines.chain(recalled.received.iter().map(received));
            let lines: String = lines.chain(recalled.damaged.iter().map(damaged)).collect();
            format!(
                "{lines}recalled; {} sets were closed, {} callers had received it\n",
                recalled.closed.len(),
                recalled.received.len()
            )
        })?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn lifted(&self, value: &Value) -> Printed {
        self.print(value, |Lifted { digest, lifted }: Lifted| {
            if lifted {
                format!("{digest} is recalled no more; what was revoked waits for a new approval\n")
            } else {
                format!("{digest} is not recalled\n")
            }
        })?;
        let lifted = value.get("lifted").and_then(Value::as_bool) == Some(true);
        Ok(if lifted { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    pub(super) fn pulled(&self, value: &Value) -> Printed {
        self.print(value, |pulled: Pulled| {
            format!(
                "pulled {}: {} files, {} bytes, all verified ({} fetched, {} stored already)\n",
                pulled.skill,
                pulled.files,
                pulled.bytes,
                pulled.fetched,
                pulled.files.saturating_sub(pulled.fetched)
            )
        })?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn checked(&self, value: &Value) -> Printed {
        self.print(value, |Checked { intact, report }: Checked| {
            let detail = serde_json::to_string_pretty(&report).unwrap_or_default();
            let verdict = if intact {
                "nothing is wrong"
            } else {
                "something is wrong"
            };
            format!("{detail}\n{verdict}\n")
        })?;
        let intact = value.get("intact").and_then(Value::as_bool) == Some(true);
        Ok(if intact { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    pub(super) fn forgotten(&self, value: &Value) -> Printed {
        self.print(value, |Forgotten { people }: Forgotten| {
            let line =
                |person: &String| format!("forgotten: the record says {person}, and nothing says who that was\n");
            people.iter().map(line).collect()
        })?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn rebuilt(&self, value: &Value) -> Printed {
        self.print(value, |report: Value| format!("the index was made anew: {report}\n"))?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn token(&self, value: &Value) -> Printed {
        self.print(value, |NewToken { id, secret }: NewToken| {
            format!("{id}: shown once; a host sends it as Authorization: Bearer\n{secret}\n")
        })?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn tokens(&self, value: &Value) -> Printed {
        let line = |token: &TokenStatus| {
            let revoked = token
                .revoked
                .map(|when| format!("  revoked {when}"))
                .unwrap_or_default();
            let by = token.by.as_deref().map(|by| format!("  by {by}")).unwrap_or_default();
            format!("{}  {}  {}{by}{revoked}\n", token.id, token.created, plain(&token.name))
        };
        self.print(value, |tokens: Vec<TokenStatus>| tokens.iter().map(line).collect())?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn tokens_revoked(&self, value: &Value) -> Printed {
        self.print(value, |TokensRevoked { revoked }: TokensRevoked| {
            format!("{revoked} tokens revoked\n")
        })?;
        let any = value.get("revoked").and_then(Value::as_u64).unwrap_or_default() > 0;
        Ok(if any { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    pub(super) fn health(&self, value: &Value) -> Printed {
        self.print(value, |health: Value| {
            let count = |name| health.get(name).and_then(Value::as_u64).unwrap_or_default();
            let trials = health.get("trials").cloned();
            let trials: Vec<TrialStatus> = trials
                .and_then(|trials| serde_json::from_value(trials).ok())
                .unwrap_or_default();
            let lasting = trials.iter().map(|trial| {
                format!(
                    "on trial until {}: {}, {} skills served that nobody approved\n",
                    trial.until, trial.label, trial.skills
                )
            });
            let head = format!(
                "ok: {} skills served, {} waiting for a decision\n",
                count("served"),
                count("waiting")
            );
            let off = health.pointer("/deliveries/on").and_then(Value::as_bool) == Some(false);
            let off = off.then(|| "DELIVERIES ARE NOT RECORDED (audit.deliveries = false)\n".to_owned());
            let witnesses = health.get("witnesses").and_then(Value::as_array);
            let standings = witnesses.into_iter().flatten().map(standing);
            std::iter::once(head)
                .chain(lasting)
                .chain(standings)
                .chain(off)
                .collect()
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Asks on the terminal; anything but yes is no.
    pub(super) fn ask(&self, question: &str) -> Result<bool, Failure> {
        write(question.as_bytes())?;
        let mut answer = String::new();
        let read = stdin().lock().read_line(&mut answer);
        read.map_err(|error| Failure::usage(format!("the terminal cannot be read: {error}")))?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }
}

/// How a witness of the log stands, for a person.
fn standing(witness: &Value) -> String {
    let word = |name| witness.get(name).and_then(Value::as_str).map(plain);
    let (name, error) = (word("name").unwrap_or_default(), word("error"));
    let leaves = witness.get("cosigned").and_then(Value::as_u64).unwrap_or_default();
    match word("lacking_since") {
        None => format!("witness {name}: cosigned all {leaves} leaves\n"),
        Some(since) => {
            let why = error.map(|error| format!(": {error}")).unwrap_or_default();
            format!("witness {name}: cosigned {leaves} leaves, and not the newest since {since}{why}\n")
        }
    }
}

/// Everything about one skill, for a person.
fn described(details: &SkillDetails) -> String {
    let status = &details.status;
    let mut text = format!("{}\n", name_of(status));
    let mut line = |name: &str, value: &str| text.push_str(&format!("  {name:<12} {}\n", plain(value)));
    line("uri", &status.uri);
    if let Some(merged) = &status.merged_uri {
        line("merged uri", merged);
    }
    line("state", &status.state.to_string());
    if let Some(reason) = &status.reason {
        line("", reason);
    }
    if let Some(until) = status.observed_until {
        line(
            "on trial",
            &format!("until {until}; served although nobody approved it"),
        );
    }
    if let Some(set) = &status.set {
        line("set", &set.to_string());
    }
    if let Some(served) = status.served_set.filter(|served| status.set != Some(*served)) {
        line("served set", &served.to_string());
    }
    if let Some(approval) = details.approval {
        line("approval", &format!("leaf {approval} of the log"));
    }
    if let Some(expires) = details.expires {
        line("expires", &expires.to_string());
    }
    if let Some(frontmatter) = &details.frontmatter {
        line("frontmatter", frontmatter);
    }
    for finding in &status.findings {
        line("look at", finding);
    }
    text.push_str(&remarked(&details.remarks));
    if details.uninspected > 0 {
        text.push_str(&format!(
            "  {} files are not stored and were not inspected; portcullis pull fetches them\n",
            details.uninspected
        ));
    }
    for file in &details.files {
        let stored = if file.stored { "stored" } else { "      " };
        text.push_str(&format!(
            "  {stored} {:>10}  {}  {}\n",
            file.size,
            file.digest,
            plain(file.uri.as_str())
        ));
    }
    text
}

/// Where a reviewer should look, what weighs most first, with what to look at once for each check; notes are counted.
fn remarked(remarks: &[Remark]) -> String {
    let severity = |remark: &Remark| remark.check.severity();
    let mut weighty: Vec<_> = remarks
        .iter()
        .filter(|remark| severity(remark) > Severity::Note)
        .collect();
    weighty.sort_by_key(|remark| std::cmp::Reverse(severity(remark)));
    let (mut text, mut told) = (String::new(), BTreeSet::new());
    for remark in weighty {
        text.push_str(&format!("  {:<12} {}\n", "look at", plain(&remark.to_string())));
        if told.insert(remark.check) {
            text.push_str(&format!("  {:<12} {}\n", "", remark.check.look_at()));
        }
    }
    let mut notes: BTreeMap<Check, usize> = BTreeMap::new();
    for remark in remarks.iter().filter(|remark| severity(remark) == Severity::Note) {
        *notes.entry(remark.check).or_default() += 1 + remark.more;
    }
    if !notes.is_empty() {
        let notes: Vec<_> = notes.iter().map(|(check, count)| format!("{check} {count}")).collect();
        text.push_str(&format!(
            "  {:<12} {} (--json has them all)\n",
            "notes",
            notes.join(", ")
        ));
    }
    text
}

/// How a skill is named on this command line.
fn name_of(skill: &SkillStatus) -> String {
    let path = skill
        .uri
        .strip_prefix("skill://")
        .and_then(|rest| rest.strip_suffix("/SKILL.md"));
    match (path, &skill.merged_uri) {
        (Some(path), _) => format!("{}/{}", skill.label, plain(path)),
        (None, Some(merged)) => plain(merged),
        (None, None) => plain(&skill.uri),
    }
}

/// How far a vote is.
fn counted(tally: Tally) -> String {
    let yours = if tally.yours_already { ", yours already" } else { "" };
    format!("{} of {}{yours}", tally.votes, tally.of)
}

/// Text from outside without what would act on a terminal or hide in it.
pub(super) fn plain(text: &str) -> String {
    let invisible = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    text.chars()
        .map(|c| {
            if invisible(c) && c != '\t' {
                format!("\\u{{{:x}}}", u32::from(c))
            } else {
                c.to_string()
            }
        })
        .collect()
}

/// The first `columns` characters.
fn cut(text: &str, columns: usize) -> String {
    let text = plain(text);
    if text.chars().count() <= columns {
        text
    } else {
        text.chars().take(columns).chain(['…']).collect()
    }
}

pub(super) fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    written.map_err(|error| Failure::unknown(format!("standard output is closed: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_acts_on_the_terminal_or_hides_in_it() {
        assert_eq!(plain("a\u{1b}[2Jb\r\n"), "a\\u{1b}[2Jb\\u{d}\\u{a}");
        assert_eq!(
            plain("ad\u{202e}min\u{200b}\u{feff}"),
            "ad\\u{202e}min\\u{200b}\\u{feff}"
        );
        assert_eq!(plain("数据 é\t{x}"), "数据 é\t{x}");
    }

    #[test]
    fn a_long_description_is_cut_by_characters_with_a_mark() {
        assert_eq!(cut("héllo", 5), "héllo");
        assert_eq!(cut("héllo!", 5), "héllo…");
    }
}
