//! The exchange with an upstream on the client's own wire: bytes, time-outs, new tries, and the handling of responses.
//! `translate` does the same for an upstream that speaks another wire.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use longhaul_core::error::ErrorCode;
use longhaul_core::exchange::Exchange;
use longhaul_providers::ProviderError;
use longhaul_wire::{overflow, server_error};

use super::attempts::{AttemptOutcome, FailedAttempt};
use super::cut_answers;
use super::flow::{AnswerFlow, StreamBeginning, UpstreamBody};
use super::prepare::OutboundRequest;
use super::recall::{OutputDivision, WholeAnswerAction};
use super::upstream_client::SendFailure;
use super::upstream_response::{RelayDecision, StreamOpening, UpstreamResponse, WholeResponse};
use super::{PreparationAction, UpstreamAttempt, UpstreamDisposition, previous_response};
use crate::headers;
use longhaul_wire::edit::{GatewayError, GatewayErrorKind, error_in_answer};

/// The largest answer without a stream, in bytes.
const MAX_WHOLE_BYTES: usize = 256 << 20;

/// The smallest window that exists, in tokens. A shorter request cannot have been refused for its length.
pub(super) const SMALLEST_WINDOW_TOKENS: u64 = 1_024;

/// The hold time for an empty beginning of a stream, because a refusal may follow.
const HOLD: Duration = Duration::from_secs(1);

/// The hold for a client that waits for the whole answer. The upstream's silence ends such a wait earlier.
const HOLD_WHOLE: Duration = Duration::from_secs(3_600);

impl UpstreamAttempt {
    /// Sends the request on the client's wire, and reads the response.
    ///
    /// # Errors
    /// [`FailedAttempt`] if there is no response, not even an error of the upstream.
    pub(super) async fn attempt_native(
        &mut self,
        prepared: &OutboundRequest,
        may_shorten: bool,
    ) -> Result<AttemptOutcome, FailedAttempt> {
        let body = self.outbound().body(prepared, None, self.must_collect(prepared)).await?;
        let body = self.omissions.without_refused(&self.request, body);
        let response = self
            .client()
            .send(body.clone())
            .await
            .inspect_err(|request| self.unanswered(request, prepared))?;
        Ok(AttemptOutcome::Native(self.receive(response, prepared, may_shorten).await?, body))
    }

    /// Relays a stream to the client.
    ///
    /// # Errors
    /// [`FailedAttempt`] if the stream is collected and breaks off.
    pub(super) async fn relay_stream(
        self,
        opening: StreamOpening,
        prepared: OutboundRequest,
        exchange: Exchange,
    ) -> Result<UpstreamDisposition, FailedAttempt> {
        let StreamOpening { status, headers, body, beginning } = opening;
        let error = beginning.error.as_deref().map(|error| self.request.said_error(error));
        let collects = self.must_collect(&prepared);
        let opened = self.streaming((status, headers), *body, prepared, collects, exchange).await?;
        Ok(match (opened, error) {
            (UpstreamDisposition::Stream(status, headers, stream), Some(fault)) => {
                UpstreamDisposition::Failed(fault, status, headers, stream)
            }
            (opened, _) => opened,
        })
    }

