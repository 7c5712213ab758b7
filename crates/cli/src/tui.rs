//! The terminal interface. Finished rows move up into the shell's own scrollback. Below them a few live rows
//! are redrawn in place: the streaming answer, running tools, waiting messages, the meter, the input.
//!
//! [`state`] takes keys and events and knows no terminal. [`view`] sets the state into rows. [`inline`] is the
//! ratatui backend that keeps the live rows below the scrollback. [`screen`] owns the terminal.

mod ascii_fallback;
mod completion;
mod editor;
mod history;
mod inline;
mod keys;
mod layout;
mod paint;
mod screen;
mod state;
mod terminal_profile;
mod view;

#[cfg(test)]
mod tests;

pub(crate) use completion::SlashCommandHelp;
pub(crate) use keys::KeyAction;
pub(crate) use screen::{ScreenInput, TerminalScreen, is_there, size};
pub(crate) use state::{QueuedMessageRow, UiCommand, UiState};
pub(crate) use terminal_profile::TerminalProfile;
