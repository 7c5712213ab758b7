//! The model call of a step: its start, its answer, its failures.

use super::background_summary::PrecomputeStage;
use super::{
    AppendContinuation, CountContinuation, ModelCallFailure, Run, RunEffect, RunEnd, RunPhase, RunStopCause,
    RunTimer, StepGuards,
};
use crate::attempt::MAX_LENGTH_RETRIES;
use crate::deferral::{CALL, SEARCH};
use crate::error::ErrorCode;
use crate::event::{ErrorInfo, EventBody, PartialAnswerReason, StepKind, StepStart};
use crate::ids::{CallId, StepId};
use crate::message::{Message, ModelAnswer, ModelStopReason, Part, Role, ToolCall};
use crate::plan::PlanTrigger;
use crate::usage::Usage;

/// The most tool calls of one answer. Providers allow some dozens, so an answer with more is broken.
const MAX_CALLS: usize = 256;

impl Run {
    /// Stores the start of a step, unless the run ends here or the server counts first.
    pub(super) fn start_step(&mut self, out: &mut Vec<RunEffect>) {
        if self.stop_at_boundary(out) {
            return;
        }
        // Another model, or a refusal, leaves no way to get the rest of the paused answer.
        if self.history.is_paused() && !self.can_go_on() {
            return self.finish(RunEnd::Length, None, out);
        }
        if self.count_first(CountContinuation::Call, out) {
            return;
        }
        let Some(run) = self.history.open_run() else { return };
        let recovering = self.is_time_up();
        let settings = &self.settings;
        let step = StepId::new(format!("s{}", self.next_seq()));
        let start = StepStart {
            step_id: step.clone(),
            run_id: run.id.clone(),
            purpose: if recovering { StepKind::Recovery } else { StepKind::Main },
            model: settings.model.origin.clone(),
            system_hash: settings.fixed.system_hash.clone(),
            tools_hash: match settings.model.tools {
                true => settings.fixed.tools_hash_of(&self.history),
                false => String::new(),
            },
            view_hash: self.history.view_hash(),
            fixed_tokens: settings.fixed.tokens_of(&self.history),
            estimated_input: self.meter().total,
            max_output_tokens: self.output_limit(),
            window_tokens: settings.model.window,
        };
        self.phase = RunPhase::Storing;
        self.append(
            vec![EventBody::StepStarted(Box::new(start))],
            AppendContinuation::CallModel { step },
            out,
        );
    }

    /// Returns whether the model was told that the run's time is over.
    pub(super) fn is_time_up(&self) -> bool {
        self.history.open_run().is_some_and(|run| run.time_is_up)
    }

    /// Calls the model for a step whose start is durable.
    pub(super) fn call_model(&mut self, step: StepId, out: &mut Vec<RunEffect>) {
        if self.stop.is_some() {
            // The cancel came while the start of the step was being stored.
            return self.stopped(Vec::new(), None, out);
        }
        let calling = self.history.open_run().and_then(|run| run.calling.as_ref());
        let Some(start) = calling else { return };
        let tools = start.purpose == StepKind::Main && self.settings.model.tools;
        let max_output_tokens = start.max_output_tokens;
        let pause_at_tokens = if start.purpose == StepKind::Main { self.pause_at() } else { None };
        self.phase = RunPhase::Calling { step: step.clone(), began: false };
        out.push(RunEffect::CallModel { step, tools, max_output_tokens, pause_at_tokens });
    }

    /// Handles a complete answer: stores the answer, or treats an unusable one as a failure.
    pub(super) fn answered(&mut self, answer: ModelAnswer, out: &mut Vec<RunEffect>) {
        let RunPhase::Calling { step, .. } = &self.phase else { return };
        let step = step.clone();
        let calls = answer.parts.iter().filter(|part| matches!(part, Part::ToolCall(_))).count();
        if calls > MAX_CALLS {
            let message =
                format!("the model asked for {calls} tools in one answer; {MAX_CALLS} are the most that run");
            let failure = ModelCallFailure::new(ErrorCode::ThirdParty, message, false);
            return self.failed(ModelCallFailure { usage: answer.usage, ..failure }, answer.parts, out);
        }
        let parts = self.without_repetition(answer.parts);
        let parts = self.named_calls(&step, parts, answer.finish);
        // An empty rest shows that the paused answer was complete.
        let is_whole = self.history.is_paused() && answer.finish != ModelStopReason::ContentFilter;
        if !says_something(&parts) && answer.finish != ModelStopReason::Length && !is_whole {
            let failure = match answer.finish {
                ModelStopReason::ContentFilter => {
                    ModelCallFailure::new(ErrorCode::Refused, "the provider withheld the answer", false)
                }
                _ => ModelCallFailure::new(ErrorCode::ThirdParty, "the model's answer was empty", true),
            };
            let failure = ModelCallFailure { usage: answer.usage, ..failure };
            return match failure.retryable && self.stop.is_none() {
                true => self.answer_broke(&step, failure, Vec::new(), out),
                false => self.failed(failure, Vec::new(), out),
            };
        }
        if answer.finish == ModelStopReason::Length && self.ended_at_our_limit(&parts) {
            return self.paused(parts, answer.usage, out);
        }
        let estimated_input = self.estimated_input();
        let events = vec![
            self.assistant(&step, parts, answer.finish, None),
            EventBody::StepFinished {
                step_id: step.clone(),
                usage: answer.usage,
                estimated_input,
                envelope: answer.envelope,
            },
        ];
        self.phase = RunPhase::Storing;
        self.append_with(
            events,
            Vec::new(),
            vec![step],
            AppendContinuation::AfterAnswer { finish: answer.finish },
            out,
        );
    }

