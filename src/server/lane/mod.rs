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

use crate::domain;
use crate::domain::Child;
use crate::domain::Label;
use crate::domain::Resource;
use crate::domain::ResourceUri;
use crate::domain::SKILL_FILE;
use crate::domain::SkillKey;
use crate::domain::SkillUri;
use crate::domain::Timestamp;
use crate::domain::children;
use crate::domain::clip_uri;
use crate::domain::mime_type;
use crate::domain::quoted;
use crate::gateway::About;
use crate::gateway::Asked;
use crate::gateway::Caller;
use crate::gateway::Catalog;
use crate::gateway::Found;
use crate::gateway::Gateway;
use crate::gateway::OriginCatalog;
use crate::gateway::Served;
use crate::gateway::Unrecorded;
use crate::gateway::Unserved;
use crate::gateway::View;

use cursor::CursorKey;
pub(super) use refusal::Refusal;
pub(super) use refusal::reason_word;
pub(super) use reply::Reply;
use reply::Writer;
use request::Headers;
pub(super) use request::Id;
pub(super) use request::Kind;
pub(super) use request::Message;
use request::Method;
pub(super) use request::PROTOCOL_VERSION;
use request::Request;
pub(super) use request::SUPPORTED;
pub(super) use request::is_batch;

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

/// An answer, and what the record has to say that it is about.
struct Answered {
    reply: Result<Reply, Refusal>,
    about: About,
}

impl Lane {
    pub(super) fn new(gateway: Gateway) -> Self {
        Self {
            gateway,
            cursors: CursorKey::random(),
        }
    }

    /// Answers a request of the skill family, once the answer is on the record. Headers there are on HTTP alone.
    pub(super) async fn answer(
        &self,
        view: &View,
        caller: &Caller,
        headers: Option<&HeaderMap>,
        parsed: &Message<'_>,
    ) -> Outcome {
        let Some(method) = parsed.method() else {
            // What is spoken here is one answer, whoever gives it: the SDK would name the older revisions too.
            let unspoken = parsed.unspoken_version(headers.map(Headers::new).as_ref());
            return unspoken.map_or(Outcome::Pass, |refusal| Outcome::Reply(refusal.reply(parsed.id())));
        };
        if parsed.kind() == Kind::Notification {
            return Outcome::Reply(Reply::accepted());
        }
        let asked = |uri: Option<&str>| Asked {
            caller: caller.clone(),
            view: view.clone(),
            method: method.recorded(),
            uri: uri.map(|uri| clip_uri(uri).into()),
            about: About::default(),
            outcome: domain::Outcome::Delivered,
        };
        let request = match parsed.request(method, headers.map(Headers::new).as_ref()) {
            Ok(request) => request,
            Err(refusal) => {
                let reply = self.recorded(asked(None), Answered::refused(refusal)).await;
                return Outcome::Reply(reply.unwrap_or_else(|refusal| refusal.reply(parsed.id())));
            }
        };
        let catalog = self.gateway.catalog();
        let answered = match method {
            Method::SkillsList => self.list(&catalog, view, &request),
            Method::SkillsGet => self.get(&catalog, view, &request).await,
            Method::ResourcesRead => match self.read(&catalog, view, &request).await {
                Some(answered) => answered,
                None => return Outcome::Pass,
            },
            Method::DirectoryRead => self.directory(&catalog, view, &request),
        };
        let reply = self.recorded(asked(request.uri.as_deref()), answered).await;
        Outcome::Reply(reply.unwrap_or_else(|refusal| refusal.in_era(request.era, method).reply(Some(request.id))))
    }

    /// Puts an answer on the record; one that cannot be recorded is not given.
    async fn recorded(&self, asked: Asked, answered: Answered) -> Result<Reply, Refusal> {
        let Answered { reply, about } = answered;
        let outcome = match &reply {
            Ok(_) => domain::Outcome::Delivered,
            Err(refusal) => domain::Outcome::Refused(refusal.word().into()),
        };
        let recorded = self
            .gateway
            .record(Asked {
                about,
                outcome,
                ..asked
            })
            .await;
        recorded.map_err(|Unrecorded| Refusal::Unrecorded).and(reply)
    }

