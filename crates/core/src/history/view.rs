//! The view: log entries and edits, projected into the messages that the model is shown.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::omissions::without_parts;
use super::pairing::without_native;
use super::{CLEARED, ViewEditState};
use crate::estimate::{MessageTokenCounter, TokensByScript};
use crate::event::{PartialAnswerReason, ViewOperation};
use crate::ids::{CallId, EditId, LogHandle, LogRange, Seq};
use crate::memo::LazyValue;
use crate::message::{Message, Part, ReasoningPart, Role, TextPart, ToolCall, ToolResult, ToolStatus};
use crate::retention_report::{SentenceFacts, SharedSentences};
use crate::truncate::{self, MARKER};

/// A message of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// The message's position in the log.
    pub seq: Seq,
    /// The message in the stored form.
    pub message: Arc<Message>,
    /// The author or role of the message.
    pub kind: LogEntryKind,
    /// The position at which the answer begins: `seq`, unless the message continues a paused answer.
    pub begins: Seq,
    /// Number of pauses of the answer, up to the end of this piece.
    pub pauses: u32,
    /// The message in the form that the model sees, if the model sees the message. The last piece holds the whole
    /// answer.
    shown: Option<Arc<Message>>,
    /// The newest omission that left out a part of the message.
    omission: Option<EditId>,
    /// The tokens of `shown`.
    groups: TokensByScript,
    /// The tokens of the placeholder for a cleared result.
    placeholder: TokensByScript,
    /// The placeholder that a plan would show for a result, with the lines that stay.
    cleared_form: Option<Arc<LazyValue<Box<ResultPlaceholder>>>>,
    /// The sentences of a typed message or answer for which a retention report searches.
    sentences: Option<SharedSentences>,
}

/// The placeholder of a tool result, with the lines of the result that stay visible.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ResultPlaceholder {
    /// The lines that stay; empty if no line stands out.
    pub(crate) excerpt: String,
    /// The tokens of the placeholder with the visible lines.
    pub(crate) groups: TokensByScript,
}

/// The author or role of a message in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEntryKind {
    /// A message that a person typed.
    Typed,
    /// A note of the runtime.
    Note,
    /// An answer of the model, or a part of an answer with the reason why the rest is missing.
    Assistant(Option<PartialAnswerReason>),
    /// A tool result.
    Result {
        /// The tool's name.
        tool: String,
    },
}

/// A message of the view.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewItem {
    /// The message in the form that the model is shown.
    pub message: Arc<Message>,
    /// The message's tokens by the history's counter.
    pub tokens: u64,
    /// The message's tokens by the kind of writing.
    pub groups: TokensByScript,
    /// The log positions that the message stands for.
    pub range: LogRange,
    /// The author or role of the message.
    pub kind: ViewItemKind,
    /// The ranges of the removed content behind this summary or note. The ranges include all removals of the same
    /// edit, and the ranges behind the summaries and notes that the edit removed.
    pub covers: Vec<LogRange>,
    /// The newest omission that left out a part of the message because the model's server refuses the part.
    pub omission: Option<EditId>,
    /// The position of the event that gave the message its present form.
    pub since: Seq,
    /// The tokens of a result's placeholder. The tokens are counted once, because every plan weighs all results.
    pub(crate) placeholder: TokensByScript,
    /// The placeholder that a plan would show for a result. The placeholder is computed once, because every plan
    /// weighs all results.
    pub(crate) cleared_form: Option<Arc<LazyValue<Box<ResultPlaceholder>>>>,
}

/// The view of a session, and the edits that made it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SessionView {
    pub(super) items: Vec<ViewItem>,
    /// The tokens of all items.
    pub(super) groups: TokensByScript,
    /// The position of the newest event that changed the view.
    pub(super) changed_at: Seq,
    pub(super) edits: Vec<ViewEditState>,
}

impl SessionView {
    /// Returns the estimated tokens of the view.
    pub(super) fn tokens(&self) -> u64 {
        self.groups.total()
    }

    /// Returns a hash of the view.
    pub(super) fn hash(&self) -> String {
        hash(&self.items)
    }
}

