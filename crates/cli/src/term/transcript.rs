//! The printed conversation: messages with their speakers, one line for each tool call, one row for each
//! change of the view.

use std::collections::HashMap;
use std::time::Duration;

use longhaul::compaction::only_leaves_out;
use longhaul_core::attempt::RetryPolicy;
use longhaul_core::ids::Millis;

use super::human::{count, limit, short, wait};
use super::markdown::{MarkdownFormatter, MarkdownSpan};
use super::style::TextPainter;
use super::text::{visible, width};
use super::tool_row;
use super::ui_event::{
    NO_ROOM, RetryLimit, RunEndInfo, ToolCallInfo, ToolResultInfo, UiEvent, UndoOption, ViewEditInfo,
};
use super::wrap::{WordWrapper, broken, fitting, wrapped};

/// The number of columns before a message.
const INDENT: usize = 7;

/// The maximum number of a person's lines that are shown. Pasted files are longer.
const SAID_LINES: usize = 12;

/// The key that stops a wait in the full-screen chat.
pub(crate) const ESCAPE: &str = "Esc";

/// The key that stops a wait in all other places.
pub(crate) const CONTROL_C: &str = "Ctrl-C";

/// The facts for a person who waits until a call is repeated.
#[derive(Clone, Copy, Debug)]
struct RetryGuide {
    policy: RetryPolicy,
    stop_key: &'static str,
}

/// The target of the output. A reader's possible next steps depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TranscriptTarget {
    /// A chat, which has commands.
    Chat,
    /// A command's output, behind which a person has the shell.
    Shell,
}

/// The source of a paused answer's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PausedAnswerSource {
    /// The text was streamed as it was written.
    Streamed,
    /// Piece by piece, from the log.
    Stored,
}

/// A renderer that turns events into text.
#[derive(Debug)]
pub(crate) struct TranscriptRenderer {
    style: TextPainter,
    setting: TranscriptTarget,
    columns: usize,
    /// The columns at which the runtime's own rows are broken. `None` means the columns of text.
    row_columns: Option<usize>,
    /// `true` if the reason of an edit is printed.
    has_reasons: bool,
    /// The command that undoes an edit, up to the edit's name. `None` means its short form.
    undo_command: Option<String>,
    calls: HashMap<String, (ToolCallInfo, Option<Millis>)>,
    wrap: Option<WordWrapper>,
    /// The Markdown state of the streaming answer, where Markdown is shown.
    markdown: Option<MarkdownFormatter>,
    dequeued: bool,
    begun: bool,
    retried: String,
    /// The end of a wait, where it is known.
    retry: Option<RetryGuide>,
    /// Rows that wait until the line of a streaming answer is full.
    held: String,
    /// `true` if more of an answer has arrived since the last beat.
    moved: bool,
    /// The source of the text so far of an answer that continues.
    pieces: Option<PausedAnswerSource>,
    /// `true` if the current compaction got no summary.
    is_failed: bool,
    out: String,
}

impl TranscriptRenderer {
    /// Creates an empty transcript.
    pub(crate) fn new(style: TextPainter, setting: TranscriptTarget, columns: usize) -> Self {
        Self {
            style,
            setting,
            columns,
            row_columns: None,
            has_reasons: false,
            undo_command: None,
            calls: HashMap::new(),
            wrap: None,
            markdown: None,
            dequeued: false,
            begun: false,
            retried: String::new(),
            retry: None,
            held: String::new(),
            moved: false,
            pieces: None,
            is_failed: false,
            out: String::new(),
        }
    }

    /// Sets the columns at which the runtime's own rows are broken, apart from the columns of text.
    pub(crate) fn rows_of(mut self, columns: usize) -> Self {
        self.row_columns = Some(columns);
        self
    }

    /// Makes the row of a repeated call say how long the call is repeated, and which key stops it.
    pub(crate) fn with_retry(mut self, policy: RetryPolicy, stop_key: &'static str) -> Self {
        self.retry = Some(RetryGuide { policy, stop_key });
        self
    }

    /// Makes the reason follow the row of an edit.
    pub(crate) fn with_reasons(mut self) -> Self {
        self.has_reasons = true;
        self
    }

