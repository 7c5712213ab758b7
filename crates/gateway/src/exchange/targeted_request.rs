//! A client's request for one upstream: what the request and the model's limits allow, whatever the state of the
//! conversation.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::AdaptiveStrategy;
use longhaul_providers::connect::Kind;
use longhaul_providers::{FeatureSupport, Limits, ProviderError, SharedProvider, ToolChoice};
use longhaul_wire::edit::deferral::CallUnwrapper;
use longhaul_wire::edit::ephemeral::CACHE_MARKS;
use longhaul_wire::edit::{
    Dialect, GatewayError, GatewayErrorKind, PartialResponse, PromptCacheTtl, RequestEdit,
};
use longhaul_wire::raw_json::{field, fields, quote};
use longhaul_wire::response_writer::ResponseHead;
use longhaul_wire::responses::edit as responses;
use memchr::memmem;

use super::ProxiedRequest;
use super::context_management::ContextManagement;
use super::gateway_tools::GatewayTools;
use super::item_reader::ItemReader;
use super::prepare::OutboundRequest;
use super::replicas::conversation_key;
use super::request_pauses::has_long_pauses;
use super::summary_writers::PRUNING_AGENT;
use super::translate::tool_choice;
use super::upstream_response::UpstreamResponse;
use super::usage_totals::PartialUsage;
use crate::gateway::{CompactionSetup, CredentialSource, MidstreamMode};
use crate::upstream::{DialectSupport, UpstreamTarget};

/// The length of a cache key. OpenAI takes up to 64 characters.
const CACHE_KEY_CHARS: usize = 32;

/// A client's request and the upstream that gets it. Nothing changes while the request is tried.
pub(super) struct TargetedRequest {
    pub(super) proxied: Arc<ProxiedRequest>,
    pub(super) target: Arc<UpstreamTarget>,
    pub(super) limits: Limits,
    /// The server's support for the caller's dialect, as it was known at the start of the attempt. Another request may
    /// learn more meanwhile, and an answer that has begun must go on in its dialect.
    pub(super) dialect_support: DialectSupport,
    /// The configured compaction, before substitutes and the request's overrides.
    pub(super) compaction_setup: CompactionSetup,
    /// The reason why the model gets no `recall` tool, computed when first needed.
    pub(super) no_recall_reason: OnceLock<Option<&'static str>>,
    /// The provider with the caller's key, built when first needed. It keeps what refusals have taught it.
    pub(super) caller_provider: OnceLock<SharedProvider>,
}