/// The author or role of a message in the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewItemKind {
    /// A message that a person typed.
    Typed,
    /// A note of the runtime.
    Note,
    /// A summary of a range.
    Summary(EditId),
    /// A note in place of a removed range.
    Removed(EditId),
    /// An answer of the model.
    Assistant,
    /// A tool result.
    Result {
        /// The tool's name.
        tool: String,
        /// The edit that cleared the content.
        cleared: Option<EditId>,
    },
}

impl LogEntry {
    /// Returns the entry of a message. `paused` is the piece that the message continues.
    pub(super) fn new(
        seq: Seq,
        message: Message,
        kind: LogEntryKind,
        paused: Option<&LogEntry>,
        counter: &MessageTokenCounter,
        has_recall: bool,
    ) -> Self {
        let message = Arc::new(message);
        let before = paused.and_then(|paused| paused.shown.as_deref());
        let shown = shown(seq, &message, &kind, before);
        let groups = shown.as_deref().map(|shown| sent_groups(shown, counter)).unwrap_or_default();
        let begins = paused.map_or(seq, |paused| paused.begins);
        let pauses = paused.map_or(0, |paused| paused.pauses)
            + u32::from(kind == LogEntryKind::Assistant(Some(PartialAnswerReason::Paused)));
        // Counted here and not by each plan: every plan weighs every result of the session.
        let placeholder = match kind {
            LogEntryKind::Result { .. } => cleared_groups(seq, counter, has_recall),
            LogEntryKind::Typed | LogEntryKind::Note | LogEntryKind::Assistant(_) => {
                TokensByScript::default()
            }
        };
        let cleared_form = matches!(kind, LogEntryKind::Result { .. }).then(Arc::default);
        let is_said = matches!(kind, LogEntryKind::Typed | LogEntryKind::Assistant(_));
        Self {
            seq,
            message,
            kind,
            begins,
            pauses,
            shown,
            omission: None,
            groups,
            placeholder,
            cleared_form,
            sentences: is_said.then(SharedSentences::default),
        }
    }

    /// Returns the sentences of the message that a retention report looks for; `None` if neither a person nor the model
    /// said it.
    #[doc(hidden)]
    pub fn sentences(&self) -> Option<&SentenceFacts> {
        self.sentences.as_ref().map(|sentences| sentences.get(&self.message))
    }

    /// Returns the message in the form that the model sees without any edit; `None` if the model does not see the
    /// message.
    pub(super) fn shown(&self) -> Option<&Arc<Message>> {
        self.shown.as_ref()
    }

    /// Builds the shown form again, without the parts in `omitted`. `before` is the piece that the message continues.
    pub(super) fn show_without(
        &mut self,
        omitted: &[(EditId, usize, String)],
        before: Option<&Message>,
        counter: &MessageTokenCounter,
    ) {
        self.omission = omitted.last().map(|(id, ..)| id.clone());
        let message = match omitted {
            [] => Arc::clone(&self.message),
            _ => Arc::new(without_parts(&self.message, omitted)),
        };
        self.shown = shown(self.seq, &message, &self.kind, before);
        // The cached placeholder may quote a part that is left out now.
        self.cleared_form = self.cleared_form.as_ref().map(|_| Arc::default());
        self.groups = self.shown.as_deref().map(|shown| sent_groups(shown, counter)).unwrap_or_default();
    }

    /// Returns whether the message continues a paused answer.
    pub fn goes_on(&self) -> bool {
        self.begins < self.seq
    }

    /// Returns the tokens of the message in the form that the model is shown; 0 for a hidden message.
    pub(crate) fn tokens(&self) -> u64 {
        self.groups.total()
    }

    /// Returns the message's tokens in the form that the model sees without any edit; `None` if the model does not
    /// see the message.
    pub(super) fn shown_groups(&self) -> Option<TokensByScript> {
        self.shown.is_some().then_some(self.groups)
    }
}

