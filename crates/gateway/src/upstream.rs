//! The upstreams: their models, the known limits of each model, and the transport of requests.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use longhaul_core::budget::ASSUMED_WINDOW;
use longhaul_core::history::History;
use longhaul_core::message::{ModelOrigin, Part};
use longhaul_providers::connect::{self, Kind};
use longhaul_providers::http::{BaseUrl, HttpTimeouts, Secret};
use longhaul_providers::openai_chat::OpenAiChatProvider;
use longhaul_providers::openai_chat::family::{DocumentSupport, PrefillSupport};
use longhaul_providers::{
    DeclaredLimits, FeatureSupport, LimitSource, Limits, ModelEndpoint, ProviderError, SharedProvider,
    catalogued,
};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::gateway::{ListedModel, SetupError};
use crate::headers;
use crate::window::{KnownWindow, SharedWindowStore};
use longhaul_wire::edit::{Dialect, GatewayError, GatewayErrorKind, ParseError};

/// The smallest credible window, in tokens.
const LEAST_WINDOW_TOKENS: u64 = 512;

/// The age at which a server's statement of its limits is read again, in the background.
const REREAD_AFTER: Duration = Duration::from_secs(5);

/// The time for which an unreachable upstream comes after others with the same model.
const LAST_FOR: Duration = Duration::from_secs(30);

/// The maximum number of unlisted models that are remembered for one upstream. Their names come from clients, so their
/// number must be bounded.
const MAX_MODELS: usize = 256;

/// The media type of documents for all servers.
const PDF: &str = "application/pdf";

/// The maximum number of models in an error about an unknown model.
const MOST_NAMED: usize = 20;

/// The longest model name, in bytes.
const MAX_NAME_BYTES: usize = 512;

/// The version segment at the start of every relayed API path.
const API_VERSION: &str = "v1";

/// The path, below the base URL, of a server's own compaction.
pub(crate) const COMPACT_PATH: &str = "/responses/compact";

/// A model server behind the gateway.
#[derive(Clone, Debug)]
pub struct UpstreamOptions {
    /// The upstream's name, for people and for the header `x-longhaul-upstream`.
    pub name: String,
    /// The kind of server, and thereby the wire.
    pub kind: Kind,
    /// The address, the key, further headers, time-outs, and the limits declared for all models of the upstream.
    /// `model` and `body` are ignored.
    pub endpoint: ModelEndpoint,
    /// The dialects in which the upstream takes requests unchanged. Requests in other dialects are translated. The
    /// default is the dialects that every server of the kind speaks; llama.cpp and vLLM speak all three.
    pub dialects: Vec<Dialect>,
    /// Lets the gateway try further dialects if the server identifies itself as llama.cpp or vLLM. A server
    /// that turns out not to speak a dialect gets translated requests again.
    pub finds_dialects: bool,
    /// The models for clients. If the list is empty, the upstream takes any name.
    pub models: Vec<UpstreamModelEntry>,
    /// The limits declared for single models, by the upstream's name of the model. They count where the upstream takes
    /// any name.
    pub declared_of: BTreeMap<String, DeclaredLimits>,
    /// The model for requests that name none, where any name is taken.
    pub usual_model: Option<String>,
    /// Marks `usual_model` as named by a person. Such a model precedes the lists of other upstreams.
    pub is_usual: bool,
    /// The key of `longhaul.yml` that declares a window for this upstream.
    pub window_key: &'static str,
}

/// A model under the clients' name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamModelEntry {
    /// The name in clients' requests.
    pub name: String,
    /// The upstream's name of the model.
    pub upstream_name: String,
    /// The limits declared for the model, with precedence over the upstream's limits.
    pub declared: DeclaredLimits,
}

