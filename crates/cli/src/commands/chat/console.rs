//! The terminal while a person types: the input line at the bottom, a status line above it, and text that is
//! printed above both.
//!
//! The status line is the first row of the prompt: padded to exactly the terminal's width, it wraps into the
//! row of the input.

use futures_util::AsyncWriteExt;
use rustix::termios::{InputModes, OptionalActions, tcgetattr, tcsetattr};
use rustyline_async::{Readline, ReadlineError, ReadlineEvent, SharedWriter};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::failure::{CommandError, Outcome};
use crate::term::{log, out, text};

/// An action of the person at the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConsoleInput {
    /// Enter.
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// The person pressed Ctrl-D, or the terminal is gone.
    End,
}

enum ConsoleCommand {
    Prompt(String),
    Remember(String),
    Close,
}

/// The terminal. Its own task reads keys, so that printing waits for it and never the other way round.
pub(super) struct LineConsole {
    typed: mpsc::UnboundedReceiver<ConsoleInput>,
    orders: mpsc::UnboundedSender<ConsoleCommand>,
    writer: SharedWriter,
    task: JoinHandle<()>,
    prompt: String,
}

impl LineConsole {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// The terminal cannot be set up.
    pub(super) fn open() -> Outcome<Self> {
        let prompt = String::new();
        let (mut line, writer) = Readline::new(prompt.clone()).map_err(unusable)?;
        // The transcript shows entered lines in its own form.
        line.should_print_line_on(false, false);
        // After `Readline::new`, whose raw mode clears this mode.
        take_line_feeds();
        // Log lines go through the editor, or they would be printed into the input line.
        log::redirect(Some(Box::new(writer.clone())));
        let (typed_sender, typed) = mpsc::unbounded_channel();
        let (orders, orders_taken) = mpsc::unbounded_channel();
        let task = tokio::spawn(edit(line, typed_sender, orders_taken));
        Ok(Self { typed, orders, writer, task, prompt })
    }

    /// Returns the person's next input.
    pub(super) async fn next(&mut self) -> ConsoleInput {
        // The channel closes with the task, which ends when the terminal is gone.
        self.typed.recv().await.unwrap_or(ConsoleInput::End)
    }

    /// Returns the input arriving within `time`, or `None`.
    pub(super) async fn next_within(&mut self, time: std::time::Duration) -> Option<ConsoleInput> {
        tokio::time::timeout(time, self.next()).await.ok()
    }

    /// Prints above the input. Text may end in the middle of a line and go on there.
    pub(super) async fn print(&mut self, text: &str) {
        // The editor treats whole lines and the beginning of a line differently.
        let (lines, rest) = text.split_at(text.rfind('\n').map_or(0, |at| at + 1));
        for piece in [lines, rest].into_iter().filter(|piece| !piece.is_empty()) {
            // If the terminal is gone, the next read reports the end of input.
            let _ = self.writer.write_all(piece.as_bytes()).await;
            if !piece.ends_with('\n') {
                let _ = self.writer.flush().await;
            }
        }
    }

    /// Shows a prompt, if different from the current one.
    pub(super) fn prompt(&mut self, prompt: String) {
        if self.prompt != prompt {
            self.prompt.clone_from(&prompt);
            // The task has ended if the terminal is gone. Then the next read reports the end.
            let _ = self.orders.send(ConsoleCommand::Prompt(prompt));
        }
    }

    /// Adds the line to the history of the up key.
    pub(super) fn remember(&self, line: &str) {
        let _ = self.orders.send(ConsoleCommand::Remember(line.to_owned()));
    }

    /// Prints the rest and gives the terminal back.
    pub(super) async fn close(self) {
        let _ = self.orders.send(ConsoleCommand::Close);
        // Joined before the log is redirected: until then log lines would disturb the raw terminal.
        let _ = self.task.await;
        log::redirect(None);
    }
}

async fn edit(
    mut line: Readline,
    typed: mpsc::UnboundedSender<ConsoleInput>,
    mut orders: mpsc::UnboundedReceiver<ConsoleCommand>,
) {
    let mut prompt = String::new();
    loop {
        let done = tokio::select! {
            event = line.readline() => match event {
                Ok(ReadlineEvent::Line(text)) => {
                    erase_wrapped(&mut line, &prompt, &text);
                    typed.send(ConsoleInput::Line(text)).is_ok()
                }
                Ok(ReadlineEvent::Interrupted) => typed.send(ConsoleInput::Interrupt).is_ok(),
                Ok(ReadlineEvent::Eof) => typed.send(ConsoleInput::End).is_ok(),
                Err(_) => false,
            },
            order = orders.recv() => match order {
                Some(ConsoleCommand::Prompt(next)) => {
                    prompt = next;
                    line.update_prompt(&prompt).is_ok()
                }
                Some(ConsoleCommand::Remember(text)) => line.add_history_entry(text).is_some(),
                Some(ConsoleCommand::Close) | None => false,
            },
        };
        if !done {
            break;
        }
    }
    // What was printed last may still be in the editor's buffer.
    let _ = line.flush();
}

/// Erases the rows of a wrapped line. The editor assumes that an entered line ends in the prompt's last row,
/// and leaves the earlier rows above the new prompt.
fn erase_wrapped(line: &mut Readline, prompt: &str, entered: &str) {
    let columns = out::columns();
    let prompt_columns = text::width(&text::visible(prompt));
    let left = last_row(prompt_columns + text::width(entered), columns) - last_row(prompt_columns, columns);
    if left > 0 {
        let _ = out::data(&format!("\u{1b}[{left}A"));
        let _ = line.update_prompt(prompt);
    }
}

fn last_row(text_columns: usize, columns: usize) -> usize {
    text_columns.saturating_sub(1) / columns
}

/// Lets the terminal turn pasted line feeds into line ends, as if typed. Some terminals paste line feeds
/// unchanged; the editor drops them, and the lines would be one. The code that restores the terminal undoes
/// this too.
fn take_line_feeds() {
    let stdin = std::io::stdin();
    // A terminal without these modes can still be typed at.
    if let Ok(mut modes) = tcgetattr(&stdin) {
        modes.input_modes |= InputModes::INLCR;
        let _ = tcsetattr(&stdin, OptionalActions::Now, &modes);
    }
}

fn unusable(error: ReadlineError) -> CommandError {
    CommandError::new(format!("the terminal cannot be used for typing: {error}"))
}