impl ViewItem {
    pub(super) fn of(entry: &LogEntry) -> Option<Self> {
        let kind = match &entry.kind {
            LogEntryKind::Typed => ViewItemKind::Typed,
            LogEntryKind::Note => ViewItemKind::Note,
            LogEntryKind::Assistant(_) => ViewItemKind::Assistant,
            LogEntryKind::Result { tool } => ViewItemKind::Result { tool: tool.clone(), cleared: None },
        };
        Some(Self {
            message: entry.shown.clone()?,
            tokens: entry.groups.total(),
            groups: entry.groups,
            range: LogRange { from: entry.begins, to: entry.seq },
            kind,
            covers: Vec::new(),
            omission: entry.omission.clone(),
            since: entry.seq,
            placeholder: entry.placeholder,
            cleared_form: entry.cleared_form.clone(),
        })
    }

    fn cleared(
        entry: &LogEntry,
        edit: &EditId,
        excerpt: ResultExcerpt<'_>,
        counter: &MessageTokenCounter,
        has_recall: bool,
    ) -> Option<Self> {
        if entry.kind == LogEntryKind::Typed && excerpt.cut {
            return Self::shortened(entry, edit, excerpt.text, counter);
        }
        let (LogEntryKind::Result { tool }, [Part::ToolResult(result)]) =
            (&entry.kind, entry.message.parts.as_slice())
        else {
            return None;
        };
        let message = cleared_message(entry.seq, result, excerpt, has_recall);
        let groups = sent_groups(&message, counter);
        Some(Self {
            tokens: groups.total(),
            groups,
            message: Arc::new(message),
            range: LogRange::one(entry.seq),
            kind: ViewItemKind::Result { tool: tool.clone(), cleared: Some(edit.clone()) },
            covers: Vec::new(),
            omission: None,
            since: entry.seq,
            placeholder: entry.placeholder,
            // A cleared result is not cleared again, so no plan asks for its placeholder.
            cleared_form: None,
        })
    }

    /// Returns a typed message with `text` in the place of the texts; pictures and files stay.
    fn shortened(entry: &LogEntry, edit: &EditId, text: &str, counter: &MessageTokenCounter) -> Option<Self> {
        let shown = entry.shown.as_deref()?;
        let others = shown.parts.iter().filter(|part| part.as_text().is_none()).cloned();
        let parts = [Part::text(text)].into_iter().chain(others).collect();
        let message = Message { parts, ..shown.clone() };
        let groups = sent_groups(&message, counter);
        Some(Self {
            tokens: groups.total(),
            groups,
            message: Arc::new(message),
            // The hash of the view must differ from that of the whole message.
            omission: Some(edit.clone()),
            ..Self::of(entry)?
        })
    }

    fn replacement(
        edit: &EditId,
        range: LogRange,
        parts: &[Part],
        summary: bool,
        covers: Vec<LogRange>,
        counter: &MessageTokenCounter,
    ) -> Self {
        let message = Message::user(format!("{edit}.{}", range.from), parts.to_vec());
        let kind =
            if summary { ViewItemKind::Summary(edit.clone()) } else { ViewItemKind::Removed(edit.clone()) };
        let groups = sent_groups(&message, counter);
        let tokens = groups.total();
        let (message, placeholder) = (Arc::new(message), TokensByScript::default());
        Self {
            tokens,
            groups,
            message,
            range,
            kind,
            covers,
            omission: None,
            since: range.from,
            placeholder,
            cleared_form: None,
        }
    }
}

/// The visible rest of a result or message that is not shown whole.
#[derive(Clone, Copy, Debug, Default)]
struct ResultExcerpt<'a> {
    text: &'a str,
    /// `true` if the text is the start and the end of the original.
    cut: bool,
}