    /// Returns the estimated input of the open call, in tokens.
    pub(super) fn estimated_input(&self) -> u64 {
        let calling = self.history.open_run().and_then(|run| run.calling.as_ref());
        calling.map_or(0, |start| start.estimated_input)
    }

    /// Creates the event that adds an answer to the view.
    pub(super) fn assistant(
        &self,
        step: &StepId,
        parts: Vec<Part>,
        finish: ModelStopReason,
        cut: Option<PartialAnswerReason>,
    ) -> EventBody {
        let message = Message {
            id: format!("m-{step}").into(),
            role: Role::Assistant,
            parts,
            origin: Some(self.settings.model.origin.clone()),
        };
        EventBody::AssistantAdded { step_id: step.clone(), message, finish, cut }
    }

    /// Gives every call a name of this program. A call that the output limit cut in two is dropped, and so are all
    /// calls of the recovery step, which has no tools.
    pub(super) fn named_calls(&self, step: &StepId, parts: Vec<Part>, finish: ModelStopReason) -> Vec<Part> {
        let last_call = parts.iter().rposition(|part| matches!(part, Part::ToolCall(_)));
        let recovering = self.is_time_up();
        let mut named = Vec::with_capacity(parts.len());
        for (at, part) in parts.into_iter().enumerate() {
            match part {
                Part::ToolCall(_) if recovering => {}
                Part::ToolCall(call) => {
                    let may_be_cut = finish == ModelStopReason::Length && Some(at) == last_call;
                    if !may_be_cut || crate::history::is_object(&call.arguments) {
                        let call = match &self.settings.fixed.deferred {
                            Some(deferred) => {
                                let is_told = |name: &str| {
                                    name != CALL && name != SEARCH && self.settings.tools.contains_key(name)
                                };
                                deferred
                                    .unwrap_call(call, |name| deferred.get(name).is_none() && is_told(name))
                            }
                            None => call,
                        };
                        let call_id = CallId::new(format!("c-{step}-{at}"));
                        let provider_id = call.provider_id.or_else(|| {
                            let given = call.call_id.as_str();
                            (!given.is_empty()).then(|| given.to_owned())
                        });
                        named.push(Part::ToolCall(ToolCall { call_id, provider_id, ..call }));
                    }
                }
                other => named.push(other),
            }
        }
        named
    }

    /// Continues after an answer is stored: with its tools, with the next step, or with the end of the run.
    pub(super) fn after_answer(&mut self, finish: ModelStopReason, out: &mut Vec<RunEffect>) {
        self.step = StepGuards::default();
        if self.stop.is_none() {
            self.look_ahead(out);
        }
        if !self.history.open_calls().is_empty() {
            // Calls that came whole run even if a limit ended the answer.
            return self.start_tools(out);
        }
        if finish == ModelStopReason::Length && self.stop.is_none() && !self.is_time_up() {
            let error = self.pauses_are_spent();
            return self.finish(RunEnd::Length, error, out);
        }
        if finish == ModelStopReason::ContentFilter && self.stop.is_none() {
            let message = "the model refused, or its provider withheld the rest of the answer";
            return self.fail(ErrorCode::Refused, message, out);
        }
        self.reach_step_boundary(out);
    }

