//! Errors that refuse an output limit because it is above the model's own.
//!
//! Sources of the words: OpenAI, Groq, Anthropic, Bedrock, DeepSeek, DashScope, Mistral, Text Generation Inference.

use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

/// The names of the output limit in requests, and in the words of errors.
const NAMES: &str = r"(?:max_(?:completion_|output_|new_)?tokens|maximum tokens|max tokens)";

/// The sentences, each with the model's own limit as its group.
static SENTENCES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let sentences = [
        r"NAMES\b.{0,80}supports at most\W{1,3}(\d+)",
        r"NAMES\b.{0,40}(?:less than or equal to|must be <=|at most)\W{1,3}(\d+)",
        r"NAMES\b.{0,60}(?:maximum output of|model limit of|maximum of|limit is)\W{1,3}(\d+)",
        r"NAMES: \d+ > (\d+), which is the maximum allowed",
        r"range of NAMES (?:is|should be) \[\s*\d+\s*,\s*(\d+)\s*\]",
    ];
    let build = |sentence: &&str| {
        let sentence = sentence.replace("NAMES", NAMES);
        RegexBuilder::new(&sentence).case_insensitive(true).dot_matches_new_line(true).build().ok()
    };
    sentences.iter().filter_map(build).collect()
});

/// Returns the model's own output limit in tokens, if an error refuses a request's limit because of it.
pub(crate) fn read(message: &str) -> Option<u64> {
    // vLLM names the window where input and output are too long together. That is an overflow.
    if message.to_lowercase().contains("maximum context length") {
        return None;
    }
    let limits = SENTENCES.iter().filter_map(|sentence| sentence.captures(message)?.get(1));
    limits.filter_map(|limit| limit.as_str().parse().ok()).find(|limit| *limit > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_read_however_the_refusal_is_worded() {
        for (message, limit) in [
            (
                "max_tokens is too large: 4096. This model supports at most 2048 completion tokens, whereas you provided 4096.",
                2_048,
            ),
            (
                "`max_tokens` must be less than or equal to `1024`, the maximum value for `max_tokens` is less than the `context_window` for this model",
                1_024,
            ),
            ("max_tokens: 4096 > 2048, which is the maximum allowed number of output tokens for m", 2_048),
            (
                "The maximum tokens you requested exceeds the model limit of 2048. Try again with a maximum tokens value that is lower than 2048.",
                2_048,
            ),
            ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8_192),
            ("Range of max_tokens should be [1, 2000]", 2_000),
            ("max_tokens (4096) exceeds the model's maximum output of 2048", 2_048),
            ("Input validation error: `max_new_tokens` must be <= 1024. Given: 4096", 1_024),
            ("max_output_tokens is too large: 4096. This model supports at most 2048 output tokens.", 2_048),
        ] {
            assert_eq!(read(message), Some(limit), "{message}");
        }
    }

    #[test]
    fn other_errors_name_no_output_limit() {
        for message in [
            "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 8192 tokens and your request has 7192 input tokens (4096 > 8192 - 7192).",
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "temperature must be less than or equal to 2",
            "prompt is too long: 210000 tokens > 200000 maximum",
            "thinking.budget_tokens: must be less than max_tokens",
        ] {
            assert_eq!(read(message), None, "{message}");
        }
    }
}
