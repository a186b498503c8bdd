//! A long random walk over the running gateway beside a naive model of it: what a host finds after each step.
//!
//! `PORTCULLIS_CRASH_SEED` repeats its choices.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use rand::Rng as _;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::Value;

use crate::support::gateway::Gateway;
use crate::support::gateway::Setup;
use crate::support::origin::Origin;
use crate::support::skill::Skill;

/// Steps of a walk.
const STEPS: usize = 120;

/// Versions of each skill.
const VERSIONS: u8 = 3;

/// How each skill comes to be approved: by anybody, by two people, by a rule.
const NAMES: [&str; 3] = ["one", "two", "auto"];

/// What a plain reading of the promises says of one skill.
#[derive(Debug, Default)]
struct Naive {
    version: u8,
    /// The set of each version, as it was first seen.
    sets: BTreeMap<u8, String>,
    approved: Option<u8>,
    /// A person said no to these.
    denied: BTreeSet<u8>,
    /// The approval of these ended by itself, and nobody approved them since.
    ended: BTreeSet<u8>,
    taken_back: bool,
    votes: BTreeSet<&'static str>,
}

struct Walk {
    origin: Origin,
    gateway: Gateway,
    skills: BTreeMap<&'static str, Naive>,
    recalled: BTreeSet<(&'static str, u8)>,
    me: &'static str,
    chance: StdRng,
}

fn uri(name: &str) -> String {
    format!("skill://{name}/SKILL.md")
}

fn content(name: &str, version: u8) -> String {
    format!("Version {version} of {name}.\n")
}

fn setup(origin: &Origin, me: &str) -> Setup {
    let person = |(name, other): (&str, u32)| {
        let uid = if name == me {
            rustix::process::getuid().as_raw()
        } else {
            other
        };
        format!("[[person]]\nname = \"{name}\"\nuid = {uid}\n")
    };
    let people = [("ada", 2_000_000_001), ("bob", 2_000_000_002)].map(person).concat();
    Setup::new()
        .origin("acme", origin)
        .table(&people)
        .table("[[rule]]\nname = \"two\"\nskill = \"two\"\nquorum = 2")
        .table("[[rule]]\nname = \"auto\"\nskill = \"auto\"\ntrust = \"auto\"")
}

impl Naive {
    fn is_approved(&mut self, version: u8) {
        self.approved = Some(version);
        self.denied.remove(&version);
        self.ended.remove(&version);
        self.votes.clear();
    }

    fn is_closed(&mut self) {
        self.votes.clear();
        if let Some(version) = self.approved.take() {
            self.denied.insert(version);
            self.taken_back = true;
        }
    }
}

impl Walk {
    async fn begin(chance: StdRng) -> Self {
        let skill = |name: &str| Skill::at(&uri(name)).text("notes.md", content(name, 0));
        let origin = Origin::with(NAMES.map(skill));
        let gateway = setup(&origin, "ada").start().await;
        let mut walk = Self {
            origin,
            gateway,
            skills: NAMES.iter().map(|name| (*name, Naive::default())).collect(),
            recalled: BTreeSet::new(),
            me: "ada",
            chance,
        };
        walk.look().await;
        walk
    }

    fn of(&mut self, name: &str) -> &mut Naive {
        self.skills.get_mut(name).unwrap()
    }

    /// Waits until each skill is seen in its version, and the rule has done what it does; then compares.
    async fn look(&mut self) {
        for name in NAMES {
            let known = self.skills[name].sets.clone();
            let version = self.skills[name].version;
            let is_it = |item: &Value| match (known.get(&version), item["set"].as_str()) {
                (Some(set), Some(seen)) => seen == set,
                (None, Some(seen)) => known.values().all(|set| seen != set),
                (_, None) => false,
            };
            let seen = self.gateway.skill_when(&format!("acme/{name}"), "seen", is_it).await;
            let set = seen["set"].as_str().unwrap().to_owned();
            self.of(name).sets.insert(version, set);
        }
        self.rule().await;
        let served: Vec<String> = self
            .skills
            .iter()
            .filter(|(name, skill)| {
                skill
                    .approved
                    .is_some_and(|version| !self.recalled.contains(&(**name, version)))
            })
            .map(|(name, _)| format!("skill://acme/{name}/SKILL.md"))
            .collect();
        assert_eq!(self.gateway.host().uris().await, served, "{:#?}", self.skills);
    }

    async fn rule(&mut self) {
        let version = self.skills["auto"].version;
        let is_recalled = self.recalled.contains(&("auto", version));
        let skill = self.of("auto");
        let barred = skill.taken_back || skill.denied.contains(&version) || skill.ended.contains(&version);
        if skill.approved.is_none() && !barred && !is_recalled {
            skill.is_approved(version);
            self.gateway.skill_is("acme/auto", "approved").await;
        }
    }

