//! The driver of an exchange: it performs the effects of the state machine until the client's answer begins.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use longhaul_core::exchange::{
    Exchange, ExchangeEffect, ExchangeFailure, ExchangeInput, ExchangeLimits, OverflowFacts, PassingFailure,
    RelayOutcome, ResponseFacts, ShorteningOutcome, UpstreamFailure,
};
use longhaul_wire::edit::{GatewayError, GatewayErrorKind};
use longhaul_wire::overflow::SuspectedOverflow;
use tokio::time::sleep;

use super::attempts::{AttemptOutcome, FailedAttempt};
use super::cut_answers;
use super::part_refusals;
use super::prepare::OutboundRequest;
use super::replicas::ordered_targets;
use super::request_log::whole_ms;
use super::send::is_payment_due;
use super::upstream_errors::{names_missing_resource, readable, reword_error};
use super::upstream_response::{OverflowResponse, RelayDecision, UpstreamResponse};
use super::usage_totals::UsageTotals;
use super::{ProxiedRequest, UpstreamAttempt, UpstreamDisposition, no_upstream};
use crate::upstream::{DialectSupport, UpstreamTarget};

/// The performer of one exchange's effects.
///
/// The exchange decides on facts. The driver keeps what the facts are about: the attempt, the response, the newest
/// failure.
pub(super) struct ExchangeDriver {
    request: Arc<ProxiedRequest>,
    exchange: Exchange,
    targets: Vec<Arc<UpstreamTarget>>,
    totals: Arc<UsageTotals>,
    /// The index of the upstream that is asked now.
    upstream: usize,
    /// The request with its tools in the form for the present upstream.
    adapted: Option<Arc<ProxiedRequest>>,
    attempt: Option<UpstreamAttempt>,
    /// Set if the present attempt uses the client's wire at an upstream that may lack its path.
    may_lack_path: bool,
    outbound: OutboundRequest,
    received: Option<AttemptOutcome>,
    /// The sign of an overlong request in the response.
    overflow: Option<OverflowResponse>,
    /// The shorter request that replaces a discarded one.
    shorter: Option<OutboundRequest>,
    /// The response for the client.
    relayed: Option<UpstreamDisposition>,
    /// The response on the client's wire, before the request was translated.
    first: Option<UpstreamDisposition>,
    failure: Option<GatewayError>,
    /// The newest upstream before the present one that failed and may answer a little later.
    busy: Option<BusyUpstream>,
}

/// An upstream that failed and may answer a little later.
struct BusyUpstream {
    failure: GatewayError,
    window_tokens: u64,
}

/// The outcome of an effect.
enum EffectOutcome {
    /// The exchange is told of nothing.
    Done,
    Input(ExchangeInput),
    /// The client gets this.
    Answer(Box<Result<UpstreamDisposition, GatewayError>>),
}

impl EffectOutcome {
    fn answer(answer: Result<UpstreamDisposition, GatewayError>) -> Self {
        Self::Answer(Box::new(answer))
    }
}

impl ExchangeDriver {
    pub(super) fn new(request: Arc<ProxiedRequest>) -> Self {
        let targets = ordered_targets(&request);
        let limits = ExchangeLimits { upstreams: targets.len(), retry: request.inner.config.retry };
        Self {
            request,
            exchange: Exchange::new(limits),
            targets,
            totals: Arc::default(),
            upstream: 0,
            adapted: None,
            attempt: None,
            may_lack_path: false,
            outbound: OutboundRequest::default(),
            received: None,
            overflow: None,
            shorter: None,
            relayed: None,
            first: None,
            failure: None,
            busy: None,
        }
    }

    /// Performs the effects of the exchange until the client has an answer, or the beginning of one.
    ///
    /// # Errors
    /// [`GatewayError`] if no upstream gives an answer.
    pub(super) async fn run(mut self) -> Result<UpstreamDisposition, GatewayError> {
        let mut effects = VecDeque::from(self.exchange.handle(ExchangeInput::Begin));
        // One effect at a time and in order: an input may answer an effect that others follow.
        while let Some(effect) = effects.pop_front() {
            // Boxed: the future is large, and every caller of this one would hold it.
            match Box::pin(self.perform(effect)).await? {
                EffectOutcome::Done => {}
                EffectOutcome::Input(input) => effects.extend(self.exchange.handle(input)),
                EffectOutcome::Answer(answer) => return *answer,
            }
        }
        Err(incomplete())
    }

