//! The message in place of one part of the conversation.

use std::borrow::Cow;

use super::super::unconfirmed_rules::separate_unconfirmed_rules;
use super::super::{extract, named};
use super::{DraftSection, MARK, SectionProgress, WRITTEN};
use crate::history::History;

impl DraftSection {
    /// Returns whether the section's text is final.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.work, SectionProgress::Written(_) | SectionProgress::Extracted)
    }

    /// Returns whether a program writes the section's text, and no model has.
    pub(super) fn is_extract(&self) -> bool {
        !matches!(self.work, SectionProgress::Written(_))
    }

    /// Returns whether the section's extract may be longer than a summary, so that a shorter one can be tried.
    pub(super) fn has_roomy_extract(&self) -> bool {
        self.work == SectionProgress::Extracted && self.extract_tokens > Some(self.limit_tokens)
    }

    /// Returns the section's pinned facts; an empty string if the section has none.
    pub(super) fn ledger(&self, history: &History) -> String {
        match (&self.ledger, self.ledger_tokens) {
            (Some(ledger), _) => ledger.clone(),
            (None, 0) => String::new(),
            (None, limit) => extract::ledger(history, &self.handles, limit),
        }
    }

    /// Returns the section with the rules of a model's summary that the user has not given apart from the others.
    pub(super) fn with_checked_rules(&self, history: &History) -> Cow<'_, Self> {
        let SectionProgress::Written(text) = &self.work else { return Cow::Borrowed(self) };
        match separate_unconfirmed_rules(text, history) {
            Some(text) => Cow::Owned(Self { work: SectionProgress::Written(text), ..self.clone() }),
            None => Cow::Borrowed(self),
        }
    }

    /// Returns the text in place of the section. Below the first line stand the list of standing `orders` and
    /// `user_text`, the quotes of the user. With `quotes_only` an extract leaves its room to the quotes, but for
    /// open todos and files.
    pub(super) fn render(
        &self,
        history: &History,
        orders: &str,
        user_text: &str,
        quotes_only: bool,
    ) -> String {
        let is_left_out = quotes_only && self.is_extract();
        let ledger = if is_left_out { String::new() } else { self.ledger(history) };
        let text = match &self.work {
            _ if is_left_out => extract::files_and_todos(history, &self.handles, self.limit_tokens),
            // A line separates facts and summary, because a model's words must not pass for findings of the program.
            SectionProgress::Written(text) if !ledger.is_empty() && !text.is_empty() => {
                format!("{WRITTEN}\n{text}")
            }
            SectionProgress::Written(text) => text.clone(),
            _ => extract::summary(history, &self.handles, self.limit_tokens, self.extract_tokens, &ledger),
        };
        let how = if history.has_recall() { format!(": {}", named(&self.handles)) } else { ".".to_owned() };
        let head = format!("{MARK} of {} earlier messages{how}", self.messages);
        // A summary by a model has merged the earlier one, unless the check has found that it does not carry it on.
        let earlier = match &self.work {
            SectionProgress::Written(text) if !text.is_empty() && !self.earlier.is_kept() => String::new(),
            _ => self.earlier.block(history.counter()),
        };
        let texts = [
            head.as_str(),
            orders.trim_end(),
            user_text.trim_end(),
            ledger.trim(),
            text.trim(),
            earlier.trim(),
        ];
        texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
    }
}