    /// Handles a failed call: makes room, leaves a part out, waits, or ends the run.
    pub(super) fn failed(&mut self, failure: ModelCallFailure, partial: Vec<Part>, out: &mut Vec<RunEffect>) {
        let RunPhase::Calling { step, began } = &self.phase else { return };
        let (step, began) = (step.clone(), *began);
        if self.stop.is_some() {
            // A call that is being stopped often fails. The stop is the cause.
            return self.stopped(partial, failure.usage, out);
        }
        if failure.code == ErrorCode::ContextOverflow {
            return self.overflowed(&step, failure, partial, out);
        }
        // A server that refuses to continue a broken answer is asked in words, by a note in the next request.
        let refuses_rest = failure.code == ErrorCode::InvalidRequest && self.history.is_broken_off();
        if refuses_rest || failure.refuses_tools && self.goes_on_without_tools() {
            let mut events = self.lost(&step, partial);
            events.push(step_failed(&step, &failure));
            self.phase = RunPhase::Storing;
            return self.append_with(events, Vec::new(), vec![step], AppendContinuation::Boundary, out);
        }
        if self.leave_out(&step, &failure, &partial, out) {
            return;
        }
        if failure.retryable {
            return match began || says_something(&partial) {
                true => self.answer_broke(&step, failure, partial, out),
                false => self.server_failed(&step, failure, out),
            };
        }
        self.end_with_failure(&step, failure, partial, out);
    }

    /// Returns whether the step was sent with tools although the model is known by now to take none.
    fn goes_on_without_tools(&self) -> bool {
        let calling = self.history.open_run().and_then(|run| run.calling.as_ref());
        !self.settings.model.tools && calling.is_some_and(|start| !start.tools_hash.is_empty())
    }

    /// Ends the run with the failure of its step. The part of the answer that arrived is kept for people.
    pub(super) fn end_with_failure(
        &mut self,
        step: &StepId,
        failure: ModelCallFailure,
        partial: Vec<Part>,
        out: &mut Vec<RunEffect>,
    ) {
        // The server refuses the rest of a paused answer, so the stored piece is an answer that was cut short.
        let is_cut_short = self.history.is_paused() && !failure.retryable && is_servers_no(failure.code);
        let end = if is_cut_short { RunEnd::Length } else { RunEnd::Error };
        let mut events = self.lost(step, partial);
        events.push(step_failed(step, &failure));
        events.extend(self.take_back_guess());
        let message = match is_cut_short {
            true => format!("the answer could not go on where it was paused: {}", failure.message),
            false => failure.message,
        };
        let error = Some(ErrorInfo { code: failure.code, message });
        self.phase = RunPhase::Storing;
        self.append_with(
            events,
            Vec::new(),
            vec![step.clone()],
            AppendContinuation::Finish { end, error },
            out,
        );
    }

    /// Returns the event that keeps an unusable answer for people, without its calls: a call without a result would
    /// make later requests invalid.
    pub(super) fn lost(&self, step: &StepId, partial: Vec<Part>) -> Vec<EventBody> {
        let said: Vec<Part> = partial.into_iter().filter(|part| !matches!(part, Part::ToolCall(_))).collect();
        let kept = shows_something(&said)
            .then(|| self.assistant(step, said, ModelStopReason::Other, Some(PartialAnswerReason::Lost)));
        kept.into_iter().collect()
    }

    /// Handles a refusal for length. A partial answer to the cut request is kept for people only.
    pub(super) fn overflowed(
        &mut self,
        step: &StepId,
        failure: ModelCallFailure,
        partial: Vec<Part>,
        out: &mut Vec<RunEffect>,
    ) {
        let mut events = self.lost(step, partial);
        events.push(step_failed(step, &failure));
        let error = ErrorInfo { code: failure.code, message: failure.message };
        // The words are repeated if the run ends, because they name the server's own numbers.
        self.step.refusal = Some(error.message.clone());
        self.phase = RunPhase::Storing;
        self.step.overflows += 1;
        let is_spent = self.step.overflows > MAX_LENGTH_RETRIES;
        if is_spent || !self.settings.policy.enabled {
            let message = match self.settings.policy.enabled {
                true => format!(
                    "{}; it was made smaller {MAX_LENGTH_RETRIES} times, to {} tokens by our count, and was refused \
                     each time",
                    error.message,
                    self.meter().total
                ),
                false => format!("{} (compaction is off; one on request makes room)", error.message),
            };
            let error = ErrorInfo { code: error.code, message };
            let then = AppendContinuation::Finish { end: RunEnd::Error, error: Some(error) };
            return self.append_with(events, Vec::new(), vec![step.clone()], then, out);
        }
        self.append_with(events, Vec::new(), vec![step.clone()], AppendContinuation::AfterOverflow, out);
    }

    /// Plans a smaller request after a refusal for length.
    pub(super) fn after_overflow(&mut self, out: &mut Vec<RunEffect>) {
        if self.stop_at_boundary(out) {
            return;
        }
        let plan = self.plan(&PlanTrigger::Overflow);
        self.act_on(plan, PlanTrigger::Overflow, out);
    }

