//! What every shortened view keeps of the user's own words.
//!
//! A view that replaces a part of the conversation by a summary, an extract or a note quotes what the user typed in
//! that part ([`user_text`]). In recorded agent sessions this is one or two percent of all tokens, so almost always
//! all of it fits. Where it does not, sentences are ranked: standing orders first ([`mood`]), then statements (those
//! with values before others), then questions, the newest before older ones. A statement that a later one replaces is
//! marked, and the first to go ([`replaced`]).

pub(crate) mod lexicon;
pub(crate) mod mood;
pub(crate) mod replaced;
pub(crate) mod sentences;
pub(crate) mod user_text;
