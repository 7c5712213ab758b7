//! The translated exchange with an upstream of another dialect: the request in neutral form, and the model's events in
//! the caller's dialect.

use std::collections::{BTreeMap, BTreeSet};

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use longhaul_core::error::ErrorCode;
use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::message::{Message, ModelAnswer, OpaquePart, Part, Role, ToolStatus};
use longhaul_core::recall::tool;
use longhaul_core::usage::Usage;
use longhaul_providers::anthropic;
use longhaul_providers::connect::Kind;
use longhaul_providers::{ModelEvent, ModelRequest, ModelStream, ProviderError, ToolChoice};
use tokio::time::Instant;

use super::attempts::{AttemptOutcome, FailedAttempt};
use super::client_tools::{ClientTools, ToolPropertyNames};
use super::context_management;
use super::flow::UpstreamBody;
use super::omitted;
use super::prepare::{NeutralConversation, OutboundRequest};
use super::retries::{AttemptFailure, RetryState};
use super::usage_totals::{PartialUsage, UsageTotals};
use super::{Exchange, UpstreamAttempt, UpstreamDisposition};
use crate::headers;
use longhaul_wire::chat::edit as chat;
use longhaul_wire::edit::media::{self, ItemMedia};
use longhaul_wire::edit::{
    Dialect, FixedContent, GO_ON, GatewayError, GatewayErrorKind, ItemSegment, ParseError, PartialResponse,
    PartialToolCall,
};
use longhaul_wire::messages::edit as messages;
use longhaul_wire::param_mapping::{MappedParams, MappingTarget, map_params, server_tools};
use longhaul_wire::response_writer::{self, ResponseHead, ResponseWriter};
use longhaul_wire::responses::edit as responses;

impl UpstreamAttempt {
    /// Checks that the request can be translated at all.
    ///
    /// # Errors
    /// [`GatewayError`] if an item cannot be translated.
    pub(super) fn check_expressible(&self) -> Result<(), GatewayError> {
        if self.needs_translation() && self.exchange.wire.dialect() == Dialect::Responses {
            responses::check_whole(&self.exchange.envelope)?;
        }
        Ok(())
    }

    /// Sends the request on the upstream's wire, and waits for the first content of the answer.
    ///
    /// # Errors
    /// [`FailedAttempt`] if the upstream's wire cannot express the request, or its answer breaks off before the first
    /// content.
    pub(super) async fn attempt_translated(
        &mut self,
        prepared: &OutboundRequest,
    ) -> Result<AttemptOutcome, FailedAttempt> {
        let (mut request, told) = self.work(|| self.neutral(prepared, None)).await?;
        self.leave_out_refused(&mut request);
        let sent = omitted::sent(&mut request);
        let awaits_all = !self.exchange.envelope.stream && !self.must_collect(prepared);
        match self.call(request, awaits_all).await {
            Ok(start) => Ok(AttemptOutcome::Translated(start, told)),
            Err(TranslatedCallFailure::BrokeOff(error)) => {
                self.totals.failed(&error, prepared.input);
                Err(FailedAttempt { fault: fault_of(&error), broke_off: true })
            }
            Err(TranslatedCallFailure::Refused(error)) => Ok(AttemptOutcome::Refused(error, sent)),
        }
    }

