//! One upstream: its transport, its reachability, and its targets.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use longhaul_providers::DeclaredLimits;
use longhaul_providers::http::{BaseUrl, HttpTimeouts, Secret, is_page, proxy_answer_hint};
use longhaul_wire::edit::{Dialect, GatewayError, GatewayErrorKind};
use tokio::time::Instant;

use super::{UpstreamModelEntry, UpstreamOptions, UpstreamTarget};
use crate::gateway::{ListedModel, SetupError};
use crate::headers;
use crate::window::{KnownWindow, SharedWindowStore};

/// The time for which an unreachable upstream comes after others with the same model.
const LAST_FOR: Duration = Duration::from_secs(30);

/// The maximum number of unlisted models that are remembered for one upstream. Their names come from clients, so their
/// number must be bounded.
const MAX_MODELS: usize = 256;

/// The version segment at the start of every relayed API path.
const API_VERSION: &str = "v1";

/// One upstream with the facts learned about it.
pub(crate) struct UpstreamServer {
    pub(crate) upstream: UpstreamOptions,
    client: reqwest::Client,
    headers: HeaderMap,
    /// The start of the upstream's API.
    base: BaseUrl,
    /// The windows learned by other callers of the models.
    pub(super) windows: Arc<dyn SharedWindowStore>,
    models: Mutex<HashMap<String, Arc<UpstreamTarget>>>,
    /// The time of the last failed connection; `None` while the upstream is reachable.
    away_since: Mutex<Option<Instant>>,
    /// The number of requests in flight.
    pub(crate) in_flight: Arc<AtomicUsize>,
    /// The dialects for which the server turned out to have no path.
    unspoken: Mutex<Vec<Dialect>>,
}