    /// Performs one effect.
    ///
    /// # Errors
    /// [`GatewayError`] if the effect does not belong to the present state, which is a fault of the gateway.
    async fn perform(&mut self, effect: ExchangeEffect) -> Result<EffectOutcome, GatewayError> {
        let input = match effect {
            ExchangeEffect::Prepare { upstream } => self.prepare_for(upstream).await,
            ExchangeEffect::PrepareTranslated => self.prepare_translated().await,
            ExchangeEffect::Send => self.send().await?,
            ExchangeEffect::Wait { ms } => self.wait(ms).await,
            ExchangeEffect::LowerOutput => ExchangeInput::OutputLowered(self.lower_output()?),
            ExchangeEffect::Shorten => ExchangeInput::Shortened(self.shorten().await?),
            ExchangeEffect::OmitPart => ExchangeInput::PartOmitted(self.omit_part()?),
            ExchangeEffect::Relay => ExchangeInput::Relayed(self.relay().await?),
            ExchangeEffect::DiscardResponse => return self.discard_response(),
            ExchangeEffect::ReportDoubt => return self.report_doubt(),
            ExchangeEffect::LearnCount => return self.learn_count(),
            ExchangeEffect::NoteReachable(is_reachable) => {
                self.target()?.server.set_reachable(is_reachable);
                return Ok(EffectOutcome::Done);
            }
            ExchangeEffect::Deliver => {
                let relayed = self.relayed.take().ok_or_else(incomplete)?;
                return Ok(EffectOutcome::answer(self.readable(Ok(relayed))?));
            }
            ExchangeEffect::DeliverFirst => {
                let first = self.first.take().ok_or_else(incomplete)?;
                tracing::info!(
                    wire = self.request.wire.dialect().as_str(),
                    "the translated request failed too: the client gets the response to its own wire"
                );
                // Not only the path is at fault, so the verdict about the wire is withdrawn.
                self.target()?.server.set_lacks_path(self.request.wire.dialect(), false);
                return Ok(EffectOutcome::answer(self.readable(Ok(first))?));
            }
            ExchangeEffect::Fail(reason) => return self.fail(reason),
            // These belong to the second half, which the answer's flow performs.
            _ => return Err(incomplete()),
        };
        Ok(EffectOutcome::Input(input))
    }

    fn target(&self) -> Result<&Arc<UpstreamTarget>, GatewayError> {
        self.targets.get(self.upstream).ok_or_else(no_upstream)
    }

    fn attempt(&mut self) -> Result<&mut UpstreamAttempt, GatewayError> {
        self.attempt.as_mut().ok_or_else(incomplete)
    }

    /// Returns the response with errors that a client can read.
    fn readable(
        &self,
        opened: Result<UpstreamDisposition, GatewayError>,
    ) -> Result<Result<UpstreamDisposition, GatewayError>, GatewayError> {
        Ok(readable(&self.request, self.target()?, opened))
    }

    /// Prepares the request for an upstream, the first one or the next after a failure.
    async fn prepare_for(&mut self, upstream: usize) -> ExchangeInput {
        if upstream != self.upstream {
            if let (Some(failed), Some(next)) = (self.targets.get(self.upstream), self.targets.get(upstream))
            {
                let (failed, next) = (&failed.server.upstream.name, &next.server.upstream.name);
                tracing::warn!(
                    upstream = failed,
                    next,
                    why = self.newest_failure(),
                    "the next upstream is asked"
                );
            }
            self.note_busy();
            // What the failed upstream cost stays in the totals: the client pays for it.
            self.totals.try_elsewhere();
        }
        // The tools of the last upstream's request may have another form, and its response is of no use any more.
        (self.upstream, self.adapted, self.relayed) = (upstream, None, None);
        let prepared = self.prepare().await;
        self.prepared(prepared)
    }

