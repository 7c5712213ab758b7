//! Recordings that can be reckoned by hand: a token is a word, nothing stands around messages.

use std::sync::Arc;

use crate::lab::policy::{ContextPolicy, PolicyEdit, PolicyInput, PolicyRequest, SideCall, ViewSegment};
use crate::lab::price::PriceTable;
use crate::lab::recording::SessionRecording;
use longhaul_core::estimate::{
    CountAccuracy, FramingTokens, MessageTokenCounter, TextCounter, TokensByScript,
};
use longhaul_core::event::{Event, EventBody, FORMAT};
use longhaul_core::message::{Message, ModelStopReason, Part, Role, ToolCall, ToolResult, ToolStatus};

/// Tokens of system prompt and tools in all of them.
pub(crate) const FIXED: u64 = 100;

#[derive(Debug)]
struct Words;

impl TextCounter for Words {
    fn groups(&self, text: &str) -> TokensByScript {
        TokensByScript::of(text.split_whitespace().count() as u64)
    }

    fn name(&self) -> &str {
        "words"
    }

    fn kind(&self) -> CountAccuracy {
        CountAccuracy::Exact
    }
}

/// An entry of a recording.
#[derive(Clone, Copy)]
pub(crate) enum Line {
    User(&'static str),
    Says(&'static str),
    /// A text, and one argument of one call.
    Calls(&'static str, &'static str),
    Result(&'static str),
}

pub(crate) use Line::{Calls, Result as Gives, Says, User};

pub(crate) fn counter() -> MessageTokenCounter {
    let framing = FramingTokens { message: 0, reply: 0, call: 0, result: 0, tool: 0, schema_percent: 75 };
    MessageTokenCounter::new(Arc::new(Words)).with_framing(framing)
}

/// A recording of those lines, without times.
pub(crate) fn recording(lines: &[Line]) -> SessionRecording {
    timed(lines, &[])
}

/// A recording of those lines; times in milliseconds, 0 where there is none.
pub(crate) fn timed(lines: &[Line], times: &[u64]) -> SessionRecording {
    let mut events = vec![event(
        1,
        0,
        EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None },
    )];
    for (at, line) in lines.iter().enumerate() {
        let time = times.get(at).copied().unwrap_or(0);
        events.push(event(at as u64 + 2, time, body(line, at)));
    }
    SessionRecording::of("small", "by hand", events, FIXED, counter()).unwrap()
}

pub(crate) fn event(seq: u64, at: u64, body: EventBody) -> Event {
    Event { seq, at, format: FORMAT, body }
}

fn body(line: &Line, at: usize) -> EventBody {
    match line {
        User(text) => EventBody::message_taken(Message::user(format!("m{at}"), vec![Part::text(*text)])),
        Says(text) => assistant(at, vec![Part::text(*text)]),
        Calls(text, argument) => {
            let call = ToolCall {
                call_id: format!("c{}", at + 1).into(),
                name: "tool".to_owned(),
                arguments: serde_json::json!({ "argument": argument }).to_string(),
                provider_id: None,
                native: None,
            };
            assistant(at, vec![Part::text(*text), Part::ToolCall(call)])
        }
        Gives(text) => EventBody::ToolFinished {
            result: ToolResult {
                call_id: format!("c{at}").into(),
                status: ToolStatus::Completed,
                content: vec![Part::text(*text)],
                truncated: None,
            },
        },
    }
}

fn assistant(at: usize, parts: Vec<Part>) -> EventBody {
    EventBody::AssistantAdded {
        step_id: format!("s{at}").into(),
        message: Message { id: format!("m{at}").into(), role: Role::Assistant, parts, origin: None },
        finish: ModelStopReason::Stop,
        cut: None,
    }
}

/// The view of one request.
#[derive(Clone)]
pub(crate) enum Shown {
    Entry(usize),
    Note(&'static str),
}

pub(crate) use Shown::{Entry, Note};

/// A policy that does what it is told, request by request; after that it shows everything.
#[derive(Clone, Default)]
pub(crate) struct Told {
    pub(crate) views: Vec<Vec<Shown>>,
    pub(crate) side_calls: Vec<Vec<SideCall>>,
    /// Which requests are edits, and whether they are compactions.
    pub(crate) edits: Vec<Option<bool>>,
    pub(crate) recalls: bool,
    pub(crate) seen: Vec<(u64, u64, bool, Option<u64>)>,
}

impl ContextPolicy for Told {
    fn name(&self) -> &str {
        "told"
    }

    fn sources(&self) -> Vec<String> {
        Vec::new()
    }

    fn has_recall(&self) -> bool {
        self.recalls
    }

    fn request(&mut self, recording: &SessionRecording, next: usize, now: &PolicyInput) -> PolicyRequest {
        let at = self.seen.len();
        self.seen.push((now.last_input, now.last_output, now.cache_is_warm, now.at));
        let view = self.views.get(at).cloned().unwrap_or_else(|| (0..next).map(Entry).collect());
        let edit = self.edits.get(at).copied().flatten();
        PolicyRequest {
            view: view
                .into_iter()
                .map(|shown| match shown {
                    Entry(at) => recording.segment(at).unwrap(),
                    Note(text) => ViewSegment::new(text, text.split_whitespace().count() as u64),
                })
                .collect(),
            side_calls: self.side_calls.get(at).cloned().unwrap_or_default(),
            edit: edit.map(|compaction| PolicyEdit {
                compaction,
                before_tokens: 0,
                after_tokens: 0,
                why: String::new(),
            }),
        }
    }
}

/// Input 1, read 0.1, written 1.25, output 5 dollars for a million; everything is cached, for five minutes.
pub(crate) fn prices() -> PriceTable {
    PriceTable {
        name: "round".to_owned(),
        input: 1.0,
        cache_read: 0.1,
        cache_write: 1.25,
        output: 5.0,
        cache_minimum_tokens: 0,
        cache_life_ms: 300_000,
    }
}