impl UpstreamOptions {
    /// Creates an upstream for any model.
    pub fn new(name: impl Into<String>, kind: Kind, base_url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind,
            endpoint: ModelEndpoint::new(kind.as_str(), base_url, ""),
            dialects: dialects(kind),
            finds_dialects: kind == Kind::OpenAiCompatible,
            models: Vec::new(),
            declared_of: BTreeMap::new(),
            usual_model: None,
            is_usual: false,
            window_key: "window",
        }
    }
}

/// Returns the dialects that every server of a kind speaks.
fn dialects(kind: Kind) -> Vec<Dialect> {
    match kind {
        Kind::OpenAiCompatible => vec![Dialect::Chat],
        Kind::OpenAi => vec![Dialect::Responses, Dialect::Chat],
        Kind::Anthropic => vec![Dialect::Messages],
        Kind::Gemini | Kind::Ollama => Vec::new(),
    }
}

/// All upstreams of a gateway.
pub(crate) struct UpstreamDirectory {
    servers: Vec<Arc<UpstreamServer>>,
}

/// One upstream with the facts learned about it.
pub(crate) struct UpstreamServer {
    pub(crate) upstream: UpstreamOptions,
    client: reqwest::Client,
    headers: HeaderMap,
    /// The start of the upstream's API.
    base: BaseUrl,
    /// The windows learned by other callers of the models.
    windows: Arc<dyn SharedWindowStore>,
    models: Mutex<HashMap<String, Arc<UpstreamTarget>>>,
    /// The time of the last failed connection; `None` while the upstream is reachable.
    away_since: Mutex<Option<Instant>>,
    /// The number of requests in flight.
    pub(crate) in_flight: Arc<AtomicUsize>,
}

/// One model of one upstream.
pub(crate) struct UpstreamTarget {
    pub(crate) server: Arc<UpstreamServer>,
    /// The upstream's name of the model.
    pub(crate) model: String,
    declared: DeclaredLimits,
    provider: SharedProvider,
    chat: Option<Arc<OpenAiChatProvider>>,
    limits: tokio::sync::OnceCell<Mutex<LimitsSnapshot>>,
    refresh_task: Mutex<Option<ModelRefreshTask>>,
    /// The window named in a refusal, in tokens; 0 for none.
    learned: AtomicU64,
    /// A window inferred from an answer that looks truncated, in tokens; 0 for none.
    suspected: AtomicU64,
    /// The largest token count of one successful call.
    largest: AtomicU64,
    /// Set if the server's counts are much lower than the gateway's for requests read whole.
    counts_less: AtomicBool,
    /// The dialects that the server turned out not to speak.
    unspoken: Mutex<Vec<Dialect>>,
}

/// The support of a server for unchanged requests of a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DialectSupport {
    Yes,
    /// Newer versions of this kind of server speak the dialect.
    Perhaps,
    No,
}

#[derive(Clone, Copy)]
struct LimitsSnapshot {
    limits: Limits,
    at: Instant,
}

/// A task that reads a server's limits again. Dropping the owner aborts the task.
struct ModelRefreshTask(JoinHandle<()>);

impl Drop for ModelRefreshTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl UpstreamDirectory {
    pub(crate) fn new(
        upstreams: Vec<UpstreamOptions>,
        windows: &Arc<dyn SharedWindowStore>,
    ) -> Result<Self, SetupError> {
        let server = |upstream| UpstreamServer::new(upstream, Arc::clone(windows)).map(Arc::new);
        let servers = upstreams.into_iter().map(server);
        Ok(Self { servers: servers.collect::<Result<_, _>>()? })
    }

    /// Returns whether the configured model's server is one of the upstreams.
    pub(crate) fn has_usual(&self) -> bool {
        self.servers.iter().any(|server| server.upstream.usual_model.is_some())
    }

