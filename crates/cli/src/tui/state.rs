//! The state of the interface: the transcript, the activity, the typed text. Keys and events enter; rows and
//! commands leave. The state knows no session, no clock and no terminal.

use longhaul_core::attempt::RetryPolicy;
use longhaul_core::ids::Millis;

use crate::commands::chat::paste::goes_on;
use crate::commands::chat::status::ActivityTracker;
use crate::commands::chat::terminal_chat::DoublePress;
use crate::commands::chat::texts;
use crate::term::meter::ContextMeterBar;
use crate::term::style::TextPainter;
use crate::term::text::{visible, width};
use crate::term::transcript::{ESCAPE, TranscriptRenderer, TranscriptTarget};
use crate::term::ui_event::UiEvent;
use crate::term::wrap::broken;

use super::completion::{CommandCompletion, SlashCommandHelp};
use super::editor::InputEditor;
use super::history::InputHistory;
use super::keys::KeyAction;

/// The time that a hint stays, in milliseconds.
const HINT: Millis = 4_000;

/// The widest line that is comfortable to read, in columns.
const WIDEST: usize = 100;

/// The hanging indent of a broken line, in columns.
const INDENT: usize = 7;

/// The minimum columns that are drawn for.
const NARROWEST: usize = 16;

/// A key's command for the owner of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UiCommand {
    /// A message, a command or an answer was entered.
    Entered(String),
    /// A waiting message gets another text. An empty text removes the message.
    Change { id: String, text: String },
    /// The run is to end.
    Cancel,
    /// The interface ends.
    Leave,
    /// The process is suspended, and the person is back in the shell.
    Suspend,
    /// Everything must be drawn again.
    Redraw,
}

/// A message that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueuedMessageRow {
    pub(crate) id: String,
    pub(crate) text: String,
    /// `true` if the message is text and nothing else. Such a message can be edited here.
    pub(crate) is_text: bool,
}

/// A question that waits for an answer.
#[derive(Clone, Debug)]
struct ApprovalPrompt {
    tool: String,
    /// The draft that was being written when the question came.
    draft: InputEditor,
}

/// The interface.
#[derive(Debug)]
pub(crate) struct UiState {
    /// The transcript of the conversation.
    pub(crate) transcript: TranscriptRenderer,
    /// The meter.
    pub(crate) meter: ContextMeterBar,
    pub(super) style: TextPainter,
    size: (usize, usize),
    pub(super) columns: usize,
    pub(super) rows: usize,
    pub(super) activity: ActivityTracker,
    /// The line that is coming in.
    pub(super) tail: String,
    pub(super) queue: Vec<QueuedMessageRow>,
    pub(super) is_busy: bool,
    pub(super) editor: InputEditor,
    history: InputHistory,
    pub(super) completion: CommandCompletion,
    asked: Option<ApprovalPrompt>,
    changing: Option<String>,
    hint: Option<(String, Millis)>,
    interrupted: DoublePress,
}

impl UiState {
    /// Creates an empty state, in a terminal of this size.
    pub(crate) fn new(
        style: TextPainter,
        columns: usize,
        rows: usize,
        commands: Vec<SlashCommandHelp>,
    ) -> Self {
        let activity = ActivityTracker::with_tools_apart();
        let mut state = Self {
            transcript: TranscriptRenderer::new(style, TranscriptTarget::Chat, columns).below_something(),
            meter: ContextMeterBar::default(),
            style,
            size: (columns, rows),
            columns,
            rows,
            activity,
            tail: String::new(),
            queue: Vec::new(),
            is_busy: false,
            editor: InputEditor::default(),
            history: InputHistory::default(),
            completion: CommandCompletion::new(commands),
            asked: None,
            changing: None,
            hint: None,
            interrupted: DoublePress::default(),
        };
        state.resize(columns, rows);
        state
    }

    /// Makes the rows of repeated calls say how long a call is repeated.
    pub(crate) fn with_retry(mut self, policy: RetryPolicy) -> Self {
        self.transcript = self.transcript.with_retry(policy, ESCAPE);
        self
    }

    /// Sets the size of the terminal.
    pub(crate) fn resize(&mut self, columns: usize, rows: usize) {
        self.size = (columns, rows);
        (self.columns, self.rows) = (columns.max(NARROWEST), rows.max(2));
        self.transcript.resize(self.width());
    }

    /// Returns the columns for text. The last column stays free, so that the cursor never wraps by itself.
    pub(crate) fn width(&self) -> usize {
        (self.columns - 1).min(WIDEST)
    }

    /// Returns the rows that were finished since the last call.
    pub(crate) fn finished(&mut self) -> String {
        self.tail.push_str(&self.transcript.output());
        // Rows in the scrollback cannot change any more, so an unfinished line stays live.
        let Some(end) = self.tail.rfind('\n') else { return String::new() };
        let rest = self.tail.split_off(end + 1);
        let lines = std::mem::replace(&mut self.tail, rest);
        lines.lines().map(|line| self.broken(line) + "\n").collect()
    }

