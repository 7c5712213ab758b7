//! The native exchange with an upstream: bytes, time-outs, new tries, and the handling of responses.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use longhaul_core::recall::tool;
use longhaul_core::usage::Usage;
use longhaul_providers::FeatureSupport;
use longhaul_providers::http::retry_after;
use longhaul_wire::overflow;
use tokio::time::{Instant, timeout};

use super::attempts::{AttemptOutcome, FailedAttempt};
use super::flow::{AnswerFlow, StreamBeginning, UpstreamBody};
use super::log::ReportedUsage;
use super::prepare::OutboundRequest;
use super::recall::{OutputDivision, WholeAnswerAction};
use super::retries::{AttemptFailure, RetryState};
use super::upstream_response::{RelayDecision, StreamOpening, UpstreamResponse, WholeResponse};
use super::{PreparationAction, UpstreamAttempt, UpstreamDisposition};
use crate::gateway::MidstreamMode;
use crate::headers;
use crate::response_store::ResponseEntry;
use longhaul_wire::edit::{AnswerPrefill, GatewayError, GatewayErrorKind, PartialResponse, RequestEdit};

/// The largest answer that is no stream, in bytes.
const MAX_WHOLE_BYTES: usize = 256 << 20;

/// The smallest window that exists, in tokens. A shorter request cannot have been refused for its length.
pub(super) const SMALLEST_WINDOW_TOKENS: u64 = 1_024;

