//! The translation of a session's events into the events of one answer.

use std::collections::{BTreeMap, BTreeSet};

use longhaul::SessionEvent;
use longhaul::api_events::ApiEvent;
use longhaul_core::error::ErrorCode;
use longhaul_core::event::{EditKind, ErrorInfo, PartialAnswerReason, RunEnd};
use longhaul_core::ids::{ApprovalId, CallId, MessageId, QueueId, StepId};
use longhaul_core::message::{Part, Role, ToolStatus};
use serde_json::{Value, json};

use super::step::{UiStep, UiToolCall};
use super::{
    FinishedRun, UiApprovalRequest, UiEditState, UiStreamEnd, UiStreamEvent, UiTextKind, UiToolOutcome,
};

/// The state of an answer in translation.
#[derive(Debug)]
pub(crate) struct UiStreamTranslator {
    stage: UiTranslatorStage,
    name: Option<String>,
    has_begun: bool,
    step: Option<UiStep>,
    /// The paused message, to be continued.
    paused: Option<MessageId>,
    calls: BTreeMap<CallId, UiToolCall>,
    running: BTreeSet<CallId>,
    /// The approvals decided already or about to be. The front end is not asked again.
    settled: Vec<String>,
    /// The call of each approval, and the open approvals.
    questions: BTreeMap<ApprovalId, CallId>,
    asking: Vec<(CallId, UiApprovalRequest)>,
    edits: usize,
    is_compacting: bool,
    /// Set if all arguments of a call were received: events during a watcher's absence are lost.
    hears_inputs: bool,
    waiting: Vec<QueueId>,
    own: Option<QueueId>,
    acts: Vec<UiStreamEvent>,
}

#[derive(Debug, PartialEq)]
enum UiTranslatorStage {
    /// Waits until the message is taken.
    Awaits(QueueId),
    /// Passes silently over events, up to the first of the approvals.
    Passes(Vec<String>),
    Tells,
    Over,
}

impl UiStreamTranslator {
    fn new(stage: UiTranslatorStage, name: Option<String>) -> Self {
        Self {
            stage,
            name,
            has_begun: false,
            step: None,
            paused: None,
            calls: BTreeMap::new(),
            running: BTreeSet::new(),
            settled: Vec::new(),
            questions: BTreeMap::new(),
            asking: Vec::new(),
            edits: 0,
            is_compacting: false,
            hears_inputs: true,
            waiting: Vec::new(),
            own: None,
            acts: Vec::new(),
        }
    }

    /// Creates a translator for the answer to a waiting message.
    pub(crate) fn awaiting(id: impl Into<QueueId>) -> Self {
        let id = id.into();
        let name = Some(name_of(id.as_str()));
        Self { own: Some(id.clone()), ..Self::new(UiTranslatorStage::Awaits(id), name) }
    }

    /// Creates a translator for the named answer from the first event on; without a name, for the answer of the
    /// next run. `settled` are the approvals without need for a decision.
    pub(crate) fn telling(name: Option<String>, settled: Vec<String>) -> Self {
        Self { settled, ..Self::new(UiTranslatorStage::Tells, name) }
    }

    /// Creates a translator for the rest of an answer behind the first of the decided approvals. The input starts with
    /// the answer's first event.
    pub(crate) fn going_on(name: String, answered: Vec<String>, mut settled: Vec<String>) -> Self {
        settled.extend(answered.iter().cloned());
        Self { settled, ..Self::new(UiTranslatorStage::Passes(answered), Some(name)) }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.stage == UiTranslatorStage::Over
    }

    /// Returns the message still waiting for its turn.
    pub(crate) fn awaits(&self) -> Option<&QueueId> {
        match &self.stage {
            UiTranslatorStage::Awaits(id) => Some(id),
            _ => None,
        }
    }

    /// Returns the beginning of the answer if the name is known.
    pub(crate) fn open(&mut self) -> Vec<UiStreamEvent> {
        if self.name.is_some() && !self.is_silent() && !std::mem::replace(&mut self.has_begun, true) {
            self.acts.push(UiStreamEvent::Begins { name: self.name.clone() });
        }
        std::mem::take(&mut self.acts)
    }

    /// Translates an event.
    pub(crate) fn take(&mut self, announcement: &ApiEvent) -> Vec<UiStreamEvent> {
        if let Some(event) = SessionEvent::from_announcement(announcement) {
            match &self.stage {
                UiTranslatorStage::Over => {}
                UiTranslatorStage::Awaits(_) => self.wait(&event, announcement),
                UiTranslatorStage::Passes(_) | UiTranslatorStage::Tells => {
                    self.translate_visible_event(&event, announcement);
                }
            }
        }
        self.told()
    }

