//! `audit deliveries`: who received what, a line each.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::arguments::Skill;
use super::arguments::When;
use super::ask::Ask;
use super::output::Output;
use super::output::plain;
use crate::admin::Audit;
use crate::admin::Command;
use crate::admin::Failure;
use crate::domain::Digest;
use crate::domain::Label;
use crate::domain::SetId;
use crate::domain::Timestamp;
use crate::gateway::DeliveryQuery;
use crate::gateway::Recorded;

/// Characters of a digest that are shown.
const DIGEST: usize = 19;

/// Which deliveries; what is named must all fit.
#[derive(Debug, Args)]
pub(super) struct Deliveries {
    /// Of a file with this digest.
    #[arg(long, value_name = "DIGEST")]
    digest: Option<Digest>,
    /// Of this origin, listings that showed it included.
    #[arg(long, value_name = "LABEL")]
    origin: Option<Label>,
    /// Of this skill, listings that showed it included.
    #[arg(long)]
    skill: Option<Skill>,
    /// Of this set, listings that showed it included.
    #[arg(long, value_name = "ID")]
    set: Option<SetId>,
    /// To the token of this name or id, this address, or this commitment.
    #[arg(long, value_name = "NAME")]
    who: Option<String>,
    /// Not before a moment such as 2026-07-28T09:30:00Z, or not longer ago than 2h.
    #[arg(long, value_name = "WHEN")]
    since: Option<When>,
    /// Not after a moment, or longer ago than a duration.
    #[arg(long, value_name = "WHEN")]
    until: Option<When>,
}

impl Deliveries {
    /// Prints them as they come.
    pub(super) async fn list(self, ask: &Ask, output: &Output, now: Timestamp) -> Result<ExitCode, Failure> {
        let query = DeliveryQuery {
            digest: self.digest,
            origin: self.origin,
            skill: self.skill.map(|skill| skill.0),
            set: self.set,
            who: self.who,
            since: self.since.map(|when| when.before(now)),
            until: self.until.map(|when| when.before(now)),
            delivered: false,
        };
        let mut list = output.list("no deliveries");
        let mut take = |item| list.give(item, line);
        let looked = ask.each(&Command::Audit(Audit::Deliveries(query)), &mut take).await?;
        list.end()?;
        match damage(&looked) {
            None => Ok(ExitCode::SUCCESS),
            Some(damage) => Err(Failure::no(damage)),
        }
    }
}

/// What is missing, if anything is.
fn damage(looked: &Value) -> Option<String> {
    let damaged = looked.get("damaged")?.as_array()?;
    let one = |fault: &Value| {
        let (segment, why) = (fault.get("segment")?.as_u64()?, fault.get("why")?.as_str()?);
        let leaf = fault.get("leaf").and_then(Value::as_u64);
        let leaf = leaf.map(|leaf| format!(" (leaf {leaf})")).unwrap_or_default();
        Some(format!("segment {segment}{leaf} is damaged: {why}"))
    };
    let told: Vec<_> = damaged.iter().filter_map(one).collect();
    (!told.is_empty()).then(|| format!("deliveries may be missing: {}", told.join("; ")))
}

fn line(item: Value) -> Result<String, Failure> {
    let recorded: Recorded = serde_json::from_value(item)
        .map_err(|error| Failure::ours(format!("an answer of ours has another form: {error}")))?;
    let Recorded { delivery, name } = recorded;
    let digest = delivery.digest.map(|digest| digest.to_string());
    let digest = digest
        .as_deref()
        .map(|digest| digest.chars().take(DIGEST).collect::<String>());
    let words = [
        Some(delivery.time.to_string()),
        Some(name.unwrap_or(delivery.caller)),
        Some(delivery.endpoint.to_string()),
        Some(delivery.method.to_string()),
        Some(delivery.outcome.to_string()),
        delivery.label.map(|label| label.to_string()),
        delivery.uri,
        digest,
        delivery.source.map(|source| source.to_string()),
        delivery.would.map(|state| format!("on trial, else held: {state}")),
    ];
    let words: Vec<_> = words.into_iter().flatten().map(|word| plain(&word)).collect();
    Ok(format!("{}\n", words.join("  ")))
}