    /// `skills/list`: what is served, by label and URI, a page at a time (S-29 … S-32).
    fn list(&self, catalog: &Catalog, view: &View, request: &Request<'_>) -> Answered {
        let after = request.cursor.as_deref().map(|text| self.cursors.open(view, text));
        let Some(after) = after.map_or(Some(None), |place| place.map(Some)) else {
            return Answered::refused(Refusal::Cursor);
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
        let about = About {
            page: Some(page.into_iter().cloned().collect()),
            ..About::default()
        };
        Answered::served(writer.end(stale, ""), about)
    }

    /// `skills/get`: every served skill, listed or not, under exactly the URI asked for (S-33 … S-37).
    async fn get(&self, catalog: &Catalog, view: &View, request: &Request<'_>) -> Answered {
        let uri = match request.uri() {
            Ok(uri) => uri,
            Err(refusal) => return Answered::refused(refusal),
        };
        let located = catalog.locate(view, uri);
        let skill = located.and_then(|(part, resource)| Some((part, resource.as_str().parse::<SkillUri>().ok()?)));
        let Some((part, skill)) = skill else {
            return Answered::refused(self.unknown(catalog, view, uri));
        };
        let refused = |reason| Answered::refused(Refusal::unserved(uri, part.label(), reason));
        let Some(known) = part.skill(&skill) else {
            return refused(match part.without_set(&skill) {
                Some(reason) => reason.clone(),
                None => self.ask(part.label(), skill).await,
            });
        };
        let Ok(served) = known.served(self.now()) else {
            return refused(self.gateway.held(known)).about(About::held(&known.key));
        };
        let entry = served.entry_text(view);
        let mut writer = Writer::new(request, entry.len());
        writer.text("\"skill\":").piece(entry);
        Answered::served(writer.end(part.is_stale(), served.provenance()), About::of(served))
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
    async fn read(&self, catalog: &Catalog, view: &View, request: &Request<'_>) -> Option<Answered> {
        let uri = request.uri.as_deref()?;
        let located = catalog.locate(view, uri);
        let found = located
            .as_ref()
            .map(|(part, resource)| (*part, resource, part.find(resource, self.now())));
        let refused = |part: &OriginCatalog, reason| Answered::refused(Refusal::unserved(uri, part.label(), reason));
        Some(match found {
            Some((part, _, Found::File(served, file))) => self.read_file(part, served, file, request).await,
            Some((part, _, Found::Unlisted(served))) => {
                refused(part, self.gateway.unlisted(served).await).about(About::held(served.key()))
            }
            Some((part, _, Found::Held(skill))) => {
                refused(part, self.gateway.held(skill)).about(About::held(&skill.key))
            }
            Some((part, _, Found::WithoutSet(reason))) => refused(part, reason.clone()),
            Some(_) | None if !catalog.owns(view, uri) => return None,
            Some((part, resource, Found::Nothing)) => {
                let reason = match resource.as_str().parse() {
                    Ok(skill) => self.ask(part.label(), skill).await,
                    Err(_) => Unserved::Unknown,
                };
                refused(part, reason)
            }
            None => Answered::refused(self.unknown(catalog, view, uri)),
        })
    }

    /// One file of a served skill.
    async fn read_file(
        &self,
        part: &OriginCatalog,
        served: &Arc<Served>,
        file: &Resource,
        request: &Request<'_>,
    ) -> Answered {
        let uri = request.uri.as_deref().unwrap_or_default();
        let about = About {
            digest: Some(file.digest),
            ..About::of(served)
        };
        match self.gateway.read(served, file).await {
            Ok((content, source)) => {
                let mut writer = Writer::new(request, content.members().len());
                writer
                    .text("\"contents\":[{\"uri\":")
                    .string(uri)
                    .text(",")
                    .piece(content.members())
                    .text("}]");
                let reply = writer.end(part.is_stale(), served.provenance());
                let source = Some(source);
                Answered::served(reply, About { source, ..about })
            }
            Err(reason) => Answered::refused(Refusal::unserved(uri, part.label(), reason)).about(about),
        }
    }

    /// `resources/directory/read`, answered from the manifest (S-38 … S-41; no live view extends it, H-41).
    fn directory(&self, catalog: &Catalog, view: &View, request: &Request<'_>) -> Answered {
        let uri = match request.uri() {
            Ok(uri) => uri,
            Err(refusal) => return Answered::refused(refusal),
        };
        if request.cursor.is_some() {
            return Answered::refused(Refusal::Cursor);
        }
        let Some((part, directory)) = catalog.locate(view, uri) else {
            return Answered::refused(Refusal::unknown(uri, None));
        };
        let read = |served| directory_of(view, served, &directory);
        let found = part
            .served_around(&directory, self.now())
            .find_map(|served| Some((served, read(served)?)));
        let Some((served, children)) = found else {
            let refused = |reason| Answered::refused(Refusal::unserved(uri, part.label(), reason));
            return match part.find(&directory_probe(&directory), self.now()) {
                Found::Held(skill) => refused(self.gateway.held(skill)).about(About::held(&skill.key)),
                Found::WithoutSet(reason) => refused(reason.clone()),
                Found::File(..) | Found::Unlisted(_) | Found::Nothing => refused(Unserved::Unknown),
            };
        };
        let mut writer = Writer::new(request, children.len());
        writer.text("\"resources\":[").text(&children).text("]");
        Answered::served(writer.end(part.is_stale(), served.provenance()), About::of(served))
    }
}

impl Answered {
    fn served(reply: Reply, about: About) -> Self {
        Self {
            reply: Ok(reply),
            about,
        }
    }

    fn refused(refusal: Refusal) -> Self {
        let about = About {
            label: refusal.origin().cloned(),
            ..About::default()
        };
        Self {
            reply: Err(refusal),
            about,
        }
    }

    /// The same about something that is known better.
    fn about(self, about: About) -> Self {
        Self { about, ..self }
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