    /// Prepares the request for the present upstream in another wire, because it may lack the path of the client's.
    async fn prepare_translated(&mut self) -> ExchangeInput {
        self.first = self.relayed.take();
        if let Some(target) = self.targets.get(self.upstream) {
            tracing::info!(
                upstream = target.server.upstream.name,
                wire = self.request.wire.dialect().as_str(),
                "the upstream has no path for this wire, and gets the request translated"
            );
            // Noted before the attempt, which then translates.
            target.server.set_lacks_path(self.request.wire.dialect(), true);
        }
        self.totals.try_elsewhere();
        let prepared = self.prepare().await;
        self.prepared(prepared)
    }

    fn prepared(&mut self, prepared: Result<bool, GatewayError>) -> ExchangeInput {
        match prepared {
            Ok(can_shorten) => ExchangeInput::Prepared { can_shorten },
            Err(fault) => ExchangeInput::NotPrepared(self.note_failure(fault)),
        }
    }

    /// Creates the attempt at the present upstream, and makes the request fit. Returns whether the conversation may be
    /// shortened.
    async fn prepare(&mut self) -> Result<bool, GatewayError> {
        let target = Arc::clone(self.target()?);
        let adapted = match self.adapted.take() {
            Some(adapted) => adapted,
            // The form of the tools depends on the upstream, so each upstream gets its own copy of the request.
            None => {
                let adapted = Arc::clone(&self.request).with_tools_for(&target)?;
                adapted.with_tools_deferred(&target).await
            }
        };
        self.adapted = Some(Arc::clone(&adapted));
        let mut attempt = UpstreamAttempt::find(adapted, target, Arc::clone(&self.totals)).await;
        attempt.set_may_cut_newest(self.exchange.may_cut_newest());
        let is_unsure = attempt.request.dialect_support == DialectSupport::Perhaps;
        self.may_lack_path = is_unsure && !attempt.request.needs_translation();
        self.outbound = attempt.prepare().await?;
        let can_shorten = attempt.memo().conversation.is_some();
        self.attempt = Some(attempt);
        Ok(can_shorten)
    }

    async fn send(&mut self) -> Result<ExchangeInput, GatewayError> {
        let may_shorten = self.exchange.may_shorten();
        let attempt = self.attempt.as_mut().ok_or_else(incomplete)?;
        let received = attempt.attempt(&self.outbound, may_shorten).await;
        // A plain answer goes to the client at once. Every other outcome is judged by the conversation.
        let is_plain = received.as_ref().is_ok_and(|received| attempt.request.is_plain_answer(received));
        if !is_plain && let Some(read) = attempt.adopt_reading().await {
            self.outbound = read;
            // Only now is it known whether the conversation can be shortened.
            let can_shorten = attempt.memo().conversation.is_some();
            self.exchange.handle(ExchangeInput::Read { can_shorten });
        }
        let received = match received {
            Ok(received) => received,
            Err(FailedAttempt { fault, broke_off }) => {
                let asked_ms = fault.retry_after.map(whole_ms);
                let failure = self.note_failure(fault);
                return Ok(ExchangeInput::NoResponse { failure, broke_off, asked_ms });
            }
        };
        // An answer that goes on after the window's end loses nothing. Without it the request would have to be shortened.
        let has_rest = cut_answers::has_rest(attempt, &received, &self.outbound);
        let overflow = attempt.review().too_long_by(&received, &self.outbound);
        let overflow = overflow.filter(|_| !has_rest);
        let passing = attempt.passing_error(&received);
        let unnamed_refusal =
            part_refusals::unnamed_refusal(&received, &self.outbound, attempt.budget().window.tokens);
        let facts = ResponseFacts {
            overflow: overflow.as_ref().map(OverflowResponse::facts),
            is_refusal: received.is_refusal(),
            is_for_client: received.is_for_client(),
            is_whole_answer: received.answer().is_some(),
            passing_failure: passing
                .as_ref()
                .map(|error| PassingFailure { asked_ms: error.retry_after.map(whole_ms) }),
            unnamed_refusal,
            has_tried_singles: attempt.omissions.has_tried_singles(),
        };
        self.overflow = overflow.or_else(|| unnamed_refusal.map(|_| OverflowResponse::unnamed()));
        // The log names the failure if the request is repeated because of it.
        self.failure = passing.as_ref().map(GatewayError::from).or(self.failure.take());
        self.received = Some(received);
        Ok(ExchangeInput::Responded(facts))
    }

