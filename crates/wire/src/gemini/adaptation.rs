//! The form of requests that a server of this wire has demanded by its refusals.

use crate::ProviderError;

/// The demands of one server, each learned from a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GeminiAdaptations {
    /// Every call has a signature. The name of a model does not always show that its server checks signatures:
    /// `gemini-flash-latest` and a proxy's names have no generation.
    pub signs_calls: bool,
}

impl GeminiAdaptations {
    /// Learns from an error. Returns what the next request has in another form because of it; `None` if nothing.
    pub fn learn(&mut self, error: &ProviderError) -> Option<&'static str> {
        if !demands_signatures(error) || std::mem::replace(&mut self.signs_calls, true) {
            return None;
        }
        Some("calls without a thought signature are sent with Google's placeholder for it")
    }
}

/// Reports whether an error demands the thought signature of a call: "Function call is missing a `thought_signature` in
/// functionCall parts" (<https://ai.google.dev/gemini-api/docs/thought-signatures>).
pub(crate) fn demands_signatures(error: &ProviderError) -> bool {
    let said = error.message.to_lowercase().replace(['`', '\'', '"'], "").replace('_', " ");
    // A proxy may add an article, or write the name of the field in camel case.
    let said = said.replace("thoughtsignature", "thought signature").replace("missing a ", "missing ");
    said.contains("missing thought signature")
}

#[cfg(test)]
mod tests {
    use longhaul_core::error::ErrorCode;

    use super::*;

    fn refused(message: &str) -> ProviderError {
        ProviderError::new(ErrorCode::InvalidRequest, message)
    }

    #[test]
    fn a_demand_for_signatures_is_learned_once() {
        for message in [
            "Function call is missing a thought_signature in functionCall parts. This is required for tools to work \
             correctly. Additional data, function call `default_api:read`, position 2.",
            "litellm.BadRequestError: missing `thoughtSignature` in part",
        ] {
            let mut adaptations = GeminiAdaptations::default();
            assert!(adaptations.learn(&refused(message)).is_some() && adaptations.signs_calls, "{message}");
            assert_eq!(adaptations.learn(&refused(message)), None, "the request had that form already");
        }
    }

    #[test]
    fn a_refused_signature_demands_no_other_form() {
        for message in ["Corrupted thought signature.", "Thought signature is not valid", "missing contents"]
        {
            let mut adaptations = GeminiAdaptations::default();
            assert_eq!(adaptations.learn(&refused(message)), None, "{message}");
        }
    }
}
