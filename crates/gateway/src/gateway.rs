//! The door: a call comes in, a reply goes out.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use longhaul_core::attempt::RetryPolicy;
use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::message::ModelOrigin;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::AdaptiveStrategy;
use longhaul_providers::SharedProvider;
use longhaul_store::memo::{MemoryPrefixCache, PrefixCache};

use crate::exchange::{Exchange, GatewayState};
use crate::hook::PreCompactHook;
use crate::relay::RelayEndpoint;
use crate::upstream::UpstreamOptions;
use crate::window::{KnownWindow, NoSharedWindowStore, SharedWindowStore};
use longhaul_wire::edit::{Dialect, GatewayError, GatewayErrorKind, WireCodec};

/// What a gateway is set up with. Everything has a default but the upstreams.
///
/// | key of `gateway:` | field |
/// | --- | --- |
/// | `upstreams` | [`upstreams`](Self::upstreams), each a [`UpstreamOptions`] |
/// | `credentials: own\|forward` | [`credentials`](Self::credentials) |
/// | `midstream: exact\|best-effort\|off` | [`midstream`](Self::midstream) |
/// | `noticesInText` | [`notices_in_text`](Self::notices_in_text) |
/// | `recall: off\|inject` | [`recall`](Self::recall) |
/// | `context.compression`, `pruningAgent` | [`policy`](Self::policy) |
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// Where models are, the preferred first. A model is looked for in their lists; one that
    /// nobody lists is asked for where any name is taken.
    pub upstreams: Vec<UpstreamOptions>,
    /// How conversations are shortened; by default `adaptive`. The strategy `pruning-agent` has the gateway's own trigger
    /// (80 % of the window) unless the policy has one.
    pub policy: CompactionPolicy,
    /// Whether a request that needs a summary waits until it is written. By default it does not: an extract stands in
    /// its place until a summary is ready, which is written between the requests, from 65 % of the window on.
    pub waits_for_summaries: bool,
    /// Whose key an upstream is shown.
    pub credentials: CredentialSource,
    /// Whether an answer that outgrows its window is stopped and goes on after room was made.
    pub midstream: MidstreamMode,
    /// Whether the text of an answer says what is done, beside comments and headers.
    pub notices_in_text: bool,
    /// Whether models can look up what was left out.
    pub recall: RecallMode,
    /// Whether a client's tools are deferred that take much of the window.
    pub defer_tools: ToolDeferralMode,
    /// The largest request that is read, in bytes.
    pub max_body_bytes: usize,
    /// Conversations that are kept ready, at most.
    pub max_conversations: usize,
    /// What all kept conversations may hold of requests, in bytes.
    pub max_conversation_bytes: usize,
    /// How long a stream may be silent before a comment keeps its line alive.
    pub keep_alive: Duration,
    /// Tries of a request at one upstream before its first byte, at least one.
    pub attempts: u32,
    /// How often an answer that breaks off is asked for again, and how long its upstream is waited for then.
    pub retry: RetryPolicy,
}

impl GatewayOptions {
    /// The defaults, with these upstreams.
    pub fn new(upstreams: Vec<UpstreamOptions>) -> Self {
        Self {
            upstreams,
            policy: CompactionPolicy::new(Arc::new(AdaptiveStrategy::default())),
            waits_for_summaries: false,
            credentials: CredentialSource::Own,
            midstream: MidstreamMode::Exact,
            notices_in_text: false,
            recall: RecallMode::Off,
            defer_tools: ToolDeferralMode::Auto,
            max_body_bytes: 128 << 20,
            max_conversations: 512,
            max_conversation_bytes: 256 << 20,
            keep_alive: Duration::from_secs(10),
            attempts: 3,
            retry: RetryPolicy::default(),
        }
    }
}

/// Whose key an upstream is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CredentialSource {
    /// The upstream's own, as configured; the caller's is not passed on.
    #[default]
    Own,
    /// The caller's.
    Forward,
}

/// What is done about an answer that outgrows its window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MidstreamMode {
    /// It is stopped and goes on exactly, where the upstream can.
    #[default]
    Exact,
    /// The same; elsewhere the model is asked to go on, what it repeats is left out, and the answer is called
    /// approximate.
    BestEffort,
    /// It ends as the upstream ends it.
    Off,
}

/// What is done about what a model is no longer shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecallMode {
    /// Nothing: the tools are the client's.
    #[default]
    Off,
    /// The tool `recall` is added to the client's once something is left out. It is answered here, and the client is not
    /// shown that.
    Inject,
}

/// What is done about a client's tools that take much of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolDeferralMode {
    /// Those that take more than a quarter of it are deferred: the model gets as many of them as there is room for, and
    /// finds the others. The client is not shown that it searches, and sees its calls as calls of its own tools.
    #[default]
    Auto,
    /// Nothing: they go out as they are.
    Off,
}

