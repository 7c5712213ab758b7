//! Facts reported by the running server: the family, and the model's window as loaded, not as trained. The facts are
//! read again after some seconds, because a server can load another model at any time.

mod pages;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::Url;
use serde_json::Value;

use crate::http::{self, BaseUrl, ProviderHttpClient};
use crate::{Limits, ModelEndpoint, ProviderError};
use longhaul_wire::chat::family::{DiscoveryEndpoint, ServerFamily};

/// The wait for a server's own description.
const PATIENCE: Duration = Duration::from_secs(3);

/// The wait for a known server's description. A busy server may be reading a prompt.
const REREAD_PATIENCE: Duration = Duration::from_secs(1);

/// The validity period of the facts.
pub(crate) const REREAD_AFTER: Duration = Duration::from_secs(5);

/// The validity period of facts of a provider's own host: models are not reloaded there, and the list may be long.
const HOSTED_REREAD_AFTER: Duration = Duration::from_secs(3600);

/// A model of a server, with the known facts.
#[derive(Clone)]
pub(crate) struct ServerDiscovery {
    http: ProviderHttpClient,
    endpoint: ModelEndpoint,
    base: BaseUrl,
    /// The family by configuration or host. The server is not asked then.
    given: Option<ServerFamily>,
    reread_after: Duration,
    known: Arc<Mutex<ServerFactsCache>>,
}

#[derive(Default)]
struct ServerFactsCache {
    asked: Option<Instant>,
    seen: ServerFacts,
}

/// The facts reported by a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ServerFacts {
    family: Option<&'static ServerFamily>,
    limits: Limits,
}

impl ServerFacts {
    fn or(self, other: Self) -> Self {
        Self { family: self.family.or(other.family), limits: self.limits.or(other.limits) }
    }
}

impl ServerDiscovery {
    /// Creates the discovery without a request.
    pub(crate) fn new(
        http: ProviderHttpClient,
        endpoint: &ModelEndpoint,
        base: &BaseUrl,
        family: Option<ServerFamily>,
        reread_after: Duration,
    ) -> Self {
        let given = family.or_else(|| ServerFamily::at(&endpoint.base_url).copied());
        // Only families of hosted services have hosts of their own.
        let is_hosted = given.is_some_and(|family| !family.hosts.is_empty());
        let reread_after = if is_hosted { reread_after.max(HOSTED_REREAD_AFTER) } else { reread_after };
        let (endpoint, base) = (endpoint.clone(), base.clone());
        Self { http, endpoint, base, given, reread_after, known: Arc::default() }
    }

    /// Returns the server's family, as far as known, with the declared abilities of the model.
    pub(crate) fn family(&self) -> ServerFamily {
        let family = self.given.or_else(|| self.seen().family.copied()).unwrap_or(ServerFamily::COMPATIBLE);
        family.declared(&self.endpoint.declared)
    }

    /// Returns the server's family; asks the server the first time.
    pub(crate) async fn ensure_family(&self) -> ServerFamily {
        // The lock is free during the request. Two first callers may both ask, which costs one request more.
        if self.given.is_none() && self.known().asked.is_none() {
            self.ask().await;
        }
        self.family()
    }

    /// Returns the limits of the model now: declared, else of the server, else of the family.
    pub(crate) async fn limits(&self) -> Limits {
        let declared = self.endpoint.declared;
        if !declared.is_complete() && self.is_stale() {
            self.ask().await;
        }
        let said = self.seen().limits;
        declared.over(said.or(self.family().abilities()))
    }

    fn is_stale(&self) -> bool {
        self.known().asked.is_none_or(|then| then.elapsed() >= self.reread_after)
    }

    /// Asks the server and records the facts. A silent server keeps the old facts: such a server may be loading, or
    /// reading a long prompt.
    async fn ask(&self) {
        let begun = Instant::now();
        let said = self.query_facts().await;
        // The lock is taken after the wait, never across it.
        let mut known = self.known();
        self.log_facts(known.seen, said, begun.elapsed());
        // A silent server counts as asked too. Otherwise each call would wait for it once more.
        known.asked = Some(Instant::now());
        known.seen = said.unwrap_or(known.seen);
    }