    /// Adds the cost of an answer that is not passed on.
    pub(super) fn bill_translated(&self, start: &TranslatedStart, prepared: &OutboundRequest) {
        if let TranslatedStart::Answered(answer) = start {
            self.reckoner(prepared).settle(&mut answer.as_ref().clone());
            self.totals.add(self.totals.told().as_ref(), || PartialUsage::input(prepared.input));
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
        let (request, told) = self.work(|| self.neutral(prepared, Some((text, tokens)))).await?;
        let begun = self.call(request, false).await.map_err(|failure| fault_of(failure.error()))?;
        Ok(self.written(begun.restored(&told.names).into_stream(), prepared))
    }

    /// Makes the call and reads up to its first word, so that what fails before is no stream; up to the end where the
    /// caller waits for the whole.
    async fn call(
        &self,
        request: ModelRequest,
        awaits_all: bool,
    ) -> Result<TranslatedStart, TranslatedCallFailure> {
        self.totals.set_reported_usage(None);
        let mut stream = self.call_again(request).await.map_err(TranslatedCallFailure::of_call)?;
        let mut silent = Vec::new();
        while let Some(event) = stream.next().await.transpose().map_err(TranslatedCallFailure::of_stream)? {
            match event {
                ModelEvent::Finished(answer) => return Ok(TranslatedStart::Answered(Box::new(answer))),
                _ if awaits_all => {}
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
        Err(TranslatedCallFailure::BrokeOff(ProviderError::new(
            ErrorCode::TruncatedStream,
            "the upstream's stream ended before its answer did",
        )))
    }

    /// Makes the call, with new tries as [`RetryState`] decides.
    async fn call_again(&self, request: ModelRequest) -> Result<ModelStream, ProviderError> {
        let provider = self.provider()?;
        let mut tries = RetryState::new(self.exchange.inner.config.attempts);
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
                ErrorCode::ContextOverflow => AttemptFailure::Finally,
                ErrorCode::Network if error.unsent => AttemptFailure::Unreached,
                ErrorCode::Network => AttemptFailure::BrokenOff(begun.elapsed()),
                _ => status.map_or(AttemptFailure::Finally, AttemptFailure::of_status),
            };
            if !tries.again(failed).await {
                return Err(error);
            }
        }
    }

    /// Returns the request in the form that every provider takes, and a report of its differences. `begun` is the text,
    /// with its tokens, of an answer that the model is to continue.
    fn neutral(
        &self,
        prepared: &OutboundRequest,
        begun: Option<(&str, u64)>,
    ) -> Result<(ModelRequest, ParamMappingReport), GatewayError> {
        let (wire, envelope) = (self.exchange.wire, &self.exchange.envelope);
        let mut fixed = wire.fixed_content(envelope)?;
        let tool_choice = match prepared.rounds.must_answer() {
            true => ToolChoice::None,
            false => self.tool_choice()?,
        };
        let dropped = self.without_server_tools(&mut fixed, &tool_choice)?;
        let ClientTools { specs, names, left_out } = ClientTools::normalized(fixed.tools);
        fixed.tools = specs;
        for (tool, error) in &left_out {
            if matches!(&tool_choice, ToolChoice::Named(named) if named == tool) {
                let message = format!("the tool `{tool}` cannot be offered to the model: {error}");
                return Err(ParseError::field("tool_choice", message).into());
            }
            tracing::warn!(upstream = %self.target.server.upstream.name, "the client's tool `{tool}` is left out: {error}");
        }
        let target = MappingTarget {
            kind: self.target.server.upstream.kind,
            model: &self.target.model,
            is_local: self.target.is_local(),
            has_tools: !fixed.tools.is_empty(),
            tool_choice: &tool_choice,
        };
        let all = 0..envelope.bytes.len();
        let MappedParams { fields, mut ignored, mut changed } =
            map_params(wire.dialect(), envelope.text(&all), &target)?;
        if let Some(wishes) = self.context_management() {
            ignored.retain(|name| name != context_management::FIELD);
            ignored.extend(wishes.ignored.iter().cloned());
        }
        ignored.extend(dropped);
        ignored.extend(left_out.iter().map(|(tool, _)| format!("tools ({tool})")));
        let NeutralConversation { system: among, mut messages, role_rewrites: recast } =
            prepared.said.clone().unwrap_or_default();
        let among = among.iter().map(String::as_str);
        let system = [fixed.system.as_str()].into_iter().chain(among).filter(|text| !text.is_empty());
        let mut system = system.collect::<Vec<_>>().join("\n\n");
        ignored.extend(self.without_own_items(&mut messages)?);
        if !self.target.server.upstream.kind.marks_failed_results() && messages.iter().any(has_failed) {
            ignored.push("is_error".to_owned());
        }
        let words = [(recast.system, "system=user"), (recast.result, "tool_result=user")];
        changed.extend(words.iter().filter(|(is_so, _)| *is_so).map(|(_, said)| (*said).to_owned()));
        let ItemMedia { contents, links } = self.media(&messages)?;
        let left = self.left_output(begun.map_or(0, |(_, tokens)| tokens))?;
        let max_output_tokens = self.output_limit(left, self.room(prepared));
        changed.extend(self.limit_said(prepared));
        if self.recalls(&prepared.report) {
            fixed.tools.push(tool::spec());
        }
        messages.extend(self.neutral_rounds(&prepared.rounds)?);
        if let Some(tail) = prepared.tail.as_ref().filter(|_| begun.is_some()) {
            messages.push(Message::user("left-out", vec![Part::text(tail.note.as_str())]));
        }
        if let Some((text, _)) = begun.filter(|(text, _)| !text.is_empty()) {
            begin(&mut messages, text, !self.goes_on_exactly());
        }
        if messages.is_empty() && !system.is_empty() {
            // Every other API demands at least one message.
            messages.push(Message::user("asked", vec![Part::text(std::mem::take(&mut system))]));
            changed.push("system=user".to_owned());
        }
        let request = ModelRequest {
            system,
            messages,
            tools: fixed.tools,
            tool_choice,
            max_output_tokens,
            media: contents,
            links,
            cache_key: self.cache_key(),
            fields,
        };
        Ok((request, ParamMappingReport { ignored, changed, names }))
    }

    /// Returns the output limit to send, in tokens. `left` is the rest of the client's own limit, `room` the rest of
    /// the window. The Messages API demands a limit, so without a client's limit the default must be capped by the
    /// room, too.
    fn output_limit(&self, left: Option<u64>, room: Option<u64>) -> Option<u64> {
        let is_demanded = self.target.server.upstream.kind == Kind::Anthropic;
        let demanded = || {
            let usual = self.target.most_output().unwrap_or(anthropic::MAX_TOKENS);
            room.filter(|room| is_demanded && *room < usual)
        };
        let most = left.or(self.max_output_tokens).or_else(demanded)?;
        Some(room.map_or(most, |room| most.min(room)))
    }

    /// Removes the tools that their provider's servers run, and returns their names.
    fn without_server_tools(
        &self,
        fixed: &mut FixedContent,
        choice: &ToolChoice,
    ) -> Result<Vec<String>, GatewayError> {
        let envelope = &self.exchange.envelope;
        let Some(at) = &envelope.tools_at else { return Ok(Vec::new()) };
        let theirs = server_tools(self.exchange.wire.dialect(), envelope.text(at));
        let is_theirs = |name: &str| theirs.iter().any(|tool| tool.name == name);
        if let ToolChoice::Named(name) = choice
            && is_theirs(name)
        {
            let message =
                format!("the tool `{name}` is run by its maker's servers, and this model is elsewhere");
            return Err(ParseError::field("tool_choice", message).into());
        }
        fixed.tools.retain(|tool| !is_theirs(&tool.name));
        Ok(theirs.iter().map(|tool| format!("tools[{}] ({})", tool.index, tool.name)).collect())
    }

    /// Removes items that only another provider's model can read. The model's own items are left out and named. An item
    /// of a user or a tool must not be lost and is an error.
    fn without_own_items(&self, messages: &mut [Message]) -> Result<BTreeSet<String>, GatewayError> {
        let mut ignored = BTreeSet::new();
        for message in messages {
            let by_model = message.role == Role::Assistant;
            for part in &mut message.parts {
                match part {
                    Part::Opaque(own) => own_item(own, by_model, &mut ignored)?,
                    Part::ToolResult(result) => {
                        for part in &mut result.content {
                            match part {
                                Part::Opaque(own) if own.kind == "tool_reference" => {
                                    *part = Part::text(own.native.as_str().to_owned());
                                }
                                Part::Opaque(own) => own_item(own, false, &mut ignored)?,
                                _ => {}
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(ignored)
    }

    /// Returns the content of every picture and file in the messages.
    ///
    /// # Errors
    /// [`GatewayError`] naming the first item with media that the upstream cannot take.
    fn media(&self, messages: &[Message]) -> Result<ItemMedia, GatewayError> {
        let wanted: BTreeMap<&str, &Part> = messages.iter().flat_map(media_of).collect();
        let mut all = ItemMedia::default();
        if wanted.is_empty() {
            return Ok(all);
        }
        let (wire, envelope) = (self.exchange.wire, &self.exchange.envelope);
        for index in 0..envelope.items.len() {
            let ItemMedia { contents, links } = media::found(envelope.item(index));
            all.contents.extend(contents.into_iter().filter(|(hash, _)| wanted.contains_key(hash.as_str())));
            all.links.extend(links.into_iter().filter(|(hash, _)| wanted.contains_key(hash.as_str())));
        }
        all.links.retain(|hash, _| !all.contents.contains_key(hash));
        for (hash, part) in wanted {
            let by_address = all.links.contains_key(hash);
            let why = match by_address || all.contents.contains_key(hash) {
                true => self.target.takes(part, by_address, &self.limits).err(),
                false => Some("its content is kept at its maker's server: send the content itself"),
            };
            let Some(why) = why else { continue };
            let holds = |index: &usize| {
                let pieces = wire.segments(&[envelope.item(*index)], *index).unwrap_or_default();
                pieces.iter().flatten().flat_map(parts_of).any(|part| media_hash(part) == Some(hash))
            };
            let list = if wire.dialect() == Dialect::Responses { "input" } else { "messages" };
            let place = (0..envelope.items.len()).find(holds).unwrap_or_default();
            let what = if matches!(part, Part::Image(_)) { "picture" } else { "file" };
            let message = format!("{list}[{place}] has a {what} that cannot be passed on: {why}");
            return Err(ParseError::field(format!("{list}[{place}]"), message).into());
        }
        Ok(all)
    }

    pub(super) fn tool_choice(&self) -> Result<ToolChoice, GatewayError> {
        Ok(tool_choice(&self.exchange)?)
    }

    /// Returns the answer in the caller's dialect.
    pub(super) async fn encoded(
        self,
        begun: TranslatedStart,
        prepared: OutboundRequest,
        told: &ParamMappingReport,
    ) -> Result<UpstreamDisposition, GatewayError> {
        let mut headers = HeaderMap::new();
        told.say(&mut headers);
        self.say_omitted(&mut headers);
        let is_stream = self.exchange.envelope.stream;
        let kind = if is_stream { "text/event-stream" } else { "application/json" };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        if is_stream {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        let collects = self.must_collect(&prepared);
        match begun.restored(&told.names) {
            TranslatedStart::Answered(answer) if !is_stream && !collects => {
                Ok(self.whole_answer(*answer, prepared, headers).await)
            }
            begun => {
                let body = self.written(begun.into_stream(), &prepared);
                self.streaming(StatusCode::OK, headers, body, prepared, collects).await
            }
        }
    }

    /// Returns the complete answer for a caller that wants no stream.
    async fn whole_answer(
        &self,
        mut answer: ModelAnswer,
        prepared: OutboundRequest,
        mut headers: HeaderMap,
    ) -> UpstreamDisposition {
        self.describe(&prepared.report, &mut headers);
        self.reckoner(&prepared).settle(&mut answer);
        let reported = self.totals.told();
        self.totals.add(reported.as_ref(), || PartialUsage::input(prepared.input));
        self.log_end(true);
        if let Some(usage) = reported.filter(|_| !prepared.is_doubted) {
            self.remember_usage(usage, &prepared).await;
        }
        self.totals.describe(&mut headers);
        let whole = response_writer::whole(self.exchange.wire.dialect(), &self.head(&prepared), &answer);
        self.exchange.keep(std::str::from_utf8(&whole).unwrap_or_default()).await;
        UpstreamDisposition::Whole(StatusCode::OK, headers, self.totals.beside(&prepared.report, whole))
    }

    /// Returns the correction for the usage of an answer to this request.
    fn reckoner(&self, prepared: &OutboundRequest) -> UsageCorrector {
        UsageCorrector {
            counter: (self.exchange.inner.parts.counter)(&self.target.origin()),
            input_tokens: prepared.input,
            is_demanded: self.exchange.wire.dialect() == Dialect::Messages,
            totals: Arc::clone(&self.totals),
        }
    }

    /// Returns the metadata of the answer: id, model, time.
    pub(super) fn head(&self, prepared: &OutboundRequest) -> ResponseHead {
        let (parts, envelope) = (&self.exchange.inner.parts, &self.exchange.envelope);
        let options = envelope.other("stream_options").unwrap_or_default();
        let asks_for_usage = options.contains("\"include_usage\"") && options.contains("true");
        ResponseHead {
            id: (parts.new_id)(),
            model: match envelope.model.as_str() {
                "" => self.target.model.clone(),
                asked => asked.to_owned(),
            },
            created: (parts.now)(),
            input_tokens: prepared.input,
            include_usage: asks_for_usage || !envelope.stream,
            custom_tools: match self.exchange.wire.dialect() {
                Dialect::Responses => responses::custom_tools(envelope),
                Dialect::Chat | Dialect::Messages => Vec::new(),
            },
            namespaced_tools: match self.exchange.wire.dialect() {
                Dialect::Responses => responses::namespaced_tools(envelope),
                Dialect::Chat | Dialect::Messages => BTreeMap::new(),
            },
        }
    }

    /// Returns a stream of the model in the caller's dialect.
    fn written(&self, stream: ModelStream, prepared: &OutboundRequest) -> UpstreamBody {
        let encoder = response_writer::stream(self.exchange.wire.dialect(), self.head(prepared));
        let mut body = UpstreamBody::written(written(stream, encoder, self.reckoner(prepared)));
        body.unwrap_calls(self.call_unwrapper());
        body
    }
}

/// Returns the request's tool choice: whether the model may, must or must not call a tool.
///
/// # Errors
/// [`ParseError`] if other dialects cannot express the choice.
pub(super) fn tool_choice(exchange: &Exchange) -> Result<ToolChoice, ParseError> {
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
    /// Returns the answer if it is completely known.
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

/// The failure of a call that has no answer.
enum TranslatedCallFailure {
    /// There is no answer.
    Refused(ProviderError),
    /// The answer began and broke off before its first word.
    BrokeOff(ProviderError),
}

impl TranslatedCallFailure {
    /// The failure of a call that has no stream. A request that was read and not answered counts as broken off.
    fn of_call(error: ProviderError) -> Self {
        match error.code {
            ErrorCode::TruncatedStream => Self::BrokeOff(error),
            ErrorCode::Network if !error.unsent => Self::BrokeOff(error),
            _ => Self::Refused(error),
        }
    }

    /// The failure of a stream that had begun. Some servers begin one to refuse the request in it.
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
        ModelEvent::PartDone(_) | ModelEvent::Usage(_) => false,
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
                Err(error) => return Some((Err(fault_of(&error)), None)),
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

/// Appends the beginning of an answer to the messages. With `asks` a user message requests the rest, for an upstream
/// that does not continue by itself.
fn begin(messages: &mut Vec<Message>, text: &str, asks: bool) {
    let message =
        |role, text: &str| Message { id: "begun".into(), role, parts: vec![Part::text(text)], origin: None };
    match messages.last_mut().filter(|last| last.role == Role::Assistant) {
        Some(last) => match last.parts.last_mut() {
            // The client had begun the answer itself, so the text continues the client's.
            Some(Part::Text(said)) => said.text.push_str(text),
            _ => last.parts.push(Part::text(text)),
        },
        None => messages.push(message(Role::Assistant, text)),
    }
    if asks {
        messages.push(message(Role::User, GO_ON));
    }
}

/// The report of a translation: fields of the client's request that were dropped or changed.
pub(super) struct ParamMappingReport {
    ignored: Vec<String>,
    changed: Vec<String>,
    /// The property names of the client's tools that the model does not know.
    names: ToolPropertyNames,
}

impl ParamMappingReport {
    fn say(&self, headers: &mut HeaderMap) {
        for (name, list) in [("x-longhaul-ignored", &self.ignored), ("x-longhaul-changed", &self.changed)] {
            let mut said = list.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(",");
            if list.len() > MAX_NAMED {
                said.push_str(&format!(",and {} more", list.len() - MAX_NAMED));
            }
            if !said.is_empty() {
                headers::say(headers, name, &said);
            }
        }
    }
}

/// The maximum number of fields in a header: the caller chooses their names, and so the header's length.
const MAX_NAMED: usize = 40;

/// Items that replace a conversation and that only their provider's server can read.
const SEALED: [&str; 3] = ["compaction", "compaction_summary", "context_compaction"];

fn own_item(own: &OpaquePart, by_model: bool, ignored: &mut BTreeSet<String>) -> Result<(), GatewayError> {
    if by_model && !SEALED.contains(&own.kind.as_str()) {
        ignored.insert(own.kind.clone());
        return Ok(());
    }
    let message = format!("`{}` means nothing to the model's server, which speaks another dialect", own.kind);
    Err(GatewayError {
        param: Some(own.kind.clone()),
        ..GatewayError::new(GatewayErrorKind::Invalid, message)
    })
}

fn media_hash(part: &Part) -> Option<&str> {
    match part {
        Part::Image(media) | Part::File(media) => Some(&media.blob.hash),
        _ => None,
    }
}

fn media_of(message: &Message) -> impl Iterator<Item = (&str, &Part)> {
    let inner = message.parts.iter().flat_map(|part| match part {
        Part::ToolResult(result) => result.content.as_slice(),
        part => std::slice::from_ref(part),
    });
    inner.filter_map(|part| Some((media_hash(part)?, part)))
}

/// Returns whether a tool's result says that the call failed.
fn has_failed(message: &Message) -> bool {
    let failed = |part: &Part| matches!(part, Part::ToolResult(result) if result.status == ToolStatus::Error);
    message.parts.iter().any(failed)
}

fn parts_of(piece: &ItemSegment) -> &[Part] {
    match piece {
        ItemSegment::System(parts)
        | ItemSegment::Typed(parts)
        | ItemSegment::Note(parts)
        | ItemSegment::Assistant(parts) => parts,
        ItemSegment::Result { content, .. } => content,
    }
}

/// Returns a provider's error for the caller.
pub(super) fn fault_of(error: &ProviderError) -> GatewayError {
    let kind = match error.code {
        ErrorCode::RateLimitExceeded => GatewayErrorKind::RateLimit,
        ErrorCode::Timeout => GatewayErrorKind::Timeout,
        ErrorCode::ContextOverflow => GatewayErrorKind::ContextOverflow,
        ErrorCode::Auth => GatewayErrorKind::Auth,
        ErrorCode::InvalidRequest | ErrorCode::Refused => GatewayErrorKind::Invalid,
        ErrorCode::Network => GatewayErrorKind::Unreachable,
        ErrorCode::NotFound => GatewayErrorKind::NotFound,
        _ => GatewayErrorKind::Upstream,
    };
    let fault = GatewayError::new(kind, error.message.clone());
    // An error status of the upstream is more precise than the kind's default.
    let own = error.status.and_then(|status| StatusCode::from_u16(status).ok());
    let own = own.filter(|status| status.is_client_error() || status.is_server_error());
    GatewayError { status: own.unwrap_or(fault.status), retry_after: error.retry_after, ..fault }
}