    /// Returns the first listed model names, without duplicates.
    fn some_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for known in self.servers.iter().flat_map(|server| &server.upstream.models) {
            if !names.contains(&known.name.as_str()) && names.len() < MOST_NAMED {
                names.push(&known.name);
            }
        }
        names
    }

    /// Returns the targets of a model, the preferred first. Only if no upstream lists the model do upstreams without a
    /// list count.
    ///
    /// # Errors
    /// [`GatewayError`] if no upstream has the model.
    pub(crate) fn find(&self, model: &str) -> Result<Vec<Arc<UpstreamTarget>>, GatewayError> {
        let unnamed = self.servers.iter().filter(|_| model.is_empty()).find_map(UpstreamServer::usual);
        let model = match (model, &unnamed) {
            ("", Some((_, usual))) => usual,
            ("", None) => {
                self.first_model().ok_or_else(|| ParseError::field("model", "`model` is missing"))?
            }
            (named, _) => named,
        };
        if model.len() > MAX_NAME_BYTES {
            let message =
                format!("the model's name has {} bytes; no name has more than {MAX_NAME_BYTES}", model.len());
            return Err(GatewayError {
                param: Some("model".to_owned()),
                ..GatewayError::new(GatewayErrorKind::Invalid, message)
            });
        }
        let listed = self.servers.iter().filter_map(|server| {
            let known = server.upstream.models.iter().find(|known| known.name == model)?;
            Some(server.target(&known.upstream_name, known.declared))
        });
        // A listed name belongs to its upstreams: another one might serve something else under it.
        let is_listed =
            self.servers.iter().any(|server| server.upstream.models.iter().any(|known| known.name == model));
        let open = self.servers.iter().filter(|server| !is_listed && server.upstream.models.is_empty());
        let open = open.map(|server| server.target(model, server.declared_of(model)));
        let found: Result<Vec<_>, SetupError> = listed.chain(open).collect();
        let mut found =
            found.map_err(|error| GatewayError::new(GatewayErrorKind::Internal, error.to_string()))?;
        if let Some((server, _)) = unnamed {
            // A request without a model means the one that the configuration names, if an upstream has it.
            let (usual, others): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|target| Arc::ptr_eq(&target.server, server));
            found = usual.into_iter().chain(others).collect();
        }
        if found.is_empty() {
            let name: String = model.chars().take(100).collect();
            let message = format!("there is no model `{name}`; there are: {}", self.some_names().join(", "));
            return Err(GatewayError {
                param: Some("model".to_owned()),
                ..GatewayError::new(GatewayErrorKind::NotFound, message)
            });
        }
        Ok(found)
    }

    /// Returns the first model of an upstream for clients.
    fn first_model(&self) -> Option<&str> {
        self.servers.iter().find_map(|server| {
            let listed = server.upstream.models.first().map(|model| model.name.as_str());
            listed.or(server.upstream.usual_model.as_deref()).filter(|name| !name.is_empty())
        })
    }

    /// Returns the window of a model at the preferred upstream. With `asks` the server may be queried for it.
    pub(crate) async fn window(&self, model: &str, asks: bool) -> Option<KnownWindow> {
        let target = self.find(model).ok()?.into_iter().next()?;
        if asks {
            return Some(target.window(&target.limits().await));
        }
        Some(target.window_seen())
    }

    pub(crate) fn models(&self) -> Vec<ListedModel> {
        let of = |server: &Arc<UpstreamServer>| {
            let list = |model: &UpstreamModelEntry| ListedModel {
                name: model.name.clone(),
                upstream: server.upstream.name.clone(),
                window: server.known_window(model),
            };
            server.upstream.models.iter().map(list).collect::<Vec<_>>()
        };
        self.servers.iter().flat_map(of).collect()
    }
}

