//! One client request from arrival to answer: parsing, the choice of an upstream, compaction, and the way back.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use longhaul_core::budget::{Budget, StrategyTrigger};
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy;
use longhaul_providers::{Limits, ProviderError, SharedProvider};
use tokio::sync::oneshot;
use tracing::Instrument;

use crate::gateway::{
    ClientRequest, CompactionSetup, CredentialSource, GatewayDependencies, GatewayOptions, GatewayReply,
    ReplyBody, ReplyStream, SetupError, refusal,
};
use crate::headers::{self, RequestOverrides};
use crate::response_store::ResponseStore;
use crate::upstream::{DialectSupport, UpstreamDirectory, UpstreamTarget};
use crate::window::KnownWindow;
use longhaul_wire::edit::deferral::ToolDeferral;
use longhaul_wire::edit::{Dialect, GatewayError, GatewayErrorKind, RequestEdit, RequestEnvelope, WireCodec};

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
mod deferred_tools;
mod fallback_summary;
mod flow;
mod in_context;
mod journal;
mod json_support;
mod late_reading;
mod log;
mod memo_lookup;
mod omitted;
mod parse_cache;
mod pre_compact;
mod prepare;
mod previous_response;
mod recall;
mod render_ops;
mod replicas;
mod request_log;
mod retries;
mod send;
mod single_flight;
mod summary;
mod summary_starts;
mod summary_writers;
mod translate;
mod upstream_errors;
mod upstream_response;
mod usage_totals;
mod work_limiter;

use background_summary::GatewayTasks;
use cache::ConversationCache;
use context_management::ContextManagement;
use conversation::GatewayConversation;
use deferred_tools::DeferralCache;
use json_support::JsonSupport;
use late_reading::LateReading;
use parse_cache::ParseCache;
use pre_compact::HookOutputCache;
use recall::HiddenToolCalls;
pub(crate) use replicas::LoadGuard;
use single_flight::SingleFlight;
use summary_starts::SummaryStarts;
use summary_writers::WriterRecords;
use usage_totals::UsageTotals;
use work_limiter::WorkLimiter;

/// The state that all exchanges share.
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
    /// The pictures and files that upstreams have refused.
    pub(crate) part_refusals: omitted::PartRefusalCache,
    /// The tool calls that clients were not shown.
    pub(crate) hidden_tool_calls: HiddenToolCalls,
    /// The decisions about clients' tool lists.
    deferrals: DeferralCache,
    /// The answers that clients continue by name.
    pub(crate) answers: ResponseStore,
    /// The function that applies the current settings to the configuration.
    pub(crate) setup_override: OnceLock<SetupOverride>,
    /// The newest answers of the PreCompact hook.
    hook_answers: HookOutputCache,
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
            part_refusals: omitted::PartRefusalCache::default(),
            hidden_tool_calls: HiddenToolCalls::default(),
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
pub(crate) struct Exchange {
    inner: Arc<GatewayState>,
    wire: &'static dyn WireCodec,
    envelope: Arc<RequestEnvelope>,
    /// The targets that have the model, the preferred first.
    targets: Vec<Arc<UpstreamTarget>>,
    /// The caller's headers as the upstream gets them.
    headers: HeaderMap,
    caller: [u8; 32],
    /// The caller's key, if it is forwarded.
    key: Option<String>,
    overrides: RequestOverrides,
    /// Set if the request, as the client sent it, continues no request that the gateway remembers.
    is_new: bool,
    /// The context management that the client asks its provider for.
    context_management: Option<ContextManagement>,
    /// The retention of the answer, if the client may continue it by name.
    response_retention: Option<previous_response::ResponseRetention>,
    /// The arrival time of the request.
    received_at: Instant,
    /// The name of the conversation, computed when first needed.
    conversation_key: OnceLock<[u8; 32]>,
    /// The client's tools, if some are deferred. `envelope` is the shortened request then.
    deferral: Option<Arc<ToolDeferral>>,
}