/// The time for which an empty beginning of a stream is held back, because a refusal may follow.
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
        let body = self.body(prepared, None, self.must_collect(prepared)).await?;
        let body = self.without_refused(body);
        let response =
            self.send(body.clone()).await.inspect_err(|request| self.unanswered(request, prepared))?;
        Ok(AttemptOutcome::Native(self.receive(response, prepared, may_shorten).await?, body))
    }

    /// Relays a stream to the client.
    ///
    /// # Errors
    /// [`GatewayError`] if the stream is collected and breaks off.
    pub(super) async fn relay_stream(
        self,
        opening: StreamOpening,
        prepared: OutboundRequest,
    ) -> Result<UpstreamDisposition, GatewayError> {
        let StreamOpening { status, headers, body, beginning } = opening;
        let error = beginning.error.as_deref().map(|error| self.said_error(error));
        let collects = self.must_collect(&prepared);
        let opened = self.streaming(status, headers, *body, prepared, collects).await?;
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
        self.target.server.check_place(status, &upstream_headers)?;
        if status.is_success() {
            self.is_answered.store(true, Ordering::Relaxed);
        }
        let mut headers = self.target.server.headers_for_caller(&upstream_headers);
        self.say_limit(prepared, &mut headers);
        self.say_omitted(&mut headers);
        let lost = |_: &GatewayError| {
            if status.is_success() {
                self.totals.unanswered(prepared.input);
            }
        };
        let body = UpstreamBody::new(response, self.target.server.timeouts().idle).inspect_err(lost)?;
        let mut body = Box::new(body);
        let kind = BodyKind::of(&upstream_headers);
        let is_unnamed = status.is_success() && kind == BodyKind::Unnamed && body.has_events().await;
        if is_unnamed {
            headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static("text/event-stream"));
        }
        if is_unnamed || status.is_success() && kind == BodyKind::EventStream {
            body.unwrap_calls(self.call_unwrapper());
            let may_be_too_long = may_shorten && prepared.input >= SMALLEST_WINDOW_TOKENS;
            let may_repeat = self.exchange.inner.config.retry.stream_attempts > 0;
            let hold = match may_be_too_long || may_repeat || self.exchange.targets.len() > 1 {
                // A client that waits for the whole answer loses nothing by a longer hold.
                true if !self.exchange.envelope.stream => HOLD_WHOLE,
                true => HOLD,
                false => Duration::ZERO,
            };
            let StreamBeginning { seen: beginning, broke } = body.beginning(self.exchange.wire, hold).await;
            return match broke {
                Some(fault) => {
                    self.totals.unanswered(prepared.input);
                    Err(FailedAttempt { fault, broke_off: true })
                }
                None => Ok(UpstreamResponse::Stream(StreamOpening { status, headers, body, beginning })),
            };
        }
        let bytes = whole(*body).await.inspect_err(lost).map_err(FailedAttempt::of_body)?;
        let bytes = self.with_own_calls(bytes);
        let seen = self.read(status, &bytes).await;
        // Some servers quote a refused key in their error.
        let bytes = if seen.is_none() { self.target.server.hide_secrets(bytes) } else { bytes };
        Ok(UpstreamResponse::Whole(WholeResponse { status, headers, bytes, seen }))
    }

    /// Passes a complete answer to the client, or answers its hidden calls.
    pub(super) async fn hand_over(
        &self,
        whole: WholeResponse,
        prepared: &OutboundRequest,
    ) -> Result<RelayDecision, GatewayError> {
        let WholeResponse { status, mut headers, bytes, seen } = whole;
        self.describe(&prepared.report, &mut headers);
        self.check(status, &bytes, seen.as_ref())?;
        let after = match &seen {
            Some(seen) => self.after_whole(prepared, &bytes, seen).await,
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
            true => self.totals.add(usage.as_ref(), || self.counted(prepared, &seen, 0)),
            false => self.totals.refused(),
        }
        self.log_end(status.is_success());
        self.totals.describe(&mut headers);
        if let Some(usage) = usage.filter(|_| !prepared.is_doubted) {
            self.remember_usage(division.shown_of(usage), prepared).await;
        }
        if let Some(said) = std::str::from_utf8(&bytes).ok().filter(|_| status.is_success()) {
            self.exchange.keep(said).await;
        }
        let bytes = if status.is_success() { self.totals.beside(&prepared.report, bytes) } else { bytes };
        Ok(RelayDecision::On(UpstreamDisposition::Whole(status, headers, bytes)))
    }

    /// Accounts for an unanswered request. After a time-out the upstream may have read the whole input.
    fn unanswered(&self, request: &SendFailure, prepared: &OutboundRequest) {
        if let SendFailure::Other(fault) = request
            && fault.kind == GatewayErrorKind::Timeout
        {
            self.totals.unanswered(prepared.input);
        }
    }

    /// Returns the request's body, which is the client's own bytes if nothing changes.
    ///
    /// # Errors
    /// [`GatewayError`] if a change cannot be expressed, or the answer has reached the client's output limit.
    pub(super) async fn body(
        &self,
        prepared: &OutboundRequest,
        prefill: Option<(&str, u64)>,
        collects: bool,
    ) -> Result<Bytes, GatewayError> {
        let envelope = &self.exchange.envelope;
        let said = prefill.map_or(0, |(_, tokens)| tokens);
        let left = self.left_output(said)?;
        let begun = prefill.filter(|(text, _)| !text.is_empty());
        let max_output = self.room(prepared).filter(|room| left.is_some_and(|left| left > *room));
        let edited = RequestEdit {
            max_output: max_output.or(left.filter(|_| said > 0)),
            steps: prepared.render_ops(envelope.items.len()),
            stream: collects.then_some(true),
            include_usage: collects,
            tool: self.recalls(&prepared.report).then(tool::spec),
            // The tools stay listed. Removing them would break the prompt cache, and some servers refuse a history
            // whose tools are not listed.
            forbids_calls: prepared.rounds.must_answer(),
            replays: prepared.replays.clone(),
            rounds: prepared.rounds.items.clone(),
            asks_to_go_on: begun.is_some() && !self.goes_on_exactly(),
            prefill: begun.map(|(text, _)| AnswerPrefill {
                text: text.to_owned(),
                must_be_told: self.target.must_be_told(),
            }),
            ..self.request_edit()
        };
        match edited.is_nothing() {
            true => Ok(envelope.bytes.clone()),
            false => Ok(self.work(|| self.exchange.wire.render(envelope, &edited)).await?),
        }
    }

    /// Returns the output limit that the client sets.
    pub(super) fn asked_output(&self) -> Option<u64> {
        self.exchange.envelope.max_output.filter(|limit| *limit < u64::MAX)
    }

    /// Returns the rest of the client's output limit after `said_tokens`.
    ///
    /// # Errors
    /// [`GatewayError`] if nothing is left.
    pub(super) fn left_output(&self, said_tokens: u64) -> Result<Option<u64>, GatewayError> {
        let left = self.asked_output().map(|limit| limit.saturating_sub(said_tokens));
        match left {
            Some(0) if said_tokens > 0 => {
                Err(GatewayError::new(GatewayErrorKind::Invalid, "nothing is left of the output limit"))
            }
            left => Ok(left),
        }
    }

    /// Returns the room of the window for an answer, if the window is known.
    pub(super) fn room(&self, prepared: &OutboundRequest) -> Option<u64> {
        let is_known = self.window.is_known() && prepared.input > 0;
        let room = self.window.tokens.saturating_sub(prepared.bound).max(1);
        self.max_output_tokens.or(Some(room).filter(|_| is_known))
    }

    /// Returns the output limit that replaces the client's, as a field with its value.
    pub(super) fn limit_said(&self, prepared: &OutboundRequest) -> Option<String> {
        let (asked, room) = self.asked_output().zip(self.room(prepared))?;
        let name = self.exchange.envelope.max_output_name().unwrap_or("max_tokens");
        (asked > room).then(|| format!("{name}={room}"))
    }

    fn say_limit(&self, prepared: &OutboundRequest, headers: &mut HeaderMap) {
        if let Some(changed) = self.limit_said(prepared) {
            headers::say(headers, "x-longhaul-changed", &changed);
        }
    }

    /// Returns whether an answer that the client wants whole may have to be stopped on its way.
    pub(super) fn must_collect(&self, prepared: &OutboundRequest) -> bool {
        let line = self.policy.trigger.map_or(self.window.tokens, |trigger| self.budget().trigger(trigger));
        let may_outgrow = |most: u64| prepared.bound.saturating_add(most) > self.window.tokens / 10 * 9;
        let is_long = prepared.input > line / 2 || self.exchange.envelope.max_output.is_some_and(may_outgrow);
        let has_more = self.notes(prepared) || !self.hidden_tools(&prepared.report).is_empty();
        !self.exchange.envelope.stream && (self.may_continue() && is_long || has_more)
    }

    /// Returns whether an answer can be stopped and continued at this upstream.
    pub(super) fn may_continue(&self) -> bool {
        self.conversation.is_some() && self.may_continue_if_read()
    }

    /// Returns whether the answer to a request that has been read can be stopped and continued at this upstream.
    pub(super) fn may_continue_if_read(&self) -> bool {
        let config = &self.exchange.inner.config;
        let can = match config.midstream {
            MidstreamMode::Off => false,
            MidstreamMode::Exact => self.goes_on_exactly(),
            MidstreamMode::BestEffort => self.goes_on_exactly() || self.is_prose(),
        };
        can && self.has_one_choice() && self.limits.window.is_some()
    }

    /// Returns whether an answer that its upstream breaks off can continue in another stream.
    pub(super) fn may_reconnect(&self) -> bool {
        let config = &self.exchange.inner.config;
        let is_wanted = config.midstream != MidstreamMode::Off && config.retry.stream_attempts > 0;
        is_wanted && self.has_one_choice() && self.goes_on_exactly()
    }

    /// Returns whether the client wants one answer instead of several choices.
    fn has_one_choice(&self) -> bool {
        self.exchange.envelope.other("n").is_none_or(|n| matches!(n, "1" | "null"))
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
        let plain = |raw: &str| raw == "null" || !raw.contains("json");
        forms.iter().all(|form| self.exchange.envelope.other(form).is_none_or(plain))
    }

    /// Returns whether the answer's text is to contain notices.
    pub(super) fn notes(&self, prepared: &OutboundRequest) -> bool {
        self.exchange.inner.config.notices_in_text && prepared.report.action == PreparationAction::Compacted
    }

    /// Posts the request and waits for the status line. A request that did not arrive or met a busy server is tried
    /// again. One that the upstream may have read is not.
    ///
    /// A 404 at the base URL leads to one request below the base URL with a version segment.
    pub(super) async fn send(&self, body: Bytes) -> Result<reqwest::Response, SendFailure> {
        let base = self.target.server.base();
        let response = self.send_below(base.current(), body.clone()).await?;
        let Some(versioned) = base.alternative() else { return Ok(response) };
        let (response, is_elsewhere) = check_missing_path(response).await?;
        if !is_elsewhere {
            return Ok(response);
        }
        match check_missing_path(self.send_below(&versioned, body).await?).await? {
            (_, true) => Ok(response),
            (found, false) => {
                base.adopt_alternative();
                Ok(found)
            }
        }
    }

    async fn send_below(&self, base: &str, body: Bytes) -> Result<reqwest::Response, SendFailure> {
        let mut tries = RetryState::new(self.exchange.inner.config.attempts);
        loop {
            let begun = Instant::now();
            let result = self.send_once(base, body.clone()).await;
            let failed = match &result {
                Ok(response) => AttemptFailure::of_status(response.status()),
                Err(SendFailure::Unreached(_)) => AttemptFailure::Unreached,
                Err(SendFailure::BrokenOff(_)) => AttemptFailure::BrokenOff(begun.elapsed()),
                Err(SendFailure::Other(_)) => AttemptFailure::Finally,
            };
            if !tries.again(failed).await {
                return result;
            }
        }
    }

    async fn send_once(&self, base: &str, body: Bytes) -> Result<reqwest::Response, SendFailure> {
        let (exchange, server) = (&self.exchange, &self.target.server);
        let own = exchange.inner.config.credentials == crate::gateway::CredentialSource::Own;
        let request = server.post(base, exchange.wire.dialect().path(), &exchange.headers, own, body);
        let request = request.map_err(SendFailure::Other)?;
        let limit = server.timeouts().first_byte_limit();
        let name = &server.upstream.name;
        match timeout(limit, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                let url = reqwest::Url::parse(base).ok();
                let hint = url.and_then(|url| server.upstream.endpoint.variables.hint(&url, &error));
                let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
                let fault = |what| {
                    let message = format!("the upstream `{name}` {what}: {}{hint}", cause(&error));
                    GatewayError::new(GatewayErrorKind::Unreachable, message)
                };
                Err(match error.is_connect() {
                    true => SendFailure::Unreached(fault("cannot be reached")),
                    false => SendFailure::BrokenOff(fault("broke off before it answered")),
                })
            }
            Err(_) => {
                let message =
                    format!("the upstream `{name}` gave no answer within {} s", limit.as_secs_f64());
                Err(SendFailure::Other(GatewayError::new(GatewayErrorKind::Timeout, message)))
            }
        }
    }

    /// Returns the content of a complete answer with a success status.
    async fn read(&self, status: StatusCode, bytes: &[u8]) -> Option<PartialResponse> {
        let wire = self.exchange.wire;
        let read = || wire.answer(bytes);
        if status.is_success() {
            self.exchange.inner.work_limiter.work(bytes.len(), read).await
        } else {
            None
        }
    }

    /// Returns the error of an upstream that refused to continue an answer.
    pub(super) async fn refusal(&self, response: reqwest::Response) -> GatewayError {
        let (status, retry_after) = (response.status(), retry_after(response.headers(), SystemTime::now()));
        let read = async { whole(UpstreamBody::new(response, self.target.server.timeouts().idle)?).await };
        let bytes = match read.await {
            Ok(bytes) => self.target.server.hide_secrets(bytes),
            Err(fault) => return fault,
        };
        let said = String::from_utf8_lossy(&bytes);
        let quote: String = said.chars().take(500).collect();
        let message = format!("the upstream would not go on: status {status}: {quote}");
        GatewayError { status, retry_after, ..GatewayError::new(kind_of(status, &said), message) }
    }

    /// Records the reported usage as the anchor of the next estimate, also after a restart. Hidden output is excluded,
    /// because replays of it are counted separately.
    pub(super) async fn remember_usage(&self, usage: Usage, prepared: &OutboundRequest) {
        if let Some(entry) = self.reported(usage, prepared).await {
            self.exchange.inner.answers.write(entry).await;
        }
    }

    /// Records the usage at the end of a stream, and stores it in the background.
    pub(super) async fn remember_usage_beside(&self, usage: Usage, prepared: &OutboundRequest) {
        if let Some(entry) = self.reported(usage, prepared).await {
            self.exchange.inner.answers.write_beside(entry);
        }
    }

    /// Adds the reported usage to the log, and returns the entry to be stored.
    async fn reported(&self, usage: Usage, prepared: &OutboundRequest) -> Option<ResponseEntry> {
        if usage.input_tokens == 0 {
            return None;
        }
        self.target.saw_call(usage.total_tokens());
        // The input contained hidden steps, so its count does not match the client's request.
        if prepared.rounds.answered > 0 {
            return None;
        }
        tracing::info!(estimated = prepared.input, actual = usage.input_tokens, "the upstream's count");
        let mut state = self.state(self.conversation.as_ref()?, prepared.items).await?;
        state.log.report(ReportedUsage { usage, start: prepared.start.clone(), estimated: prepared.input });
        self.journal(&state.log, prepared.input)
    }

    /// Returns the answer as a stream, or as one body if it is collected.
    pub(super) async fn streaming(
        self,
        status: StatusCode,
        mut headers: HeaderMap,
        body: UpstreamBody,
        prepared: OutboundRequest,
        collects: bool,
    ) -> Result<UpstreamDisposition, GatewayError> {
        self.describe(&prepared.report, &mut headers);
        if self.may_continue() && !self.goes_on_exactly() {
            headers::say(&mut headers, "x-longhaul-midstream", "approximate");
        }
        let wire = self.exchange.wire;
        // Some servers stream although the client did not ask for a stream.
        let totals = Arc::clone(&self.totals);
        let collects = collects || !self.exchange.envelope.stream;
        let flow = AnswerFlow::new(self, body, prepared, collects);
        if !collects {
            return Ok(UpstreamDisposition::Stream(status, headers, flow.into_stream()));
        }
        let (events, route, report) = flow.collect().await?;
        if let Some(route) = route {
            route.describe(&report, &mut headers);
        }
        headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        totals.describe(&mut headers);
        let whole = wire.collect(&events);
        let broken = || {
            GatewayError::new(
                GatewayErrorKind::Upstream,
                "the upstream's answer ended before it was complete",
            )
        };
        Ok(UpstreamDisposition::Whole(status, headers, totals.beside(&report, whole.ok_or_else(broken)?)))
    }
}

