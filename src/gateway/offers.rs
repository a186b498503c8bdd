//! What origins offer beside skills: definitions of tools, prompts, resources and templates, as last heard.
//!
//! Lists are answered from here, so that no host waits for an origin, and asked for again in each refresh. Definitions of
//! tools are taken in like a skill's entry: a set that is seen, approved, and held on change.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use parking_lot::RwLock;
use serde_json::Value;

use super::Error;
use super::Gateway;
use super::Inner;
use super::Origin;
use super::catalog::Served;
use super::catalog::View;
use super::changes::Change;
use super::observed::Sighting;
use super::passing::Outward;
use super::unserved::Unserved;
use crate::config::PassTools;
use crate::config::Passed;
use crate::domain::Definitions;
use crate::domain::Json;
use crate::domain::Label;
use crate::domain::RejectedTool;
use crate::domain::SetId;
use crate::domain::SkillKey;
use crate::domain::Template;
use crate::domain::Tool;
use crate::store::Store;
use crate::upstream;
use crate::upstream::Attempt;
use crate::upstream::Offered;
use crate::upstream::Shortfall;

/// Everything that origins offer beside skills.
#[derive(Default)]
pub(super) struct Offers {
    /// Replaced by each refresh; held for the copy of a pointer.
    heard: RwLock<HashMap<Label, Arc<Offer>>>,
    /// The approved definitions of each origin, read from the store once; held for a look-up.
    approved: Mutex<HashMap<Label, Approved>>,
}

/// The tools of an approved set.
type Approved = (SetId, Arc<[Tool]>);

/// An origin of a view.
struct Offering<'a> {
    label: &'a Label,
    origin: &'a Origin,
    is_moved: bool,
    /// None while it was not heard.
    heard: Option<Arc<Offer>>,
}

/// What one origin was last heard to offer, of what passes.
#[derive(Default)]
pub struct Offer {
    /// What it says that it can do.
    pub can: Offered,
    /// Its tools as they are.
    tools: Arc<[Tool]>,
    /// Its tools that cannot be used.
    rejected: Vec<RejectedTool>,
    /// Its prompts, as it lists them.
    pub prompts: Vec<Value>,
    /// Its resources, as it lists them.
    pub resources: Vec<Value>,
    /// Its templates, as it lists them.
    pub templates: Vec<Value>,
    /// Why a listing was ended early, if one was.
    pub(super) shortfall: Option<String>,
}

impl Offer {
    /// Says whether a resource that passes has this URI: it is listed, or a template gives it (design §3).
    pub fn has_resource(&self, uri: &str) -> bool {
        let is_listed = |item: &Value| item.get("uri").and_then(Value::as_str) == Some(uri);
        let gives = |item: &Value| {
            let template = item
                .get("uriTemplate")
                .and_then(Value::as_str)
                .and_then(Template::parse);
            template.is_some_and(|template| template.gives(uri))
        };
        self.resources.iter().any(is_listed) || self.templates.iter().any(gives)
    }

    /// The prompt that a view calls `name`, as the origin calls it.
    pub fn prompt(&self, out: &Outward<'_>, name: &str) -> Option<&str> {
        let names = self.prompts.iter().filter_map(|prompt| prompt.get("name")?.as_str());
        names.into_iter().find(|own| out.name(own) == name)
    }
}

impl Gateway {
    /// The origins of a view of which `kind` passes, and what they were last heard to offer. Nothing of an origin passes that
    /// an operator removed, nor what nobody approves while its address is not accepted.
    pub fn offers(&self, view: &View, kind: Passed) -> Vec<(Label, Arc<Offer>)> {
        let passing = self.offering(view).into_iter();
        passing
            .filter(|offering| offering.origin.pass.passes(kind))
            // What is decided about is held with its reason.
            .filter(|offering| !offering.is_moved || offering.origin.decides_about(kind))
            .map(|Offering { label, heard, .. }| (label.clone(), heard.unwrap_or_default()))
            .collect()
    }

