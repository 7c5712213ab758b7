//! Pinned facts: the state of the work, extracted from the log by a program. The facts hold none of the user's
//! own words, which a shortened view quotes.
//!
//! The extraction reads the stored messages and never a summary. The twentieth compaction therefore loses
//! nothing that the first one kept. One pass over any part of the log is enough, without a model and in bounded
//! memory. Equal messages give equal text.
//!
//! Tool output is untrusted material. Output shows the endings of calls, error lines and the names that exist,
//! but never becomes a todo. Every item is one line. A line that begins with a mark of the view is quoted, and
//! text that looks like a handle is written `lh\:12`.
//!
//! Each class has a limit, beyond which the oldest entries go. No item is longer than 1,000 bytes. The limits
//! are:
//!
//! - 512 todos, 2,048 files, 512 facts, 128 errors, 256 commands,
//! - 256 identifiers, and 4,096 that wait for a second sighting,
//! - 16,384 names in use, 256 values, 64 tools, 512 calls without an outcome.

mod bounded_fact_map;
mod cache;
mod facts;
mod files;
mod identifier_counts;
mod line;
mod names;
mod outcomes;
mod render;
mod shell;
mod todos;
mod tools;
mod values;

use serde_json::{Map, Value};

use crate::estimate::MessageTokenCounter;
use crate::event::PartialAnswerReason;
use crate::history::{LogEntry, LogEntryKind};
use crate::ids::Seq;
use crate::message::{Message, Part, ToolCall, ToolResult, ToolStatus};
use crate::parallel;
use crate::retention_report::facts::text_bytes;
use bounded_fact_map::BoundedFactMap;
pub(crate) use cache::PinnedFactsCache;
use facts::ToolFacts;
use files::FileAccess;
pub use files::FileAction;
use identifier_counts::IdentifierCounts;
use names::{NameSource, NameTracker};
use outcomes::{OutcomeTracker, TrackedCall};
pub(crate) use render::{TOOLS_TITLE, is_facts_title};
use todos::{TodoListUpdate, TodoTracker};
use values::{SettingTracker, ValueSource};

const MAX_FILES: usize = 2_048;
const MAX_TOOLS: usize = 64;
const MAX_PENDING: usize = 512;

/// The part of a call's arguments that is read, in bytes. A longer object is no JSON after the cut and counts as empty.
const MAX_ARGUMENT_BYTES: usize = 1 << 20;

/// The facts that a part of the log states, class by class.
///
/// ```
/// use longhaul_core::{estimate::MessageTokenCounter, pinned_facts::PinnedFacts};
/// assert_eq!(PinnedFacts::default().render(1_000, &MessageTokenCounter::default()), "");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PinnedFacts {
    todos: TodoTracker,
    files: BoundedFactMap<FileAction>,
    /// The number of changed files among those that were removed because there were too many.
    evicted_changes: u64,
    facts: ToolFacts,
    outcomes: OutcomeTracker,
    names: NameTracker,
    values: SettingTracker,
    words: IdentifierCounts,
    /// The number of calls of each tool.
    tools: BoundedFactMap<u64>,
    /// Calls without an outcome, by their ids.
    pending: BoundedFactMap<PendingCallFacts>,
    /// The file that an editor has open, for editors whose edits name no file.
    open_file: Option<String>,
    /// `true` if the reading model lacks the tool `recall`.
    without_recall: bool,
}

/// The effects of a call, which count once its outcome reports success.
#[derive(Clone, Debug, PartialEq)]
struct PendingCallFacts {
    asked: TrackedCall,
    touches: Vec<FileAccess>,
    list: Option<TodoListUpdate>,
}

impl Default for PinnedFacts {
    fn default() -> Self {
        Self {
            todos: TodoTracker::default(),
            files: BoundedFactMap::new(MAX_FILES),
            evicted_changes: 0,
            facts: ToolFacts::default(),
            outcomes: OutcomeTracker::default(),
            names: NameTracker::default(),
            values: SettingTracker::default(),
            words: IdentifierCounts::default(),
            tools: BoundedFactMap::new(MAX_TOOLS),
            pending: BoundedFactMap::new(MAX_PENDING),
            open_file: None,
            without_recall: false,
        }
    }
}