    /// Ends the answer because no more events will come.
    pub(crate) fn break_off(&mut self, end: UiStreamEnd) -> Vec<UiStreamEvent> {
        if !self.is_over() {
            self.end(end);
        }
        self.told()
    }

    fn told(&mut self) -> Vec<UiStreamEvent> {
        if self.is_silent() {
            self.acts.clear();
        } else if !self.acts.is_empty() && !std::mem::replace(&mut self.has_begun, true) {
            // The name is known only after the first event, so the beginning is put before it afterwards.
            self.acts.insert(0, UiStreamEvent::Begins { name: self.name.clone() });
        }
        std::mem::take(&mut self.acts)
    }

    fn is_silent(&self) -> bool {
        matches!(self.stage, UiTranslatorStage::Passes(_))
    }

    fn wait(&mut self, event: &SessionEvent, announcement: &ApiEvent) {
        let UiTranslatorStage::Awaits(own) = &self.stage else { return };
        match event {
            SessionEvent::MessagesTaken { queue_ids } if queue_ids.contains(own) => {
                self.stage = UiTranslatorStage::Tells;
                self.translate_visible_event(event, announcement);
            }
            // Nothing else would ever end the wait.
            SessionEvent::QueuedMessageRemoved { queue_id } if queue_id == own => {
                let message = "The message was taken out of the queue.".to_owned();
                self.end(UiStreamEnd::Failed { code: ErrorCode::Interrupted, message });
            }
            _ => self.note_queue(event),
        }
    }

    fn translate_visible_event(&mut self, event: &SessionEvent, announcement: &ApiEvent) {
        match event {
            SessionEvent::RunStarted { run_id } => {
                self.hears_inputs = true;
                self.name.get_or_insert_with(|| name_of(run_id.as_str()));
            }
            SessionEvent::MessagesTaken { queue_ids } => {
                self.hears_inputs = true;
                // A message taken in the middle of an answer does not rename it: front ends know it by its first
                // name.
                if let (false, Some(newest)) = (self.has_begun, queue_ids.last()) {
                    self.name = Some(name_of(newest.as_str()));
                }
                self.note_queue(event);
            }
            SessionEvent::TextDelta { text, step_id, message_id, offset } => {
                let (step, acts) = self.enter(step_id, message_id);
                step.say(UiTextKind::Text, *offset, text, acts);
            }
            SessionEvent::ReasoningDelta { text, step_id, message_id, offset } => {
                let (step, acts) = self.enter(step_id, message_id);
                step.say(UiTextKind::Reasoning, *offset, text, acts);
            }
            SessionEvent::AnswerSnapshot { step_id, message_id, parts } => {
                let (step, acts) = self.enter(step_id, message_id);
                step.catch_up(parts, acts);
            }
            SessionEvent::ToolInputDelta { step_id, index, tool_name, delta } => {
                self.tool_input(step_id, *index, tool_name.as_deref(), delta);
            }
            SessionEvent::MessageAdded {
                role: Role::Assistant,
                message_id,
                parts,
                interrupted,
                continues,
                ..
            } => {
                let goes_on = *interrupted == Some(PartialAnswerReason::Paused);
                self.answered(message_id, continues.as_ref(), parts, goes_on);
            }
            SessionEvent::RunFinished { run_id, end, steps, usage, error } => {
                let (run_id, usage) = (run_id.clone(), usage.clone());
                self.complete(FinishedRun { run_id, end: *end, steps: *steps, usage }, error.as_ref());
            }
            _ => self.translate_tool_event(event, announcement),
        }
    }

    /// Translates an event of a tool call, or an event that is shown beside the answer.
    fn translate_tool_event(&mut self, event: &SessionEvent, announcement: &ApiEvent) {
        match event {
            SessionEvent::ToolStarted { call_id } => {
                self.running.insert(call_id.clone());
            }
            SessionEvent::ToolProgress { call_id, text, offset } => {
                // A call of an earlier answer is none of this stream's.
                if let Some(call) = self.calls.get(call_id) {
                    let (call, text) = (call.told_as.clone(), text.clone());
                    self.acts.push(UiStreamEvent::Progress { call, text, offset: *offset });
                }
            }
            SessionEvent::ApprovalRequested { approval_id, call_id, .. } => self.asked(approval_id, call_id),
            SessionEvent::ApprovalResolved { approval_id, is_allowed } => {
                self.decided(approval_id, *is_allowed);
            }
            SessionEvent::ToolResult { call_id, status, content, .. } => {
                self.result(call_id, *status, content);
            }
            _ => self.translate_side_event(event, announcement),
        }
    }

