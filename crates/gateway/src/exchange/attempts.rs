//! The steps of an attempt at one upstream. [`ExchangeDriver`](super::driver::ExchangeDriver) calls them as the exchange
//! decides. Native and translated requests share them.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use longhaul_core::budget::Budget;
use longhaul_core::strategy;
use longhaul_core::usage::Usage;
use longhaul_providers::ProviderError;
use longhaul_wire::edit::{GatewayError, GatewayErrorKind, PartialResponse};
use longhaul_wire::overflow::ReportedOverflow;

use super::context_management::ContextManagement;
use super::journal::JournalStore;
use super::late_reading::LateReading;
use super::memo_lookup::ConversationMemo;
use super::outbound_writer::{OutboundWriter, ParamMappingReport};
use super::part_refusals::{RefusablePart, RequestOmissions};
use super::prepare::{self, OutboundRequest, RequestFitter};
use super::recall::HiddenSteps;
use super::replicas::LoadGuard;
use super::request_budget::RequestBudget;
use super::send::with_named_wait;
use super::targeted_request::TargetedRequest;
use super::translate::TranslatedStart;
use super::upstream_client::UpstreamClient;
use super::upstream_response::{OverflowResponse, ResponseReview, UpstreamResponse};
use super::usage_totals::UsageTotals;
use super::view_editor::ViewEditor;
use super::{ProxiedRequest, UpstreamAttempt, request_log};
use crate::upstream::UpstreamTarget;

/// The outcome of an attempt.
pub(super) enum AttemptOutcome {
    /// A response on the client's wire, and the request's bytes.
    Native(UpstreamResponse, Bytes),
    /// The beginning of an answer on another wire, and the report of the request's translation.
    Translated(TranslatedStart, ParamMappingReport),
    /// A refusal on another wire, with the suspected parts of the request.
    Refused(ProviderError, Vec<RefusablePart>),
}

/// An attempt without a response.
pub(super) struct FailedAttempt {
    pub(super) fault: GatewayError,
    /// Set if an answer broke off after its start, before the client received any part.
    pub(super) broke_off: bool,
}

impl From<GatewayError> for FailedAttempt {
    fn from(fault: GatewayError) -> Self {
        Self { fault, broke_off: false }
    }
}

impl FailedAttempt {
    /// Returns the failure of a body that broke off or cannot be read.
    pub(super) fn of_body(fault: GatewayError) -> Self {
        let broke_off = matches!(fault.kind, GatewayErrorKind::Unreachable | GatewayErrorKind::Timeout);
        Self { fault, broke_off }
    }
}

impl AttemptOutcome {
    /// Returns whether a client can be given the outcome.
    pub(super) fn is_for_client(&self) -> bool {
        match self {
            Self::Native(response, _) => response.is_for_client(),
            Self::Translated(..) => true,
            Self::Refused(..) => false,
        }
    }

    /// Returns whether the response is a refusal in which a part of the request may be at fault.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            // A filter that withholds the whole answer refuses the request, whatever the status.
            Self::Native(response, _) if response.is_withheld() => true,
            Self::Native(UpstreamResponse::Stream(opening), _) => opening.beginning.error.is_some(),
            Self::Native(UpstreamResponse::Whole(whole), _) => !whole.status.is_success(),
            Self::Translated(..) => false,
            Self::Refused(..) => true,
        }
    }

    /// Returns whether the client's answer may be a stream.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Self::Native(UpstreamResponse::Stream(_), _) | Self::Translated(..))
    }

    /// Returns the answer if completely known.
    pub(super) fn answer(&self) -> Option<PartialResponse> {
        match self {
            Self::Native(response, _) => response.seen().cloned(),
            Self::Translated(start, _) => start.answer(),
            Self::Refused(..) => None,
        }
    }
}

impl UpstreamAttempt {
    /// Returns the editor of the conversation's view.
    fn editor(&self) -> &ViewEditor {
        &self.fitter.editor
    }

    /// Returns the window and the policy of the request.
    pub(super) fn budget(&self) -> &RequestBudget {
        &self.editor().budget
    }

    /// Sets whether the newest message may be cut to make the request fit. The message stays whole while another
    /// upstream may have room for it.
    pub(super) fn set_may_cut_newest(&mut self, may_cut: bool) {
        self.fitter.editor.budget.may_cut_newest = may_cut;
    }

    /// Returns the conversation with its names.
    pub(super) fn memo(&self) -> &ConversationMemo {
        &self.editor().memo
    }

    /// Returns the usage of all calls for the answer.
    pub(super) fn totals(&self) -> &Arc<UsageTotals> {
        &self.editor().totals
    }

