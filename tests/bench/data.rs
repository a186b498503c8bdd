//! Data folders as a gateway leaves them after years, made through the store itself.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use portcullis::config::Config;
use portcullis::domain::Digest;
use portcullis::domain::Form;
use portcullis::domain::FrontmatterPolicy;
use portcullis::domain::Label;
use portcullis::domain::Limits;
use portcullis::domain::Media;
use portcullis::domain::OnChange;
use portcullis::domain::Proposal;
use portcullis::domain::Record;
use portcullis::domain::SkillEntry;
use portcullis::domain::SkillKey;
use portcullis::domain::Timestamp;
use portcullis::domain::audit::Actor;
use portcullis::domain::audit::Event;
use portcullis::domain::policy::Source;
use portcullis::store::ListingNote;
use portcullis::store::NewLeaf;
use portcullis::store::Options;
use portcullis::store::Store;
use serde_json::json;

/// When everything happened.
const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

/// Skills whose sets are made durable together.
const BATCH: usize = 1_000;

/// How much there is.
pub(crate) struct Amount {
    pub(crate) origins: usize,
    /// In each origin.
    pub(crate) skills: usize,
    /// In each skill, `SKILL.md` included.
    pub(crate) files: usize,
}

impl Amount {
    /// The origins, which are never asked.
    pub(crate) fn settings(&self) -> String {
        let origin = |n| format!("[[origin]]\nlabel = \"o{n}\"\nurl = \"http://127.0.0.1:9/{n}\"\n");
        (0..self.origins).map(origin).collect()
    }

    /// Stores and approves all of it below a gateway's folder that was configured with [`Amount::settings`].
    pub(crate) fn store(&self, folder: &Path) {
        let file = folder.join("proxy.toml");
        let config = Config::load(&file).unwrap();
        let limits = config.limits.clone();
        let options = Options {
            data_dir: config.store.data_dir.clone(),
            allow_unsafe_location: true,
            limits: limits.clone(),
        };
        let store = Store::open(&options, NOW).unwrap();
        let mut record = Record::default();
        for origin in &config.origins {
            let label = &origin.label;
            let added = record.configure(label, &origin.fingerprint_text()).unwrap();
            append(&store, &mut record, vec![added]);
            store.put_listing(label, &listing());
            let skills: Vec<_> = (0..self.skills)
                .map(|skill| self.skill(label, skill, &limits))
                .collect();
            for batch in skills.chunks(BATCH) {
                store.put_sets(batch, &origin.fingerprint_text(), NOW).unwrap();
                let events = batch.iter().flat_map(|(key, entry)| {
                    record
                        .origin(label)
                        .unwrap()
                        .observe(key, entry.set(), OnChange::Suspend)
                });
                let events = events.collect();
                append(&store, &mut record, events);
                let approve = |(key, entry): &(SkillKey, Arc<SkillEntry>)| {
                    let proposal = Proposal {
                        set: entry.set(),
                        files: Some(entry.resources()),
                        expires: None,
                        reviewed: None,
                    };
                    let origin = record.origin(label).unwrap();
                    origin.approve_by_rule(key, &proposal, &Source::Policy, record.recalls())
                };
                let approvals = batch.iter().filter_map(approve).collect();
                append(&store, &mut record, approvals);
            }
            for (number, (key, entry)) in skills.iter().enumerate() {
                let verify = |(path, text): (String, String)| {
                    let uri = format!("{}/{path}", key.uri.root());
                    let media = Media {
                        form: Form::Text,
                        mime_type: Some("text/markdown".to_owned()),
                    };
                    entry
                        .verify(&uri, Bytes::from(text), media, FrontmatterPolicy::Readings)
                        .unwrap()
                };
                let files: Vec<_> = self.files(number).map(verify).collect();
                let files: Vec<_> = files.iter().map(|file| (key, file)).collect();
                store.put_files(&files).unwrap();
            }
        }
    }

    fn skill(&self, label: &Label, number: usize, limits: &Limits) -> (SkillKey, Arc<SkillEntry>) {
        let root = format!("skill://s{number}");
        let resource = |(path, text): (String, String)| json!({ "uri": format!("{root}/{path}"), "digest": Digest::of(text.as_bytes()).to_string(), "size": text.len() });
        let entry = json!({
            "uri": format!("{root}/SKILL.md"),
            "frontmatter": { "name": format!("s{number}"), "description": description(number) },
            "resources": self.files(number).map(resource).collect::<Vec<_>>(),
        });
        let entry = SkillEntry::parse(&entry.to_string(), limits).unwrap();
        let key = SkillKey {
            label: label.clone(),
            uri: entry.uri().clone(),
        };
        (key, Arc::new(entry))
    }

    /// Paths and texts of a skill's files.
    fn files(&self, number: usize) -> impl Iterator<Item = (String, String)> {
        let front = format!("---\nname: s{number}\ndescription: {}\n---\n", description(number));
        let more = (1..self.files).map(move |file| (format!("references/f{file}.md"), format!("{file} of {number}\n")));
        std::iter::once(("SKILL.md".to_owned(), front)).chain(more)
    }
}

/// What the index keeps of an origin that was heard and had nothing wrong.
fn listing() -> ListingNote {
    ListingNote {
        heard: NOW,
        era: None,
        rejected: Vec::new(),
        unsized_entries: Vec::new(),
    }
}

fn description(number: usize) -> String {
    format!("What number {number} does, and when it is to be taken. It has as many words as people write here, or so.")
}

fn append(store: &Store, record: &mut Record, events: Vec<Event>) {
    let leaf = |event| NewLeaf {
        actor: Actor::Gateway,
        event,
        note: None,
    };
    for (index, leaf) in store.append(events.into_iter().map(leaf).collect(), NOW).unwrap() {
        record.apply(index, &leaf);
    }
}
