//! Decisions about a request to a model's server that was refused, failed or broke off.
//!
//! A session's [`Run`](crate::run::Run) and the gateway's [`Exchange`](crate::exchange::Exchange) make requests in different ways, but take the same
//! decisions. This module has the decisions as pure functions:
//!
//! - the wait before the next attempt,
//! - the number of times that a request is made smaller,
//! - the part that a refusal is about,
//! - the continuation of a broken answer,
//! - the repetition of an unanswered request,
//! - the repetition of a request that was refused without a reason.

mod broken_answer;
mod refused_guess;
mod refused_media;
mod resend;
mod retry;
mod unnamed_refusal;

pub use broken_answer::{BrokenAnswer, BrokenAnswerAction};
pub use refused_guess::{RefusalSuspect, SuspectKind, guess_refused_parts};
pub use refused_media::{MAX_OMISSIONS, choose_refused_media, note_of_omission, one_line};
pub use resend::{SendOutcome, SendTries};
pub use retry::RetryPolicy;
pub use unnamed_refusal::{BareRefusal, UnnamedRefusal};

/// The most times that one request is made smaller after refusals for its length.
///
/// Each retry aims well below the refused size, so five retries halve a request twice. If the server still
/// refuses, the error has another cause than the length.
#[doc(hidden)]
pub const MAX_LENGTH_RETRIES: u32 = 5;
