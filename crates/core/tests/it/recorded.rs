//! Recorded sessions of others as neutral messages: tau-bench's airline runs one after the other, and one long coding
//! session. Repeated to any length, every name once.

use std::collections::BTreeSet;
use std::path::Path;

use longhaul_core::event::{Event, EventBody, FORMAT, StepKind, StepStart};
use longhaul_core::history::{History, closing_result};
use longhaul_core::message::{Message, ModelOrigin, ModelStopReason, Part, Role, ToolCall, ToolStatus};
use longhaul_core::usage::Usage;
use serde_json::{Value, json};

/// A neutral message.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) role: Role,
    pub(crate) text: String,
    /// Name, tool and arguments of each call.
    pub(crate) calls: Vec<(String, String, String)>,
    /// Call and tool that it answers.
    pub(crate) answers: Option<(String, String)>,
}

impl Said {
    fn new(role: Role, text: impl Into<String>) -> Self {
        Self { role, text: text.into(), calls: Vec::new(), answers: None }
    }

    /// As the programs beside ours read it.
    #[allow(dead_code, reason = "for the comparison only")]
    pub(crate) fn as_json(&self) -> Value {
        let calls = self.calls.iter().map(|(id, tool, arguments)| {
            json!({ "id": id, "tool": tool, "arguments": serde_json::from_str::<Value>(arguments).unwrap_or_default() })
        });
        let role = format!("{:?}", self.role).to_lowercase();
        let answers = self.answers.as_ref().map(|(id, tool)| json!({ "id": id, "tool": tool }));
        json!({ "role": role, "text": self.text, "calls": calls.collect::<Vec<_>>(), "answers": answers })
    }
}

#[allow(clippy::disallowed_methods, reason = "recorded sessions are files")]
fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The 200 airline runs, without their system prompts; `None` where the fixtures are absent.
pub(crate) fn airline(trajectories: &Path) -> Option<Vec<Said>> {
    let text = read(&trajectories.join("sierra-research__tau-bench/gpt-4o-airline.json"))?;
    let runs: Vec<Value> = serde_json::from_str(&text).ok()?;
    let messages = runs.iter().flat_map(|run| run["traj"].as_array().into_iter().flatten());
    Some(mended(messages.filter_map(airline_message).collect()))
}

fn airline_message(message: &Value) -> Option<Said> {
    let text = string(&message["content"]);
    match message["role"].as_str()? {
        "user" => Some(Said::new(Role::User, text)),
        "assistant" => {
            let call = |call: &Value| {
                let function = &call["function"];
                (string(&call["id"]), string(&function["name"]), string(&function["arguments"]))
            };
            let calls = message["tool_calls"].as_array().into_iter().flatten().map(call).collect();
            Some(Said { calls, ..Said::new(Role::Assistant, text) })
        }
        "tool" => {
            let answers = Some((string(&message["tool_call_id"]), string(&message["name"])));
            Some(Said { answers, ..Said::new(Role::Tool, text) })
        }
        _ => None,
    }
}

/// The coding session, without its reasoning; `None` where the fixtures are absent.
pub(crate) fn coding(trajectories: &Path) -> Option<Vec<Said>> {
    let text = read(&trajectories.join("badlogic__pi-mono/before-compaction.jsonl"))?;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Some(mended(lines.filter_map(|line| coding_message(&line["message"])).collect()))
}

fn coding_message(message: &Value) -> Option<Said> {
    let parts = message["content"].as_array().cloned().unwrap_or_default();
    let text: String = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    match message["role"].as_str()? {
        "user" => Some(Said::new(Role::User, text)),
        "assistant" => {
            let calls = parts.iter().filter(|part| part["type"] == "toolCall");
            let call =
                |call: &Value| (string(&call["id"]), string(&call["name"]), call["arguments"].to_string());
            Some(Said { calls: calls.map(call).collect(), ..Said::new(Role::Assistant, text) })
        }
        "toolResult" => {
            let answers = Some((string(&message["toolCallId"]), string(&message["toolName"])));
            Some(Said { answers, ..Said::new(Role::Tool, text) })
        }
        _ => None,
    }
}

/// Without calls that have no result right behind them, without results of no call, without empty messages; every call
/// with a name of its own.
fn mended(mut said: Vec<Said>) -> Vec<Said> {
    let mut at = 0;
    while at < said.len() {
        let results = said[at + 1..].iter().take_while(|next| next.role == Role::Tool);
        let answered: BTreeSet<String> =
            results.filter_map(|next| next.answers.as_ref().map(|(id, _)| id.clone())).collect();
        let calls: BTreeSet<String> = said[at].calls.iter().map(|(id, ..)| id.clone()).collect();
        said[at].calls.retain(|(id, ..)| answered.contains(id));
        // Names recur in other runs.
        said[at].calls.iter_mut().for_each(|(id, ..)| *id = format!("{id}-{at}"));
        let mut next = at + 1;
        while said.get(next).is_some_and(|next| next.role == Role::Tool) {
            let asked = said[next].answers.as_mut().filter(|(id, _)| calls.contains(id));
            let Some((id, _)) = asked else {
                said.remove(next);
                continue;
            };
            *id = format!("{id}-{at}");
            next += 1;
        }
        at = next;
    }
    said.retain(|said| said.role == Role::Tool || !said.text.trim().is_empty() || !said.calls.is_empty());
    said
}

