//! Control of the terminal: raw mode with marked pastes during a chat, and the former state afterwards, however
//! the chat ends.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use crossterm::event::{Event, poll, read};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use longhaul::io_error::io_error_text;
use ratatui::Terminal;
use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{tcgetattr, tcgetwinsize};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::failure::{CommandError, Outcome};
use crate::term::{log, out};

use super::inline::{InlineBackend, TerminalWrite};
use super::keys::{KeyAction, actions, is_paste};
use super::terminal_profile::TerminalProfile;
use super::view::LiveRows;

/// The code that makes the terminal mark pastes.
const BEGIN: &str = "\u{1b}[?2004h";

/// The code that makes the terminal tell Shift-Enter from Enter.
const NAME_KEYS: &str = "\u{1b}[>1u";

/// The codes that undo all modes, show the cursor and end all paint.
const END: &str = "\u{1b}[?2026l\u{1b}[?2004l\u{1b}[?25h\u{1b}[0m";
const NAME_NO_KEYS: &str = "\u{1b}[<1u";

/// The maximum time between two parts of a paste.
const GAP: Duration = Duration::from_millis(25);

/// The time within which a stop signal takes effect.
const STOPPING: Duration = Duration::from_millis(50);

/// The size that is assumed for a terminal of unknown size.
const USUAL: (usize, usize) = (80, 24);

/// `true` while this process has taken the terminal. `KEYS_NAMED` says whether keys are named there.
static TAKEN: AtomicBool = AtomicBool::new(false);
static KEYS_NAMED: AtomicBool = AtomicBool::new(false);

/// The receiver of other threads' last words while the terminal is taken.
static LAST_WORDS: Mutex<Option<UnboundedSender<ScreenInput>>> = Mutex::new(None);

static PANICS: Once = Once::new();

/// An input from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScreenInput {
    /// A key, or a paste.
    Did(KeyAction),
    /// The terminal has another size.
    Resized,
    /// A log line.
    Logged(String),
    /// The terminal has ended.
    Gone,
}

/// The terminal.
pub(crate) struct TerminalScreen {
    terminal: Terminal<InlineBackend<FrameStdout>>,
    manners: TerminalProfile,
    heard: UnboundedReceiver<ScreenInput>,
}

/// Standard output without a buffer for lines. A frame is written at once, so that no resize falls into it.
struct FrameStdout;

impl Write for FrameStdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut usual = io::stdout().lock();
        // Text that was printed line by line must not appear after the frame.
        usual.flush()?;
        Ok(rustix::io::write(&usual, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

impl TerminalWrite for FrameStdout {
    fn columns(&self) -> u16 {
        columns()
    }
}

impl TerminalScreen {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// The errors of the terminal.
    pub(crate) fn open(manners: TerminalProfile) -> Outcome<Self> {
        let inline = InlineBackend::new(FrameStdout, columns(), manners.glyphs, manners.reflows);
        let terminal = Terminal::new(inline).map_err(unusable)?;
        let (sender, heard) = unbounded_channel();
        // Installed before the terminal is taken, so that no panic can leave the terminal in raw mode.
        give_back_on_panic();
        take(manners).map_err(unusable)?;
        let screen = Self { terminal, manners, heard };
        *LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender.clone());
        log::redirect(Some(Box::new(ScreenLogWriter(sender.clone()))));
        // A read blocks until a key comes, and nothing can wake it: hence a thread, which ends with the next
        // input after the screen is gone.
        std::thread::spawn(move || listen(&sender));
        Ok(screen)
    }

    /// Returns the next input from outside.
    pub(crate) async fn next(&mut self) -> ScreenInput {
        self.heard.recv().await.unwrap_or(ScreenInput::Gone)
    }

    /// Puts finished rows above and draws the live ones.
    ///
    /// # Errors
    /// The errors of the terminal.
    pub(crate) fn draw(&mut self, finished: &str, view: &LiveRows) -> io::Result<()> {
        let inline = self.terminal.backend_mut();
        inline.insert(finished);
        inline.set_rows(view.rows());
        self.terminal.draw(|frame| view.render(frame))?;
        Ok(())
    }

    /// Adopts the terminal's new size, and returns it.
    pub(crate) fn resized(&mut self) -> (usize, usize) {
        let size = size();
        self.terminal.backend_mut().set_columns(u16::try_from(size.0).unwrap_or(u16::MAX));
        size
    }

    /// Draws everything again next time.
    pub(crate) fn forget(&mut self) {
        self.terminal.backend_mut().forget();
    }

    /// Suspends to the shell, until the shell resumes this process.
    ///
    /// # Errors
    /// The errors of the terminal.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        self.terminal.backend_mut().erase()?;
        give_back();
        // The shell's job is the whole group: the rest of a pipeline has to stop too.
        kill_current_process_group(Signal::TSTP)?;
        // The signal takes effect a moment later. Without the pause the terminal would be taken again before
        // the stop.
        std::thread::sleep(STOPPING);
        take(self.manners)
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        log::redirect(None);
        *LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // After a panic the terminal has been given back already.
        if TAKEN.load(Ordering::SeqCst) {
            let _ = self.terminal.backend_mut().erase();
        }
        give_back();
    }
}