/// What a gateway is given to work with.
#[derive(Clone)]
pub struct GatewayDependencies {
    /// Remembers what was decided for prefixes, and answers that clients go on from by name.
    pub memo: Arc<dyn PrefixCache>,
    /// Counts for a model.
    pub counter: Arc<dyn Fn(&ModelOrigin) -> MessageTokenCounter + Send + Sync>,
    /// Seconds since 1970, for answers that are written here.
    pub now: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// A name that no other answer has.
    pub new_id: Arc<dyn Fn() -> String + Send + Sync>,
    /// What others in this process know of windows, and are told of them.
    pub windows: Arc<dyn SharedWindowStore>,
    /// Who writes summaries where the policy's writer is another model than the one that is talked to; `None`: that one.
    pub summariser: Option<SharedProvider>,
    /// The hook that is asked before a compaction, if there is one.
    pub pre_compact: Option<Arc<dyn PreCompactHook>>,
}

impl Default for GatewayDependencies {
    /// A memo that lives as long as the process, the structured estimate, the system's clock, and names that follow from
    /// it.
    fn default() -> Self {
        let counter = |origin: &ModelOrigin| MessageTokenCounter::default().for_model(&origin.model);
        let made = AtomicU64::new(0);
        let new_id = move || {
            let named = (since_1970().as_nanos(), made.fetch_add(1, Ordering::Relaxed));
            blake3::hash(format!("{named:?}").as_bytes()).to_hex()[..24].to_owned()
        };
        Self {
            memo: Arc::new(MemoryPrefixCache::default()),
            counter: Arc::new(counter),
            now: Arc::new(|| since_1970().as_secs()),
            new_id: Arc::new(new_id),
            windows: Arc::new(NoSharedWindowStore),
            summariser: None,
            pre_compact: None,
        }
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

impl fmt::Debug for GatewayDependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayDependencies").finish_non_exhaustive()
    }
}

/// A request of a client.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    /// How it speaks, as its path says.
    pub dialect: Dialect,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// What the client gets.
#[derive(Debug)]
#[non_exhaustive]
pub struct GatewayReply {
    /// The status.
    pub status: StatusCode,
    /// The headers; hop-by-hop ones and the length are the server's own.
    pub headers: HeaderMap,
    /// The body.
    pub body: ReplyBody,
}

/// The body of a reply.
pub enum ReplyBody {
    /// All of it.
    Whole(Bytes),
    /// As it comes. Dropping it stops the upstream.
    Stream(ReplyStream),
}

/// The pieces of a reply. An error has no words any more: the connection breaks.
pub type ReplyStream = Pin<Box<dyn Stream<Item = Result<Bytes, BrokenAnswerError>> + Send>>;

/// An answer that cannot be ended in its own dialect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the upstream broke off: {0}")]
pub struct BrokenAnswerError(pub String);

impl fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(bytes) => f.debug_tuple("Whole").field(&bytes.len()).finish(),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// A model that clients can ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedModel {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub upstream: String,
    /// Its window in tokens as it was declared or last seen; the view that clients see has no limit.
    pub window: Option<u64>,
}

/// How conversations are shortened, and who writes summaries if not the model that is talked to.
#[derive(Clone)]
pub struct CompactionSetup {
    /// How.
    pub policy: CompactionPolicy,
    /// Who, where the policy's writer is another model.
    pub summariser: Option<SharedProvider>,
}

impl fmt::Debug for CompactionSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactionSetup").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// Takes calls. Cheap to clone; one for a process.
#[derive(Clone)]
pub struct Gateway {
    inner: Arc<GatewayState>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").finish_non_exhaustive()
    }
}

impl Gateway {
    /// Connects nothing yet.
    ///
    /// # Errors
    /// [`SetupError`] if an upstream cannot be used.
    pub fn new(mut config: GatewayOptions, parts: GatewayDependencies) -> Result<Self, SetupError> {
        // Clients are told that their message does not fit: it is theirs to shorten.
        config.policy.cuts_user_messages = false;
        Ok(Self { inner: Arc::new(GatewayState::new(config, parts)?) })
    }

    /// Has each request shortened as `now` says of what is configured: settings may change while the gateway runs. Only
    /// the first such call counts.
    pub fn follow(&self, now: impl Fn(&CompactionSetup) -> CompactionSetup + Send + Sync + 'static) {
        let _ = self.inner.setup_override.set(Box::new(now));
    }

    /// Answers a call. Errors are answers in the caller's dialect.
    pub async fn answer(&self, call: ClientRequest) -> GatewayReply {
        let dialect = call.dialect;
        match self.read(call).await {
            Ok(request) => request.answer().await,
            Err(fault) => refusal_in(dialect, &fault),
        }
    }

    /// Reads a call.
    ///
    /// # Errors
    /// [`GatewayError`] if it cannot be read or nobody has its model.
    pub async fn read(&self, call: ClientRequest) -> Result<GatewayRequest, GatewayError> {
        let (wire, bytes) = (wire(call.dialect), call.body.len());
        let open = || Exchange::open(Arc::clone(&self.inner), wire, call);
        let exchange = self.inner.work_limiter.read(bytes, open).await?.completed().await?;
        Ok(GatewayRequest { wire, exchange })
    }

