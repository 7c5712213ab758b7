//! The translation of a session's events into the events of one answer.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::step::{UiStep, voice};
use super::{UiApprovalRequest, UiStreamEnd, UiStreamEvent, UiToolOutcome};

/// The fields of every event without use in a front end.
const COMMON: [&str; 4] = ["name", "sessionId", "seq", "runId"];

/// The state of an answer in translation.
#[derive(Debug)]
pub(crate) struct UiStreamTranslator {
    stage: UiTranslatorStage,
    name: Option<String>,
    has_begun: bool,
    step: Option<UiStep>,
    /// The paused message, to be continued.
    paused: Option<String>,
    calls: BTreeMap<String, UiToolCall>,
    running: BTreeSet<String>,
    /// The approvals decided already or about to be. The front end is not asked again.
    settled: Vec<String>,
    /// The call of each approval, and the open approvals.
    questions: BTreeMap<String, String>,
    asking: Vec<(String, UiApprovalRequest)>,
    edits: usize,
    is_compacting: bool,
    /// Set if all arguments of a call were received: events during a watcher's absence are lost.
    hears_inputs: bool,
    waiting: Vec<String>,
    own: Option<String>,
    acts: Vec<UiStreamEvent>,
}

#[derive(Debug, PartialEq)]
enum UiTranslatorStage {
    /// Waits until the message is taken.
    Awaits(String),
    /// Passes silently over events, up to the first of the approvals.
    Passes(Vec<String>),
    Tells,
    Over,
}

