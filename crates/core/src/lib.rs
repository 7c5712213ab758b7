//! The pure part of Longhaul.
//!
//! The crate has no clock, file, socket or randomness. Time, ids and counts come in as values, and effects go out as
//! data. Equal inputs give equal outputs, so the whole agent runs in virtual time in its tests.
//!
//! Read the modules in this order: [`message`] and [`event`] are the vocabulary. [`history`] folds events into the view
//! that the model is shown. [`meter`] and [`budget`] tell how full the window is. [`plan`] decides how to make room.
//! [`run`] is the loop.
//!
//! Several modules make room together. A [`strategy`] selects the part of the view that goes. [`plan`] checks the
//! selection and turns it into an edit, or names the summary that is needed first. `shortening` decides who waits for
//! that summary, and what stands in its place meanwhile. `pinned_facts` and `retention` find what every shortened view
//! has to keep. [`orders`] holds the user's standing orders, and `retention_report` says what an edit has kept.
//!
//! There are two loops. [`run`] drives a session, and `exchange` drives one request of a client through the gateway.
//! Both ask [`attempt`] what follows a failed request.
//!
//! A program that keeps its own conversations needs one function: [`fit()`].

pub mod attempt;
pub mod budget;
#[doc(hidden)]
pub mod deferral;
pub(crate) mod derived_cache;
pub mod error;
pub mod estimate;
pub mod event;
#[doc(hidden)]
pub mod exchange;
mod fit;
pub mod history;
pub mod ids;
pub mod message;
pub mod metadata;
pub mod meter;
pub mod orders;
mod parallel;
#[doc(hidden)]
pub mod pinned_facts;
pub mod plan;
pub mod queue;
#[doc(hidden)]
pub mod readability;
#[doc(hidden)]
pub mod recall;
pub mod refusal;
pub mod repetition;
#[doc(hidden)]
pub mod request_pauses;
pub(crate) mod retention;
#[doc(hidden)]
pub mod retention_report;
pub mod run;
#[doc(hidden)]
mod shell;
pub mod shortening;
#[doc(hidden)]
pub mod stop_flag;
pub mod strategy;
pub(crate) mod text_table;
#[doc(hidden)]
pub mod time_text;
#[doc(hidden)]
pub mod tool_schema;
pub mod truncate;
pub mod usage;

pub use self::fit::{
    FittableContent, FittableMessage, FittedMessages, Window, fit, fit_anthropic, fit_openai, fit_with,
};
