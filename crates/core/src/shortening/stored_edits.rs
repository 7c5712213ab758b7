//! Edits that an earlier request has stored, and whether a later one takes them over.

/// The facts about stored edits that decide whether they take the place of the own ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredEditFacts {
    /// The view with the stored edits, in tokens. Only the bare estimate is comparable, because the upstream has counted
    /// at most one of the two views.
    pub stored_tokens: u64,
    /// The view with the own edits, in tokens.
    pub own_tokens: u64,
    /// `true` if the own view has edits.
    pub has_own_edits: bool,
    /// `true` if the stored edits have the summary for which an extract waits in the own view.
    pub brings_summary: bool,
}

/// The use of stored edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredEditUse {
    /// They are taken over.
    Adopt,
    /// They are taken over if the request fits with them: their view is no shorter, but has a summary.
    AdoptIfFits,
    /// The own edits stay.
    KeepOwn,
}

impl StoredEditFacts {
    /// Returns the use of the stored edits.
    pub fn judge(self) -> StoredEditUse {
        match self {
            Self { has_own_edits: false, .. } => StoredEditUse::Adopt,
            _ if self.stored_tokens < self.own_tokens => StoredEditUse::Adopt,
            Self { brings_summary: true, .. } => StoredEditUse::AdoptIfFits,
            _ => StoredEditUse::KeepOwn,
        }
    }

    /// Returns whether both views hold the same extract. Attempts at its summary that failed elsewhere then delay the
    /// next one here.
    pub fn has_same_extract(self) -> bool {
        self.has_own_edits && self.stored_tokens == self.own_tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_edits_are_taken_over_if_they_leave_less_or_bring_the_summary() {
        let own =
            StoredEditFacts { stored_tokens: 9, own_tokens: 9, has_own_edits: true, brings_summary: false };
        for (facts, expected) in [
            (own, StoredEditUse::KeepOwn),
            (StoredEditFacts { stored_tokens: 8, ..own }, StoredEditUse::Adopt),
            (StoredEditFacts { stored_tokens: 10, ..own }, StoredEditUse::KeepOwn),
            (StoredEditFacts { brings_summary: true, ..own }, StoredEditUse::AdoptIfFits),
            (StoredEditFacts { stored_tokens: 10, brings_summary: true, ..own }, StoredEditUse::AdoptIfFits),
            (StoredEditFacts { stored_tokens: 10, has_own_edits: false, ..own }, StoredEditUse::Adopt),
        ] {
            assert_eq!(facts.judge(), expected, "{facts:?}");
        }
        assert!(own.has_same_extract() && !StoredEditFacts { own_tokens: 8, ..own }.has_same_extract());
    }
}