impl UpstreamServer {
    pub(super) fn new(
        upstream: UpstreamOptions,
        windows: Arc<dyn SharedWindowStore>,
    ) -> Result<Self, SetupError> {
        let base_url = &upstream.endpoint.base_url;
        let url = reqwest::Url::parse(base_url)
            .map_err(|error| upstream.setup_error(format!("base URL `{base_url}`: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            let message = "the base URL must begin with http:// or https:// and name a host";
            return Err(upstream.setup_error(message.to_owned()));
        }
        let builder = longhaul_providers::http::builder(&url, upstream.endpoint.timeouts.connect)
            // A request is written in a few large pieces, and Nagle's algorithm would delay the last one.
            .tcp_nodelay(true)
            .pool_max_idle_per_host(64);
        let client =
            builder.build().map_err(|error| upstream.setup_error(format!("no HTTP client: {error}")))?;
        let headers = own_headers(&upstream).map_err(|message| upstream.setup_error(message))?;
        let base = BaseUrl::new(base_url, API_VERSION);
        Ok(Self {
            upstream,
            client,
            headers,
            base,
            windows,
            models: Mutex::default(),
            away_since: Mutex::default(),
            in_flight: Arc::default(),
            unspoken: Mutex::default(),
        })
    }

    /// Returns whether the upstream was unreachable a moment ago. Others are then tried first.
    pub(crate) fn is_away(&self) -> bool {
        let since = *self.away_since.lock().unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| since.elapsed() < LAST_FOR)
    }

    /// Records whether a request has reached the upstream.
    pub(crate) fn set_reachable(&self, is_so: bool) {
        let since = (!is_so).then(Instant::now);
        let before =
            // Swapped in one step, so that of two requests at a time one logs the change.
            std::mem::replace(&mut *self.away_since.lock().unwrap_or_else(PoisonError::into_inner), since);
        match before {
            None if !is_so => tracing::info!(
                upstream = self.upstream.name,
                seconds = LAST_FOR.as_secs(),
                "an upstream cannot be reached; others with the same model are asked first for a while"
            ),
            Some(before) if is_so => tracing::info!(
                upstream = self.upstream.name,
                seconds = before.elapsed().as_secs(),
                "an upstream can be reached again"
            ),
            _ => {}
        }
    }

    /// Returns whether the server turned out to have no path for a dialect.
    pub(super) fn lacks_path(&self, dialect: Dialect) -> bool {
        self.unspoken.lock().unwrap_or_else(PoisonError::into_inner).contains(&dialect)
    }

    /// Records whether the server has no path for a dialect. The path is the same for all models.
    pub(crate) fn set_lacks_path(&self, dialect: Dialect, is_so: bool) {
        let mut unspoken = self.unspoken.lock().unwrap_or_else(PoisonError::into_inner);
        // The list must not grow with each verdict.
        unspoken.retain(|known| *known != dialect);
        unspoken.extend(is_so.then_some(dialect));
    }

    /// Returns the configured model for requests without a model.
    pub(super) fn usual(self: &Arc<Self>) -> Option<(&Arc<Self>, &str)> {
        let usual = self.upstream.usual_model.as_deref().filter(|name| !name.is_empty());
        usual.filter(|_| self.upstream.is_usual).map(|usual| (self, usual))
    }

    /// Returns the target of a model. Targets with the same declared limits are shared.
    pub(super) fn target(
        self: &Arc<Self>,
        model: &str,
        declared: DeclaredLimits,
    ) -> Result<Arc<UpstreamTarget>, SetupError> {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        // A target carries learned facts, so requests for one model share it.
        if let Some(known) = models.get(model).filter(|known| known.declared == declared) {
            return Ok(Arc::clone(known));
        }
        // Built under the lock: a second target of the same model would learn its own facts.
        let target = Arc::new(UpstreamTarget::new(Arc::clone(self), model, declared)?);
        // Clearing all is enough: targets are rebuilt on demand, and the map only fills up if clients invent names.
        if models.len() >= MAX_MODELS {
            tracing::info!(
                upstream = self.upstream.name,
                models = models.len(),
                "clients ask for too many models: what was learned about all of them is forgotten"
            );
            models.clear();
        }
        models.insert(model.to_owned(), Arc::clone(&target));
        Ok(target)
    }

    /// Returns the limits declared for a model that the upstream does not list.
    pub(super) fn declared_of(&self, model: &str) -> DeclaredLimits {
        self.upstream.declared_of.get(model).copied().unwrap_or_default()
    }

    /// Returns the upstream's models for clients, with their windows.
    pub(super) fn listed_models(self: &Arc<Self>) -> impl Iterator<Item = ListedModel> {
        self.upstream.models.iter().map(|model| ListedModel {
            name: model.name.clone(),
            upstream: self.upstream.name.clone(),
            window: self.known_window(model),
        })
    }

    fn known_window(self: &Arc<Self>, model: &UpstreamModelEntry) -> Option<u64> {
        let target = self.target(&model.upstream_name, model.declared).ok()?;
        // An assumed window is left out, because clients would take it for a fact.
        Some(target.window_seen()).filter(KnownWindow::is_known).map(|window| window.tokens)
    }

    /// Builds the request for a path below the base URL. The upstream's own headers override the client's.
    ///
    /// # Errors
    /// [`GatewayError`] if the path makes no valid URL.
    pub(crate) fn post(
        &self,
        base: &str,
        path: &str,
        headers: &HeaderMap,
        own_key: bool,
        body: Bytes,
    ) -> Result<reqwest::RequestBuilder, GatewayError> {
        let url = reqwest::Url::parse(&format!("{}{path}", base.trim_end_matches('/'))).map_err(|error| {
            GatewayError::new(GatewayErrorKind::Internal, format!("no path `{path}`: {error}"))
        })?;
        let mut all = headers.clone();
        for (name, value) in &self.headers {
            let is_key = matches!(name.as_str(), "authorization" | "x-api-key");
            // Clients are written for one version of an API, so their `anthropic-version` wins.
            let is_said = name.as_str() == "anthropic-version" && all.contains_key(name);
            // With forwarded credentials the caller's key is the one that is billed.
            if (own_key || !is_key) && !is_said {
                all.insert(name.clone(), value.clone());
            }
        }
        all.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut request = reqwest::Request::new(Method::POST, url);
        *request.headers_mut() = all;
        *request.body_mut() = Some(body.into());
        Ok(reqwest::RequestBuilder::from_parts(self.client.clone(), request))
    }

    /// Posts a request below the base URL and waits for the status line. On status 404 the request is tried once below
    /// the base URL with a version segment.
    ///
    /// # Errors
    /// [`GatewayError`] if the upstream cannot be reached, or gives no answer in time.
    pub(crate) async fn send(
        &self,
        path: &str,
        headers: &HeaderMap,
        own_key: bool,
        body: Bytes,
    ) -> Result<reqwest::Response, GatewayError> {
        let response = self.send_below(self.base.current(), path, headers, own_key, body.clone()).await?;
        match self.base.alternative().filter(|_| response.status() == StatusCode::NOT_FOUND) {
            Some(versioned) => match self.send_below(&versioned, path, headers, own_key, body).await {
                Ok(found) if found.status() != StatusCode::NOT_FOUND => {
                    self.base.adopt_alternative();
                    Ok(found)
                }
                // The first answer is about the address that a person has configured, so its error helps more.
                _ => Ok(response),
            },
            None => Ok(response),
        }
    }

    /// Posts a request below one base URL and waits for the status line, at most for the upstream's time-out.
    async fn send_below(
        &self,
        base: &str,
        path: &str,
        headers: &HeaderMap,
        own_key: bool,
        body: Bytes,
    ) -> Result<reqwest::Response, GatewayError> {
        let sent = self.post(base, path, headers, own_key, body)?.send();
        let (kind, message) = match tokio::time::timeout(self.timeouts().first_byte_limit(), sent).await {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(error)) => (GatewayErrorKind::Unreachable, self.unreached_message(base, &error)),
            Err(_) => (
                GatewayErrorKind::Timeout,
                format!("the upstream `{}` gave no answer in time", self.upstream.name),
            ),
        };
        Err(GatewayError::new(kind, message))
    }

