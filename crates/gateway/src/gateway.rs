//! The gateway's public interface: a client's request comes in, a reply goes out.

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
use longhaul_store::prefix_cache::{MemoryPrefixCache, PrefixCache};

use crate::exchange::{GatewayState, ProxiedRequest, with_previous_response};
use crate::headers;
use crate::hook::PreCompactHook;
use crate::relay::RelayEndpoint;
use crate::upstream::UpstreamOptions;
use crate::window::{KnownWindow, NoSharedWindowStore, SharedWindowStore};
use longhaul_wire::edit::{Dialect, GatewayError, GatewayErrorKind, WireCodec};

/// The options of a gateway. Every option but the upstreams has a default.
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
    /// The upstreams, the preferred first. A model is looked up in their lists. A request for an unlisted model
    /// goes to the upstreams that take any name.
    pub upstreams: Vec<UpstreamOptions>,
    /// The policy that shortens conversations; by default `adaptive`. The strategy `pruning-agent` has the gateway's
    /// own trigger (80 % of the window) unless the policy has one.
    pub policy: CompactionPolicy,
    /// Makes a request that needs a summary wait for it. By default the request gets an extract instead. The summary is
    /// then written between the requests, from 65 % of the window on.
    pub waits_for_summaries: bool,
    /// The credentials for an upstream.
    pub credentials: CredentialSource,
    /// The treatment of an answer too long for its window.
    pub midstream: MidstreamMode,
    /// Repeats notices in the answer's text, beside comments and headers.
    pub notices_in_text: bool,
    /// The model's access to content outside its view.
    pub recall: RecallMode,
    /// The treatment of client tools with a large share of the window.
    pub defer_tools: ToolDeferralMode,
    /// The largest request that is read, in bytes.
    pub max_body_bytes: usize,
    /// The maximum number of conversations in memory.
    pub max_conversations: usize,
    /// The maximum size of all requests in memory, in bytes.
    pub max_conversation_bytes: usize,
    /// The silence of a stream after which a comment keeps the connection alive.
    pub keep_alive: Duration,
    /// The maximum number of tries of a request at one upstream before its first byte, at least one.
    pub attempts: u32,
    /// The limits for asking again after an answer breaks off, and for waiting for its upstream.
    pub retry: RetryPolicy,
}

impl GatewayOptions {
    /// Returns the default options for these upstreams.
    pub fn new(upstreams: Vec<UpstreamOptions>) -> Self {
        Self {
            upstreams,
            policy: CompactionPolicy::new(Arc::new(AdaptiveStrategy::default())),
            // A request that waits may be silent for minutes (decision 0048).
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

/// The credentials for an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CredentialSource {
    /// The upstream's own, as configured; the caller's credentials stay here.
    #[default]
    Own,
    /// The caller's own.
    Forward,
}

/// The treatment of an answer too long for its window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MidstreamMode {
    /// The answer is stopped and continued exactly, where the upstream can continue an answer.
    #[default]
    Exact,
    /// Exact where possible; elsewhere the model is asked to continue. Text that the model repeats is left out, and the
    /// answer is marked approximate.
    BestEffort,
    /// The answer ends as the upstream ends it.
    Off,
}

/// The model's access to content outside its view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecallMode {
    /// None: all tools are the client's.
    #[default]
    Off,
    /// The tool `recall` is added to the client's tools once content is left out. The gateway answers calls of
    /// `recall` and hides the calls from the client.
    Inject,
}

/// The treatment of client tools with a large share of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolDeferralMode {
    /// Tools that take more than a quarter of the window are deferred. The model gets as many tools as fit and
    /// searches for the others. The client sees only calls of its own tools, not the search.
    #[default]
    Auto,
    /// All tools are sent unchanged.
    Off,
}

/// The services for a gateway from its host.
#[derive(Clone)]
pub struct GatewayDependencies {
    /// The memo of decisions for prefixes, and of answers for clients to continue by name.
    pub memo: Arc<dyn PrefixCache>,
    /// Returns the token counter of a model.
    pub counter: Arc<dyn Fn(&ModelOrigin) -> MessageTokenCounter + Send + Sync>,
    /// Returns the seconds since 1970, for answers that the gateway writes.
    pub now: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Returns a unique name for an answer.
    pub new_id: Arc<dyn Fn() -> String + Send + Sync>,
    /// The process's shared store of learned windows.
    pub windows: Arc<dyn SharedWindowStore>,
    /// The writer of summaries, if the policy's writer is another model than the conversation's own.
    pub summariser: Option<SharedProvider>,
    /// The hook for decisions before a compaction.
    pub pre_compact: Option<Arc<dyn PreCompactHook>>,
}

