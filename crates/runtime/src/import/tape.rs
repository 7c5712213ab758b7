//! TapeAgents tapes: a list of steps, each a JSON object with its `kind`.
//!
//! The model reads and writes steps as JSON, so what is no plain message is kept as JSON, without the
//! bookkeeping under `metadata`. Steps of one completion (`prompt_id`) are one message.

use std::collections::{BTreeMap, HashSet, VecDeque};

use longhaul_core::ids::{CallId, Millis};
use longhaul_core::message::{Finish, Part, ToolCall, ToolStatus};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::item::{Answered, Item, ItemKind, Said};
use super::openai::{List, list_text};
use super::{Format, ImportError, Imported, Place, unreadable};

#[derive(Deserialize)]
struct Tape<'a> {
    #[serde(borrow)]
    context: Option<&'a RawValue>,
    #[serde(borrow)]
    steps: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Context<'a> {
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
}

/// What marks a step.
#[derive(Deserialize)]
struct Marked {
    #[serde(rename = "kind")]
    _kind: String,
}

/// What a step does in a conversation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A message as Chat Completions has it, in this role.
    Message(&'static str),
    Task,
    Thought,
    Action,
    Observation,
    /// It moves the agent's program and says nothing.
    Control,
}

struct Step {
    place: Place,
    name: String,
    kind: Kind,
    /// The completion it is from; empty for what no model wrote.
    prompt: String,
    /// All fields but `kind` and `metadata`.
    fields: Map<String, Value>,
}

pub(super) fn fits(bytes: &[u8]) -> bool {
    let tape = serde_json::from_slice::<Tape<'_>>(bytes).ok();
    let first = tape.and_then(|tape| tape.steps.first().copied());
    first.is_some_and(|step| serde_json::from_str::<Marked>(step.get()).is_ok())
}

