//! `recall`: the exact original of anything that was pruned, truncated or compacted, by handle, by range of
//! it, or by a search over the session's log.
//!
//! A handle is a position in this session's log, resolved here and nowhere else: text that merely looks like
//! one reaches nothing that the session does not own.

use longhaul_core::estimate::text_tokens;
use longhaul_core::history::{Entry, EntryKind, History, ItemKind};
use longhaul_core::ids::{Handle, LogRange, Seq};
use longhaul_core::message::{Message, Part, RawJson, ToolSpec};
use longhaul_core::truncate::Limit;
use longhaul_store::Blobs;
use serde::Deserialize;
use std::collections::BTreeSet;

/// The tool's name.
pub const NAME: &str = "recall";

/// Snippets of a search, unless the call says otherwise.
const DEFAULT_HITS: usize = 5;

/// Characters around a hit.
const SNIPPET_CHARS: usize = 600;

/// Entries whose lines are looked at one by one.
const CLOSELY_RANKED: usize = 50;

/// Tokens kept for the line that says where the rest is.
const FOOT_TOKENS: u64 = 48;

/// What the model is told of the tool.
pub fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME.to_owned(),
        description: "Returns the exact original of earlier parts of this conversation that are no longer shown in \
                      full: by `handle` (as quoted where something was cleared, truncated, removed or summarised), \
                      optionally only a `range` of its characters, or by `query` (words to search for in everything \
                      said and every tool output so far)."
            .to_owned(),
        parameters: RawJson(
            r#"{"type":"object","properties":{"handle":{"type":"string","description":"For example lh:12 or lh:12-40"},"range":{"type":"string","description":"Characters START-END of the original, for example 30000-42000"},"query":{"type":"string","description":"Words to search for"},"limit":{"type":"integer","minimum":1,"maximum":50,"description":"Most hits of a search"}},"additionalProperties":false}"#
                .to_owned(),
        ),
        read_only: true,
        poll: false,
        source: "builtin".to_owned(),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    handle: Option<String>,
    range: Option<String>,
    query: Option<String>,
    limit: Option<usize>,
}

/// What can be recalled: every message of a session.
#[derive(Clone, Debug)]
pub struct Source {
    entries: Vec<Entry>,
    /// Those that the model is shown in full anyway: a search ranks them behind the others.
    shown: BTreeSet<Seq>,
}

impl Source {
    /// The messages of a session as it is now.
    pub fn of(history: &History) -> Self {
        let whole = history.view().iter().filter(|item| {
            !matches!(
                item.kind,
                ItemKind::Summary(_) | ItemKind::Removed(_) | ItemKind::Result { cleared: Some(_), .. }
            )
        });
        let shown = whole.map(|item| item.range.from).filter(|seq| !is_truncated(history, *seq)).collect();
        Self { entries: history.entries().to_vec(), shown }
    }
}

fn is_truncated(history: &History, seq: Seq) -> bool {
    let parts = history.entry(seq).map_or(&[][..], |entry| &entry.message.parts);
    parts.iter().any(|part| matches!(part, Part::ToolResult(result) if result.truncated.is_some()))
}

/// Answers a call: the text, or why there is none.
///
/// # Errors
/// A sentence for the model.
pub async fn recall(
    arguments: &str,
    source: &Source,
    blobs: &Blobs,
    limit: &Limit,
) -> Result<String, String> {
    let arguments: Arguments = serde_json::from_str(arguments).map_err(|error| format!("recall: {error}"))?;
    match (&arguments.handle, &arguments.query) {
        (Some(handle), _) => {
            by_handle(handle, arguments.range.as_deref(), &source.entries, blobs, limit).await
        }
        (None, Some(query)) => {
            Ok(by_query(query, arguments.limit.unwrap_or(DEFAULT_HITS), source, blobs, limit).await)
        }
        (None, None) => Err("recall: give a `handle` or a `query`".to_owned()),
    }
}