    /// Returns the message for a request that did not reach the upstream: its address, the cause, and the likely
    /// setting.
    pub(crate) fn unreached_message(&self, base: &str, error: &reqwest::Error) -> String {
        match reqwest::Url::parse(base) {
            Ok(url) => self.unreached(&self.upstream.endpoint.variables.explain(&url, error)),
            Err(_) => format!("the upstream `{}` cannot be reached", self.upstream.name),
        }
    }

    /// Returns the message for a request that did not reach the upstream. All wires have the same message.
    pub(crate) fn unreached(&self, why: &str) -> String {
        format!("the upstream `{}` cannot be reached: {why}", self.upstream.name)
    }

    /// Refuses redirects and informational answers. Following a redirect would show the request to a server that nobody
    /// configured.
    pub(crate) fn check_place(&self, status: StatusCode, headers: &HeaderMap) -> Result<(), GatewayError> {
        if !status.is_redirection() && !status.is_informational() {
            return Ok(());
        }
        let name = &self.upstream.name;
        if status.is_informational() {
            let message = format!("the upstream `{name}` answered {}, which is no answer", status.as_u16());
            return Err(GatewayError::new(GatewayErrorKind::Upstream, message));
        }
        let place = headers.get(header::LOCATION).and_then(|place| place.to_str().ok());
        // The query of a redirect may hold a secret.
        let place = place.and_then(|place| place.split(['?', '#']).next()).unwrap_or("nowhere");
        // The address comes from the upstream, and its length is not limited.
        let place: String = place.chars().take(200).collect();
        let message = format!(
            "the upstream `{name}` answered {} and points to {place}; set its base URL to where it is",
            status.as_u16(),
        );
        Err(GatewayError::new(GatewayErrorKind::Upstream, message))
    }