/// The reason why a request has no answer.
pub(super) enum SendFailure {
    /// The upstream has not read the request.
    Unreached(GatewayError),
    /// The upstream may have read the request.
    BrokenOff(GatewayError),
    /// Another try would not help.
    Other(GatewayError),
}

impl From<SendFailure> for GatewayError {
    fn from(unanswered: SendFailure) -> Self {
        match unanswered {
            SendFailure::Unreached(fault) | SendFailure::BrokenOff(fault) | SendFailure::Other(fault) => {
                fault
            }
        }
    }
}

impl From<GatewayError> for SendFailure {
    fn from(fault: GatewayError) -> Self {
        Self::Other(fault)
    }
}

impl From<SendFailure> for FailedAttempt {
    fn from(unanswered: SendFailure) -> Self {
        let broke_off = matches!(unanswered, SendFailure::BrokenOff(_));
        Self { fault: unanswered.into(), broke_off }
    }
}

/// Returns whether a refusal's text says nothing about length. Its status alone is no evidence, because a proxy may
/// have set the status.
pub(super) fn is_wordless(said: &str) -> bool {
    overflow::recognise(Some(StatusCode::UNPROCESSABLE_ENTITY.as_u16()), said).is_none()
}

/// Returns the kind of an upstream's refusal.
pub(super) fn kind_of(status: StatusCode, said: &str) -> GatewayErrorKind {
    // An overlong request is recognised by the text alone, since the status alone is ambiguous.
    let overflow = overflow::recognise(Some(status.as_u16()), said).filter(|_| !is_wordless(said));
    match (overflow, status) {
        (Some(_), _) => GatewayErrorKind::ContextOverflow,
        (None, StatusCode::TOO_MANY_REQUESTS) => GatewayErrorKind::RateLimit,
        (None, StatusCode::PAYLOAD_TOO_LARGE) => GatewayErrorKind::TooLarge,
        (None, StatusCode::UNAUTHORIZED) => GatewayErrorKind::Auth,
        (None, StatusCode::FORBIDDEN) => GatewayErrorKind::Forbidden,
        (None, StatusCode::NOT_FOUND) => GatewayErrorKind::NotFound,
        (None, status) if status.is_client_error() => GatewayErrorKind::Invalid,
        (None, _) => GatewayErrorKind::Upstream,
    }
}