    /// Translates an event that is shown beside the answer.
    fn translate_side_event(&mut self, event: &SessionEvent, announcement: &ApiEvent) {
        match event {
            SessionEvent::ContextUsage { .. } => {
                self.acts.push(UiStreamEvent::Meter(api_fields(announcement)))
            }
            SessionEvent::Compacting { .. } => {
                self.edit(EditKind::Compaction, UiEditState::Running, announcement);
            }
            SessionEvent::Compacted { original_tokens, compressed_tokens, .. } => {
                let state = UiEditState::done(*original_tokens, *compressed_tokens);
                self.edit(EditKind::Compaction, state, announcement);
            }
            SessionEvent::CompactionFailed { .. } => {
                self.edit(EditKind::Compaction, UiEditState::Failed, announcement);
            }
            SessionEvent::Pruned { original_tokens, compressed_tokens, .. } => {
                let state = UiEditState::done(*original_tokens, *compressed_tokens);
                self.edit(EditKind::Prune, state, announcement);
            }
            SessionEvent::Waiting { .. }
            | SessionEvent::ModelError { .. }
            | SessionEvent::InputUnsupported { .. }
            | SessionEvent::Omitted { .. }
            | SessionEvent::ModelSwitched { .. }
            | SessionEvent::Parked { .. }
            | SessionEvent::StreamGap { .. } => {
                let mut notice = api_fields(announcement);
                notice["event"] = announcement.name.into();
                self.acts.push(UiStreamEvent::Notice(notice));
            }
            _ => self.note_queue(event),
        }
    }

    fn note_queue(&mut self, event: &SessionEvent) {
        let before = self.waiting.clone();
        match event {
            SessionEvent::QueueSnapshot { messages } => {
                // Events may have passed without a listener.
                self.hears_inputs = false;
                self.waiting = messages.iter().map(|message| message.id.clone()).collect();
            }
            // The snapshot may name the message already.
            SessionEvent::MessageQueued { queue_id, .. } if !self.waiting.contains(queue_id) => {
                self.waiting.push(queue_id.clone());
            }
            SessionEvent::QueuedMessageRemoved { queue_id } => {
                self.waiting.retain(|waiting| waiting != queue_id);
            }
            SessionEvent::MessagesTaken { queue_ids } => {
                self.waiting.retain(|waiting| !queue_ids.contains(waiting));
            }
            _ => {}
        }
        // The name must be the first event of the answer, so the queue waits for it.
        if self.waiting != before && self.name.is_some() {
            let own = self.waiting.iter().position(|id| Some(id) == self.own.as_ref());
            self.acts.push(UiStreamEvent::Queue { ids: self.waiting.clone(), own: own.map(|at| at + 1) });
        }
    }

    /// Returns the present step, and the list for its events.
    fn enter(&mut self, id: &StepId, message: &MessageId) -> (&mut UiStep, &mut Vec<UiStreamEvent>) {
        // A paused answer goes on in the next model step as the same message, and stays one step here.
        if let Some(step) = self.step.take_if(|step| step.message != *message) {
            step.end(&mut self.acts);
        }
        let step = self.step.get_or_insert_with(|| UiStep::begin(id, message, &mut self.acts));
        step.goes_on_in(id);
        (step, &mut self.acts)
    }

    fn tool_input(&mut self, id: &StepId, index: u64, tool: Option<&str>, delta: &str) {
        // The lost part of the arguments cannot be sent later, so the call is sent whole with its message.
        if !self.hears_inputs {
            return;
        }
        let message = match (&self.step, &self.paused) {
            (Some(step), _) if step.is(id) => step.message.clone(),
            (_, Some(paused)) => paused.clone(),
            // A message is named after its step, so the name is known before the message is.
            _ => format!("m-{id}").into(),
        };
        let (step, acts) = self.enter(id, &message);
        step.write(index, tool, delta, acts);
    }

    fn answered(&mut self, id: &MessageId, continues: Option<&MessageId>, parts: &[Part], goes_on: bool) {
        let message = continues.unwrap_or(id);
        let step_id = id.as_str().strip_prefix("m-").unwrap_or(id.as_str());
        let (step, acts) = self.enter(&step_id.into(), message);
        let calls = step.store(parts, goes_on, acts);
        self.paused = goes_on.then(|| message.clone());
        // The next call begins after this message, so all of its arguments will be heard.
        self.hears_inputs = true;
        self.calls.extend(calls);
    }

