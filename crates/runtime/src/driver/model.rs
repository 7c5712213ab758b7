//! The effects of model calls: a step, or a summary.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use longhaul_core::deferral::{CALL, wrap_calls};
use longhaul_core::error::ErrorCode;
use longhaul_core::history::request_messages;
use longhaul_core::ids::{Millis, StepId};
use longhaul_core::message::{Message, ModelAnswer, Part, ReasoningPart, TextPart, ToolSpec};
use longhaul_core::plan::{SummaryForm, SummaryRequest};
use longhaul_core::refusal::{PartRefusal, RefusedPart};
use longhaul_core::repetition::{Repetition, RepetitionDetector};
use longhaul_core::run::{ModelCallFailure, RunLoopInput};
use longhaul_core::usage::Usage;
use longhaul_providers::{ModelEvent, ModelRequest, ModelStream, ProviderError, SharedProvider, ToolChoice};
use longhaul_store::{AnswerChunk, Lease, StoreError};
use longhaul_wire::{AnswerSize, AnswerTooLarge, MAX_TOOL_CALLS};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::context::DriverContext;
use super::count::CountBackoff;
use super::limits::fields_without_refused;
use super::media::{self, MediaCapabilities};
use super::stream_pause::PausePointDetector;
use super::{SharedSessionState, failure};
use crate::api_events::ApiEvent;
use crate::clock::now_ms;
use crate::event_bus::ChunkKind;

/// OpenAI's maximum length of a `prompt_cache_key`, in characters.
const MAX_CACHE_KEY_CHARS: usize = 64;

/// The model calls of a session, which can be stopped.
#[derive(Default)]
pub(super) struct ModelCalls {
    stop: CancellationToken,
    /// The background summary: the task, and the stop token.
    background: Option<(u64, CancellationToken)>,
    pub(super) count_backoff: CountBackoff,
}

impl ModelCalls {
    /// Starts the call of a step; the answer is the loop's next input.
    pub(super) fn start_step(
        &mut self,
        context: &mut DriverContext,
        step: StepId,
        tools: bool,
        max_output_tokens: u64,
        pause_at_tokens: Option<u64>,
    ) {
        let request = next_request(context, tools, max_output_tokens);
        let history = context.run.history();
        let paused = history.view().last().filter(|_| history.is_paused()).map(|item| &*item.message);
        // The bus gets the paused message, so that watchers of a continued answer keep the text before the pause.
        context.shared.bus.begin(&step, paused);
        let ratios = *history.calibration().ratios();
        let pause = pause_at_tokens.map(|at| PausePointDetector::new(at, history.counter().clone(), ratios));
        tracing::debug!(
            step = step.as_str(),
            messages = request.messages.len(),
            tools = request.tools.len(),
            may_call_tools = tools,
            max_output_tokens,
            pause_at_tokens,
            "a request was built"
        );
        let persist_every = context.agent.rules.persist_every;
        let repetition = AnswerRepetition::new(context.run.budget().window);
        let mut stream = StreamedAnswer::new(step, context.lease.clone(), persist_every, pause, repetition);
        stream.defers_tools = context.run.settings().fixed.deferred.is_some();
        let call = self.new_call(context);
        spawn_call(context, async move { call.step(request, stream).await });
    }

    /// Starts a summary. A background summary has a stop token of its own, because the run continues meanwhile.
    pub(super) fn start_summary(
        &mut self,
        context: &mut DriverContext,
        task: u64,
        in_background: bool,
        asked: SummaryRequest,
    ) {
        // A summary at the end of the live request keeps its system prompt and tools: the provider has cached that
        // prefix.
        let in_context = asked.form == SummaryForm::Riding;
        let (system, tools, messages) = if in_context {
            let (tools, messages) = with_listed_calls(context, asked.messages);
            (context.agent.system.clone(), tools, messages)
        } else {
            (String::new(), Vec::new(), asked.messages)
        };
        // Only the session's own model has that prefix in its cache, so another summary model gets no such request.
        let other = context.agent.rules.summariser.as_ref().filter(|_| !in_context);
        // Another model may take what the session's own model refuses.
        let fields = match other {
            None => fields_without_refused(&context.agent, asked.max_output_tokens),
            Some(_) => serde_json::Map::new(),
        };
        let request = ModelRequest {
            system,
            messages,
            tools,
            fields,
            max_output_tokens: Some(asked.max_output_tokens),
            cache_key: Some(cache_key(context)),
            // Only a request that goes on with the conversation is read from the cache again.
            long_pauses: in_context && has_long_pauses(context),
            ..ModelRequest::default()
        };
        let provider = Arc::clone(other.map_or(&context.agent.provider, |other| &other.0));
        tracing::debug!(
            task,
            in_background,
            in_context,
            model = provider.origin().model,
            messages = request.messages.len(),
            max_output_tokens = asked.max_output_tokens,
            "a summary is requested"
        );
        // The next call of the run renews its own token, and must not lose the background summary's.
        let stop = if in_background { CancellationToken::new() } else { self.renew_stop() };
        if in_background {
            self.background = Some((task, stop.clone()));
        }
        let call = ModelCallTask { provider, ..ModelCallTask::new(context, stop) };
        spawn_call(
            context,
            async move { RunLoopInput::Summarised { task, answer: call.summary(request).await } },
        );
    }