    /// Breaks a line that was set for a wider terminal, or for none, to fit this one.
    pub(super) fn broken(&self, line: &str) -> String {
        let text = visible(line);
        if width(&text) < self.columns {
            return line.to_owned();
        }
        let indent = text.len() - text.trim_start().len();
        let hanging = if indent == 0 { INDENT } else { indent };
        broken(line, hanging, self.columns - 1)
    }

    /// Returns the remaining text, the unfinished line too.
    pub(crate) fn rest(&mut self) -> String {
        let mut rest = self.finished();
        rest.push_str(&std::mem::take(&mut self.tail));
        rest
    }

    /// Returns the columns and rows of the terminal.
    pub(crate) fn size(&self) -> (usize, usize) {
        self.size
    }

    /// Puts a text into the input.
    pub(crate) fn write(&mut self, text: &str) {
        self.editor.set(text);
    }

    /// Takes an event.
    pub(crate) fn take(&mut self, happening: &UiEvent, now: Millis) {
        self.activity.take(happening, now);
        self.transcript.take(happening, now);
    }

    /// Sets whether a run is active.
    pub(crate) fn set_busy(&mut self, is_busy: bool, works: bool) {
        self.is_busy = is_busy;
        if !is_busy && !works {
            self.activity.rest();
        }
    }

    /// Sets the waiting messages. A message that was taken during a change becomes a new one.
    pub(crate) fn set_queue(&mut self, queue: Vec<QueuedMessageRow>, now: Millis) {
        self.queue = queue;
        if self.changing.as_ref().is_some_and(|id| self.queue.iter().all(|waiting| waiting.id != *id)) {
            self.changing = None;
            self.hint(texts::TAKEN_MEANWHILE, now);
        }
    }

    /// Sets the tool of the open question. The draft waits until the question is answered.
    pub(crate) fn set_asked(&mut self, tool: Option<&str>) {
        match (tool, self.asked.take()) {
            // The next question keeps the draft that the first one set aside.
            (Some(tool), Some(asked)) => self.asked = Some(ApprovalPrompt { tool: tool.to_owned(), ..asked }),
            (Some(tool), None) => {
                let draft = std::mem::take(&mut self.editor);
                self.completion.restart();
                self.asked = Some(ApprovalPrompt { tool: tool.to_owned(), draft });
            }
            (None, Some(asked)) => self.editor = asked.draft,
            (None, None) => {}
        }
    }

    /// Returns the tool that waits for an answer.
    pub(super) fn asked(&self) -> Option<&str> {
        self.asked.as_ref().map(|asked| asked.tool.as_str())
    }

    /// Returns the position in the queue of the message that is being changed.
    pub(super) fn changing(&self) -> Option<usize> {
        let id = self.changing.as_ref()?;
        self.queue.iter().position(|waiting| waiting.id == *id).map(|at| at + 1)
    }

    /// Adds an input of an earlier chat to the history.
    pub(crate) fn remember(&mut self, text: &str) {
        self.history.remember(text);
    }

    /// Shows a hint for a few seconds.
    pub(crate) fn hint(&mut self, text: &str, now: Millis) {
        self.hint = Some((text.to_owned(), now + HINT));
    }

    /// Returns the present hint.
    pub(super) fn hinted(&self, now: Millis) -> Option<&str> {
        self.hint.as_ref().filter(|(_, until)| now < *until).map(|(text, _)| text.as_str())
    }

    /// Returns the text that may be completed: the start of a text of one word, and nothing else.
    pub(super) fn typed(&self) -> &str {
        self.editor.folded()
    }

    /// Handles a key's action. Returns a command if the owner of the session has to act.
    pub(crate) fn act(&mut self, action: KeyAction, now: Millis) -> Option<UiCommand> {
        match action {
            KeyAction::Enter => return self.enter(now),
            KeyAction::Escape if !self.completion.offers(self.typed()).is_empty() => {
                self.completion.decline(self.editor.folded());
                return None;
            }
            KeyAction::Escape => return self.interrupt(now, texts::ESCAPE_AGAIN),
            KeyAction::Interrupt => return self.interrupt(now, texts::INTERRUPT_AGAIN),
            // As in shells: Ctrl-D deletes in a text and leaves an empty input.
            KeyAction::DeleteOrLeave if self.editor.is_empty() => return Some(UiCommand::Leave),
            KeyAction::Redraw => return Some(UiCommand::Redraw),
            KeyAction::Suspend => return Some(UiCommand::Suspend),
            KeyAction::Up => self.up(),
            KeyAction::Down => self.down(),
            action => self.edit(action),
        }
        None
    }