    /// Reads a response as far as needed to know whether it is an answer.
    async fn receive(
        &self,
        response: reqwest::Response,
        prepared: &OutboundRequest,
        may_shorten: bool,
    ) -> Result<UpstreamResponse, FailedAttempt> {
        let (status, upstream_headers) = (response.status(), response.headers().clone());
        self.request.target.server.check_place(status, &upstream_headers)?;
        if status.is_success() {
            // A background summary is written only after this mark: a failed upstream is not asked for one.
            self.fitter.is_answered.store(true, Ordering::Relaxed);
        }
        let mut headers = self.request.target.server.headers_for_caller(&upstream_headers);
        self.budget().say_limit(prepared, &mut headers);
        self.omissions.say_omitted(&mut headers);
        let body = UpstreamBody::new(response, self.request.target.server.timeouts().idle)
            .inspect_err(|_| self.bill_lost_body(status, prepared))?;
        let mut body = Box::new(body);
        let kind = BodyKind::of(&upstream_headers);
        // Some servers send event streams without the type, and clients depend on the header.
        let is_unnamed = status.is_success() && kind == BodyKind::Unnamed && body.has_events().await;
        if is_unnamed {
            headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static("text/event-stream"));
        }
        if is_unnamed || status.is_success() && kind == BodyKind::EventStream {
            body.unwrap_calls(self.request.call_unwrapper());
            // The hold delays nothing else: without a possible second attempt the first bytes pass at once.
            let may_be_too_long = may_shorten && prepared.input >= SMALLEST_WINDOW_TOKENS;
            let may_repeat = self.request.proxied.inner.config.retry.stream_attempts > 0;
            let hold = match may_be_too_long || may_repeat || self.request.proxied.targets.len() > 1 {
                // A client that waits for the whole answer loses nothing by a longer hold.
                true if !self.request.proxied.envelope.stream => HOLD_WHOLE,
                true => HOLD,
                false => Duration::ZERO,
            };
            let StreamBeginning { seen: beginning, broke } =
                body.beginning(self.request.proxied.wire, hold).await;
            return match broke {
                Some(fault) => {
                    self.totals().unanswered(prepared.input);
                    Err(FailedAttempt { fault, broke_off: true })
                }
                None => Ok(UpstreamResponse::Stream(StreamOpening { status, headers, body, beginning })),
            };
        }
        let bytes = whole(*body)
            .await
            .inspect_err(|_| self.bill_lost_body(status, prepared))
            .map_err(FailedAttempt::of_body)?;
        let bytes = self.request.with_own_calls(bytes);
        let seen = self.client().read(status, &bytes).await;
        // Some servers quote a refused key in their error.
        let bytes = if seen.is_none() { self.request.target.server.hide_secrets(bytes) } else { bytes };
        let whole = WholeResponse { status, headers, bytes, seen, in_answer: None };
        cut_answers::with_break_in_stream(self, self.with_own_status(whole), prepared)
    }

    /// Returns a response whose error has the status of an error: some servers and proxies send errors with 200.
    fn with_own_status(&self, whole: WholeResponse) -> WholeResponse {
        let said = std::str::from_utf8(&whole.bytes).ok();
        let said = said.filter(|_| whole.status.is_success() && whole.seen.is_none());
        let Some(error) = said.and_then(error_in_answer).map(with_named_wait) else { return whole };
        let fault = GatewayError::from(&error);
        let status = fault.status_in(self.request.proxied.wire.dialect());
        tracing::info!(
            upstream = self.request.target.server.upstream.name,
            status = status.as_u16(),
            kind = ?fault.kind,
            "the upstream sent an error with the status of a success"
        );
        let mut headers = whole.headers;
        if let Some(wait) = fault.retry_after.filter(|_| !headers.contains_key(header::RETRY_AFTER)) {
            headers::say_retry_after(&mut headers, wait);
        }
        WholeResponse { status, headers, in_answer: Some(Box::new(error)), ..whole }
    }

    /// Accounts for an answer whose body is lost.
    fn bill_lost_body(&self, status: StatusCode, prepared: &OutboundRequest) {
        if status.is_success() {
            self.totals().unanswered(prepared.input);
        }
    }

    /// Passes a complete answer to the client, or answers its hidden calls.
    pub(super) async fn hand_over(
        &self,
        whole: WholeResponse,
        prepared: &OutboundRequest,
    ) -> Result<RelayDecision, GatewayError> {
        let WholeResponse { status, mut headers, bytes, seen, .. } = whole;
        self.budget().describe(&prepared.report, &mut headers);
        self.review().check(status, &bytes, seen.as_ref())?;
        let after = match &seen {
            Some(seen) => self.hidden_steps().after_whole(prepared, &bytes, seen).await,
            None => WholeAnswerAction::AsItIs,
        };
        let (bytes, division) = match after {
            WholeAnswerAction::Again(next) => return Ok(RelayDecision::Again(next)),
            WholeAnswerAction::Without { answer, division } => (answer, division),
            WholeAnswerAction::AsItIs => (bytes, OutputDivision::default()),
        };
        let usage = seen.as_ref().and_then(|seen| seen.usage.clone());
        let seen = seen.unwrap_or_default();
        match status.is_success() {
            true => self.totals().add(usage.as_ref(), || self.request.counted(prepared, &seen, 0)),
            false => self.totals().refused(),
        }
        self.log_end(status.is_success());
        self.totals().describe(&mut headers);
        if let Some(usage) = usage.filter(|_| !prepared.is_doubted) {
            self.journal().remember_usage(division.shown_of(usage), prepared).await;
        }
        if let Some(said) = std::str::from_utf8(&bytes).ok().filter(|_| status.is_success()) {
            previous_response::store_response(&self.request.proxied, said).await;
        }
        // The totals go in last: stored answers and usage must be those of the upstream.
        let bytes = if status.is_success() { self.totals().beside(&prepared.report, bytes) } else { bytes };
        Ok(RelayDecision::On(UpstreamDisposition::Whole(status, headers, bytes)))
    }

    /// Accounts for an unanswered request. After a time-out the upstream may have read the whole input.
    fn unanswered(&self, request: &SendFailure, prepared: &OutboundRequest) {
        if let SendFailure::Other(fault) = request
            && fault.kind == GatewayErrorKind::Timeout
        {
            self.totals().unanswered(prepared.input);
        }
    }

    /// Returns whether a complete answer for the client may have to be stopped on its way.
    pub(super) fn must_collect(&self, prepared: &OutboundRequest) -> bool {
        let threshold = self.budget().threshold_tokens();
        let asked = self.request.proxied.envelope.max_output;
        // The share is that at which a stream is stopped, so only answers that may reach it are collected.
        let nearly_full = self.budget().window.tokens / 10 * 9;
        let is_long = prepared.input > threshold / 2
            || asked.is_some_and(|asked| prepared.bound.saturating_add(asked) > nearly_full);
        let has_more =
            self.notes(prepared) || !self.request.tools().hidden_tools(&prepared.report).is_empty();
        !self.request.proxied.envelope.stream && (self.may_continue() && is_long || has_more)
    }

    /// Returns whether an answer can be stopped and continued at this upstream.
    pub(super) fn may_continue(&self) -> bool {
        self.memo().conversation.is_some() && self.request.may_continue_if_read()
    }

    /// Returns whether the answer's text is to contain notices.
    pub(super) fn notes(&self, prepared: &OutboundRequest) -> bool {
        self.request.proxied.inner.config.notices_in_text
            && prepared.report.action == PreparationAction::Compacted
    }

    /// Returns the answer as a stream, or as one collected body.
    pub(super) async fn streaming(
        self,
        (status, mut headers): (StatusCode, HeaderMap),
        body: UpstreamBody,
        prepared: OutboundRequest,
        collects: bool,
        exchange: Exchange,
    ) -> Result<UpstreamDisposition, FailedAttempt> {
        self.budget().describe(&prepared.report, &mut headers);
        if self.may_continue() && !self.request.goes_on_exactly() {
            headers::set_header(&mut headers, "x-longhaul-midstream", "approximate");
        }
        let wire = self.request.proxied.wire;
        // Some servers stream although the client did not ask for a stream.
        let totals = Arc::clone(self.totals());
        let collects = collects || !self.request.proxied.envelope.stream;
        let flow = AnswerFlow::new(self, body, prepared, collects, exchange);
        if !collects {
            return Ok(UpstreamDisposition::Stream(status, headers, flow.into_stream()));
        }
        let (events, route, report) = flow.collect().await?;
        if let Some(route) = route {
            route.budget().describe(&report, &mut headers);
        }
        headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        totals.describe(&mut headers);
        let whole = wire.collect_answer(&events);
        let whole = whole.ok_or_else(|| {
            GatewayError::new(
                GatewayErrorKind::Upstream,
                "the upstream's answer ended before it was complete",
            )
        })?;
        Ok(UpstreamDisposition::Whole(status, headers, totals.beside(&report, whole)))
    }
}