/// Returns the message that takes the place of a cleared result.
fn cleared_message(seq: Seq, result: &ToolResult, excerpt: ResultExcerpt<'_>, has_recall: bool) -> Message {
    let mut text = if excerpt.cut { MARKER } else { CLEARED }.to_owned();
    if has_recall {
        // The handle alone: every word here is paid for in each request, and makes small models look up content that
        // they could read again. The tool `recall` explains handles once.
        text.push_str(&format!(" {}", LogHandle(LogRange::one(seq))));
    }
    if !excerpt.text.is_empty() {
        let title = if excerpt.cut { "How it begins and ends" } else { "What it came to" };
        text.push_str(&format!(" {title}:\n{}", excerpt.text));
    }
    let result = ToolResult {
        call_id: result.call_id.clone(),
        status: result.status,
        content: vec![Part::text(text)],
        truncated: None,
    };
    result_message(seq, result)
}

/// Returns the message of a stored result.
pub(super) fn result_message(seq: Seq, result: ToolResult) -> Message {
    let id = format!("m{seq}").into();
    Message { id, role: Role::Tool, parts: vec![Part::ToolResult(result)], origin: None }
}

/// Returns the tokens of the placeholder for the result that is stored at `seq`.
pub(crate) fn cleared_groups(seq: Seq, counter: &MessageTokenCounter, has_recall: bool) -> TokensByScript {
    cleared_groups_beside(seq, "", counter, has_recall)
}

/// Returns the tokens of the placeholder with the `lines` of the result that stay visible.
pub(crate) fn cleared_groups_beside(
    seq: Seq,
    lines: &str,
    counter: &MessageTokenCounter,
    has_recall: bool,
) -> TokensByScript {
    // Call id and status are not counted, so an empty result stands for the real one.
    let result = super::closing_result(&"".into(), ToolStatus::Completed, "");
    let excerpt = ResultExcerpt { text: lines, cut: false };
    sent_groups(&cleared_message(seq, &result, excerpt, has_recall), counter)
}

/// Returns a stored message in the form that the model sees: with truncation markers, without half-received parts,
/// and behind the piece `before`.
fn shown(
    seq: Seq,
    message: &Arc<Message>,
    kind: &LogEntryKind,
    before: Option<&Message>,
) -> Option<Arc<Message>> {
    let parts: Vec<Part> = match kind {
        LogEntryKind::Assistant(Some(PartialAnswerReason::Lost)) => return None,
        LogEntryKind::Assistant(Some(PartialAnswerReason::Paused)) => {
            message.parts.iter().map(without_end).collect()
        }
        LogEntryKind::Assistant(Some(PartialAnswerReason::Cancelled)) => {
            // Blank text is dropped unless the answer continues: a pause leaves the blank between two words to the
            // next piece.
            let kept = message.parts.iter().filter(|part| before.is_some() || !is_blank(part));
            let kept: Vec<Part> = kept.filter_map(kept_when_cancelled).collect();
            if before.is_none() && kept.iter().all(|part| matches!(part, Part::Reasoning(_))) {
                // Reasoning alone is no answer: only people are shown it.
                return None;
            }
            kept
        }
        LogEntryKind::Assistant(None) => message.parts.iter().map(valid_call).collect(),
        LogEntryKind::Result { .. } => message.parts.iter().map(|part| with_marker(part, seq)).collect(),
        LogEntryKind::Typed | LogEntryKind::Note => {
            return says_something(&message.parts).then(|| Arc::clone(message));
        }
    };
    if let Some(before) = before {
        return Some(Arc::new(joined(before, message, parts)));
    }
    says_something(&parts).then(|| {
        // Most messages are shown as they are stored, so both forms share one allocation.
        if parts == message.parts {
            return Arc::clone(message);
        }
        let Message { id, role, origin, .. } = &**message;
        Arc::new(Message { id: id.clone(), role: *role, parts, origin: origin.clone() })
    })
}

fn is_blank(part: &Part) -> bool {
    part.as_text().is_some_and(|text| text.trim().is_empty())
}

fn says_something(parts: &[Part]) -> bool {
    parts.iter().any(|part| match part {
        Part::Text(text) => !text.text.is_empty(),
        Part::Reasoning(reasoning) => reasoning.native.is_some(),
        _ => true,
    })
}