    /// Stops the run's present step, count or summary.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Stops a background summary, unless a newer summary has replaced the one meant.
    pub(super) fn stop_background_summary(&mut self, task: u64) {
        if let Some((_, stop)) = self.background.take_if(|(current, _)| *current == task) {
            tracing::debug!(task, "a background summary is stopped");
            stop.cancel();
        }
    }

    /// Returns a call under the control of [`Self::stop`].
    pub(super) fn new_call(&mut self, context: &DriverContext) -> ModelCallTask {
        let stop = self.renew_stop();
        ModelCallTask::new(context, stop)
    }

    /// Replaces the stop token: the token of an earlier call may be cancelled, and a token cannot be reset.
    fn renew_stop(&mut self) -> CancellationToken {
        self.stop = CancellationToken::new();
        self.stop.clone()
    }
}

/// Returns the request for the session's view.
pub(super) fn next_request(context: &DriverContext, may_call: bool, max_output_tokens: u64) -> ModelRequest {
    let (tools, messages) = with_listed_calls(context, request_messages(context.run.history().view()));
    ModelRequest {
        system: context.agent.system.clone(),
        messages,
        // Tools stay in the list even if none may be called: the request keeps its beginning, and some providers
        // refuse calls in a conversation without tools.
        tool_choice: if may_call || tools.is_empty() { ToolChoice::Auto } else { ToolChoice::None },
        tools,
        max_output_tokens: Some(max_output_tokens),
        cache_key: Some(cache_key(context)),
        long_pauses: has_long_pauses(context),
        fields: fields_without_refused(&context.agent, max_output_tokens),
        ..ModelRequest::default()
    }
}

/// Returns the listed tools of a request, and the messages with calls of listed tools only: a deferred tool was called
/// through another.
fn with_listed_calls(context: &DriverContext, mut messages: Vec<Message>) -> (Vec<ToolSpec>, Vec<Message>) {
    let tools = context.agent.specs_for(context.run.history());
    if let Some(deferred) = &context.run.settings().fixed.deferred {
        wrap_calls(&mut messages, |name| deferred.get(name).is_none());
    }
    (tools, messages)
}

fn cache_key(context: &DriverContext) -> String {
    // The requests of a session share their beginning, so one key brings them to the same cache of the provider.
    context.session_id().as_str().chars().take(MAX_CACHE_KEY_CHARS).collect()
}

/// Returns whether the session's pauses so far make a prompt cache worthwhile that lives for an hour.
fn has_long_pauses(context: &DriverContext) -> bool {
    context.run.history().request_pauses().is_long_cache_cheaper()
}

/// Spawns a model call in the span of the call; the outcome is the loop's next input.
pub(super) fn spawn_call(
    context: &mut DriverContext,
    outcome: impl Future<Output = RunLoopInput> + Send + 'static,
) {
    let outcome = context.trace.call_scope().around(outcome);
    context.spawn_input(outcome);
}

pub(super) struct ModelCallTask {
    pub(super) provider: SharedProvider,
    takes: MediaCapabilities,
    shared: Arc<SharedSessionState>,
    pub(super) stop: CancellationToken,
}

impl ModelCallTask {
    fn new(context: &DriverContext, stop: CancellationToken) -> Self {
        Self {
            provider: Arc::clone(&context.agent.provider),
            takes: MediaCapabilities::of(&context.agent),
            shared: Arc::clone(&context.shared),
            stop,
        }
    }

