//! One step of an answer as sent so far: the text of each kind, the open part, and the calls that are being written.

use longhaul_core::ids::{CallId, MessageId, StepId};
use longhaul_core::message::{Part, ToolCall};

use super::{UiStreamEvent, UiTextKind};

/// An open step.
#[derive(Debug)]
pub(super) struct UiStep {
    /// The step's name in the stream: the first of the joined model steps.
    name: String,
    /// The model's step whose calls arrive now.
    id: StepId,
    /// The message of the step, or the message continued by the step.
    pub(super) message: MessageId,
    /// The sent characters of each kind of text, and the stored ones of the sent.
    told: [u64; 2],
    stored: [u64; 2],
    open: Option<(UiTextKind, String)>,
    begun: [usize; 2],
    newest_text: Option<String>,
    inputs: Vec<StreamingToolCall>,
}

/// A stored tool call.
#[derive(Debug)]
pub(super) struct UiToolCall {
    /// The call's id in the stream.
    pub(super) told_as: String,
    pub(super) tool: String,
    pub(super) is_denied: bool,
}

/// A tool call in progress.
#[derive(Debug)]
struct StreamingToolCall {
    call: String,
    tool: String,
    arguments: String,
}

impl UiStep {
    pub(super) fn begin(id: &StepId, message: &MessageId, acts: &mut Vec<UiStreamEvent>) -> Self {
        acts.push(UiStreamEvent::StepBegins { step: id.to_string(), again: false });
        Self {
            name: id.to_string(),
            id: id.clone(),
            message: message.clone(),
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
    pub(super) fn goes_on_in(&mut self, id: &StepId) {
        self.id = id.clone();
    }

    pub(super) fn is(&self, id: &StepId) -> bool {
        self.id == *id
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
            (UiTextKind::Text, 1) => self.message.to_string(),
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
    pub(super) fn catch_up(&mut self, parts: &[Part], acts: &mut Vec<UiStreamEvent>) {
        let mut at = [0; 2];
        for part in parts {
            self.say_part(&mut at, part, acts);
        }
    }

    /// Sends the text of a part. `at` has the place of each kind of text in the message, and moves behind the part.
    fn say_part(&mut self, at: &mut [u64; 2], part: &Part, acts: &mut Vec<UiStreamEvent>) {
        let (voice, text) = match part {
            Part::Text(text) => (UiTextKind::Text, &text.text),
            Part::Reasoning(reasoning) => (UiTextKind::Reasoning, &reasoning.text),
            _ => return,
        };
        let at = &mut at[voice as usize];
        self.say(voice, *at, text, acts);
        *at += text.chars().count() as u64;
    }

    /// Sends the rest of a stored message, or of a stored piece that will continue. Returns the message's calls.
    pub(super) fn store(
        &mut self,
        parts: &[Part],
        goes_on: bool,
        acts: &mut Vec<UiStreamEvent>,
    ) -> Vec<(CallId, UiToolCall)> {
        let mut calls = Vec::new();
        let mut at = self.stored;
        for part in parts {
            self.say_part(&mut at, part, acts);
            if let Part::ToolCall(ToolCall { call_id, name, arguments, .. }) = part {
                let told_as = self.call(calls.len() as u64);
                self.ready(&told_as, name, arguments, acts);
                calls.push((call_id.clone(), UiToolCall { told_as, tool: name.clone(), is_denied: false }));
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
        let beside = self.newest_text.clone().unwrap_or_else(|| self.message.to_string());
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
