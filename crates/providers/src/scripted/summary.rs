//! Answers to summary requests, good and bad.

use longhaul_core::message::{Message, Part, Role};

use super::{Fault, ScriptedAnswer};
use crate::Request;

const LINES: usize = 12;
const LINE_CHARS: usize = 100;
const SUMMARY_CHARS: usize = 1_600;

/// How summary requests are answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Summaries {
    /// The first lines of what there is, at most about 400 tokens.
    Extract,
    /// A proper answer without content.
    Empty,
    /// "I cannot help with that."
    Refuse,
    /// Everything there is, twice.
    Longer,
    /// Tool calls instead of text.
    CallsTools,
    /// Text that is no summary: control characters and broken markup.
    Garbage,
    /// Fails.
    Fail(Fault),
    /// This text.
    Text(String),
}

impl Summaries {
    pub(super) fn answer(&self, request: &Request) -> ScriptedAnswer {
        match self {
            Self::Extract => ScriptedAnswer::text(extract(request)),
            Self::Empty => ScriptedAnswer::default(),
            Self::Refuse => ScriptedAnswer::text("I'm sorry, but I cannot help with that."),
            Self::Longer => ScriptedAnswer::text(everything(request).repeat(2)),
            Self::CallsTools => ScriptedAnswer::calling("summarise", "{}"),
            Self::Garbage => ScriptedAnswer::text("\u{1}\u{fffd}<|im_end|>{\"summary\":\u{0} ]]</s>"),
            Self::Fail(fault) => ScriptedAnswer::text(extract(request)).fail(fault.clone()),
            Self::Text(text) => ScriptedAnswer::text(text),
        }
    }
}

/// Whether a request looks like one for a summary: it offers no tools, and its system prompt or its last
/// message speaks of a summary.
pub fn is_summary_request(request: &Request) -> bool {
    let speaks = |text: &str| text.to_lowercase().contains("summar");
    request.tools.is_empty()
        && (speaks(&request.system) || request.messages.last().is_some_and(|last| speaks(&text_of(last))))
}

fn extract(request: &Request) -> String {
    let mut summary = String::from("## Goal\n");
    let first = request.messages.iter().find(|message| message.role == Role::User);
    summary.extend(first.iter().flat_map(|message| lines(&text_of(message), 1)));
    summary.push_str("## Done\n");
    for message in &request.messages {
        for line in lines(&text_of(message), LINES) {
            if summary.chars().count() + line.chars().count() > SUMMARY_CHARS {
                return summary;
            }
            summary.push_str(&line);
        }
    }
    summary
}

fn lines(text: &str, most: usize) -> Vec<String> {
    let clip = |line: &str| format!("- {}\n", line.trim().chars().take(LINE_CHARS).collect::<String>());
    text.lines().filter(|line| !line.trim().is_empty()).take(most).map(clip).collect()
}

fn everything(request: &Request) -> String {
    request.messages.iter().map(|message| text_of(message) + "\n").collect()
}

fn text_of(message: &Message) -> String {
    message.parts.iter().map(part_text).collect()
}

fn part_text(part: &Part) -> String {
    match part {
        Part::Text(text) => text.text.clone(),
        Part::ToolCall(call) => format!("{} {}\n", call.name, call.arguments),
        Part::ToolResult(result) => result.content.iter().map(part_text).collect(),
        _ => String::new(),
    }
}
