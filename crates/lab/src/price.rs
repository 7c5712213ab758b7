//! The prices of tokens.

use longhaul_core::ids::Millis;
use serde::Serialize;

pub mod tables;

/// Prices of one model, in US dollars for a million tokens.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PriceTable {
    /// The name in tables.
    pub name: String,
    /// Input neither read from a cache nor written to one.
    pub input: f64,
    /// Input read from the cache.
    pub cache_read: f64,
    /// Input written to the cache.
    pub cache_write: f64,
    /// Output.
    pub output: f64,
    /// The minimum length of a cached prefix, in tokens.
    pub cache_minimum_tokens: u64,
    /// The time for which a prefix stays in the cache after its last use.
    pub cache_life_ms: Millis,
}
