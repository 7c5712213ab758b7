//! Recognition of a request that did not fit, in any server's words.
//!
//! Structured codes come first, then a table of English texts and rules for other languages. Vetoes exclude similar errors: rate limits per minute,
//! time-outs, output limits. A wrong yes costs a needless compaction, a wrong no ends the run.
//!
//! Some servers do not refuse such a request: they cut it silently, or send an empty answer. [`suspect`] examines
//! answers with status 200.

mod languages;
mod patterns;
mod suspicion;
mod texts;

use texts::ErrorBodyContents;

pub use suspicion::{AnsweredRequestTokens, SuspectedOverflow, suspect};

/// A request that did not fit. `None`: the error gave no number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportedOverflow {
    /// Tokens of the request's input, where the number is exact.
    pub used_tokens: Option<u64>,
    /// The window, or the input limit, in tokens.
    pub limit_tokens: Option<u64>,
}

/// Codes that mean overflow and nothing else, in lower case.
const CODES: &[&str] = &[
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size_error",
    "model_context_window_exceeded",
    "model_max_prompt_tokens_exceeded",
    // GitHub Models
    "tokens_limit_reached",
];

/// Codes that mean something else, whatever the text says.
const OTHER_CODES: &[&str] = &[
    "rate_limit_exceeded",
    "rate_limit_error",
    "insufficient_quota",
    "authentication_error",
    "invalid_api_key",
    "permission_error",
    "timeout_error",
    "deadline_exceeded",
    "overloaded_error",
    "resource_exhausted",
    "throttling_error",
    "throttlingexception",
];

/// Recognises an overflow in an error: its status, if it had one, and its body, a JSON text or a plain message.
///
/// ```
/// use longhaul_wire::overflow::recognise;
/// let body = r#"{"error":{"message":"prompt is too long: 210,000 tokens > 200,000 maximum"}}"#;
/// let overflow = recognise(Some(400), body).unwrap();
/// assert_eq!((overflow.used_tokens, overflow.limit_tokens), (Some(210_000), Some(200_000)));
/// assert_eq!(recognise(Some(429), body), None);
/// ```
pub fn recognise(status: Option<u16>, body_or_message: &str) -> Option<ReportedOverflow> {
    let found = ErrorBodyContents::read(body_or_message);
    // A request above a whole budget of tokens per minute never passes, however long the wait. Its status and code are
    // those of a rate limit, so it is examined first.
    let limit_tokens = found.texts.iter().find_map(|text| patterns::exceeded_budget(text));
    if limit_tokens.is_some() && matches!(status, None | Some(200 | 400 | 413 | 422 | 429)) {
        // The request's number includes the room of the answer, so it is not the input's.
        return Some(ReportedOverflow { used_tokens: None, limit_tokens });
    }
    // Gateways name a status inside an answer that began with 200.
    let trust = match status {
        None | Some(200) => found.status().map_or(OverflowTrust::Plain, OverflowTrust::in_status),
        Some(status) => OverflowTrust::in_status(status),
    };
    // The sentence is also that of an output limit, so it is examined before the vetoes.
    let is_text_trusted = matches!(trust, OverflowTrust::Plain | OverflowTrust::ServerError);
    if is_text_trusted && found.texts.iter().any(|text| patterns::has_negative_room(text)) {
        return Some(ReportedOverflow::default());
    }
    // Vetoes come first: rate limits, too, are errors about tokens above a limit.
    if found.has_code(OTHER_CODES) || found.texts.iter().any(|text| patterns::vetoed(text)) {
        return None;
    }
    // Fields are exact, sentences may be reworded, so fields come first.
    let numbers = found.numbers.or(patterns::numbers(&found.texts)).or(languages::numbers(&found.texts));
    let structured = found.has_code(CODES);
    let is_worded = |text: &String| patterns::matches(text) || languages::matches(text);
    let said = structured || found.texts.iter().any(is_worded) || found.is_google_overflow();
    match trust {
        OverflowTrust::Plain if said || no_body(status, body_or_message) || too_large(status, &found) => {
            Some(numbers)
        }
        OverflowTrust::OnlyStrong
            if said && (structured || numbers.is_complete() || found.is_unmistakable()) =>
        {
            Some(numbers)
        }
        OverflowTrust::ServerError if structured || said && found.is_about_input(numbers) => Some(numbers),
        OverflowTrust::OnlyCode if structured => Some(numbers),
        _ => None,
    }
}

/// The degree to which a status lets the text decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OverflowTrust {
    Plain,
    /// A code, or words of overflow that name the input or give both numbers. Servers that wrap others send overflow as
    /// any 5xx, or as 499. An outage in similar words is none.
    ServerError,
    /// Only a code, both numbers, or words that no other error uses. One gateway sends overflow as 403, and SageMaker
    /// sends every error of its model as 424.
    OnlyStrong,
    /// Only a code. Other statuses have a meaning of their own, such as a rate limit or a missing model.
    OnlyCode,
}

impl OverflowTrust {
    /// Returns the trust in a status.
    fn in_status(status: u16) -> Self {
        match status {
            400 | 413 | 422 => Self::Plain,
            499..=599 => Self::ServerError,
            403 | 424 => Self::OnlyStrong,
            _ => Self::OnlyCode,
        }
    }
}

impl ReportedOverflow {
    fn or(self, other: Self) -> Self {
        Self {
            used_tokens: self.used_tokens.or(other.used_tokens),
            limit_tokens: self.limit_tokens.or(other.limit_tokens),
        }
    }

    fn is_complete(self) -> bool {
        self.used_tokens.is_some() && self.limit_tokens.is_some()
    }
}

/// Reports whether the refusal is the status 413 alone. Its name, "Content Too Large", is the reason then. The status 400
/// alone has no reason and proves nothing.
fn no_body(status: Option<u16>, body: &str) -> bool {
    let body = body.trim().to_lowercase();
    // OpenAI's SDKs word an error without a body like this, and proxies pass their words on.
    body == "413 status code (no body)" || status == Some(413) && body.is_empty()
}

/// Reports whether the error has a name of 413, or Anthropic's code for it.
fn too_large(status: Option<u16>, found: &ErrorBodyContents) -> bool {
    const NAMES: [&str; 3] = ["request entity too large", "payload too large", "content too large"];
    if status != Some(413) {
        return false;
    }
    let mut texts = found.texts.iter().map(|text| text.to_lowercase());
    found.has_code(&["request_too_large"]) || texts.any(|text| NAMES.iter().any(|name| text.contains(name)))
}

#[cfg(test)]
mod tests;