/// The exchange at one upstream.
struct UpstreamAttempt {
    exchange: Arc<Exchange>,
    target: Arc<UpstreamTarget>,
    limits: Limits,
    window: KnownWindow,
    policy: CompactionPolicy,
    /// The configured compaction, before substitutes and the request's overrides.
    compaction_setup: CompactionSetup,
    conversation: Option<Arc<GatewayConversation>>,
    /// The reading of a request that was sent unread.
    late_reading: Option<LateReading>,
    totals: Arc<UsageTotals>,
    /// The output limit that a refusal has left for the answer, in tokens.
    max_output_tokens: Option<u64>,
    /// The parts that were left out because the upstream refuses them.
    omissions: omitted::RequestOmissions,
    /// The reason why the model gets no `recall` tool, computed when first needed.
    no_recall_reason: OnceLock<Option<&'static str>>,
    /// Dropped with the attempt: background work that waits for the end of the request starts then.
    over: OnceLock<oneshot::Sender<()>>,
    /// Set once the upstream has begun an answer.
    is_answered: Arc<AtomicBool>,
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
    /// Returns whether something was shortened for this request.
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
    /// A decision for an earlier request applies to this one.
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
    /// A stream that carries this error instead of an answer.
    Failed(GatewayError, StatusCode, HeaderMap, ReplyStream),
}

impl Exchange {
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
        let overrides = RequestOverrides::read(&call.headers)
            .map_err(|why| GatewayError::new(GatewayErrorKind::Invalid, why))?;
        let caller = headers::hash_caller(&call.headers);
        let (mut envelope, mut is_new) = inner.parse_cache.read_noting_new(wire, &caller, call.body)?;
        if let Some(opened) = compaction_item::with_sealed_opened(wire.dialect(), &envelope)? {
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
        let mut opening = Box::pin(Arc::clone(&exchange).open_answer().instrument(exchange.span()));
        if !is_stream {
            return opening.await.map_or_else(|fault| refusal(wire, &fault), reply);
        }
        match tokio::time::timeout(patience, &mut opening).await {
            Ok(opened) => opened.map_or_else(|fault| refusal(wire, &fault), reply),
            Err(_) => {
                let mut headers = HeaderMap::new();
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
                headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
                headers::say(&mut headers, "x-longhaul-action", "waiting");
                let stream = flow::delayed_stream(wire, patience, opening);
                GatewayReply { status: StatusCode::OK, headers, body: ReplyBody::Stream(stream) }
            }
        }
    }

    /// Returns the input tokens that the preferred upstream would receive.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot be read.
    pub(crate) async fn count(self) -> Result<GatewayReply, GatewayError> {
        let exchange = Arc::new(self);
        let no_target = || GatewayError::new(GatewayErrorKind::Internal, "there is no upstream");
        let target = exchange.ordered_targets().into_iter().next().ok_or_else(no_target)?;
        let exchange = exchange.with_input_tools_listed(&target)?.with_tools_deferred(&target).await;
        let mut route = UpstreamAttempt::find(exchange, target).await;
        let (tokens, is_shortened) = route.count().await?;
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers::say(&mut headers, "x-longhaul-view", if is_shortened { "shortened" } else { "client" });
        headers::say(&mut headers, "x-longhaul-window", &route.window_said());
        let body = serde_json::json!({ "input_tokens": tokens }).to_string().into();
        Ok(GatewayReply { status: StatusCode::OK, headers, body: ReplyBody::Whole(body) })
    }

    /// Returns the items that replace the conversation, compacted for the preferred upstream.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot be read, or there is no answer.
    pub(crate) async fn compact(self) -> Result<GatewayReply, GatewayError> {
        let exchange = Arc::new(self);
        let no_target = || GatewayError::new(GatewayErrorKind::Internal, "there is no upstream");
        let target = exchange.ordered_targets().into_iter().next().ok_or_else(no_target)?;
        let exchange = exchange.with_input_tools_listed(&target)?;
        Ok(reply(UpstreamAttempt::find(exchange, target).await.compact().await?))
    }

    /// Returns the beginning of the answer, and logs arrival and failure.
    async fn open_answer(self: Arc<Self>) -> Result<UpstreamDisposition, GatewayError> {
        self.log_arrival();
        let opened = Arc::clone(&self).go().await;
        if let Err(fault) | Ok(UpstreamDisposition::Failed(fault, ..)) = &opened {
            self.log_failure(fault);
        }
        opened
    }

