//! The meaning of a server's error: one table over status, type and code, for every wire.

use std::time::Duration;

use longhaul_core::error::ErrorCode;
use longhaul_core::refusal::RefusedPartKind;

use crate::field_fault::RequestFieldFault;
use crate::{ProviderError, field_fault, output_limit, overflow, refused_parameter, refused_part};

mod fields;
mod foreign;
mod model_or_account;
mod no_reason;
mod no_tools;
mod payment;
mod sentences;
mod transient_error;
mod waits;

use fields::ServerErrorFields;

pub(crate) use foreign::error_in_place_of_answer;
pub use payment::NO_CREDIT_LEFT;
pub(crate) use sentences::sentences;
pub use waits::{wait_of_body, wait_of_header};

/// Returns the codes of an error in lower case: the values of its fields for types, codes, statuses and reasons.
pub(crate) fn error_codes(body: &str) -> Vec<String> {
    ServerErrorFields::read(body).words
}

/// Returns the error of an answer outside 2xx.
pub fn from_response(status: u16, wait: Option<Duration>, body: String) -> ProviderError {
    let said = ServerErrorFields::read(&body);
    let message = said.message(&body);
    let verdict = ErrorClassification::of_refused_content(status, &message)
        .unwrap_or_else(|| ErrorClassification::of_status(status, &said.words))
        .or_in_words(Some(status), &message);
    let mut error = build(verdict, &said, &body, Some(status));
    error.message = format!("{} (HTTP {status})", error.message);
    error.retry_after = wait.filter(|_| !error.is_payment_due).or(error.retry_after);
    error.body = Some(body);
    error
}

/// Returns the error that a server put into an answer that began with 200.
pub fn from_answer(payload: &str) -> ProviderError {
    let said = ServerErrorFields::read(payload);
    let message = said.message(payload);
    // A status inside an answer is only a number that some proxy chose, so the words come first.
    let verdict = match (ErrorClassification::of_words(&said.words), said.status) {
        (Some(verdict), _) => verdict,
        (None, Some(status)) => ErrorClassification::of_status(status, &said.words),
        (None, None) => ErrorClassification::of_text(&message),
    };
    let mut error = build(verdict.or_in_words(None, &message), &said, payload, None);
    error.body = Some(payload.to_owned());
    error
}

fn build(
    verdict: ErrorClassification,
    said: &ServerErrorFields,
    body: &str,
    status: Option<u16>,
) -> ProviderError {
    let message = said.message(body);
    // Payment comes first. Its words and statuses are also those of rate limits, bad requests and bad keys.
    if payment::is_payment_due(status.or(said.status), &message, &said.words) {
        return ProviderError {
            status,
            retryable: false,
            is_payment_due: true,
            ..ProviderError::new(payment::CODE, payment::in_words(&message))
        };
    }
    let mut error = ProviderError::new(verdict.code, message);
    error.retryable = verdict.retryable;
    error.status = status;
    error.is_bad_sample = is_bad_sample(body);
    error.gives_no_reason =
        verdict.code == ErrorCode::InvalidRequest && no_reason::gives_no_reason(status, said, body);
    // An overflow comes first, because its words match other rows too and only this code leads to a compaction.
    if let Some(overflow) = overflow::recognise(status, body) {
        error.code = ErrorCode::ContextOverflow;
        // The same request would overflow again. Only a compaction helps.
        error.retryable = false;
        error.used_tokens = overflow.used_tokens;
        error.limit_tokens = overflow.limit_tokens;
        return error;
    }
    let text = said.text(body);
    error.refuses_tools = no_tools::refuses_tools(&text, body);
    if !error.refuses_tools {
        read_refusal(&mut error, said, &text, body);
    }
    // A server that refuses a part of a request refuses the part again.
    error.retryable &= !error.refuses_tools && error.refusal.is_none();
    if error.retryable {
        error.retry_after = waits::read(&text, body);
    }
    error
}