/// The largest body that can be a mere "no such path" message, in bytes.
const MAX_NO_PATH_BYTES: u64 = 1_000;

/// Returns the response, and whether there is no API at its address: no such path, or a web page. LM Studio reports an
/// unknown path with status 200, so the text of a short response counts, too.
///
/// # Errors
/// [`GatewayError`] if the response breaks off.
async fn check_missing_path(response: reqwest::Response) -> Result<(reqwest::Response, bool), GatewayError> {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_page = kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/html"));
    if matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) {
        return Ok((response, true));
    }
    let is_short = response.content_length().is_some_and(|length| length <= MAX_NO_PATH_BYTES);
    if !response.status().is_success() || is_page || !is_short {
        let is_elsewhere = is_page && response.status().is_success();
        return Ok((response, is_elsewhere));
    }
    let (status, headers) = (response.status(), response.headers().clone());
    let body = response.bytes().await.map_err(|error| {
        GatewayError::new(
            GatewayErrorKind::Unreachable,
            format!("the upstream broke off in its answer: {error}"),
        )
    })?;
    let says_so = String::from_utf8_lossy(&body).to_lowercase().contains("unexpected endpoint");
    let mut whole = http::Response::new(body);
    (*whole.status_mut(), *whole.headers_mut()) = (status, headers);
    Ok((whole.into(), says_so))
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

/// Returns the innermost cause: the outer errors repeat the URL.
fn cause(error: &reqwest::Error) -> String {
    let mut newest: &dyn std::error::Error = error;
    while let Some(source) = newest.source() {
        newest = source;
    }
    newest.to_string()
}
