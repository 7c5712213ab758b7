//! The upstreams: their models, the known limits of each model, and the transport of requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use longhaul_providers::connect::Kind;
use longhaul_providers::{DeclaredLimits, ModelEndpoint};
use longhaul_wire::edit::{Dialect, GatewayError, GatewayErrorKind, ParseError};

use crate::gateway::{ListedModel, SetupError};
use crate::window::{KnownWindow, SharedWindowStore};

mod server;
mod target;

pub(crate) use server::UpstreamServer;
pub(crate) use target::{DialectSupport, UpstreamTarget};

/// The maximum number of models in an error about an unknown model.
// A router may serve hundreds of models, and the error is for a person.
const MOST_NAMED: usize = 20;

/// The longest model name, in bytes.
// Names come from clients, and go into errors, logs and caches.
const MAX_NAME_BYTES: usize = 512;

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
    /// Lets the gateway try further dialects if the server identifies itself as llama.cpp or vLLM. A server that turns
    /// out to have no path for a dialect, also for a listed one, gets translated requests from then on. Without it the
    /// list is final.
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
            finds_dialects: matches!(kind, Kind::OpenAiCompatible | Kind::OpenAi),
            models: Vec::new(),
            declared_of: BTreeMap::new(),
            usual_model: None,
            is_usual: false,
            window_key: "window",
        }
    }

    fn setup_error(&self, message: String) -> SetupError {
        SetupError { upstream: self.name.clone(), message }
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

/// Returns the dialect of translated requests to a kind of server; `None` if no client speaks it.
fn own_dialect(kind: Kind) -> Option<Dialect> {
    match kind {
        Kind::OpenAiCompatible => Some(Dialect::Chat),
        Kind::OpenAi => Some(Dialect::Responses),
        Kind::Anthropic => Some(Dialect::Messages),
        Kind::Gemini | Kind::Ollama => None,
    }
}

/// All upstreams of a gateway.
pub(crate) struct UpstreamDirectory {
    servers: Vec<Arc<UpstreamServer>>,
}

impl UpstreamDirectory {
    pub(crate) fn new(
        upstreams: Vec<UpstreamOptions>,
        windows: &Arc<dyn SharedWindowStore>,
    ) -> Result<Self, SetupError> {
        let servers = upstreams
            .into_iter()
            .map(|upstream| UpstreamServer::new(upstream, Arc::clone(windows)).map(Arc::new))
            .collect::<Result<_, _>>()?;
        Ok(Self { servers })
    }

    /// Returns whether the configured model's server is one of the upstreams.
    pub(crate) fn has_usual(&self) -> bool {
        self.servers.iter().any(|server| server.upstream.usual_model.is_some())
    }

    /// Returns the first listed model names, without duplicates.
    fn some_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for known in self.servers.iter().flat_map(|server| &server.upstream.models) {
            // Replicas list the same name.
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
            return Err(model_error(GatewayErrorKind::Invalid, message));
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
            // The name comes from the client and may be long. The message names it only to make it recognizable.
            let name: String = model.chars().take(100).collect();
            let message = format!("there is no model `{name}`; there are: {}", self.some_names().join(", "));
            return Err(model_error(GatewayErrorKind::NotFound, message));
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
        self.servers.iter().flat_map(UpstreamServer::listed_models).collect()
    }
}

/// Returns the error of a request whose `model` cannot be used.
fn model_error(kind: GatewayErrorKind, message: String) -> GatewayError {
    GatewayError { param: Some("model".to_owned()), ..GatewayError::new(kind, message) }
}
