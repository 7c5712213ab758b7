//! A recorded session: all events, whatever the agent was shown of them.

use std::sync::{Arc, OnceLock};

use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::event::{Event, EventBody, PartialAnswerReason};
use longhaul_core::history::{History, HistoryFoldError, LogEntry, LogEntryKind, ViewItem};
use longhaul_core::ids::{Millis, Seq};
use longhaul_core::message::{Message, Part, ToolCall};

use crate::lab::needed_later::NeedIndex;
use crate::lab::policy::ViewSegment;

/// One recorded session.
#[derive(Clone, Debug)]
pub(crate) struct SessionRecording {
    /// The name in tables.
    pub(crate) name: String,
    /// The group of sessions from one source, within which the recording is compared.
    pub(crate) group: String,
    /// `true` if a program made the recording, instead of an agent's work.
    pub(crate) synthetic: bool,
    /// Tokens of system prompt and tools in every request.
    pub(crate) fixed_tokens: u64,
    /// The text of system prompt and tools, if known. The text is always in view.
    pub(crate) fixed_text: Arc<str>,
    /// The log of the session, without edits of the view: an edit only says what that agent was shown.
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests compare whole logs"))]
    pub(crate) events: Vec<Event>,
    /// The messages in log order.
    pub(crate) entries: Vec<RecordedMessage>,
    /// The counter that produced the token counts.
    pub(crate) counter: MessageTokenCounter,
    /// For each entry the id of its text: the [`ViewSegment::id`] of the unchanged message.
    ids: Vec<u64>,
    study: OnceLock<Arc<NeedIndex>>,
}

/// One message of a recording.
#[derive(Clone, Debug)]
pub(crate) struct RecordedMessage {
    /// The position in the log.
    pub(crate) seq: Seq,
    /// The time of recording, if the format has one.
    pub(crate) at: Option<Millis>,
    /// The message.
    pub(crate) message: Arc<Message>,
    /// The kind of the log entry.
    pub(crate) kind: LogEntryKind,
    /// The tokens of the message in a request. 0 if it is never sent, like an answer that was lost on the
    /// way.
    pub(crate) tokens: u64,
    /// The whole text of the message: words, calls with their arguments, results.
    pub(crate) text: Arc<str>,
}

impl SessionRecording {
    /// Creates a recording of a log. Edits of the view are dropped: they only say what that agent was shown.
    ///
    /// # Errors
    /// [`HistoryFoldError`] at the first event that does not follow.
    pub(crate) fn of(
        name: impl Into<String>,
        group: impl Into<String>,
        mut events: Vec<Event>,
        fixed_tokens: u64,
        counter: MessageTokenCounter,
    ) -> Result<Self, HistoryFoldError> {
        // Edits are dropped before the fold, so that the history shows every message in full.
        events.iter_mut().for_each(forget_edit);
        let history = History::fold_with(counter.clone(), &events)?;
        let entries = entries(&history, &events);
        let ids = entries.iter().map(|entry| ViewSegment::new(entry.text.clone(), 0).id).collect();
        Ok(Self {
            name: name.into(),
            group: group.into(),
            synthetic: false,
            fixed_tokens,
            fixed_text: "".into(),
            events,
            entries,
            counter,
            ids,
            study: OnceLock::new(),
        })
    }

    /// Sets the text of system prompt and tools.
    #[must_use]
    pub(crate) fn with_fixed_text(self, text: impl Into<Arc<str>>) -> Self {
        // The index was made with the old text, so a new one must be computed.
        Self { fixed_text: text.into(), study: OnceLock::new(), ..self }
    }

    /// Labels the recording as made by a program.
    #[must_use]
    pub(crate) fn made_by_program(self) -> Self {
        Self { synthetic: true, ..self }
    }

    /// Returns the model calls: indices of the assistant messages, in order.
    pub(crate) fn answers(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.entries.len()).filter(|at| matches!(self.entries[*at].kind, LogEntryKind::Assistant(_)))
    }

    /// Returns the time of the model call that produced the entry `next`: the time of the newest message
    /// before it.
    pub(crate) fn asked_at(&self, next: usize) -> Option<Millis> {
        next.checked_sub(1).and_then(|before| self.entries[before].at)
    }

    /// Returns the tokens of every request besides its messages: system prompt, tools, and the start of
    /// the answer.
    pub(crate) fn overhead_tokens(&self) -> u64 {
        self.fixed_tokens + self.counter.framing().reply
    }

    /// Returns the largest request if nothing is ever left out, in tokens.
    pub(crate) fn peak_tokens(&self) -> u64 {
        // Messages behind the last answer were never part of a request.
        let last = self.answers().last().unwrap_or(0);
        self.overhead_tokens() + self.entries[..last].iter().map(|entry| entry.tokens).sum::<u64>()
    }

    /// Returns the unchanged entry, ready to be sent. Returns `None` if never sent.
    pub(crate) fn segment(&self, at: usize) -> Option<ViewSegment> {
        let entry = &self.entries[at];
        let segment = ViewSegment { id: self.ids[at], tokens: entry.tokens, text: entry.text.clone() };
        (entry.tokens > 0).then_some(segment)
    }

    /// Returns the id of an entry's text: the [`ViewSegment::id`] of the unchanged message.
    pub(crate) fn id(&self, at: usize) -> u64 {
        self.ids[at]
    }

    /// Returns the tokens billed for an answer when the model wrote it, reasoning included.
    pub(crate) fn output_tokens(&self, at: usize) -> u64 {
        self.entries[at].message.parts.iter().map(|part| self.counter.part(part)).sum()
    }

    /// Returns the index of the items used later. The index is computed once.
    pub(crate) fn need_index(&self) -> &NeedIndex {
        self.study.get_or_init(|| Arc::new(NeedIndex::of(self)))
    }
}

