//! Errors about the model or the account, told with the status of a bad request.
//!
//! No part of the conversation is at fault, so none is left out, and the same request fails again. Sources: OpenAI,
//! OpenRouter, xAI, Anthropic, Google, Amazon Bedrock, GitHub Copilot, Codex, LM Studio, LiteLLM.

use longhaul_core::error::ErrorCode;

use super::{ErrorClassification, has_any, permanent};

/// Sentences about a model that the server does not have, or does not offer to this account.
const NO_MODEL: &[&str] = &[
    "is not a valid model",
    "model not found",
    "model identifier is invalid",
    "model does not exist",
    "invalid model name",
    "invalid model id",
    "invalid model:",
    "unknown model",
    "no such model",
    "no models loaded",
    "no model loaded",
    "no model is loaded",
    "requested model is not supported",
    "model is not supported when using",
    "on-demand throughput isn",
    "is not servable in region",
    "has no model deployed",
];

/// Sentences about an account, its key or its place.
const NO_ACCESS: &[&str] = &[
    "organization has been disabled",
    "account has been disabled",
    "account has been deactivated",
    "account has been suspended",
    "account is suspended",
    "account is not active",
    "user location is not supported",
    "country, region, or territory not supported",
    "not available in your country",
    "only authorized for use with",
    "security token included in the request",
    "token has expired",
    "token is expired",
    "token expired",
    "api key not valid",
    "api key is not valid",
    "api key is invalid",
    "api key expired",
    "invalid api key",
    "incorrect api key",
    "no api key",
    "missing api key",
    "you don't have access to the model",
    "you do not have access to the model",
    "access to the model is denied",
];

/// Classifies an error by words about the model or the account; `None` if there are none.
pub(super) fn read(message: &str) -> Option<ErrorClassification> {
    let text = message.to_lowercase().replace(['`', '"', '’'], "'");
    if has_any(&text, NO_ACCESS) {
        return Some(permanent(ErrorCode::Auth));
    }
    (has_any(&text, NO_MODEL) || names_missing_model(&text)).then(|| permanent(ErrorCode::NotFound))
}

/// Returns whether a text says that the model which it names does not exist: "The model 'x' does not exist or you do not
/// have access to it."
fn names_missing_model(text: &str) -> bool {
    ["does not exist", "not found", "is not supported when using"].iter().any(|words| {
        let Some((before, _)) = text.split_once(words) else { return false };
        // The name stands in quotes between the two, or is one word.
        let Some((_, name)) = before.rsplit_once("model ") else { return false };
        let name = name.trim();
        let is_quoted = name.len() > 2 && name.starts_with('\'') && name.ends_with('\'');
        let name = name.trim_matches('\'');
        let names_it = is_quoted || before.starts_with("the model ") || before.starts_with("model ");
        names_it && !name.is_empty() && !name.contains(char::is_whitespace)
    })
}
