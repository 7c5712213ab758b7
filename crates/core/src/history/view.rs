//! The view: log entries and edits, projected into the messages that the model is shown.

use std::sync::Arc;

use super::omissions::without_parts;
use super::{CLEARED, ViewEditState};
use crate::derived_cache::LazyValue;
use crate::estimate::{MessageTokenCounter, TokensByScript};
use crate::event::PartialAnswerReason;
use crate::ids::{EditId, LogHandle, LogRange, Seq};
use crate::message::{Message, Part, Role, ToolCall, ToolResult, ToolStatus};
use crate::retention_report::{SentenceFacts, SharedSentences};
use crate::truncate::MARKER;

mod projection;
mod sent_form;
mod units;

pub(crate) use projection::{merged, span};
pub(super) use projection::{rebuild, result_position};
#[doc(hidden)]
pub use sent_form::join;
use sent_form::to_sent_form;
pub(crate) use sent_form::{is_object, sent_groups};
pub(super) use sent_form::{native_bytes, unsent_reasoning};
#[doc(hidden)]
pub use units::units;
pub use units::{ViewUnit, ViewUnitKind};

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
#[non_exhaustive]
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
#[non_exhaustive]
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
        let shown = to_sent_form(seq, &message, &kind, before);
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
        self.shown = to_sent_form(self.seq, &message, &self.kind, before);
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
    placeholder_groups(seq, ResultExcerpt { text: lines, cut: false }, counter, has_recall)
}

/// Returns the tokens of the result that is stored at `seq` if the view shows only its beginning and end in `excerpt`.
pub(crate) fn cut_groups(
    seq: Seq,
    excerpt: &str,
    counter: &MessageTokenCounter,
    has_recall: bool,
) -> TokensByScript {
    placeholder_groups(seq, ResultExcerpt { text: excerpt, cut: true }, counter, has_recall)
}

fn placeholder_groups(
    seq: Seq,
    excerpt: ResultExcerpt<'_>,
    counter: &MessageTokenCounter,
    has_recall: bool,
) -> TokensByScript {
    // Call id and status are not counted, so an empty result stands for the real one.
    let result = super::closing_result(&"".into(), ToolStatus::Completed, "");
    sent_groups(&cleared_message(seq, &result, excerpt, has_recall), counter)
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
