//! The provider's prompt cache, as far as a client can tell: the prefix of the last request, for a while.

use longhaul_core::ids::Millis;

use crate::lab::price::PriceTable;

/// The id of the start of every request: system prompt and tools.
pub(crate) const FIXED_ID: u64 = 0;

/// A model of the provider's prompt cache for one conversation.
#[derive(Clone, Debug)]
pub(crate) struct PromptCacheModel {
    /// Segments in order, by name and tokens.
    held: Vec<(u64, u64)>,
    /// The time of the cache's last write or read.
    used_at: Option<Millis>,
    minimum_tokens: u64,
    life_ms: Millis,
}

impl PromptCacheModel {
    /// Creates an empty cache with the rules of a price table.
    pub(crate) fn new(prices: &PriceTable) -> Self {
        let (minimum_tokens, life_ms) = (prices.cache_minimum_tokens, prices.cache_life_ms);
        Self { held: Vec::new(), used_at: None, minimum_tokens, life_ms }
    }

    /// Reports whether the cache holds something at a time. If times are not known, calls follow each other
    /// at once.
    pub(crate) fn is_warm(&self, at: Option<Millis>) -> bool {
        // Without a time of either call the age is 0, and the cache counts as warm.
        let age = at.zip(self.used_at).map_or(0, |(at, used)| at.saturating_sub(used));
        !self.held.is_empty() && self.life_ms > 0 && age <= self.life_ms
    }

    /// Sends a request. Returns the number of its tokens that are read from the cache, which holds all of it
    /// afterwards.
    pub(crate) fn send(&mut self, request: &[(u64, u64)], at: Option<Millis>) -> u64 {
        let warm = self.is_warm(at);
        let same = self.held.iter().zip(request).take_while(|(held, sent)| held == sent);
        let common = same.map(|(held, _)| held.1).sum();
        // Even a request that misses the cache replaces its content.
        self.held = request.to_vec();
        self.used_at = at.or(self.used_at);
        if warm { self.readable_tokens(common) } else { 0 }
    }

    /// Returns how much of a common prefix is read from the cache. A prefix below the minimum is not cached
    /// at all.
    pub(crate) fn readable_tokens(&self, common_tokens: u64) -> u64 {
        let kept = self.life_ms > 0 && common_tokens >= self.minimum_tokens;
        if kept { common_tokens } else { 0 }
    }

    /// Appends a message to the cached conversation after the last request.
    pub(crate) fn add(&mut self, id: u64, tokens: u64) {
        self.held.push((id, tokens));
    }
}
