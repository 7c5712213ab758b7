//! Answers to summary requests, good and bad.

use longhaul_core::message::{Message, Part, Role};
use longhaul_core::plan::ORDER_START;

use super::{ScriptedAnswer, ScriptedFault};
use crate::ModelRequest;

const LINES: usize = 12;
const LINE_CHARS: usize = 100;
const SUMMARY_CHARS: usize = 1_600;

/// The way in which summary requests are answered.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ScriptedSummaries {
    /// The first lines of the conversation, at most about 400 tokens.
    Extract,
    /// A proper answer without content.
    Empty,
    /// "I cannot help with that."
    Refuse,
    /// The whole conversation, twice.
    Longer,
    /// Tool calls instead of text.
    CallsTools,
    /// Unusable text: control characters and broken markup.
    Garbage,
    /// The call fails with a fault.
    Fail(ScriptedFault),
    /// The given text.
    Text(String),
}

impl ScriptedSummaries {
    pub(super) fn answer(&self, request: &ModelRequest) -> ScriptedAnswer {
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

/// Reports whether a request asks for a summary: the last message holds the core's order for a summary, or the
/// request offers no tools and the system prompt mentions a summary.
pub fn is_summary_request(request: &ModelRequest) -> bool {
    let ordered = request.messages.last().is_some_and(|last| last.parts.iter().any(is_order));
    ordered || (request.tools.is_empty() && request.system.to_lowercase().contains("summar"))
}

fn is_order(part: &Part) -> bool {
    part.as_text().is_some_and(|text| text.starts_with(ORDER_START))
}

fn extract(request: &ModelRequest) -> String {
    // Two characters a token: a text that surely fits.
    let limit = request
        .max_output_tokens
        .map_or(SUMMARY_CHARS, |most| usize::try_from(most).unwrap_or(SUMMARY_CHARS) * 2);
    let limit = limit.min(SUMMARY_CHARS);
    let mut summary = String::from("Goal:\n");
    let first = request.messages.iter().find(|message| message.role == Role::User);
    summary.extend(first.iter().flat_map(|message| lines(&text_of(message), 1)));
    summary.push_str("Done:\n");
    for line in request.messages.iter().flat_map(|message| lines(&text_of(message), LINES)) {
        if summary.chars().count() + line.chars().count() > limit {
            break;
        }
        summary.push_str(&line);
    }
    summary
}

fn lines(text: &str, most: usize) -> Vec<String> {
    let filled = text.lines().map(str::trim).filter(|line| !line.is_empty());
    filled
        .take(most)
        .map(|line| format!("- {}\n", line.chars().take(LINE_CHARS).collect::<String>()))
        .collect()
}

fn everything(request: &ModelRequest) -> String {
    request.messages.iter().map(|message| text_of(message) + "\n").collect()
}

fn text_of(message: &Message) -> String {
    message.parts.iter().map(part_text).collect()
}

fn part_text(part: &Part) -> String {
    match part {
        // The words of the order are no part of the conversation, so the extract leaves them out.
        Part::Text(_) if is_order(part) => data_after_order(part),
        Part::Text(text) => text.text.clone(),
        Part::ToolCall(call) => format!("{} {}\n", call.name, call.arguments),
        Part::ToolResult(result) => result.content.iter().map(part_text).collect(),
        _ => String::new(),
    }
}

/// Returns the data of the order: the conversation as text, or nothing.
fn data_after_order(part: &Part) -> String {
    let data = part.as_text().and_then(|text| text.split_once("\n\n"));
    data.map(|(_, data)| data.to_owned()).unwrap_or_default()
}
