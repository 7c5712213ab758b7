//! The attempts at a request at one upstream. Each response is examined, and its problem decides how the next attempt
//! differs. Native and translated requests share this loop.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use longhaul_core::attempt::{BrokenAnswer, BrokenAnswerAction, MAX_LENGTH_RETRIES};
use longhaul_core::budget::Budget;
use longhaul_core::strategy;
use longhaul_core::usage::Usage;
use longhaul_providers::ProviderError;
use longhaul_wire::edit::{GatewayError, GatewayErrorKind, PartialResponse};
use longhaul_wire::overflow::SuspectedOverflow;
use tokio::time::sleep;

use super::context_management::ContextManagement;
use super::journal::JournalStore;
use super::late_reading::LateReading;
use super::memo_lookup::ConversationMemo;
use super::omitted::{RefusablePart, RequestOmissions};
use super::outbound_writer::{OutboundWriter, ParamMappingReport};
use super::prepare::{self, OutboundRequest, RequestFitter};
use super::recall::HiddenSteps;
use super::replicas::LoadGuard;
use super::request_budget::RequestBudget;
use super::targeted_request::TargetedRequest;
use super::translate::{TranslatedStart, fault_of};
use super::upstream_client::UpstreamClient;
use super::upstream_response::{OverflowResponse, RelayDecision, ResponseReview, UpstreamResponse};
use super::usage_totals::UsageTotals;
use super::view_editor::ViewEditor;
use super::{Exchange, UpstreamAttempt, UpstreamDisposition};
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

/// The outcome of an overlong request that cannot be made shorter.
struct LengthAlternative {
    /// Set if the outcome can be passed on to the client.
    is_for_client: bool,
    /// Set if the outcome is an answer.
    is_answer: bool,
    /// The upstream's text in place of an answer.
    said: Option<String>,
}

/// The state from earlier attempts for the next one.
struct AttemptState {
    /// The number of reductions of the request after refusals for its length.
    length_retries: u32,
    /// Set while an answer may still be taken as a sign of a silent truncation.
    may_suspect: bool,
    /// Set if the newest attempt followed a suspected silent truncation.
    is_after_cut: bool,
    /// The number of answers that broke off.
    broken_answers: u32,
}

impl AttemptState {
    fn new(can_shorten: bool) -> Self {
        // With compaction off the client owns the conversation, so a refusal for length goes to the client.
        let length_retries = if can_shorten { 0 } else { MAX_LENGTH_RETRIES };
        Self { length_retries, may_suspect: can_shorten, is_after_cut: false, broken_answers: 0 }
    }

    fn may_shorten(&self) -> bool {
        self.length_retries < MAX_LENGTH_RETRIES
    }

    /// Returns whether a shorter request may follow such a refusal. A suspicion is acted on once.
    fn may_act_on(&self, refused: &OverflowResponse) -> bool {
        // A suspicion rests on counts that may be wrong, so it costs the client one repetition at most.
        if refused.is_said { self.may_shorten() } else { self.may_suspect }
    }
}

impl AttemptOutcome {
    /// Returns whether a client can be given the outcome.
    fn is_for_client(&self) -> bool {
        match self {
            Self::Native(response, _) => response.is_for_client(),
            Self::Translated(..) => true,
            Self::Refused(..) => false,
        }
    }

