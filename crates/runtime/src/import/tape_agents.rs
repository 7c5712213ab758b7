//! TapeAgents tapes: a list of steps, each a JSON object with a `kind`.
//!
//! The model reads and writes steps as JSON, so all but plain messages stay JSON, without the bookkeeping under
//! `metadata`. Steps of a completion (`prompt_id`) form one message.

use std::collections::{BTreeMap, HashSet, VecDeque};

use longhaul_core::ids::{CallId, Millis};
use longhaul_core::message::{ModelStopReason, Part, ToolCall, ToolStatus};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::item::{ImportItem, ImportItemKind, ImportedAnswer, ImportedToolResult};
use super::openai::{ChatMessagesImporter, list_text};
use super::{ImportError, ImportFormat, ImportPosition, ImportedSession, unreadable};

#[derive(Deserialize)]
struct TapeFile<'a> {
    #[serde(borrow)]
    context: Option<&'a RawValue>,
    #[serde(borrow)]
    steps: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct TapeContext<'a> {
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
}

/// The mark of a step.
#[derive(Deserialize)]
struct TapeStepMarker {
    #[serde(rename = "kind")]
    _kind: String,
}

/// The role of a step in a conversation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TapeStepKind {
    /// A Chat Completions message, in the given role.
    Message(&'static str),
    Task,
    Thought,
    Action,
    Observation,
    /// A step that moves the agent's program without text.
    Control,
}

struct TapeStep {
    place: ImportPosition,
    name: String,
    kind: TapeStepKind,
    /// The completion behind the step; empty if no model wrote the step.
    prompt: String,
    /// All fields but `kind` and `metadata`.
    fields: Map<String, Value>,
}

pub(super) fn fits(bytes: &[u8]) -> bool {
    let tape = serde_json::from_slice::<TapeFile<'_>>(bytes).ok();
    let first = tape.and_then(|tape| tape.steps.first().copied());
    first.is_some_and(|step| serde_json::from_str::<TapeStepMarker>(step.get()).is_ok())
}