impl Default for GatewayDependencies {
    /// Returns a memo in memory, the structured estimate, the system's clock, and names derived from the clock.
    fn default() -> Self {
        Self {
            memo: Arc::new(MemoryPrefixCache::default()),
            counter: Arc::new(|origin: &ModelOrigin| MessageTokenCounter::default().for_model(&origin.model)),
            now: Arc::new(|| since_1970().as_secs()),
            new_id: Arc::new(id_generator()),
            windows: Arc::new(NoSharedWindowStore),
            summariser: None,
            pre_compact: None,
        }
    }
}

/// Returns a generator of ids derived from the clock.
fn id_generator() -> impl Fn() -> String + Send + Sync {
    let made = AtomicU64::new(0);
    move || {
        // The counter keeps ids apart that are made within one tick of the clock.
        let named = (since_1970().as_nanos(), made.fetch_add(1, Ordering::Relaxed));
        blake3::hash(format!("{named:?}").as_bytes()).to_hex()[..24].to_owned()
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

/// A client's request.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    /// The dialect, which follows from the request's path.
    pub dialect: Dialect,
    /// The request's headers.
    pub headers: HeaderMap,
    /// The request's body.
    pub body: Bytes,
}

/// The gateway's reply to a client.
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
    /// The complete body.
    Whole(Bytes),
    /// A stream of pieces. Dropping the stream stops the upstream.
    Stream(ReplyStream),
}

/// The pieces of a reply. After an error the connection breaks, because the answer cannot be ended in its dialect.
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

/// A model for clients to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedModel {
    /// The model's name.
    pub name: String,
    /// The name of its upstream.
    pub upstream: String,
    /// The window in tokens as declared or last seen. The view that clients see has no limit.
    pub window: Option<u64>,
}

/// The compaction policy and, if it is not the conversation's own model, the writer of summaries.
#[derive(Clone)]
pub struct CompactionSetup {
    /// The policy.
    pub policy: CompactionPolicy,
    /// The writer, if the policy names another model.
    pub summariser: Option<SharedProvider>,
}

impl fmt::Debug for CompactionSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactionSetup").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// The most model calls for one compaction of a client's conversation.
// A client pays for each call. Sessions make up to 32 (decision 0016).
const MAX_SUMMARY_CALLS: usize = 3;

/// A gateway for clients' requests. A clone is cheap; one gateway serves a process.
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
    /// Creates a gateway. No upstream is contacted yet.
    ///
    /// # Errors
    /// [`SetupError`] if an upstream cannot be used.
    pub fn new(mut config: GatewayOptions, parts: GatewayDependencies) -> Result<Self, SetupError> {
        // A client pays for each call. Pinned facts cover the messages that these calls do not read.
        config.policy.max_summary_calls = config.policy.max_summary_calls.min(MAX_SUMMARY_CALLS);
        Ok(Self { inner: Arc::new(GatewayState::new(config, parts)?) })
    }

    /// Sets a function that adapts the configured compaction to the current settings for each request. Settings may
    /// change while the gateway runs. Only the first call of this method has an effect.
    pub fn follow(&self, now: impl Fn(&CompactionSetup) -> CompactionSetup + Send + Sync + 'static) {
        // A second call has no effect, as documented, so its error is ignored.
        let _ = self.inner.setup_override.set(Box::new(now));
    }

    /// Answers a client's request. Errors are replies in the caller's dialect.
    pub async fn answer(&self, call: ClientRequest) -> GatewayReply {
        let dialect = call.dialect;
        match self.read(call).await {
            Ok(request) => request.answer().await,
            Err(fault) => refusal_in(dialect, &fault),
        }
    }

    /// Reads a client's request.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot be read or no upstream has its model.
    pub async fn read(&self, call: ClientRequest) -> Result<GatewayRequest, GatewayError> {
        let (wire, bytes) = (wire(call.dialect), call.body.len());
        // A large body takes milliseconds to parse, and other requests share the thread.
        let opened =
            self.inner.work_limiter.read(bytes, || ProxiedRequest::open(Arc::clone(&self.inner), wire, call));
        let proxied = with_previous_response(opened.await?).await?;
        Ok(GatewayRequest { wire, proxied })
    }

    /// Returns the number of input tokens that an upstream would receive, as `{"input_tokens": N}`. The request is not
    /// sent, and nothing is shortened for the count. The count is of the request as it would go out, like the usage of its
    /// answer: deferred tools and content that earlier requests have left out are not in it. The header `x-longhaul-view`
    /// says whether the count is of the client's own request or of such a view.
    pub async fn count_tokens(&self, call: ClientRequest) -> GatewayReply {
        let dialect = call.dialect;
        match self.read(call).await {
            Ok(request) => request.count_tokens().await,
            Err(fault) => refusal_in(dialect, &fault),
        }
    }

    /// Compacts the conversation of a Responses request and returns the items that replace it (`object:
    /// response.compaction`). Any model can read these messages. If OpenAI is the upstream, the items are OpenAI's own.
    pub async fn compact(&self, call: ClientRequest) -> GatewayReply {
        match self.read(ClientRequest { dialect: Dialect::Responses, ..call }).await {
            Ok(request) => request.compact().await,
            Err(fault) => refusal_in(Dialect::Responses, &fault),
        }
    }

    /// Relays a request without a conversation to its model's server. Errors have the form of OpenAI's API.
    pub async fn relay_request(&self, passed: RelayEndpoint, call: ClientRequest) -> GatewayReply {
        let passed = crate::relay::relay_to_upstream(&self.inner, passed, &call.headers, call.body).await;
        passed.unwrap_or_else(|fault| refusal_in(Dialect::Chat, &fault))
    }

    /// Returns the models known by name. Upstreams that take any model are not queried.
    pub fn models(&self) -> Vec<ListedModel> {
        self.inner.targets.models()
    }

    /// Returns whether the configured model's server is one of the upstreams. If so, clients can ask for its models,
    /// too.
    pub fn has_usual(&self) -> bool {
        self.inner.targets.has_usual()
    }

    /// Waits for the end of the background work: summaries tried again after an answer.
    pub async fn settle(&self) {
        self.inner.tasks.settle().await;
    }

    /// Stops the background work. The next request of the conversation tries it again.
    pub async fn stop(&self) {
        self.inner.tasks.stop().await;
    }

    /// Returns the window that measures a request for this model at the first upstream; `None` if no upstream
    /// has the model. With `asks` a server is queried if necessary, within a few seconds. Without `asks` only
    /// known limits count.
    pub async fn window(&self, model: &str, asks: bool) -> Option<KnownWindow> {
        self.inner.targets.window(model, asks).await
    }
}