async fn by_handle(
    handle: &str,
    range: Option<&str>,
    entries: &[Entry],
    blobs: &Blobs,
    limit: &Limit,
) -> Result<String, String> {
    let Handle(span) = handle.parse().map_err(|error| format!("recall: {error}"))?;
    let found: Vec<&Entry> = entries.iter().filter(|entry| span.contains(entry.seq)).collect();
    if found.is_empty() {
        return Err(format!("recall: nothing is stored under {handle} in this session"));
    }
    let mut text = String::new();
    for entry in &found {
        if found.len() > 1 {
            text.push_str(&format!("<{} lh:{}>\n", speaker(entry), entry.seq));
        }
        text.push_str(&original(entry, blobs).await?);
        if found.len() > 1 {
            text.push_str("\n\n");
        }
    }
    let (from, to) = match range {
        Some(range) => parse_range(range)?,
        None => (0, usize::MAX),
    };
    Ok(clamp(&text, from, to, handle, limit))
}

fn parse_range(range: &str) -> Result<(usize, usize), String> {
    let wrong = || format!("recall: `{range}` is not a range of characters like 0-12000");
    let (from, to) = range.split_once('-').ok_or_else(wrong)?;
    let from: usize = from.trim().parse().map_err(|_| wrong())?;
    let to: usize = to.trim().parse().map_err(|_| wrong())?;
    if from < to { Ok((from, to)) } else { Err(wrong()) }
}

/// Characters `from..to` of `text`, as many as the room allows, and where to go on.
fn clamp(text: &str, from: usize, to: usize, handle: &str, limit: &Limit) -> String {
    let total = text.chars().count();
    let start = byte_of(text, from);
    let end = byte_of(text, to);
    let wanted = &text[start..end.max(start)];
    let most = limit.max_tokens.saturating_sub(FOOT_TOKENS).max(16);
    let mut shown = &wanted[..byte_of(wanted, limit.max_chars.saturating_sub(200) as usize)];
    while text_tokens(shown) > most {
        let tokens = text_tokens(shown);
        let chars = shown.chars().count() as u64;
        let fewer = (chars * most / tokens.max(1)).min(chars.saturating_sub(1));
        shown = &shown[..byte_of(shown, fewer as usize)];
    }
    let until = from + shown.chars().count();
    if until >= total.min(to) {
        return shown.to_owned();
    }
    format!(
        "{shown}\n[characters {from}-{until} of {total}; `recall` with handle {handle} and range {until}-{total} goes on]"
    )
}

fn byte_of(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)
}

fn speaker(entry: &Entry) -> String {
    match &entry.kind {
        EntryKind::Typed => "user".to_owned(),
        EntryKind::Note => "note".to_owned(),
        EntryKind::Assistant(_) => "assistant".to_owned(),
        EntryKind::Result { tool } => format!("result of {tool}"),
    }
}

/// A stored message as text, byte for byte where it is text; a truncated output in full.
async fn original(entry: &Entry, blobs: &Blobs) -> Result<String, String> {
    let mut text = String::new();
    for part in &entry.message.parts {
        match part {
            Part::ToolResult(result) => match &result.truncated {
                Some(truncation) => {
                    let bytes =
                        blobs.get(&truncation.blob).await.map_err(|error| format!("recall: {error}"))?;
                    text.push_str(&String::from_utf8_lossy(&bytes));
                }
                None => result.content.iter().for_each(|part| push(&mut text, part)),
            },
            part => push(&mut text, part),
        }
    }
    Ok(text)
}

/// A message as text: what a person or a model could read of it.
pub(crate) fn plain_text(message: &Message) -> String {
    let mut text = String::new();
    for part in &message.parts {
        match part {
            Part::ToolResult(result) => result.content.iter().for_each(|part| push(&mut text, part)),
            part => push(&mut text, part),
        }
    }
    text
}

fn push(text: &mut String, part: &Part) {
    match part {
        Part::Text(part) => text.push_str(&part.text),
        Part::ToolCall(call) => text.push_str(&format!("\n[call {} {}]", call.name, call.arguments)),
        Part::Image(media) | Part::File(media) => {
            text.push_str(&format!("[{} {}]", media.media_type, media.blob))
        }
        Part::Reasoning(_) | Part::Opaque(_) | Part::ToolResult(_) => {}
    }
}

