//! Skills for hosts that do not speak the extension: under names for tools and prompts, and in words for models (design §9).
//!
//! Everything comes from the catalog, so that such a host gets the very digests that the extension's own methods give out,
//! under the same permits. Nothing here acts on what a skill says of itself.

mod words;

use std::collections::HashMap;
use std::sync::Arc;

use super::Gateway;
use super::catalog::Catalog;
use super::catalog::CatalogSkill;
use super::catalog::OriginCatalog;
use super::catalog::Served;
use super::catalog::View;
use super::memory::Content;
use super::unserved::Unserved;
use crate::domain::Json;
use crate::domain::Resource;
use crate::domain::ResourceUri;
use crate::domain::SkillKey;
use crate::domain::Source;
use crate::domain::mapping;

pub use words::CatalogFormat;
pub use words::CatalogText;
pub use words::file_text;
pub use words::loaded_before;
pub use words::skill_text;

/// A served skill by the names that hosts without the extension know.
#[derive(Clone)]
pub struct Bridged {
    /// `label/name` where the origin has one skill of that name, `label/path` else: never a name that two skills share.
    pub name: String,
    /// The name of its prompt: at most 64 letters, digits, `_` and `-` (case O2).
    pub prompt: String,
    /// What is served.
    pub served: Arc<Served>,
    /// Whether the origin could not be asked the last time.
    pub is_stale: bool,
}

/// What a name stands for.
pub enum Named {
    /// A skill that is served.
    Served(Bridged),
    /// One that is known and held.
    Held(Arc<CatalogSkill>),
    /// None.
    Unknown,
}

impl Gateway {
    /// The served skills of a view, by label and URI.
    pub fn bridged(&self, view: &View) -> Vec<Bridged> {
        let catalog = self.catalog();
        let now = self.clock().now();
        let known = parts(&catalog, view).flat_map(|part| names(part).map(move |names| (part, names)));
        let served = known.filter_map(|(part, (skill, names))| {
            Some(Bridged {
                name: names.short,
                prompt: names.prompt,
                served: Arc::clone(skill.served(now).ok()?),
                is_stale: part.is_stale(),
            })
        });
        served.collect()
    }

    /// What lists the skills of a view: for models those that they may begin by themselves, else all. None where there is
    /// none to list.
    pub fn catalog_text(&self, view: &View, format: CatalogFormat) -> Option<String> {
        let mut skills = self.bridged(view);
        match format {
            CatalogFormat::Xml => skills.retain(Bridged::is_for_models),
            CatalogFormat::Json | CatalogFormat::Md => {}
        }
        CatalogText::of(&skills, format, None).text
    }

    /// What `name` stands for in a view: the name of a skill, the whole `label/path`, or the name of its prompt.
    pub fn named(&self, view: &View, name: &str) -> Named {
        let catalog = self.catalog();
        let now = self.clock().now();
        let mut known = parts(&catalog, view).flat_map(|part| names(part).map(move |names| (part, names)));
        let meant = known.find(|(_, (_, names))| names.have(name));
        match meant {
            Some((part, (skill, names))) => match skill.served(now) {
                Ok(served) => Named::Served(Bridged {
                    name: names.short,
                    prompt: names.prompt,
                    served: Arc::clone(served),
                    is_stale: part.is_stale(),
                }),
                Err(_) => Named::Held(Arc::clone(skill)),
            },
            None => Named::Unknown,
        }
    }

    /// What is in a file of a served skill.
    ///
    /// # Errors
    ///
    /// [`Unserved`], the reason to tell.
    pub async fn content(&self, served: &Arc<Served>, file: &Resource) -> Result<(Content, Source), Unserved> {
        let (file, source) = self.read(served, file).await?;
        Ok((file.content().ok_or(Unserved::Disk)?, source))
    }
}

impl Bridged {
    /// Says whether a model may begin it by itself: its author may have left that to people.
    pub fn is_for_models(&self) -> bool {
        let switch = self
            .served
            .permit()
            .entry()
            .frontmatter()
            .get("disable-model-invocation");
        switch != Some(&Json::Bool(true))
    }

    /// Its `SKILL.md`.
    pub fn own(&self) -> Option<&Resource> {
        let entry = self.served.permit().entry();
        entry.resources().get(entry.uri().as_str())
    }

    /// The file at `path` below its root, as its manifest spells it; `./` before it is read through. None of what the
    /// manifest does not list.
    pub fn file(&self, path: &str) -> Option<&Resource> {
        let entry = self.served.permit().entry();
        let path = path.strip_prefix("./").unwrap_or(path);
        entry.resources().get(&format!("{}/{path}", entry.uri().root()))
    }

    /// The paths of its files beside its `SKILL.md`, as its manifest spells them, in its order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let entry = self.served.permit().entry();
        let (own, root) = (entry.uri().as_str(), entry.uri().root());
        let others = entry.resources().iter().filter(move |file| file.uri.as_str() != own);
        others.filter_map(move |file| file.uri.as_str().strip_prefix(root)?.strip_prefix('/'))
    }

    /// The view's name of the directory that its paths are relative to.
    pub fn base(&self, view: &View) -> String {
        let SkillKey { label, uri } = &**self.served.key();
        let root = uri.root().parse::<ResourceUri>();
        root.map_or_else(|_| uri.root().to_owned(), |root| view.name(label, &root))
    }
}

/// The names of one skill.
struct Names {
    short: String,
    full: String,
    prompt: String,
}

impl Names {
    fn have(&self, name: &str) -> bool {
        self.short == name || self.full == name || self.prompt == name
    }
}

fn parts<'a>(catalog: &'a Catalog, view: &'a View) -> impl Iterator<Item = &'a Arc<OriginCatalog>> {
    catalog.origins().filter(move |part| match view {
        View::Merged => true,
        View::Origin(label) => part.label() == label,
    })
}

/// An origin's skills with their names. They go by all that are known, so that none changes with what is served.
fn names(part: &OriginCatalog) -> impl Iterator<Item = (&Arc<CatalogSkill>, Names)> {
    let mut of_name: HashMap<&str, usize> = HashMap::new();
    for skill in part.skills() {
        *of_name.entry(skill.key.uri.name()).or_default() += 1;
    }
    part.skills().map(move |skill| {
        let (label, name) = (part.label(), skill.key.uri.name());
        let full = full_name(&skill.key);
        let is_one = of_name.get(name) == Some(&1);
        let path = full.split_once('/').map_or("", |(_, path)| path);
        let names = Names {
            short: if is_one {
                format!("{label}/{name}")
            } else {
                full.clone()
            },
            prompt: mapping::merge_name(label, if is_one { name } else { path }),
            full,
        };
        (skill, names)
    })
}

/// `label/path`, as operators call it too: its root in the merged view without the scheme.
fn full_name(key: &SkillKey) -> String {
    let merged = mapping::merge(&key.label, key.uri.as_resource());
    let path = merged.strip_prefix("skill://").unwrap_or(&merged);
    path.rsplit_once('/').map_or(path, |(root, _)| root).to_owned()
}
