//! Errors of an account without credit. Only a payment helps, so the call is not repeated.

use longhaul_core::error::ErrorCode;

use super::has_any;

/// The status for a valid key of an account without credit.
const PAYMENT_REQUIRED: u16 = 402;

/// The beginning of the message of an error that only a payment helps against.
pub const NO_CREDIT_LEFT: &str = "the account has no credit left, or a payment is due";

/// Codes of an account without credit: OpenAI, Moonshot, Anthropic, Alibaba, Codex.
const NO_CREDIT_CODES: &[&str] = &[
    "insufficient_quota",
    "billing_hard_limit_reached",
    "exceeded_current_quota_error",
    "billing_error",
    "arrearage",
    "insufficient_balance",
    "insufficient_credits",
    "payment_required",
    // LiteLLM
    "budget_exceeded",
    // Codex: the plan does not include the model.
    "usage_not_included",
];

/// Sentences of an account without credit: OpenRouter, Anthropic, DeepSeek, xAI, Together, Hugging Face, Mistral, LiteLLM,
/// Google, and several Chinese servers. "You exceeded your current quota" is not among them: Google says so of a minute's
/// limit.
const NO_CREDIT: &[&str] = &[
    "insufficient balance",
    "insufficient credit",
    "insufficient fund",
    "insufficient account balance",
    "credit balance is too low",
    "balance is too low",
    "out of credits",
    "not enough credit",
    "not enough balance",
    "no credits left",
    "no remaining credits",
    "requires more credits",
    "used all available credits",
    "never purchased credits",
    "monthly included credits",
    "credit limit exceeded",
    "spending limit",
    "payment required",
    "payment is required",
    "overdue payment",
    "account is in arrears",
    "budget has been exceeded",
    "specified api usage limits",
    "please enable billing",
    "余额不足",
    "欠费",
];

/// Returns whether only a payment helps against an error.
pub(super) fn is_payment_due(status: Option<u16>, message: &str, words: &[String]) -> bool {
    status == Some(PAYMENT_REQUIRED)
        || words.iter().any(|word| NO_CREDIT_CODES.contains(&word.as_str()))
        || matches!(status, None | Some(400..=429)) && has_any(&message.to_lowercase(), NO_CREDIT)
}

/// The code of every error of an account without credit, whatever its status.
///
/// OpenAI tells it with the status of a rate limit, Anthropic with the status and the type of a bad request. A client
/// waits for the end of a rate limit, and no wait helps here.
pub(super) const CODE: ErrorCode = ErrorCode::Auth;

/// Returns a message that says what is wrong: the key is right, and a payment is due.
pub(super) fn in_words(message: &str) -> String {
    format!("{NO_CREDIT_LEFT}: {message}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use longhaul_core::error::ErrorCode;

    use crate::edit::GatewayErrorKind;
    use crate::server_error::{from_answer, from_response};

    const LOW_BALANCE: &str = r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#;
    const QUOTA: &str = r#"{"error":{"message":"You exceeded your current quota.","type":"insufficient_quota","code":"insufficient_quota"}}"#;

    #[test]
    fn an_account_without_credit_is_told_as_such_and_not_asked_again() {
        for (status, body) in [
            (402, ""),
            (402, r#"{"error":{"message":"Insufficient credits","code":402}}"#),
            (400, LOW_BALANCE),
            (400, r#"{"code":"Arrearage","message":"Access denied"}"#),
            (403, r#"{"error":"Your team has used all available credits"}"#),
            (429, QUOTA),
            (429, r#"{"error":{"message":"Insufficient balance"}}"#),
            (429, r#"{"error":{"type":"usage_not_included","message":"Upgrade to Plus"}}"#),
        ] {
            let error = from_response(status, Some(Duration::from_secs(9)), body.to_owned());
            assert_eq!((error.code, error.retryable), (ErrorCode::Auth, false), "{status} {body}");
            assert!(error.is_payment_due && error.retry_after.is_none(), "no wait helps: {body}");
            assert_eq!(GatewayErrorKind::from_server_error(&error), GatewayErrorKind::Billing, "{body}");
            assert!(error.refusal.is_none(), "no part is to blame: {body}");
            assert!(error.message.starts_with("the account has no credit left"), "{}", error.message);
        }
        let empty = from_response(402, None, String::new()).message;
        assert_eq!(
            empty,
            "the account has no credit left, or a payment is due: the server gave no reason (HTTP 402)"
        );
        for inside in [from_answer(QUOTA), from_answer(LOW_BALANCE)] {
            assert_eq!((inside.code, inside.retryable), (ErrorCode::Auth, false), "{inside:?}");
            assert!(inside.is_payment_due && inside.refusal.is_none(), "{inside:?}");
        }
    }

    #[test]
    fn a_limit_that_passes_is_no_matter_of_payment() {
        let google = r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED"}}"#;
        let error = from_response(429, None, google.to_owned());
        assert!(error.retryable && !error.message.contains("credit"), "{error}");
    }
}