    /// Tries the upstreams that have the model in turn, as long as the next one may do better.
    async fn go(self: Arc<Self>) -> Result<UpstreamDisposition, GatewayError> {
        if let Some(compaction) = self.triggered_compaction().await? {
            return Ok(compaction);
        }
        let mut newest = None;
        let totals = Arc::<UsageTotals>::default();
        let mut targets = self.ordered_targets().into_iter().peekable();
        while let Some(target) = targets.next() {
            let opened = self.readable(&target, self.at(&target, &totals).await);
            target.server.set_reachable(!is_unreachable(&opened));
            if !is_for_the_next(&opened) {
                return opened;
            }
            if let Some(next) = targets.peek() {
                let (failed, next) = (&target.server.upstream.name, &next.server.upstream.name);
                tracing::warn!(upstream = failed, next, why = failure(&opened), "the next upstream is asked");
            }
            totals.try_elsewhere();
            newest = Some(opened);
        }
        newest.unwrap_or_else(|| Err(GatewayError::new(GatewayErrorKind::Internal, "there is no upstream")))
    }

    /// Sends the request to one upstream, in the caller's dialect if the upstream speaks it.
    async fn at(
        self: &Arc<Self>,
        target: &Arc<UpstreamTarget>,
        totals: &Arc<UsageTotals>,
    ) -> Result<UpstreamDisposition, GatewayError> {
        let exchange = Arc::clone(self).with_input_tools_listed(target)?.with_tools_deferred(target).await;
        let find = || UpstreamAttempt::find(Arc::clone(&exchange), Arc::clone(target));
        let with_totals = |route: UpstreamAttempt| UpstreamAttempt { totals: Arc::clone(totals), ..route };
        let route = with_totals(find().await);
        if route.needs_translation() {
            return route.go().await;
        }
        let is_sure = target.speaks(self.wire.dialect()) == DialectSupport::Yes;
        let opened = route.go().await;
        let has_no_path = |opened: &UpstreamDisposition| match opened {
            UpstreamDisposition::Whole(status, ..) => {
                matches!(
                    *status,
                    StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED
                )
            }
            UpstreamDisposition::Stream(..) | UpstreamDisposition::Failed(..) => false,
        };
        if is_sure || !opened.as_ref().is_ok_and(has_no_path) {
            return opened;
        }
        // The upstream may only lack this dialect's path. If the translated request fails, too, the first answer was
        // the better explanation, and the verdict about the dialect is withdrawn.
        target.does_not_speak(self.wire.dialect(), true);
        totals.try_elsewhere();
        let crossed = with_totals(find().await).go().await;
        if crossed.is_err() {
            target.does_not_speak(self.wire.dialect(), false);
            return opened;
        }
        crossed
    }
}

/// Returns the reason why an upstream gave no answer, for the log.
fn failure(opened: &Result<UpstreamDisposition, GatewayError>) -> String {
    match opened {
        Ok(UpstreamDisposition::Whole(status, ..)) => status.to_string(),
        Ok(UpstreamDisposition::Failed(fault, ..)) | Err(fault) => fault.message.clone(),
        Ok(UpstreamDisposition::Stream(..)) => String::new(),
    }
}

/// Returns whether the upstream could not be reached.
fn is_unreachable(opened: &Result<UpstreamDisposition, GatewayError>) -> bool {
    opened.as_ref().is_err_and(|fault| fault.kind == GatewayErrorKind::Unreachable)
}

/// Returns whether another upstream may do better. The failed one is unreachable, overloaded or broken, and has sent
/// nothing of an answer yet.
fn is_for_the_next(opened: &Result<UpstreamDisposition, GatewayError>) -> bool {
    match opened {
        Ok(UpstreamDisposition::Whole(status, ..)) => {
            status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS
        }
        Ok(UpstreamDisposition::Stream(..)) => false,
        Ok(UpstreamDisposition::Failed(fault, ..)) | Err(fault) => matches!(
            fault.kind,
            GatewayErrorKind::Unreachable
                | GatewayErrorKind::Timeout
                | GatewayErrorKind::RateLimit
                | GatewayErrorKind::Upstream
        ),
    }
}