    async fn step(&self, request: ModelRequest, mut streaming: StreamedAnswer) -> RunLoopInput {
        let opened = tokio::select! {
            () = self.stop.cancelled() => return streaming.stopped(),
            opened = self.open(request) => opened,
        };
        let mut stream = match opened {
            Ok(stream) => stream,
            Err(error) => return RunLoopInput::ModelFailed { failure: failure(error), partial: Vec::new() },
        };
        loop {
            // `select!` evaluates an expression even if its condition disables the branch.
            let flush = streaming.flush_at.unwrap_or_else(Instant::now);
            let event = tokio::select! {
                // The stop is looked at first and the flush before the stream: a fast stream would otherwise hold up
                // both.
                biased;
                () = self.stop.cancelled() => break streaming.stopped(),
                () = tokio::time::sleep_until(flush), if streaming.flush_at.is_some() => {
                    streaming.persist(&self.shared).await;
                    continue;
                }
                event = stream.next() => event,
            };
            match event {
                Some(Ok(ModelEvent::Finished(answer))) => {
                    // Not every provider bounds its answers; the log and everything behind it would carry them.
                    if let Err(exceeded) = AnswerSize::check(&answer) {
                        tracing::warn!(reason = %exceeded, parts = answer.parts.len(), "an answer is over the limits and is refused");
                        break streaming.failed(exceeded.into());
                    }
                    streaming.complete(&self.shared);
                    break RunLoopInput::ModelAnswered(answer);
                }
                Some(Ok(event)) => match streaming.take(event, &self.shared) {
                    Ok(StreamAction::GoOn) => {}
                    Ok(StreamAction::Stop(repetition)) => {
                        tracing::info!(
                            step = streaming.step.as_str(),
                            passage_bytes = repetition.passage_bytes,
                            times = repetition.times,
                            "the answer repeats one passage without end and is stopped"
                        );
                        break streaming.repeated(repetition);
                    }
                    Ok(StreamAction::Pause) => {
                        tracing::debug!(
                            parts = streaming.parts.len(),
                            text_bytes = streaming.text.len(),
                            "the answer pauses so that room can be made"
                        );
                        break streaming.paused();
                    }
                    Err(exceeded) => break streaming.failed(exceeded.into()),
                },
                Some(Err(error)) => break streaming.failed(error),
                // A whole answer ends with `Finished`. A connection that closes early must not pass for one.
                None => break streaming.failed(truncated()),
            }
        }
    }

    async fn summary(&self, request: ModelRequest) -> Result<ModelAnswer, ModelCallFailure> {
        let opened = tokio::select! {
            () = self.stop.cancelled() => return Err(stopped_summary()),
            opened = self.open(request) => opened,
        };
        let mut stream = opened.map_err(failure)?;
        loop {
            let event = tokio::select! {
                () = self.stop.cancelled() => return Err(stopped_summary()),
                event = stream.next() => event,
            };
            match event {
                Some(Ok(ModelEvent::Finished(answer))) => {
                    tracing::debug!(finish = ?answer.finish, parts = answer.parts.len(), "an answer to a request for a summary came");
                    return Ok(answer);
                }
                // The pieces of a summary are not shown: only the whole text counts.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(failure(error)),
                None => return Err(failure(truncated())),
            }
        }
    }

    async fn open(&self, mut request: ModelRequest) -> Result<ModelStream, ProviderError> {
        self.fill(&mut request).await?;
        tracing::debug!(
            messages = request.messages.len(),
            media = request.media.len(),
            media_bytes = request.media.values().map(|content| content.len()).sum::<usize>(),
            "a request is sent"
        );
        // The call consumes the request, so the order of its pictures is noted before.
        let hashes = media::sent_hashes(&request);
        self.provider.call(request).await.map_err(|mut error| {
            // The adapter knows pictures by their number in the request, the loop by their content.
            if let Some(PartRefusal { part: Some(part), .. }) = error.refusal.as_deref_mut()
                && let RefusedPart::Media(number) = *part
                && let Some(hash) = hashes.get(number)
            {
                *part = RefusedPart::Blob(hash.clone());
            }
            error
        })
    }

    /// Puts the media into a request, or words in their place.
    pub(super) async fn fill(&self, request: &mut ModelRequest) -> Result<(), ProviderError> {
        let found = media::fill(request, &self.takes, &self.shared.blobs, &self.shared.pictures).await?;
        for not_shown in found {
            let model = self.provider.origin();
            self.shared.bus.publish_passing(not_shown.announcement(&self.shared.session_id, &model));
        }
        Ok(())
    }
}

fn stopped_summary() -> ModelCallFailure {
    ModelCallFailure::new(ErrorCode::Interrupted, "the summary was stopped", false)
}

fn truncated() -> ProviderError {
    ProviderError::new(ErrorCode::TruncatedStream, "the stream ended before the answer did")
}