impl PinnedFacts {
    /// Extracts the pinned facts of messages, given in log order.
    pub fn read<'a>(entries: impl IntoIterator<Item = &'a LogEntry>) -> Self {
        let mut ledger = Self::default();
        // Messages and never earlier summaries are read, so that the twentieth compaction keeps what the first one did
        // (decision 0017).
        entries.into_iter().for_each(|entry| ledger.extend(entry));
        ledger
    }

    /// Marks the facts as read by a model without the tool `recall`: omitted items are counted, but not offered.
    #[must_use]
    pub fn without_recall(self) -> Self {
        Self { without_recall: true, ..self }
    }

    /// Returns empty pinned facts for a model with or without the tool `recall`.
    fn for_model(has_recall: bool) -> Self {
        Self { without_recall: !has_recall, ..Self::default() }
    }

    /// Adds the facts of one message, which must be newer than all earlier ones. A call counts once its outcome is
    /// there.
    pub fn extend(&mut self, entry: &LogEntry) {
        read_words(&mut self.words, entry);
        self.read_state(entry);
    }

    /// Adds the facts of several messages, which must be newer than all earlier ones.
    fn extend_all(&mut self, entries: &[LogEntry]) {
        let bytes: usize = entries.iter().map(|entry| text_bytes(&entry.message)).sum();
        if bytes < parallel::LEAST_BYTES {
            return entries.iter().for_each(|entry| self.extend(entry));
        }
        // The names in use take about as long as all the rest, and neither reads the other.
        let mut words = std::mem::take(&mut self.words);
        let read_all_words = || {
            entries.iter().for_each(|entry| read_words(&mut words, entry));
            words
        };
        let (words, ()) =
            parallel::join(read_all_words, || entries.iter().for_each(|entry| self.read_state(entry)));
        self.words = words;
    }

    /// Reads everything but the names in use.
    fn read_state(&mut self, entry: &LogEntry) {
        match &entry.kind {
            LogEntryKind::Typed => self.read_typed(entry.seq, &entry.message),
            LogEntryKind::Note | LogEntryKind::Assistant(Some(PartialAnswerReason::Lost)) => {}
            LogEntryKind::Assistant(_) => self.read_answer(entry.seq, &entry.message),
            LogEntryKind::Result { .. } => self.read_results(entry.seq, &entry.message),
        }
    }

    fn read_typed(&mut self, at: Seq, message: &Message) {
        for text in message.parts.iter().filter_map(Part::as_text) {
            self.todos.read_checkboxes(text);
            self.names.read_text(at, NameSource::Speaker, text);
            self.values.read(at, ValueSource::Typed, text);
        }
    }

    fn read_answer(&mut self, at: Seq, message: &Message) {
        for part in &message.parts {
            match part {
                Part::Text(text) => {
                    self.todos.read_checkboxes(&text.text);
                    self.names.read_text(at, NameSource::Speaker, &text.text);
                    self.values.read(at, ValueSource::Model, &text.text);
                }
                Part::ToolCall(call) => self.read_call(at, call),
                _ => {}
            }
        }
    }

    fn read_call(&mut self, at: Seq, call: &ToolCall) {
        // A model may invent a name of any length, and the limit of the class counts names and not bytes.
        let name = line::head(&call.name, 64);
        match self.tools.get_mut(name) {
            Some(count) => *count += 1,
            None => _ = self.tools.put(name, 1),
        }
        let arguments = arguments(call);
        // Identifiers come from the call itself, because even a failed call shows which values the model needs. Files
        // and todos wait for the outcome.
        self.names.read_arguments(at, &call.name, &arguments);
        let pending = PendingCallFacts {
            asked: TrackedCall::new(&call.name, &arguments, line::head(&call.arguments, 2_000)),
            touches: self.touches(&call.name, &arguments),
            list: todos::list(&call.name, &arguments),
        };
        self.pending.put(call.call_id.as_str(), pending);
    }

    /// Returns the files that a call works on. Some editors name their open file only in the call that opens the file.
    fn touches(&mut self, tool: &str, arguments: &Map<String, Value>) -> Vec<FileAccess> {
        let touches = files::touches(tool, arguments);
        let tool = tools::plain(tool);
        if matches!(tool.as_str(), "open" | "create")
            && let Some(touch) = touches.first()
        {
            self.open_file = Some(touch.path.clone());
        }
        match &self.open_file {
            Some(path) if tool == "edit" && touches.is_empty() => {
                vec![FileAccess { verb: FileAction::Modified, path: path.clone() }]
            }
            _ => touches,
        }
    }

    fn read_results(&mut self, at: Seq, message: &Message) {
        for part in &message.parts {
            let Part::ToolResult(result) = part else { continue };
            for text in result.content.iter().filter_map(Part::as_text) {
                self.names.read_text(at, NameSource::Tool, text);
                self.values.read(at, ValueSource::Tool, text);
            }
            // Facts are read before the outcome, which removes the pending call and with it the path of the file.
            let source = self.pending.get(result.call_id.as_str()).and_then(|call| call.touches.first());
            let source = source.map(|touch| touch.path.clone());
            for text in result.content.iter().filter_map(Part::as_text) {
                self.facts.read(source.as_deref(), text);
            }
            self.read_outcome(result);
        }
    }

    fn read_outcome(&mut self, result: &ToolResult) {
        let Some(call) = self.pending.take(result.call_id.as_str()) else { return };
        if !self.outcomes.read(&call.asked, result) {
            return;
        }
        for touch in call.touches {
            self.record_file_access(&touch, result);
        }
        // An interrupted call may have changed files, but its list of todos is not known to have arrived.
        if let Some(list) = call.list.filter(|_| result.status == ToolStatus::Completed) {
            self.todos.apply(list);
        }
    }

    fn record_file_access(&mut self, touch: &FileAccess, result: &ToolResult) {
        let known = self.files.get(&touch.path).copied();
        let first = result.content.iter().find_map(Part::as_text).unwrap_or_default();
        let verb = match (touch.verb, known) {
            // Only the output of a tool that writes says whether the file existed before.
            (FileAction::Created, None) if says_updated(first) => FileAction::Modified,
            (verb, None) => verb,
            (verb, Some(known)) => known.then(verb),
        };
        // Another read keeps the file's place in the order; another change makes the file the newest.
        if touch.verb != FileAction::Read || known != Some(verb) {
            let evicted = self.files.put(&touch.path, verb);
            self.evicted_changes += u64::from(evicted.is_some_and(|verb| verb != FileAction::Read));
        }
    }

    /// Returns the files with the strongest action on each: changed files first, then files only read, the newest last.
    pub fn files(&self) -> impl Iterator<Item = (&str, FileAction)> {
        self.changed_files().chain(self.read_files().map(|path| (path, FileAction::Read)))
    }

    fn changed_files(&self) -> impl Iterator<Item = (&str, FileAction)> {
        let changed = self.files.iter().filter(|(_, verb)| **verb != FileAction::Read);
        changed.map(|(path, verb)| (path, *verb))
    }

    fn read_files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().filter(|(_, verb)| **verb == FileAction::Read).map(|(path, _)| path)
    }

    /// Returns the unfinished todos in the order in which they came up.
    pub fn open_todos(&self) -> impl Iterator<Item = &str> {
        self.todos.open().map(|(text, _)| text)
    }

    /// Renders the facts as text of at most `limit_tokens`, as `counter` counts them; empty if nothing fits.
    ///
    /// Each class with an entry has a section. If not all sections fit, open todos and files come first, then
    /// facts, errors, commands, identifiers, values and tools. Within a class the newest entries stay. One line
    /// of each class counts the omitted entries, if that line fits.
    pub fn render(&self, limit_tokens: u64, counter: &MessageTokenCounter) -> String {
        render::fit(&render::sections(self), limit_tokens, counter)
    }

    /// Renders only the sections that come first: open todos and files.
    pub(crate) fn render_files_and_todos(&self, limit_tokens: u64, counter: &MessageTokenCounter) -> String {
        let sections = render::sections(self);
        render::fit(render::first(&sections), limit_tokens, counter)
    }

    /// Renders the facts, and fills the remaining room with one line of names, the most used first.
    ///
    /// Todos and files come whole if they fit. The other classes share a quarter of `limit_tokens`, and the room that the
    /// names leave.
    pub fn render_with_names(&self, limit_tokens: u64, counter: &MessageTokenCounter) -> String {
        let sections = render::sections(self);
        // Names cost few tokens, and later steps need them most often (decision 0017 has the measurement). The other
        // classes must leave room for them.
        let first = counter.text(&render::fit(render::first(&sections), limit_tokens, counter));
        let names = self.words.most_used();
        let render = |facts_tokens: u64| {
            let text = render::fit(&sections, limit_tokens.min(facts_tokens), counter);
            let room = limit_tokens.saturating_sub(counter.text(&text));
            render::with_names(text, &names, room, counter)
        };
        let text = render(first + limit_tokens / 4);
        // Short sessions have few names, which leave most of their room.
        let left = limit_tokens.saturating_sub(counter.text(&text));
        if left == 0 {
            return text;
        }
        let more = render(first + limit_tokens / 4 + left);
        // A fact may name what stood in the line of names, so the second text is rarely longer than the limit.
        if counter.text(&more) <= limit_tokens { more } else { text }
    }
}