impl UpstreamAttempt {
    async fn find(exchange: Arc<Exchange>, target: Arc<UpstreamTarget>) -> Self {
        let load = LoadGuard::new(&target.server.in_flight);
        let limits = target.limits().await;
        let window = target.window(&limits);
        let overrides = &exchange.overrides;
        let shortening = exchange.inner.shortening();
        let mut policy = shortening.policy.clone();
        if let Some(strategy) = overrides.strategy.as_deref().and_then(strategy::by_name) {
            policy.strategy = strategy;
            // The configured trigger was chosen for the configured strategy.
            policy.trigger = None;
        }
        let strategy = policy.strategy.name();
        let configured = policy.trigger;
        let wanted = exchange.context_management_at(&target).and_then(ContextManagement::trigger);
        // A client may have its conversation compacted earlier than the operator wants, but not later.
        let asked = wanted.map(|wanted| {
            let budget = Budget::new(window.tokens, limits.max_output);
            let is_later = |limit: &StrategyTrigger| budget.trigger(*limit) < budget.trigger(wanted);
            configured.filter(is_later).unwrap_or(wanted)
        });
        let set = overrides.trigger.or(asked).or(configured);
        policy.trigger = set.or_else(|| prepare::trigger(strategy, window.tokens));
        policy.enabled &= !overrides.off;
        let route = Self {
            exchange,
            target,
            limits,
            window,
            policy: policy.clone(),
            compaction_setup: shortening,
            conversation: None,
            late_reading: None,
            totals: Arc::default(),
            max_output_tokens: None,
            omissions: omitted::RequestOmissions::default(),
            no_recall_reason: OnceLock::new(),
            over: OnceLock::new(),
            is_answered: Arc::default(),
            _load: load,
        };
        Self { policy: route.able(policy), ..route }
    }

    /// Returns whether the upstream does not speak the caller's dialect, so that the request is translated.
    fn needs_translation(&self) -> bool {
        self.target.speaks(self.exchange.wire.dialect()) == DialectSupport::No
    }

    /// Returns the provider for the model in its server's own dialect, with the key that the caller's requests use.
    ///
    /// # Errors
    /// [`ProviderError`] if the provider cannot be built.
    fn provider(&self) -> Result<SharedProvider, ProviderError> {
        match self.exchange.inner.config.credentials {
            CredentialSource::Own => Ok(self.target.provider()),
            CredentialSource::Forward => self.target.provider_of_caller(self.exchange.key.as_deref()),
        }
    }

    /// Runs work whose time depends on the size of the request.
    async fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        self.work_on(self.exchange.envelope.bytes.len(), work).await
    }

    /// Runs work whose time depends on this number of bytes.
    async fn work_on<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        self.exchange.inner.work_limiter.work(bytes, work).await
    }

    /// Returns the edits that every form of the request needs at this upstream.
    fn request_edit(&self) -> RequestEdit {
        let is_other = self.target.model != self.exchange.envelope.model;
        RequestEdit {
            model: is_other.then(|| self.target.model.clone()),
            cache_key: self.cache_key().filter(|_| self.exchange.wire.dialect() != Dialect::Messages),
            ..RequestEdit::default()
        }
    }

    /// Returns the window with its source. An assumed window comes with the key that declares it.
    fn window_said(&self) -> String {
        let KnownWindow { tokens, .. } = self.window;
        match self.window.is_known() {
            true => format!("{tokens} ({})", self.window.said()),
            false => {
                let key = self.target.server.upstream.window_key;
                format!("{tokens} (assumed; state it with `{key}: N` in longhaul.yml)")
            }
        }
    }

    /// Adds the report to the headers of an answer.
    fn describe(&self, report: &PreparationReport, headers: &mut HeaderMap) {
        headers::say(headers, "x-longhaul-action", report.action.as_str());
        headers::say(headers, "x-longhaul-upstream", &self.target.server.upstream.name);
        headers::say(headers, "x-longhaul-window", &self.window_said());
        if let Some(recall) = self.recall_said(report) {
            headers::say(headers, "x-longhaul-recall", &recall);
        }
        if let Some(deferral) = &self.exchange.deferral {
            let said = format!("{} of {}", deferral.deferred().len(), deferral.total());
            headers::say(headers, "x-longhaul-deferred-tools", &said);
        }
        if report.before > 0 {
            headers::say(headers, "x-longhaul-tokens-before", &report.before.to_string());
            headers::say(headers, "x-longhaul-tokens-after", &report.after.to_string());
        }
        if !report.why.is_empty() {
            let why: String = report.why.chars().take(300).collect();
            headers::say(headers, "x-longhaul-reason", &why);
        }
    }
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
