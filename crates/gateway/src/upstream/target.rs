//! One model of one upstream: its provider, its limits and window, and the server's known abilities.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul_core::budget::ASSUMED_WINDOW;
use longhaul_core::history::History;
use longhaul_core::message::{ModelOrigin, Part};
use longhaul_providers::connect::{self, Kind};
use longhaul_providers::http::Secret;
use longhaul_providers::openai_chat::OpenAiChatProvider;
use longhaul_providers::openai_chat::family::{DocumentSupport, PrefillSupport};
use longhaul_providers::{
    DeclaredLimits, FeatureSupport, LimitSource, Limits, ModelEndpoint, ProviderError, SharedProvider,
    catalog_provider,
};
use longhaul_wire::edit::Dialect;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{UpstreamServer, own_dialect};
use crate::gateway::SetupError;
use crate::window::KnownWindow;

/// The smallest credible window, in tokens.
// Sessions believe the same windows (`core/history/limits.rs`). See decision 0008.
const LEAST_WINDOW_TOKENS: u64 = 512;

/// The age at which a server's statement of its limits is read again, in the background.
const REREAD_AFTER: Duration = Duration::from_secs(5);

/// The media type of documents for all servers.
const PDF: &str = "application/pdf";

/// One model of one upstream.
pub(crate) struct UpstreamTarget {
    pub(crate) server: Arc<UpstreamServer>,
    /// The upstream's name of the model.
    pub(crate) model: String,
    pub(super) declared: DeclaredLimits,
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

impl LimitsSnapshot {
    /// Queries the server for the model's limits.
    async fn read(provider: &SharedProvider) -> Self {
        Self { limits: provider.limits().await, at: Instant::now() }
    }
}

/// A task that reads a server's limits again. Dropping the owner aborts the task.
struct ModelRefreshTask(JoinHandle<()>);

impl Drop for ModelRefreshTask {
    fn drop(&mut self) {
        // The task only reads facts about the model. Nothing is half done when it is cut off.
        self.0.abort();
    }
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

