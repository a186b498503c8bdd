//! Every revision, through every door, for every kind of origin, with every method of the family: a cell each.

use std::fs;

use http::Method;
use serde_json::Value;
use serde_json::json;
use tempfile::TempDir;

use crate::support::client;
use crate::support::client::Answer;
use crate::support::client::Host;
use crate::support::client::strings;
use crate::support::disk;
use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::pipe::Pipe;

/// The label of the origin.
const LABEL: &str = "local";

/// A file that is text.
const NOTES: &[u8] = "# Notes\r\nwith \u{e9}\n".as_bytes();

/// A file that is not.
const FORM: [u8; 5] = [0, 159, 146, 150, 255];

/// The revisions.
const REVISIONS: [&str; 4] = [client::MODERN, "2025-11-25", "2025-06-18", "2025-03-26"];

/// A way in.
#[derive(Clone, Copy, Debug)]
enum Door {
    Http,
    Stdio,
    WebSocket,
}

/// The ways in.
const DOORS: [Door; 3] = [Door::Http, Door::Stdio, Door::WebSocket];

/// A host that came in.
enum Guest {
    Http(Host),
    Pipe(Pipe),
}

/// What an origin is, and how it comes into the configuration; another kind is another item of `origins`.
struct Origin {
    kind: &'static str,
    configured: fn(Setup, &TempDir) -> Setup,
}

fn origins() -> Vec<Origin> {
    vec![Origin {
        kind: "folder",
        configured: |setup, folder| setup.folder(LABEL, folder.path()),
    }]
}

/// What a host asks, and what is wrong with the answer.
type Ask = (&'static str, &'static str, Option<&'static str>, fn(&Answer) -> bool);

/// What is asked in each cell: its name, the method, the URI below the label, and what holds of the answer.
const ASKED: [Ask; 8] = [
    ("list", "skills/list", None, |answer| {
        let skills = &answer.json["result"]["skills"];
        skills.is_array() && strings(skills, "uri") == ["skill://local/demo/SKILL.md"]
    }),
    ("get", "skills/get", Some("demo/SKILL.md"), |answer| {
        answer.json["result"]["skill"]["frontmatter"]["name"] == "demo"
    }),
    ("read text", "resources/read", Some("demo/notes.md"), |answer| {
        has_bytes(answer, NOTES)
    }),
    ("read blob", "resources/read", Some("demo/form.bin"), |answer| {
        has_bytes(answer, &FORM)
    }),
    ("directory", "resources/directory/read", Some("demo"), |answer| {
        let children = &answer.json["result"]["resources"];
        children.is_array() && strings(children, "name") == ["demo", "form.bin", "notes.md"]
    }),
    ("unknown", "skills/get", Some("none/SKILL.md"), |answer| {
        is_refused(answer, "unknown")
    }),
    ("held", "resources/read", Some("held/SKILL.md"), |answer| {
        is_refused(answer, "held")
    }),
    ("other things", "resources/list", None, |answer| {
        answer.json["result"]["resources"].is_array()
    }),
];

fn has_bytes(answer: &Answer, bytes: &[u8]) -> bool {
    answer.json["result"].is_object() && answer.bytes() == bytes
}

fn is_refused(answer: &Answer, reason: &str) -> bool {
    answer.json["error"]["data"]["dev.portcullis/reason"] == reason
}

impl Guest {
    async fn through(door: Door, gateway: &Gateway, revision: &'static str) -> Self {
        match door {
            Door::Http if revision == client::MODERN => Self::Http(gateway.host()),
            Door::Http => Self::Http(gateway.host().shaking_hands(revision).await),
            Door::Stdio => Self::Pipe(Pipe::command(gateway, None).speaking(revision).await),
            Door::WebSocket => Self::Pipe(Pipe::socket(gateway, None).await.speaking(revision).await),
        }
    }

    async fn ask(&mut self, method: &str, params: Value) -> Answer {
        match self {
            Self::Http(host) => host.ask(method, params).await,
            Self::Pipe(pipe) => pipe.ask(method, params).await,
        }
    }

    /// Leaves in good order.
    async fn leave(self) {
        match self {
            Self::Http(host) if host.session().is_some() => {
                assert_eq!(host.without_body(Method::DELETE).await.status(), 202);
            }
            Self::Http(_) => {}
            Self::Pipe(pipe) => drop(pipe),
        }
    }
}

/// Whether an answer has the members of its era, whatever else it is.
fn fits(answer: &Answer, revision: &str) -> bool {
    let result = &answer.json["result"];
    let is_modern = revision == client::MODERN;
    result.is_null() || result.get("resultType").is_some() == is_modern
}

fn write_skills(folder: &TempDir) {
    for name in ["demo", "held"] {
        let skill = folder.path().join(name);
        fs::create_dir_all(&skill).unwrap();
        let text = format!("---\nname: {name}\ndescription: What it is for.\n---\n\nDo it.\n");
        disk::write(&skill.join("SKILL.md"), text.as_bytes());
    }
    disk::write(&folder.path().join("demo/notes.md"), NOTES);
    disk::write(&folder.path().join("demo/form.bin"), &FORM);
}

#[tokio::test]
async fn every_host_gets_the_same_whatever_it_speaks_and_wherever_it_comes_in() {
    let (mut wrong, mut cells) = (Vec::new(), 0);
    for origin in origins() {
        let folder = TempDir::new().unwrap();
        write_skills(&folder);
        let gateway = (origin.configured)(Setup::new(), &folder).start().await;
        gateway.approve("local/demo").await;
        gateway.skill_is("local/held", "pending").await;
        for door in DOORS {
            for revision in REVISIONS {
                let mut guest = Guest::through(door, &gateway, revision).await;
                for (name, method, path, holds) in ASKED {
                    let uri = path.map(|path| format!("skill://{LABEL}/{path}"));
                    let params = uri.map_or_else(|| json!({}), |uri| json!({ "uri": uri }));
                    let answer = guest.ask(method, params).await;
                    cells += 1;
                    if !holds(&answer) || !fits(&answer, revision) {
                        let kind = origin.kind;
                        wrong.push(format!("{kind} × {door:?} × {revision} × {name}: {}", answer.text));
                    }
                }
                guest.leave().await;
            }
        }
        gateway.finish().await;
    }
    assert!(
        wrong.is_empty(),
        "{} of {cells} cells:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(cells, origins().len() * DOORS.len() * REVISIONS.len() * ASKED.len());
}