/// Returns the wait of newly arrived text until the next write. All streams of a process are persisted at the same
/// moments, so the store combines the writes: a tenth as many with a hundred streams.
fn until_flush(every: Duration, now: Millis) -> Duration {
    match u64::try_from(every.as_millis()) {
        Ok(every @ 1..) => Duration::from_millis(every - now % every),
        _ => every,
    }
}

/// The continuation of a stream after an event.
enum StreamAction {
    GoOn,
    /// The call is stopped so that room can be made.
    Pause,
    /// The call is stopped because the answer repeats itself without end.
    Stop(Repetition),
}

/// The repetition in the text and in the reasoning of an answer. Arguments of tools are not watched: a file may
/// consist of equal lines.
struct AnswerRepetition {
    text: RepetitionDetector,
    reasoning: RepetitionDetector,
}

impl AnswerRepetition {
    fn new(window_tokens: u64) -> Self {
        let detector = RepetitionDetector::new(window_tokens);
        Self { text: detector.clone(), reasoning: detector }
    }

    fn take(&mut self, event: &ModelEvent) -> Option<Repetition> {
        match event {
            ModelEvent::Text(delta) => self.text.push(delta),
            ModelEvent::Reasoning(delta) => self.reasoning.push(delta),
            _ => None,
        }
    }
}

/// A partial answer in progress.
struct StreamedAnswer {
    step: StepId,
    lease: Lease,
    every: Duration,
    began: bool,
    /// Complete parts, in order.
    parts: Vec<Part>,
    size: AnswerSize,
    /// Text since the last complete part.
    text: String,
    /// Reasoning outside of complete parts.
    reasoning: String,
    usage: Option<Usage>,
    unsaved: String,
    /// The time at which the unsaved text is persisted.
    flush_at: Option<Instant>,
    chunks: u64,
    /// The detector of the pause, if the answer may pause.
    pause: Option<PausePointDetector>,
    repetition: AnswerRepetition,
    /// True if calls of `tool_call` are calls of deferred tools.
    defers_tools: bool,
    /// The calls of `tool_call`.
    wrapped: BTreeSet<usize>,
}

impl StreamedAnswer {
    fn new(
        step: StepId,
        lease: Lease,
        every: Duration,
        pause: Option<PausePointDetector>,
        repetition: AnswerRepetition,
    ) -> Self {
        Self {
            step,
            lease,
            every,
            began: false,
            parts: Vec::new(),
            size: AnswerSize::default(),
            text: String::new(),
            reasoning: String::new(),
            usage: None,
            unsaved: String::new(),
            flush_at: None,
            chunks: 0,
            pause,
            repetition,
            defers_tools: false,
            wrapped: BTreeSet::new(),
        }
    }

    /// Takes an event of the stream; returns whether the answer goes on after it.
    ///
    /// # Errors
    /// [`AnswerTooLarge`], before more of the answer is kept or shown.
    fn take(
        &mut self,
        event: ModelEvent,
        shared: &SharedSessionState,
    ) -> Result<StreamAction, AnswerTooLarge> {
        if !std::mem::replace(&mut self.began, true) {
            tracing::debug!(step = self.step.as_str(), "the answer begins");
            // A failure before the first event is an outage and is waited out; a later one ends the step (decision
            // 0044).
            let _ = shared.inbox.send(RunLoopInput::ModelBegan.into());
        }
        let end = self.pause.as_mut().and_then(|pause| pause.take(&self.text, &event));
        let action = match self.repetition.take(&event) {
            Some(repetition) => StreamAction::Stop(repetition),
            None if end.is_some() => StreamAction::Pause,
            None => StreamAction::GoOn,
        };
        match event {
            ModelEvent::Text(mut delta) => {
                // Text beyond the pause is neither shown nor stored, because the continuation writes on from the pause.
                delta.truncate(end.unwrap_or(delta.len()));
                shared.bus.chunk(&self.step, ChunkKind::Text, &delta, false);
                self.text.push_str(&delta);
                self.unsaved.push_str(&delta);
                // The first unsaved piece sets the time. Later pieces must not move it, or a steady stream would never
                // be saved.
                self.flush_at.get_or_insert_with(|| Instant::now() + until_flush(self.every, now_ms()));
            }
            ModelEvent::Reasoning(delta) => {
                shared.bus.chunk(&self.step, ChunkKind::Reasoning, &delta, false);
                self.reasoning.push_str(&delta);
            }
            ModelEvent::ToolInput { index, .. } if index >= MAX_TOOL_CALLS => {
                // Refused with its first piece. An answer of thousands of calls is never held whole.
                return Err(AnswerTooLarge::ToolCalls);
            }
            ModelEvent::ToolInput { index, name, delta } => {
                if self.defers_tools && name.as_deref() == Some(CALL) {
                    self.wrapped.insert(index);
                }
                // The target tool is known only when the call is complete.
                if self.wrapped.contains(&index) {
                    return Ok(action);
                }
                let payload =
                    json!({ "stepId": self.step, "index": index, "toolName": name, "delta": delta });
                shared.bus.publish_passing(ApiEvent::passing("llm:tool-input", &shared.session_id, payload));
            }
            ModelEvent::PartDone(part) => {
                match part {
                    Part::ToolCall(_) => self.size.add_call().map(|_| ())?,
                    _ => self.size.add_part()?,
                }
                match part {
                    // A complete part repeats the text that came in deltas.
                    Part::Text(_) => self.text.clear(),
                    Part::Reasoning(_) => self.reasoning.clear(),
                    _ => {}
                }
                self.parts.push(part);
            }
            ModelEvent::Usage(usage) => self.usage = Some(usage),
            // The end is handled by the caller.
            _ => {}
        }
        Ok(action)
    }

