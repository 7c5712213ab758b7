//! Token counters made of closures.

use std::fmt;

use longhaul_core::estimate::{CountAccuracy, TextCounter, TokensByScript};

/// A token counter made of a program's closure by [`counter_fn`].
pub struct FunctionCounter<F> {
    name: String,
    kind: CountAccuracy,
    count: F,
}

/// Makes a token counter of a closure from a text to its number of tokens. Equal texts must give equal numbers.
///
/// The name identifies the tokenizer: facts learned of a model are stored under the name. The counts are treated as an
/// estimate, which the server's reports correct, until [`exact`](FunctionCounter::exact) declares the counts exact.
///
/// ```
/// use longhaul::prelude::*;
///
/// let words = counter_fn("words", |text| text.split_whitespace().count() as u64);
/// assert_eq!(words.tokens("three short words"), 3);
/// ```
pub fn counter_fn<F>(name: impl Into<String>, count: F) -> FunctionCounter<F>
where
    F: Fn(&str) -> u64 + Send + Sync,
{
    FunctionCounter { name: name.into(), kind: CountAccuracy::Estimated, count }
}

impl<F> FunctionCounter<F> {
    /// Declares the counter to be the model's own tokenizer. Less room is then kept free for errors: 1 % in place of
    /// 10 % until the server has reported counts.
    #[must_use]
    pub fn exact(mut self) -> Self {
        self.kind = CountAccuracy::Exact;
        self
    }
}

impl<F> TextCounter for FunctionCounter<F>
where
    F: Fn(&str) -> u64 + Send + Sync,
{
    fn groups(&self, text: &str) -> TokensByScript {
        TokensByScript::of((self.count)(text))
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> CountAccuracy {
        self.kind
    }
}

impl<F> fmt::Debug for FunctionCounter<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionCounter").field("name", &self.name).finish_non_exhaustive()
    }
}