    async fn wait(&mut self, ms: u64) -> ExchangeInput {
        tracing::warn!(
            upstream = self.targets.get(self.upstream).map(|target| &target.server.upstream.name),
            wait_ms = ms,
            "an answer broke off, failed, or was refused without a reason before the client had any of it, and is asked \
             for again: {}",
            self.newest_failure()
        );
        sleep(Duration::from_millis(ms)).await;
        ExchangeInput::WaitOver
    }

    /// Returns whether the request fits with a lower output limit, which is then used.
    fn lower_output(&mut self) -> Result<bool, GatewayError> {
        let overflow = self.overflow.as_ref().ok_or_else(incomplete)?;
        let attempt = self.attempt.as_mut().ok_or_else(incomplete)?;
        let is_lower = attempt.asks_for_less_after(overflow, &self.outbound);
        tracing::debug!(
            is_lower,
            is_said = overflow.is_said,
            "a lower output limit was considered for an overlong request"
        );
        Ok(is_lower)
    }

    async fn shorten(&mut self) -> Result<ShorteningOutcome, GatewayError> {
        let overflow = self.overflow.as_ref().ok_or_else(incomplete)?;
        let attempt = self.attempt.as_mut().ok_or_else(incomplete)?;
        // The length is the likelier reason now.
        attempt.omissions.take_back_guess(&attempt.request);
        match attempt.shortened_after(overflow, &self.outbound).await {
            Ok(Some(shorter)) => {
                self.shorter = Some(shorter);
                Ok(ShorteningOutcome::Shorter)
            }
            Ok(None) => Ok(ShorteningOutcome::NothingLeft),
            Err(fault) => {
                // A response is not shared between threads, so it is borrowed only behind the wait.
                let received = self.received.as_ref().ok_or_else(incomplete)?;
                // The text of an answer is no explanation of a refusal.
                let said = attempt.words_of(received).filter(|_| received.answer().is_none());
                let fault = attempt.review().refused_too(fault, &self.outbound, said.as_deref());
                Ok(ShorteningOutcome::Failed(self.note_failure(fault)))
            }
        }
    }

    fn omit_part(&mut self) -> Result<bool, GatewayError> {
        let received = self.received.as_ref().ok_or_else(incomplete)?;
        let attempt = self.attempt.as_mut().ok_or_else(incomplete)?;
        let is_omitted = attempt.leaves_out_refused(received);
        if is_omitted {
            // A refusal costs nothing, but an answer that a filter withheld does.
            attempt.bill_unused(received, &self.outbound);
        }
        Ok(is_omitted)
    }

    fn discard_response(&mut self) -> Result<EffectOutcome, GatewayError> {
        // The client pays for an answer that it does not get, so the totals must show it.
        if let Some(received) = self.received.take() {
            tracing::debug!(
                input = self.outbound.input,
                has_shorter = self.shorter.is_some(),
                "a response is discarded, and the request is sent again"
            );
            self.attempt.as_ref().ok_or_else(incomplete)?.bill_unused(&received, &self.outbound);
        }
        // Only now: the discarded response belongs to the longer request.
        if let Some(shorter) = self.shorter.take() {
            self.outbound = shorter;
        }
        Ok(EffectOutcome::Done)
    }

    fn report_doubt(&mut self) -> Result<EffectOutcome, GatewayError> {
        if let Some(suspicion) = self.overflow.as_ref().and_then(|overflow| overflow.suspicion) {
            self.attempt.as_ref().ok_or_else(incomplete)?.review().tell_doubt(suspicion, &mut self.outbound);
        }
        Ok(EffectOutcome::Done)
    }