/// Reads what an error refuses: a part, a parameter, or an output limit. `text` has the server's words.
fn read_refusal(error: &mut ProviderError, said: &ServerErrorFields, text: &str, body: &str) {
    // Codes are more exact than some messages.
    let typed = format!("{text} {}", said.words.join(" "));
    error.refusal = refused_part::read(error.status, error.code, &typed).map(Box::new);
    if let Some(refusal) = error.refusal.as_mut().filter(|refusal| refusal.kind.is_none()) {
        let faults = field_fault::read(text, body);
        let is_list =
            |fault: &RequestFieldFault| fault.is_message_field("content") && fault.is_list_for_text();
        // Requests write text alone as a text, so a list that is refused as such has pictures in it.
        if faults.iter().any(is_list) {
            refusal.kind = Some(RefusedPartKind::Image);
            refusal.takes_none = true;
        }
    }
    if error.code == ErrorCode::InvalidRequest {
        let is_about_part = error.refusal.as_ref().is_some_and(|refusal| refusal.is_specific());
        // A model without encrypted reasoning refuses `include` in words about a part. The parameter is left out
        // first. The part stays named, in case that the server refuses it as well.
        error.refused_parameter = match is_about_part {
            false => refused_parameter::read(text, body),
            true => refused_parameter::include_at(body),
        };
        error.output_limit = output_limit::read(text);
        // Several servers tell a filter's refusal with the code of a bad request.
        if error.refusal.as_ref().is_some_and(|refusal| refusal.kind == Some(RefusedPartKind::Content)) {
            error.code = ErrorCode::Refused;
        }
    }
}

/// Returns whether an error is about the text that the model wrote, and not about the request: a call that does not fit
/// its tool. Another attempt often succeeds.
fn is_bad_sample(body: &str) -> bool {
    // Groq's codes, and the field in which the text of the model stands.
    ["tool_use_failed", "output_parse_failed", "failed_generation"].iter().any(|word| body.contains(word))
}

/// The code and the retry decision of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ErrorClassification {
    code: ErrorCode,
    retryable: bool,
}

const fn again(code: ErrorCode) -> ErrorClassification {
    ErrorClassification { code, retryable: true }
}

const fn permanent(code: ErrorCode) -> ErrorClassification {
    ErrorClassification { code, retryable: false }
}

/// Types and codes that are more exact than a status. The first row that matches wins.
#[rustfmt::skip]
const WORDS: &[(&[&str], ErrorClassification)] = &[
    // `resource_exhausted` is Google's word, `throttlingexception` Amazon Bedrock's, `usage_limit_reached` Codex's.
    (&[ "rate_limit_exceeded", "rate_limit_error", "rate_limit_reached_error", "too_many_requests", "resource_exhausted", "throttling_error", "throttlingexception", "throttling", "servicequotaexceededexception", "service_tier_capacity_exceeded", "rate_limited", "usage_limit_reached", ], again(ErrorCode::RateLimitExceeded)),
    (&[ "authentication_error", "invalid_api_key", "api_key_invalid", "permission_error", "permission_denied", "unauthenticated", "unauthorized", "forbidden", "billing_error", "arrearage", "invalid_authentication_error", "invalidapikey", "accessdeniedexception", "expiredtokenexception", "unrecognizedclientexception", ], permanent(ErrorCode::Auth)),
    // `data_inspection_failed` is Alibaba's word, `moderation_blocked` OpenAI's.
    (&["content_policy_violation", "content_filter", "image_content_policy_violation", "moderation_blocked", "data_inspection_failed", "datainspectionfailed", ], permanent(ErrorCode::Refused)),
    (&["timeout", "timeout_error", "request_timeout", "deadline_exceeded"], again(ErrorCode::Timeout)),
    // `overloaded_error` and `api_error` are Anthropic's words, `engine_overloaded_error` is Moonshot's.
    (&[ "overloaded_error", "overloaded", "engine_overloaded", "engine_overloaded_error", "server_error", "api_error", "internal_error", "internal", "internal_server_error", "unavailable", "unavailable_error", "service_unavailable", "service_unavailable_error", "serviceunavailableexception", "internalserverexception", "modelnotreadyexception", "modeltimeoutexception", "modelstreamerrorexception", "slow_down", "capacity_exceeded", ], again(ErrorCode::ThirdParty)),
    (&["not_found_error", "model_not_found", "model_not_supported", "not_found", "invalid_model", "deploymentnotfound", "resourcenotfoundexception", ], permanent(ErrorCode::NotFound)),
    // Groq's words for a call that does not fit its tool, and for an answer that does not fit its form.
    (&["tool_use_failed", "output_parse_failed"], again(ErrorCode::ThirdParty)),
    (&[ "invalid_request_error", "invalid_argument", "bad_request", "badrequesterror", "validationexception", "invalid_prompt", "not_supported_error", ], permanent(ErrorCode::InvalidRequest)),
];

/// The words of a filter that refuses a request with the status of a bad key (OpenRouter, xAI).
const MODERATION: &[&str] = &[
    "moderation",
    "input was flagged",
    "prompt was flagged",
    "content was flagged",
    "message was flagged",
    "request was flagged",
    "content filter",
    "content_filter",
    "content management policy",
    "violates usage guidelines",
    "inappropriate content",
    "sensitive content",
    "sensitive words",
];

