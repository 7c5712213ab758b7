//! The next step after an answer broke off.

/// An answer that broke off, as far as the next attempt depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenAnswer {
    /// The number of times that this answer broke off before.
    pub broke_before: u32,
    /// Whether the answer ends in visible text, with no tool call.
    pub ends_in_text: bool,
    /// Whether the model continues an answer that a request ends with.
    pub can_continue: bool,
    /// Whether the receiver can do without what has come: it saw nothing yet, or a log takes it out of the view.
    pub can_take_back: bool,
}

/// The way in which a broken answer goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenAnswerAction {
    /// The next attempt continues the text that has come, and repeats nothing.
    Continue,
    /// The next attempt makes the answer from its beginning.
    AskAgain,
    /// The answer has failed.
    GiveUp,
}

impl BrokenAnswer {
    /// Returns how the answer goes on, where one answer may break off `max_attempts` times.
    pub fn next(self, max_attempts: u32) -> BrokenAnswerAction {
        if self.broke_before >= max_attempts {
            BrokenAnswerAction::GiveUp
        } else if self.ends_in_text && self.can_continue {
            BrokenAnswerAction::Continue
        } else if self.can_take_back {
            BrokenAnswerAction::AskAgain
        } else {
            BrokenAnswerAction::GiveUp
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(ends_in_text: bool, can_continue: bool, can_take_back: bool) -> BrokenAnswer {
        BrokenAnswer { broke_before: 1, ends_in_text, can_continue, can_take_back }
    }

    #[test]
    fn text_is_continued_where_the_model_can_and_nothing_is_shown_twice() {
        for (ends_in_text, can_continue, can_take_back, expected) in [
            (true, true, false, BrokenAnswerAction::Continue),
            (true, true, true, BrokenAnswerAction::Continue),
            (true, false, true, BrokenAnswerAction::AskAgain),
            (false, true, true, BrokenAnswerAction::AskAgain),
            (true, false, false, BrokenAnswerAction::GiveUp),
            (false, true, false, BrokenAnswerAction::GiveUp),
        ] {
            let answer = broken(ends_in_text, can_continue, can_take_back);
            assert_eq!(answer.next(2), expected, "{answer:?}");
            assert_eq!(answer.next(1), BrokenAnswerAction::GiveUp, "{answer:?}");
        }
    }
}