    /// Handles the end of a call that this program stopped. The part of the answer that arrived stays in the view.
    pub(super) fn stopped(&mut self, partial: Vec<Part>, usage: Option<Usage>, out: &mut Vec<RunEffect>) {
        let calling = self.history.open_run().and_then(|run| run.calling.as_ref());
        let Some(step) = calling.map(|start| start.step_id.clone()) else { return };
        let mut events = Vec::new();
        // The stop may have cut the last call in two, as an output limit does.
        let partial = self.named_calls(&step, partial, ModelStopReason::Length);
        if shows_something(&partial) {
            events.push(self.assistant(
                &step,
                partial,
                ModelStopReason::Other,
                Some(PartialAnswerReason::Cancelled),
            ));
        }
        events.push(match usage {
            Some(usage) => EventBody::StepFinished {
                step_id: step.clone(),
                usage: Some(usage),
                estimated_input: self.estimated_input(),
                envelope: None,
            },
            None => step_failed(
                &step,
                &ModelCallFailure::new(ErrorCode::Interrupted, "the call was stopped", false),
            ),
        });
        self.phase = RunPhase::Storing;
        self.append_with(events, Vec::new(), vec![step], AppendContinuation::Boundary, out);
    }

    /// Handles a timer that has run down.
    pub(super) fn timer_fired(&mut self, timer: RunTimer, out: &mut Vec<RunEffect>) {
        match (timer, &self.phase) {
            (RunTimer::Retry, _) => self.try_again(out),
            (RunTimer::Patience, _) => self.patience_ended(out),
            (RunTimer::Run | RunTimer::RecoveryStep, _) => self.interrupt(RunStopCause::Timeout, out),
            (RunTimer::Summary, _) => self.summary_is_late(out),
            (RunTimer::Hook, _) => self.hook_is_late(false, out),
            (RunTimer::Ahead, _)
                if self.candidate.as_ref().is_some_and(|found| found.stage == PrecomputeStage::Asking) =>
            {
                self.hook_is_late(true, out);
            }
            (RunTimer::Ahead, _) => self.void_unfinished(out),
        }
    }

    /// Stops the present work because of a cancel or a time-out.
    pub(super) fn interrupt(&mut self, stop: RunStopCause, out: &mut Vec<RunEffect>) {
        let compacting = matches!(self.phase, RunPhase::Summarising { .. } | RunPhase::Asking { .. });
        // A cancel may arrive before the start of the run is durable, while no run is open yet.
        let beginning = matches!(self.phase, RunPhase::ReadingQueue | RunPhase::Storing)
            && stop == RunStopCause::Cancelled;
        if self.history.open_run().is_none() && !compacting && !beginning {
            return;
        }
        if stop == RunStopCause::Cancelled {
            // Messages that wait now stay in the queue. A message that comes later starts the next run.
            self.woken = false;
        }
        // A time-out must not turn a cancel into a recovery step.
        if self.stop == Some(RunStopCause::Cancelled) {
            return;
        }
        let repeated = self.stop.replace(stop).is_some();
        match &self.phase {
            RunPhase::Calling { .. } | RunPhase::Summarising { .. } | RunPhase::Counting(_) if !repeated => {
                out.push(RunEffect::StopModel)
            }
            RunPhase::Waiting { .. } => self.stop_waiting(out),
            RunPhase::Asking { .. } => {
                out.push(RunEffect::StopTimer { timer: RunTimer::Hook });
                self.phase = RunPhase::Storing;
                self.boundary_or_idle(out);
            }
            RunPhase::Tools(_) => self.stop_tools(out),
            _ => {}
        }
    }
}

/// Returns whether the error is a refusal of the server that neither time nor a user can change.
fn is_servers_no(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::InvalidRequest | ErrorCode::ThirdParty | ErrorCode::NotFound)
}

/// Creates the event of a failed step.
pub(super) fn step_failed(step: &StepId, failure: &ModelCallFailure) -> EventBody {
    EventBody::StepFailed {
        step_id: step.clone(),
        code: failure.code,
        message: failure.message.clone(),
        used_tokens: failure.used_tokens,
        limit_tokens: failure.limit_tokens,
        usage: failure.usage.clone(),
    }
}

/// Returns whether parts of a cut answer have anything to read. Readable reasoning counts too, although no request
/// carries it.
fn shows_something(parts: &[Part]) -> bool {
    let is_readable =
        |part: &Part| matches!(part, Part::Reasoning(reasoning) if !reasoning.text.trim().is_empty());
    says_something(parts) || parts.iter().any(is_readable)
}

/// Returns whether parts of an answer have content that a later request carries.
pub(super) fn says_something(parts: &[Part]) -> bool {
    parts.iter().any(|part| match part {
        Part::Text(text) => !text.text.trim().is_empty(),
        Part::Reasoning(reasoning) => reasoning.native.is_some(),
        _ => true,
    })
}