/// Returns one answer of two pieces, without any text between them.
fn joined(before: &Message, piece: &Message, more: Vec<Part>) -> Message {
    let mut parts = before.parts.clone();
    if before.origin != piece.origin {
        // The new origin may be another provider, which refuses foreign native items.
        parts = parts.into_iter().filter_map(without_native).collect();
    }
    for part in more {
        match (parts.last_mut(), part) {
            // A native item holds the text of one half only.
            (Some(Part::Text(last)), Part::Text(next)) => {
                last.text.push_str(&next.text);
                last.native = None;
            }
            (_, part) => parts.push(part),
        }
    }
    Message { id: before.id.clone(), role: Role::Assistant, parts, origin: piece.origin.clone() }
}

/// Returns a paused answer and the piece that continues the answer as one message, in the stored form, for people.
#[doc(hidden)]
pub fn join(paused: &Message, piece: &Message) -> Message {
    joined(paused, piece, piece.parts.clone())
}

/// Returns a part of a paused answer. Text loses its native item, because the text continues in another item.
fn without_end(part: &Part) -> Part {
    match part {
        Part::Text(text) => Part::text(text.text.clone()),
        other => valid_call(other),
    }
}

/// Returns the part of a cancelled answer that stays. Partial text stays without a native item, which was never
/// completed. Reasoning stays only with its native item.
fn kept_when_cancelled(part: &Part) -> Option<Part> {
    match part {
        Part::Text(text) => Some(Part::Text(TextPart { text: text.text.clone(), native: None })),
        Part::Reasoning(ReasoningPart { native: None, .. }) => None,
        other => Some(valid_call(other)),
    }
}

/// Returns a call in a form that providers accept. Arguments that are no JSON object are quoted, and an invalid name
/// is mended. Otherwise every later request would be invalid.
fn valid_call(part: &Part) -> Part {
    let Part::ToolCall(call) = part else { return part.clone() };
    match (is_object(&call.arguments), valid_name(&call.name)) {
        (true, None) => part.clone(),
        (true, Some(name)) => Part::ToolCall(ToolCall { name, native: None, ..call.clone() }),
        (false, name) => {
            // Valid JSON that still shows the model its own mistake. The native item has the invalid arguments too,
            // so it goes.
            let arguments = serde_json::json!({ "invalid_arguments": call.arguments }).to_string();
            let name = name.unwrap_or_else(|| call.name.clone());
            Part::ToolCall(ToolCall { name, arguments, native: None, ..call.clone() })
        }
    }
}

/// Returns the valid form of a tool's name; `None` if the name is valid. Providers accept `[a-zA-Z0-9_-]{1,64}`.
fn valid_name(name: &str) -> Option<String> {
    if (1..=64).contains(&name.len()) && name.chars().all(is_name_char) {
        return None;
    }
    let mended: String = name.chars().take(64).map(|c| if is_name_char(c) { c } else { '_' }).collect();
    Some(if mended.is_empty() { "unnamed".to_owned() } else { mended })
}

/// Returns whether every provider accepts `c` in the name of a tool.
fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// Returns whether a text is one JSON object.
pub(crate) fn is_object(text: &str) -> bool {
    serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text).is_ok()
}

fn with_marker(part: &Part, seq: Seq) -> Part {
    match part {
        Part::ToolResult(result) if result.truncated.is_some() => {
            let content = truncate::shown_content(result, seq);
            Part::ToolResult(ToolResult { content, truncated: None, ..result.clone() })
        }
        other => other.clone(),
    }
}

/// Returns the tokens of a message in a request. Reasoning without a native item is not sent.
pub(crate) fn sent_groups(message: &Message, counter: &MessageTokenCounter) -> TokensByScript {
    counter.message_groups(message).without(&unsent_reasoning(message, counter))
}

/// Returns the tokens of reasoning that no request carries.
pub(super) fn unsent_reasoning(message: &Message, counter: &MessageTokenCounter) -> TokensByScript {
    let unsent = message
        .parts
        .iter()
        .filter(|part| matches!(part, Part::Reasoning(ReasoningPart { native: None, .. })));
    unsent.map(|part| counter.part_groups(part)).sum()
}

