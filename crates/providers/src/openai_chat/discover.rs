//! What the running server says of itself: which family it is of, and the window of its model as loaded, not as
//! trained. Asked again when some seconds have passed, because a server can be loaded with another model at any
//! time.

mod pages;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::Url;
use serde_json::Value;

use crate::http::{self, BaseUrl, ProviderHttpClient};
use crate::{Limits, ModelEndpoint, ProviderError};
use longhaul_wire::chat::family::{DiscoveryEndpoint, ServerFamily};

/// How long a server may take to describe itself.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long one that was known already may take to do it again: it may be busy with a prompt.
const REREAD_PATIENCE: Duration = Duration::from_secs(1);

/// How long what it said holds.
pub(crate) const REREAD_AFTER: Duration = Duration::from_secs(5);

/// How long it holds at a provider's own host: nobody reloads a model there, and its list may be long.
const HOSTED_REREAD_AFTER: Duration = Duration::from_secs(3600);

/// One model of one server, and what is known of it.
#[derive(Clone)]
pub(crate) struct ServerDiscovery {
    http: ProviderHttpClient,
    endpoint: ModelEndpoint,
    base: BaseUrl,
    /// Said by the configuration or by the host: the server is not asked for it.
    given: Option<ServerFamily>,
    reread_after: Duration,
    known: Arc<Mutex<ServerFactsCache>>,
}

#[derive(Default)]
struct ServerFactsCache {
    asked: Option<Instant>,
    seen: ServerFacts,
}

/// What a server said of itself.
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
    /// Asks nothing yet.
    pub(crate) fn new(
        http: ProviderHttpClient,
        endpoint: &ModelEndpoint,
        base: &BaseUrl,
        family: Option<ServerFamily>,
        reread_after: Duration,
    ) -> Self {
        let given = family.or_else(|| ServerFamily::at(&endpoint.base_url).copied());
        let is_hosted = given.is_some_and(|family| !family.hosts.is_empty());
        let reread_after = if is_hosted { reread_after.max(HOSTED_REREAD_AFTER) } else { reread_after };
        let (endpoint, base) = (endpoint.clone(), base.clone());
        Self { http, endpoint, base, given, reread_after, known: Arc::default() }
    }

    /// The server's family, as far as it is known, with what was declared of the model.
    pub(crate) fn family(&self) -> ServerFamily {
        let family = self.given.or_else(|| self.seen().family.copied()).unwrap_or(ServerFamily::COMPATIBLE);
        family.declared(&self.endpoint.declared)
    }

    /// The server's family; asks the server unless it was asked before.
    pub(crate) async fn ensure_family(&self) -> ServerFamily {
        if self.given.is_none() && self.known().asked.is_none() {
            self.ask().await;
        }
        self.family()
    }

    /// What is known of the model now: what was declared, then what the server says, then what follows from its
    /// family.
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

    /// A server that says nothing, while it loads or reads a long prompt, is still what it was.
    async fn ask(&self) {
        let said = self.query_facts().await;
        let mut known = self.known();
        known.asked = Some(Instant::now());
        known.seen = said.unwrap_or(known.seen);
    }

    /// First the pages of the family it was, then those of all: another server may have taken its place.
    async fn query_facts(&self) -> Option<ServerFacts> {
        if let Some(family) = self.given {
            return self.read(family.pages, PATIENCE).await;
        }
        let before = self.seen().family;
        if let Some(family) = before
            && let Some(seen) = self.read(family.pages, REREAD_PATIENCE).await
            && seen.family == before
        {
            return Some(seen);
        }
        // A server that is loading its model answers here already, without knowing its window.
        let now = self.read(ServerFamily::COMPATIBLE.pages, PATIENCE).await?;
        (before.is_none() || now.limits.window.is_some() || now.family != before).then_some(now)
    }

    /// Reads pages all at once; `None` if none of them is there.
    async fn read(&self, pages: &[DiscoveryEndpoint], patience: Duration) -> Option<ServerFacts> {
        let model = self.endpoint.model.as_str();
        let asked = pages.iter().map(|page| async move {
            let url = page_url(*page, self.base.current(), model).ok()?;
            let read = |said| read_page(*page, &said, model);
            let found = self.http.get_json(url.clone(), patience).await.and_then(read);
            let (None, Some(versioned)) = (&found, self.base.alternative()) else { return found };
            // A base URL without its version has the list of models elsewhere, as everything else.
            let other = page_url(*page, &versioned, model).ok().filter(|other| *other != url)?;
            self.http.get_json(other, patience).await.and_then(read)
        });
        join_all(asked).await.into_iter().flatten().reduce(ServerFacts::or)
    }

    fn seen(&self) -> ServerFacts {
        self.known().seen
    }

    fn known(&self) -> MutexGuard<'_, ServerFactsCache> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server itself, for what lies beside `/v1`.
pub(super) fn root(base: &str) -> String {
    let base = base.trim_end_matches('/');
    base.strip_suffix("/v1").unwrap_or(base).to_owned()
}

/// Returns the address of a page below a base URL.
///
/// # Errors
/// `invalid-request` if the base URL is none.
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

/// Reads what a page says of the model; `None` if it is another page.
fn read_page(page: DiscoveryEndpoint, said: &Value, model: &str) -> Option<ServerFacts> {
    match page {
        DiscoveryEndpoint::Props => pages::props(said),
        DiscoveryEndpoint::LmStudioV1 => pages::lm_studio_v1(said, model),
        DiscoveryEndpoint::LmStudioV0 => pages::lm_studio_v0(said, model),
        DiscoveryEndpoint::OllamaLoaded => pages::ollama_loaded(said, model),
        DiscoveryEndpoint::Models => pages::models(said, model),
    }
}
