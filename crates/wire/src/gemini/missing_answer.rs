//! Reasons for a missing answer: a filter, or a call that cannot be read.

use longhaul_core::error::ErrorCode;
use longhaul_core::message::ModelStopReason;

use crate::raw_json::RawObject;
use crate::{ProviderError, finish};

/// The stop reasons of a filter (<https://ai.google.dev/api/generate-content#FinishReason>).
pub(super) const FILTERS: &[&str] = &[
    "SAFETY",
    "RECITATION",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "MODEL_ARMOR",
];

/// The stop reasons of an answer that repeats a published work.
const RECITED: &[&str] = &["RECITATION", "IMAGE_RECITATION"];

/// The stop reasons of a bad call: the model wrote a call that Google could not read, or called a tool that it
/// was not offered. The next attempt often succeeds.
const SPOILT: &[&str] = &["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"];

/// Reports whether an answer with this stop reason has no usable content.
pub(super) fn is_spoilt(reason: &str) -> bool {
    SPOILT.contains(&reason)
}

/// Returns the error of an answer that ended so; `None` for a normal answer.
pub(super) fn error(finish: ModelStopReason, envelope: &RawObject) -> Option<ProviderError> {
    let reason = envelope.text("finishReason").unwrap_or_default();
    let words = envelope.text("finishMessage");
    if is_spoilt(&reason) {
        let what = "the model's tool call could not be read";
        return Some(finish::error(ErrorCode::ThirdParty, what, &[reason], words, envelope));
    }
    if finish != ModelStopReason::ContentFilter {
        return None;
    }
    if FILTERS.contains(&reason.as_str()) {
        let is_recited = RECITED.contains(&reason.as_str());
        let codes = [vec![reason], blocked(envelope)].concat();
        let what = "Google's filter withheld the answer";
        let error = finish::error(ErrorCode::Refused, what, &codes, words, envelope);
        // The answer alone is at fault, and no part of the request.
        let refusal = error.refusal.clone().filter(|_| !is_recited);
        return Some(ProviderError { refusal, ..error });
    }
    // Without a filter's stop reason the prompt was blocked, not the answer.
    let feedback = envelope.object("promptFeedback").unwrap_or_default();
    let codes = [feedback.text("blockReason").into_iter().collect(), blocked(&feedback)].concat();
    let words = feedback.text("blockReasonMessage");
    // The filter judged the request, so the same request is refused again. A part of it may be left out.
    Some(finish::error(ErrorCode::Refused, "Google's filter refused the request", &codes, words, envelope))
}

/// Returns the categories that were over their limit.
fn blocked(rated: &RawObject) -> Vec<String> {
    let ratings = rated.list("safetyRatings");
    let ratings = ratings.iter().filter_map(|rating| RawObject::parse(rating.get()));
    ratings
        .filter(|rating| rating.get("blocked") == Some("true"))
        .filter_map(|it| it.text("category"))
        .collect()
}
