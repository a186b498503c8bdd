//! What real servers do that the protocol does not lead one to expect, each thing done on the wire by a scripted origin.
//!
//! Tests name what they are about by its number:
//!
//! | | entries | | results |
//! | --- | --- | --- | --- |
//! | 1 | no `size` in the manifest | 23 | `skills/get` without `ttlMs` and `cacheScope` |
//! | 2 | one odd entry among good ones | 24 | directory reads without them |
//! | 3 | skills over the limits | 25 | hints of every kind: nothing, everything, `public` |
//! | 4 | dot files, generated files, `skill.md` | 26 | legacy results without hints; foreign `_meta` |
//! | 5 | a nested skill that is no skill of its own | 27 | directory reads that differ in everything |
//! | 6 | manifests in any order | 28 | cursors that are ignored |
//! | 7 | a resource below the skill that no manifest lists | | **errors** |
//! | | **frontmatter** | 29 | one error under HTTP 200, 400 or 404, or as HTML |
//! | 8 | YAML dialects | 30 | -32002 for what is not found |
//! | 9 | dates and timestamps | | **transport** |
//! | 10 | numbers that were rounded | 31 | event streams of every make, empty first events |
//! | 11 | `.inf` and `.nan` | 32 | legacy servers that do or do not declare skills |
//! | 12 | duplicate keys | 33 | discovery refused without a word of versions |
//! | 13 | anchors and merge keys | 34 | `Mcp-Name` missing where it should be |
//! | 14 | a last block scalar without its newline | 35 | hosts that declare nothing |
//! | 15 | fences with blanks, byte-order marks, CRLF | 36 | equal request ids, ids of every type |
//! | 16 | members in another order | 37 | capabilities that differ by era |
//! | | **content** | | **change** |
//! | 17 | text or blob at whim, wrong types | 38 | changes that are not announced |
//! | 18 | answers far larger than the file | 39 | `subscriptions/listen` refused or opened |
//! | 19 | empty files, `_meta` in contents | | |
//! | 20 | files that changed before their entry | | |
//! | | **URIs** | | |
//! | 21 | three spellings of one file name | | |
//! | 22 | `SKILL://`, `SKILL%2Emd`, another spelling in the answer | | |

mod content;
mod entries;
mod errors;
mod frontmatter;
mod results;
mod transport;
mod uris;

use serde_json::Value;

use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Answers;
use crate::support::origin::Era;
use crate::support::origin::Origin;
use crate::support::skill::Skill;

/// A modern origin with these skills under the label `acme`, and a gateway that serves them all.
async fn served(skills: impl IntoIterator<Item = Skill>) -> (Origin, Gateway) {
    let skills: Vec<Skill> = skills.into_iter().collect();
    let count = skills.len();
    let origin = Origin::with(skills);
    let gateway = Gateway::of(&origin).await;
    gateway.approve_all("acme", count).await;
    (origin, gateway)
}

/// The entries that an origin had rejected: URI, rule and reason of each, by URI.
async fn rejected(gateway: &Gateway, label: &str, count: usize) -> Vec<(String, String, String)> {
    let seen = gateway
        .origin_when(label, &format!("has {count} rejected entries"), |item| {
            item["rejected"]
                .as_array()
                .is_some_and(|rejected| rejected.len() == count)
        })
        .await;
    let text = |item: &Value, member: &str| item[member].as_str().unwrap_or_default().to_owned();
    let mut rejected: Vec<_> = seen["rejected"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (text(item, "uri"), text(item, "rule"), text(item, "reason")))
        .collect();
    rejected.sort();
    rejected
}

/// The findings of a skill, as operators see them.
async fn findings(gateway: &Gateway, skill: &str) -> Vec<String> {
    let shown = gateway.cli(&["show", skill, "--json"]).await.expect(0).json();
    let findings = shown["findings"].as_array().unwrap();
    findings
        .iter()
        .map(|finding| finding.as_str().unwrap().to_owned())
        .collect()
}

/// Origins of one make each, under their labels, behind one gateway that serves what they list.
async fn side_by_side(makes: &[(&'static str, Era, Answers)], skill: impl Fn() -> Skill) -> (Vec<Origin>, Gateway) {
    let mut setup = Setup::new();
    let mut origins = Vec::new();
    for (label, era, answers) in makes {
        let origin = Origin::speaking(*era, *answers, [skill()]);
        setup = setup.origin(label, &origin);
        origins.push(origin);
    }
    let gateway = setup.start().await;
    for (label, _, _) in makes {
        gateway.approve_all(label, 1).await;
    }
    (origins, gateway)
}