/// Returns the bytes of a message's native items, which carry content that we cannot read.
pub(super) fn native_bytes(message: &Message) -> u64 {
    let natives = message.parts.iter().filter_map(|part| match part {
        Part::Text(text) => text.native.as_ref(),
        Part::Reasoning(reasoning) => reasoning.native.as_ref(),
        Part::ToolCall(call) => call.native.as_ref(),
        Part::Opaque(opaque) => Some(&opaque.native),
        Part::Image(_) | Part::File(_) | Part::ToolResult(_) => None,
    });
    natives.map(|native| native.as_str().len() as u64).sum()
}

/// Projects entries and active edits into a view, oldest edit first. Items whose form has not changed keep their
/// `since`.
pub(super) fn rebuild(
    entries: &[LogEntry],
    edits: &[ViewEditState],
    old: &[ViewItem],
    now: Seq,
    counter: &MessageTokenCounter,
    has_recall: bool,
) -> Vec<ViewItem> {
    let mut slots: Vec<Option<ViewItem>> = entries.iter().map(ViewItem::of).collect();
    for (at, entry) in
        entries.iter().enumerate().filter(|(_, entry)| entry.goes_on() && entry.shown.is_some())
    {
        // The newest piece holds the text of the earlier pieces.
        let first = entries.partition_point(|other| other.seq < entry.begins);
        slots[first..at].fill(None);
    }
    let mut projection = ViewProjection { entries, counter, has_recall, slots, replacements: Vec::new() };
    for state in edits.iter().filter(|state| state.active) {
        // Before the operations: an operation removes the older replacements whose ranges the edit takes over.
        let covers = covers(entries, &state.edit.ops, &projection.replacements);
        for op in &state.edit.ops {
            projection.apply(op, &state.edit.id, &covers);
        }
    }
    let mut view = in_order(entries, projection.slots, projection.replacements);
    // A map and no binary search, because results stand in the order of their calls, not of the log.
    let old: BTreeMap<LogRange, &ViewItem> = old.iter().map(|item| (item.range, item)).collect();
    for item in &mut view {
        let before = old
            .get(&item.range)
            .filter(|before| before.kind == item.kind && before.omission == item.omission);
        item.since = before.map_or(now, |before| before.since);
    }
    view
}

/// Returns the ranges that an edit removes, with the ranges behind the summaries and notes that the edit removes.
fn covers(entries: &[LogEntry], ops: &[ViewOperation], replacements: &[ViewItem]) -> Vec<LogRange> {
    let removed =
        ops.iter().filter(|op| !matches!(op, ViewOperation::Placeholder { .. })).map(ViewOperation::range);
    let mut covers: Vec<LogRange> = removed.collect();
    for item in replacements {
        if covers.iter().any(|range| range.contains(item.range.from)) {
            covers.extend(&item.covers);
        }
    }
    merged(entries, covers)
}

/// Returns the same messages in as few ascending ranges as possible. Ranges without a message between them become one
/// range.
pub(crate) fn merged(entries: &[LogEntry], mut ranges: Vec<LogRange>) -> Vec<LogRange> {
    ranges.sort_unstable();
    let mut merged: Vec<LogRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut().filter(|last| are_adjacent(entries, **last, range)) {
            Some(last) => last.to = last.to.max(range.to),
            None => merged.push(range),
        }
    }
    merged
}

/// Returns whether two ascending ranges overlap or have no message between them.
fn are_adjacent(entries: &[LogEntry], first: LogRange, second: LogRange) -> bool {
    // Positions without a message hold other events, and a handle may span them.
    let between = LogRange { from: first.to.saturating_add(1), to: second.from.saturating_sub(1) };
    second.from <= between.from || span(entries, between).is_empty()
}

/// Entries on their way into the view.
struct ViewProjection<'a> {
    entries: &'a [LogEntry],
    counter: &'a MessageTokenCounter,
    has_recall: bool,
    /// The item of each entry, if the entry is shown.
    slots: Vec<Option<ViewItem>>,
    /// The summaries and notes that stand for ranges.
    replacements: Vec<ViewItem>,
}

