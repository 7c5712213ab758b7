//! One step of an answer as sent so far: the text of each kind, the open part, and the calls that are being written.

use serde_json::Value;

use super::{UiStreamEvent, UiTextKind};

/// An open step.
#[derive(Debug)]
pub(super) struct UiStep {
    /// The step's name in the stream: the first of the joined model steps.
    name: String,
    /// The model's step whose calls arrive now.
    id: String,
    /// The message of the step, or the message continued by the step.
    pub(super) message: String,
    /// The sent characters of each kind of text, and the stored ones of the sent.
    told: [u64; 2],
    stored: [u64; 2],
    open: Option<(UiTextKind, String)>,
    begun: [usize; 2],
    newest_text: Option<String>,
    inputs: Vec<StreamingToolCall>,
}

/// A tool call in progress.
#[derive(Debug)]
struct StreamingToolCall {
    call: String,
    tool: String,
    arguments: String,
}

impl UiStep {
    pub(super) fn begin(id: &str, message: &str, acts: &mut Vec<UiStreamEvent>) -> Self {
        acts.push(UiStreamEvent::StepBegins { step: id.to_owned(), again: false });
        Self {
            name: id.to_owned(),
            id: id.to_owned(),
            message: message.to_owned(),
            told: [0; 2],
            stored: [0; 2],
            open: None,
            begun: [0; 2],
            newest_text: None,
            inputs: Vec::new(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Continues the same message in the model's step `id`.
    pub(super) fn goes_on_in(&mut self, id: &str) {
        if self.id != id {
            id.clone_into(&mut self.id);
        }
    }

    pub(super) fn is(&self, id: &str) -> bool {
        self.id == id
    }

    /// Sends text from a character offset on, without the part sent before.
    pub(super) fn say(&mut self, voice: UiTextKind, offset: u64, text: &str, acts: &mut Vec<UiStreamEvent>) {
        // Chunks that a snapshot covers arrive again. Their offset, in characters, shows the overlap.
        let told = &mut self.told[voice as usize];
        let passed = usize::try_from(told.saturating_sub(offset)).unwrap_or(usize::MAX);
        *told = (*told).max(offset + text.chars().count() as u64);
        let rest: String = text.chars().skip(passed).collect();
        if rest.is_empty() {
            return;
        }
        let part = self.part(voice, acts);
        acts.push(UiStreamEvent::Says { voice, part, text: rest });
    }

    /// Returns the open part of the kind of text.
    fn part(&mut self, voice: UiTextKind, acts: &mut Vec<UiStreamEvent>) -> String {
        if let Some((open, part)) = &self.open
            && *open == voice
        {
            return part.clone();
        }
        self.close(acts);
        self.begun[voice as usize] += 1;
        let part = match (voice, self.begun[voice as usize]) {
            (UiTextKind::Text, 1) => self.message.clone(),
            (UiTextKind::Text, number) => format!("{}.{number}", self.message),
            (UiTextKind::Reasoning, number) => format!("{}.r{number}", self.message),
        };
        if voice == UiTextKind::Text {
            self.newest_text = Some(part.clone());
        }
        acts.push(UiStreamEvent::VoiceBegins { voice, part: part.clone() });
        self.open = Some((voice, part.clone()));
        part
    }

    fn close(&mut self, acts: &mut Vec<UiStreamEvent>) {
        if let Some((voice, part)) = self.open.take() {
            acts.push(UiStreamEvent::VoiceEnds { voice, part });
        }
    }

    /// Sends the existing part of the message, from the beginning.
    pub(super) fn catch_up(&mut self, parts: &[Value], acts: &mut Vec<UiStreamEvent>) {
        self.write_parts([0; 2], parts, acts);
    }

    fn write_parts(&mut self, mut at: [u64; 2], parts: &[Value], acts: &mut Vec<UiStreamEvent>) -> [u64; 2] {
        for part in parts {
            let Some(voice) = voice(part["type"].as_str()) else { continue };
            let text = part["text"].as_str().unwrap_or_default();
            self.say(voice, at[voice as usize], text, acts);
            at[voice as usize] += text.chars().count() as u64;
        }
        at
    }

    /// Sends the rest of a stored message, or of a stored piece that will continue. Returns the message's
    /// calls: the session's call id, the id in the stream, and the tool.
    pub(super) fn store(
        &mut self,
        parts: &[Value],
        goes_on: bool,
        acts: &mut Vec<UiStreamEvent>,
    ) -> Vec<(String, String, String)> {
        let mut calls = Vec::new();
        let mut at = self.stored;
        for part in parts {
            at = self.write_parts(at, std::slice::from_ref(part), acts);
            if part["type"] == "tool-call" {
                let [id, name, arguments] =
                    ["call_id", "name", "arguments"].map(|key| part[key].as_str().unwrap_or_default());
                let call = self.call(calls.len() as u64);
                self.ready(&call, name, arguments, acts);
                calls.push((id.to_owned(), call, name.to_owned()));
            }
        }
        self.stored = at;
        // A paused piece continues in the next step, so its open parts stay open.
        if !goes_on {
            self.close(acts);
            self.drop_inputs(acts);
        }
        calls
    }

    /// Returns the stream's id for the answer's call with the index, from 0. The provider's id is known too
    /// late.
    fn call(&self, index: u64) -> String {
        format!("{}.{index}", self.id)
    }

    /// Sends more of a call's arguments. After a missed beginning, a call is sent once complete.
    pub(super) fn write(
        &mut self,
        index: u64,
        tool: Option<&str>,
        text: &str,
        acts: &mut Vec<UiStreamEvent>,
    ) {
        let call = self.call(index);
        if !self.inputs.iter().any(|input| input.call == call) {
            // Only the first delta has the tool's name. A call cannot begin without it.
            let Some(tool) = tool.filter(|tool| !tool.is_empty()) else { return };
            self.begin_call(&call, tool, acts);
        }
        if let Some(input) = self.inputs.iter_mut().find(|input| input.call == call)
            && !text.is_empty()
        {
            input.arguments.push_str(text);
            acts.push(UiStreamEvent::CallWrites { call, text: text.to_owned() });
        }
    }

    fn begin_call(&mut self, call: &str, tool: &str, acts: &mut Vec<UiStreamEvent>) {
        self.close(acts);
        let beside = self.newest_text.clone().unwrap_or_else(|| self.message.clone());
        acts.push(UiStreamEvent::CallBegins { call: call.to_owned(), tool: tool.to_owned(), beside });
        self.inputs.push(StreamingToolCall {
            call: call.to_owned(),
            tool: tool.to_owned(),
            arguments: String::new(),
        });
    }

    fn ready(&mut self, call: &str, tool: &str, arguments: &str, acts: &mut Vec<UiStreamEvent>) {
        if !self.inputs.iter().any(|input| input.call == call) {
            self.begin_call(call, tool, acts);
        }
        let at = self.inputs.iter().position(|input| input.call == call);
        let Some(input) = at.map(|at| self.inputs.remove(at)) else { return };
        // Stored arguments need not continue the streamed ones: empty arguments are stored as `{}`, for example.
        let rest = arguments.strip_prefix(input.arguments.as_str()).filter(|rest| !rest.is_empty());
        if let Some(rest) = rest {
            acts.push(UiStreamEvent::CallWrites { call: input.call.clone(), text: rest.to_owned() });
        }
        acts.push(UiStreamEvent::CallReady {
            call: input.call,
            tool: tool.to_owned(),
            arguments: arguments.to_owned(),
        });
    }

    fn drop_inputs(&mut self, acts: &mut Vec<UiStreamEvent>) {
        // A begun call needs an end in every protocol, even if the answer broke off in its arguments.
        for StreamingToolCall { call, tool, arguments } in self.inputs.drain(..) {
            acts.push(UiStreamEvent::CallDropped { call, tool, arguments });
        }
    }

    pub(super) fn end(mut self, acts: &mut Vec<UiStreamEvent>) {
        self.close(acts);
        self.drop_inputs(acts);
        acts.push(UiStreamEvent::StepEnds { step: self.name });
    }
}

/// Returns the kind of text with the name.
pub(super) fn voice(name: Option<&str>) -> Option<UiTextKind> {
    match name {
        Some("text") => Some(UiTextKind::Text),
        Some("reasoning") => Some(UiTextKind::Reasoning),
        _ => None,
    }
}