impl TargetedRequest {
    /// Returns the gateway's tools for the request.
    pub(super) fn tools(&self) -> GatewayTools<'_> {
        GatewayTools { request: self }
    }

    /// Returns the reader of the request's items.
    pub(super) fn reader(&self) -> ItemReader<'_> {
        ItemReader { request: self }
    }

    /// Returns whether the request is translated, because the upstream does not speak the caller's dialect or does not
    /// know its tools.
    pub(super) fn needs_translation(&self) -> bool {
        self.dialect_support == DialectSupport::No || self.has_unknown_namespaces()
    }

    /// Returns whether the request has tools in namespaces that the upstream does not know. Only OpenAI's own server
    /// knows namespaces. Elsewhere a translation gives the tools single names, and restores them in the answer.
    fn has_unknown_namespaces(&self) -> bool {
        let (envelope, upstream) = (&self.proxied.envelope, &self.target.server.upstream);
        let Some(at) =
            envelope.tools_at.as_ref().filter(|_| self.proxied.wire.dialect() == Dialect::Responses)
        else {
            return false;
        };
        // The search for the word is cheap, and few requests have it.
        memmem::find(envelope.text(at).as_bytes(), b"\"namespace\"").is_some()
            && !upstream.kind.is_openai(&upstream.endpoint.base_url)
            && !responses::namespaced_tools(envelope).is_empty()
    }

    /// Returns the provider for the model in its server's own dialect, with the key that the caller's requests use.
    ///
    /// # Errors
    /// [`ProviderError`] if the provider cannot be built.
    pub(super) fn provider(&self) -> Result<SharedProvider, ProviderError> {
        match self.proxied.inner.config.credentials {
            CredentialSource::Own => Ok(self.target.provider()),
            CredentialSource::Forward => {
                if let Some(known) = self.caller_provider.get() {
                    return Ok(Arc::clone(known));
                }
                let built = self.target.provider_of_caller(self.proxied.key.as_deref())?;
                Ok(Arc::clone(self.caller_provider.get_or_init(|| built)))
            }
        }
    }

    /// Runs work whose time depends on the size of the request.
    pub(super) async fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        self.work_on(self.proxied.envelope.bytes.len(), work).await
    }

    /// Runs work whose time depends on this number of bytes.
    pub(super) async fn work_on<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        self.proxied.inner.work_limiter.work(bytes, work).await
    }

    /// Returns the edits for every form of the request at the upstream.
    pub(super) fn request_edit(&self) -> RequestEdit {
        // An equal name is not written, so that the client's bytes stay.
        let is_other = self.target.model != self.proxied.envelope.model;
        RequestEdit {
            model: is_other.then(|| self.target.model.clone()),
            cache_key: self.cache_key().filter(|_| self.proxied.wire.dialect() != Dialect::Messages),
            cache_mark: self.cache_mark(),
            ..RequestEdit::default()
        }
    }

    /// Returns the client's wishes if the gateway must carry them out.
    pub(super) fn context_management(&self) -> Option<&ContextManagement> {
        self.proxied.context_management_at(&self.target)
    }

    /// Returns a filter that restores the client's own calls in a stream, if some tools are deferred.
    pub(super) fn call_unwrapper(&self) -> Option<CallUnwrapper> {
        self.proxied.deferral.clone().map(CallUnwrapper::new)
    }

    /// Returns a complete answer with the client's own calls.
    pub(super) fn with_own_calls(&self, answer: Bytes) -> Bytes {
        let unwrapped = self.proxied.deferral.as_ref().and_then(|deferral| deferral.unwrap_answer(&answer));
        unwrapped.unwrap_or(answer)
    }

    /// Returns the configured or requested strategy's name, under which conversations are cached even if another
    /// strategy replaces it.
    pub(super) fn strategy_name(&self) -> &str {
        let configured = &self.compaction_setup.policy;
        self.proxied.overrides.strategy.as_deref().unwrap_or_else(|| configured.strategy.name())
    }

    /// Returns the policy with `adaptive`, which takes prose summaries, if the writer cannot be a pruning
    /// agent. A request for the pruning agent by a header is granted.
    pub(super) fn able(&self, policy: CompactionPolicy) -> CompactionPolicy {
        let inner = &self.proxied.inner;
        // A strategy that the client names is not replaced behind its back.
        let is_ours = self.proxied.overrides.strategy.is_none();
        if policy.strategy.name() == PRUNING_AGENT
            && is_ours
            && inner.json_support.has(&self.writer(), (inner.parts.now)())
        {
            return CompactionPolicy { strategy: std::sync::Arc::new(AdaptiveStrategy::default()), ..policy };
        }
        policy
    }

    /// Returns the name of the writer of summaries.
    pub(super) fn writer(&self) -> String {
        match &self.compaction_setup.summariser {
            Some(other) => {
                let origin = other.origin();
                format!("{}/{}", origin.provider, origin.model)
            }
            None => format!("{}/{}", self.target.server.upstream.name, self.target.model),
        }
    }

    /// Returns system prompt and tools as written.
    pub(super) fn fixed_texts(&self) -> [&str; 2] {
        let envelope = &self.proxied.envelope;
        let places = [&envelope.system_at, &envelope.tools_at];
        places.map(|at| at.as_ref().map(|at| envelope.text(at)).unwrap_or_default())
    }

    /// Returns the token counter for this upstream's model.
    pub(super) fn counter(&self) -> MessageTokenCounter {
        (self.proxied.inner.parts.counter)(&self.target.origin())
    }

    /// Returns the conversation's `prompt_cache_key` if the upstream takes one and the client has set none. The wire of
    /// Messages has no such field.
    pub(super) fn cache_key(&self) -> Option<String> {
        let upstream = &self.target.server.upstream;
        let is_taken = upstream.kind.takes_cache_key(&upstream.endpoint.base_url);
        // A request of a conversation that OpenAI keeps has only the newest items, so its beginning differs each time.
        let own = ["prompt_cache_key", "previous_response_id", "conversation"];
        let is_set =
            own.iter().any(|name| self.proxied.envelope.other(name).is_some_and(|raw| raw != "null"));
        let conversation =
            (is_taken && !is_set).then(|| conversation_key(&self.proxied)).and_then(Result::ok)?;
        Some(blake3::Hash::from_bytes(conversation).to_hex().chars().take(CACHE_KEY_CHARS).collect())
    }

    /// Returns the life of the prompt cache, for a mark in the client's request. `None` without a mark: the client set
    /// one of its own, or the request does not reach Anthropic's API in its own dialect.
    fn cache_mark(&self) -> Option<PromptCacheTtl> {
        let upstream = &self.target.server.upstream;
        let is_messages = self.proxied.wire.dialect() == Dialect::Messages && !self.needs_translation();
        if upstream.kind != Kind::Anthropic || !is_messages || self.has_cache_marks() {
            return None;
        }
        match upstream.endpoint.cache {
            PromptCacheTtl::Off => None,
            // Servers that only speak like Anthropic's may refuse a field that the client has not sent. With short pauses the
            // client's request stays as it is: the client may have reasons to do without a cache.
            PromptCacheTtl::Auto => {
                let is_anthropic = !upstream.kind.key_variables(&upstream.endpoint.base_url).is_empty();
                (is_anthropic && has_long_pauses(&self.proxied)).then_some(PromptCacheTtl::OneHour)
            }
            configured => Some(configured),
        }
    }

    /// Returns whether the client's request has cache marks, or a field named like one.
    fn has_cache_marks(&self) -> bool {
        CACHE_MARKS.iter().any(|mark| memmem::find(&self.proxied.envelope.bytes, mark.as_bytes()).is_some())
    }

    /// Returns whether a request in the server's own dialect is to ask for a cache that lives for an hour, where the
    /// configuration leaves that open. A client with cache marks has made its choice.
    pub(super) fn wants_long_cache(&self) -> bool {
        let is_anthropic = self.target.server.upstream.kind == Kind::Anthropic;
        is_anthropic && !self.has_cache_marks() && has_long_pauses(&self.proxied)
    }

    /// Returns the client's output limit.
    pub(super) fn asked_output(&self) -> Option<u64> {
        self.proxied.envelope.max_output.filter(|limit| *limit < u64::MAX)
    }

    /// Returns the rest of the client's output limit after `said_tokens`.
    ///
    /// # Errors
    /// [`GatewayError`] if nothing is left.
    pub(super) fn left_output(&self, said_tokens: u64) -> Result<Option<u64>, GatewayError> {
        let left = self.asked_output().map(|limit| limit.saturating_sub(said_tokens));
        match left {
            // A client that asks for 0 tokens itself gets the upstream's own answer to that.
            Some(0) if said_tokens > 0 => {
                Err(GatewayError::new(GatewayErrorKind::Invalid, "nothing is left of the output limit"))
            }
            left => Ok(left),
        }
    }

    /// Returns whether the answer to a request that has been read can be stopped and continued at this upstream.
    pub(super) fn may_continue_if_read(&self) -> bool {
        let config = &self.proxied.inner.config;
        let can = match config.midstream {
            MidstreamMode::Off => false,
            MidstreamMode::Exact => self.goes_on_exactly(),
            MidstreamMode::BestEffort => self.goes_on_exactly() || self.is_prose(),
        };
        // Without a known window nothing says when to stop.
        can && self.has_one_choice() && self.limits.window.is_some()
    }

    /// Returns whether a broken answer can continue in another stream.
    pub(super) fn may_reconnect(&self) -> bool {
        let config = &self.proxied.inner.config;
        // A person who switches the continuation off wants the upstream's stream as it is, breaks included.
        let is_wanted = config.midstream != MidstreamMode::Off && config.retry.stream_attempts > 0;
        is_wanted && self.has_one_choice() && self.goes_on_exactly()
    }

    /// Returns whether the client wants one answer instead of several choices.
    fn has_one_choice(&self) -> bool {
        self.proxied.envelope.other("n").is_none_or(|n| matches!(n, "1" | "null"))
    }

    /// Returns whether the upstream continues an answer exactly where it stopped. Otherwise its model can be asked to
    /// continue.
    pub(super) fn goes_on_exactly(&self) -> bool {
        match self.needs_translation() {
            // The translated form of a request also marks the message for servers that need the mark.
            true => self.limits.prefill == FeatureSupport::Yes,
            false => self.target.can_prefill(&self.limits),
        }
    }

    /// Returns whether the answer is plain prose. A model that is asked to continue JSON would begin it anew.
    pub(super) fn is_prose(&self) -> bool {
        let forms = ["response_format", "output_config", "output_format", "text"];
        // `{"type": "text"}` is prose, every form of JSON names itself.
        forms.iter().all(|form| self.proxied.non_null_field(form).is_none_or(|raw| !raw.contains("json")))
    }

    /// Checks that the request can be translated at all.
    ///
    /// # Errors
    /// [`GatewayError`] if an item cannot be translated.
    pub(super) fn check_expressible(&self) -> Result<(), GatewayError> {
        if self.needs_translation() && self.proxied.wire.dialect() == Dialect::Responses {
            responses::check_whole(&self.proxied.envelope)?;
        }
        Ok(())
    }

    /// Returns the request's tool choice.
    ///
    /// # Errors
    /// [`GatewayError`] if other dialects cannot express the choice.
    pub(super) fn tool_choice(&self) -> Result<ToolChoice, GatewayError> {
        Ok(tool_choice(&self.proxied)?)
    }

    /// Returns the metadata of the answer: id, model, time.
    pub(super) fn head(&self, prepared: &OutboundRequest) -> ResponseHead {
        let (parts, envelope) = (&self.proxied.inner.parts, &self.proxied.envelope);
        let options = envelope.other("stream_options").unwrap_or_default();
        let asks_for_usage = options.contains("\"include_usage\"") && options.contains("true");
        ResponseHead {
            id: (parts.new_id)(),
            // Clients compare the name in the answer with the one they asked for.
            model: match envelope.model.as_str() {
                "" => self.target.model.clone(),
                asked => asked.to_owned(),
            },
            created: (parts.now)(),
            input_tokens: prepared.input,
            // A complete answer always has usage, a stream of Chat Completions only on request.
            include_usage: asks_for_usage || !envelope.stream,
            custom_tools: match self.proxied.wire.dialect() {
                Dialect::Responses => responses::custom_tools(envelope),
                Dialect::Chat | Dialect::Messages => Vec::new(),
            },
            namespaced_tools: match self.proxied.wire.dialect() {
                Dialect::Responses => responses::namespaced_tools(envelope),
                Dialect::Chat | Dialect::Messages => BTreeMap::new(),
            },
        }
    }

    /// Returns the upstream's text in place of an answer, with secrets hidden: some servers quote a refused key.
    pub(super) fn said_in(&self, came: &UpstreamResponse) -> Option<String> {
        let said = match came {
            UpstreamResponse::Stream(opening) => Bytes::from(opening.beginning.error.clone()?),
            UpstreamResponse::Whole(whole) => whole.bytes.clone(),
        };
        Some(String::from_utf8_lossy(&self.target.server.hide_secrets(said)).into_owned())
    }

    /// Returns the upstream's error in place of an answer, or in the middle of one.
    pub(super) fn said_error(&self, said: &str) -> GatewayError {
        let said = self.target.server.hide_secrets(Bytes::copy_from_slice(said.as_bytes()));
        GatewayError::from(&ProviderError::in_answer(&String::from_utf8_lossy(&said)))
    }

    /// Returns the items of a compacted request as a JSON list.
    ///
    /// # Errors
    /// [`GatewayError`] if the list cannot be written.
    pub(super) fn items_of(&self, prepared: &OutboundRequest) -> Result<String, GatewayError> {
        let envelope = &self.proxied.envelope;
        let edited = RequestEdit { steps: prepared.steps.clone(), ..RequestEdit::default() };
        let rendered = self.proxied.wire.render_request(envelope, &edited)?;
        let rendered = std::str::from_utf8(&rendered).unwrap_or_default();
        let items = fields(rendered).and_then(|fields| field(&fields, "input")).unwrap_or("[]");
        // An input may be a bare text, which stands for one message of the user.
        Ok(match items.starts_with('"') {
            true => format!(
                r#"[{{"type":"message","role":"user","content":[{{"type":"input_text","text":{items}}}]}}]"#
            ),
            false => items.to_owned(),
        })
    }

    /// Returns the answer of `/v1/responses/compact` to a compacted request.
    ///
    /// # Errors
    /// [`GatewayError`] if the items cannot be written.
    pub(super) fn body_of(&self, prepared: &OutboundRequest) -> Result<String, GatewayError> {
        let output = self.items_of(prepared)?;
        let parts = &self.proxied.inner.parts;
        let (id, created) = (quote(&format!("resp_{}", (parts.new_id)())), (parts.now)());
        let (before, after) = (prepared.report.before, prepared.report.after);
        let usage = format!(
            r#"{{"input_tokens":{before},"input_tokens_details":{{"cached_tokens":0}},"output_tokens":{after},"output_tokens_details":{{"reasoning_tokens":0}},"total_tokens":{}}}"#,
            before.saturating_add(after),
        );
        Ok(format!(
            r#"{{"id":{id},"object":"response.compaction","created_at":{created},"output":{output},"usage":{usage}}}"#
        ))
    }

    /// Returns the gateway's count of a call of which `seen` was received. `left` is the number of output tokens that
    /// other calls have written.
    pub(super) fn counted(
        &self,
        prepared: &OutboundRequest,
        seen: &PartialResponse,
        left: u64,
    ) -> PartialUsage {
        let counter = (self.proxied.inner.parts.counter)(&self.target.origin());
        let calls = seen.calls.iter().flat_map(|call| [&call.name, &call.arguments]);
        let said = [&seen.text, &seen.reasoning].into_iter().chain(calls);
        let written: u64 = said.map(|text| counter.text(text)).sum();
        // A continued answer's text holds the earlier streams too, and these were counted before.
        PartialUsage { input: prepared.input, output: written.saturating_sub(left), is_estimated: true }
    }
}
