//! SWE-agent trajectories: the messages under `history`, and actions with their observations under `trajectory`.
//!
//! Function calls and their results are in `history`. For actions written as text, the file names each action and
//! observation as pairs, which become calls and results.

use std::collections::{HashMap, VecDeque};

use longhaul_core::ids::{CallId, Millis};
use longhaul_core::message::{ModelStopReason, Part, ToolCall, ToolStatus};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::assemble::title_of;
use super::blocks::{BlockAuthor, parts};
use super::item::{ImportItem, ImportItemKind, ImportedAnswer, ImportedToolResult};
use super::openai::ChatMessagesImporter;
use super::{ImportError, ImportFormat, ImportPosition, ImportedSession, unreadable};

/// The tool for actions, which are command lines of a shell session.
const SHELL: &str = "bash";

#[derive(Deserialize)]
struct SweAgentFile<'a> {
    #[serde(borrow)]
    history: Vec<&'a RawValue>,
    #[serde(borrow)]
    trajectory: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(expecting = "a message")]
struct SweAgentEntry<'a> {
    role: String,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    /// The model's text before the action.
    thought: Option<String>,
    action: Option<String>,
    agent: Option<String>,
    message_type: Option<String>,
    is_demo: Option<bool>,
    #[serde(borrow)]
    tool_calls: Option<Vec<&'a RawValue>>,
    tool_call_ids: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct SweAgentStep {
    action: Option<String>,
    observation: Option<String>,
}

/// The source of the observation after an action.
enum ObservationSource {
    /// The next entry.
    Next,
    /// The text found in `trajectory` only.
    Text(String),
}

pub(super) fn fits(bytes: &[u8]) -> bool {
    serde_json::from_slice::<SweAgentFile<'_>>(bytes).is_ok()
}

pub(super) fn read(bytes: &[u8], at: Millis) -> Result<ImportedSession, ImportError> {
    let file: SweAgentFile<'_> =
        serde_json::from_slice(bytes).map_err(unreadable(ImportPosition::Message(0)))?;
    let mut entries = Vec::new();
    for (index, raw) in file.history.iter().enumerate() {
        let place = ImportPosition::Message(index + 1);
        let entry: SweAgentEntry<'_> = serde_json::from_str(raw.get()).map_err(unreadable(place))?;
        entries.push((place, *raw, entry));
    }
    let mut reader = SweAgentImporter {
        list: ChatMessagesImporter::new(None),
        observations: observations(&file.trajectory),
        made: 0,
        unobserved: 0,
        task: None,
    };
    let others = keep_one_agent(&mut entries);
    if others > 0 {
        reader.list.sink.warn(None, format!("messages of other agents: {others} left out"));
    }
    reader.all(&entries)?;
    reader.finish(at)
}

