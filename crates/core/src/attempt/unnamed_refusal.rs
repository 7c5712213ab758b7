//! Refusals that name neither a part nor a limit, and the sizes that tell whether the length is their reason.
//!
//! Some servers refuse a request that is too long in words that no table knows, or without a word. A request that is too
//! long is larger than every request of its conversation that the server has accepted, or nearly fills the window.

/// The smallest request that is taken for too long, in tokens by our estimate. Smaller ones fit every usual window.
const MIN_REFUSED_TOKENS: u64 = 1_000;

/// The size from which on a request may be too long for some server, in tokens by our estimate: the smallest window that
/// servers load by default.
const MIN_LARGE_TOKENS: u64 = 2_048;

/// The size that proves growth, in percent of the largest accepted request. Estimates differ by a few percent.
const CLEAR_GROWTH_PERCENT: u64 = 105;

/// The share of the window, in percent, from which on the length is a likely reason of a refusal without any.
const NEARLY_FULL_PERCENT: u64 = 80;

/// The sizes of a refused request, of the largest accepted one of its conversation, and of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnnamedRefusal {
    /// The refused request, in tokens by our estimate.
    pub refused_tokens: u64,
    /// The largest accepted request, in tokens. 0 if none was accepted yet.
    pub accepted_tokens: u64,
    /// The window, in tokens. 0 if unknown.
    pub window_tokens: u64,
    /// `true` if the refusal gives no reason at all, as an empty one does.
    pub gives_no_reason: bool,
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

    /// Returns whether the length may be the reason once single parts have not explained the refusal: the request is large,
    /// and the server has accepted none of its size.
    pub fn may_be_too_long(self) -> bool {
        let is_untried = self.accepted_tokens == 0 || self.has_clearly_grown();
        is_untried && self.refused_tokens >= MIN_LARGE_TOKENS
    }

    /// Returns whether a refusal without any reason is suspected to be one of the length: the request nearly fills the
    /// window. Far from the window's end, such a refusal proves nothing.
    pub fn may_fill_window(self) -> bool {
        self.gives_no_reason
            && self.window_tokens > 0
            && self.refused_tokens.saturating_mul(100)
                >= self.window_tokens.saturating_mul(NEARLY_FULL_PERCENT)
            // A server has accepted a request of this size before, so the length is not the reason.
            && self.refused_tokens > self.accepted_tokens
    }
}

/// The facts that decide whether a refused request is made once more, unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct BareRefusal {
    /// `true` if the refusal gives no reason at all.
    pub gives_no_reason: bool,
    /// `true` if the refusal tells which part or form of the request is at fault.
    pub names_part: bool,
    /// `true` if the server has begun to answer.
    pub has_answer: bool,
    /// `true` if the request was repeated for such a refusal before.
    pub was_repeated: bool,
}

impl BareRefusal {
    /// Returns whether the refusal may pass, so that the request is made once more before anything is left out of it.
    ///
    /// Many proxies answer "Bad Request" in passing. One repetition tells. `patience_ms` is that of the
    /// [`RetryPolicy`](super::RetryPolicy). A policy that waits for nothing repeats nothing.
    pub fn may_pass(self, patience_ms: Option<u64>) -> bool {
        let is_bare = self.gives_no_reason && !self.names_part && !self.has_answer;
        is_bare && !self.was_repeated && patience_ms != Some(0)
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
            let refusal = UnnamedRefusal { refused_tokens, accepted_tokens, ..UnnamedRefusal::default() };
            assert_eq!(refusal.has_clearly_grown(), expected, "{refusal:?}");
        }
        let hardly =
            UnnamedRefusal { refused_tokens: 1_040, accepted_tokens: 1_000, ..UnnamedRefusal::default() };
        assert!(hardly.has_grown(), "by less than the error of estimates");
    }

    #[test]
    fn a_large_request_may_be_too_long_unless_one_of_its_size_was_accepted() {
        for (refused_tokens, accepted_tokens, expected) in [
            (2_048, 0, true),
            (2_047, 0, false),
            (9_000, 8_000, true),
            (9_000, 8_900, false),
            (9_000, 20_000, false),
        ] {
            let refusal = UnnamedRefusal { refused_tokens, accepted_tokens, ..UnnamedRefusal::default() };
            assert_eq!(refusal.may_be_too_long(), expected, "{refusal:?}");
        }
    }

    #[test]
    fn a_refusal_without_a_reason_is_suspected_of_the_length_only_near_the_window() {
        for (refused_tokens, accepted_tokens, window_tokens, gives_no_reason, expected) in [
            (8_000, 0, 10_000, true, true),
            (12_000, 7_000, 10_000, true, true),
            (7_900, 0, 10_000, true, false),
            (8_000, 0, 10_000, false, false),
            (8_000, 0, 0, true, false),
            (8_000, 8_500, 10_000, true, false),
        ] {
            let refusal = UnnamedRefusal { refused_tokens, accepted_tokens, window_tokens, gives_no_reason };
            assert_eq!(refusal.may_fill_window(), expected, "{refusal:?}");
        }
    }

    #[test]
    fn only_a_bare_refusal_is_repeated_and_only_once() {
        let bare = BareRefusal { gives_no_reason: true, ..BareRefusal::default() };
        assert!(bare.may_pass(None) && bare.may_pass(Some(1)) && !bare.may_pass(Some(0)));
        for other in [
            BareRefusal { gives_no_reason: false, ..bare },
            BareRefusal { names_part: true, ..bare },
            BareRefusal { has_answer: true, ..bare },
            BareRefusal { was_repeated: true, ..bare },
        ] {
            assert!(!other.may_pass(None), "{other:?}");
        }
    }
}