    /// Says whether anything of a kind passes in a view, or may come to: an origin that was not heard yet, or whose address
    /// is not accepted, may have it the next moment, and hosts are told of their lists once (case B3).
    pub fn may_offer(&self, view: &View, kind: Passed) -> bool {
        let passing = self.offering(view).into_iter();
        let mut passing = passing.filter(|offering| offering.origin.pass.passes(kind));
        passing.any(|Offering { label, heard, .. }| match (kind, heard) {
            (Passed::Skills | Passed::Resources, _) | (_, None) => true,
            (Passed::Tools, Some(offer)) => offer.can.tools || self.has_definitions(label),
            (Passed::Prompts, Some(offer)) => offer.can.prompts,
            (Passed::Completions, Some(offer)) => offer.can.completions,
        })
    }

    fn offering(&self, view: &View) -> Vec<Offering<'_>> {
        let catalog = self.catalog();
        let heard = self.0.offers.heard.read();
        let is_seen = |label: &Label| match view {
            View::Merged => true,
            View::Origin(one) => one == label,
        };
        let seen = self.0.origins.iter().filter(|(label, _)| is_seen(label));
        seen.filter_map(|(label, origin)| {
            Some(Offering {
                label,
                origin,
                is_moved: catalog.origin(label)?.is_moved(),
                heard: heard.get(label).cloned(),
            })
        })
        .collect()
    }

    /// The tools of an origin that hosts are given now, in the order of their files' names or as listed.
    ///
    /// # Errors
    ///
    /// Why none are: their definitions are held, or cannot be read.
    pub async fn tools(&self, label: &Label) -> Result<Arc<[Tool]>, Unserved> {
        let inner = &self.0;
        let origin = inner.origins.get(label).ok_or(Unserved::Unknown)?;
        match origin.pass.tools {
            PassTools::AsIs => Ok(inner.offers.of(label).tools.clone()),
            PassTools::Approved => {
                let catalog = self.catalog();
                let definitions = catalog.origin(label).and_then(|part| part.definitions().cloned());
                let definitions = definitions.ok_or(Unserved::Unknown)?;
                let served = definitions.served(inner.clock.now()).map_err(Unserved::Held)?;
                inner.approved_tools(served).await
            }
        }
    }

    /// Says whether the origin's definitions of tools are known, whether or not it can be asked now.
    fn has_definitions(&self, label: &Label) -> bool {
        self.catalog()
            .origin(label)
            .is_some_and(|part| part.definitions().is_some())
    }

    /// Why a tool that its origin has is not given to hosts, once one asks for it; none when the origin has no such tool.
    pub fn held_tool(&self, label: &Label, is_meant: impl Fn(&str) -> bool) -> Option<Unserved> {
        let offer = self.0.offers.of(label);
        let is_known = offer.tools.iter().any(|tool| is_meant(&tool.name));
        let catalog = self.catalog();
        let definitions = catalog.origin(label).and_then(|part| part.definitions().cloned())?;
        is_known.then(|| self.held(&definitions))
    }

    /// The instructions of the origins of a view that forward theirs, each under a line that says whose they are.
    pub fn instructions(&self, view: &View) -> Option<String> {
        let offering = self.offering(view).into_iter();
        let forwarded = offering.filter(|offering| offering.origin.pass.instructions && !offering.is_moved);
        let marked = forwarded.filter_map(|Offering { label, heard, .. }| {
            let offer = heard?;
            let words = offer.can.instructions.as_deref()?;
            Some(format!(
                "What the origin {label} says of itself, which nobody has approved:\n\n{words}"
            ))
        });
        let all: Vec<_> = marked.collect();
        (!all.is_empty()).then(|| all.join("\n\n"))
    }
}

impl Offers {
    pub(super) fn of(&self, label: &Label) -> Arc<Offer> {
        self.heard.read().get(label).cloned().unwrap_or_default()
    }

    /// The tools of an origin that cannot be used: name and reason.
    pub(super) fn rejected(&self, label: &Label) -> Vec<RejectedTool> {
        self.of(label).rejected.clone()
    }
}