    fn asked(&mut self, approval: &ApprovalId, call_id: &CallId) {
        let Some(call) = self.calls.get(call_id) else { return };
        self.questions.insert(approval.clone(), call_id.clone());
        let approval = approval.as_str();
        if let UiTranslatorStage::Passes(until) = &self.stage
            && until.iter().any(|id| id == approval)
        {
            self.stage = UiTranslatorStage::Tells;
            if let Some(step) = &self.step {
                self.acts.push(UiStreamEvent::StepBegins { step: step.name().to_owned(), again: true });
            }
        }
        // The client sent the decision with this request, so it is not asked again.
        if self.settled.iter().any(|id| id == approval) {
            return;
        }
        let (approval, call, tool) = (approval.to_owned(), call.told_as.clone(), call.tool.clone());
        self.acts.push(UiStreamEvent::Asks { call: call.clone(), approval: approval.clone() });
        self.asking.push((call_id.clone(), UiApprovalRequest { approval, call, tool }));
        self.rest();
    }

    fn decided(&mut self, approval: &ApprovalId, is_allowed: bool) {
        self.asking.retain(|(_, asked)| asked.approval != approval.as_str());
        let call = self.questions.get(approval).and_then(|call_id| self.calls.get_mut(call_id));
        if let Some(call) = call {
            call.is_denied = !is_allowed;
        }
    }

    fn result(&mut self, call_id: &CallId, status: ToolStatus, content: &[Part]) {
        self.running.remove(call_id);
        self.asking.retain(|(asking, _)| asking != call_id);
        if let Some(call) = self.calls.get(call_id) {
            let outcome = match status {
                _ if call.is_denied => UiToolOutcome::Denied,
                ToolStatus::Completed => UiToolOutcome::Done,
                ToolStatus::Error | ToolStatus::Cancelled | ToolStatus::Interrupted => UiToolOutcome::Failed,
            };
            let (call, content) = (call.told_as.clone(), content.to_vec());
            self.acts.push(UiStreamEvent::Result { call, outcome, content });
        }
        self.rest();
    }

    /// Ends the stream if nothing continues until a person decides.
    fn rest(&mut self) {
        // While another tool runs, its result must still reach this stream.
        if !self.asking.is_empty() && self.running.is_empty() && !self.is_silent() {
            let asking = std::mem::take(&mut self.asking);
            self.end(UiStreamEnd::Asks(asking.into_iter().map(|(_, asked)| asked).collect()));
        }
    }

    fn edit(&mut self, kind: EditKind, state: UiEditState, announcement: &ApiEvent) {
        // The end of a compaction has the number of its beginning, so that front ends replace the one by the
        // other.
        let goes_on = kind == EditKind::Compaction
            && std::mem::replace(&mut self.is_compacting, state == UiEditState::Running);
        if !goes_on {
            self.edits += 1;
        }
        self.push_edit(kind, state, api_fields(announcement));
    }

    fn push_edit(&mut self, kind: EditKind, state: UiEditState, mut data: Value) {
        data["state"] = state.as_str().into();
        self.acts.push(UiStreamEvent::Edit { kind, number: self.edits, state, data });
    }

    fn complete(&mut self, run: FinishedRun, error: Option<&ErrorInfo>) {
        self.end(match error {
            Some(ErrorInfo { code, message }) => {
                UiStreamEnd::Failed { code: *code, message: message.clone() }
            }
            None if run.end == RunEnd::Error => UiStreamEnd::Failed {
                code: ErrorCode::ThirdParty,
                message: "The run ended with an error.".to_owned(),
            },
            None => UiStreamEnd::Complete(run),
        });
    }

    fn end(&mut self, end: UiStreamEnd) {
        if self.is_silent() {
            // The client has not heard of the open step, so its end would be meaningless.
            self.acts.clear();
            (self.step, self.is_compacting) = (None, false);
        }
        if std::mem::take(&mut self.is_compacting) {
            // A front end would show an unfinished compaction for ever.
            self.push_edit(EditKind::Compaction, UiEditState::Cancelled, json!({}));
        }
        if let Some(step) = self.step.take() {
            step.end(&mut self.acts);
        }
        self.acts.push(UiStreamEvent::Ends(end));
        self.stage = UiTranslatorStage::Over;
    }
}

/// Returns the name of the answer to a message or of a run.
pub(super) fn name_of(id: &str) -> String {
    format!("a-{id}")
}

/// Returns the API's fields of an event for a front end. The run is known to the front end.
fn api_fields(announcement: &ApiEvent) -> Value {
    // Front ends are promised all fields of the event, and `SessionEvent` has not all of them.
    let mut fields = announcement.payload.clone();
    fields.retain(|key, _| key != "runId");
    Value::Object(fields)
}
