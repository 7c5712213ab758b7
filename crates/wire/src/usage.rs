//! The decoders of reported usage, a decoder for each wire. All give [`Usage`] in the same meaning. `input_tokens`
//! counts the model's whole input, cached or not; `output_tokens` counts the whole output, reasoning included.

use longhaul_core::message::RawJson;
use longhaul_core::usage::Usage;

use crate::raw_json::{self, RawObject};

/// The input counts of the Messages API. A report states all of them, or none.
const MESSAGES_INPUT_COUNTS: [&str; 3] =
    ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];

/// Decodes the `usage` object of Chat Completions. `None` if it counts neither prompt nor completion.
///
/// Compatible servers name cached tokens in three ways: `prompt_tokens_details` (OpenAI), `prompt_cache_hit_tokens`
/// (DeepSeek), `cache_read_input_tokens` (routers before Anthropic's models).
pub fn chat_usage(raw: &str) -> Option<Usage> {
    let counts = RawObject::parse(raw)?;
    let (prompt, completion) = (counts.tokens("prompt_tokens"), counts.tokens("completion_tokens"));
    // Zero is a count; only a report without any count is none.
    prompt.or(completion)?;
    let (prompt, completion) = (prompt.unwrap_or_default(), completion.unwrap_or_default());
    let cached = detail(&counts, "prompt_tokens_details", "cached_tokens")
        .or_else(|| first_count(&counts, &["prompt_cache_hit_tokens", "cache_read_input_tokens"]));
    let written = detail(&counts, "prompt_tokens_details", "cache_write_tokens")
        .or_else(|| first_count(&counts, &["cache_creation_input_tokens"]));
    let reasoning = detail(&counts, "completion_tokens_details", "reasoning_tokens")
        .or_else(|| first_count(&counts, &["reasoning_tokens"]))
        .unwrap_or_default();
    // xAI and Copilot report reasoning beside the completion, all others inside it. The total shows which.
    let beside = completion.saturating_add(reasoning);
    let counts_beside = counts.tokens("total_tokens") == Some(prompt.saturating_add(beside));
    Some(Usage {
        input_tokens: prompt,
        output_tokens: if counts_beside { beside } else { completion },
        reasoning_tokens: reasoning,
        cache_read_tokens: cached.unwrap_or_default(),
        cache_write_tokens: written.unwrap_or_default(),
        raw: Some(RawJson(raw.to_owned())),
    })
}

fn first_count(counts: &RawObject, keys: &[&str]) -> Option<u64> {
    keys.iter().find_map(|key| counts.tokens(key))
}

/// Decodes the `timings` object of llama.cpp. llama.cpp sends the object at the end of an answer and, with
/// `timings_per_token`, with every piece. `None` if the object does not state the cached tokens.
pub(crate) fn llama_cpp_timings(raw: &str) -> Option<Usage> {
    let timings = RawObject::parse(raw)?;
    let cached = timings.tokens("cache_n")?;
    Some(Usage {
        // `prompt_n` counts only the tokens that were evaluated, without those from the cache.
        input_tokens: cached.saturating_add(timings.tokens("prompt_n")?),
        output_tokens: timings.tokens("predicted_n")?,
        cache_read_tokens: cached,
        raw: Some(RawJson(raw.to_owned())),
        ..Usage::default()
    })
}

/// Decodes the `usage` object of the Responses API. `None` if it counts neither input nor output.
pub(crate) fn responses_usage(raw: &str) -> Option<Usage> {
    let counts = RawObject::parse(raw)?;
    let (input, output) = (counts.tokens("input_tokens"), counts.tokens("output_tokens"));
    input.or(output)?;
    Some(Usage {
        input_tokens: input.unwrap_or_default(),
        output_tokens: output.unwrap_or_default(),
        reasoning_tokens: detail(&counts, "output_tokens_details", "reasoning_tokens").unwrap_or_default(),
        cache_read_tokens: detail(&counts, "input_tokens_details", "cached_tokens").unwrap_or_default(),
        cache_write_tokens: detail(&counts, "input_tokens_details", "cache_write_tokens").unwrap_or_default(),
        raw: Some(RawJson(raw.to_owned())),
    })
}

/// Decodes the `usageMetadata` object of Gemini. `None` if it does not count the prompt.
pub(crate) fn gemini_usage(counts: &RawObject) -> Option<Usage> {
    // Early pieces of a stream have the object without counts.
    counts.get("promptTokenCount")?;
    let thoughts = counts.tokens("thoughtsTokenCount").unwrap_or_default();
    Some(Usage {
        // Google counts the results of its own tools beside the prompt, and the thoughts beside the candidates.
        input_tokens: counts
            .tokens("promptTokenCount")
            .unwrap_or_default()
            .saturating_add(counts.tokens("toolUsePromptTokenCount").unwrap_or_default()),
        // Gemini counts thoughts beside the answer. All other wires count them within it.
        output_tokens: counts.tokens("candidatesTokenCount").unwrap_or_default().saturating_add(thoughts),
        reasoning_tokens: thoughts,
        cache_read_tokens: counts.tokens("cachedContentTokenCount").unwrap_or_default(),
        cache_write_tokens: 0,
        raw: Some(counts.to_json()),
    })
}