impl UpstreamServer {
    fn new(upstream: UpstreamOptions, windows: Arc<dyn SharedWindowStore>) -> Result<Self, SetupError> {
        let wrong = |message: String| SetupError { upstream: upstream.name.clone(), message };
        let url = reqwest::Url::parse(&upstream.endpoint.base_url)
            .map_err(|error| wrong(format!("base URL `{}`: {error}", upstream.endpoint.base_url)))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(wrong("the base URL must begin with http:// or https:// and name a host".to_owned()));
        }
        let builder = longhaul_providers::http::builder(&url, upstream.endpoint.timeouts.connect)
            // A request is written in a few large pieces, and Nagle's algorithm would delay the last one.
            .tcp_nodelay(true)
            .pool_max_idle_per_host(64);
        let client = builder.build().map_err(|error| wrong(format!("no HTTP client: {error}")))?;
        let headers = own_headers(&upstream).map_err(wrong)?;
        let base = BaseUrl::new(&upstream.endpoint.base_url, API_VERSION);
        Ok(Self {
            upstream,
            client,
            headers,
            base,
            windows,
            models: Mutex::default(),
            away_since: Mutex::default(),
            in_flight: Arc::default(),
        })
    }

    /// Returns whether the upstream was unreachable a moment ago. Others are then tried first.
    pub(crate) fn is_away(&self) -> bool {
        let since = *self.away_since.lock().unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| since.elapsed() < LAST_FOR)
    }

    /// Records whether a request has reached the upstream.
    pub(crate) fn set_reachable(&self, is_so: bool) {
        let mut since = self.away_since.lock().unwrap_or_else(PoisonError::into_inner);
        *since = (!is_so).then(Instant::now);
    }

    /// Returns the configured model for requests without a model.
    fn usual(self: &Arc<Self>) -> Option<(&Arc<Self>, &str)> {
        let usual = self.upstream.usual_model.as_deref().filter(|name| !name.is_empty());
        usual.filter(|_| self.upstream.is_usual).map(|usual| (self, usual))
    }

    fn target(
        self: &Arc<Self>,
        model: &str,
        declared: DeclaredLimits,
    ) -> Result<Arc<UpstreamTarget>, SetupError> {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        // A target carries learned facts, so requests for one model share it.
        if let Some(known) = models.get(model).filter(|known| known.declared == declared) {
            return Ok(Arc::clone(known));
        }
        let target = Arc::new(UpstreamTarget::new(Arc::clone(self), model, declared)?);
        // Clearing all is enough: targets are rebuilt on demand, and the map only fills up if clients invent names.
        if models.len() >= MAX_MODELS {
            models.clear();
        }
        models.insert(model.to_owned(), Arc::clone(&target));
        Ok(target)
    }

    fn declared_of(&self, model: &str) -> DeclaredLimits {
        self.upstream.declared_of.get(model).copied().unwrap_or_default()
    }

    fn known_window(self: &Arc<Self>, model: &UpstreamModelEntry) -> Option<u64> {
        let target = self.target(&model.upstream_name, model.declared).ok()?;
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
        let once = async |base: &str| {
            let sent = self.post(base, path, headers, own_key, body.clone())?.send();
            let gone = |kind, what: &str| {
                GatewayError::new(kind, format!("the upstream `{}` {what}", self.upstream.name))
            };
            match tokio::time::timeout(self.timeouts().first_byte_limit(), sent).await {
                Ok(Ok(response)) => Ok(response),
                Ok(Err(_)) => Err(gone(GatewayErrorKind::Unreachable, "cannot be reached")),
                Err(_) => Err(gone(GatewayErrorKind::Timeout, "gave no answer in time")),
            }
        };
        let response = once(self.base.current()).await?;
        match self.base.alternative().filter(|_| response.status() == StatusCode::NOT_FOUND) {
            Some(versioned) => match once(&versioned).await {
                Ok(found) if found.status() != StatusCode::NOT_FOUND => {
                    self.base.adopt_alternative();
                    Ok(found)
                }
                _ => Ok(response),
            },
            None => Ok(response),
        }
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
        let place: String = place.chars().take(200).collect();
        let message = format!(
            "the upstream `{name}` answered {} and points to {place}; set its base URL to where it is",
            status.as_u16(),
        );
        Err(GatewayError::new(GatewayErrorKind::Upstream, message))
    }

    /// Returns the base URL for display: without user and query, which may hold a key.
    pub(crate) fn address(&self) -> String {
        let url = reqwest::Url::parse(self.base.current()).ok();
        let shown = |url: reqwest::Url| format!("{}{}", url.origin().ascii_serialization(), url.path());
        url.map_or_else(|| self.upstream.name.clone(), shown)
    }

    /// Returns the start of the upstream's API.
    pub(crate) fn base(&self) -> &BaseUrl {
        &self.base
    }

    /// Returns the upstream's headers for the caller, except copies of the gateway's secrets.
    pub(crate) fn headers_for_caller(&self, from: &HeaderMap) -> HeaderMap {
        let mut headers = headers::for_caller(from);
        let repeats = |value: &HeaderValue| {
            let said = Bytes::copy_from_slice(value.as_bytes());
            self.hide_secrets(said.clone()) != said
        };
        // Clients cannot parse the answer without these two, and neither can contain a key.
        let is_needed = |name: &HeaderName| *name == header::CONTENT_TYPE || *name == header::RETRY_AFTER;
        let repeated = headers.iter().filter(|(name, value)| !is_needed(name) && repeats(value));
        let names = repeated.map(|(name, _)| name.clone());
        for name in names.collect::<Vec<_>>() {
            headers.remove(name);
        }
        headers
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
    for (name, value) in key.chain(others) {
        let unsendable = |_| format!("the header `{name}` cannot be sent");
        let field = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unsendable(()))?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| unsendable(()))?;
        // Sensitive values are left out of debug output.
        value.set_sensitive(true);
        headers.insert(field, value);
    }
    Ok(headers)
}

