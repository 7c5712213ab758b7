//! The ledger: the state of the work, taken from the log by program. The user's own words are no part of it: a shortened
//! view quotes them.
//!
//! It reads the stored messages, never a summary of them, so it does not wear off with the number of compactions.
//! One pass over any part of the log, no model, bounded memory, and equal messages give equal text.
//!
//! What tools put out is material. It shows how calls ended, which error lines they gave and which names exist; it
//! never becomes a todo, and every item is one line that can be read as nothing else (a line that
//! begins with a mark of ours is quoted, what reads like a handle is written `lh\:12`).
//!
//! At most this much is kept, the oldest of a class going first: 512 todos,
//! 2,048 files, 512 facts, 128 errors, 256 commands, 256 identifiers (and 4,096 that wait for being seen again), 16,384 names in
//! use, 256 values, 64 tools, 512 calls without an outcome. No item is longer than 1,000 bytes.

mod cache;
mod facts;
mod files;
mod kept;
mod line;
mod names;
mod outcomes;
mod render;
mod shell;
mod todos;
mod tools;
mod values;
mod words;

use serde_json::{Map, Value};

use crate::estimate::MessageTokenCounter;
use crate::event::PartialAnswerReason;
use crate::history::{LogEntry, LogEntryKind};
use crate::ids::Seq;
use crate::message::{Message, Part, ToolCall, ToolResult, ToolStatus};
pub(crate) use cache::PinnedFactsCache;
use facts::ToolFacts;
use files::FileAccess;
pub use files::FileAction;
use kept::BoundedFactMap;
use names::{NameSource, NameTracker};
use outcomes::{OutcomeTracker, TrackedCall};
use todos::{TodoListUpdate, TodoTracker};
use values::{SettingTracker, ValueSource};
use words::IdentifierCounts;

const MOST_FILES: usize = 2_048;
const MOST_TOOLS: usize = 64;
const MOST_PENDING: usize = 512;

/// Longer arguments are not read for what they say. In bytes.
const MOST_ARGUMENT_BYTES: usize = 1 << 20;

/// What a part of the log says, class by class.
///
/// ```
/// use longhaul_core::{estimate::MessageTokenCounter, pinned_facts::PinnedFacts};
/// assert_eq!(PinnedFacts::default().render(1_000, &MessageTokenCounter::default()), "");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PinnedFacts {
    todos: TodoTracker,
    files: BoundedFactMap<FileAction>,
    facts: ToolFacts,
    outcomes: OutcomeTracker,
    names: NameTracker,
    values: SettingTracker,
    words: IdentifierCounts,
    /// How often each tool was called.
    tools: BoundedFactMap<u64>,
    /// Calls without an outcome, by their ids.
    pending: BoundedFactMap<PendingCallFacts>,
    /// What an editor has open whose edits name no file.
    open_file: Option<String>,
    /// Who reads it has no tool `recall`.
    without_recall: bool,
}

/// What a call will have done when its outcome says so.
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
            files: BoundedFactMap::new(MOST_FILES),
            facts: ToolFacts::default(),
            outcomes: OutcomeTracker::default(),
            names: NameTracker::default(),
            values: SettingTracker::default(),
            words: IdentifierCounts::default(),
            tools: BoundedFactMap::new(MOST_TOOLS),
            pending: BoundedFactMap::new(MOST_PENDING),
            open_file: None,
            without_recall: false,
        }
    }
}

