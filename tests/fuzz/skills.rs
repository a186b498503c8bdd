//! A gateway that serves one skill and holds another, for what hosts may say to it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use portcullis::clock::Clock;
use portcullis::config::Config;
use portcullis::gateway::Approving;
use portcullis::gateway::By;
use portcullis::gateway::Gateway;
use portcullis::gateway::Mode;
use portcullis::gateway::Who;
use portcullis::server::Doors;
use portcullis::shutdown::Shutdown;
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::runtime::Runtime;

/// Words of the skill that nobody approved.
pub const HELD: &str = "words-that-nobody-approved";

/// Configured, with one skill approved and one held.
const CONFIG: &str = "[log]\nlevel = \"error\"\n[store]\ndata_dir = \"data\"\nallow_unsafe_location = true\n[audit]\ndeliveries = false\n\
                      [[origin]]\nlabel = \"acme\"\ndir = \"skills\"\n";

/// A way in, and what it needs to be there.
pub struct Serving<T> {
    /// Where it runs.
    pub runtime: Runtime,
    /// The way in.
    pub way: T,
    _folder: TempDir,
}

impl<T> Serving<T> {
    /// Writes both skills, and serves them in this way.
    pub fn by(way: impl FnOnce(Doors, Config) -> T) -> Self {
        let folder = TempDir::new().expect("a folder");
        for (name, words) in [("read-me", "words-that-are-served"), ("held-back", HELD)] {
            let skill = folder.path().join("skills").join(name);
            fs::create_dir_all(skill.join("references")).expect("a folder");
            let text = format!("---\nname: {name}\ndescription: To be asked for.\n---\n\n{words}\n");
            fs::write(skill.join("SKILL.md"), text).expect("a file");
            fs::write(skill.join("references/more.md"), words).expect("a file");
        }
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (doors, config) = runtime.block_on(open(folder.path()));
        Self {
            runtime,
            way: way(doors, config),
            _folder: folder,
        }
    }
}

/// The doors of a gateway that serves one of the two skills.
async fn open(folder: &Path) -> (Doors, Config) {
    let config = Config::parse(CONFIG.as_bytes(), &folder.join("proxy.toml"), &|_| None).expect("a configuration");
    let gateway = Gateway::open(&config, Mode::default(), Clock::system(), Shutdown::new())
        .await
        .expect("it opens");
    gateway.start_refreshers();
    let by = By {
        who: Who::Gateway,
        note: None,
    };
    while gateway.summary().waiting < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let skills = gateway.skills().await;
    let skill = skills
        .iter()
        .find(|skill| skill.uri.contains("read-me"))
        .expect("it is seen");
    let key = portcullis::gateway::parse_skill("acme/read-me").expect("a skill");
    let wanted = Approving {
        set: skill.set.expect("it has a set"),
        expires: None,
        reviewed: None,
    };
    gateway.approve(&by, &key, wanted).await.expect("it is approved");
    let doors = Doors::new(&gateway, &config);
    (doors, config)
}