/// Replaces the body of an edit. The placeholder keeps the positions of all other events.
fn forget_edit(event: &mut Event) {
    if let EventBody::ViewEdited(edit) = &event.body {
        // Events have consecutive numbers, so an event cannot simply be removed.
        event.body = EventBody::RangeReleased { edit_id: edit.id.clone() };
    }
}

fn entries(history: &History, events: &[Event]) -> Vec<RecordedMessage> {
    let mut view: Vec<_> = history.view().iter().collect();
    // The view has results in the order of their calls; here the log's order counts.
    view.sort_by_key(|item| item.range.from);
    let entry = |entry: &LogEntry| {
        let found = view.binary_search_by_key(&entry.begins, |item| item.range.from);
        let shown = found.ok().map(|at| view[at]);
        // A paused answer is whole in the view, but each of its pieces is an entry.
        let whole = shown.filter(|item| item.range.to > item.range.from);
        let message = shown.filter(|_| whole.is_none()).map_or(&entry.message, |item| &item.message);
        // Numbers of events begin at 1.
        let at = events.get(entry.seq as usize - 1).map(|event| event.at);
        RecordedMessage {
            seq: entry.seq,
            // Formats without times give 0.
            at: at.filter(|at| *at > 0),
            message: entry.message.clone(),
            kind: entry.kind.clone(),
            tokens: match whole {
                Some(whole) => piece_tokens(history, entry, whole),
                None => shown.map_or(0, |item| item.tokens),
            },
            text: text_of(message).into(),
        }
    };
    history.entries().iter().map(entry).collect()
}

/// Returns the tokens added by one piece to its answer. All pieces together have as many as the whole.
fn piece_tokens(history: &History, piece: &LogEntry, whole: &ViewItem) -> u64 {
    if is_lost(piece) {
        return 0;
    }
    // The last piece gets the rest, so that the sum is exact.
    if piece.seq < whole.range.to {
        return own_tokens(history, piece);
    }
    let before = history
        .entries()
        .iter()
        .filter(|other| other.begins == piece.begins && other.seq < piece.seq && !is_lost(other));
    whole.tokens.saturating_sub(before.map(|piece| own_tokens(history, piece)).sum::<u64>())
}

fn own_tokens(history: &History, piece: &LogEntry) -> u64 {
    let sent = piece.message.parts.iter().filter(|part| !matches!(part, Part::Reasoning(_)));
    sent.map(|part| history.counter().part(part)).sum()
}

fn is_lost(piece: &LogEntry) -> bool {
    piece.kind == LogEntryKind::Assistant(Some(PartialAnswerReason::Lost))
}

/// Returns a message as text: words, calls with their arguments, results. Arguments have no JSON escapes and
/// one field a line, so that equal words are equal everywhere.
pub(crate) fn text_of(message: &Message) -> String {
    let mut text = String::new();
    message.parts.iter().for_each(|part| push(&mut text, part));
    text
}

fn push(text: &mut String, part: &Part) {
    match part {
        Part::Text(said) => text.push_str(&said.text),
        Part::ToolCall(call) => push_call(text, call),
        Part::ToolResult(result) => result.content.iter().for_each(|part| push(text, part)),
        Part::Image(media) | Part::File(media) => {
            text.push_str(&format!("[{} {}]", media.media_type, media.blob));
        }
        _ => {}
    }
}

fn push_call(text: &mut String, call: &ToolCall) {
    text.push_str(&format!("\n[call {}]\n", call.name));
    match serde_json::from_str(&call.arguments) {
        Ok(arguments) => push_value(text, &arguments),
        // Arguments that are no JSON are shown as the model wrote them.
        Err(_) => text.push_str(&call.arguments),
    }
}

fn push_value(text: &mut String, value: &serde_json::Value) {
    match value {
        serde_json::Value::String(said) => text.push_str(said),
        serde_json::Value::Array(items) => items.iter().for_each(|item| {
            push_value(text, item);
            text.push('\n');
        }),
        serde_json::Value::Object(fields) => fields.iter().for_each(|(name, field)| {
            text.push_str(name);
            text.push_str(": ");
            push_value(text, field);
            text.push('\n');
        }),
        other => text.push_str(&other.to_string()),
    }
}