    /// Returns the answer if completely known.
    fn answer(&self) -> Option<PartialResponse> {
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

    /// Sends the request in a form that fits, and again with less if the upstream refuses it.
    ///
    /// # Errors
    /// [`GatewayError`] if the request cannot be expressed on the upstream's wire, or there is no answer.
    pub(super) async fn go(mut self) -> Result<UpstreamDisposition, GatewayError> {
        self.request.check_expressible()?;
        let mut prepared = match self.budget().may_send_unread() {
            true => {
                tracing::debug!(
                    bytes = self.request.exchange.envelope.bytes.len(),
                    window = self.budget().window.tokens,
                    "a request fits by its length, and is sent before it is read"
                );
                self.read_later();
                OutboundRequest::unread()
            }
            false => self.fitter.prepare().await.map_err(|fault| self.review().reckoned(fault))?,
        };
        self.budget().log_outbound(&prepared);
        let mut state = AttemptState::new(self.memo().conversation.is_some());
        loop {
            let received = self.attempt(&prepared, state.may_shorten()).await;
            // A plain answer goes to the client at once. Every other outcome is judged by the conversation.
            let is_plain = received.as_ref().is_ok_and(|received| self.request.is_plain_answer(received));
            if !is_plain && let Some(read) = self.adopt_reading().await {
                prepared = read;
                // Only now is it known whether the conversation can be shortened.
                state = AttemptState::new(self.memo().conversation.is_some());
            }
            let received = match received {
                Ok(received) => received,
                Err(failed) => {
                    self.wait_before_repeating(failed, &mut state).await?;
                    continue;
                }
            };
            let refused =
                self.review().too_long_by(&received, &prepared).filter(|refused| state.may_act_on(refused));
            if let Some(refused) = refused {
                // A shorter answer is tried before a shorter conversation, because it loses nothing.
                if self.asks_for_less_after(&refused, &prepared) {
                    self.bill_unused(&received, &prepared);
                    continue;
                }
                let alternative = self.alternative_to(&received);
                // Boxed: the future is large, and few requests need it.
                let shortened = self.shortened_after(refused, alternative, &mut prepared, &mut state);
                let shorter = Box::pin(shortened).await?;
                if let Some(shorter) = shorter {
                    self.bill_unused(&received, &prepared);
                    prepared = shorter;
                    continue;
                }
            }
            if self.leaves_out_refused(&received) {
                continue;
            }
            if state.is_after_cut
                && let Some(seen) = received.answer()
            {
                // The repetition fitted, so its count shows how this server counts.
                self.review().learn_to_count(&seen, &prepared);
            }
            match received {
                AttemptOutcome::Native(UpstreamResponse::Stream(opening), _) => {
                    return self.relay_stream(opening, prepared).await;
                }
                AttemptOutcome::Native(UpstreamResponse::Whole(whole), _) => {
                    let usage = whole.seen.as_ref().and_then(|seen| seen.usage.clone());
                    match self.hand_over(whole, &prepared).await? {
                        // The model called `recall` only. The next request brings the results.
                        RelayDecision::Again(next) => prepared = *next,
                        RelayDecision::On(disposition) => {
                            if self.late_reading.is_some() {
                                self.record_after_reading(usage);
                            }
                            return Ok(disposition);
                        }
                    }
                }
                AttemptOutcome::Translated(start, told) => return self.encoded(start, prepared, &told).await,
                AttemptOutcome::Refused(error, _) => {
                    self.totals().failed(&error, prepared.input);
                    return Err(fault_of(&error));
                }
            }
        }
    }

    /// Sends the request once, on the client's or the upstream's own wire.
    async fn attempt(
        &mut self,
        prepared: &OutboundRequest,
        may_shorten: bool,
    ) -> Result<AttemptOutcome, FailedAttempt> {
        match self.request.needs_translation() {
            true => self.attempt_translated(prepared).await,
            false => self.attempt_native(prepared, may_shorten).await,
        }
    }

    /// Waits before the request is repeated, after an answer that broke off before the client received any
    /// part. If another upstream has the model, the failure is returned instead, and the other upstream is
    /// asked.
    ///
    /// # Errors
    /// The failure, if the request is not sent again.
    async fn wait_before_repeating(
        &self,
        failed: FailedAttempt,
        state: &mut AttemptState,
    ) -> Result<(), GatewayError> {
        let retry = self.request.exchange.inner.config.retry;
        let broken = BrokenAnswer {
            broke_before: state.broken_answers,
            ends_in_text: false,
            can_continue: false,
            // Another upstream answers sooner than a repetition at this one.
            can_take_back: self.request.exchange.targets.len() == 1,
        };
        if !failed.broke_off || broken.next(retry.stream_attempts) == BrokenAnswerAction::GiveUp {
            return Err(failed.fault);
        }
        state.broken_answers += 1;
        let wait_ms = retry.delay_ms(state.broken_answers, None);
        tracing::warn!(
            upstream = self.request.target.server.upstream.name,
            attempt = state.broken_answers,
            wait_ms,
            "an answer broke off before its first word and is asked for again: {}",
            failed.fault.message
        );
        sleep(Duration::from_millis(wait_ms)).await;
        Ok(())
    }

    /// Returns whether a shorter answer is requested instead of leaving something out. Once for a request.
    fn asks_for_less_after(&mut self, refused: &OverflowResponse, prepared: &OutboundRequest) -> bool {
        let asked = match self.request.needs_translation() {
            // Without a client's limit the upstream may have refused its own default, so any shorter answer is worth a
            // try.
            true => self.request.asked_output().or(refused.is_said.then_some(u64::MAX)),
            false => self.request.exchange.envelope.max_output,
        };
        asked.is_some_and(|asked| {
            self.fitter.editor.budget.asks_for_less(&refused.overflow, asked, prepared, refused.is_said)
        })
    }

    /// Returns a shorter request; `None` if the received response goes to the client.
    ///
    /// # Errors
    /// [`GatewayError`] if nothing can be left out, and the response cannot be passed on.
    async fn shortened_after(
        &mut self,
        refused: OverflowResponse,
        alternative: LengthAlternative,
        prepared: &mut OutboundRequest,
        state: &mut AttemptState,
    ) -> Result<Option<OutboundRequest>, GatewayError> {
        let OverflowResponse { overflow, is_said, is_usable, suspicion } = refused;
        state.length_retries += 1;
        state.may_suspect = false;
        match self.fitter.make_room(prepared, overflow.used_tokens, overflow.limit_tokens, is_said).await {
            Ok(Some(mut shorter)) => {
                suspicion.into_iter().for_each(|it| self.review().tell_cut(it, &mut shorter));
                state.is_after_cut = matches!(suspicion, Some(SuspectedOverflow::SilentlyTruncated { .. }));
                self.budget().log_outbound(&shorter);
                Ok(Some(shorter))
            }
            Ok(None) if alternative.is_for_client => {
                suspicion.into_iter().for_each(|it| self.review().tell_doubt(it, prepared));
                Ok(None)
            }
            Ok(None) => Err(self.review().too_long(prepared, alternative.said.as_deref())),
            // A doubtful answer is better than none.
            Err(_) if is_usable => {
                suspicion.into_iter().for_each(|it| self.review().tell_doubt(it, prepared));
                Ok(None)
            }
            Err(fault) => {
                let said = alternative.said.filter(|_| !alternative.is_answer);
                Err(self.review().refused_too(fault, prepared, said.as_deref()))
            }
        }
    }

    /// Returns the client's outcome if nothing can be left out.
    fn alternative_to(&self, received: &AttemptOutcome) -> LengthAlternative {
        LengthAlternative {
            is_for_client: received.is_for_client(),
            is_answer: received.answer().is_some(),
            said: self.words_of(received),
        }
    }

    /// Returns the upstream's words in place of an answer.
    fn words_of(&self, received: &AttemptOutcome) -> Option<String> {
        match received {
            AttemptOutcome::Native(response, _) => self.request.said_in(response),
            AttemptOutcome::Translated(..) => None,
            AttemptOutcome::Refused(error, _) => Some(error.message.clone()),
        }
    }

    /// Adds the cost of a discarded answer.
    fn bill_unused(&self, received: &AttemptOutcome, prepared: &OutboundRequest) {
        match received {
            AttemptOutcome::Native(response, _) => self.bill(response, prepared),
            AttemptOutcome::Translated(start, _) => self.bill_translated(start, prepared),
            AttemptOutcome::Refused(..) => {}
        }
    }

    /// Leaves out the parts that caused the refusal. Returns whether the request is worth another try.
    fn leaves_out_refused(&mut self, received: &AttemptOutcome) -> bool {
        match received {
            AttemptOutcome::Native(response, sent) => self.omissions.omit(&self.request, response, sent),
            AttemptOutcome::Translated(..) => false,
            AttemptOutcome::Refused(error, sent) => self.omissions.omit_neutral(&self.request, error, sent),
        }
    }

    /// Creates the attempt with the upstream's present limits. The calls are counted in `totals`.
    pub(super) async fn find(
        exchange: Arc<Exchange>,
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
        policy.trigger = set.or_else(|| prepare::trigger(strategy, window.tokens));
        // A client may switch compaction off, but not on.
        policy.enabled &= !overrides.off;
        let no_recall_reason = OnceLock::new();
        let request =
            TargetedRequest { exchange, target, limits, compaction_setup: shortening, no_recall_reason };
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
            budget: RequestBudget { request: Arc::clone(&request), window, policy, max_output_tokens: None },
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
            Some(LateReading::start(Arc::clone(&self.request.exchange), Arc::clone(&self.request.target)));
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
    fn record_after_reading(mut self, usage: Option<Usage>) {
        let inner = Arc::clone(&self.request.exchange.inner);
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
            duration_ms = self.request.exchange.duration_ms(),
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