/// Reads the names in use. A lost answer is shown to people only, and a note is text of the runtime: neither states facts
/// for the model.
fn read_words(words: &mut IdentifierCounts, entry: &LogEntry) {
    if !matches!(entry.kind, LogEntryKind::Note | LogEntryKind::Assistant(Some(PartialAnswerReason::Lost))) {
        words.read(entry.seq, &entry.message);
    }
}

/// Returns the arguments of a call as an object. Text that is no object gives an empty one, or the raw patch of a tool
/// that takes one.
fn arguments(call: &ToolCall) -> Map<String, Value> {
    let text = line::head(&call.arguments, MAX_ARGUMENT_BYTES);
    serde_json::from_str(text).unwrap_or_else(|_| {
        // OpenAI's models call `apply_patch` with the patch itself as the argument, without any JSON.
        let is_patch = tools::plain(&call.name).contains("patch");
        let patch = is_patch.then(|| ("patch".to_owned(), Value::from(text)));
        patch.into_iter().collect()
    })
}

/// Returns whether the output of a tool says that the written file existed before.
fn says_updated(output: &str) -> bool {
    // Only the beginning counts, because some tools quote the new content behind their message.
    let start = line::head(output.trim_start(), 200).to_ascii_lowercase();
    ["has been updated", "overwr", "updated"].iter().any(|word| start.contains(word))
}

#[cfg(test)]
mod tests;