    async fn change(&mut self, name: &'static str) {
        let version = self.chance.random_range(0..VERSIONS);
        self.origin.change_file(&uri(name), "notes.md", &content(name, version));
        let skill = self.of(name);
        if skill.version != version {
            skill.version = version;
            skill.votes.clear();
            skill.approved = None;
        }
    }

    /// Approves a version, which may not be the one now seen, perhaps for a short time.
    async fn approve(&mut self, name: &'static str) {
        let version = if self.chance.random_bool(0.8) {
            self.skills[name].version
        } else {
            self.chance.random_range(0..VERSIONS)
        };
        let Some(set) = self.skills[name].sets.get(&version).cloned() else {
            return;
        };
        let is_short = name != "two" && self.chance.random_bool(0.2);
        let skill = format!("acme/{name}");
        let mut ask = vec!["approve", &skill, "--set", &set];
        ask.extend(is_short.then_some(["--expires", "1s"]).into_iter().flatten());
        let may = version == self.skills[name].version && !self.recalled.contains(&(name, version));
        self.gateway.cli(&ask).await.expect(i32::from(!may));
        if !may {
            return;
        }
        let me = self.me;
        let skill_of = self.of(name);
        if name == "two" && skill_of.approved != Some(version) {
            skill_of.votes.insert(me);
            if skill_of.votes.len() < 2 {
                return;
            }
        }
        skill_of.is_approved(version);
        skill_of.taken_back = false;
        if is_short {
            self.gateway.skill_is(&skill, "expired").await;
            let skill_of = self.of(name);
            skill_of.approved = None;
            skill_of.ended.insert(version);
            // It is on the record soon: from then on no restart and no clock brings it back.
            let is_over = |leaf: &Value| leaf["action"] == "expired" && leaf["uri"] == uri(name).as_str();
            while !self
                .gateway
                .log(&["approved", "expired"])
                .await
                .iter()
                .rfind(|leaf| leaf["uri"] == uri(name).as_str())
                .is_some_and(is_over)
            {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn deny(&mut self, name: &'static str) {
        self.gateway.cli(&["deny", &format!("acme/{name}")]).await.expect(0);
        let skill = self.of(name);
        skill.denied.insert(skill.version);
        skill.approved = None;
        skill.votes.clear();
    }

    async fn revoke(&mut self, name: &'static str) {
        let code = i32::from(self.skills[name].approved.is_none());
        self.gateway
            .cli(&["revoke", &format!("acme/{name}")])
            .await
            .expect(code);
        if code == 0 {
            self.of(name).is_closed();
        }
    }

    async fn recall(&mut self, name: &'static str) {
        let version = self.chance.random_range(0..VERSIONS);
        let digest = portcullis::domain::Digest::of(content(name, version).as_bytes()).to_string();
        if self.recalled.remove(&(name, version)) {
            self.gateway.cli(&["recall", "--lift", &digest]).await.expect(0);
            return;
        }
        self.gateway.cli(&["recall", &digest]).await.expect(0);
        self.recalled.insert((name, version));
        let skill = self.of(name);
        if skill.version == version {
            skill.is_closed();
            skill.denied.insert(version);
        }
    }

    async fn remove(&mut self) {
        self.gateway.cli(&["origin", "remove", "acme"]).await.expect(0);
        self.gateway.restart().await;
        for skill in self.skills.values_mut() {
            *skill = Naive {
                version: skill.version,
                sets: std::mem::take(&mut skill.sets),
                ..Naive::default()
            };
        }
    }

    /// Starts anew, perhaps with somebody else at the keyboard, perhaps without an end in good order.
    async fn start_anew(&mut self) {
        self.me = if self.chance.random_bool(0.5) { "ada" } else { "bob" };
        if self.chance.random_bool(0.5) {
            self.gateway.kill().await;
        } else {
            self.gateway.stop().await;
        }
        let (origin, me) = (&self.origin, self.me);
        self.gateway.reconfigure(|_| setup(origin, me));
        self.gateway.start().await;
    }

    async fn step(&mut self) {
        let name = NAMES[self.chance.random_range(0..NAMES.len())];
        match self.chance.random_range(0..100) {
            0..30 => self.change(name).await,
            30..65 => self.approve(name).await,
            65..72 => self.deny(name).await,
            72..79 => self.revoke(name).await,
            79..87 => self.recall(name).await,
            87..90 => self.remove().await,
            _ => self.start_anew().await,
        }
        self.look().await;
    }
}

#[tokio::test]
async fn a_host_finds_what_is_approved_at_that_moment_and_nothing_else() {
    let seed = std::env::var("PORTCULLIS_CRASH_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("PORTCULLIS_CRASH_SEED={seed}");
    let mut walk = Walk::begin(StdRng::seed_from_u64(seed)).await;
    for _ in 0..STEPS {
        walk.step().await;
    }
    walk.gateway.finish().await;
}