impl Inner {
    /// Asks an origin for what passes of it beside skills. What cannot be had of one kind of thing stays as it was, and keeps
    /// nothing of the others back.
    pub(super) async fn refresh_offer(&self, label: &Label, origin: &Origin) -> Result<(), Error> {
        if !origin.pass.passes_more() {
            return Ok(());
        }
        let failed = |error| Error::Upstream {
            label: label.clone(),
            error,
        };
        let can = origin.upstream.offered(Attempt::Probe).await.map_err(failed)?;
        let before = self.offers.of(label);
        let (mut first, mut shortfall) = (None, None);
        let mut listing = Listing {
            origin,
            shortfall: &mut shortfall,
        };
        let prompts = ["prompts/list", "prompts"];
        let prompts = listing.values(Passed::Prompts, can.prompts, prompts).await;
        let resources = ["resources/list", "resources"];
        let resources = listing.values(Passed::Resources, can.resources, resources).await;
        let templates = ["resources/templates/list", "resourceTemplates"];
        let templates = listing.values(Passed::Resources, can.resources, templates).await;
        let tools = listing.items(Passed::Tools, can.tools, ["tools/list", "tools"]).await;
        let (tools, rejected) = match tools {
            Ok(None) => (Arc::default(), Vec::new()),
            Ok(Some(listed)) => self.take_in_tools(label, origin, listed).await?,
            Err(error) => {
                first.get_or_insert(error);
                (before.tools.clone(), before.rejected.clone())
            }
        };
        let mut or_before = |listed: Result<Vec<Value>, upstream::Error>, before: &[Value]| {
            listed.unwrap_or_else(|error| {
                first.get_or_insert(error);
                before.to_vec()
            })
        };
        let can_watch = can.subscribe && origin.pass.passes(Passed::Resources);
        let offer = Offer {
            prompts: or_before(prompts, &before.prompts),
            resources: or_before(resources, &before.resources),
            templates: or_before(templates, &before.templates),
            can,
            tools,
            rejected,
            shortfall,
        };
        if can_watch && let Err(error) = origin.upstream.watch_again().await {
            first.get_or_insert(error);
        }
        let offer = Arc::new(offer);
        self.offers.heard.write().insert(label.clone(), Arc::clone(&offer));
        self.tell_offered(label, &before, &offer);
        first.map_or(Ok(()), |error| Err(failed(error)))
    }

    /// Forgets what an origin was heard to offer, and tells those who saw it.
    pub(super) fn forget_offer(&self, label: &Label) {
        let before = self.offers.heard.write().remove(label).unwrap_or_default();
        self.offers.approved.lock().remove(label);
        self.tell_offered(label, &before, &Offer::default());
    }

    /// Tells of what hosts see differently of what an origin offers. Called after it is so, as one who is told looks at once.
    fn tell_offered(&self, label: &Label, before: &Offer, after: &Offer) {
        let Some(origin) = self.origins.get(label) else { return };
        let shown_tools = |offer: &Offer| match origin.pass.tools {
            PassTools::AsIs => offer.tools.clone(),
            PassTools::Approved => Arc::default(),
        };
        self.tell(Change {
            label: label.clone(),
            tools: shown_tools(before) != shown_tools(after),
            prompts: before.prompts != after.prompts,
            resources: before.resources != after.resources || before.templates != after.templates,
            skills: false,
            updated: None,
        });
    }

    /// Takes in a listing of tools; where they have to be approved, as a set that was seen. Its files are known with the
    /// listing itself, and stored before it is on the record.
    async fn take_in_tools(
        &self,
        label: &Label,
        origin: &Origin,
        listed: Vec<String>,
    ) -> Result<(Arc<[Tool]>, Vec<RejectedTool>), Error> {
        let limits = self.limits.clone();
        let read = tokio::task::spawn_blocking(move || Definitions::of(&listed, &limits)).await;
        let read = read.map_err(|error| Error::Task(error.to_string()))?;
        let (sighting, taken) = match read {
            Ok(definitions) => {
                if origin.pass.tools == PassTools::Approved {
                    self.store_definitions(label, &definitions).await?;
                }
                let entry = Arc::clone(definitions.entry());
                (
                    Sighting::Entry(entry),
                    (definitions.tools().into(), definitions.rejected),
                )
            }
            Err(rejected) => (Sighting::Rejected(rejected), (Arc::default(), Vec::new())),
        };
        if origin.pass.tools == PassTools::Approved {
            let _turn = self.turns.of_origin(label).await;
            let mut ledger = self.ledger.lock().await;
            self.observe(&mut ledger, label, vec![sighting]).await?;
        }
        Ok(taken)
    }

