//! The prices of tokens.

use longhaul_core::ids::Millis;
use serde::Serialize;

pub(crate) mod tables;

/// Prices of one model, in US dollars for a million tokens.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PriceTable {
    /// The name in tables.
    pub(crate) name: String,
    /// Input neither read from a cache nor written to one.
    pub(crate) input: f64,
    /// Input read from the cache.
    pub(crate) cache_read: f64,
    /// Input written to the cache.
    pub(crate) cache_write: f64,
    /// Output.
    pub(crate) output: f64,
    /// The minimum length of a cached prefix, in tokens.
    pub(crate) cache_minimum_tokens: u64,
    /// The time for which a prefix stays in the cache after its last use.
    pub(crate) cache_life_ms: Millis,
}