    fn learn_count(&mut self) -> Result<EffectOutcome, GatewayError> {
        if let Some(seen) = self.received.as_ref().and_then(AttemptOutcome::answer) {
            self.attempt.as_ref().ok_or_else(incomplete)?.review().learn_to_count(&seen, &self.outbound);
        }
        Ok(EffectOutcome::Done)
    }

    /// Takes the response for the client. A stream is ready with its first bytes.
    async fn relay(&mut self) -> Result<RelayOutcome, GatewayError> {
        let received = self.received.take().ok_or_else(incomplete)?;
        // The flow of a stream owns its attempt, because the stream is polled after the driver is gone.
        let attempt = self.attempt.take().ok_or_else(incomplete)?;
        let outbound = std::mem::take(&mut self.outbound);
        let received = cut_answers::with_rest_in_stream(&attempt, received, &outbound);
        let is_whole = !received.is_stream();
        // The flow of an answer goes on with its own copy, because it outlives the driver.
        let mut answering = self.exchange.clone();
        answering.handle(ExchangeInput::Relayed(RelayOutcome::stream()));
        let opened = match received {
            AttemptOutcome::Native(UpstreamResponse::Stream(opening), _) => {
                attempt.relay_stream(opening, outbound, answering).await
            }
            AttemptOutcome::Native(UpstreamResponse::Whole(whole), _) => {
                let usage = whole.seen.as_ref().and_then(|seen| seen.usage.clone());
                match attempt.hand_over(whole, &outbound).await {
                    Ok(RelayDecision::Again(next)) => {
                        (self.outbound, self.attempt) = (*next, Some(attempt));
                        return Ok(RelayOutcome::HiddenCalls);
                    }
                    Ok(RelayDecision::On(disposition)) => {
                        if attempt.late_reading.is_some() {
                            attempt.record_after_reading(usage);
                        }
                        Ok(disposition)
                    }
                    Err(fault) => Err(fault.into()),
                }
            }
            AttemptOutcome::Translated(start, report) => {
                attempt.encoded(start, outbound, &report, answering).await
            }
            AttemptOutcome::Refused(error, _) => {
                self.totals.failed(&error, outbound.input);
                let fault = GatewayError::from(&error);
                // An error inside an answer has no status of its own.
                let own = error.status.map(|_| fault.status);
                let status = own.unwrap_or_else(|| fault.status_in(self.request.wire.dialect()));
                Err(GatewayError { status, ..fault }.into())
            }
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(FailedAttempt { fault, broke_off }) => {
                let asked_ms = fault.retry_after.map(whole_ms);
                let failure = self.note_failure(fault);
                return Ok(match broke_off {
                    true => RelayOutcome::BrokeOff { failure, asked_ms },
                    false => RelayOutcome::Failed(failure),
                });
            }
        };
        let lacks_path = self.may_lack_path && has_no_path(&opened, &self.target()?.model);
        let outcome = RelayOutcome::Ready {
            is_stream: !is_whole && !matches!(opened, UpstreamDisposition::Whole(..)),
            failure: failure_of(&opened),
            lacks_path,
        };
        self.relayed = Some(opened);
        Ok(outcome)
    }

    fn fail(&mut self, reason: ExchangeFailure) -> Result<EffectOutcome, GatewayError> {
        let fault = match reason {
            ExchangeFailure::NoUpstream => return Err(no_upstream()),
            ExchangeFailure::TooLong => {
                let received = self.received.take().ok_or_else(incomplete)?;
                let attempt = self.attempt()?;
                let said = attempt.words_of(&received);
                let outbound = &self.outbound;
                self.attempt.as_ref().ok_or_else(incomplete)?.review().too_long(outbound, said.as_deref())
            }
            // `Newest`, and whatever is added later.
            _ => {
                let newest = self.failure.take().ok_or_else(incomplete)?;
                let window_tokens = self.target()?.window_seen().tokens;
                let is_full = newest.kind == GatewayErrorKind::DoesNotFit;
                // An upstream with more room is only busy, so the client can ask again.
                let busy = self.busy.take().filter(|busy| is_full && busy.window_tokens > window_tokens);
                busy.map_or(newest, |busy| busy.failure)
            }
        };
        Ok(EffectOutcome::answer(self.readable(Err(fault))?))
    }