/// Drops the entries of all agents but the first, and returns their number.
fn keep_one_agent(entries: &mut Vec<(ImportPosition, &RawValue, SweAgentEntry<'_>)>) -> usize {
    let before = entries.len();
    // Other agents have conversations of their own, which would break the order of calls and results in this one.
    let first = entries.iter().find_map(|(_, _, entry)| entry.agent.clone());
    entries.retain(|(_, _, entry)| entry.agent.is_none() || entry.agent == first);
    before - entries.len()
}

/// Returns the observations after each action, in the order of the steps.
fn observations(steps: &[&RawValue]) -> HashMap<String, VecDeque<String>> {
    let mut by_action: HashMap<String, VecDeque<String>> = HashMap::new();
    for raw in steps {
        if let Ok(SweAgentStep { action: Some(action), observation: Some(observation) }) =
            serde_json::from_str(raw.get())
        {
            // The same action may occur several times: its observations are used in order.
            by_action.entry(action).or_default().push_back(observation);
        }
    }
    by_action
}

struct SweAgentImporter {
    list: ChatMessagesImporter,
    observations: HashMap<String, VecDeque<String>>,
    /// The number of actions made calls.
    made: usize,
    /// The number of actions left as text.
    unobserved: usize,
    /// The first item after the demonstrations.
    task: Option<usize>,
}

impl SweAgentImporter {
    fn all(&mut self, entries: &[(ImportPosition, &RawValue, SweAgentEntry<'_>)]) -> Result<(), ImportError> {
        let mut numbered = entries.iter().peekable();
        while let Some((place, raw, entry)) = numbered.next() {
            if entry.is_demo != Some(true) && entry.role != "system" {
                self.task.get_or_insert(self.list.items.len());
            }
            let next = numbered.peek().map(|(_, _, next)| next);
            match acted(entry).and_then(|action| Some((action, self.observed(action, next)?))) {
                Some((action, ObservationSource::Next)) => {
                    self.call(*place, entry, action);
                    if let Some((place, _, next)) = numbered.next() {
                        self.result(*place, next.content, None);
                    }
                }
                Some((action, ObservationSource::Text(text))) => {
                    self.call(*place, entry, action);
                    let content = if text.is_empty() { Vec::new() } else { vec![Part::text(text)] };
                    self.answered(*place, None, content);
                }
                None if entry.role == "tool" => {
                    let call = entry.tool_call_ids.as_ref().and_then(|ids| ids.first().cloned());
                    self.result(*place, entry.content, call);
                }
                None => {
                    self.unobserved += usize::from(acted(entry).is_some());
                    self.list.add(*place, raw)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the recorded observation after an action; `None` if the file has none.
    fn observed(&mut self, action: &str, next: Option<&SweAgentEntry<'_>>) -> Option<ObservationSource> {
        // Taken even if the next message is the observation, so that a later equal action gets its own.
        let step = self.observations.get_mut(action).and_then(VecDeque::pop_front);
        let Some(next) = next.filter(|next| next.role == "user" && next.is_demo != Some(true)) else {
            return step.map(ObservationSource::Text);
        };
        let says_so = next.message_type.as_deref() == Some("observation");
        // The message is the observation in a frame, or a sentence in place of an empty one.
        let repeats_step =
            step.zip(next.content).is_some_and(|(step, content)| text(content).contains(step.trim()));
        (says_so || repeats_step).then_some(ObservationSource::Next)
    }

    fn call(&mut self, place: ImportPosition, entry: &SweAgentEntry<'_>, action: &str) {
        self.made += 1;
        let mut said = match &entry.thought {
            Some(thought) if thought.is_empty() => Vec::new(),
            Some(thought) => vec![Part::text(thought)],
            None => parts(entry.content, BlockAuthor::Assistant, place, &mut self.list.sink),
        };
        said.push(Part::ToolCall(ToolCall {
            call_id: CallId::new(""),
            name: SHELL.to_owned(),
            arguments: serde_json::json!({ "command": action }).to_string(),
            provider_id: None,
            native: None,
        }));
        let said = ImportedAnswer {
            parts: said,
            origin: None,
            finish: ModelStopReason::ToolCalls,
            cut: None,
            usage: None,
            error: None,
        };
        self.list.items.push(ImportItem { place, at: None, kind: ImportItemKind::Assistant(Box::new(said)) });
    }

    fn result(&mut self, place: ImportPosition, content: Option<&RawValue>, call: Option<String>) {
        let content = parts(content, BlockAuthor::Other, place, &mut self.list.sink);
        self.answered(place, call, content);
    }

    fn answered(&mut self, place: ImportPosition, call: Option<String>, content: Vec<Part>) {
        let answered = ImportedToolResult { call, tool: None, status: ToolStatus::Completed, content };
        self.list.items.push(ImportItem { place, at: None, kind: ImportItemKind::Result(answered) });
    }

    fn finish(self, at: Millis) -> Result<ImportedSession, ImportError> {
        let Self { mut list, made, unobserved, task, .. } = self;
        if made > 0 {
            list.sink.warn(
                None,
                format!(
                    "actions written as text: {made} became calls of `{SHELL}`, without the marks around them"
                ),
            );
        }
        if unobserved > 0 {
            list.sink.warn(None, format!("actions without an observation: {unobserved} stayed text"));
        }
        // A demonstration would name the session after another one.
        let title = task.and_then(|task| title_of(list.items.get(task..)?));
        list.finish(ImportFormat::SweAgent, at, title)
    }
}

/// Returns the action of an entry as text.
fn acted<'a>(entry: &'a SweAgentEntry<'_>) -> Option<&'a str> {
    let called = entry.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty());
    let textual = entry.role == "assistant" && !called && entry.is_demo != Some(true);
    entry.action.as_deref().filter(|action| textual && !action.trim().is_empty())
}

/// Returns the text of a `content` field.
fn text(content: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Block {
        text: Option<String>,
    }
    if let Ok(text) = serde_json::from_str::<String>(content.get()) {
        return text;
    }
    let blocks: Vec<Block> = serde_json::from_str(content.get()).unwrap_or_default();
    blocks.into_iter().filter_map(|block| block.text).collect()
}
