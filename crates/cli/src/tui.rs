//! The terminal as an instrument: finished rows go up into the shell's own scrollback, and below them a few live
//! rows are redrawn in place: what comes in, what runs, what waits, the meter, the input.
//!
//! [`state`] takes keys and happenings and knows no terminal; [`view`] sets it into rows; [`inline`] is the
//! ratatui backend that keeps the live rows below the scrollback; [`screen`] owns the terminal.

mod completion;
mod editor;
mod glyphs;
mod history;
mod inline;
mod keys;
mod layout;
mod manners;
mod paint;
mod screen;
mod state;
mod view;

#[cfg(test)]
mod tests;

pub(crate) use completion::Command;
pub(crate) use keys::Action;
pub(crate) use manners::Manners;
pub(crate) use screen::{Heard, Screen, is_there, size};
pub(crate) use state::{State, Waiting, Wish};
