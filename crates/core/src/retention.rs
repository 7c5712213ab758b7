//! Retention of the user's own words in every shortened view.
//!
//! Some views replace a part of the conversation by a summary, an extract or a note. Such a view quotes the messages
//! that the user typed in that part ([`user_text`]). In recorded agent sessions these messages are one or two percent
//! of all tokens, so that almost always all of them fit.
//!
//! If the messages do not fit, sentences are ranked. Standing orders come first ([`mood`]), then statements
//! (those with values before others), then questions. Within a rank, newer sentences come before older ones. A
//! statement that a later one replaces is marked, and is the first to go ([`replaced`]). An order that is replaced goes
//! after all other orders, and before statements.
//!
//! System messages that a client put into that part are quoted above the user's words ([`system_messages`]).

mod addressed_comments;
mod change_cues;
pub(crate) mod languages;
pub(crate) mod lexicon;
mod long_sentences;
mod markup_rules;
pub(crate) mod mood;
mod named_things;
mod obligation;
mod past_reports;
mod polite;
pub(crate) mod replaced;
mod requests;
pub(crate) mod rule_lists;
pub(crate) mod sentences;
pub(crate) mod statement_form;
pub(crate) mod subjects;
pub(crate) mod system_messages;
pub(crate) mod user_text;
mod withdrawal;
