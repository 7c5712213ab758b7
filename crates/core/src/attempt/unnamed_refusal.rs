//! Refusals that name neither a part nor a limit, and the sizes that tell whether the length is their reason.
//!
//! Some servers refuse a request that is too long in words that no table knows. A request that is too long is larger than
//! every request of its conversation that the server has accepted.

/// The smallest request that is taken for too long, in tokens by our estimate. Smaller ones fit every usual window.
const MIN_REFUSED_TOKENS: u64 = 1_000;

/// The size that proves growth, in percent of the largest accepted request. Estimates differ by a few percent.
const CLEAR_GROWTH_PERCENT: u64 = 105;

/// The sizes of a refused request and of the largest accepted one of its conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnnamedRefusal {
    /// The refused request, in tokens by our estimate.
    pub refused_tokens: u64,
    /// The largest accepted request, in tokens. 0 if none was accepted yet.
    pub accepted_tokens: u64,
}

impl UnnamedRefusal {
    /// Returns whether the refused request is larger than all accepted ones. It may be larger by an error of the estimate.
    pub fn has_grown(self) -> bool {
        // Without an accepted request, nothing shows that the server takes requests of this form at all.
        self.accepted_tokens > 0
            && self.refused_tokens > self.accepted_tokens
            && self.refused_tokens >= MIN_REFUSED_TOKENS
    }

    /// Returns whether the refused request is so much larger than all accepted ones that its length may be the reason.
    pub fn has_clearly_grown(self) -> bool {
        self.has_grown()
            && self.refused_tokens.saturating_mul(100)
                >= self.accepted_tokens.saturating_mul(CLEAR_GROWTH_PERCENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clear_growth_beyond_an_accepted_request_is_a_sign() {
        for (refused_tokens, accepted_tokens, expected) in [
            (2_000, 1_000, true),
            (1_050, 1_000, true),
            (1_040, 1_000, false),
            (2_000, 0, false),
            (999, 10, false),
            (5_000, 9_000, false),
            (u64::MAX, u64::MAX, false),
            (u64::MAX, u64::MAX - 1, true),
        ] {
            let refusal = UnnamedRefusal { refused_tokens, accepted_tokens };
            assert_eq!(refusal.has_clearly_grown(), expected, "{refusal:?}");
        }
        let hardly = UnnamedRefusal { refused_tokens: 1_040, accepted_tokens: 1_000 };
        assert!(hardly.has_grown(), "by less than the error of estimates");
    }
}