pub(super) fn read(bytes: &[u8], at: Millis) -> Result<ImportedSession, ImportError> {
    let tape: TapeFile<'_> = serde_json::from_slice(bytes).map_err(unreadable(ImportPosition::Message(0)))?;
    let steps = (1..)
        .zip(tape.steps)
        .map(|(number, raw)| step(ImportPosition::Message(number), raw))
        .collect::<Result<Vec<_>, _>>()?;
    let context = tape.context.and_then(|raw| serde_json::from_str::<TapeContext<'_>>(raw.get()).ok());
    let mut reader = TapeImporter {
        list: ChatMessagesImporter::new(None),
        skipped: BTreeMap::new(),
        prompt: String::new(),
    };
    reader.list.tools = context.and_then(|context| context.tools).and_then(list_text);
    let observed = observed(&steps);
    for (index, step) in steps.into_iter().enumerate() {
        reader.step(step, observed.contains(&index))?;
    }
    let TapeImporter { mut list, skipped, .. } = reader;
    for (kind, count) in skipped {
        list.sink.warn(None, format!("steps of kind `{kind}` have no counterpart here: {count} left out"));
    }
    list.finish(ImportFormat::TapeAgents, at, None)
}

fn step(place: ImportPosition, raw: &RawValue) -> Result<TapeStep, ImportError> {
    // The map below would accept a step without `kind`. This error names the missing field.
    let _: TapeStepMarker = serde_json::from_str(raw.get()).map_err(unreadable(place))?;
    let mut fields: Map<String, Value> = serde_json::from_str(raw.get()).map_err(unreadable(place))?;
    let name = match fields.shift_remove("kind") {
        Some(Value::String(name)) => name,
        _ => String::new(),
    };
    let metadata = fields.shift_remove("metadata").unwrap_or_default();
    let [prompt, agent] =
        ["prompt_id", "agent"].map(|key| metadata.get(key).and_then(Value::as_str).unwrap_or_default());
    let by_agent = !prompt.is_empty() || !agent.is_empty();
    let prompt = prompt.to_owned();
    Ok(TapeStep { place, kind: kind(&name, by_agent), name, prompt, fields })
}

/// Returns the kind of a step by name. Programs define kinds of their own: the name's ending decides, else the step's
/// author.
fn kind(name: &str, by_agent: bool) -> TapeStepKind {
    match name {
        "system" => TapeStepKind::Message("system"),
        "user" => TapeStepKind::Message("user"),
        "assistant" => TapeStepKind::Message("assistant"),
        "tool" => TapeStepKind::Message("tool"),
        "task" => TapeStepKind::Task,
        "set_next_node" | "pass" | "jump" => TapeStepKind::Control,
        _ if name.ends_with("_thought") => TapeStepKind::Thought,
        _ if name.ends_with("_action") => TapeStepKind::Action,
        _ if name.ends_with("_observation") => TapeStepKind::Observation,
        _ if by_agent => TapeStepKind::Thought,
        _ => TapeStepKind::Observation,
    }
}

/// Returns the pairs of actions and observations: the oldest action first, of the newest completion only.
fn observed(steps: &[TapeStep]) -> HashSet<usize> {
    let mut found = HashSet::new();
    let mut open: VecDeque<(usize, &str)> = VecDeque::new();
    for (index, step) in steps.iter().enumerate() {
        match step.kind {
            TapeStepKind::Action => {
                // Actions of an earlier completion stay without an observation: their step has passed.
                open.retain(|(_, prompt)| !prompt.is_empty() && *prompt == step.prompt);
                open.push_back((index, &step.prompt));
            }
            TapeStepKind::Observation => {
                if let Some((action, _)) = open.pop_front() {
                    found.extend([action, index]);
                }
            }
            TapeStepKind::Task | TapeStepKind::Message(_) => open.clear(),
            TapeStepKind::Thought | TapeStepKind::Control => {}
        }
    }
    found
}

struct TapeImporter {
    list: ChatMessagesImporter,
    skipped: BTreeMap<String, usize>,
    /// The completion of the last item; empty if no model wrote the item.
    prompt: String,
}

impl TapeImporter {
    /// Adds a step. `paired` marks an action with an observation, and the reverse.
    fn step(&mut self, step: TapeStep, paired: bool) -> Result<(), ImportError> {
        let place = step.place;
        let kind = match step.kind {
            TapeStepKind::Message(role) => return self.message(role, step),
            TapeStepKind::Control => {
                *self.skipped.entry(step.name.chars().take(60).collect()).or_default() += 1;
                return Ok(());
            }
            TapeStepKind::Thought | TapeStepKind::Action => {
                self.say(step, paired);
                return Ok(());
            }
            TapeStepKind::Task => ImportItemKind::Typed(task(step)),
            TapeStepKind::Observation if paired => ImportItemKind::Result(answered(step)),
            TapeStepKind::Observation => ImportItemKind::Note(vec![Part::text(json(step))]),
        };
        // Another step between two parts of a completion ends the message.
        self.prompt.clear();
        self.list.items.push(ImportItem { place, at: None, kind });
        Ok(())
    }

    fn message(&mut self, role: &str, mut step: TapeStep) -> Result<(), ImportError> {
        self.prompt.clear();
        step.fields.insert("role".to_owned(), role.into());
        let message = serde_json::value::to_raw_value(&step.fields).map_err(unreadable(step.place))?;
        self.list.add(step.place, &message)
    }

    /// Adds to the message of the same completion, or begins a new message. An action without an observation is text.
    fn say(&mut self, step: TapeStep, observed: bool) {
        let TapeStep { place, ref prompt, .. } = step;
        let continued = !prompt.is_empty() && *prompt == self.prompt;
        self.prompt.clone_from(prompt);
        let (part, finish) = if observed {
            (call(step), ModelStopReason::ToolCalls)
        } else {
            (Part::text(json(step)), ModelStopReason::Stop)
        };
        match self.list.items.last_mut() {
            Some(ImportItem { kind: ImportItemKind::Assistant(said), .. }) if continued => {
                said.parts.push(part);
                if observed {
                    said.finish = finish;
                }
            }
            _ => {
                let (origin, cut, usage, error) = (None, None, None, None);
                let said = ImportedAnswer { parts: vec![part], origin, finish, cut, usage, error };
                self.list.items.push(ImportItem {
                    place,
                    at: None,
                    kind: ImportItemKind::Assistant(Box::new(said)),
                });
            }
        }
    }
}

fn call(step: TapeStep) -> Part {
    Part::ToolCall(ToolCall {
        call_id: CallId::new(""),
        name: step.name,
        arguments: Value::Object(step.fields).to_string(),
        provider_id: None,
        native: None,
    })
}

fn answered(step: TapeStep) -> ImportedToolResult {
    let failed = step.fields.get("error").is_some_and(|error| !error.is_null());
    ImportedToolResult {
        call: None,
        tool: None,
        status: if failed { ToolStatus::Error } else { ToolStatus::Completed },
        content: vec![Part::text(json(step))],
    }
}

/// Returns a task as text, or as JSON if the task has more fields.
fn task(step: TapeStep) -> Vec<Part> {
    let mut values = step.fields.values();
    match (values.next(), values.next()) {
        (Some(Value::String(text)), None) if text.is_empty() => Vec::new(),
        (Some(Value::String(text)), None) => vec![Part::text(text)],
        _ => vec![Part::text(json(step))],
    }
}

/// Returns a step in the model's own form.
fn json(step: TapeStep) -> String {
    let kind = ("kind".to_owned(), Value::String(step.name));
    Value::Object(std::iter::once(kind).chain(step.fields).collect()).to_string()
}