    /// Sets the command that undoes an edit, up to the edit's name. It names the session, so that it works as pasted.
    pub(crate) fn set_undo_command(&mut self, command: String) {
        self.undo_command = Some(command);
    }

    /// Makes the first turn keep its distance from text above.
    pub(crate) fn below_something(mut self) -> Self {
        self.begun = true;
        self
    }

    /// Sets the width of later lines.
    pub(crate) fn resize(&mut self, columns: usize) {
        self.columns = columns;
        if let Some(wrap) = &mut self.wrap {
            wrap.resize(columns);
        }
    }

    /// Returns the text to print since the last call. It may end in the middle of a line.
    pub(crate) fn output(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// Prints a row of another part of the program.
    pub(crate) fn row(&mut self, text: &str) {
        self.end_text();
        for line in text.lines() {
            self.out.push_str(line);
            self.out.push('\n');
        }
    }

    /// Prints a row that is unrelated to the streaming answer: the row does not cut a line of the answer in
    /// two.
    pub(crate) fn aside(&mut self, text: &str) {
        if self.wrap.is_none() {
            return self.row(text);
        }
        for line in text.lines() {
            self.held.push_str(line);
            self.held.push('\n');
        }
    }

    /// Prints waiting rows if an answer has come to a halt. Callers call this from time to time.
    pub(crate) fn flush_idle_rows(&mut self) {
        if !std::mem::take(&mut self.moved) && !self.held.is_empty() {
            self.end_text();
        }
    }

    /// Takes the event at `now`.
    pub(crate) fn take(&mut self, happening: &UiEvent, now: Millis) {
        match happening {
            UiEvent::Dequeued { .. } => self.dequeued = true,
            // A person's message comes through the queue. Without a dequeue before it, the message is the runtime's.
            UiEvent::User { text } if std::mem::take(&mut self.dequeued) => self.said(text),
            UiEvent::User { text } | UiEvent::Note { text } => self.note(text),
            UiEvent::Text(delta) => self.stream(delta),
            UiEvent::Piece { text } => self.piece(text),
            UiEvent::Answer { text, cut } => self.answer(text, *cut),
            UiEvent::Call(call) => {
                self.calls.insert(call.id.clone(), (call.clone(), None));
            }
            UiEvent::Started { id } => {
                if let Some((_, started)) = self.calls.get_mut(id) {
                    *started = Some(now);
                }
            }
            UiEvent::Ended(ended) => self.ended(ended, now),
            UiEvent::Compacting { is_extract: true } => self.rule("compacting … an extract is being made"),
            UiEvent::Compacting { is_extract: false } => self.rule("compacting … a summary is being written"),
            UiEvent::Compacted(shrunk) => self.compacted(shrunk),
            UiEvent::Cleared(shrunk) => {
                let what = if shrunk.is_message_cut {
                    "the message does not fit: its beginning and its end are shown".to_owned()
                } else {
                    format!("pruned {}", count(shrunk.gone.messages, "old tool result"))
                };
                self.shrunk(&what, &shrunk.strategy, shrunk);
            }
            UiEvent::CompactionFailed { reason } => {
                self.rule(&format!("no summary: {}", visible(reason)));
                self.is_failed = true;
            }
            UiEvent::Omitted { id, reason } => self.warning(&format!(
                "a part that the model's server refuses is left out ({}); `/undo {id}` puts it back",
                visible(reason)
            )),
            UiEvent::Restored { id } => {
                self.rule(&format!("undone {id} · the model sees the original again"))
            }
            UiEvent::Switched { model } => {
                self.rule(&format!("the model is {} from here on", visible(model)))
            }
            UiEvent::Retrying { message, attempt, after_ms, limit } => {
                let left = self.retry_end(*limit);
                self.retrying(message, *attempt, &format!("{}{left}", wait(*after_ms, now)));
            }
            UiEvent::RunEnded(ended) => self.run_ended(ended),
            UiEvent::Parked { reason } => self.warning(&format!("waits for you: {reason}")),
            UiEvent::Broken { message } => {
                self.failure(&format!("{message}; all acknowledged data is kept (storage)"));
            }
            UiEvent::Queued { .. }
            | UiEvent::RunStarted
            | UiEvent::Reasoning
            | UiEvent::ToolInput { .. }
            | UiEvent::Asked { .. }
            | UiEvent::Decided { .. }
            | UiEvent::Usage => {}
        }
    }

    fn said(&mut self, text: &str) {
        self.gap();
        self.out.push_str(&self.style.bold("you"));
        self.out.push_str("    ");
        let text = visible(text);
        let set = wrapped(text.trim_end(), INDENT, INDENT, self.columns);
        let lines: Vec<&str> = set.lines().collect();
        self.out.push_str(&lines[..lines.len().min(SAID_LINES)].join("\n"));
        if lines.len() > SAID_LINES {
            let more = format!("… {} more", count((lines.len() - SAID_LINES) as u64, "line"));
            self.out.push_str(&format!("\n       {}", self.style.dim(&more)));
        }
        self.out.push('\n');
    }

    /// Prints one empty line between turns, and none at the start.
    fn gap(&mut self) {
        self.end_text();
        if std::mem::replace(&mut self.begun, true) {
            self.out.push('\n');
        }
    }

    fn note(&mut self, text: &str) {
        self.end_text();
        let note = broken(&format!("  {}", super::text::one_line(text)), 2, self.room_of_rows());
        for row in note.lines() {
            self.out.push_str(&format!("  {}\n", self.style.dim(row.trim_start())));
        }
    }

    fn stream(&mut self, delta: &str) {
        let delta = visible(delta);
        // A blank beginning would leave the label alone on its line.
        let text = if self.wrap.is_some() { delta.as_str() } else { delta.trim_start_matches(['\n', ' ']) };
        if text.is_empty() {
            return;
        }
        if self.wrap.is_none() {
            self.out.push_str(&self.style.accent("agent"));
            self.out.push_str("  ");
            self.begun = true;
            self.wrap = Some(WordWrapper::new(INDENT, INDENT, self.columns));
            // Without colours the marks of Markdown stay: they are the only emphasis then.
            self.markdown = self.style.has_colour().then(MarkdownFormatter::default);
        }
        self.moved = true;
        let from = self.out.len();
        let mut set = Vec::new();
        match (&mut self.wrap, &mut self.markdown) {
            (Some(wrap), None) => wrap.push(text, &mut self.out),
            (Some(wrap), Some(markdown)) => {
                markdown.push(text, &mut set);
                put(set, wrap, &mut self.out);
            }
            (None, _) => {}
        }
        // Waiting rows go behind the first full line, so that they do not cut a line of the answer.
        if let Some(end) = self.out[from..].find('\n') {
            self.out.insert_str(from + end + 1, &std::mem::take(&mut self.held));
        }
    }

    fn end_text(&mut self) {
        self.pieces = None;
        let Some(mut wrap) = self.wrap.take() else { return };
        if let Some(mut markdown) = self.markdown.take() {
            let mut set = Vec::new();
            markdown.finish(&mut set);
            put(set, &mut wrap, &mut self.out);
        }
        wrap.finish(&mut self.out);
        if !wrap.is_at_start() {
            self.out.push('\n');
        }
        self.out.push_str(&std::mem::take(&mut self.held));
    }

    /// Prints the beginning of an answer, or more of it. The next text continues in its line.
    fn piece(&mut self, text: &str) {
        let is_streamed = self.wrap.is_some() && self.pieces != Some(PausedAnswerSource::Stored);
        if !is_streamed {
            self.stream(text);
        }
        self.pieces =
            Some(if is_streamed { PausedAnswerSource::Streamed } else { PausedAnswerSource::Stored });
    }

    /// Prints the whole answer, unless it was streamed.
    fn answer(&mut self, text: &str, cut: bool) {
        // What was streamed is on the screen already, and would be printed twice.
        if self.wrap.is_none() || self.pieces == Some(PausedAnswerSource::Stored) {
            self.stream(text.trim_end());
        }
        self.end_text();
        if cut {
            let who = if text.trim().is_empty() { self.style.accent("agent") } else { "     ".to_owned() };
            self.out.push_str(&format!("{who}  {}\n", self.style.dim("(cut off here)")));
        }
    }

    fn ended(&mut self, ended: &ToolResultInfo, now: Millis) {
        self.end_text();
        self.begun = true;
        // The event that announced the call may have been missed.
        let (call, started) = self.calls.remove(&ended.id).unwrap_or_default();
        let took = started.map_or(Duration::ZERO, |at| Duration::from_millis(now.saturating_sub(at)));
        let row = tool_row::row(&call, ended, took, self.columns, self.style);
        self.out.push_str(&fitting(&row, self.columns));
    }

    fn compacted(&mut self, shrunk: &ViewEditInfo) {
        // Taken, so that the failure does not colour the next compaction too.
        let no_summary = std::mem::take(&mut self.is_failed);
        if only_leaves_out(&shrunk.strategy) {
            return self.shrunk(&format!("left out {}", shrunk.gone.words()), &shrunk.strategy, shrunk);
        }
        let how = if no_summary || shrunk.is_extract {
            format!("{}, without a model", shrunk.strategy)
        } else {
            shrunk.strategy.clone()
        };
        self.shrunk(&format!("compacted {}", shrunk.gone.words()), &how, shrunk);
    }

    /// Prints an edit, its reason and the way to undo it, in as many rows as needed.
    fn shrunk(&mut self, what: &str, how: &str, shrunk: &ViewEditInfo) {
        let sizes = format!("{} → {}", short(shrunk.before_tokens), short(shrunk.after_tokens));
        let how = (!how.is_empty()).then(|| visible(how));
        // Beside a refused undo, "recoverable" would read as a contradiction.
        let kept = match shrunk.undo {
            UndoOption::Refused(NO_ROOM) => "recall finds all",
            _ => "all recoverable",
        };
        let told = [Some(what.to_owned()), Some(sizes), how, Some(kept.to_owned()), self.undo(shrunk)];
        self.rule_of(&told.into_iter().flatten().collect::<Vec<_>>());
        if self.has_reasons && !shrunk.why.is_empty() {
            let why =
                broken(&format!("  why: {}", super::text::one_line(&shrunk.why)), 7, self.room_of_rows());
            let rows: Vec<String> = why.lines().map(|row| self.style.dim(row)).collect();
            self.row(&rows.join("\n"));
        }
    }

    /// Returns the command that undoes the edit, or the reason that none does. Returns nothing if nobody has
    /// looked.
    fn undo(&self, shrunk: &ViewEditInfo) -> Option<String> {
        let short_form = if self.setting == TranscriptTarget::Chat { "/undo" } else { "undo" };
        let command = self.undo_command.as_deref().unwrap_or(short_form);
        match &shrunk.undo {
            UndoOption::Unknown => None,
            UndoOption::Newest if self.setting == TranscriptTarget::Chat => Some(command.to_owned()),
            UndoOption::Newest | UndoOption::Named => Some(format!("{command} {}", shrunk.id)),
            UndoOption::After(other) => Some(format!("{command} {other} first")),
            UndoOption::Refused(why) => Some((*why).to_owned()),
        }
    }

    /// Returns the end of a wait, and the key that ends it before, as the rest of a row.
    fn retry_end(&self, retry_limit: RetryLimit) -> String {
        let Some(RetryGuide { policy, stop_key }) = self.retry else { return String::new() };
        let patience = policy.patience_ms.map(|ms| limit(Duration::from_millis(ms)));
        match (self.setting, patience) {
            _ if retry_limit == RetryLimit::Once => format!(" · once · {stop_key} stops"),
            _ if retry_limit == RetryLimit::BrokenAnswers => {
                format!(
                    " · gives up after {} · {stop_key} stops",
                    count(policy.stream_attempts.into(), "broken answer")
                )
            }
            (TranscriptTarget::Chat, Some(patience)) => {
                format!(" · gives up after {patience} · {stop_key} stops")
            }
            (TranscriptTarget::Chat, None) => format!(" · {stop_key} stops"),
            (TranscriptTarget::Shell, Some(patience)) => {
                format!(", for up to {patience} (`retry.patience`); {stop_key} ends")
            }
            (TranscriptTarget::Shell, None) => {
                format!(", without an end (`retry.patience`); {stop_key} ends")
            }
        }
    }

    /// Prints the reason that a call is repeated. An outage may last for hours: an equal reason is printed
    /// again when the number of attempts has doubled.
    fn retrying(&mut self, message: &str, attempt: u64, wait: &str) {
        let is_known = std::mem::replace(&mut self.retried, message.to_owned()) == message;
        let message = super::text::one_line(message);
        match (is_known, attempt.is_power_of_two()) {
            (false, _) => self.warning(&format!("{message} · trying again in {wait}")),
            (true, true) => {
                self.warning(&format!("{message} · {attempt} attempts so far · trying again in {wait}"));
            }
            (true, false) => {}
        }
    }

    fn run_ended(&mut self, ended: &RunEndInfo) {
        self.end_text();
        // A run may end between a failed summary and the edit that it was for.
        self.is_failed = false;
        self.retried.clear();
        match (ended.end.as_str(), &ended.error) {
            (_, Some((code, message))) => {
                let next = match self.setting {
                    TranscriptTarget::Chat => "everything so far is kept; /retry goes on",
                    TranscriptTarget::Shell => "everything so far is kept",
                };
                self.failure(&format!("{} · {next}", visible(&failed(code, message))));
            }
            ("stop", None) => {}
            ("cancelled", None) => self.rule("cancelled · everything so far is kept"),
            ("max-steps", None) => self.rule("stopped at the step limit · send a message to go on"),
            ("length", None) => self.rule("the answer reached its length limit · send a message to go on"),
            ("timeout", None) => self.rule("the run's time is over · send a message to go on"),
            ("loop-detected", None) => {
                self.rule("stopped: the model repeats the same call or passage · send a message to go on")
            }
            (other, None) => self.rule(&format!("ended: {other}")),
        }
    }

    fn rule(&mut self, text: &str) {
        self.rule_of(&[text.to_owned()]);
    }

    fn room_of_rows(&self) -> usize {
        self.row_columns.unwrap_or(self.columns)
    }

    /// Prints a row of several facts. The row is broken between them where possible, and no part is left out.
    fn rule_of(&mut self, told: &[String]) {
        let room = self.room_of_rows();
        let mut rows = vec![String::from("─ ")];
        for (at, told) in told.iter().enumerate() {
            let told = super::text::one_line(told);
            let joint = if at == 0 { "" } else { " · " };
            match rows.last_mut() {
                Some(row) if at == 0 || width(row) + width(joint) + width(&told) <= room => {
                    row.push_str(&format!("{joint}{told}"));
                }
                _ => rows.push(format!("  {told}")),
            }
        }
        let rows = rows.iter().map(|row| broken(row, 2, room));
        let rows: Vec<String> =
            rows.flat_map(|row| row.lines().map(|row| self.style.accent(row)).collect::<Vec<_>>()).collect();
        let row = rows.join("\n");
        // A compaction can happen while an answer is paused. Its row must not cut the answer's line in two.
        match self.pieces {
            Some(_) => self.aside(&row),
            None => self.row(&row),
        }
    }

    /// Prints a warning in full.
    pub(crate) fn warning(&mut self, text: &str) {
        self.end_text();
        let set = wrapped(&visible(text), 2, 2, self.columns);
        self.out.push_str(&format!("{} {}\n", self.style.amber("!"), set));
    }

    /// Prints a failure in full.
    pub(crate) fn failure(&mut self, text: &str) {
        self.end_text();
        let set = wrapped(&visible(text), 2, 2, self.columns);
        self.out.push_str(&format!("{} {}\n", self.style.red("✗"), set));
    }
}

/// Describes the failure of a run. Codes that say little to a person are put into words.
fn failed(code: &str, message: &str) -> String {
    match code {
        "interrupted" => "Longhaul was stopped while it worked, and the answer was interrupted".to_owned(),
        "truncated-stream" => format!("{message}; that server's log says why"),
        _ => format!("{message} ({code})"),
    }
}

/// Writes formatted Markdown.
fn put(set: Vec<MarkdownSpan>, wrap: &mut WordWrapper, out: &mut String) {
    for each in set {
        match each {
            MarkdownSpan::Text(text, ink) => wrap.push_in(&text, ink, out),
            MarkdownSpan::Hang(columns) => wrap.hang(columns),
            MarkdownSpan::End => wrap.push("\n", out),
            MarkdownSpan::Table(table) => put(table.spans(wrap.room()), wrap, out),
        }
    }
}

#[cfg(test)]
mod tests;
