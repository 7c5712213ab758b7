//! The inputs and effects of a session's loop as spans.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_core::error::ErrorCode;
use longhaul_core::event::{EditKind, EditReason, ErrorInfo, EventBody, RunEnd, StepKind, ViewEdit};
use longhaul_core::ids::{CallId, RunId, SessionId};
use longhaul_core::message::{Message, ToolCall, ToolResult, ToolStatus};
use longhaul_core::run::{ModelCallFailure, Run, RunEffect, RunLoopInput, RunNotice, RunTimer};

use super::call::{ModelCallSpan, describe_model, describe_usage};
use super::content;
use super::export::TelemetryExporter;
use super::names;
use super::span::{AttributeValue, OperationKind, OperationSpan, SpanScope};
use crate::agent::Agent;

/// The operations in progress of one session.
#[derive(Debug)]
pub(crate) struct SessionTrace {
    session_id: SessionId,
    turn: Option<RunSpan>,
    compaction: Option<OperationSpan>,
    /// The model call in progress. The loop never makes two calls at once.
    call: Option<ModelCallSpan>,
    /// The tasks of summaries written in advance, which are no part of the work that runs meanwhile.
    ahead: BTreeSet<u64>,
    tools: BTreeMap<CallId, ToolSpan>,
    /// The reason for stopping an operation.
    stop: Option<&'static str>,
}

/// A run, and the number of its calls and tools.
#[derive(Debug)]
struct RunSpan {
    open: OperationSpan,
    calls: u64,
    tools: u64,
}

#[derive(Debug)]
struct ToolSpan {
    open: OperationSpan,
    name: String,
}

/// The run and the agent around an input or an effect.
#[derive(Clone, Copy)]
struct TracedRun<'a> {
    run: &'a Run,
    agent: &'a Agent,
}

impl<'a> TracedRun<'a> {
    fn exporting(self) -> Option<&'a TelemetryExporter> {
        self.agent.telemetry.exporting.as_deref()
    }

    fn agent_name(self) -> Option<&'a str> {
        self.agent.telemetry.agent.as_deref()
    }

    fn wants_content(self) -> bool {
        self.exporting().is_some_and(TelemetryExporter::wants_content)
    }
}

impl SessionTrace {
    pub(crate) fn new(session_id: SessionId) -> Self {
        Self {
            session_id,
            turn: None,
            compaction: None,
            call: None,
            ahead: BTreeSet::new(),
            tools: BTreeMap::new(),
            stop: None,
        }
    }

    /// Handles an input before the loop does; inputs end operations.
    pub(crate) fn observe_input(&mut self, input: &RunLoopInput, run: &Run, agent: &Agent) {
        let around = TracedRun { run, agent };
        match input {
            RunLoopInput::Cancel => self.stopped("cancelled"),
            RunLoopInput::TimerFired(RunTimer::Run | RunTimer::RecoveryStep) => self.stopped("timeout"),
            RunLoopInput::ModelBegan => {
                if let Some(call) = &mut self.call {
                    call.began();
                }
            }
            RunLoopInput::ModelAnswered(answer) => {
                if let Some(call) = &mut self.call {
                    call.answered(answer, around.wants_content());
                }
            }
            RunLoopInput::ModelFailed { failure, .. } => self.call_failed(failure),
            RunLoopInput::ModelStopped { usage, .. } => {
                let stop = self.stop_word();
                if let Some(call) = &mut self.call {
                    call.used(usage.as_ref());
                    call.open.fail(stop);
                }
            }
            RunLoopInput::ModelPaused { usage, .. } | RunLoopInput::ModelRepeated { usage, .. } => {
                if let Some(call) = &mut self.call {
                    call.used(usage.as_ref());
                }
            }
            // A background summary has no span: it runs beside the call whose span is open.
            RunLoopInput::Summarised { task, .. } if self.ahead.contains(task) => {
                self.ahead.remove(task);
            }
            RunLoopInput::Summarised { answer, .. } => {
                match (answer, &mut self.call) {
                    (Ok(answer), Some(call)) => call.answered(answer, around.wants_content()),
                    (Err(failure), _) => self.call_failed(failure),
                    (Ok(_), None) => {}
                }
                self.end_call(around);
            }
            RunLoopInput::Counted(_) => self.end_call(around),
            RunLoopInput::ToolEnded(result) => self.tool_ended(result, around),
            RunLoopInput::Appended { events, .. } => {
                events.iter().for_each(|event| self.stored(&event.body, around));
            }
            _ => {}
        }
    }

