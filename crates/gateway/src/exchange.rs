//! One client request from arrival to answer: parsing, the choice of an upstream, compaction, and the way back.

use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::block_in_place;
use tracing::Instrument;

use crate::gateway::{
    ClientRequest, CompactionSetup, CredentialSource, GatewayDependencies, GatewayOptions, GatewayReply,
    ReplyBody, ReplyStream, SetupError, refusal,
};
use crate::headers::{self, RequestOverrides};
use crate::response_store::ResponseStore;
use crate::upstream::{UpstreamDirectory, UpstreamTarget};
use longhaul_providers::connect::Kind;
use longhaul_wire::edit::deferral::ToolDeferral;
use longhaul_wire::edit::{Dialect, GatewayError, GatewayErrorKind, RequestEnvelope, WireCodec};

mod additional_tools;
mod answer_tail;
mod attempts;
mod background_summary;
mod cache;
mod client_tools;
mod compact;
mod compaction_item;
mod context_management;
mod conversation;
mod cut_answers;
mod deferred_tools;
mod driver;
mod flow;
mod gateway_tools;
mod in_context;
mod item_reader;
mod journal;
mod late_reading;
mod log;
mod memo_lookup;
mod outbound_writer;
mod part_refusals;
mod pre_compact;
mod prepare;
mod previous_response;
mod recall;
mod render_ops;
mod replicas;
mod request_budget;
mod request_log;
mod request_pauses;
mod send;
mod summary;
mod summary_writers;
mod targeted_request;
mod translate;
mod upstream_client;
mod upstream_errors;
mod upstream_response;
mod usage_totals;
mod view_editor;

use background_summary::{GatewayTasks, SummaryStarts};
use cache::{ConversationCache, ParseCache};
use context_management::ContextManagement;
use deferred_tools::DeferralCache;
use driver::ExchangeDriver;
use late_reading::LateReading;
use memo_lookup::SingleFlight;
use pre_compact::HookOutputCache;
use prepare::RequestFitter;
pub(crate) use previous_response::with_previous_response;
use recall::HiddenToolCalls;
pub(crate) use replicas::LoadGuard;
use request_pauses::RequestPausesByConversation;
use summary_writers::{JsonSupport, WriterRecords};
use targeted_request::TargetedRequest;
pub(crate) use upstream_errors::reword_error;

/// The state shared by all exchanges.
pub(crate) struct GatewayState {
    pub(crate) config: GatewayOptions,
    pub(crate) parts: GatewayDependencies,
    pub(crate) targets: UpstreamDirectory,
    pub(crate) conversations: ConversationCache,
    pub(crate) parse_cache: ParseCache,
    pub(crate) work_limiter: WorkLimiter,
    pub(crate) single_flight: SingleFlight,
    pub(crate) json_support: JsonSupport,
    pub(crate) writers: WriterRecords,
    pub(crate) begun: SummaryStarts,
    pub(crate) tasks: GatewayTasks,
    /// The pictures and files refused by upstreams.
    pub(crate) part_refusals: part_refusals::PartRefusalCache,
    /// The tool calls hidden from clients.
    pub(crate) hidden_tool_calls: HiddenToolCalls,
    /// The pauses between the requests of a conversation.
    request_pauses: RequestPausesByConversation,
    /// The decisions about clients' tool lists.
    deferrals: DeferralCache,
    /// The answers for clients to continue by name.
    pub(crate) answers: ResponseStore,
    /// The function for applying the current settings to the configuration.
    pub(crate) setup_override: OnceLock<SetupOverride>,
    /// The newest answers of the PreCompact hook.
    hook_answers: HookOutputCache,
}

/// The largest request for a parse on the async thread, in bytes. Finding the fields takes at most a
/// millisecond.
const READ_BYTES: usize = 2 << 20;

/// The largest amount of new content for the async thread, in bytes. The work takes a few milliseconds at most.
const NEW_BYTES: usize = 256 << 10;

/// A limiter for the CPU work on large requests, one at a time for each core. Small requests need not wait.
pub(crate) struct WorkLimiter {
    seats: Semaphore,
}

impl WorkLimiter {
    pub(crate) fn new() -> Self {
        // More work at once than cores makes each request slower and none faster.
        Self { seats: Semaphore::new(available_parallelism().map_or(1, usize::from)) }
    }