    fn edit(&mut self, action: KeyAction) {
        let before = self.typed().to_owned();
        let editor = &mut self.editor;
        match action {
            KeyAction::Insert(c) => editor.insert(c),
            KeyAction::Paste(text) => editor.paste(&text),
            KeyAction::NewLine => editor.insert('\n'),
            KeyAction::Complete => self.complete(),
            KeyAction::DeleteBack => editor.delete_back(),
            KeyAction::DeleteForward | KeyAction::DeleteOrLeave => editor.delete_forward(),
            KeyAction::DeleteWordBack => editor.kill_word_back(),
            KeyAction::DeleteWordForward => editor.kill_word_forward(),
            KeyAction::DeleteToStart => editor.kill_to_start(),
            KeyAction::DeleteToEnd => editor.kill_to_end(),
            KeyAction::Yank => editor.yank(),
            KeyAction::Left => editor.left(),
            KeyAction::Right => editor.right(),
            KeyAction::WordLeft => editor.word_left(),
            KeyAction::WordRight => editor.word_right(),
            KeyAction::Start => editor.start(),
            KeyAction::End => editor.end(),
            _ => {}
        }
        if self.typed() != before {
            self.completion.restart();
        }
    }

    fn complete(&mut self) {
        if let Some(command) = self.completion.meant(self.typed()) {
            let more = if command.usage.contains(' ') { " " } else { "" };
            self.editor.set(&format!("{}{more}", command.name()));
        }
    }

    /// Moves up in the first of these that is there: the offers, the text, the queue, the history.
    fn up(&mut self) {
        if self.completion.offers(self.typed()).len() > 1 {
            return self.completion.step(self.editor.folded(), false);
        }
        // Only into an empty input, or the draft would be lost.
        let is_at_rest = self.editor.is_empty() && self.asked.is_none();
        if let Some(last) = self.queue.last().filter(|last| is_at_rest && last.is_text) {
            self.changing = Some(last.id.clone());
            return self.editor.set(&last.text.clone());
        }
        if self.editor.up(self.input_columns()) || self.changing.is_some() {
            return;
        }
        if let Some(text) = self.history.older(&self.editor.text()).map(str::to_owned) {
            self.recall(&text);
        }
    }

    fn down(&mut self) {
        if self.completion.offers(self.typed()).len() > 1 {
            return self.completion.step(self.editor.folded(), true);
        }
        if self.editor.down(self.input_columns()) || self.changing.is_some() {
            return;
        }
        if let Some(text) = self.history.newer().map(str::to_owned) {
            self.recall(&text);
        }
    }

    fn recall(&mut self, text: &str) {
        self.editor.set(text);
        self.completion.restart();
        // Without offers the up and down keys go on through the history.
        self.completion.decline(self.editor.folded());
    }

    fn enter(&mut self, now: Millis) -> Option<UiCommand> {
        let typed = self.typed().to_owned();
        let is_whole = self.completion.offers(&typed).iter().any(|command| command.name() == typed);
        match self.completion.meant(&typed) {
            Some(command) if !is_whole && command.needs_words() => {
                self.complete();
                return None;
            }
            Some(command) if !is_whole => self.editor.set(command.name()),
            // A backslash before Enter makes a new line, because many terminals cannot tell Shift-Enter from
            // Enter.
            _ if self.editor.cursor() == typed.len() && goes_on(&typed) => {
                self.editor.delete_back();
                self.editor.insert('\n');
                return None;
            }
            _ => {}
        }
        self.completion.restart();
        self.hint = None;
        let text = self.editor.take().trim_end().to_owned();
        if let Some(id) = self.changing.take() {
            return Some(UiCommand::Change { id, text });
        }
        // An answer to a question, such as `y`, is no input to repeat.
        if self.asked.is_none() || text.starts_with('/') {
            self.history.remember(&text);
        }
        if text.is_empty() {
            if self.asked.is_some() {
                self.hint(texts::ANSWER, now);
            }
            return None;
        }
        Some(UiCommand::Entered(text))
    }

    /// Handles Ctrl-C: the first cancels, the second leaves. If nothing can be cancelled, the draft is
    /// dropped first.
    fn interrupt(&mut self, now: Millis, again: &str) -> Option<UiCommand> {
        if self.changing.take().is_some() {
            self.editor.set("");
            return None;
        }
        if self.interrupted.is_second(now) {
            return Some(UiCommand::Leave);
        }
        if !self.is_busy && !self.editor.is_empty() {
            let text = self.editor.take();
            self.history.remember(&text);
            self.hint(texts::UP_BRINGS_BACK, now);
            return None;
        }
        self.interrupted.note(now);
        self.hint(again, now);
        self.is_busy.then_some(UiCommand::Cancel)
    }
}