/// The usage of one answer over the Messages API, put together from its reports.
///
/// Each report is a snapshot of the whole call. New counts replace older counts, even larger counts, because the
/// server itself may have compacted. Some routers count only output and close with zeros for input; those zeros are
/// ignored.
#[derive(Clone, Debug, Default)]
pub struct MessagesUsage(RawObject);

impl MessagesUsage {
    /// Records a report, a `usage` object.
    pub fn record(&mut self, mut report: RawObject) {
        if MESSAGES_INPUT_COUNTS.iter().all(|key| report.tokens(key).unwrap_or_default() == 0) {
            for key in MESSAGES_INPUT_COUNTS {
                if let Some(known) = self.0.get(key).and_then(raw_json::value) {
                    report.set(key, known);
                }
            }
        }
        self.0.overwrite(&report);
    }

    /// Returns the usage so far; `None` if neither input nor output was reported.
    pub fn usage(&self) -> Option<Usage> {
        self.0.get("output_tokens").or(self.0.get("input_tokens"))?;
        Some(Usage {
            input_tokens: self
                .uncached_input_tokens()
                // Anthropic counts cached input beside the rest.
                .saturating_add(self.cache_read_tokens())
                .saturating_add(self.cache_write_tokens()),
            output_tokens: self.output_tokens(),
            reasoning_tokens: detail(&self.0, "output_tokens_details", "thinking_tokens").unwrap_or_default(),
            cache_read_tokens: self.cache_read_tokens(),
            cache_write_tokens: self.cache_write_tokens(),
            raw: Some(self.0.to_json()),
        })
    }

    /// Returns the input tokens that were neither read from a cache nor written to it.
    pub fn uncached_input_tokens(&self) -> u64 {
        self.count("input_tokens")
    }

    /// Returns the input tokens that were read from a cache.
    pub fn cache_read_tokens(&self) -> u64 {
        self.count("cache_read_input_tokens")
    }

    /// Returns the input tokens that were written to a cache.
    pub fn cache_write_tokens(&self) -> u64 {
        self.count("cache_creation_input_tokens")
    }

    /// Returns the output tokens.
    pub fn output_tokens(&self) -> u64 {
        self.count("output_tokens")
    }

    fn count(&self, key: &str) -> u64 {
        self.0.tokens(key).unwrap_or_default()
    }
}

fn detail(counts: &RawObject, object: &str, key: &str) -> Option<u64> {
    counts.object(object)?.tokens(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(usage: &Usage) -> (u64, u64, u64, u64, u64) {
        let Usage { input_tokens, output_tokens, reasoning_tokens, .. } = *usage;
        (input_tokens, output_tokens, reasoning_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    }

    #[test]
    fn chat_counts_cached_tokens_under_each_servers_name() {
        for raw in [
            r#"{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":60}}"#,
            r#"{"prompt_tokens":100,"completion_tokens":7,"prompt_cache_hit_tokens":60}"#,
            r#"{"prompt_tokens":100,"completion_tokens":7,"cache_read_input_tokens":60}"#,
        ] {
            assert_eq!(counts(&chat_usage(raw).unwrap()), (100, 7, 0, 60, 0), "{raw}");
        }
        assert_eq!(chat_usage(r#"{"total_tokens":3}"#), None);
    }

    #[test]
    fn chat_adds_reasoning_that_is_counted_beside_the_completion() {
        let usage = |total: u64| {
            let raw = format!(
                r#"{{"prompt_tokens":10,"completion_tokens":5,"total_tokens":{total},"completion_tokens_details":{{"reasoning_tokens":3}}}}"#
            );
            chat_usage(&raw).unwrap().output_tokens
        };
        assert_eq!((usage(15), usage(18)), (5, 8));
    }

    #[test]
    fn messages_keeps_input_counts_when_a_later_report_states_zeros() {
        let mut usage = MessagesUsage::default();
        assert_eq!(usage.usage(), None);
        for report in [
            r#"{"input_tokens":5,"cache_read_input_tokens":90,"cache_creation_input_tokens":5,"output_tokens":1}"#,
            r#"{"input_tokens":0,"output_tokens":30}"#,
        ] {
            usage.record(RawObject::parse(report).unwrap());
        }
        assert_eq!(counts(&usage.usage().unwrap()), (100, 30, 0, 90, 5));
        usage.record(RawObject::parse(r#"{"input_tokens":40,"cache_read_input_tokens":0}"#).unwrap());
        assert_eq!(counts(&usage.usage().unwrap()), (45, 30, 0, 0, 5), "a later snapshot wins");
    }

    #[test]
    fn timings_without_a_cache_count_are_no_usage() {
        let full = r#"{"cache_n":90,"prompt_n":10,"predicted_n":4,"predicted_ms":1.5}"#;
        assert_eq!(counts(&llama_cpp_timings(full).unwrap()), (100, 4, 0, 90, 0));
        assert_eq!(llama_cpp_timings(r#"{"prompt_n":10,"predicted_n":4}"#), None);
    }
}