impl ViewProjection<'_> {
    fn apply(&mut self, op: &ViewOperation, edit: &EditId, covers: &[LogRange]) {
        let range = op.range();
        let span = span(self.entries, range);
        if let ViewOperation::Placeholder { excerpt, cut, .. } = op {
            return self.clear(span, edit, ResultExcerpt { text: excerpt, cut: *cut });
        }
        self.slots[span].fill(None);
        // A newer edit may cover an older summary. Only the newer replacement is shown then.
        self.replacements.retain(|item| !range.contains(item.range.from));
        if let ViewOperation::Replace { parts, summary, .. } = op {
            let covers = covers.to_vec();
            let item = ViewItem::replacement(edit, range, parts, *summary, covers, self.counter);
            self.replacements.push(item);
        }
    }

    fn clear(&mut self, span: Range<usize>, edit: &EditId, excerpt: ResultExcerpt<'_>) {
        for at in span {
            // A message that an earlier edit removed must not come back as a placeholder.
            if self.slots[at].is_some() {
                let entry = &self.entries[at];
                let cleared = ViewItem::cleared(entry, edit, excerpt, self.counter, self.has_recall);
                self.slots[at] = cleared.or_else(|| self.slots[at].take());
            }
        }
    }
}

/// Returns the indices of a range's entries.
pub(crate) fn span(entries: &[LogEntry], range: LogRange) -> Range<usize> {
    let start = entries.partition_point(|entry| entry.seq < range.from);
    let end = entries.partition_point(|entry| entry.seq <= range.to);
    start..end.max(start)
}

/// Returns the view in log order, with results in the order of their calls.
fn in_order(
    entries: &[LogEntry],
    slots: Vec<Option<ViewItem>>,
    mut replacements: Vec<ViewItem>,
) -> Vec<ViewItem> {
    replacements.sort_by_key(|item| item.range.from);
    let mut replacements = replacements.into_iter().peekable();
    let mut view: Vec<ViewItem> = Vec::with_capacity(entries.len());
    for (entry, slot) in entries.iter().zip(slots) {
        while let Some(item) = replacements.next_if(|item| item.range.from <= entry.seq) {
            view.push(item);
        }
        let Some(item) = slot else { continue };
        match result_call(&item).map(|id| result_position(&view, id)) {
            Some(at) => view.insert(at, item),
            None => view.push(item),
        }
    }
    view.extend(replacements);
    view
}

fn result_call(item: &ViewItem) -> Option<&CallId> {
    match item.message.parts.first() {
        Some(Part::ToolResult(result)) => Some(&result.call_id),
        _ => None,
    }
}

/// Returns the index for the result of `call_id`: behind the results of earlier calls of the newest step.
pub(super) fn result_position(view: &[ViewItem], call_id: &CallId) -> usize {
    let Some(step) = view.iter().rposition(|item| item.message.role != Role::Tool) else {
        return view.len();
    };
    let calls: Vec<&CallId> = view[step].message.tool_calls().map(|call| &call.call_id).collect();
    let rank = call_rank(&calls, call_id);
    let earlier = view[step + 1..]
        .iter()
        .take_while(|item| result_call(item).is_some_and(|other| call_rank(&calls, other) < rank));
    step + 1 + earlier.count()
}

/// Returns the index of a call among the calls of a step. Unknown calls come last.
fn call_rank(calls: &[&CallId], call_id: &CallId) -> usize {
    calls.iter().position(|call| *call == call_id).unwrap_or(usize::MAX)
}

/// Returns a hash of a call and the outcome, for loop detection.
pub(super) fn call_signature(call: &ToolCall, result: &ToolResult) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for text in [call.name.as_str(), call.arguments.as_str()] {
        // The length keeps two texts apart: `a` + `bc` must not equal `ab` + `c`.
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.update(&[result.status as u8]);
    for part in &result.content {
        match part {
            Part::Text(text) => hasher.update(text.text.as_bytes()),
            Part::Image(media) | Part::File(media) => hasher.update(media.blob.hash.as_bytes()),
            _ => &mut hasher,
        };
    }
    let bytes = hasher.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&bytes.as_bytes()[..8]);
    u64::from_le_bytes(first)
}

