//! The translated exchange with an upstream of another dialect: the request in neutral form, and the model's events in
//! the caller's dialect.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use longhaul_core::attempt::{SendOutcome, SendTries};
use longhaul_core::error::ErrorCode;
use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::exchange::Exchange;
use longhaul_core::message::{ModelAnswer, ModelStopReason, Part};
use longhaul_core::usage::Usage;
use longhaul_providers::{ModelEvent, ModelRequest, ModelStream, ProviderError, ToolChoice};
use tokio::time::{Instant, sleep};

use super::attempts::{AttemptOutcome, FailedAttempt};
use super::client_tools::ToolPropertyNames;
use super::cut_answers;
use super::flow::UpstreamBody;
use super::outbound_writer::ParamMappingReport;
use super::part_refusals;
use super::prepare::OutboundRequest;
use super::request_log::whole_ms;
use super::upstream_client::{UpstreamClient, outcome_of_status};
use super::usage_totals::{PartialUsage, UsageTotals};
use super::{ProxiedRequest, UpstreamAttempt, UpstreamDisposition, previous_response};
use longhaul_wire::chat::edit as chat;
use longhaul_wire::edit::{Dialect, GatewayError, ParseError, PartialResponse, PartialToolCall};
use longhaul_wire::messages::edit as messages;
use longhaul_wire::response_writer::{self, ResponseWriter};
use longhaul_wire::responses::edit as responses;

impl UpstreamAttempt {
    /// Sends the request on the upstream's wire, and waits for the first content of the answer.
    ///
    /// # Errors
    /// [`FailedAttempt`] if the upstream's wire cannot express the request, or its answer breaks off before the first
    /// content.
    pub(super) async fn attempt_translated(
        &mut self,
        prepared: &OutboundRequest,
    ) -> Result<AttemptOutcome, FailedAttempt> {
        let (mut request, told) = self.request.work(|| self.outbound().neutral(prepared, None)).await?;
        // Known refusals are applied before the request is sent, so a refused part costs one failed request.
        self.omissions.leave_out_refused(&self.request, &mut request);
        // A refusal on another wire names the upstream's form of a part, so the sent parts are kept to find it.
        let sent = part_refusals::refusable_parts(&mut request);
        let awaits_all = !self.request.proxied.envelope.stream && !self.must_collect(prepared);
        self.totals().set_reported_usage(None);
        match self.client().call(request, awaits_all).await {
            Ok(start) => Ok(AttemptOutcome::Translated(start, told)),
            Err(TranslatedCallFailure::BrokeOff(error)) => {
                self.totals().failed(&error, prepared.input);
                Err(FailedAttempt { fault: GatewayError::from(&error), broke_off: true })
            }
            Err(TranslatedCallFailure::Refused(error)) => Ok(AttemptOutcome::Refused(error, sent)),
        }
    }

    /// Adds the cost of a discarded answer.
    pub(super) fn bill_translated(&self, start: &TranslatedStart, prepared: &OutboundRequest) {
        if let TranslatedStart::Answered(answer) = start {
            self.reckoner(prepared).settle(&mut answer.as_ref().clone());
            self.totals().add(self.totals().told().as_ref(), || PartialUsage::input(prepared.input));
        }
    }

    /// Asks the model to continue an answer that began with `text`, of `tokens` tokens.
    ///
    /// # Errors
    /// [`GatewayError`] if the answer has reached its output limit, or the model does not continue.
    pub(super) async fn cross_again(
        &self,
        prepared: &OutboundRequest,
        text: &str,
        tokens: u64,
    ) -> Result<UpstreamBody, GatewayError> {
        let (request, told) =
            self.request.work(|| self.outbound().neutral(prepared, Some((text, tokens)))).await?;
        self.totals().set_reported_usage(None);
        // Streamed in any case, because the text is joined with the beginning of the answer.
        let begun = self
            .client()
            .call(request, false)
            .await
            .map_err(|failure| GatewayError::from(failure.error()))?;
        Ok(self.written(begun.restored(&told.names).into_stream(), prepared))
    }

