//! The assumptions of every replay, in words.

use crate::lab::needed_later::{QUERY_WORDS, RECALL_HITS, RECALL_OUTPUT_TOKENS};
use crate::lab::replay::ReplayOptions;
use crate::lab::summary::TYPICAL_TOKENS;

/// Returns the assumptions of a replay with these options, a sentence each.
pub(crate) fn assumptions(options: &ReplayOptions) -> Vec<String> {
    let answers = if options.answers_are_cached {
        "The provider's cache holds the whole last request and the answer to it"
    } else {
        "The provider's cache holds the whole last request, not the answer to it"
    };
    vec![
        format!(
            "{answers}, as long as the price table says; what is equal from its beginning is read from it. \
             Where a recording has no times, calls follow each other at once."
        ),
        format!(
            "A model reads {} and writes {} tokens a second; and each call takes {} ms more. Waiting is the time of \
             calls that the agent waits for and that are not its own.",
            options.prefill_tokens_per_second, options.decode_tokens_per_second, options.latency_ms
        ),
        format!(
            "No model is called. A summary is made of verbatim lines of what that model would have been shown, by one \
             rule for all policies, as long as the policy's own limit says, else about {TYPICAL_TOKENS} tokens."
        ),
        format!(
            "An answer that misses something is preceded by one recall: a search with at most {QUERY_WORDS} words of what \
             the agent had then. What is in the passages of its first {RECALL_HITS} results counts as found; they take \
             about half of the room that a tool's result has. It is charged as a model call that writes \
             {RECALL_OUTPUT_TOKENS} tokens and reads the results. Only policies with a way back recall."
        ),
        "System prompt and tools are counted where the recording has them; elsewhere requests are smaller than they \
         were."
            .to_owned(),
        "Rivals are modelled after their published source; tools by which an agent could read spilled files again are \
         not modelled."
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assumptions_name_the_figures_of_the_replay() {
        let options = ReplayOptions {
            prefill_tokens_per_second: 1_234.0,
            answers_are_cached: false,
            ..ReplayOptions::default()
        };
        let said = assumptions(&options).join("\n");
        assert!(said.contains("reads 1234 and writes 60 tokens a second"), "{said}");
        assert!(said.contains("request, not the answer to it"), "{said}");
        assert!(assumptions(&ReplayOptions::default())[0].contains("and the answer to it"));
    }
}