    /// Handles the effects of the loop; effects begin operations.
    pub(crate) fn observe_effects(&mut self, effects: &[RunEffect], run: &Run, agent: &Agent) {
        let around = TracedRun { run, agent };
        for effect in effects {
            match effect {
                RunEffect::Append { events, .. } => {
                    events.iter().for_each(|event| self.decided(event, around));
                }
                RunEffect::Notice(RunNotice::Waiting(wait)) => {
                    if let Some(call) = &mut self.call {
                        call.retried(wait.attempt);
                    }
                }
                RunEffect::Notice(RunNotice::Compacting { strategy, reason, trigger_tokens }) => {
                    self.begin_compaction(strategy, *reason, *trigger_tokens, around);
                }
                RunEffect::Count { .. } => self.begin_call(OperationKind::CountTokens, "count", around),
                RunEffect::Summarise { task, ahead: true, .. } => {
                    self.ahead.insert(*task);
                }
                RunEffect::Summarise { request, .. } => {
                    self.begin_call(OperationKind::Chat, "summary", around);
                    self.describe_request(request.messages.iter(), request.max_output_tokens, around);
                }
                RunEffect::CallModel { max_output_tokens, .. } => self.call_model(*max_output_tokens, around),
                RunEffect::RunTool { call, .. } => self.begin_tool(call, around),
                RunEffect::CompactionDone(_) => self.drop_compaction(),
                _ => {}
            }
        }
    }

    /// Returns the scope of the model call.
    pub(crate) fn call_scope(&self) -> SpanScope {
        self.call.as_ref().map(|call| call.open.scope()).unwrap_or_default()
    }

    /// Returns the scope of a tool call.
    pub(crate) fn tool_scope(&self, call_id: &CallId) -> SpanScope {
        self.tools.get(call_id).map(|tool| tool.open.scope()).unwrap_or_default()
    }

    fn stopped(&mut self, why: &'static str) {
        // Without an operation in progress, the word would stay and name the end of a later one.
        if self.turn.is_some() || self.compaction.is_some() || self.call.is_some() {
            self.stop = Some(why);
        }
    }

