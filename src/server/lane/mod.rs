//! The skills lane: raw JSON-RPC requests of the skill family in, answers as bytes out (design §4).
//!
//! It stands before the SDK on every transport and owns its methods wholly, errors included. It decides nothing: what may
//! be served comes with its permit from the catalog, content from `gateway::read`.

mod cursor;
mod refusal;
mod reply;
mod request;

use std::sync::Arc;

use http::HeaderMap;

use crate::domain::Child;
use crate::domain::Label;
use crate::domain::ResourceUri;
use crate::domain::SKILL_FILE;
use crate::domain::SkillKey;
use crate::domain::SkillUri;
use crate::domain::Timestamp;
use crate::domain::children;
use crate::domain::mime_type;
use crate::domain::quoted;
use crate::gateway::Catalog;
use crate::gateway::Found;
use crate::gateway::Gateway;
use crate::gateway::Served;
use crate::gateway::Unserved;
use crate::gateway::View;

use cursor::CursorKey;
use refusal::Refusal;
pub(super) use reply::Reply;
use reply::Writer;
use request::Headers;
use request::Method;
use request::Parsed;
use request::Request;

/// Milliseconds for which hosts may keep an answer: short, so that a revocation reaches them (design §3).
pub(super) const TTL: u64 = 30_000;

/// The lane.
pub(super) struct Lane {
    gateway: Gateway,
    cursors: CursorKey,
}

/// What became of a request.
pub(super) enum Outcome {
    /// The lane answered.
    Reply(Reply),
    /// It is not of the skill family.
    Pass,
}

impl Lane {
    pub(super) fn new(gateway: Gateway) -> Self {
        Self {
            gateway,
            cursors: CursorKey::random(),
        }
    }

    /// Answers a request of the skill family.
    pub(super) async fn answer(&self, view: &View, headers: &HeaderMap, body: &[u8]) -> Outcome {
        let parsed = match Parsed::read(body) {
            Ok(parsed) => parsed,
            Err(refusal) => return Outcome::Reply(refusal.reply(None)),
        };
        let Some(method) = parsed.method() else {
            // What is spoken here is one answer, whoever gives it: the SDK would name the older revisions too.
            let unspoken = parsed
                .unspoken_version()
                .map(|version| Refusal::Version(version).reply(parsed.id()));
            return unspoken.map_or(Outcome::Pass, Outcome::Reply);
        };
        if parsed.is_notification() {
            return Outcome::Reply(Reply::accepted());
        }
        let request = match parsed.request(method, &Headers::new(headers)) {
            Ok(request) => request,
            Err(refusal) => return Outcome::Reply(refusal.reply(parsed.id())),
        };
        let catalog = self.gateway.catalog();
        let reply = match method {
            Method::SkillsList => self.list(&catalog, view, &request),
            Method::SkillsGet => self.get(&catalog, view, &request).await,
            Method::ResourcesRead => match self.read(&catalog, view, &request).await {
                Some(reply) => reply,
                None => return Outcome::Pass,
            },
            Method::DirectoryRead => self.directory(&catalog, view, &request),
        };
        Outcome::Reply(reply.unwrap_or_else(|refusal| refusal.in_era(request.era, method).reply(Some(request.id))))
    }

    /// `skills/list`: what is served, by label and URI, a page at a time (S-29 … S-32).
    fn list(&self, catalog: &Catalog, view: &View, request: &Request<'_>) -> Result<Reply, Refusal> {
        let after = match &request.cursor {
            Some(text) => Some(self.cursors.open(view, text).ok_or(Refusal::Cursor)?),
            None => None,
        };
        let limits = self.gateway.limits();
        let (mut page, mut bytes) = (Vec::new(), 0);
        let mut rest = catalog.served_after(view, after.as_ref(), self.now()).peekable();
        while let Some(served) = rest.next_if(|served| {
            let fits = bytes + served.entry_text(view).len() <= limits.page_bytes;
            page.is_empty() || (page.len() < limits.page_entries && fits)
        }) {
            bytes += served.entry_text(view).len() + 1;
            page.push(served);
        }
        let mut writer = Writer::new(request, bytes);
        writer.text("\"skills\":[");
        for (at, served) in page.iter().enumerate() {
            writer
                .text(if at > 0 { "," } else { "" })
                .piece(served.entry_text(view));
        }
        writer.text("]");
        if let Some(last) = page.last().filter(|_| rest.peek().is_some()) {
            writer
                .text(",\"nextCursor\":")
                .string(&self.cursors.seal(view, last.key()));
        }
        let stale = catalog
            .origins()
            .filter(|part| is_in(view, part.label()))
            .any(|part| part.is_stale());
        Ok(writer.end(stale, ""))
    }

    /// `skills/get`: every served skill, listed or not, under exactly the URI asked for (S-33 … S-37).
    async fn get(&self, catalog: &Catalog, view: &View, request: &Request<'_>) -> Result<Reply, Refusal> {
        let uri = request.uri()?;
        let (part, resource) = catalog
            .locate(view, uri)
            .ok_or_else(|| self.unknown(catalog, view, uri))?;
        let skill: SkillUri = resource
            .as_str()
            .parse()
            .map_err(|_| self.unknown(catalog, view, uri))?;
        let served = match part.skill(&skill) {
            Some(known) => known.served(self.now()).map_err(|_| self.gateway.held(known)),
            None => Err(match part.without_set(&skill) {
                Some(reason) => reason.clone(),
                None => self.ask(part.label(), skill).await,
            }),
        };
        let served = served.map_err(|reason| Refusal::unserved(uri, part.label(), reason))?;
        let entry = served.entry_text(view);
        let mut writer = Writer::new(request, entry.len());
        writer.text("\"skill\":").piece(entry);
        Ok(writer.end(part.is_stale(), served.provenance()))
    }