    /// Logs the reported facts; at `info` after a change.
    fn log_facts(&self, before: ServerFacts, now: Option<ServerFacts>, elapsed: Duration) {
        let server = http::server(self.base.current());
        let (model, elapsed_ms) = (self.endpoint.model.as_str(), elapsed.as_millis() as u64);
        let Some(now) = now else {
            let window = before.limits.window;
            tracing::debug!(
                server,
                model,
                window,
                elapsed_ms,
                "the server does not describe itself now: earlier facts stay"
            );
            return;
        };
        let (window, max_output) = (now.limits.window, now.limits.max_output);
        if now == before {
            tracing::debug!(
                server,
                model,
                window,
                max_output,
                elapsed_ms,
                "the server reports the same facts"
            );
        } else {
            tracing::info!(
                server,
                model,
                family = self.given.as_ref().or(now.family).map(|family| family.name),
                window,
                window_before = before.limits.window,
                max_output,
                elapsed_ms,
                "the server's facts about the model are known"
            );
        }
    }

    /// Reads the pages of the known family first, then the pages of all: another server may have taken the old
    /// server's place.
    async fn query_facts(&self) -> Option<ServerFacts> {
        if let Some(family) = self.given {
            return self.read(family.pages, PATIENCE).await;
        }
        let before = self.seen().family;
        // Another program at the same address may serve some of the same pages, so its family must match.
        if let Some(family) = before
            && let Some(seen) = self.read(family.pages, REREAD_PATIENCE).await
            && seen.family == before
        {
            return Some(seen);
        }
        // A server that is still loading its model already answers here, but without a window.
        let now = self.read(ServerFamily::COMPATIBLE.pages, PATIENCE).await?;
        (before.is_none() || now.limits.window.is_some() || now.family != before).then_some(now)
    }

    /// Reads pages all at once; `None` if no page exists.
    async fn read(&self, pages: &[DiscoveryEndpoint], patience: Duration) -> Option<ServerFacts> {
        let model = self.endpoint.model.as_str();
        let asked = pages.iter().map(|page| async move {
            // Each page is optional. Servers of this wire describe themselves in different places, or not at all.
            let url = page_url(*page, self.base.current(), model).ok()?;
            let said = self.http.get_json(url.clone(), patience).await;
            let found = said.and_then(|said| read_page(*page, &said, model));
            let (None, Some(versioned)) = (&found, self.base.alternative()) else { return found };
            // If the base URL lacks its version, the list of models is below the version, like all pages.
            let other = page_url(*page, &versioned, model).ok().filter(|other| *other != url)?;
            read_page(*page, &self.http.get_json(other, patience).await?, model)
        });
        // `or` keeps the first fact, so the pages of one program come before the list that every server has.
        join_all(asked).await.into_iter().flatten().reduce(ServerFacts::or)
    }

    fn seen(&self) -> ServerFacts {
        self.known().seen
    }

    fn known(&self) -> MutexGuard<'_, ServerFactsCache> {
        // A panic cannot leave half of the facts, because they are replaced in one assignment.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the address of the server itself, for pages beside `/v1`.
pub(super) fn root(base: &str) -> String {
    let base = base.trim_end_matches('/');
    base.strip_suffix("/v1").unwrap_or(base).to_owned()
}

/// Returns the address of a page below a base URL.
///
/// # Errors
/// `invalid-request` if the base URL cannot be used.
fn page_url(page: DiscoveryEndpoint, base: &str, model: &str) -> Result<Url, ProviderError> {
    match page {
        DiscoveryEndpoint::Props => {
            // A router has one such page for each model, and would load the model to show it.
            let mut url = http::endpoint(&root(base), &["props"])?;
            url.query_pairs_mut().append_pair("model", model).append_pair("autoload", "false");
            Ok(url)
        }
        DiscoveryEndpoint::LmStudioV1 => http::endpoint(&root(base), &["api", "v1", "models"]),
        DiscoveryEndpoint::LmStudioV0 => http::endpoint(&root(base), &["api", "v0", "models"]),
        DiscoveryEndpoint::OllamaLoaded => http::endpoint(&root(base), &["api", "ps"]),
        DiscoveryEndpoint::Models => http::endpoint(base, &["models"]),
    }
}

/// Reads the model's facts from a page; `None` for another page.
fn read_page(page: DiscoveryEndpoint, said: &Value, model: &str) -> Option<ServerFacts> {
    match page {
        DiscoveryEndpoint::Props => pages::props(said),
        DiscoveryEndpoint::LmStudioV1 => pages::lm_studio_v1(said, model),
        DiscoveryEndpoint::LmStudioV0 => pages::lm_studio_v0(said, model),
        DiscoveryEndpoint::OllamaLoaded => pages::ollama_loaded(said, model),
        DiscoveryEndpoint::Models => pages::models(said, model),
    }
}