impl PinnedFacts {
    /// The ledger of these messages, in log order.
    pub fn read<'a>(entries: impl IntoIterator<Item = &'a LogEntry>) -> Self {
        let mut ledger = Self::default();
        entries.into_iter().for_each(|entry| ledger.extend(entry));
        ledger
    }

    /// The same for a model that has no tool `recall`: what is left out is counted and not promised.
    #[must_use]
    pub fn without_recall(self) -> Self {
        Self { without_recall: true, ..self }
    }

    /// Returns an empty ledger for a model that has the tool `recall`, or has not.
    fn for_model(has_recall: bool) -> Self {
        Self { without_recall: !has_recall, ..Self::default() }
    }

    /// Adds one message, newer than all before. A call counts once its outcome is there.
    pub fn extend(&mut self, entry: &LogEntry) {
        if !matches!(
            entry.kind,
            LogEntryKind::Note | LogEntryKind::Assistant(Some(PartialAnswerReason::Lost))
        ) {
            self.words.read(entry.seq, &entry.message);
        }
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
        let name = line::head(&call.name, 64);
        match self.tools.get_mut(name) {
            Some(count) => *count += 1,
            None => self.tools.put(name, 1),
        }
        let arguments = arguments(call);
        self.names.read_arguments(at, &call.name, &arguments);
        let pending = PendingCallFacts {
            asked: TrackedCall::new(&call.name, &arguments, line::head(&call.arguments, 2_000)),
            touches: self.touches(&call.name, &arguments),
            list: todos::list(&call.name, &arguments),
        };
        self.pending.put(call.call_id.as_str(), pending);
    }

    /// Editors that work on what they have open name a file only when they open it.
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
        if let Some(list) = call.list.filter(|_| result.status == ToolStatus::Completed) {
            self.todos.apply(list);
        }
    }

    fn record_file_access(&mut self, touch: &FileAccess, result: &ToolResult) {
        let known = self.files.get(&touch.path).copied();
        let first = result.content.iter().find_map(Part::as_text).unwrap_or_default();
        let verb = match (touch.verb, known) {
            // A tool that writes says whether there was something before.
            (FileAction::Created, None) if says_updated(first) => FileAction::Modified,
            (verb, None) => verb,
            (verb, Some(known)) => known.then(verb),
        };
        // Looking again is no news; changing again is.
        if touch.verb != FileAction::Read || known != Some(verb) {
            self.files.put(&touch.path, verb);
        }
    }

    /// Files by the strongest of what was done to them: those changed, then those only read, the newest last.
    pub fn files(&self) -> impl Iterator<Item = (&str, FileAction)> {
        let of = |read: bool| self.files.iter().filter(move |(_, verb)| (**verb == FileAction::Read) == read);
        of(false).chain(of(true)).map(|(path, verb)| (path, *verb))
    }

    /// Todos that are not finished, in the order in which they came up.
    pub fn open_todos(&self) -> impl Iterator<Item = &str> {
        self.todos.open().map(|(text, _)| text)
    }

    /// The ledger as text of at most `limit_tokens`, as `counter` counts them; empty if nothing fits.
    ///
    /// One section for each class that has something. If not all fits, open todos and files come first, then facts,
    /// errors, commands, identifiers, values and tools; within a class the newest. What is left out is counted in one line of its class, as far as that line fits.
    pub fn render(&self, limit_tokens: u64, counter: &MessageTokenCounter) -> String {
        render::fit(&render::sections(self), limit_tokens, counter)
    }

    /// The ledger, and in the room that is left the names that the work revolves around, the most used first, on one
    /// line: they cost little and are what is used again. What the ledger's classes say besides todos and files gets a
    /// quarter of the room.
    pub fn render_with_names(&self, limit_tokens: u64, counter: &MessageTokenCounter) -> String {
        let sections = render::sections(self);
        let first = counter.text(&render::fit(render::first(&sections), limit_tokens, counter));
        let text = render::fit(&sections, limit_tokens.min(first + limit_tokens / 4), counter);
        let room = limit_tokens.saturating_sub(counter.text(&text));
        render::with_names(text, self.words.most_used(), room, counter)
    }
}

/// Arguments that are no object, or too long, say nothing; but some tools take a patch as it is.
fn arguments(call: &ToolCall) -> Map<String, Value> {
    let text = line::head(&call.arguments, MOST_ARGUMENT_BYTES);
    serde_json::from_str(text).unwrap_or_else(|_| {
        let is_patch = tools::plain(&call.name).contains("patch");
        let patch = is_patch.then(|| ("patch".to_owned(), Value::from(text)));
        patch.into_iter().collect()
    })
}

fn says_updated(output: &str) -> bool {
    let start = line::head(output.trim_start(), 200).to_ascii_lowercase();
    ["has been updated", "overwr", "updated"].iter().any(|word| start.contains(word))
}

#[cfg(test)]
mod tests;