/// Columns and rows of the terminal.
pub(crate) fn size() -> (usize, usize) {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => USUAL,
    }
}

fn columns() -> u16 {
    u16::try_from(size().0).unwrap_or(u16::MAX)
}

/// Returns whether the terminal is still there.
pub(crate) fn is_there() -> bool {
    tcgetattr(io::stdin()).is_ok()
}

fn take(manners: TerminalProfile) -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    KEYS_NAMED.store(manners.names_keys, Ordering::SeqCst);
    out::data(&format!("{BEGIN}{}", if manners.names_keys { NAME_KEYS } else { "" }))
}

/// Gives the terminal back, once, and only if it was taken.
fn give_back() {
    // The panic hook and `drop` both end here; the first one restores the terminal.
    if TAKEN.swap(false, Ordering::SeqCst) {
        let keys = if KEYS_NAMED.load(Ordering::SeqCst) { NAME_NO_KEYS } else { "" };
        // A terminal that is gone needs no restoring, so errors are ignored.
        let _ = out::data(&format!("{END}{keys}"));
        let _ = disable_raw_mode();
    }
}

/// Installs a panic hook. The drawing thread gives the terminal back before it prints its panic. Other
/// threads have their last words put above the live rows.
fn give_back_on_panic() {
    PANICS.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let is_ours = std::thread::current().name() == Some("main");
            // The panicking thread may hold the lock itself.
            let words = LAST_WORDS.try_lock().ok().and_then(|words| words.clone());
            match words.filter(|_| !is_ours) {
                Some(words) => {
                    // A panic of a task is shown as a line, because the hook's own output would break the rows.
                    let _ = words.send(ScreenInput::Logged(panic.to_string()));
                }
                None => {
                    if TAKEN.load(Ordering::SeqCst) {
                        // In raw mode a line feed does not lead back to the first column, hence the carriage
                        // return.
                        let _ = out::data("\r\n\u{1b}[J");
                    }
                    give_back();
                    usual(panic);
                }
            }
        }));
    });
}

/// Reads input and joins events that arrive together, until there is no more input or no receiver.
fn listen(sender: &UnboundedSender<ScreenInput>) {
    while let Ok(first) = read() {
        let mut batch = vec![first];
        // Only an unmarked paste is waited for: it comes in parts, and typed keys must not be delayed.
        while let Ok(true) = poll(if is_paste(&batch) { GAP } else { Duration::ZERO }) {
            match read() {
                Ok(event) => batch.push(event),
                Err(_) => break,
            }
        }
        let is_resized = batch.iter().any(|event| matches!(event, Event::Resize(..)));
        let done = actions(&batch).into_iter().map(ScreenInput::Did);
        if is_resized
            .then_some(ScreenInput::Resized)
            .into_iter()
            .chain(done)
            .any(|it| sender.send(it).is_err())
        {
            return;
        }
    }
    let _ = sender.send(ScreenInput::Gone);
}

/// A writer that sends log lines to the screen, which shows them above the live rows.
struct ScreenLogWriter(UnboundedSender<ScreenInput>);

impl Write for ScreenLogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // At the end the screen is gone before the last lines are logged. They are dropped.
        let _ = self.0.send(ScreenInput::Logged(String::from_utf8_lossy(line).into_owned()));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn unusable(error: io::Error) -> CommandError {
    CommandError::new(format!("the terminal cannot be used for typing: {}", io_error_text(&error)))
}

#[cfg(test)]
mod tests;