/// Words of errors about who asks, whatever else they say: a flagged account is no flagged request.
const ABOUT_ACCOUNT: &[&str] = &["account", "organization", "api key", "permission", "not allowed to use"];

/// Words of errors about a key or a payment.
const NO_ACCESS: &[&str] = &[
    "api key",
    "unauthorized",
    "authenticat",
    "insufficient balance",
    "insufficient credit",
    "余额不足",
    "欠费",
    "鉴权",
    "未授权",
];

fn has_any(text: &str, needles: &[&str]) -> bool {
    needles.iter().any(|needle| text.contains(needle))
}

impl ErrorClassification {
    fn of_words(words: &[String]) -> Option<Self> {
        let row = WORDS.iter().find(|(known, _)| words.iter().any(|word| known.contains(&word.as_str())))?;
        Some(row.1)
    }

    /// Classifies a status. The status decides, except for words that are known to be more exact: an exhausted
    /// quota comes as 429, a bad key or an overload as 400.
    fn of_status(status: u16, words: &[String]) -> Self {
        let said = Self::of_words(words);
        match status {
            // Other words under 429 are taken for a limit all the same, because the status is clear.
            429 => said
                .filter(|verdict| verdict.code == ErrorCode::RateLimitExceeded)
                .unwrap_or(again(ErrorCode::RateLimitExceeded)),
            403 if said.is_some_and(|verdict| verdict.code == ErrorCode::Refused) => {
                permanent(ErrorCode::Refused)
            }
            401..=403 | 407 => permanent(ErrorCode::Auth),
            404 | 410 => permanent(ErrorCode::NotFound),
            408 => again(ErrorCode::Timeout),
            409 => again(ErrorCode::Conflict),
            // The server lacks the method or the version of HTTP, and no repetition changes that.
            501 | 505 => permanent(ErrorCode::InvalidRequest),
            // Anthropic reports an overload as 529, TGI a failed generation as 424, and Google a cancelled call as 499.
            // Groq's flex tier without room is 498.
            421 | 423..=425 | 498..=599 => again(ErrorCode::ThirdParty),
            400..=497 => said.unwrap_or(permanent(ErrorCode::InvalidRequest)),
            _ => permanent(ErrorCode::ThirdParty),
        }
    }

    /// Returns the classification of passing trouble, or of a fault of the model or the account, if a bad request is told
    /// in such words. A named part is refused again, whatever the words.
    fn or_in_words(self, status: Option<u16>, message: &str) -> Self {
        if self.code != ErrorCode::InvalidRequest {
            return self;
        }
        let names_part =
            refused_part::read(status, self.code, message).is_some_and(|refusal| refusal.is_specific());
        // A model's name may contain the word for a part, such as "image".
        let about_model = model_or_account::read(message);
        about_model.or_else(|| transient_error::classify(message).filter(|_| !names_part)).unwrap_or(self)
    }

    /// Classifies a refusal of content that the status alone would misread. `None` for every other error.
    fn of_refused_content(status: u16, message: &str) -> Option<Self> {
        let text = message.to_lowercase();
        let is_moderated = has_any(&text, MODERATION) && !has_any(&text, ABOUT_ACCOUNT);
        // OpenAI does not store the items of a request with `store: false`, and does not find them again.
        let is_missing_item = has_any(&text, &["item with id"]) && has_any(&text, &["not found"]);
        match status {
            403 if is_moderated => Some(permanent(ErrorCode::Refused)),
            404 if is_missing_item => Some(permanent(ErrorCode::InvalidRequest)),
            _ => None,
        }
    }

    /// Classifies an error without status, type or code.
    fn of_text(message: &str) -> Self {
        let text = message.to_lowercase();
        if has_any(&text, &["unexpected endpoint"]) {
            // LM Studio answers an unknown path with status 200 and a text.
            permanent(ErrorCode::NotFound)
        } else if has_any(&text, &["rate limit", "too many requests", "quota", "限流", "频率", "请求过多"])
        {
            again(ErrorCode::RateLimitExceeded)
        } else if has_any(&text, &["timed out", "timeout", "deadline exceeded", "超时"]) {
            again(ErrorCode::Timeout)
        } else if has_any(&text, NO_ACCESS) {
            permanent(ErrorCode::Auth)
        } else if let Some(verdict) = model_or_account::read(message) {
            verdict
        } else if text.trim() == "not found" {
            permanent(ErrorCode::NotFound)
        } else {
            again(ErrorCode::ThirdParty)
        }
    }
}

#[cfg(test)]
mod tests;