    /// Runs the parse of a request with this many bytes.
    pub(crate) async fn read<T>(&self, bytes: usize, read: impl FnOnce() -> T) -> T {
        if bytes <= READ_BYTES { read() } else { self.work(bytes, read).await }
    }

    /// Runs work on this many new bytes. Meanwhile the other tasks of this thread move to another thread; a
    /// single-threaded runtime has to wait.
    pub(crate) async fn work<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        let has_others = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        if bytes <= NEW_BYTES || !has_others {
            return work();
        }
        // The semaphore is never closed, so acquiring cannot fail.
        let _seat = self.seats.acquire().await;
        block_in_place(work)
    }
}

/// Returns the current compaction setup for a configured one.
type SetupOverride = Box<dyn Fn(&CompactionSetup) -> CompactionSetup + Send + Sync>;

impl GatewayState {
    pub(crate) fn new(mut config: GatewayOptions, parts: GatewayDependencies) -> Result<Self, SetupError> {
        let targets = UpstreamDirectory::new(std::mem::take(&mut config.upstreams), &parts.windows)?;
        let conversations = ConversationCache::new(config.max_conversations, config.max_conversation_bytes);
        Ok(Self {
            answers: ResponseStore::new(Arc::clone(&parts.memo)),
            config,
            parts,
            targets,
            conversations,
            parse_cache: ParseCache::default(),
            work_limiter: WorkLimiter::new(),
            single_flight: SingleFlight::default(),
            json_support: JsonSupport::default(),
            writers: WriterRecords::default(),
            begun: SummaryStarts::default(),
            hook_answers: HookOutputCache::default(),
            tasks: GatewayTasks::default(),
            part_refusals: part_refusals::PartRefusalCache::default(),
            hidden_tool_calls: HiddenToolCalls::default(),
            request_pauses: RequestPausesByConversation::default(),
            deferrals: DeferralCache::default(),
            setup_override: OnceLock::new(),
        })
    }

    fn shortening(&self) -> CompactionSetup {
        let policy = self.config.policy.clone();
        let configured = CompactionSetup { policy, summariser: self.parts.summariser.clone() };
        match self.setup_override.get() {
            Some(now) => now(&configured),
            None => configured,
        }
    }
}

/// One client request in progress.
#[derive(Clone)]
pub(crate) struct ProxiedRequest {
    inner: Arc<GatewayState>,
    wire: &'static dyn WireCodec,
    envelope: Arc<RequestEnvelope>,
    /// The targets with the model, the preferred first.
    targets: Vec<Arc<UpstreamTarget>>,
    /// The caller's headers as the upstream gets them.
    headers: HeaderMap,
    caller: [u8; 32],
    /// The forwarded key of the caller, if any.
    key: Option<String>,
    overrides: RequestOverrides,
    /// Set if the client's request continues none of the remembered requests.
    is_new: bool,
    /// The context management requested by the client.
    context_management: Option<ContextManagement>,
    /// The retention of the answer, if the client may continue it by name.
    response_retention: Option<previous_response::ResponseRetention>,
    /// The arrival time of the request.
    received_at: Instant,
    /// `true` if the pauses of the conversation call for a cache that lives for an hour; computed when first needed.
    has_long_pauses: OnceLock<bool>,
    /// The name of the conversation, computed when first needed.
    conversation_key: OnceLock<[u8; 32]>,
    /// The client's tools, if some are deferred. `envelope` is the shortened request then.
    deferral: Option<Arc<ToolDeferral>>,
}

/// The exchange at one upstream.
///
/// The parts that outlive one step are owned: the request, its fitter, the omissions. The fitter owns the editor of the
/// view, and the editor the budget, the memo and the totals, because a background summary goes on with a copy of the
/// editor alone. The other parts ([`UpstreamAttempt::client`], [`UpstreamAttempt::review`] and so on) borrow what they
/// need for one step, so nothing is held twice.
struct UpstreamAttempt {
    request: Arc<TargetedRequest>,
    fitter: RequestFitter,
    /// The reading of a request sent unread.
    late_reading: Option<LateReading>,
    /// The parts left out because of the upstream's refusals.
    omissions: part_refusals::RequestOmissions,
    /// Counts the attempt as a request in flight at the upstream.
    _load: LoadGuard,
}

/// The compaction of a request, for the response headers.
#[derive(Clone, Debug, Default, PartialEq)]
struct PreparationReport {
    action: PreparationAction,
    before: u64,
    after: u64,
    why: String,
    /// The value of `context_management` in the answer, if the client expects one.
    applied_edits: Option<String>,
}

