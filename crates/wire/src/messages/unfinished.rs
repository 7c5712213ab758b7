//! Answers without the model's own end: refused, or paused.

use longhaul_core::error::ErrorCode;

use crate::raw_json::RawObject;
use crate::{ProviderError, finish};

/// Returns the error of an answer with the stop reason `reason`; `None` for a normal answer.
///
/// A refused answer must not be sent back
/// (<https://docs.claude.com/en/docs/test-and-evaluate/strengthen-guardrails/handle-streaming-refusals>). A paused
/// answer would have to be sent back as the last message of the next request. The loop sends no such request.
pub(super) fn error(reason: Option<&str>, envelope: &RawObject) -> Option<ProviderError> {
    match reason? {
        "refusal" => Some(refused(envelope)),
        "pause_turn" => Some(paused(envelope)),
        _ => None,
    }
}

fn refused(envelope: &RawObject) -> ProviderError {
    let details = envelope.object("stop_details").unwrap_or_default();
    let codes: Vec<String> = ["refusal".to_owned()].into_iter().chain(details.text("category")).collect();
    let words = details.text("explanation");
    finish::error(ErrorCode::Refused, "the provider refused to answer", &codes, words, envelope)
}

/// Returns the error of a paused answer: the same request would be paused at the same place.
fn paused(envelope: &RawObject) -> ProviderError {
    let words = "its own tools had run for long. A paused turn cannot be continued here: what came of it is \
                 shown, but the model does not see it again. Ask for less at once, or without those tools";
    let codes = ["pause_turn".to_owned()];
    let what = "the provider paused its turn";
    let paused = finish::error(ErrorCode::ThirdParty, what, &codes, Some(words.to_owned()), envelope);
    // The code alone would allow a retry, and a retry would be paused again.
    ProviderError { retryable: false, ..paused }
}