#[derive(Debug)]
struct UiToolCall {
    told_as: String,
    tool: String,
    is_denied: bool,
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
    pub(crate) fn awaiting(id: &str) -> Self {
        let name = Some(name_of(id));
        Self { own: Some(id.to_owned()), ..Self::new(UiTranslatorStage::Awaits(id.to_owned()), name) }
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
    pub(crate) fn awaits(&self) -> Option<&str> {
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
    pub(crate) fn take(&mut self, event: &Value) -> Vec<UiStreamEvent> {
        match &self.stage {
            UiTranslatorStage::Over => {}
            UiTranslatorStage::Awaits(_) => self.wait(event),
            UiTranslatorStage::Passes(_) | UiTranslatorStage::Tells => self.translate_visible_event(event),
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

    fn wait(&mut self, event: &Value) {
        let UiTranslatorStage::Awaits(own) = &self.stage else { return };
        match event["name"].as_str().unwrap_or_default() {
            "message:dequeued" if items(&event["ids"]).iter().any(|id| *id == own.as_str()) => {
                self.stage = UiTranslatorStage::Tells;
                self.translate_visible_event(event);
            }
            // Nothing else would ever end the wait.
            "message:removed" if event["id"] == own.as_str() => self.end(UiStreamEnd::Failed {
                code: "interrupted".to_owned(),
                message: "The message was taken out of the queue.".to_owned(),
            }),
            _ => self.note_queue(event),
        }
    }

    fn translate_visible_event(&mut self, event: &Value) {
        match event["name"].as_str().unwrap_or_default() {
            "run:started" => self.run_begins(event),
            "message:dequeued" => {
                self.hears_inputs = true;
                // A message taken in the middle of an answer does not rename it: front ends know it by its first
                // name.
                if let (false, Some(newest)) = (self.has_begun, items(&event["ids"]).last()) {
                    self.name = newest.as_str().map(name_of);
                }
                self.note_queue(event);
            }
            "llm:chunk" => self.chunk(event),
            "llm:snapshot" => {
                let (step, message) = (text(event, "stepId"), text(event, "messageId"));
                // The events are taken out, because the step borrows the whole translator.
                let mut acts = std::mem::take(&mut self.acts);
                self.enter(step, message, &mut acts).catch_up(items(&event["parts"]), &mut acts);
                self.acts = acts;
            }
            "llm:tool-input" => self.tool_input(event),
            "message:added" if event["role"] == "assistant" => self.answered(event),
            "tool:started" => {
                self.running.insert(text(event, "callId").to_owned());
            }
            "tool:output" => self.progress(event),
            "tool:approval-request" => self.asked(event),
            "tool:approval-response" => self.decided(event),
            "llm:tool-result" => self.result(event),
            "context:usage" => self.acts.push(UiStreamEvent::Meter(own(event))),
            "context:compacting" => self.edit("compaction", "running", event),
            "context:compressed" => self.edit("compaction", "done", event),
            "context:compact-failed" => self.edit("compaction", "failed", event),
            "context:pruned" => self.edit("prune", "done", event),
            "run:waiting"
            | "llm:error"
            | "llm:unsupported-input"
            | "context:omitted"
            | "llm:switched"
            | "session:parked"
            | "stream:gap" => {
                let mut notice = own(event);
                notice["event"] = event["name"].clone();
                self.acts.push(UiStreamEvent::Notice(notice));
            }
            "run:complete" => self.complete(event),
            _ => self.note_queue(event),
        }
    }

    fn run_begins(&mut self, event: &Value) {
        self.hears_inputs = true;
        if self.name.is_none() {
            self.name = Some(name_of(text(event, "runId")));
        }
    }

    fn note_queue(&mut self, event: &Value) {
        let before = self.waiting.clone();
        let id = text(event, "id");
        match event["name"].as_str().unwrap_or_default() {
            "queue:snapshot" => {
                // Events may have passed without a listener.
                self.hears_inputs = false;
                let ids = items(&event["entries"]).iter().map(|entry| text(entry, "id").to_owned());
                self.waiting = ids.collect();
            }
            // The snapshot may name the message already.
            "message:queued" if !self.waiting.iter().any(|waiting| waiting == id) => {
                self.waiting.push(id.to_owned());
            }
            "message:removed" => self.waiting.retain(|waiting| waiting != id),
            "message:dequeued" => {
                let taken = items(&event["ids"]);
                self.waiting.retain(|waiting| !taken.iter().any(|id| id.as_str() == Some(waiting)));
            }
            _ => {}
        }
        // The name must be the first event of the answer, so the queue waits for it.
        if self.waiting != before && self.name.is_some() {
            let own = self.waiting.iter().position(|id| Some(id) == self.own.as_ref());
            self.acts.push(UiStreamEvent::Queue { ids: self.waiting.clone(), own: own.map(|at| at + 1) });
        }
    }

    /// Returns the present step.
    fn enter(&mut self, id: &str, message: &str, acts: &mut Vec<UiStreamEvent>) -> &mut UiStep {
        // A paused answer goes on in the next model step as the same message, and stays one step here.
        if let Some(step) = self.step.take_if(|step| step.message != message) {
            step.end(acts);
        }
        let step = self.step.get_or_insert_with(|| UiStep::begin(id, message, acts));
        step.goes_on_in(id);
        step
    }

    fn chunk(&mut self, event: &Value) {
        let content = text(event, "content");
        let Some(voice) = voice(event["chunkType"].as_str()).filter(|_| !content.is_empty()) else { return };
        let offset = event["offset"].as_u64().unwrap_or_default();
        let mut acts = std::mem::take(&mut self.acts);
        let step = self.enter(text(event, "stepId"), text(event, "messageId"), &mut acts);
        step.say(voice, offset, content, &mut acts);
        self.acts = acts;
    }

    fn tool_input(&mut self, event: &Value) {
        // The lost part of the arguments cannot be sent later, so the call is sent whole with its message.
        if !self.hears_inputs {
            return;
        }
        let id = text(event, "stepId");
        let message = match (&self.step, &self.paused) {
            (Some(step), _) if step.is(id) => step.message.clone(),
            (_, Some(paused)) => paused.clone(),
            // A message is named after its step, so the name is known before the message is.
            _ => format!("m-{id}"),
        };
        let index = event["index"].as_u64().unwrap_or_default();
        let mut acts = std::mem::take(&mut self.acts);
        let step = self.enter(id, &message, &mut acts);
        step.write(index, event["toolName"].as_str(), text(event, "delta"), &mut acts);
        self.acts = acts;
    }

    fn answered(&mut self, event: &Value) {
        let id = text(event, "messageId");
        let message = event["continues"].as_str().unwrap_or(id);
        let goes_on = event["paused"] == true;
        let mut acts = std::mem::take(&mut self.acts);
        let step = self.enter(id.strip_prefix("m-").unwrap_or(id), message, &mut acts);
        let calls = step.store(items(&event["parts"]), goes_on, &mut acts);
        self.acts = acts;
        self.paused = goes_on.then(|| message.to_owned());
        // The next call begins after this message, so all of its arguments will be heard.
        self.hears_inputs = true;
        for (call_id, told_as, tool) in calls {
            self.calls.insert(call_id, UiToolCall { told_as, tool, is_denied: false });
        }
    }

    fn progress(&mut self, event: &Value) {
        // A call of an earlier answer is none of this stream's.
        let Some(call) = self.calls.get(text(event, "callId")) else { return };
        let offset = event["offset"].as_u64().unwrap_or_default();
        let text = text(event, "text").to_owned();
        self.acts.push(UiStreamEvent::Progress { call: call.told_as.clone(), text, offset });
    }

    fn asked(&mut self, event: &Value) {
        let (approval, call_id) = (text(event, "approvalId"), text(event, "callId"));
        let Some(call) = self.calls.get(call_id) else { return };
        self.questions.insert(approval.to_owned(), call_id.to_owned());
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
        self.asking.push((call_id.to_owned(), UiApprovalRequest { approval, call, tool }));
        self.rest();
    }

    fn decided(&mut self, event: &Value) {
        let approval = text(event, "approvalId");
        self.asking.retain(|(_, asked)| asked.approval != approval);
        let call = self.questions.get(approval).and_then(|call_id| self.calls.get_mut(call_id));
        if let Some(call) = call {
            call.is_denied = event["decision"] == "deny";
        }
    }

    fn result(&mut self, event: &Value) {
        let call_id = text(event, "callId");
        self.running.remove(call_id);
        self.asking.retain(|(asking, _)| asking != call_id);
        if let Some(call) = self.calls.get(call_id) {
            let outcome = match (event["success"] == true, call.is_denied) {
                (_, true) => UiToolOutcome::Denied,
                (true, false) => UiToolOutcome::Done,
                (false, false) => UiToolOutcome::Failed,
            };
            let content = items(&event["sanitized"]).to_vec();
            self.acts.push(UiStreamEvent::Result { call: call.told_as.clone(), outcome, content });
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

    fn edit(&mut self, kind: &'static str, state: &str, event: &Value) {
        // The end of a compaction has the number of its beginning, so that front ends replace the one by the
        // other.
        let goes_on = kind == "compaction" && std::mem::replace(&mut self.is_compacting, state == "running");
        if !goes_on {
            self.edits += 1;
        }
        let mut told = own(event);
        told["state"] = state.into();
        self.acts.push(UiStreamEvent::Edit { kind, number: self.edits, state: told });
    }

    fn complete(&mut self, event: &Value) {
        let mut run = own(event);
        run["runId"] = event["runId"].clone();
        match event["error"].as_object() {
            Some(error) => {
                let [code, message] = ["code", "message"]
                    .map(|key| error.get(key).and_then(Value::as_str).unwrap_or_default().to_owned());
                self.end(UiStreamEnd::Failed { code, message });
            }
            None if run["finishReason"] == "error" => {
                let message = "The run ended with an error.".to_owned();
                self.end(UiStreamEnd::Failed { code: "third-party".to_owned(), message });
            }
            None => self.end(UiStreamEnd::Complete { run }),
        }
    }

    fn end(&mut self, end: UiStreamEnd) {
        if self.is_silent() {
            // The client has not heard of the open step, so its end would be meaningless.
            self.acts.clear();
            (self.step, self.is_compacting) = (None, false);
        }
        if std::mem::take(&mut self.is_compacting) {
            // A front end would show an unfinished compaction for ever.
            let state = json!({ "state": "cancelled" });
            self.acts.push(UiStreamEvent::Edit { kind: "compaction", number: self.edits, state });
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

fn text<'a>(event: &'a Value, key: &str) -> &'a str {
    event[key].as_str().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns an event without the common fields.
fn own(event: &Value) -> Value {
    let fields = event.as_object().into_iter().flatten();
    let own = fields.filter(|(key, _)| !COMMON.contains(&key.as_str()));
    Value::Object(own.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>())
}