    fn stop_word(&self) -> &'static str {
        self.stop.unwrap_or("interrupted")
    }

    /// Returns the word for a failure. A call that we stopped did not fail by itself.
    fn word(&self, code: ErrorCode) -> &'static str {
        match code {
            ErrorCode::Interrupted => self.stop_word(),
            code => code.as_str(),
        }
    }

    fn call_failed(&mut self, failure: &ModelCallFailure) {
        let word = self.word(failure.code);
        if let Some(call) = &mut self.call {
            call.used(failure.usage.as_ref());
            call.open.fail(word);
        }
    }

    fn end_call(&mut self, around: TracedRun<'_>) {
        let Some(call) = self.call.take() else { return };
        if let Some(turn) = &mut self.turn {
            turn.calls += u64::from(call.is_chat());
        }
        call.end(around.exporting());
    }

    /// Handles an event that the loop has decided to store. The event tells whether an answer counts.
    fn decided(&mut self, event: &EventBody, around: TracedRun<'_>) {
        match event {
            EventBody::StepFinished { .. } => self.end_call(around),
            EventBody::StepFailed { code, .. } => {
                let word = self.word(*code);
                if let Some(call) = &mut self.call {
                    call.open.fail(word);
                }
                self.end_call(around);
            }
            EventBody::ViewEdited(edit) => {
                self.begin_compaction(&edit.strategy, edit.reason, edit.trigger_tokens, around);
            }
            _ => {}
        }
    }

    /// Handles a durable event.
    fn stored(&mut self, event: &EventBody, around: TracedRun<'_>) {
        match event {
            EventBody::RunStarted { run_id } => self.begin_turn(run_id, around),
            EventBody::RunFinished { reason, error, .. } => self.end_turn(*reason, error.as_ref(), around),
            EventBody::ViewEdited(edit) => self.end_compaction(edit),
            EventBody::CompactionFailed { code, .. } => {
                if let Some(compaction) = &mut self.compaction {
                    compaction.set(names::SUMMARY_FAILURE, code.as_str());
                    compaction.fail(code.as_str());
                }
            }
            _ => {}
        }
    }

    fn begin(
        &self,
        kind: OperationKind,
        what: Option<&str>,
        parent: Option<&OperationSpan>,
        around: TracedRun<'_>,
    ) -> OperationSpan {
        OperationSpan::begin(around.exporting(), kind, what, self.session_id.as_str(), parent)
    }

    fn begin_turn(&mut self, run_id: &RunId, around: TracedRun<'_>) {
        let name = around.agent_name();
        let open = self.begin(OperationKind::InvokeAgent, name, None, around);
        if let Some(name) = name {
            open.set(names::AGENT_NAME, name);
        }
        describe_model(&open, &around.run.settings().model.origin);
        open.set(names::RUN, run_id.as_str());
        self.turn = Some(RunSpan { open, calls: 0, tools: 0 });
        self.stop = None;
    }

    /// Begins the span of a run that another process began.
    fn find_turn(&mut self, around: TracedRun<'_>) {
        if let (None, Some(open)) = (&self.turn, around.run.history().open_run()) {
            self.begin_turn(&open.id, around);
            if let Some(turn) = &self.turn {
                turn.open.set(names::RUN_RECOVERED, AttributeValue::Flag(true));
            }
        }
    }

    fn end_turn(&mut self, reason: RunEnd, error: Option<&ErrorInfo>, around: TracedRun<'_>) {
        self.drop_compaction();
        self.stop = None;
        let Some(RunSpan { mut open, calls, tools }) = self.turn.take() else { return };
        // Inputs are observed before the loop handles them, so the ending run is still open in the history.
        if let Some(run) = around.run.history().open_run() {
            describe_usage(&open, &run.usage);
        }
        open.set(names::RUN_END, reason.as_str());
        match (reason, error) {
            (RunEnd::Error, Some(error)) => open.fail(error.code.as_str()),
            (RunEnd::Error, None) => open.fail(names::OTHER),
            (RunEnd::Cancelled | RunEnd::Timeout, _) => open.fail(reason.as_str()),
            _ => {}
        }
        if let Some(exporting) = around.exporting() {
            let seconds = open.elapsed().as_secs_f64();
            exporting.count_run(around.agent_name(), seconds, calls, tools, open.error());
        }
        open.end();
    }

    fn call_model(&mut self, max_output_tokens: u64, around: TracedRun<'_>) {
        // A stored edit ends its compaction, so one that is still open here came to nothing.
        self.drop_compaction();
        // The conventions count a call and its repetitions as one operation (decision 15).
        if let Some(call) = &mut self.call {
            return call.sent_again();
        }
        let calling = around.run.history().open_run().and_then(|run| run.calling.as_ref());
        let purpose = match calling.map(|start| start.purpose) {
            Some(StepKind::Recovery) => "recovery",
            _ => "main",
        };
        self.begin_call(OperationKind::Chat, purpose, around);
        let view = around.run.history().view();
        self.describe_request(view.iter().map(|item| &*item.message), max_output_tokens, around);
    }

    fn begin_call(&mut self, kind: OperationKind, purpose: &str, around: TracedRun<'_>) {
        self.find_turn(around);
        let origin = &around.run.settings().model.origin;
        let parent = self.compaction.as_ref().or(self.turn.as_ref().map(|turn| &turn.open));
        let open = self.begin(kind, Some(&origin.model), parent, around);
        self.call = Some(ModelCallSpan::new(open, kind, purpose, origin));
    }

    fn describe_request<'m>(
        &self,
        messages: impl DoubleEndedIterator<Item = &'m Message>,
        max_output_tokens: u64,
        around: TracedRun<'_>,
    ) {
        let Some(call) = &self.call else { return };
        call.open.set(names::REQUEST_STREAM, AttributeValue::Flag(true));
        call.open.set(names::REQUEST_MAX_TOKENS, max_output_tokens);
        if around.run.history().edits().iter().any(|edit| edit.active) {
            call.open.set(names::COMPACTED, AttributeValue::Flag(true));
        }
        if around.wants_content() {
            if !around.agent.system.is_empty() {
                let system = content::instructions(&around.agent.system);
                call.open.quote(names::SYSTEM_INSTRUCTIONS, system);
            }
            call.open.quote(names::INPUT_MESSAGES, content::messages(messages));
        }
    }

    fn begin_tool(&mut self, call: &ToolCall, around: TracedRun<'_>) {
        self.find_turn(around);
        // A model may call any name; only an existing tool's name is exported, to bound the number of time series.
        let exists = around.run.settings().tools.contains_key(&call.name);
        let name = if exists { call.name.as_str() } else { names::OTHER };
        let parent = self.turn.as_ref().map(|turn| &turn.open);
        let open = self.begin(OperationKind::ExecuteTool, Some(name), parent, around);
        open.set(names::TOOL_NAME, name);
        open.set(names::TOOL_TYPE, "function");
        // The id is our own, because a provider's id may hold any text.
        open.set(names::TOOL_CALL_ID, call.call_id.as_str());
        if around.wants_content() {
            open.quote(names::TOOL_ARGUMENTS, content::clipped(&call.arguments));
        }
        if let Some(turn) = &mut self.turn {
            turn.tools += 1;
        }
        self.tools.insert(call.call_id.clone(), ToolSpan { open, name: name.to_owned() });
    }

    fn tool_ended(&mut self, result: &ToolResult, around: TracedRun<'_>) {
        let Some(ToolSpan { mut open, name }) = self.tools.remove(&result.call_id) else { return };
        match result.status {
            ToolStatus::Completed => {}
            ToolStatus::Error => open.fail("tool_error"),
            ToolStatus::Cancelled => open.fail(self.stop.unwrap_or("cancelled")),
            ToolStatus::Interrupted => open.fail("interrupted"),
        }
        if around.wants_content() {
            open.quote(names::TOOL_RESULT, content::result(&result.content));
        }
        if let Some(exporting) = around.exporting() {
            let seconds = open.elapsed().as_secs_f64();
            exporting.count_tool(around.agent_name(), &name, seconds, open.error());
        }
        open.end();
    }

    /// Begins a compaction, at the latest when its edit is stored. With a summary, the span begins with the summary's
    /// request.
    fn begin_compaction(&mut self, strategy: &str, reason: EditReason, trigger: u64, around: TracedRun<'_>) {
        if self.compaction.is_some() {
            return;
        }
        self.find_turn(around);
        let parent = self.turn.as_ref().map(|turn| &turn.open);
        let open = self.begin(OperationKind::Compact, Some(strategy), parent, around);
        open.set(names::STRATEGY, strategy);
        open.set(names::REASON, reason.as_str());
        open.set(names::TRIGGER_TOKENS, trigger);
        self.compaction = Some(open);
    }

    fn end_compaction(&mut self, edit: &ViewEdit) {
        let Some(mut open) = self.compaction.take() else { return };
        // A failed summary is no failed compaction if an edit was stored nevertheless.
        open.forgive();
        let kind = match edit.kind {
            EditKind::Prune => "prune",
            EditKind::Compaction => "compaction",
        };
        open.set(names::COMPACTION_KIND, kind);
        open.set(names::COMPACTION, edit.id.as_str());
        open.set(names::TOKENS_BEFORE, edit.original_tokens);
        open.set(names::TOKENS_AFTER, edit.compressed_tokens);
        open.end();
    }

    /// Ends a compaction that was begun but not stored.
    fn drop_compaction(&mut self) {
        let Some(mut open) = self.compaction.take() else { return };
        if open.error().is_none() {
            open.fail(self.stop.unwrap_or("not_committed"));
        }
        open.end();
    }
}