    pub(super) fn new(
        server: Arc<UpstreamServer>,
        model: &str,
        declared: DeclaredLimits,
    ) -> Result<Self, SetupError> {
        let mut endpoint = server.upstream.endpoint.clone();
        endpoint.model = model.to_owned();
        endpoint.declared = over(declared, endpoint.declared);
        let base = endpoint.base_url.clone();
        let connected = connect_with_chat(server.upstream.kind, endpoint);
        let (provider, chat) = connected.map_err(|error| server.upstream.setup_error(error.message))?;
        Ok(Self {
            provider: catalog_provider::with_catalog_limits(provider, base),
            chat,
            model: model.to_owned(),
            declared,
            limits: tokio::sync::OnceCell::new(),
            refresh_task: Mutex::default(),
            learned: AtomicU64::new(0),
            suspected: AtomicU64::new(0),
            largest: AtomicU64::new(0),
            counts_less: AtomicBool::new(false),
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
        let prefill = self.chat.as_ref().map(|chat| chat.family().prefill);
        matches!(prefill, Some(PrefillSupport::Fields(fields)) if !fields.is_empty())
    }

    /// Returns the model's known limits. The first call queries the server; later calls refresh the limits in the
    /// background.
    pub(crate) async fn limits(self: &Arc<Self>) -> Limits {
        let read = self.limits.get_or_init(|| self.read_limits()).await;
        let known = *read.lock().unwrap_or_else(PoisonError::into_inner);
        // A server may have been restarted with another window. A declared one stays.
        if known.at.elapsed() > REREAD_AFTER && known.limits.source != LimitSource::Declared {
            self.read_again();
        }
        known.limits
    }

    /// Queries the server for the first time.
    async fn read_limits(&self) -> Mutex<LimitsSnapshot> {
        let snapshot = LimitsSnapshot::read(&self.provider).await;
        tracing::debug!(
            upstream = self.server.upstream.name,
            model = self.model,
            window = snapshot.limits.window,
            max_output = snapshot.limits.max_output,
            source = ?snapshot.limits.source,
            "the limits of a model were read"
        );
        Mutex::new(snapshot)
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
            let snapshot = LimitsSnapshot::read(&provider).await;
            let Some(target) = target.upgrade() else { return };
            let Some(read) = target.limits.get() else { return };
            let before =
                std::mem::replace(&mut *read.lock().unwrap_or_else(PoisonError::into_inner), snapshot);
            if before.limits.window != snapshot.limits.window {
                tracing::info!(
                    upstream = target.server.upstream.name,
                    model = target.model,
                    before = before.limits.window,
                    window = snapshot.limits.window,
                    "a server has changed the window of a model"
                );
            }
        })));
    }

    /// Returns the window if known without a query.
    pub(crate) fn window_seen(&self) -> KnownWindow {
        self.window(&self.limits_read().unwrap_or_else(|| self.limits_by_catalog()))
    }

    /// Returns the declared limits, completed with those of the model catalog.
    fn limits_by_catalog(&self) -> Limits {
        let declared = over(self.declared, self.server.upstream.endpoint.declared);
        declared.over(catalog_provider::limits(&self.origin(), self.base_url()))
    }

    /// Returns the window to plan with, and its source. A window learned from a refusal only lowers a declared one, but
    /// replaces an assumed one.
    pub(crate) fn window(&self, limits: &Limits) -> KnownWindow {
        let largest = self.largest.load(Ordering::Relaxed);
        let said = limits.window;
        let own = Some(self.learned.load(Ordering::Relaxed)).filter(|learned| *learned > 0);
        // The smallest is the safe one: a larger window could be another server's.
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
        // A smaller number is no credible window. Believing it would empty every request.
        if tokens >= LEAST_WINDOW_TOKENS {
            self.learned.store(tokens, Ordering::Relaxed);
            self.suspected.store(tokens, Ordering::Relaxed);
        }
    }

    /// Returns whether the learned window is only suspected.
    pub(crate) fn is_suspected(&self) -> bool {
        let suspected = self.suspected.load(Ordering::Relaxed);
        // A refusal may have named another window since, which is more than a suspicion.
        suspected > 0 && suspected == self.learned.load(Ordering::Relaxed)
    }

    /// Withdraws a suspicion. A window that a refusal has named since then stays.
    pub(crate) fn suspect_no_more(&self) {
        let suspected = self.suspected.swap(0, Ordering::Relaxed);
        if suspected > 0 {
            tracing::info!(
                upstream = self.server.upstream.name,
                model = self.model,
                suspected,
                "a suspected window was wrong and is withdrawn"
            );
            // A different value in `learned` was named by a refusal in the meantime.
            let _ = self.learned.compare_exchange(suspected, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Records the window that a refusal named, and shares it if nothing better is declared.
    pub(crate) fn learn_window(&self, tokens: u64) {
        if tokens < LEAST_WINDOW_TOKENS {
            return;
        }
        // What a refusal names is certain, even if the same number was suspected before.
        self.suspected.store(0, Ordering::Relaxed);
        self.learned.store(tokens, Ordering::Relaxed);
        let source = self.limits_read().unwrap_or_default().source;
        let is_shared = !matches!(source, LimitSource::Declared | LimitSource::Server);
        tracing::debug!(
            upstream = self.server.upstream.name,
            model = self.model,
            tokens,
            is_shared,
            "a refusal has named the window of a model"
        );
        if is_shared {
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
            let learned = self.learned.load(Ordering::Relaxed);
            if learned < tokens {
                self.learned.store(0, Ordering::Relaxed);
            }
            if (1..tokens).contains(&learned) {
                tracing::info!(
                    upstream = self.server.upstream.name,
                    model = self.model,
                    learned,
                    tokens,
                    "a call was larger than the learned window, which is forgotten"
                );
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
        let is_listed = upstream.dialects.contains(&dialect);
        // Requests are translated to the own dialect, so nothing replaces that one.
        if is_listed && (!upstream.finds_dialects || own_dialect(upstream.kind) == Some(dialect)) {
            return DialectSupport::Yes;
        }
        // Of the servers whose kind does not tell, only these two speak all three dialects, and only in newer versions.
        // A server that only speaks like OpenAI's may lack one of the two listed.
        let may = is_listed || self.is_of_family(&["vllm", "llama.cpp"]);
        if may && upstream.finds_dialects && !self.server.lacks_path(dialect) {
            DialectSupport::Perhaps
        } else {
            DialectSupport::No
        }
    }

    /// Returns whether the server is of a self-hosted kind.
    pub(crate) fn is_local(&self) -> bool {
        self.server.upstream.kind == Kind::Ollama || self.is_of_family(&["vllm", "llama.cpp", "LM Studio"])
    }

    /// Returns whether the server has identified itself as one of these programs.
    fn is_of_family(&self, names: &[&str]) -> bool {
        self.chat.as_ref().is_some_and(|chat| names.contains(&chat.family().name))
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
        let is_marked =
            self.chat.as_ref().is_some_and(|chat| chat.family().prefill == PrefillSupport::Prefix);
        limits.prefill == FeatureSupport::Yes && !is_marked
    }
}

/// Builds the provider of an upstream, and the same provider as Chat Completions if the kind has that wire.
fn connect_with_chat(
    kind: Kind,
    endpoint: ModelEndpoint,
) -> Result<(SharedProvider, Option<Arc<OpenAiChatProvider>>), ProviderError> {
    match kind {
        // The same client is kept under its own type too, because its family is known only at run time.
        Kind::OpenAiCompatible => {
            let chat = Arc::new(OpenAiChatProvider::new(endpoint)?);
            Ok((chat.clone(), Some(chat)))
        }
        kind => Ok((connect::connect(kind, endpoint)?, None)),
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