/// A client's request that has been read.
pub struct GatewayRequest {
    wire: &'static dyn WireCodec,
    proxied: ProxiedRequest,
}

impl fmt::Debug for GatewayRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayRequest").field("model", &self.model()).finish_non_exhaustive()
    }
}

impl GatewayRequest {
    /// Returns the model named in the request; empty if there is none.
    pub fn model(&self) -> &str {
        self.proxied.model()
    }

    /// Answers the request, see [`Gateway::answer`].
    pub async fn answer(self) -> GatewayReply {
        self.proxied.answer().await
    }

    /// Counts the request's input, see [`Gateway::count_tokens`].
    pub async fn count_tokens(self) -> GatewayReply {
        self.proxied.count().await.unwrap_or_else(|fault| refusal(self.wire, &fault))
    }

    /// Compacts the request's conversation, see [`Gateway::compact`].
    pub async fn compact(self) -> GatewayReply {
        self.proxied.compact().await.unwrap_or_else(|fault| refusal(self.wire, &fault))
    }
}

/// An unusable upstream option.
#[derive(Debug, thiserror::Error)]
#[error("upstream `{upstream}`: {message}")]
#[non_exhaustive]
pub struct SetupError {
    /// The upstream's name.
    pub upstream: String,
    /// The problem.
    pub message: String,
}

/// Returns the codec of a dialect.
pub(crate) fn wire(dialect: Dialect) -> &'static dyn WireCodec {
    match dialect {
        Dialect::Chat => &longhaul_wire::chat::edit::ChatCodec,
        Dialect::Messages => &longhaul_wire::messages::edit::MessagesCodec,
        Dialect::Responses => &longhaul_wire::responses::edit::ResponsesCodec,
    }
}

/// Returns an error as a reply in a dialect, for a server that refuses a request before the gateway reads it.
pub fn refusal_in(dialect: Dialect, fault: &GatewayError) -> GatewayReply {
    refusal(wire(dialect), fault)
}

/// Returns an error as a reply.
pub(crate) fn refusal(wire: &dyn WireCodec, fault: &GatewayError) -> GatewayReply {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if matches!(fault.kind, GatewayErrorKind::ContextOverflow | GatewayErrorKind::DoesNotFit) {
        headers.insert("x-longhaul-action", HeaderValue::from_static("refused"));
    }
    if let Some(wait) = fault.retry_after {
        headers::say_retry_after(&mut headers, wait);
    }
    GatewayReply { status: fault.status, headers, body: ReplyBody::Whole(wire.error_body(fault)) }
}
