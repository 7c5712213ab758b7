//! Long sessions made by a program. Equal seeds give equal sessions. Every report labels them as synthetic.
//!
//! The sessions are hard in one way: early items are used again by their exact letters, sometimes at once and
//! sometimes hundreds of steps later. Everything else in them is filling of a usual size and shape.

use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::event::{Event, EventBody, FORMAT};
use longhaul_core::history::HistoryFoldError;
use longhaul_core::ids::Millis;
use longhaul_core::message::{Message, ModelStopReason, Part, Role, ToolCall, ToolResult, ToolStatus};

use crate::lab::recording::SessionRecording;

mod coding;
#[cfg(test)]
pub(crate) mod reading;
mod rng;
mod support;

use rng::SeededRng;

/// The group of all synthetic recordings.
pub(crate) const GROUP: &str = "synthetic";

/// Tokens of system prompt and tools of a coding agent.
const CODING_FIXED_TOKENS: u64 = 9_000;

/// Tokens of system prompt and tools of a support agent: rules of the house, a dozen tools.
const SUPPORT_FIXED_TOKENS: u64 = 4_000;

/// The start of every session: 1 January 2026.
const START: Millis = 1_767_225_600_000;

/// Records an agent that reads, searches, changes and tests code for so many model calls.
///
/// # Errors
/// [`HistoryFoldError`], if the new log does not fold: never.
pub(crate) fn coding(seed: u64, steps: usize) -> Result<SessionRecording, HistoryFoldError> {
    let mut script = SyntheticLogBuilder::new(seed);
    coding::write(&mut script, steps);
    script.recording(format!("coding-{steps}-seed-{seed}"), CODING_FIXED_TOKENS)
}

/// Records an agent that helps one customer after another in one conversation for so many turns.
///
/// # Errors
/// [`HistoryFoldError`], if the new log does not fold: never.
pub(crate) fn support(seed: u64, turns: usize) -> Result<SessionRecording, HistoryFoldError> {
    let mut script = SyntheticLogBuilder::new(seed);
    support::write(&mut script, turns);
    script.recording(format!("support-{turns}-seed-{seed}"), SUPPORT_FIXED_TOKENS)
}

/// A growing log.
struct SyntheticLogBuilder {
    rng: SeededRng,
    events: Vec<Event>,
    now: Millis,
    calls: usize,
}

impl SyntheticLogBuilder {
    fn new(seed: u64) -> Self {
        let mut script = Self { rng: SeededRng::new(seed), events: Vec::new(), now: START, calls: 0 };
        script.add(EventBody::SessionStarted {
            title: None,
            forked_from: None,
            imported_from: None,
            folder: None,
        });
        script.add(EventBody::RunStarted { run_id: "r".into() });
        script
    }

    fn add(&mut self, body: EventBody) {
        let seq = self.events.len() as u64 + 1;
        self.events.push(Event { seq, at: self.now, format: FORMAT, body });
    }

    fn typed(&mut self, text: String) {
        let id = format!("m{}", self.events.len());
        let message = Message::user(id, vec![Part::text(text)]);
        self.add(EventBody::message_taken(message));
    }

    /// Lets a random number of seconds pass.
    fn wait(&mut self, from: u64, to: u64) {
        self.now += self.rng.between(from, to) * 1_000;
    }

    fn say(&mut self, text: String) {
        self.wait(3, 20);
        self.assistant(vec![Part::text(text)], ModelStopReason::Stop);
    }

    /// Appends a message of the agent, its tool call and the answer.
    fn call(&mut self, said: String, tool: &str, arguments: &serde_json::Value, answer: String, works: bool) {
        self.wait(3, 20);
        self.calls += 1;
        let call_id = longhaul_core::ids::CallId::new(format!("c{}", self.calls));
        let call = ToolCall {
            call_id: call_id.clone(),
            name: tool.to_owned(),
            arguments: arguments.to_string(),
            provider_id: None,
            native: None,
        };
        self.assistant(vec![Part::text(said), Part::ToolCall(call)], ModelStopReason::ToolCalls);
        self.wait(1, 8);
        let status = if works { ToolStatus::Completed } else { ToolStatus::Error };
        let content = vec![Part::text(answer)];
        self.add(EventBody::ToolFinished {
            result: ToolResult { call_id, status, content, truncated: None },
        });
    }

    fn assistant(&mut self, parts: Vec<Part>, finish: ModelStopReason) {
        let id = format!("m{}", self.events.len()).into();
        let message = Message { id, role: Role::Assistant, parts, origin: None };
        let step_id = format!("s{}", self.events.len()).into();
        self.add(EventBody::AssistantAdded { step_id, message, finish, cut: None });
    }

    fn recording(self, name: String, fixed_tokens: u64) -> Result<SessionRecording, HistoryFoldError> {
        let recording =
            SessionRecording::of(name, GROUP, self.events, fixed_tokens, MessageTokenCounter::default())?;
        Ok(recording.made_by_program())
    }
}