impl UpstreamTarget {
    /// Returns whether the two upstreams can answer for each other. Both must list this model with the same name and
    /// limits, be of one kind, and be both local or both remote. Nothing is known of an upstream without a list.
    pub(crate) fn is_replica_of(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        let (one, other_one) = (&self.server.upstream, &other.server.upstream);
        let are_listed = !one.models.is_empty() && !other_one.models.is_empty();
        let is_same_model = self.model == other.model && self.declared == other.declared;
        let is_same_kind = one.kind == other_one.kind && self.is_local() == other.is_local();
        Arc::ptr_eq(self, other) || are_listed && is_same_model && is_same_kind
    }

    fn new(server: Arc<UpstreamServer>, model: &str, declared: DeclaredLimits) -> Result<Self, SetupError> {
        let mut endpoint = server.upstream.endpoint.clone();
        endpoint.model = model.to_owned();
        endpoint.declared = over(declared, endpoint.declared);
        let wrong = |error: longhaul_providers::ProviderError| SetupError {
            upstream: server.upstream.name.clone(),
            message: error.message,
        };
        let base = endpoint.base_url.clone();
        let (provider, chat): (SharedProvider, _) = match server.upstream.kind {
            Kind::OpenAiCompatible => {
                let chat = Arc::new(OpenAiChatProvider::new(endpoint).map_err(wrong)?);
                (chat.clone(), Some(chat))
            }
            kind => (connect::connect(kind, endpoint).map_err(wrong)?, None),
        };
        Ok(Self {
            provider: catalogued::with_catalog_limits(provider, base),
            chat,
            model: model.to_owned(),
            declared,
            limits: tokio::sync::OnceCell::new(),
            refresh_task: Mutex::default(),
            learned: AtomicU64::new(0),
            suspected: AtomicU64::new(0),
            largest: AtomicU64::new(0),
            counts_less: AtomicBool::new(false),
            unspoken: Mutex::default(),
            server,
        })
    }

    pub(crate) fn origin(&self) -> ModelOrigin {
        self.provider.origin()
    }

    /// Returns the provider that calls the model in its server's own dialect, with the gateway's key.
    pub(crate) fn provider(&self) -> SharedProvider {
        Arc::clone(&self.provider)
    }

