//! What the record is told of a configuration: a digest for each table of what runs, secrets left out.

use std::collections::BTreeMap;

use serde::Serialize;

use super::shape::Config;
use crate::domain::Digest;
use crate::domain::Json;

impl Config {
    /// A digest of each table as it runs, over canonical JSON: defaults are in it, comments and spelling are not. Origins
    /// stand as `origin.<label>`.
    pub fn tables(&self) -> BTreeMap<String, Digest> {
        // Every part is named, so that none is forgotten.
        let Self {
            server,
            admin,
            store,
            policy,
            rules,
            people,
            audit,
            bridge,
            log,
            limits,
            origins,
        } = self;
        let mut tables = BTreeMap::from([
            ("server".to_owned(), digest(server)),
            ("admin".to_owned(), digest(admin)),
            ("store".to_owned(), digest(store)),
            ("policy".to_owned(), digest(&policy.with_defaults())),
            ("rule".to_owned(), digest(rules)),
            ("person".to_owned(), digest(people)),
            ("audit".to_owned(), digest(audit)),
            ("bridge".to_owned(), digest(bridge)),
            ("log".to_owned(), digest(log)),
            ("limits".to_owned(), digest(limits)),
        ]);
        let of_origin = origins
            .iter()
            .map(|origin| (format!("origin.{}", origin.label), digest(origin)));
        tables.extend(of_origin);
        tables
    }
}

fn digest(table: &impl Serialize) -> Digest {
    // Only a path that is no UTF-8 fails here: its table then looks the same whatever it says.
    let text = serde_json::to_string(table).unwrap_or_default();
    let canonical = Json::parse(&text).map_or_else(|_| text.clone(), |json| json.canonical());
    Digest::of(canonical.as_bytes())
}