    /// Returns the answer in the caller's dialect.
    pub(super) async fn encoded(
        self,
        begun: TranslatedStart,
        prepared: OutboundRequest,
        told: &ParamMappingReport,
        exchange: Exchange,
    ) -> Result<UpstreamDisposition, FailedAttempt> {
        let mut headers = HeaderMap::new();
        told.say(&mut headers);
        self.omissions.say_omitted(&mut headers);
        let is_stream = self.request.proxied.envelope.stream;
        let kind = if is_stream { "text/event-stream" } else { "application/json" };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        if is_stream {
            // A cache in front of the gateway would hold the stream back until its end.
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        let collects = self.must_collect(&prepared);
        let has_rest =
            begun.answer().is_some_and(|seen| cut_answers::is_cut_by_window(&self, &seen, &prepared));
        match begun.restored(&told.names) {
            TranslatedStart::Answered(answer) if !is_stream && !collects && !has_rest => {
                Ok(self.whole_answer(*answer, prepared, headers).await)
            }
            begun => {
                let body = self.written(begun.into_stream(), &prepared);
                self.streaming((StatusCode::OK, headers), body, prepared, collects, exchange).await
            }
        }
    }

    /// Returns the complete answer for a caller without a stream.
    async fn whole_answer(
        &self,
        mut answer: ModelAnswer,
        prepared: OutboundRequest,
        mut headers: HeaderMap,
    ) -> UpstreamDisposition {
        self.budget().describe(&prepared.report, &mut headers);
        self.reckoner(&prepared).settle(&mut answer);
        let reported = self.totals().told();
        self.totals().add(reported.as_ref(), || PartialUsage::input(prepared.input));
        self.log_end(true);
        if let Some(usage) = reported.filter(|_| !prepared.is_doubted) {
            self.journal().remember_usage(usage, &prepared).await;
        }
        self.totals().describe(&mut headers);
        let whole = response_writer::whole(
            self.request.proxied.wire.dialect(),
            &self.request.head(&prepared),
            &answer,
        );
        previous_response::store_response(
            &self.request.proxied,
            std::str::from_utf8(&whole).unwrap_or_default(),
        )
        .await;
        UpstreamDisposition::Whole(StatusCode::OK, headers, self.totals().beside(&prepared.report, whole))
    }

    /// Returns the correction for the usage of an answer to this request.
    fn reckoner(&self, prepared: &OutboundRequest) -> UsageCorrector {
        UsageCorrector {
            counter: (self.request.proxied.inner.parts.counter)(&self.request.target.origin()),
            input_tokens: prepared.input,
            // The Messages API demands `usage` in every answer.
            is_demanded: self.request.proxied.wire.dialect() == Dialect::Messages,
            totals: Arc::clone(self.totals()),
        }
    }

    /// Returns a stream of the model in the caller's dialect.
    fn written(&self, stream: ModelStream, prepared: &OutboundRequest) -> UpstreamBody {
        let encoder =
            response_writer::stream(self.request.proxied.wire.dialect(), self.request.head(prepared));
        let mut body = UpstreamBody::written(written(stream, encoder, self.reckoner(prepared)));
        body.unwrap_calls(self.request.call_unwrapper());
        body
    }
}

/// Returns the request's tool choice: whether the model may, must or must not call a tool.
///
/// # Errors
/// [`ParseError`] if other dialects cannot express the choice.
pub(super) fn tool_choice(exchange: &ProxiedRequest) -> Result<ToolChoice, ParseError> {
    let envelope = &exchange.envelope;
    match exchange.wire.dialect() {
        Dialect::Chat => chat::tool_choice(envelope),
        Dialect::Messages => messages::tool_choice(envelope),
        Dialect::Responses => responses::tool_choice(envelope),
    }
}

/// The start of a translated answer.
pub(super) enum TranslatedStart {
    /// The complete answer; no byte has been sent to the client.
    Answered(Box<ModelAnswer>),
    /// A stream at its first content.
    Speaking(ModelStream),
}

impl TranslatedStart {
    /// Returns the answer if completely known.
    pub(super) fn answer(&self) -> Option<PartialResponse> {
        match self {
            Self::Answered(answer) => Some(seen_of(answer)),
            Self::Speaking(_) => None,
        }
    }

    /// Returns the start with the client's own argument names.
    fn restored(self, names: &ToolPropertyNames) -> Self {
        match self {
            Self::Answered(mut answer) => {
                names.restore(&mut answer);
                Self::Answered(answer)
            }
            Self::Speaking(stream) => Self::Speaking(names.restored(stream)),
        }
    }

    fn into_stream(self) -> ModelStream {
        match self {
            Self::Answered(answer) => {
                Box::pin(futures_util::stream::iter([Ok(ModelEvent::Finished(*answer))]))
            }
            Self::Speaking(stream) => stream,
        }
    }
}

/// The failure of a call without an answer.
pub(super) enum TranslatedCallFailure {
    /// There is no answer.
    Refused(ProviderError),
    /// The answer began and broke off before its first word.
    BrokeOff(ProviderError),
}

impl TranslatedCallFailure {
    /// The failure of a call without a stream. A request that was read and not answered counts as broken off.
    fn of_call(error: ProviderError) -> Self {
        match error.code {
            ErrorCode::TruncatedStream => Self::BrokeOff(error),
            ErrorCode::Network if !error.unsent => Self::BrokeOff(error),
            _ => Self::Refused(error),
        }
    }