    /// The refusal of a name that is none here. Links inside files are never rewritten, so it tells what they may mean.
    fn unknown(&self, catalog: &Catalog, view: &View, uri: &str) -> Refusal {
        Refusal::unknown(uri, catalog.name_of_own(view, uri, self.now()))
    }

    fn now(&self) -> Timestamp {
        self.gateway.clock().now()
    }

    async fn ask(&self, label: &Label, uri: SkillUri) -> Unserved {
        self.gateway
            .ask_for_unknown(&SkillKey {
                label: label.clone(),
                uri,
            })
            .await
    }

    /// `resources/read` of a URI that the skill map owns (H-25 … H-36 stand behind it); none when it does not own it.
    async fn read(&self, catalog: &Catalog, view: &View, request: &Request<'_>) -> Option<Result<Reply, Refusal>> {
        let uri = request.uri.as_deref()?;
        let located = catalog.locate(view, uri);
        let found = located
            .as_ref()
            .map(|(part, resource)| (*part, resource, part.find(resource, self.now())));
        Some(match found {
            Some((part, _, Found::File(served, file))) => match self.gateway.read(served, file).await {
                Ok(content) => {
                    let mut writer = Writer::new(request, content.members().len());
                    writer
                        .text("\"contents\":[{\"uri\":")
                        .string(uri)
                        .text(",")
                        .piece(content.members())
                        .text("}]");
                    Ok(writer.end(part.is_stale(), served.provenance()))
                }
                Err(reason) => Err(Refusal::unserved(uri, part.label(), reason)),
            },
            Some((part, _, Found::Unlisted(served))) => Err(Refusal::unserved(
                uri,
                part.label(),
                self.gateway.unlisted(served).await,
            )),
            Some((part, _, Found::Held(skill))) => Err(Refusal::unserved(uri, part.label(), self.gateway.held(skill))),
            Some((part, _, Found::WithoutSet(reason))) => Err(Refusal::unserved(uri, part.label(), reason.clone())),
            Some(_) | None if !catalog.owns(view, uri) => return None,
            Some((part, resource, Found::Nothing)) => {
                let reason = match resource.as_str().parse() {
                    Ok(skill) => self.ask(part.label(), skill).await,
                    Err(_) => Unserved::Unknown,
                };
                Err(Refusal::unserved(uri, part.label(), reason))
            }
            None => Err(self.unknown(catalog, view, uri)),
        })
    }

    /// `resources/directory/read`, answered from the manifest (S-38 … S-41; no live view extends it, H-41).
    fn directory(&self, catalog: &Catalog, view: &View, request: &Request<'_>) -> Result<Reply, Refusal> {
        let uri = request.uri()?;
        if request.cursor.is_some() {
            return Err(Refusal::Cursor);
        }
        let (part, directory) = catalog.locate(view, uri).ok_or_else(|| Refusal::unknown(uri, None))?;
        let read = |served| directory_of(view, served, &directory);
        let found = part
            .served_around(&directory, self.now())
            .find_map(|served| Some((served, read(served)?)));
        let Some((served, children)) = found else {
            let reason = match part.find(&directory_probe(&directory), self.now()) {
                Found::Held(skill) => self.gateway.held(skill),
                Found::WithoutSet(reason) => reason.clone(),
                Found::File(..) | Found::Unlisted(_) | Found::Nothing => Unserved::Unknown,
            };
            return Err(Refusal::unserved(uri, part.label(), reason));
        };
        let mut writer = Writer::new(request, children.len());
        writer.text("\"resources\":[").text(&children).text("]");
        Ok(writer.end(part.is_stale(), served.provenance()))
    }
}

fn is_in(view: &View, label: &Label) -> bool {
    match view {
        View::Merged => true,
        View::Origin(one) => one == label,
    }
}

/// Something directly below a directory, to ask which skill it would belong to.
fn directory_probe(directory: &ResourceUri) -> ResourceUri {
    format!("{directory}/{SKILL_FILE}")
        .parse()
        .unwrap_or_else(|_| directory.clone())
}

/// The children in a directory of a served skill, as JSON items; none when it is no directory of it.
fn directory_of(view: &View, served: &Arc<Served>, directory: &ResourceUri) -> Option<String> {
    let entry = served.permit().entry();
    let name = |uri: &ResourceUri| quoted(&view.name(&served.key().label, uri));
    let children: Vec<_> = children(entry, directory.as_str())?
        .into_iter()
        .filter_map(|child| match child {
            Child::Directory(uri) => {
                let uri: ResourceUri = uri.parse().ok()?;
                let file = quoted(uri.file_name());
                Some(format!(
                    "{{\"uri\":{},\"name\":{file},\"mimeType\":\"inode/directory\"}}",
                    name(&uri)
                ))
            }
            Child::File(resource) => {
                let is_own = resource.uri == *entry.uri().as_resource();
                let file = if is_own { entry.name() } else { resource.uri.file_name() };
                let described = if is_own {
                    format!(",\"description\":{}", quoted(entry.description()))
                } else {
                    String::new()
                };
                let kind = mime_type(resource.uri.file_name());
                let kind = kind.map(|kind| format!(",\"mimeType\":\"{kind}\"")).unwrap_or_default();
                Some(format!(
                    "{{\"uri\":{},\"name\":{}{described}{kind},\"size\":{}}}",
                    name(&resource.uri),
                    quoted(file),
                    resource.size
                ))
            }
        })
        .collect();
    Some(children.join(","))
}
