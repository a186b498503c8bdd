//! The methods of the skills extension, asked of an MCP server.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;

use super::Error;
use super::Unverified;
use super::answer;
use super::listing::Page;
use super::session::Question;
use super::session::Server;
use super::session::Session;
use crate::domain::Limits;
use crate::domain::SkillUri;

/// JSON-RPC's code for a method that a server does not know.
const METHOD_NOT_FOUND: i64 = -32601;

/// JSON-RPC codes by which an origin says that it has no such thing: today's, and that of older revisions.
const NOT_FOUND_CODES: [i64; 2] = [-32602, -32002];

impl Server {
    /// One page of its skills.
    pub(super) async fn list_page(
        &self,
        cursor: Option<String>,
        limits: &Limits,
        timeout: Duration,
    ) -> Result<Page, Error> {
        let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        let cap = limits.answer_bytes as u64;
        let asked = self.ask_about_skills("skills/list", params, cap, timeout);
        answer::page(&asked.await?)
    }

    /// One skill's entry.
    pub(super) async fn get(&self, skill: &SkillUri, limits: &Limits, timeout: Duration) -> Result<String, Error> {
        let params = json!({ "uri": skill.as_str() });
        let cap = limits.answer_bytes as u64;
        let asked = self.ask_about_skills("skills/get", params, cap, timeout);
        answer::entry(&asked.await?)
    }

    /// One file, no longer than `size` where that is known; its answer has at most `cap` bytes.
    pub(super) async fn read(
        &self,
        uri: &str,
        size: Option<u64>,
        cap: u64,
        timeout: Duration,
    ) -> Result<Unverified, Error> {
        let params = json!({ "uri": uri });
        let result = self.ask_about_skills("resources/read", params, cap, timeout).await?;
        let uri = uri.to_owned();
        // A large file's answer takes a while to read.
        let read = tokio::task::spawn_blocking(move || answer::file(&result, &uri, size));
        read.await.map_err(|error| Error::Malformed(error.to_string()))?
    }

    /// Asks a server that declares the extension; no other one is asked (H-2).
    async fn ask_about_skills(
        &self,
        method: &'static str,
        params: Value,
        cap: u64,
        timeout: Duration,
    ) -> Result<String, Error> {
        let session = self.session_with_skills().await?;
        let question = Question {
            method,
            params,
            cap,
            timeout,
        };
        match self.ask_in(&session, question).await {
            Err(Error::Rpc {
                code: METHOD_NOT_FOUND, ..
            }) => Err(Error::NoMethod(method)),
            Err(Error::Rpc { code, .. }) if NOT_FOUND_CODES.contains(&code) => Err(Error::NotFound),
            answer => answer,
        }
    }

    /// A session whose server declares the extension. One that did not when the session was opened may have learned to.
    async fn session_with_skills(&self) -> Result<Arc<Session>, Error> {
        let session = self.session().await?;
        if session.has_skills() {
            return Ok(session);
        }
        if session.is_outdated() {
            self.forget(&session).await;
            let session = self.session().await?;
            if session.has_skills() {
                return Ok(session);
            }
        }
        Err(Error::NoSkills)
    }
}