    async fn store_definitions(&self, label: &Label, definitions: &Definitions) -> Result<(), Error> {
        let key = Arc::new(SkillKey {
            label: label.clone(),
            uri: definitions.entry().uri().clone(),
        });
        let (resources, files) = (definitions.entry().resources().clone(), definitions.files().to_vec());
        let put = move |store: &Store| {
            if resources.iter().all(|resource| store.has_file(&key, resource)) {
                return Ok(());
            }
            store.put_files(&files.iter().map(|file| (key.as_ref(), file)).collect::<Vec<_>>())
        };
        self.on_disk(put).await
    }

    /// The tools of an approved set, from memory or from its stored files, hashed again.
    async fn approved_tools(&self, served: &Served) -> Result<Arc<[Tool]>, Unserved> {
        let (key, entry) = (served.key(), served.permit().entry());
        let known = self.offers.approved.lock().get(&key.label).cloned();
        if let Some((_, tools)) = known.filter(|(set, _)| *set == entry.set()) {
            return Ok(tools);
        }
        let mut tools = Vec::with_capacity(entry.resources().len());
        for resource in entry.resources().sorted() {
            let file = self.read_disk(key, entry, resource).await?.ok_or(Unserved::Missing)?;
            tools.extend(Tool::of_file(&file));
        }
        let tools: Arc<[Tool]> = tools.into();
        let known = (entry.set(), Arc::clone(&tools));
        self.offers.approved.lock().insert(key.label.clone(), known);
        Ok(tools)
    }
}

impl Origin {
    /// Says whether what passes of a kind is approved, and held, by itself.
    fn decides_about(&self, kind: Passed) -> bool {
        kind == Passed::Tools && self.pass.tools == PassTools::Approved
    }
}

/// An origin that is asked for its lists.
struct Listing<'a> {
    origin: &'a Origin,
    /// Why the last list that was ended early was.
    shortfall: &'a mut Option<String>,
}

impl Listing<'_> {
    /// A whole listing of what passes, as JSON; nothing of what does not pass or is not offered.
    async fn values(
        &mut self,
        kind: Passed,
        is_offered: bool,
        of: [&'static str; 2],
    ) -> Result<Vec<Value>, upstream::Error> {
        let items = self.items(kind, is_offered, of).await?.into_iter().flatten();
        Ok(items.filter_map(|text| serde_json::from_str(&text).ok()).collect())
    }

    /// A whole listing of what passes, each item as its own text; none of what does not pass or is not offered.
    async fn items(
        &mut self,
        kind: Passed,
        is_offered: bool,
        [method, member]: [&'static str; 2],
    ) -> Result<Option<Vec<String>>, upstream::Error> {
        if !(self.origin.pass.passes(kind) && is_offered) {
            return Ok(None);
        }
        let listing = self.origin.upstream.list_items(method, member, Attempt::Probe).await?;
        match listing.shortfall {
            // A listing that broke off is not another listing.
            Some(Shortfall::PageFailed { error, .. }) => return Err(error),
            Some(
                shortfall @ (Shortfall::RepeatedCursor(_)
                | Shortfall::TooManyPages(_)
                | Shortfall::TooManyEntries(_)
                | Shortfall::TooManyBytes(_)
                | Shortfall::Gaps(_)),
            ) => {
                tracing::warn!(method, %shortfall, "the listing was ended with what was good");
                *self.shortfall = Some(format!("{method}: {shortfall}"));
            }
            None => {}
        }
        Ok(Some(listing.entries))
    }
}

/// A definition as the SDK and hosts take JSON.
pub fn as_value(json: &Json) -> Value {
    serde_json::from_str(&json.canonical()).unwrap_or_default()
}