    /// The failure of a stream after its start. Some servers begin one to refuse the request in it.
    fn of_stream(error: ProviderError) -> Self {
        match error.code {
            ErrorCode::TruncatedStream | ErrorCode::Network | ErrorCode::Timeout => Self::BrokeOff(error),
            _ => Self::Refused(error),
        }
    }

    fn error(&self) -> &ProviderError {
        match self {
            Self::Refused(error) | Self::BrokeOff(error) => error,
        }
    }
}

/// Corrects the usage of translated answers.
struct UsageCorrector {
    counter: MessageTokenCounter,
    /// The input by the gateway's count, in tokens.
    input_tokens: u64,
    /// Set if the caller's dialect demands usage in each answer.
    is_demanded: bool,
    totals: Arc<UsageTotals>,
}

impl UsageCorrector {
    /// Records the reported usage in the totals, because not every client asks for usage. Without a report the answer
    /// carries the gateway's count if its dialect demands usage, and no usage otherwise.
    fn settle(&self, answer: &mut ModelAnswer) {
        if let Some(usage) = reported(answer) {
            return self.totals.set_reported_usage(Some(usage.clone()));
        }
        let output_tokens = match answer.usage.as_ref().map_or(0, |usage| usage.output_tokens) {
            0 => answer.parts.iter().map(|part| self.counter.part(part)).sum(),
            reported => reported,
        };
        self.totals.set_estimated_usage(self.input_tokens, output_tokens);
        let input_tokens = self.input_tokens;
        answer.usage = self.is_demanded.then(|| Usage { input_tokens, output_tokens, ..Usage::default() });
    }
}

/// Returns the upstream's reported usage. Some servers report only the output, or only zeros: neither counts.
fn reported(answer: &ModelAnswer) -> Option<&Usage> {
    answer.usage.as_ref().filter(|usage| usage.input_tokens > 0)
}

/// Returns whether an event has content for the caller.
fn says(event: &ModelEvent) -> bool {
    match event {
        ModelEvent::Text(text) | ModelEvent::Reasoning(text) => !text.is_empty(),
        ModelEvent::ToolInput { .. } | ModelEvent::Finished(_) => true,
        _ => false,
    }
}

/// Returns the error of a stream that ends before its answer.
fn ended_early() -> ProviderError {
    ProviderError::new(ErrorCode::TruncatedStream, "the upstream's stream ended before its answer did")
}

/// Returns the text of an answer that ends in text; `None` if the answer has calls, or if reasoning came last.
fn written_text(events: &[ModelEvent]) -> Option<String> {
    let is_last = matches!(events.last()?, ModelEvent::Text(_));
    let has_calls = events.iter().any(|event| matches!(event, ModelEvent::ToolInput { .. }));
    let texts = events.iter().filter_map(|event| match event {
        ModelEvent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    (is_last && !has_calls).then(|| texts.collect())
}

/// Returns whether a filter has cut or withheld an answer. A refused request has a status of its own.
pub(super) fn is_withheld(error: &ProviderError) -> bool {
    error.code == ErrorCode::Refused && error.status.is_none()
}

/// Returns the answer of which a filter has left this text.
fn withheld_answer(error: &ProviderError, text: &str) -> ModelAnswer {
    ModelAnswer {
        parts: if text.is_empty() { Vec::new() } else { vec![Part::text(text)] },
        finish: ModelStopReason::ContentFilter,
        usage: error.usage.clone(),
        envelope: None,
    }
}

/// Returns a complete answer in the form of a parsed stream.
fn seen_of(answer: &ModelAnswer) -> PartialResponse {
    let mut seen = PartialResponse {
        finish: Some(answer.finish),
        usage: reported(answer).cloned(),
        over: true,
        ..PartialResponse::default()
    };
    for part in &answer.parts {
        match part {
            Part::Text(text) => seen.text.push_str(&text.text),
            Part::Reasoning(reasoning) => seen.reasoning.push_str(&reasoning.text),
            Part::ToolCall(call) => seen.calls.push(PartialToolCall {
                id: call.provider_id.clone().unwrap_or_default(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
            }),
            _ => {}
        }
    }
    seen
}

/// Returns a stream of the model as written by `encoder`.
fn written(
    stream: ModelStream,
    encoder: Box<dyn ResponseWriter>,
    reckoner: UsageCorrector,
) -> impl Stream<Item = Result<Bytes, GatewayError>> + Send + 'static {
    unfold(Some((stream, encoder, reckoner)), |open| async move {
        let (mut stream, mut encoder, reckoner) = open?;
        let mut out = Vec::new();
        while out.is_empty() {
            let mut event = match stream.next().await? {
                Ok(event) => event,
                // The client has the text before the cut, and is told of the filter in the end of its answer.
                Err(error) if is_withheld(&error) => ModelEvent::Finished(withheld_answer(&error, "")),
                Err(error) => return Some((Err(GatewayError::from(&error)), None)),
            };
            match &mut event {
                // A report without input is incomplete, and the final event carries the complete one.
                ModelEvent::Usage(usage) if usage.input_tokens == 0 => continue,
                ModelEvent::Finished(answer) => reckoner.settle(answer),
                _ => {}
            }
            encoder.event(&event, &mut out);
            if let ModelEvent::Finished(_) = event {
                return Some((Ok(out.into()), None));
            }
        }
        Some((Ok(out.into()), Some((stream, encoder, reckoner))))
    })
}

impl UpstreamClient<'_> {
    /// Makes the call and reads up to its first word, so that what fails before is no stream; up to the end where the
    /// caller waits for the whole.
    pub(super) async fn call(
        &self,
        request: ModelRequest,
        awaits_all: bool,
    ) -> Result<TranslatedStart, TranslatedCallFailure> {
        let mut stream = self.call_again(request).await.map_err(TranslatedCallFailure::of_call)?;
        let (mut silent, mut said) = (Vec::new(), Vec::new());
        loop {
            let event = match stream.next().await {
                Some(Ok(event)) => event,
                Some(Err(error)) => return self.after_break(said, error),
                None => return self.after_break(said, ended_early()),
            };
            match event {
                ModelEvent::Finished(answer) => return Ok(TranslatedStart::Answered(Box::new(answer))),
                // A complete answer has everything. Its pieces are of use only if the stream breaks.
                event if awaits_all => said.extend(says(&event).then_some(event)),
                event if says(&event) => {
                    let begun = silent.into_iter().chain([event]).map(Ok);
                    return Ok(TranslatedStart::Speaking(Box::pin(
                        futures_util::stream::iter(begun).chain(stream),
                    )));
                }
                ModelEvent::PartDone(_) => silent.push(event),
                // Skipping is safe: the final event carries the newest usage.
                _ => {}
            }
        }
    }

    /// Returns the beginning of an answer that broke off after these events, none of which the client has. Text that can
    /// go on becomes a stream with the same break, and text that a filter has cut an answer.
    ///
    /// # Errors
    /// [`TranslatedCallFailure`] if nothing of the answer is of use.
    fn after_break(
        &self,
        said: Vec<ModelEvent>,
        error: ProviderError,
    ) -> Result<TranslatedStart, TranslatedCallFailure> {
        let text = written_text(&said).filter(|text| !text.trim_end().is_empty());
        if let Some(text) = text.as_ref().filter(|_| is_withheld(&error)) {
            return Ok(TranslatedStart::Answered(Box::new(withheld_answer(&error, text))));
        }
        let is_transient = error.retryable || error.code == ErrorCode::TruncatedStream;
        if text.is_some() && is_transient && self.request.may_reconnect() {
            let pieces = said.into_iter().map(Ok).chain([Err(error)]);
            return Ok(TranslatedStart::Speaking(Box::pin(futures_util::stream::iter(pieces))));
        }
        Err(TranslatedCallFailure::of_stream(error))
    }

    /// Makes the call, with new tries as [`SendTries`] decides.
    async fn call_again(&self, request: ModelRequest) -> Result<ModelStream, ProviderError> {
        let provider = self.request.provider()?;
        let mut tries = SendTries::new(self.request.proxied.inner.config.attempts);
        loop {
            let begun = Instant::now();
            let error = match provider.call(request.clone()).await {
                Ok(stream) => {
                    self.is_answered.store(true, Ordering::Relaxed);
                    return Ok(stream);
                }
                Err(error) => error,
            };
            let status = error.status.and_then(|status| StatusCode::from_u16(status).ok());
            let failed = match error.code {
                // The same request would be refused again, whatever the status.
                ErrorCode::ContextOverflow => SendOutcome::Final,
                ErrorCode::Network if error.unsent => SendOutcome::Unreached,
                ErrorCode::Network => SendOutcome::BrokenOff { after_ms: whole_ms(begun.elapsed()) },
                _ => status.map_or(SendOutcome::Final, outcome_of_status),
            };
            let Some(wait_ms) = tries.next_wait_ms(failed) else {
                return Err(match failed {
                    SendOutcome::Unreached => {
                        let message = self.request.target.server.unreached(&error.message);
                        ProviderError { message, ..error }
                    }
                    _ => error,
                });
            };
            sleep(Duration::from_millis(wait_ms)).await;
            let waited_ms = whole_ms(begun.elapsed());
            tracing::info!(
                upstream = self.request.target.server.upstream.name,
                ?failed,
                waited_ms,
                "an unanswered request is sent again"
            );
        }
    }
}