    /// Counts the input of a request that is not made: `{"input_tokens": N}`, of what an upstream would be sent. The
    /// header `x-longhaul-view` says whether that is the client's history or a shortened one. Nothing is shortened
    /// for it.
    pub async fn count_tokens(&self, call: ClientRequest) -> GatewayReply {
        let dialect = call.dialect;
        match self.read(call).await {
            Ok(request) => request.count_tokens().await,
            Err(fault) => refusal_in(dialect, &fault),
        }
    }

    /// Shortens the conversation of a request of the Responses dialect, and answers with the items that stand for it
    /// (`object: response.compaction`). They are messages that any model can read, but where OpenAI itself is the
    /// upstream: then they are OpenAI's.
    pub async fn compact(&self, call: ClientRequest) -> GatewayReply {
        match self.read(ClientRequest { dialect: Dialect::Responses, ..call }).await {
            Ok(request) => request.compact().await,
            Err(fault) => refusal_in(Dialect::Responses, &fault),
        }
    }

    /// Passes a request without a conversation to its model's server. Errors are answers as OpenAI's API has them.
    pub async fn relay_request(&self, passed: RelayEndpoint, call: ClientRequest) -> GatewayReply {
        let passed = crate::relay::relay_to_upstream(&self.inner, passed, &call.headers, call.body).await;
        passed.unwrap_or_else(|fault| refusal_in(Dialect::Chat, &fault))
    }

    /// The models that clients can ask for by name; upstreams that take any model are not asked for theirs.
    pub fn models(&self) -> Vec<ListedModel> {
        self.inner.targets.models()
    }

    /// Returns whether the server of the configured model is one of the upstreams: then its models can be asked
    /// for, too.
    pub fn has_usual(&self) -> bool {
        self.inner.targets.has_usual()
    }

    /// Waits until nothing is done beside requests: summaries that are tried again after an answer.
    pub async fn settle(&self) {
        self.inner.tasks.settle().await;
    }

    /// Ends what is done beside requests: it is tried again by whoever comes next.
    pub async fn stop(&self) {
        self.inner.tasks.stop().await;
    }

    /// The window that a request for this model would be measured by, at the upstream that is asked first; `None` if
    /// nobody has the model. With `asks` a server that was not asked yet is, and may take a few seconds; else it is
    /// what is known.
    pub async fn window(&self, model: &str, asks: bool) -> Option<KnownWindow> {
        self.inner.targets.window(model, asks).await
    }
}

/// A call that was read.
pub struct GatewayRequest {
    wire: &'static dyn WireCodec,
    exchange: Exchange,
}

impl fmt::Debug for GatewayRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayRequest").field("model", &self.model()).finish_non_exhaustive()
    }
}

impl GatewayRequest {
    /// The model that it asks for; empty if it names none.
    pub fn model(&self) -> &str {
        self.exchange.model()
    }

    /// As [`Gateway::answer`].
    pub async fn answer(self) -> GatewayReply {
        self.exchange.answer().await
    }

    /// As [`Gateway::count_tokens`].
    pub async fn count_tokens(self) -> GatewayReply {
        self.exchange.count().await.unwrap_or_else(|fault| refusal(self.wire, &fault))
    }

    /// As [`Gateway::compact`].
    pub async fn compact(self) -> GatewayReply {
        self.exchange.compact().await.unwrap_or_else(|fault| refusal(self.wire, &fault))
    }
}

/// Why a gateway cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("upstream `{upstream}`: {message}")]
#[non_exhaustive]
pub struct SetupError {
    /// Which.
    pub upstream: String,
    /// What is wrong with it.
    pub message: String,
}

/// The dialect's rules.
pub(crate) fn wire(dialect: Dialect) -> &'static dyn WireCodec {
    match dialect {
        Dialect::Chat => &longhaul_wire::chat::edit::ChatCodec,
        Dialect::Messages => &longhaul_wire::messages::edit::MessagesCodec,
        Dialect::Responses => &longhaul_wire::responses::edit::ResponsesCodec,
    }
}

/// An error as a reply in a dialect: what the server around the gateway has against a request.
pub fn refusal_in(dialect: Dialect, fault: &GatewayError) -> GatewayReply {
    refusal(wire(dialect), fault)
}

/// An error as a reply.
pub(crate) fn refusal(wire: &dyn WireCodec, fault: &GatewayError) -> GatewayReply {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if matches!(fault.kind, GatewayErrorKind::ContextOverflow | GatewayErrorKind::DoesNotFit) {
        headers.insert("x-longhaul-action", HeaderValue::from_static("refused"));
    }
    if let Some(wait) = fault.retry_after {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    GatewayReply { status: fault.status, headers, body: ReplyBody::Whole(wire.error(fault)) }
}