    /// Returns the error for an answer that a proxy or a web server made in the model server's place; `None` for an
    /// answer that may be the model server's own.
    pub(crate) fn proxy_fault(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Option<GatewayError> {
        let (name, address) = (&self.upstream.name, self.address());
        if status.is_success() {
            let message = format!(
                "the upstream `{name}` answered with a web page, not with an answer of a model: is its base URL \
                 {address} the address of an API?"
            );
            return is_page(body).then(|| GatewayError::new(GatewayErrorKind::Upstream, message));
        }
        // An address that cannot be parsed has failed before, with a message of its own.
        let url = reqwest::Url::parse(self.base.current()).ok()?;
        let body = String::from_utf8_lossy(body);
        let variables = &self.upstream.endpoint.variables;
        let hint = proxy_answer_hint(&url, variables, status.as_u16(), headers, &body)?;
        let message =
            format!("the upstream `{name}` at {address} answered with status {}; {hint}", status.as_u16());
        let kind = match status {
            StatusCode::FORBIDDEN => GatewayErrorKind::Forbidden,
            _ => GatewayErrorKind::Upstream,
        };
        let fault = GatewayError::new(kind, message);
        // A client would take 407 for a demand of its own proxy.
        let is_passed_on = status != StatusCode::PROXY_AUTHENTICATION_REQUIRED;
        Some(if is_passed_on { GatewayError { status, ..fault } } else { fault })
    }

    /// Returns the base URL for display: without user and query, which may hold a key.
    pub(crate) fn address(&self) -> String {
        match reqwest::Url::parse(self.base.current()) {
            Ok(url) => format!("{}{}", url.origin().ascii_serialization(), url.path()),
            Err(_) => self.upstream.name.clone(),
        }
    }

    /// Returns the start of the upstream's API.
    pub(crate) fn base(&self) -> &BaseUrl {
        &self.base
    }

    /// Returns the upstream's headers for the caller, except copies of the gateway's secrets.
    pub(crate) fn headers_for_caller(&self, from: &HeaderMap) -> HeaderMap {
        let mut headers = headers::for_caller(from);
        let repeated = headers.iter().filter(|(name, value)| {
            // Clients cannot parse the answer without these two, and neither can contain a key.
            let is_needed = **name == header::CONTENT_TYPE || **name == header::RETRY_AFTER;
            !is_needed && self.contains_secret(value)
        });
        let names = repeated.map(|(name, _)| name.clone());
        for name in names.collect::<Vec<_>>() {
            headers.remove(name);
        }
        headers
    }

    /// Returns whether a header's value contains one of the gateway's secrets.
    fn contains_secret(&self, value: &HeaderValue) -> bool {
        let said = Bytes::copy_from_slice(value.as_bytes());
        self.hide_secrets(said.clone()) != said
    }

    /// Returns the upstream's text with the gateway's secrets hidden.
    pub(crate) fn hide_secrets(&self, said: Bytes) -> Bytes {
        let endpoint = &self.upstream.endpoint;
        let shown = endpoint.api_key.iter().chain(endpoint.headers.iter().map(|(_, value)| value));
        let text = String::from_utf8_lossy(&said);
        let hidden = shown
            .flat_map(Secret::forms)
            .fold(text.clone().into_owned(), |text, secret| secret.hide_in(text));
        // Text that is not UTF-8 keeps its bytes unless a secret was found in it.
        if hidden == text { said } else { hidden.into() }
    }

    pub(crate) fn timeouts(&self) -> HttpTimeouts {
        self.upstream.endpoint.timeouts
    }
}

/// Returns the headers of every request to the upstream.
fn own_headers(upstream: &UpstreamOptions) -> Result<HeaderMap, String> {
    let endpoint = &upstream.endpoint;
    let key = endpoint.api_key.as_ref().map(|key| upstream.kind.key_headers(key.expose()));
    let key = key.into_iter().flatten().map(|(name, value)| (name.to_owned(), value));
    let others = endpoint.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned()));
    let mut headers = HeaderMap::new();
    // The key comes first, because a configured header of the same name replaces it.
    for (name, value) in key.chain(others) {
        let field = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unsendable(&name))?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| unsendable(&name))?;
        // Sensitive values are left out of debug output.
        value.set_sensitive(true);
        headers.insert(field, value);
    }
    Ok(headers)
}

fn unsendable(header: &str) -> String {
    format!("the header `{header}` cannot be sent")
}