pub(super) fn read(bytes: &[u8], at: Millis) -> Result<Imported, ImportError> {
    let tape: Tape<'_> = serde_json::from_slice(bytes).map_err(unreadable(Place::Message(0)))?;
    let steps = (1..)
        .zip(tape.steps)
        .map(|(number, raw)| step(Place::Message(number), raw))
        .collect::<Result<Vec<_>, _>>()?;
    let context = tape.context.and_then(|raw| serde_json::from_str::<Context<'_>>(raw.get()).ok());
    let mut reader = Reader { list: List::new(None), skipped: BTreeMap::new(), prompt: String::new() };
    reader.list.tools = context.and_then(|context| context.tools).and_then(list_text);
    let observed = observed(&steps);
    for (index, step) in steps.into_iter().enumerate() {
        reader.step(step, observed.contains(&index))?;
    }
    let Reader { mut list, skipped, .. } = reader;
    for (kind, count) in skipped {
        list.sink.warn(None, format!("steps of kind `{kind}` have no counterpart here: {count} left out"));
    }
    list.finish(Format::TapeAgents, at, None)
}

fn step(place: Place, raw: &RawValue) -> Result<Step, ImportError> {
    let _: Marked = serde_json::from_str(raw.get()).map_err(unreadable(place))?;
    let mut fields: Map<String, Value> = serde_json::from_str(raw.get()).map_err(unreadable(place))?;
    let name = match fields.shift_remove("kind") {
        Some(Value::String(name)) => name,
        _ => String::new(),
    };
    let metadata = fields.shift_remove("metadata").unwrap_or_default();
    let noted = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default();
    let by_agent = !noted("prompt_id").is_empty() || !noted("agent").is_empty();
    let prompt = noted("prompt_id").to_owned();
    Ok(Step { place, kind: kind(&name, by_agent), name, prompt, fields })
}

/// Programs define kinds of their own; the ending says what they are, else who wrote them.
fn kind(name: &str, by_agent: bool) -> Kind {
    match name {
        "system" => Kind::Message("system"),
        "user" => Kind::Message("user"),
        "assistant" => Kind::Message("assistant"),
        "tool" => Kind::Message("tool"),
        "task" => Kind::Task,
        "set_next_node" | "pass" | "jump" => Kind::Control,
        _ if name.ends_with("_thought") => Kind::Thought,
        _ if name.ends_with("_action") => Kind::Action,
        _ if name.ends_with("_observation") => Kind::Observation,
        _ if by_agent => Kind::Thought,
        _ => Kind::Observation,
    }
}

/// The actions that an observation answers, and the observations that answer one: the oldest action first,
/// of the newest completion only.
fn observed(steps: &[Step]) -> HashSet<usize> {
    let mut found = HashSet::new();
    let mut open: VecDeque<(usize, &str)> = VecDeque::new();
    for (index, step) in steps.iter().enumerate() {
        match step.kind {
            Kind::Action => {
                open.retain(|(_, prompt)| !prompt.is_empty() && *prompt == step.prompt);
                open.push_back((index, &step.prompt));
            }
            Kind::Observation => {
                if let Some((action, _)) = open.pop_front() {
                    found.extend([action, index]);
                }
            }
            Kind::Task | Kind::Message(_) => open.clear(),
            Kind::Thought | Kind::Control => {}
        }
    }
    found
}

struct Reader {
    list: List,
    skipped: BTreeMap<String, usize>,
    /// The completion of the last item; empty if a model did not write it.
    prompt: String,
}

impl Reader {
    /// `paired`: an action with its observation, or an observation with its action.
    fn step(&mut self, step: Step, paired: bool) -> Result<(), ImportError> {
        let place = step.place;
        let kind = match step.kind {
            Kind::Message(role) => return self.message(role, step),
            Kind::Control => {
                *self.skipped.entry(step.name.chars().take(60).collect()).or_default() += 1;
                return Ok(());
            }
            Kind::Thought | Kind::Action => {
                self.say(step, paired);
                return Ok(());
            }
            Kind::Task => ItemKind::Typed(task(step)),
            Kind::Observation if paired => ItemKind::Result(answered(step)),
            Kind::Observation => ItemKind::Note(vec![Part::text(json(step))]),
        };
        self.prompt.clear();
        self.list.items.push(Item { place, at: None, kind });
        Ok(())
    }

    fn message(&mut self, role: &str, mut step: Step) -> Result<(), ImportError> {
        self.prompt.clear();
        step.fields.insert("role".to_owned(), role.into());
        let message = serde_json::value::to_raw_value(&step.fields).map_err(unreadable(step.place))?;
        self.list.add(step.place, &message)
    }

    /// Adds to the message of the same completion, or begins one. An action without an observation is text.
    fn say(&mut self, step: Step, observed: bool) {
        let Step { place, ref prompt, .. } = step;
        let continued = !prompt.is_empty() && *prompt == self.prompt;
        self.prompt.clone_from(prompt);
        let (part, finish) =
            if observed { (call(step), Finish::ToolCalls) } else { (Part::text(json(step)), Finish::Stop) };
        match self.list.items.last_mut() {
            Some(Item { kind: ItemKind::Assistant(said), .. }) if continued => {
                said.parts.push(part);
                if observed {
                    said.finish = finish;
                }
            }
            _ => {
                let (origin, cut, usage, error) = (None, None, None, None);
                let said = Said { parts: vec![part], origin, finish, cut, usage, error };
                self.list.items.push(Item { place, at: None, kind: ItemKind::Assistant(Box::new(said)) });
            }
        }
    }
}

fn call(step: Step) -> Part {
    Part::ToolCall(ToolCall {
        call_id: CallId::new(""),
        name: step.name,
        arguments: Value::Object(step.fields).to_string(),
        provider_id: None,
        native: None,
    })
}

fn answered(step: Step) -> Answered {
    let failed = step.fields.get("error").is_some_and(|error| !error.is_null());
    Answered {
        call: None,
        tool: None,
        status: if failed { ToolStatus::Error } else { ToolStatus::Completed },
        content: vec![Part::text(json(step))],
    }
}

/// A task in words; one that has more to it, as JSON.
fn task(step: Step) -> Vec<Part> {
    let mut values = step.fields.values();
    match (values.next(), values.next()) {
        (Some(Value::String(text)), None) if text.is_empty() => Vec::new(),
        (Some(Value::String(text)), None) => vec![Part::text(text)],
        _ => vec![Part::text(json(step))],
    }
}

/// A step as the model reads and writes it.
fn json(step: Step) -> String {
    let kind = ("kind".to_owned(), Value::String(step.name));
    Value::Object(std::iter::once(kind).chain(step.fields).collect()).to_string()
}
