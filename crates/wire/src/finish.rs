//! Stop reasons, and the errors of unusable answers: refused, withheld, paused, spoilt.
//!
//! The events of such an answer have been delivered already. The error names the cause of the end, in the provider's
//! own words if there are any.

use longhaul_core::error::ErrorCode;
use longhaul_core::message::{ModelStopReason, Part};
use longhaul_core::refusal::{PartRefusal, RefusedPartKind};

use crate::ProviderError;
use crate::raw_json::RawObject;

/// The number of characters of the provider's own words in an error.
const MAX_WORDS_CHARS: usize = 1_000;

/// Returns the error of an unusable answer: `what` happened, the provider's codes and words. `envelope` holds the
/// fields of the answer as a whole and becomes the error's body.
///
/// A filter judges the answer by what the model has read. So an answer that was withheld is a refusal of content: the
/// newest part may be left out.
pub(crate) fn error(
    code: ErrorCode,
    what: &str,
    codes: &[String],
    words: Option<String>,
    envelope: &RawObject,
) -> ProviderError {
    let mut said = String::new();
    if !codes.is_empty() {
        said.push_str(&format!(" ({})", codes.join(", ")));
    }
    if let Some(words) = words.as_deref().map(str::trim).filter(|words| !words.is_empty()) {
        said.push_str(&format!(": {words}"));
    }
    // A server may quote the whole request in its error.
    let said: String = said.chars().take(MAX_WORDS_CHARS).collect();
    let is_withheld = code == ErrorCode::Refused;
    let refusal =
        is_withheld.then(|| PartRefusal { kind: Some(RefusedPartKind::Content), ..Default::default() });
    ProviderError {
        body: Some(envelope.to_json().0),
        refusal: refusal.map(Box::new),
        ..ProviderError::new(code, format!("{what}{said}"))
    }
}

/// Returns the model's stop reason from any server's word (`finish_reason`, `stop_reason`, `done_reason`). `None`
/// if the server failed instead.
pub(crate) fn finish_of_reason(reason: &str) -> Option<ModelStopReason> {
    Some(match reason {
        "stop" | "end_turn" | "eos" | "stop_sequence" | "complete" => ModelStopReason::Stop,
        "tool_calls" | "tool_use" | "function_call" => ModelStopReason::ToolCalls,
        // `model_length` is Mistral's word and `model_context_window_exceeded` Anthropic's: the window ended the
        // answer.
        "length" | "max_tokens" | "model_length" | "model_context_window_exceeded" => ModelStopReason::Length,
        // `sensitive` is Zhipu's word, `refusal` Anthropic's.
        "content_filter" | "sensitive" | "safety" | "refusal" => ModelStopReason::ContentFilter,
        // `error` comes from Mistral and OpenRouter, `network_error` from Zhipu, `insufficient_system_resource` from
        // DeepSeek. vLLM and SGLang say `abort` where the engine has dropped the request.
        "abort" | "aborted" | "cancelled" | "error" | "network_error" | "insufficient_system_resource" => {
            return None;
        }
        _ => ModelStopReason::Other,
    })
}

/// Reports whether a stop reason names the server's own failure.
pub(crate) fn is_failure(reason: &str) -> bool {
    !reason.is_empty() && finish_of_reason(reason).is_none()
}

/// Returns the error of a whole answer whose stop reason names the server's own failure.
pub(crate) fn failed_for(reason: &str) -> String {
    format!("the server failed inside its answer ({reason})")
}

/// Corrects a reason by the answer's parts: servers name reasons carelessly, so tool calls decide.
pub(crate) fn agree_with_parts(finish: ModelStopReason, parts: &[Part]) -> ModelStopReason {
    let has_calls = parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
    match (finish, has_calls) {
        (ModelStopReason::Stop | ModelStopReason::Other, true) => ModelStopReason::ToolCalls,
        // The loop would wait for results of calls that do not exist.
        (ModelStopReason::ToolCalls, false) => ModelStopReason::Other,
        (finish, _) => finish,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_says_who_why_and_in_which_words() {
        let envelope = RawObject::parse(r#"{"id":"r"}"#).unwrap();
        let ended = |codes: &[&str], words: Option<&str>| {
            let codes: Vec<String> = codes.iter().map(|code| (*code).to_owned()).collect();
            error(ErrorCode::Refused, "it refused", &codes, words.map(str::to_owned), &envelope)
        };
        let refused = ended(&["SAFETY", "cyber"], Some(" No. "));
        assert_eq!(refused.message, "it refused (SAFETY, cyber): No.");
        assert_eq!((refused.retryable, refused.body.as_deref()), (false, Some(r#"{"id":"r"}"#)));
        assert_eq!(ended(&[], Some(" ")).message, "it refused");
        assert_eq!(
            refused.refusal.unwrap().kind,
            Some(RefusedPartKind::Content),
            "the newest part is suspected"
        );
        assert_eq!(error(ErrorCode::ThirdParty, "it failed", &[], None, &envelope).refusal, None);
        let long = ended(&["x"], Some(&"é".repeat(5_000))).message;
        assert_eq!(long.chars().count(), "it refused".len() + MAX_WORDS_CHARS);
    }
}