impl PreparationReport {
    /// Returns whether something was shortened for the request.
    fn has_acted(&self) -> bool {
        matches!(self.action, PreparationAction::Pruned | PreparationAction::Compacted)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PreparationAction {
    #[default]
    None,
    Pruned,
    Compacted,
    /// An edit that was made before this request applies to it.
    Remembered,
}

impl PreparationAction {
    fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pruned => "pruned",
            Self::Compacted => "compacted",
            Self::Remembered => "remembered",
        }
    }
}

/// The start of an upstream's answer.
enum UpstreamDisposition {
    /// A complete answer.
    Whole(StatusCode, HeaderMap, Bytes),
    /// A stream.
    Stream(StatusCode, HeaderMap, ReplyStream),
    /// A stream with an error instead of an answer.
    Failed(GatewayError, StatusCode, HeaderMap, ReplyStream),
}

impl ProxiedRequest {
    /// Reads a client's request.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot be read or no upstream has its model.
    pub(crate) fn open(
        inner: Arc<GatewayState>,
        wire: &'static dyn WireCodec,
        call: ClientRequest,
    ) -> Result<Self, GatewayError> {
        if call.body.len() > inner.config.max_body_bytes {
            let (has, most) = (call.body.len(), inner.config.max_body_bytes);
            let message = format!("the request has {has} bytes; {most} are the most that is read");
            return Err(GatewayError::new(GatewayErrorKind::TooLarge, message));
        }
        // The headers are cheap to read, so a wrong one is refused before the body is parsed.
        let overrides = RequestOverrides::read(&call.headers)
            .map_err(|why| GatewayError::new(GatewayErrorKind::Invalid, why))?;
        let caller = headers::hash_caller(&call.headers);
        let (mut envelope, mut is_new) = inner.parse_cache.read_noting_new(wire, &caller, call.body)?;
        if let Some(opened) = compaction_item::with_sealed_opened(wire.dialect(), &envelope)? {
            // A request with an opened compaction differs from the client's bytes, so it is never sent unread.
            (envelope, is_new) = (inner.parse_cache.read(wire, &caller, opened)?, false);
        }
        let targets = inner.targets.find(&envelope.model)?;
        let context_management = ContextManagement::read(wire.dialect(), &envelope)?;
        let forward = inner.config.credentials == CredentialSource::Forward;
        let key = if forward { key_of(&call.headers) } else { None };
        Ok(Self {
            caller,
            headers: headers::for_upstream(&call.headers, forward),
            key,
            wire,
            envelope,
            targets,
            overrides,
            is_new,
            context_management,
            response_retention: None,
            received_at: Instant::now(),
            has_long_pauses: OnceLock::new(),
            conversation_key: OnceLock::new(),
            deferral: None,
            inner,
        })
    }

    /// Returns the requested model; empty if the request names none.
    pub(crate) fn model(&self) -> &str {
        &self.envelope.model
    }

    /// Forwards the request and returns the reply. A stream whose answer is slow starts with comments, so that no proxy
    /// between closes the silent connection.
    pub(crate) async fn answer(self) -> GatewayReply {
        let exchange = Arc::new(self);
        let (wire, patience) = (exchange.wire, exchange.inner.config.keep_alive);
        let is_stream = exchange.envelope.stream;
        // Pinned, because the future goes on in the stream after the time-out has taken it by reference.
        let mut opening =
            Box::pin(Arc::clone(&exchange).open_answer().instrument(request_log::span(&exchange)));
        // A client without a stream cannot be given comments, so it waits for the whole answer.
        if !is_stream {
            return opening.await.map_or_else(|fault| refusal(wire, &fault), reply);
        }
        match tokio::time::timeout(patience, &mut opening).await {
            Ok(opened) => opened.map_or_else(|fault| refusal(wire, &fault), reply),
            Err(_) => {
                let mut headers = HeaderMap::new();
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
                headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
                headers::set_header(&mut headers, "x-longhaul-action", "waiting");
                // The status line goes out now. A later error arrives in the stream.
                let stream = flow::delayed_stream(wire, patience, opening);
                GatewayReply { status: StatusCode::OK, headers, body: ReplyBody::Stream(stream) }
            }
        }
    }

    /// Returns a further field of the request as JSON, unless the field is absent or null.
    pub(crate) fn non_null_field(&self, name: &str) -> Option<&str> {
        self.envelope.other(name).filter(|raw| *raw != "null")
    }

