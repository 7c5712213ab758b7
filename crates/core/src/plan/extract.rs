//! A summary without any model: what was asked, which files and tools were used, what failed, what was said
//! last. Verbatim lines only, newest first within each section, as many as fit.

use std::collections::{BTreeMap, BTreeSet};

use super::Scene;
use crate::estimate::Counter;
use crate::history::{ItemKind, ViewItem};
use crate::message::{Message, Part, ToolStatus};

/// The extract of the `gone` units in at most `limit_tokens`.
pub(super) fn summary(scene: &Scene<'_>, gone: &[bool], limit_tokens: u64) -> String {
    let view = scene.history.view();
    let items: Vec<&ViewItem> = (0..scene.units.len())
        .filter(|at| gone[*at])
        .flat_map(|at| view[scene.units[at].items.clone()].iter())
        .collect();
    let sections = [
        ("Earlier summary", earlier(&items)),
        ("Instructions and constraints (the user's words)", typed(&items)),
        ("Files", files(&items)),
        ("Errors", errors(&items)),
        ("Done", calls(&items)),
        ("State (last words of the assistant)", last_words(&items)),
    ];
    fill(&sections, limit_tokens, scene.history.counter())
}

/// Gives each section its share of the room, unused room going to the next.
fn fill(sections: &[(&str, Vec<String>)], limit_tokens: u64, counter: &Counter) -> String {
    let mut text = String::new();
    let mut room = limit_tokens;
    for (index, (title, lines)) in sections.iter().enumerate() {
        let share = room / (sections.len() - index) as u64;
        let mut used = counter.text(title) + 3;
        let mut taken = Vec::new();
        for line in lines {
            let cost = counter.text(line) + 2;
            if used + cost > share {
                break;
            }
            used += cost;
            taken.push(format!("- {line}\n"));
        }
        if !taken.is_empty() {
            text.push_str(&format!("{title}:\n{}", taken.concat()));
            room = room.saturating_sub(used);
        }
    }
    if text.is_empty() { "(older messages; recall them by their handle)".to_owned() } else { text }
}

fn earlier(items: &[&ViewItem]) -> Vec<String> {
    let summaries = items.iter().filter(|item| matches!(item.kind, ItemKind::Summary(_)));
    let lines =
        summaries.flat_map(|item| plain_text(&item.message).lines().map(str::to_owned).collect::<Vec<_>>());
    lines.map(|line| clip(line.trim_start_matches("- "), 300)).filter(|line| !line.is_empty()).collect()
}

fn typed(items: &[&ViewItem]) -> Vec<String> {
    let typed = items.iter().rev().filter(|item| item.kind == ItemKind::Typed);
    typed.map(|item| clip(&item.message.text(), 400)).filter(|line| !line.is_empty()).collect()
}

fn last_words(items: &[&ViewItem]) -> Vec<String> {
    let words = items.iter().rev().filter(|item| item.kind == ItemKind::Assistant);
    words.map(|item| clip(&item.message.text(), 500)).filter(|line| !line.is_empty()).take(2).collect()
}

/// String arguments that look like paths, in order of their newest use.
fn files(items: &[&ViewItem]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut paths = Vec::new();
    for call in items.iter().rev().flat_map(|item| item.message.tool_calls()) {
        let Ok(serde_json::Value::Object(arguments)) = serde_json::from_str(&call.arguments) else {
            continue;
        };
        for value in arguments.values().filter_map(serde_json::Value::as_str) {
            let is_path =
                value.len() < 200 && !value.contains(char::is_whitespace) && value.contains(['/', '.']);
            if is_path && seen.insert(value.to_owned()) {
                paths.push(format!("{value} ({})", call.name));
            }
        }
    }
    paths
}

fn errors(items: &[&ViewItem]) -> Vec<String> {
    let mut lines = Vec::new();
    for part in items.iter().rev().flat_map(|item| &item.message.parts) {
        let Part::ToolResult(result) = part else { continue };
        if result.status != ToolStatus::Completed {
            let text: String = result.content.iter().filter_map(Part::as_text).collect();
            lines.extend(text.lines().find(|line| !line.trim().is_empty()).map(|line| clip(line, 300)));
        }
    }
    lines
}

fn calls(items: &[&ViewItem]) -> Vec<String> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for call in items.iter().flat_map(|item| item.message.tool_calls()) {
        *counts.entry(&call.name).or_default() += 1;
    }
    counts.into_iter().map(|(name, count)| format!("{name} was called {count} times")).collect()
}

/// One line of at most `limit` characters.
fn clip(text: &str, limit: usize) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    let line = line.join(" ");
    match line.char_indices().nth(limit) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// A message as text, for summarisers that get the conversation as data.
pub(super) fn plain_text(message: &Message) -> String {
    let mut text = String::new();
    for part in &message.parts {
        match part {
            Part::Text(part) => text.push_str(&part.text),
            Part::ToolCall(call) => text.push_str(&format!("\n[call {} {}]", call.name, call.arguments)),
            Part::ToolResult(result) => {
                text.extend(result.content.iter().filter_map(Part::as_text));
            }
            Part::Image(media) | Part::File(media) => {
                text.push_str(&format!("[{} {}]", media.media_type, media.blob))
            }
            Part::Reasoning(_) | Part::Opaque(_) => {}
        }
    }
    text
}