    /// Returns the same provider with the caller's key, or without a key if the caller sends none.
    ///
    /// # Errors
    /// [`ProviderError`] if the provider cannot be built.
    pub(crate) fn provider_of_caller(&self, key: Option<&str>) -> Result<SharedProvider, ProviderError> {
        let mut endpoint = self.server.upstream.endpoint.clone();
        endpoint.model.clone_from(&self.model);
        // The gateway's own key must not pay for a caller that forwards credentials.
        endpoint.api_key = key.map(Secret::new);
        connect::connect(self.server.upstream.kind, endpoint)
    }

    /// Returns whether the server continues a prefilled answer only if the request has a field for it.
    pub(crate) fn must_be_told(&self) -> bool {
        let fields = |chat: &Arc<OpenAiChatProvider>| matches!(chat.family().prefill, PrefillSupport::Fields(fields) if !fields.is_empty());
        self.chat.as_ref().is_some_and(fields)
    }

    /// Returns the model's known limits. The first call queries the server; later calls refresh the limits in the
    /// background.
    pub(crate) async fn limits(self: &Arc<Self>) -> Limits {
        let first = || async {
            Mutex::new(LimitsSnapshot { limits: self.provider.limits().await, at: Instant::now() })
        };
        let read = self.limits.get_or_init(first).await;
        let known = *read.lock().unwrap_or_else(PoisonError::into_inner);
        // A server may have been restarted with another window. A declared one stays.
        if known.at.elapsed() > REREAD_AFTER && known.limits.source != LimitSource::Declared {
            self.read_again();
        }
        known.limits
    }

    /// Queries the server again in the background.
    fn read_again(self: &Arc<Self>) {
        let mut reread = self.refresh_task.lock().unwrap_or_else(PoisonError::into_inner);
        // A slow server gets one query at a time.
        if reread.as_ref().is_some_and(|task| !task.0.is_finished()) {
            return;
        }
        // A strong reference would keep the target, and so its task, alive forever.
        let (provider, target) = (Arc::clone(&self.provider), Arc::downgrade(self));
        *reread = Some(ModelRefreshTask(tokio::spawn(async move {
            let limits = provider.limits().await;
            let Some(target) = target.upgrade() else { return };
            if let Some(read) = target.limits.get() {
                *read.lock().unwrap_or_else(PoisonError::into_inner) =
                    LimitsSnapshot { limits, at: Instant::now() };
            }
        })));
    }

    /// Returns the window if known without a query.
    fn window_seen(&self) -> KnownWindow {
        let declared = over(self.declared, self.server.upstream.endpoint.declared);
        let known = || declared.over(catalogued::limits(&self.origin(), self.base_url()));
        self.window(&self.limits_read().unwrap_or_else(known))
    }

    /// Returns the window to plan with, and its source. A window learned from a refusal only lowers a declared one, but
    /// replaces an assumed one.
    pub(crate) fn window(&self, limits: &Limits) -> KnownWindow {
        let largest = self.largest.load(Ordering::Relaxed);
        let said = limits.window;
        let own = Some(self.learned.load(Ordering::Relaxed)).filter(|learned| *learned > 0);
        let learned = own.into_iter().chain(self.learned_elsewhere(limits)).min();
        if let Some(tokens) = learned.filter(|learned| said.is_none_or(|said| *learned < said)) {
            return KnownWindow { tokens, source: LimitSource::Learned };
        }
        match said {
            Some(tokens) => KnownWindow { tokens, source: limits.source },
            // A call larger than the assumed window has succeeded.
            None => KnownWindow { tokens: ASSUMED_WINDOW.max(largest), source: LimitSource::Unknown },
        }
    }

    /// Returns the window learned by others, if neither a person nor the server declares one.
    fn learned_elsewhere(&self, limits: &Limits) -> Option<u64> {
        let is_said = matches!(limits.source, LimitSource::Declared | LimitSource::Server);
        if is_said { None } else { self.server.windows.window(self.base_url(), &self.origin()) }
    }

