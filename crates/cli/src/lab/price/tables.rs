//! Price tables: one model each for the ways in which prompt caches are charged.
//!
//! A comparison depends on the cost of reading (`r`) and writing (`w`) the cache in parts of uncached input,
//! on the cost of output, and on the least number of tokens that a cached prefix has. The absolute prices are
//! those of the day that each table names and change often.

use longhaul_core::ids::Millis;

use super::PriceTable;

const MINUTE: Millis = 60_000;

/// Returns all tables.
pub(crate) fn all() -> Vec<PriceTable> {
    vec![
        anthropic_sonnet(),
        openai_automatic(),
        openai_written(),
        gemini_implicit(),
        deepseek(),
        deepseek_v3(),
        local(),
    ]
}

/// Returns the table of a name.
pub(crate) fn named(name: &str) -> Option<PriceTable> {
    all().into_iter().find(|prices| prices.name == name)
}

/// Returns the sources of the numbers: one line for each table, its name first.
pub(crate) fn sources() -> Vec<String> {
    [
        "anthropic-sonnet = Claude Sonnet 5, cache of 5 minutes: 2.00 in, 2.50 written, 0.20 read, 10.00 out; \
         r 0.1, w 1.25; at least 1,024 tokens; 5 min from the last use: platform.claude.com, Pricing and \
         Prompt caching, autumn 2026 (repeated in uttamdeb/agent-telemetry v1.6.4, 29 September 2026)",
        "openai-automatic = GPT-5.4, writing free: 2.50 in, 0.25 read, 15.00 out; r 0.1, w 1; at least 1,024 \
         tokens; 5 to 10 min idle, taken as 5: developers.openai.com, Pricing (repeated in adk-model 0.6.0, \
         March 2026) and Prompt caching",
        "openai-written = GPT-6 Sol, short context: 2.00 in, 2.50 written, 0.20 read, 10.00 out; r 0.1, w \
         1.25; at least 1,024 tokens; at least 30 min: developers.openai.com, Pricing, 22 September 2026 \
         (repeated in merefield/codexometer v0.18.4) and Prompt caching since GPT-5.6",
        "gemini-implicit = Gemini 2.5 Pro up to 200,000 tokens: 1.25 in, 0.125 read, 10.00 out; r 0.1, w 1; at \
         least 4,096 tokens (ai.google.dev, Caching, 7 May 2026); its life is not promised, taken as 5 min; \
         prices ai.google.dev, Pricing",
        "deepseek = DeepSeek-V4.1-Flash, off-peak: 0.15 in, 0.003 read, 0.60 out; r 0.02, w 1: \
         api-docs.deepseek.com, Models & Pricing, 27 October 2026 (repeated in \
         benderandrew069/deepseek-api-pricing-2026); blocks of 64 tokens; a life of hours, taken as 1",
        "deepseek-v3 = deepseek-chat of 2025: 0.27 in, 0.07 read, 1.10 out; r 0.26, w 1: \
         api-docs.deepseek.com, pricing-details-usd; blocks of 64 tokens; a life of hours, taken as 1",
        "local = no money: 1 is the time that a million tokens of prefill take; what is cached is free; a \
         token of output takes as long as 5 of prefill (Llama 2 7B q4_0 on an M2 Pro: 28.9 and 5.9 ms, \
         XiongjieDai/GPU-Benchmarks-on-LLM-Inference#1, August 2023; 2.8 on its processor, 17 at f16); kept \
         until the slot is used for something else, taken as a day",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Returns Anthropic's prices with the cache of 5 minutes.
pub(crate) fn anthropic_sonnet() -> PriceTable {
    PriceTable {
        name: "anthropic-sonnet".to_owned(),
        input: 2.0,
        cache_read: 0.2,
        cache_write: 2.5,
        output: 10.0,
        cache_minimum_tokens: 1_024,
        cache_life_ms: 5 * MINUTE,
    }
}

/// Returns OpenAI's prices up to GPT-5.5: the cache is automatic and writing it free.
pub(crate) fn openai_automatic() -> PriceTable {
    PriceTable {
        name: "openai-automatic".to_owned(),
        input: 2.5,
        cache_read: 0.25,
        cache_write: 2.5,
        output: 15.0,
        cache_minimum_tokens: 1_024,
        cache_life_ms: 5 * MINUTE,
    }
}

/// Returns OpenAI's prices since GPT-5.6: writing costs a quarter more.
pub(crate) fn openai_written() -> PriceTable {
    PriceTable {
        name: "openai-written".to_owned(),
        input: 2.0,
        cache_read: 0.2,
        cache_write: 2.5,
        output: 10.0,
        cache_minimum_tokens: 1_024,
        cache_life_ms: 30 * MINUTE,
    }
}

/// Returns the prices of Gemini's implicit cache.
pub(crate) fn gemini_implicit() -> PriceTable {
    PriceTable {
        name: "gemini-implicit".to_owned(),
        input: 1.25,
        cache_read: 0.125,
        cache_write: 1.25,
        output: 10.0,
        cache_minimum_tokens: 4_096,
        cache_life_ms: 5 * MINUTE,
    }
}

/// Returns DeepSeek's prices as of autumn 2026: reading is nearly free, so every broken prefix is dear.
pub(crate) fn deepseek() -> PriceTable {
    PriceTable {
        name: "deepseek".to_owned(),
        input: 0.15,
        cache_read: 0.003,
        cache_write: 0.15,
        output: 0.6,
        cache_minimum_tokens: 64,
        cache_life_ms: 60 * MINUTE,
    }
}

/// Returns DeepSeek's prices as of 2025: reading costs a quarter, so broken prefixes matter little.
pub(crate) fn deepseek_v3() -> PriceTable {
    PriceTable {
        name: "deepseek-v3".to_owned(),
        input: 0.27,
        cache_read: 0.07,
        cache_write: 0.27,
        output: 1.1,
        cache_minimum_tokens: 64,
        cache_life_ms: 60 * MINUTE,
    }
}

/// Returns the "prices" of a model at home: time instead of money. 1 "dollar" is the time of a million tokens
/// of prefill.
pub(crate) fn local() -> PriceTable {
    PriceTable {
        name: "local".to_owned(),
        input: 1.0,
        cache_read: 0.0,
        cache_write: 1.0,
        output: 5.0,
        cache_minimum_tokens: 1,
        cache_life_ms: 24 * 60 * MINUTE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratios(prices: &PriceTable) -> (f64, f64, f64) {
        let [read, write, output] = [prices.cache_read, prices.cache_write, prices.output]
            .map(|price| (price / prices.input * 100.0).round() / 100.0);
        (read, write, output)
    }

    #[test]
    fn the_tables_have_the_published_ratios() {
        assert_eq!(ratios(&anthropic_sonnet()), (0.1, 1.25, 5.0));
        assert_eq!(ratios(&openai_automatic()), (0.1, 1.0, 6.0));
        assert_eq!(ratios(&openai_written()), (0.1, 1.25, 5.0));
        assert_eq!(ratios(&gemini_implicit()), (0.1, 1.0, 8.0));
        assert_eq!(ratios(&deepseek()), (0.02, 1.0, 4.0));
        assert_eq!(ratios(&deepseek_v3()), (0.26, 1.0, 4.07));
        assert_eq!(ratios(&local()), (0.0, 1.0, 5.0));
    }

    #[test]
    fn every_table_has_a_name_and_a_source() {
        let names: Vec<String> = all().into_iter().map(|prices| prices.name).collect();
        let cited: Vec<String> = sources()
            .iter()
            .filter_map(|line| line.split_once(" = "))
            .map(|(name, _)| name.to_owned())
            .collect();
        assert_eq!(names, cited);
        assert!(names.iter().all(|name| named(name).is_some()));
        assert_eq!(named("nobody"), None);
    }
}