    /// Keeps a failure, and returns its kind.
    fn note_failure(&mut self, fault: GatewayError) -> UpstreamFailure {
        let kind = match self.targets.get(self.upstream) {
            Some(target) if fault.kind == GatewayErrorKind::DoesNotFit => {
                UpstreamFailure::TooSmall { window_tokens: target.window_seen().tokens }
            }
            _ => kind_of_fault(&fault),
        };
        self.failure = Some(fault);
        kind
    }

    /// Notes the present upstream with its failure if it may answer a little later.
    fn note_busy(&mut self) {
        let Some(target) = self.targets.get(self.upstream) else { return };
        let failure = match &self.relayed {
            Some(UpstreamDisposition::Whole(status, _, bytes)) => {
                Some(reword_error(*status, &String::from_utf8_lossy(bytes)))
            }
            Some(UpstreamDisposition::Failed(fault, ..)) => Some(fault.clone()),
            Some(UpstreamDisposition::Stream(..)) | None => self.failure.clone(),
        };
        let passing = failure.filter(|fault| kind_of_fault(fault) != UpstreamFailure::Final);
        let window_tokens = target.window_seen().tokens;
        self.busy = passing.map(|failure| BusyUpstream { failure, window_tokens }).or(self.busy.take());
    }

    /// Returns the reason why the newest upstream gave no answer, for the log.
    fn newest_failure(&self) -> String {
        match (&self.relayed, &self.failure) {
            (Some(UpstreamDisposition::Whole(status, ..)), _) => status.to_string(),
            (Some(UpstreamDisposition::Failed(fault, ..)), _) | (_, Some(fault)) => fault.message.clone(),
            (Some(UpstreamDisposition::Stream(..)) | None, None) => String::new(),
        }
    }
}

impl OverflowResponse {
    /// Returns the facts for the exchange.
    fn facts(&self) -> OverflowFacts {
        OverflowFacts {
            is_said: self.is_said,
            is_usable: self.is_usable,
            is_truncation: matches!(self.suspicion, Some(SuspectedOverflow::SilentlyTruncated { .. })),
        }
    }
}

/// Returns the error of an exchange whose driver and state disagree.
fn incomplete() -> GatewayError {
    GatewayError::new(GatewayErrorKind::Internal, "the exchange has ended without an answer")
}

/// Returns whether the answer says that the upstream has no such path. A server that names the missing model has the
/// path.
fn has_no_path(opened: &UpstreamDisposition, model: &str) -> bool {
    match opened {
        UpstreamDisposition::Whole(status, _, bytes) => {
            let is_missing = matches!(
                *status,
                StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED
            );
            is_missing && !names_missing_resource(bytes, model)
        }
        UpstreamDisposition::Stream(..) | UpstreamDisposition::Failed(..) => false,
    }
}

/// Returns the failure that a response reports, if it is no answer.
fn failure_of(opened: &UpstreamDisposition) -> Option<UpstreamFailure> {
    match opened {
        UpstreamDisposition::Whole(status, _, bytes) => {
            // Another upstream may have a quota of its own.
            let may_do_better = status.is_server_error()
                || *status == StatusCode::TOO_MANY_REQUESTS
                || status.is_client_error() && is_payment_due(*status, &String::from_utf8_lossy(bytes));
            may_do_better.then_some(UpstreamFailure::Temporary)
        }
        UpstreamDisposition::Stream(..) => None,
        UpstreamDisposition::Failed(fault, ..) => Some(kind_of_fault(fault)),
    }
}

fn kind_of_fault(fault: &GatewayError) -> UpstreamFailure {
    match fault.kind {
        GatewayErrorKind::Unreachable => UpstreamFailure::Unreachable,
        GatewayErrorKind::Timeout
        | GatewayErrorKind::RateLimit
        | GatewayErrorKind::Billing
        | GatewayErrorKind::Overloaded
        | GatewayErrorKind::Upstream => UpstreamFailure::Temporary,
        _ => UpstreamFailure::Final,
    }
}