/// The entries that hold most of the query's words (rare words count more), newest first among equals. What is
/// shown in full counts half: the question itself would else be the best hit.
async fn by_query(query: &str, hits: usize, source: &Source, blobs: &Blobs, limit: &Limit) -> String {
    let words = words(query);
    let phrase = query.trim().to_lowercase();
    let mut texts: Vec<(&Entry, String)> = Vec::new();
    for entry in source.entries.iter().filter(|entry| !is_own(entry)) {
        if let Ok(text) = original(entry, blobs).await {
            texts.push((entry, text));
        }
    }
    let lower: Vec<String> = texts.iter().map(|(_, text)| text.to_lowercase()).collect();
    let weights: Vec<f64> = words
        .iter()
        .map(|word| {
            let holders = lower.iter().filter(|text| text.contains(word.as_str())).count();
            if holders == 0 { 0.0 } else { (1.0 + lower.len() as f64 / holders as f64).ln() }
        })
        .collect();
    let score = |text: &String| -> f64 {
        words
            .iter()
            .zip(&weights)
            .filter(|(word, _)| text.contains(word.as_str()))
            .map(|(_, weight)| weight)
            .sum()
    };
    let weight = |at: usize| if source.shown.contains(&texts[at].0.seq) { 0.5 } else { 1.0 };
    let scores = lower.iter().map(score).zip(0..).map(|(score, at)| (score * weight(at), at));
    let mut ranked: Vec<(f64, usize)> = scores.filter(|(score, _)| *score > 0.0).collect();
    best_first(&mut ranked);
    ranked.truncate(CLOSELY_RANKED);
    // Words on one line mean more than the same words here and there.
    for (score, at) in &mut ranked {
        *score += 2.0 * weight(*at) * best_line(&texts[*at].1, &words, &weights).0;
        // The very words in their order mean most of all.
        if words.len() > 1 && lower[*at].contains(&phrase) {
            *score += 3.0 * weight(*at) * weights.iter().sum::<f64>();
        }
    }
    best_first(&mut ranked);
    if ranked.is_empty() {
        return format!("recall: nothing in this session matches `{query}`");
    }
    let mut answer = String::new();
    for (_, at) in ranked.into_iter().take(hits) {
        let (entry, text) = &texts[at];
        let handle = Handle(LogRange::one(entry.seq));
        let hit = format!("<{} {handle}>\n{}\n\n", speaker(entry), snippet(text, &words, &weights));
        if text_tokens(&answer) + text_tokens(&hit) > limit.max_tokens && !answer.is_empty() {
            break;
        }
        answer.push_str(&hit);
    }
    clamp(answer.trim_end(), 0, usize::MAX, "of a hit", limit)
}

/// What `recall` itself gave or was asked would only find itself again.
fn is_own(entry: &Entry) -> bool {
    match &entry.kind {
        EntryKind::Result { tool } => tool == NAME,
        EntryKind::Assistant(_) => asks_only_recall(&entry.message),
        _ => false,
    }
}

fn asks_only_recall(message: &Message) -> bool {
    let mut calls = message.tool_calls().peekable();
    calls.peek().is_some() && calls.all(|call| call.name == NAME)
}

fn words(query: &str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let mut words: Vec<String> = query
        .split(|c: char| !is_word(c))
        .map(|word| word.trim_matches(['.', '-']).to_lowercase())
        .filter(|word| word.chars().count() > 1)
        .collect();
    words.sort();
    words.dedup();
    words
}

fn best_first(ranked: &mut [(f64, usize)]) {
    ranked.sort_by(|left, right| right.0.total_cmp(&left.0).then(right.1.cmp(&left.1)));
}

/// The score of the line that holds most of the query's words, and where it begins in bytes.
fn best_line(text: &str, words: &[String], weights: &[f64]) -> (f64, usize) {
    let score = |line: &str| -> f64 {
        let line = line.to_lowercase();
        words
            .iter()
            .zip(weights)
            .filter(|(word, _)| line.contains(word.as_str()))
            .map(|(_, weight)| weight)
            .sum()
    };
    let (mut best, mut best_at, mut at) = (0.0, 0, 0);
    for line in text.split_inclusive('\n') {
        let score = score(line);
        if score > best {
            (best, best_at) = (score, at);
        }
        at += line.len();
    }
    (best, best_at)
}

/// The part of a text around the line that holds most of the query's words.
fn snippet(text: &str, words: &[String], weights: &[f64]) -> String {
    if text.chars().count() <= SNIPPET_CHARS {
        return text.to_owned();
    }
    let (_, best_at) = best_line(text, words, weights);
    let hit = text[..best_at].chars().count();
    let from = hit.saturating_sub(SNIPPET_CHARS / 4);
    let start = byte_of(text, from);
    let end = byte_of(text, from + SNIPPET_CHARS);
    format!("…{}…", &text[start..end])
}

#[cfg(test)]
mod tests;
