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
use crate::support::origin::Answers;
use crate::support::origin::Era;
use crate::support::origin::Origin;
use crate::support::pipe::Pipe;
use crate::support::program::World;
use crate::support::skill::Skill;
use crate::support::socket;

/// The label of the origin.
const LABEL: &str = "local";

/// How often it is asked for its skills.
const OFTEN: &str = "refresh = \"1s\"";

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

/// What an origin is.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A folder of skills.
    Folder,
    /// A server over HTTP that speaks one era alone.
    Http(Era),
    /// A program that speaks a revision with a handshake alone.
    Program,
    /// A server behind a WebSocket that does so.
    WebSocket,
    /// Another gateway before the folder, through one of its doors.
    Gateway(Door),
}

/// The kinds of origins.
const KINDS: [Kind; 9] = [
    Kind::Folder,
    Kind::Http(Era::Modern),
    Kind::Http(Era::Legacy),
    Kind::Http(Era::LegacyWithSessions),
    Kind::Program,
    Kind::WebSocket,
    Kind::Gateway(Door::Http),
    Kind::Gateway(Door::Stdio),
    Kind::Gateway(Door::WebSocket),
];

/// An origin that runs.
enum Running {
    Folder,
    Http(Origin),
    Program(World),
    WebSocket { _origin: Origin, door: socket::Door },
    Gateway(Box<Gateway>),
}

impl Kind {
    /// Begins an origin with the skills of a folder.
    async fn begin(self, folder: &TempDir) -> Running {
        let skills = ["demo", "held"].map(skill);
        match self {
            Self::Folder => Running::Folder,
            Self::Http(era) => Running::Http(Origin::speaking(era, Answers::Json, skills)),
            Self::Program => Running::Program(World::with(&skills)),
            Self::WebSocket => {
                let origin = Origin::speaking(Era::Legacy, Answers::Json, skills);
                let door = socket::Door::of(&origin, None).await;
                Running::WebSocket { _origin: origin, door }
            }
            Self::Gateway(_) => {
                let gateway = Setup::new().folder(LABEL, folder.path()).start().await;
                gateway.approve_all(LABEL, 2).await;
                Running::Gateway(Box::new(gateway))
            }
        }
    }

    /// The configuration that has it.
    fn configured(self, running: &Running, folder: &TempDir) -> Setup {
        let setup = Setup::new();
        match (self, running) {
            (_, Running::Folder) => setup.folder(LABEL, folder.path()),
            (_, Running::Http(origin)) => setup.origin(LABEL, origin),
            (_, Running::Program(world)) => setup.table(&world.labelled(LABEL, "older", "")),
            (_, Running::WebSocket { door, .. }) => setup.origin_at(LABEL, &door.url("ws"), OFTEN),
            (Self::Gateway(Door::Http), Running::Gateway(other)) => setup.origin_at(LABEL, &other.mcp_of(LABEL), OFTEN),
            (Self::Gateway(Door::WebSocket), Running::Gateway(other)) => {
                setup.origin_at(LABEL, &other.websocket(Some(LABEL)), OFTEN)
            }
            (_, Running::Gateway(other)) => {
                let (program, config) = (env!("CARGO_BIN_EXE_portcullis"), other.folder().join("proxy.toml"));
                let config = config.display();
                setup.table(&format!(
                    "[[origin]]\nlabel = \"{LABEL}\"\n{OFTEN}\n\
                     command = [\"{program}\", \"--config\", \"{config}\", \"stdio\", \"--origin\", \"{LABEL}\"]"
                ))
            }
        }
    }
}

impl Running {
    async fn finish(self) {
        match self {
            Self::Folder | Self::Http(_) | Self::Program(_) | Self::WebSocket { .. } => {}
            Self::Gateway(gateway) => gateway.finish().await,
        }
    }
}

/// One of the skills, as a server has it.
fn skill(name: &str) -> Skill {
    let skill = Skill::at(&format!("skill://{name}/SKILL.md"));
    if name == "demo" {
        skill
            .text("notes.md", std::str::from_utf8(NOTES).unwrap())
            .blob("form.bin", FORM)
    } else {
        skill
    }
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
    for kind in KINDS {
        let folder = TempDir::new().unwrap();
        write_skills(&folder);
        let origin = kind.begin(&folder).await;
        let gateway = kind.configured(&origin, &folder).start().await;
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
                        wrong.push(format!("{kind:?} × {door:?} × {revision} × {name}: {}", answer.text));
                    }
                }
                guest.leave().await;
            }
        }
        gateway.finish().await;
        origin.finish().await;
    }
    assert!(
        wrong.is_empty(),
        "{} of {cells} cells:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(cells, KINDS.len() * DOORS.len() * REVISIONS.len() * ASKED.len());
}