    /// Returns the store of the conversation's journal.
    pub(super) fn journal(&self) -> JournalStore<'_> {
        self.editor().journal()
    }

    /// Returns the answer's steps hidden from the client.
    pub(super) fn hidden_steps(&self) -> HiddenSteps<'_> {
        self.editor().hidden_steps()
    }

    /// Returns the review of the upstream's responses.
    pub(super) fn review(&self) -> ResponseReview<'_> {
        ResponseReview { request: &self.request, budget: self.budget() }
    }

    /// Returns the writer of the requests to the upstream.
    pub(super) fn outbound(&self) -> OutboundWriter<'_> {
        OutboundWriter { request: &self.request, budget: self.budget() }
    }

    /// Returns the client of the upstream.
    pub(super) fn client(&self) -> UpstreamClient<'_> {
        UpstreamClient { request: &self.request, is_answered: &self.fitter.is_answered }
    }

    /// Makes the request fit, or lets it be sent unread if it fits by its length.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot be expressed on the upstream's wire, or cannot fit.
    pub(super) async fn prepare(&mut self) -> Result<OutboundRequest, GatewayError> {
        self.request.check_expressible()?;
        let prepared = if self.budget().may_send_unread() {
            tracing::debug!(
                bytes = self.request.proxied.envelope.bytes.len(),
                window = self.budget().window.tokens,
                "a request fits by its length, and is sent before it is read"
            );
            self.read_later();
            OutboundRequest::unread()
        } else {
            self.fitter.prepare().await.map_err(|fault| self.review().reckoned(fault))?
        };
        self.budget().log_outbound(&prepared);
        Ok(prepared)
    }

    /// Sends the request once, on the client's or the upstream's own wire.
    pub(super) async fn attempt(
        &mut self,
        prepared: &OutboundRequest,
        may_shorten: bool,
    ) -> Result<AttemptOutcome, FailedAttempt> {
        match self.request.needs_translation() {
            true => self.attempt_translated(prepared).await,
            false => self.attempt_native(prepared, may_shorten).await,
        }
    }

    /// Returns whether a shorter answer is requested instead of leaving something out. Once for a request.
    pub(super) fn asks_for_less_after(
        &mut self,
        refused: &OverflowResponse,
        prepared: &OutboundRequest,
    ) -> bool {
        let asked = match self.request.needs_translation() {
            // Without a client's limit the upstream may have refused its own default, so any shorter answer is worth a
            // try.
            true => self.request.asked_output().or(refused.is_said.then_some(u64::MAX)),
            false => self.request.proxied.envelope.max_output,
        };
        asked.is_some_and(|asked| {
            self.fitter.editor.budget.asks_for_less(&refused.overflow, asked, prepared, refused.is_said)
        })
    }

    /// Returns a shorter request; `None` if nothing can be left out.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot fit.
    pub(super) async fn shortened_after(
        &mut self,
        refused: &OverflowResponse,
        sent: &OutboundRequest,
    ) -> Result<Option<OutboundRequest>, GatewayError> {
        let ReportedOverflow { used_tokens, limit_tokens } = refused.overflow;
        let made = self.fitter.make_room(sent, used_tokens, limit_tokens, refused.is_said).await?;
        let Some(mut shorter) = made else { return Ok(None) };
        refused.suspicion.into_iter().for_each(|it| self.review().tell_cut(it, &mut shorter));
        self.budget().log_outbound(&shorter);
        Ok(Some(shorter))
    }

    /// Returns the upstream's words in place of an answer.
    pub(super) fn words_of(&self, received: &AttemptOutcome) -> Option<String> {
        match received {
            AttemptOutcome::Native(response, _) => self.request.said_in(response),
            AttemptOutcome::Translated(..) => None,
            AttemptOutcome::Refused(error, _) => Some(error.message.clone()),
        }
    }

    /// Returns the error in an answer's place, if the same request may succeed a little later and the client can have
    /// nothing of the answer.
    pub(super) fn passing_error(&self, received: &AttemptOutcome) -> Option<ProviderError> {
        let error = match received {
            AttemptOutcome::Native(UpstreamResponse::Stream(opening), _) => {
                let begun = Some(&opening.beginning).filter(|begun| begun.is_empty())?;
                let said = Bytes::from(begun.error.clone()?);
                let said = self.request.target.server.hide_secrets(said);
                with_named_wait(ProviderError::in_answer(&String::from_utf8_lossy(&said)))
            }
            AttemptOutcome::Native(UpstreamResponse::Whole(whole), _) => whole.in_answer.as_deref()?.clone(),
            // An error status is told at once. Without a body no server has said anything.
            AttemptOutcome::Refused(error, _) if error.status.is_none() && error.body.is_some() => {
                error.clone()
            }
            AttemptOutcome::Translated(..) | AttemptOutcome::Refused(..) => return None,
        };
        error.retryable.then_some(error)
    }

    /// Adds the cost of a discarded answer.
    pub(super) fn bill_unused(&self, received: &AttemptOutcome, prepared: &OutboundRequest) {
        match received {
            AttemptOutcome::Native(response, _) => self.bill(response, prepared),
            AttemptOutcome::Translated(start, _) => self.bill_translated(start, prepared),
            // A refused request costs nothing, but a withheld answer was written.
            AttemptOutcome::Refused(error, _) if error.usage.is_some() => {
                self.totals().failed(error, prepared.input);
            }
            AttemptOutcome::Refused(..) => {}
        }
    }

    /// Leaves out the parts that caused the refusal. Returns whether the request is worth another try.
    pub(super) fn leaves_out_refused(&mut self, received: &AttemptOutcome) -> bool {
        match received {
            AttemptOutcome::Native(response, sent) => self.omissions.omit(&self.request, response, sent),
            AttemptOutcome::Translated(..) => false,
            AttemptOutcome::Refused(error, sent) => self.omissions.omit_neutral(&self.request, error, sent),
        }
    }

    /// Creates the attempt with the upstream's present limits. The calls are counted in `totals`.
    pub(super) async fn find(
        exchange: Arc<ProxiedRequest>,
        target: Arc<UpstreamTarget>,
        totals: Arc<UsageTotals>,
    ) -> Self {
        // The guard is taken before the first wait, so that requests at the same time see each other's load.
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
            configured.filter(|limit| budget.trigger(*limit) < budget.trigger(wanted)).unwrap_or(wanted)
        });
        let set = overrides.trigger.or(asked).or(configured);
        // The order is that of nearness: the request's header, the request's body, the configuration, the
        // strategy.
        policy.trigger = set.or_else(|| prepare::pruning_agent_trigger(strategy, window.tokens));
        // A client may switch compaction off, but not on.
        policy.enabled &= !overrides.off;
        let no_recall_reason = OnceLock::new();
        let request = TargetedRequest {
            dialect_support: target.speaks(exchange.wire.dialect()),
            proxied: exchange,
            target,
            limits,
            compaction_setup: shortening,
            no_recall_reason,
            caller_provider: OnceLock::new(),
        };
        let policy = request.able(policy);
        tracing::debug!(
            upstream = request.target.server.upstream.name,
            window = window.tokens,
            source = window.said(),
            strategy = policy.strategy.name(),
            trigger = ?policy.trigger,
            is_enabled = policy.enabled,
            "the window and the policy of a request"
        );
        let request = Arc::new(request);
        let editor = ViewEditor {
            budget: RequestBudget {
                request: Arc::clone(&request),
                window,
                policy,
                max_output_tokens: None,
                may_cut_newest: true,
            },
            memo: ConversationMemo::new(Arc::clone(&request)),
            request: Arc::clone(&request),
            totals,
        };
        let fitter = RequestFitter {
            request: Arc::clone(&request),
            editor,
            over: OnceLock::new(),
            is_answered: Arc::default(),
        };
        Self { request, fitter, late_reading: None, omissions: RequestOmissions::default(), _load: load }
    }

    /// Starts the reading of a request during its sending.
    fn read_later(&mut self) {
        self.late_reading =
            Some(LateReading::start(Arc::clone(&self.request.proxied), Arc::clone(&self.request.target)));
    }

    /// Waits for the reading, and returns the request as sent. Without a result nothing is known of the
    /// conversation, as with compaction off. `None` if the request was read before it was sent.
    pub(super) async fn adopt_reading(&mut self) -> Option<OutboundRequest> {
        let reading = self.late_reading.take()?;
        let Some(read) = reading.finish().await else { return Some(OutboundRequest::default()) };
        self.fitter.editor.memo.conversation = Some(read.conversation);
        Some(read.outbound)
    }

    /// Records the usage of a complete answer once its request is read. The client has the answer already.
    pub(super) fn record_after_reading(mut self, usage: Option<Usage>) {
        let inner = Arc::clone(&self.request.proxied.inner);
        inner.tasks.begin(async move {
            let Some(read) = self.adopt_reading().await else { return };
            // A doubtful report may cover a truncated input and would spoil the calibration.
            if let Some(usage) = usage.filter(|_| !read.is_doubted) {
                self.journal().remember_usage(usage, &read).await;
            }
        });
    }

    /// Logs the end of an answer, with the cost of all its calls.
    pub(super) fn log_end(&self, is_whole: bool) {
        let cost = self.totals().cost();
        tracing::info!(
            upstream = self.request.target.server.upstream.name,
            is_whole,
            calls = cost.calls,
            input_tokens = cost.input_tokens,
            output_tokens = cost.output_tokens,
            is_estimated = cost.is_estimated,
            restarts = cost.restarts,
            omitted = self.omissions.count(),
            duration_ms = request_log::duration_ms(&self.request.proxied),
            "the answer ended"
        );
    }

    /// Adds the cost of a discarded answer.
    fn bill(&self, came: &UpstreamResponse, prepared: &OutboundRequest) {
        if let Some(seen) = came.seen() {
            self.totals().add(seen.usage.as_ref(), || self.request.counted(prepared, seen, 0));
        }
    }
}
