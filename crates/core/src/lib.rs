//! The pure part of Longhaul.
//!
//! No clock, no file, no socket, no randomness: time, ids and counts come in as values, what should happen
//! goes out as data. Equal inputs give equal outputs, so the whole agent runs in virtual time in its tests.
//!
//! Read in this order: [`message`] and [`event`] are the vocabulary; [`history`] folds events into what the
//! model is shown; [`meter`] and [`budget`] say how full it is; [`plan`] decides what to do about it; [`run`]
//! is the loop.
//!
//! A program that keeps its conversations itself needs one function: [`fit()`].

pub mod attempt;
pub mod budget;
pub mod deferral;
pub mod error;
pub mod estimate;
pub mod event;
mod fit;
pub mod history;
pub mod ids;
pub(crate) mod memo;
pub mod message;
pub mod metadata;
pub mod meter;
pub mod orders;
pub mod pinned_facts;
pub mod plan;
pub mod queue;
pub mod readability;
pub mod recall;
pub mod refusal;
pub(crate) mod retention;
pub mod retention_report;
pub mod run;
pub mod stop_flag;
pub mod strategy;
pub(crate) mod text_table;
pub mod tool_schema;
pub mod truncate;
pub mod usage;

pub use self::fit::{
    FittableContent, FittableMessage, Fitted, Window, fit, fit_anthropic, fit_openai, fit_with,
};
