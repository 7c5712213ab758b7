//! List prices of models and the cost of calls.

use longhaul_core::usage::Usage;
use serde::Deserialize;

/// List prices, in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct ListPrices {
    #[serde(flatten)]
    base: TokenRates,
    above: Option<LongInputRates>,
}

/// The rates of a whole request with an input above a limit.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
struct LongInputRates {
    #[serde(rename = "from")]
    tokens: u64,
    #[serde(flatten)]
    rates: TokenRates,
}

/// US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct TokenRates {
    /// Input without the cache.
    pub input: f64,
    /// Input from the cache; `None`: the rate of `input`.
    pub cached: Option<f64>,
    /// Input into the cache, for the maker's shortest time; `None`: the rate of `input`.
    pub write: Option<f64>,
    /// The model's output, reasoning included.
    pub output: f64,
}

impl ListPrices {
    /// Returns prices with the same rates for requests of any length.
    pub fn flat(base: TokenRates) -> Self {
        Self { base, above: None }
    }

    /// Returns the rates of a request with `input_tokens` tokens of input.
    ///
    /// ```
    /// use longhaul_wire::catalog;
    /// let prices = catalog::prices("gemini-2.5-pro", "https://generativelanguage.googleapis.com").unwrap();
    /// assert_eq!((prices.at(200_000).input, prices.at(200_001).input), (1.25, 2.5));
    /// ```
    pub fn at(&self, input_tokens: u64) -> TokenRates {
        match self.above {
            // The higher rates hold for the whole request and not only for the tokens above the limit.
            Some(above) if input_tokens > above.tokens => above.rates,
            _ => self.base,
        }
    }

    /// Returns the number of input tokens above which a request costs more, and the higher rates.
    pub fn above(&self) -> Option<(u64, TokenRates)> {
        self.above.map(|above| (above.tokens, above.rates))
    }

    /// Returns the cost of a call in US dollars.
    pub fn cost_usd(&self, usage: &Usage) -> f64 {
        let rates = self.at(usage.input_tokens);
        // The counts are the server's own. If they contradict each other, the fresh input must not become negative.
        let read = usage.cache_read_tokens.min(usage.input_tokens);
        let written = usage.cache_write_tokens.min(usage.input_tokens - read);
        let fresh = usage.input_tokens - read - written;
        let parts = [
            (fresh, rates.input),
            (read, rates.cached.unwrap_or(rates.input)),
            (written, rates.write.unwrap_or(rates.input)),
            (usage.output_tokens, rates.output),
        ];
        parts.iter().map(|(tokens, rate)| *tokens as f64 * rate).sum::<f64>() / 1e6
    }
}