/// Number of bytes of a view that are collected before hashing.
const HASHED_AT_ONCE: usize = 16_384;

/// Returns a hash of the positions, edits and omissions of view items.
pub(crate) fn hash<'a>(view: impl IntoIterator<Item = &'a ViewItem>) -> String {
    let mut hasher = blake3::Hasher::new();
    // blake3 hashes many bytes at once several times as fast as a few at a time.
    let mut bytes: Vec<u8> = Vec::with_capacity(HASHED_AT_ONCE + 256);
    for item in view {
        if bytes.len() >= HASHED_AT_ONCE {
            hasher.update(&bytes);
            bytes.clear();
        }
        bytes.extend_from_slice(&item.range.from.to_le_bytes());
        bytes.extend_from_slice(&item.range.to.to_le_bytes());
        let edit = match &item.kind {
            ViewItemKind::Summary(edit) | ViewItemKind::Removed(edit) => Some(edit),
            ViewItemKind::Result { cleared, .. } => cleared.as_ref(),
            _ => None,
        };
        let edit = edit.map_or("", EditId::as_str);
        bytes.extend_from_slice(&(edit.len() as u64).to_le_bytes());
        bytes.extend_from_slice(edit.as_bytes());
        // Omissions came later than the hash. Without one no byte is added, so that hashes in older logs still match.
        if let Some(omission) = &item.omission {
            bytes.push(0xff);
            bytes.extend_from_slice(omission.as_str().as_bytes());
        }
    }
    hasher.update(&bytes);
    hasher.finalize().to_hex().as_str()[..32].to_owned()
}

/// A group of view items that stays or goes together: one message, or a step with all its results.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewUnit {
    /// The group's items, as indices into the view.
    pub items: Range<usize>,
    /// The log positions that the group stands for.
    pub range: LogRange,
    /// The group's tokens by the history's counter.
    pub tokens: u64,
    /// The kind of the group's messages.
    pub kind: ViewUnitKind,
    /// The turn to which the group belongs: 0 before the first typed message, then 1, 2 …
    pub turn: usize,
    /// `true` if an undo brought the group back, so that automatic compaction does not touch it.
    pub pinned: bool,
}

/// The kind of a group of view items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewUnitKind {
    /// A typed message.
    Typed,
    /// A note of the runtime.
    Note,
    /// A summary of compacted messages, or a note on removed messages.
    Compacted,
    /// An assistant message and the tool results.
    Step,
}

/// Groups a view into units. The view can be cut at every boundary between units.
#[doc(hidden)]
pub fn units(view: &[ViewItem], pinned: &[LogRange]) -> Vec<ViewUnit> {
    let mut units: Vec<ViewUnit> = Vec::new();
    let mut turn = 0;
    for (at, item) in view.iter().enumerate() {
        if let (Role::Tool, Some(last)) = (item.message.role, units.last_mut()) {
            last.items.end = at + 1;
            last.range.to = last.range.to.max(item.range.to);
            // Results stand in call order, so a later item can have an earlier position.
            last.range.from = last.range.from.min(item.range.from);
            last.tokens += item.tokens;
            continue;
        }
        let kind = match item.kind {
            ViewItemKind::Typed => ViewUnitKind::Typed,
            ViewItemKind::Note => ViewUnitKind::Note,
            ViewItemKind::Summary(_) | ViewItemKind::Removed(_) => ViewUnitKind::Compacted,
            ViewItemKind::Assistant | ViewItemKind::Result { .. } => ViewUnitKind::Step,
        };
        turn += usize::from(kind == ViewUnitKind::Typed);
        units.push(ViewUnit {
            items: at..at + 1,
            range: item.range,
            tokens: item.tokens,
            kind,
            turn,
            pinned: false,
        });
    }
    for unit in &mut units {
        unit.pinned = pinned.iter().any(|range| range.overlaps(&unit.range));
    }
    units
}