/// Returns whether a refusal's text says nothing about length. Its status alone is no evidence, because a proxy may
/// have set the status.
pub(super) fn is_wordless(said: &str) -> bool {
    overflow::recognise(Some(StatusCode::UNPROCESSABLE_ENTITY.as_u16()), said).is_none()
}

/// Returns the error of a used-up limit with the wait until the moment that it names, such as Codex's `resets_at`.
pub(super) fn with_named_wait(error: ProviderError) -> ProviderError {
    let said = error.body.as_deref().filter(|_| error.code == ErrorCode::RateLimitExceeded);
    let named = said.and_then(|said| server_error::wait_of_body(said, SystemTime::now()));
    ProviderError { retry_after: error.retry_after.or(named), ..error }
}

/// Returns whether only a payment helps against an upstream's refusal, whatever its status.
pub(super) fn is_payment_due(status: StatusCode, said: &str) -> bool {
    server_error::from_response(status.as_u16(), None, said.to_owned()).is_payment_due
}

/// Returns the kind of an upstream's refusal.
pub(super) fn kind_of(status: StatusCode, said: &str) -> GatewayErrorKind {
    if is_payment_due(status, said) {
        return GatewayErrorKind::Billing;
    }
    // An overlong request is recognised by the text alone, since the status alone is ambiguous.
    let overflow = overflow::recognise(Some(status.as_u16()), said).filter(|_| !is_wordless(said));
    match (overflow, status) {
        (Some(_), _) => GatewayErrorKind::ContextOverflow,
        (None, StatusCode::TOO_MANY_REQUESTS) => GatewayErrorKind::RateLimit,
        (None, StatusCode::PAYLOAD_TOO_LARGE) => GatewayErrorKind::TooLarge,
        (None, StatusCode::UNAUTHORIZED) => GatewayErrorKind::Auth,
        (None, StatusCode::PAYMENT_REQUIRED) => GatewayErrorKind::Billing,
        (None, StatusCode::FORBIDDEN) => GatewayErrorKind::Forbidden,
        (None, StatusCode::NOT_FOUND) => GatewayErrorKind::NotFound,
        (None, status) if status.is_client_error() => GatewayErrorKind::Invalid,
        // Anthropic reports an overload as 529.
        (None, status) if matches!(status.as_u16(), 503 | 529) => GatewayErrorKind::Overloaded,
        (None, _) => GatewayErrorKind::Upstream,
    }
}

/// The kind of a body by its `Content-Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyKind {
    EventStream,
    /// No type, or a generic one from a server that does not know better.
    Unnamed,
    Other,
}

impl BodyKind {
    fn of(headers: &HeaderMap) -> Self {
        let named = headers.get(header::CONTENT_TYPE).map_or("", |kind| kind.to_str().unwrap_or("?"));
        match named.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "text/event-stream" => Self::EventStream,
            "" | "text/plain" | "application/octet-stream" => Self::Unnamed,
            _ => Self::Other,
        }
    }
}

/// Returns the complete body.
///
/// # Errors
/// [`GatewayError`] if the body breaks off or is too large.
pub(super) async fn whole(mut body: UpstreamBody) -> Result<Bytes, GatewayError> {
    let mut all = BytesMut::new();
    while let Some(chunk) = body.next().await? {
        if all.len() + chunk.len() > MAX_WHOLE_BYTES {
            let message = format!("the upstream's answer has more than {MAX_WHOLE_BYTES} bytes");
            return Err(GatewayError::new(GatewayErrorKind::Upstream, message));
        }
        all.extend_from_slice(&chunk);
    }
    Ok(all.freeze())
}
