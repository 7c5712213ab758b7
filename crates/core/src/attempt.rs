//! Decisions about a request to a model's server that was refused, failed or broke off.
//!
//! A session's [`Run`](crate::run::Run) and the gateway's exchange make requests in different ways and decide the same
//! things about them: how long to wait before the next attempt, how often a request is made smaller, which part a
//! refusal is about, and how an answer goes on that broke off. These decisions are here. They hold no state of a
//! session and perform nothing.

mod broken_answer;
mod refused_media;
mod retry;

pub use broken_answer::{BrokenAnswer, BrokenAnswerAction};
pub use refused_media::{MAX_OMISSIONS, choose_refused_media, note_of_omission, one_line};
pub use retry::RetryPolicy;

/// The most times that one request is made smaller because its server refuses it for its length.
///
/// Each retry aims well below the refused size, so five of them halve a request twice. A server that still refuses
/// says something else by that error.
pub const MAX_LENGTH_RETRIES: u32 = 5;
