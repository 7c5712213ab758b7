//! The next step after an answer broke off.

/// The properties of a broken answer that decide about the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct BrokenAnswer {
    /// The number of earlier breaks of the answer.
    pub broke_before: u32,
    /// `true` if the answer ends in visible text, with no tool call.
    pub ends_in_text: bool,
    /// `true` if the model continues an answer at the end of a request.
    pub can_continue: bool,
    /// `true` if the received part can be taken back: no receiver has seen the part, or a log removes the part from
    /// the view.
    pub can_take_back: bool,
}

/// The action that follows a broken answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum BrokenAnswerAction {
    /// The next attempt continues the received text and repeats nothing.
    Continue,
    /// The next attempt asks for the whole answer again.
    AskAgain,
    /// The answer has failed.
    GiveUp,
}

impl BrokenAnswer {
    /// Returns the next action for an answer that may break off `max_attempts` times.
    pub fn next(self, max_attempts: u32) -> BrokenAnswerAction {
        // The limit comes first: a server that breaks off every answer would otherwise be asked for ever.
        if self.broke_before >= max_attempts {
            BrokenAnswerAction::GiveUp
        } else if self.ends_in_text && self.can_continue {
            BrokenAnswerAction::Continue
        } else if self.can_take_back {
            BrokenAnswerAction::AskAgain
        } else {
            // A second beginning would be shown behind the first.
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