    /// Returns the client's wishes if the gateway must carry them out, because the upstream does not know the
    /// field.
    fn context_management_at(&self, target: &UpstreamTarget) -> Option<&ContextManagement> {
        self.context_management.as_ref().filter(|_| !self.is_providers_own(target))
    }

    /// Returns whether the upstream is of the provider whose API the client speaks, and so knows that API's own tools
    /// and fields.
    fn is_providers_own(&self, target: &UpstreamTarget) -> bool {
        let kind = target.server.upstream.kind;
        match self.wire.dialect() {
            Dialect::Messages => kind == Kind::Anthropic,
            Dialect::Responses => kind == Kind::OpenAi,
            Dialect::Chat => false,
        }
    }

    /// Returns the number of input tokens at the preferred upstream.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot be read.
    pub(crate) async fn count(self) -> Result<GatewayReply, GatewayError> {
        let exchange = Arc::new(self);
        let target = replicas::ordered_targets(&exchange).into_iter().next().ok_or_else(no_upstream)?;
        let exchange = exchange.with_tools_for(&target)?.with_tools_deferred(&target).await;
        let mut route = UpstreamAttempt::find(exchange, target, Arc::default()).await;
        let (tokens, is_shortened) = route.fitter.count().await?;
        // A list without its deferred tools is not the client's, although the client's messages are all there.
        let is_shortened = is_shortened || route.request.proxied.deferral.is_some();
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers::set_header(
            &mut headers,
            "x-longhaul-view",
            if is_shortened { "shortened" } else { "client" },
        );
        headers::set_header(&mut headers, "x-longhaul-window", &route.budget().window_said());
        route.budget().say_deferred(&mut headers);
        let body = serde_json::json!({ "input_tokens": tokens }).to_string().into();
        Ok(GatewayReply { status: StatusCode::OK, headers, body: ReplyBody::Whole(body) })
    }

    /// Returns the items of the conversation, compacted for the preferred upstream.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot be read, or there is no answer.
    pub(crate) async fn compact(self) -> Result<GatewayReply, GatewayError> {
        let exchange = Arc::new(self);
        let target = replicas::ordered_targets(&exchange).into_iter().next().ok_or_else(no_upstream)?;
        let exchange = exchange.with_tools_for(&target)?;
        let attempt = UpstreamAttempt::find(exchange, target, Arc::default()).await;
        Ok(reply(Box::pin(compact::compact(attempt)).await?))
    }

    /// Returns the beginning of the answer, and logs arrival and failure.
    async fn open_answer(self: Arc<Self>) -> Result<UpstreamDisposition, GatewayError> {
        request_log::log_arrival(&self);
        // Boxed: the future is large, and every caller of this one would hold it.
        let opened = Box::pin(Arc::clone(&self).go()).await;
        // A stream that begins with an error is a failed request, whatever its status.
        if let Err(fault) | Ok(UpstreamDisposition::Failed(fault, ..)) = &opened {
            request_log::log_failure(&self, fault);
        }
        opened
    }

    /// Answers a compaction that Codex asks for with an ordinary request, or drives the exchange.
    async fn go(self: Arc<Self>) -> Result<UpstreamDisposition, GatewayError> {
        // Such a request must not reach an upstream as one.
        if let Some(compaction) = compaction_item::triggered_compaction(&self).await? {
            return Ok(compaction);
        }
        ExchangeDriver::new(self).run().await
    }
}

/// Returns the error of a request without an upstream.
fn no_upstream() -> GatewayError {
    GatewayError::new(GatewayErrorKind::Internal, "there is no upstream")
}

fn key_of(headers: &HeaderMap) -> Option<String> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.map(|value| value.trim_start_matches("Bearer ").to_owned());
    let others = ["x-api-key", "api-key", "x-goog-api-key"];
    let other = others.into_iter().find_map(|name| headers.get(name)?.to_str().ok());
    bearer.or_else(|| other.map(str::to_owned))
}

fn reply(opened: UpstreamDisposition) -> GatewayReply {
    match opened {
        UpstreamDisposition::Whole(status, headers, body) => {
            GatewayReply { status, headers, body: ReplyBody::Whole(body) }
        }
        UpstreamDisposition::Stream(status, headers, body)
        | UpstreamDisposition::Failed(_, status, headers, body) => {
            GatewayReply { status, headers, body: ReplyBody::Stream(body) }
        }
    }
}
