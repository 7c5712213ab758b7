//! The earlier inputs, which the up key brings back.

/// The maximum number of remembered inputs.
const KEPT: usize = 200;

/// The entries, the oldest first, and the current position among them.
#[derive(Debug, Default)]
pub(crate) struct InputHistory {
    entries: Vec<String>,
    at: Option<usize>,
    draft: String,
}

impl InputHistory {
    /// Adds an entry, once if it repeats the newest. The position returns to the end.
    pub(crate) fn remember(&mut self, text: &str) {
        self.at = None;
        if text.trim().is_empty() || self.entries.last().is_some_and(|last| last == text) {
            return;
        }
        self.entries.push(text.to_owned());
        if self.entries.len() > KEPT {
            self.entries.remove(0);
        }
    }

    /// Returns the entry before. The draft is kept for the way back.
    pub(crate) fn older(&mut self, draft: &str) -> Option<&str> {
        let at = match self.at {
            None => {
                draft.clone_into(&mut self.draft);
                self.entries.len().checked_sub(1)?
            }
            Some(at) => at.checked_sub(1)?,
        };
        self.at = Some(at);
        self.entries.get(at).map(String::as_str)
    }

    /// Returns the entry after, and at last the draft.
    pub(crate) fn newer(&mut self) -> Option<&str> {
        let at = self.at? + 1;
        if at == self.entries.len() {
            self.at = None;
            return Some(&self.draft);
        }
        self.at = Some(at);
        self.entries.get(at).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_walks_back_and_forth_and_finds_the_draft_again() {
        let mut history = InputHistory::default();
        assert_eq!((history.older("x").map(str::to_owned), history.newer()), (None, None));
        for entry in ["one", "two", "two", " "] {
            history.remember(entry);
        }
        assert_eq!(history.older("draft"), Some("two"));
        assert_eq!(history.older("two"), Some("one"));
        assert_eq!(history.older("one"), None);
        assert_eq!(history.newer(), Some("two"));
        assert_eq!(history.newer(), Some("draft"));
        assert_eq!(history.newer(), None);
    }
}
