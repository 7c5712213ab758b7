//! The bill for model calls.

use crate::lab::outcome::BilledTokens;
use crate::lab::price::PriceTable;

/// A sum of model calls at some prices.
#[derive(Clone, Debug)]
pub(crate) struct ModelCallBill<'a> {
    prices: &'a PriceTable,
    /// Tokens so far.
    pub(crate) billed: BilledTokens,
}

impl<'a> ModelCallBill<'a> {
    /// Creates an empty bill.
    pub(crate) fn new(prices: &'a PriceTable) -> Self {
        Self { prices, billed: BilledTokens::default() }
    }

    /// Adds a request whose prefix the provider keeps if long enough. A provider without a price for
    /// keeping it bills new tokens as plain input.
    pub(crate) fn request(&mut self, read: u64, fresh: u64, whole: u64, output: u64) {
        let prices = self.prices;
        // A request below the provider's minimum is not cached, so its tokens cost what plain input costs.
        let is_kept = prices.cache_life_ms > 0 && whole >= prices.cache_minimum_tokens;
        let is_written = is_kept && prices.cache_write != prices.input;
        *(if is_written { &mut self.billed.cache_write } else { &mut self.billed.uncached }) += fresh;
        self.billed.cache_read += read;
        self.billed.output += output;
    }

    /// Adds a request without a successor: keeping its prefix is not paid for.
    pub(crate) fn once(&mut self, read: u64, fresh: u64, output: u64) {
        self.billed.uncached += fresh;
        self.billed.cache_read += read;
        self.billed.output += output;
    }

    /// Returns the sum in US dollars.
    pub(crate) fn cost(&self) -> f64 {
        let (billed, prices) = (&self.billed, self.prices);
        let sum = billed.uncached as f64 * prices.input
            + billed.cache_read as f64 * prices.cache_read
            + billed.cache_write as f64 * prices.cache_write
            + billed.output as f64 * prices.output;
        sum / 1e6
    }
}