    fn complete(&self, shared: &SharedSessionState) {
        tracing::debug!(
            step = self.step.as_str(),
            parts = self.parts.len(),
            stored_chunks = self.chunks,
            "the answer is complete"
        );
        if self.began {
            shared.bus.chunk(&self.step, ChunkKind::Text, "", true);
        }
    }

    /// Persists the unsaved text. After a failure, the text joins the next chunk; a crash before then would lose the
    /// text. After a conflict of chunk indexes the store gets no more chunks: the step's own append has the whole
    /// answer.
    async fn persist(&mut self, shared: &SharedSessionState) {
        let body = std::mem::take(&mut self.unsaved);
        self.flush_at = None;
        let chunk =
            AnswerChunk { step: self.step.as_str().to_owned(), index: self.chunks, body: body.clone() };
        let Err(error) = shared.store.put_chunk(&self.lease, chunk).await else {
            // Only a stored chunk advances the index, in which the store expects no gap.
            self.chunks += 1;
            return;
        };
        tracing::warn!(session = %shared.session_id, %error, "streamed text was not persisted");
        if !matches!(error, StoreError::Conflict(_) | StoreError::Fenced(_)) {
            self.unsaved = body;
            self.flush_at = Some(Instant::now() + self.every);
        }
    }

    /// Returns the parts of the answer so far: complete parts, and the text in flight.
    fn seen(&mut self) -> Vec<Part> {
        let mut parts = std::mem::take(&mut self.parts);
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            parts.push(Part::Text(TextPart { text, native: None }));
        }
        parts
    }

    /// Returns the parts so far, with the reasoning in flight. Such reasoning is for people: no request contains such
    /// reasoning, so an answer for continuation must not either.
    fn seen_with_reasoning(&mut self) -> Vec<Part> {
        let text = std::mem::take(&mut self.reasoning);
        if !text.trim().is_empty() {
            self.parts.push(Part::Reasoning(ReasoningPart { text, native: None }));
        }
        self.seen()
    }

    fn stopped(&mut self) -> RunLoopInput {
        RunLoopInput::ModelStopped { partial: self.seen_with_reasoning(), usage: self.usage.take() }
    }

    fn paused(&mut self) -> RunLoopInput {
        RunLoopInput::ModelPaused { partial: self.seen(), usage: self.usage.take() }
    }

    fn repeated(&mut self, repetition: Repetition) -> RunLoopInput {
        RunLoopInput::ModelRepeated {
            repetition,
            partial: self.seen_with_reasoning(),
            usage: self.usage.take(),
        }
    }

    fn failed(&mut self, error: ProviderError) -> RunLoopInput {
        let mut failure = failure(error);
        // The provider counts the tokens of a failed answer, too, so usage that was reported before the failure is
        // kept.
        failure.usage = failure.usage.or(self.usage.take());
        // The model may continue an answer that has text.
        let has_text = !self.text.is_empty() || self.parts.iter().any(|part| matches!(part, Part::Text(_)));
        let partial = if has_text { self.seen() } else { self.seen_with_reasoning() };
        RunLoopInput::ModelFailed { failure, partial }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_streams_are_persisted_at_the_same_moments() {
        let every = Duration::from_millis(100);
        for now in [0, 1, 99, 100, 12_345, u64::from(u32::MAX)] {
            let wait = until_flush(every, now);
            assert!((1..=100).contains(&wait.as_millis()), "{now}");
            assert_eq!((now + wait.as_millis() as u64) % 100, 0, "{now}");
        }
        let brief = Duration::from_micros(200);
        assert_eq!(until_flush(brief, 7), brief);
    }
}