/// The session again and again, `count` messages or a few less: the last step is whole and is not an answer.
pub(crate) fn repeated(said: &[Said], count: usize) -> Vec<Said> {
    let named = |id: &String, round: usize| format!("{id}-{round}");
    let mut all: Vec<Said> = (0..count)
        .map(|at| {
            let (round, mut one) = (at / said.len(), said[at % said.len()].clone());
            one.calls.iter_mut().for_each(|(id, ..)| *id = named(id, round));
            one.answers.iter_mut().for_each(|(id, _)| *id = named(id, round));
            one
        })
        .collect();
    while all.last().is_some_and(|last| last.role != Role::User) {
        let step = all.iter().rposition(|one| one.role != Role::Tool).unwrap_or(0);
        if !all[step].calls.is_empty() && all[step].calls.len() == all.len() - 1 - step {
            break;
        }
        all.truncate(step);
    }
    all
}

/// A session as it grows, with a provider that reports what the estimate says.
pub(crate) struct Session {
    pub(crate) history: History,
    pub(crate) fixed: u64,
}

impl Session {
    pub(crate) fn new(fixed: u64) -> Self {
        let mut session = Self { history: History::default(), fixed };
        session.add(EventBody::SessionStarted {
            title: None,
            forked_from: None,
            imported_from: None,
            folder: None,
        });
        session.add(EventBody::RunStarted { run_id: "r".into() });
        session
    }

    #[allow(dead_code, reason = "for the comparison only")]
    pub(crate) fn of(said: &[Said]) -> Self {
        let mut session = Self::new(0);
        said.iter().for_each(|one| session.say(one));
        session
    }

    pub(crate) fn next(&self, body: EventBody) -> Event {
        Event { seq: self.history.last_seq() + 1, at: 0, format: FORMAT, body }
    }

    pub(crate) fn add(&mut self, body: EventBody) {
        let event = self.next(body);
        self.history.apply(&event).expect("events follow");
    }

    pub(crate) fn say(&mut self, said: &Said) {
        match said.role {
            Role::User => {
                let message = Message::user(format!("m{}", self.history.last_seq()), text(&said.text));
                self.add(EventBody::message_taken(message));
            }
            Role::Assistant => self.answer(said, |tokens| tokens),
            Role::Tool => self.add(result(said)),
        }
    }

    /// An answer after which the provider reports as input what `report` makes of what it was.
    pub(crate) fn answer(&mut self, said: &Said, report: impl Fn(u64) -> u64) {
        let step_id = longhaul_core::ids::StepId::new(format!("s{}", self.history.last_seq()));
        let origin = ModelOrigin { provider: "p".to_owned(), api: "a".to_owned(), model: "m".to_owned() };
        let before = longhaul_core::meter::read(&self.history, self.fixed).total;
        let start = StepStart {
            step_id: step_id.clone(),
            run_id: "r".into(),
            purpose: StepKind::Main,
            model: origin.clone(),
            system_hash: String::new(),
            tools_hash: String::new(),
            view_hash: String::new(),
            fixed_tokens: self.fixed,
            estimated_input: before,
            max_output_tokens: 4_096,
            window_tokens: None,
        };
        self.add(EventBody::StepStarted(Box::new(start)));
        let calls = said.calls.iter().map(|(id, tool, arguments)| {
            let (call_id, name, arguments) = (id.as_str().into(), tool.clone(), arguments.clone());
            Part::ToolCall(ToolCall { call_id, name, arguments, provider_id: None, native: None })
        });
        let parts = text(&said.text).into_iter().chain(calls).collect();
        let counted = self.history.view_tokens();
        let id = format!("m{}", self.history.last_seq());
        let message = Message { id: id.into(), role: Role::Assistant, parts, origin: Some(origin) };
        let finish = if said.calls.is_empty() { ModelStopReason::Stop } else { ModelStopReason::ToolCalls };
        self.add(EventBody::AssistantAdded { step_id: step_id.clone(), message, finish, cut: None });
        let usage = Usage {
            input_tokens: report(self.fixed + counted),
            output_tokens: self.history.view_tokens() - counted,
            ..Usage::default()
        };
        self.add(EventBody::StepFinished {
            step_id,
            usage: Some(usage),
            estimated_input: before,
            envelope: None,
        });
    }
}

fn text(text: &str) -> Vec<Part> {
    if text.is_empty() { Vec::new() } else { vec![Part::text(text)] }
}

/// The event of a tool's answer.
pub(crate) fn result(said: &Said) -> EventBody {
    let (call_id, _) = said.answers.clone().unwrap_or_default();
    let result = closing_result(&call_id.as_str().into(), ToolStatus::Completed, &said.text);
    EventBody::ToolFinished { result }
}