    /// Returns the configured maximum length of an answer, in tokens.
    pub(crate) fn most_output(&self) -> Option<u64> {
        over(self.declared, self.server.upstream.endpoint.declared).max_output
    }

    fn base_url(&self) -> &str {
        &self.server.upstream.endpoint.base_url
    }

    /// Returns the limits as last read.
    fn limits_read(&self) -> Option<Limits> {
        let read = self.limits.get()?;
        Some(read.lock().unwrap_or_else(PoisonError::into_inner).limits)
    }

    /// Records a window inferred from an answer. The suspicion is not shared and does not survive the process.
    pub(crate) fn suspect_window(&self, tokens: u64) {
        if tokens >= LEAST_WINDOW_TOKENS {
            self.learned.store(tokens, Ordering::Relaxed);
            self.suspected.store(tokens, Ordering::Relaxed);
        }
    }

    /// Returns whether the learned window is only suspected.
    pub(crate) fn is_suspected(&self) -> bool {
        let suspected = self.suspected.load(Ordering::Relaxed);
        suspected > 0 && suspected == self.learned.load(Ordering::Relaxed)
    }

    /// Withdraws a suspicion. A window that a refusal has named since then stays.
    pub(crate) fn suspect_no_more(&self) {
        let suspected = self.suspected.swap(0, Ordering::Relaxed);
        if suspected > 0 {
            // A different value in `learned` was named by a refusal in the meantime.
            let _ = self.learned.compare_exchange(suspected, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Records the window that a refusal named, and shares it if nothing better is declared.
    pub(crate) fn learn_window(&self, tokens: u64) {
        if tokens < LEAST_WINDOW_TOKENS {
            return;
        }
        self.suspected.store(0, Ordering::Relaxed);
        self.learned.store(tokens, Ordering::Relaxed);
        let source = self.limits_read().unwrap_or_default().source;
        if !matches!(source, LimitSource::Declared | LimitSource::Server) {
            self.server.windows.learn(self.base_url(), &self.origin(), Some(tokens));
        }
    }

    /// Shares the tokenizer calibration of a conversation as a start for the next ones.
    pub(crate) fn learn_tokenizer(&self, history: &History) {
        self.server.windows.learn_tokenizer(&self.origin(), history.counter().name(), history.calibration());
    }

    /// Returns whether low usage reports of the server are no sign of truncation.
    pub(crate) fn counts_less(&self) -> bool {
        self.counts_less.load(Ordering::Relaxed)
    }

    /// Marks the server's low usage reports as harmless, and withdraws a suspicion based on such reports.
    pub(crate) fn set_counts_less(&self) {
        self.counts_less.store(true, Ordering::Relaxed);
        self.suspect_no_more();
    }

    /// Records the total tokens of a successful call: the window cannot be smaller.
    pub(crate) fn saw_call(&self, tokens: u64) {
        // A sum of 2^32 or more is no real count, and would raise the assumed window for good.
        if tokens < 1 << 32 {
            self.largest.fetch_max(tokens, Ordering::Relaxed);
            // A call above the learned window has succeeded, so the window was wrong, here and for all who
            // share it.
            if self.learned.load(Ordering::Relaxed) < tokens {
                self.learned.store(0, Ordering::Relaxed);
            }
            let limits = self.limits_read().unwrap_or_default();
            if self.learned_elsewhere(&limits).is_some_and(|learned| learned < tokens) {
                self.server.windows.learn(self.base_url(), &self.origin(), None);
            }
        }
    }

    /// Returns whether the server takes requests of a dialect unchanged. The server's own statement is known after
    /// [`limits`](Self::limits).
    pub(crate) fn speaks(&self, dialect: Dialect) -> DialectSupport {
        let upstream = &self.server.upstream;
        if upstream.dialects.contains(&dialect) {
            return DialectSupport::Yes;
        }
        // Only these two speak all three dialects, and only in newer versions.
        let known = |chat: &Arc<OpenAiChatProvider>| matches!(chat.family().name, "vllm" | "llama.cpp");
        let unspoken = self.unspoken.lock().unwrap_or_else(PoisonError::into_inner);
        let may = upstream.finds_dialects && !unspoken.contains(&dialect);
        if may && self.chat.as_ref().is_some_and(known) {
            DialectSupport::Perhaps
        } else {
            DialectSupport::No
        }
    }

    /// Records whether the server has no path for a dialect.
    pub(crate) fn does_not_speak(&self, dialect: Dialect, is_so: bool) {
        let mut unspoken = self.unspoken.lock().unwrap_or_else(PoisonError::into_inner);
        // The list must not grow with each verdict.
        unspoken.retain(|known| *known != dialect);
        unspoken.extend(is_so.then_some(dialect));
    }

    /// Returns whether the server is of a self-hosted kind.
    pub(crate) fn is_local(&self) -> bool {
        let family =
            |chat: &Arc<OpenAiChatProvider>| matches!(chat.family().name, "vllm" | "llama.cpp" | "LM Studio");
        self.server.upstream.kind == Kind::Ollama || self.chat.as_ref().is_some_and(family)
    }

    /// Checks that the upstream and the model take a picture or a file, as content or by its address.
    ///
    /// # Errors
    /// The reason why the upstream does not take the part, for people.
    pub(crate) fn takes(&self, part: &Part, by_address: bool, limits: &Limits) -> Result<(), &'static str> {
        let kind = self.server.upstream.kind;
        let family = self.chat.as_ref().map(|chat| chat.family());
        match part {
            Part::Image(_) if !limits.images.may() => Err("the model takes no pictures"),
            Part::Image(_) if family.is_some_and(|family| !family.images.may()) => {
                Err("the upstream takes no pictures")
            }
            Part::File(_) if !limits.files.may() => Err("the model takes no files"),
            Part::File(_) if kind == Kind::Ollama => Err("the upstream takes no files"),
            _ if by_address && matches!(kind, Kind::Gemini | Kind::Ollama) => {
                Err("the upstream takes nothing by its address: send the content itself")
            }
            Part::Image(media) if kind == Kind::Anthropic && !by_address => {
                let known = ["image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"];
                known
                    .contains(&media.media_type.as_str())
                    .then_some(())
                    .ok_or("the upstream takes PNG, JPEG, GIF and WebP only")
            }
            Part::File(media) => match (kind, family.map(|family| family.documents)) {
                (_, Some(DocumentSupport::Unknown | DocumentSupport::No)) => {
                    Err("the upstream takes no files")
                }
                (_, Some(DocumentSupport::File)) if by_address => {
                    Err("the upstream takes no file by its address: send the content itself")
                }
                (_, Some(_)) if media.media_type != PDF => Err("the upstream takes PDF only"),
                (Kind::Anthropic, _) if media.media_type != PDF && !media.media_type.starts_with("text/") => {
                    Err("the upstream takes PDF and text only")
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Returns whether the upstream can continue an answer exactly where the answer stopped.
    pub(crate) fn can_prefill(&self, limits: &Limits) -> bool {
        // A server that wants the message itself marked is excluded: only a translated request gets that mark.
        let is_marked = |chat: &Arc<OpenAiChatProvider>| chat.family().prefill == PrefillSupport::Prefix;
        limits.prefill == FeatureSupport::Yes && !self.chat.as_ref().is_some_and(is_marked)
    }
}

/// Returns a model's declared limits, completed with those of its upstream.
fn over(model: DeclaredLimits, upstream: DeclaredLimits) -> DeclaredLimits {
    DeclaredLimits {
        window: model.window.or(upstream.window),
        max_output: model.max_output.or(upstream.max_output),
        tools: model.tools.or(upstream.tools),
        images: model.images.or(upstream.images),
        files: model.files.or(upstream.files),
        prefill: model.prefill.or(upstream.prefill),
        reasoning: model.reasoning.or(upstream.reasoning),
    }
}
