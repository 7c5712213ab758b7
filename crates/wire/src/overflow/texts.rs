//! The texts, codes and numbers of an error, found in nested objects and in JSON inside strings.

use serde_json::{Map, Value};

use super::{ReportedOverflow, languages, patterns};
use crate::token_count;

/// The depth to which wrapped errors of proxies are followed.
const MAX_DEPTH: usize = 8;

/// Fields that repeat the request or the answer instead of describing the error.
const ECHOES: &[&str] = &[
    "input",
    "ctx",
    "prompt",
    "messages",
    "content",
    "request",
    "request_body",
    "failed_generation",
    "headers",
    "loc",
    "url",
    "documentation_url",
    "requestBodyValues",
    "stack",
];

/// Fields that hold one error for each attempt: only the last attempt counts.
const ATTEMPTS: &[&str] = &["errors", "attempts"];

/// Fields whose short texts are codes.
const CODE_FIELDS: &[&str] = &[
    "code",
    "type",
    "status",
    "reason",
    "error_code",
    "errorCode",
    "__type",
    "finish_reason",
    "finishReason",
    "native_finish_reason",
    "stop_reason",
    "stopReason",
];

/// Fields whose numbers are HTTP statuses.
const STATUS_FIELDS: &[&str] = &["code", "status", "status_code", "statusCode"];

/// The codes, texts and numbers of an error.
#[derive(Debug, Default)]
pub(super) struct ErrorBodyContents {
    pub(super) texts: Vec<String>,
    /// The codes, in lower case.
    codes: Vec<String>,
    /// The numbers that have fields of their own.
    pub(super) numbers: ReportedOverflow,
    /// The innermost HTTP status given as a number, with the depth.
    status: Option<(usize, u16)>,
}

impl ErrorBodyContents {
    pub(super) fn read(body: &str) -> Self {
        let mut found = Self::default();
        found.string(body, 0);
        found
    }

    /// Returns the HTTP status named by the error itself. Gateways name a status inside an answer with status 200.
    pub(super) fn status(&self) -> Option<u16> {
        self.status.map(|(_, status)| status)
    }

    pub(super) fn has_code(&self, known: &[&str]) -> bool {
        self.codes.iter().any(|code| known.contains(&code.as_str()))
    }

    /// Reports whether the error is Google's overflow: a status with a sentence. The sentence has changed before.
    pub(super) fn is_google_overflow(&self) -> bool {
        self.has_code(&["invalid_argument"]) && self.texts.iter().any(|text| patterns::tokens_exceed(text))
    }

    pub(super) fn is_unmistakable(&self) -> bool {
        self.texts.iter().any(|text| patterns::is_unmistakable(text))
    }

    /// Reports whether a server error in words of overflow is about the request, and not about an outage.
    pub(super) fn is_about_input(&self, numbers: ReportedOverflow) -> bool {
        let is_outage = self.texts.iter().any(|text| patterns::is_outage(text));
        // The words of overflow and the name of the input must stand together.
        let names_input = |text: &String| {
            languages::matches(text) || patterns::matches(text) && patterns::names_input(text)
        };
        !is_outage && (numbers.is_complete() || self.is_unmistakable() || self.texts.iter().any(names_input))
    }

    fn string(&mut self, text: &str, depth: usize) {
        // Earlier attempts may have failed for another reason, such as a rate limit.
        let text = last_attempt(text);
        // Most texts are prose, so the first character saves the parser's work.
        let nested = text.trim_start().starts_with(['{', '[']) && depth < MAX_DEPTH;
        match nested.then(|| serde_json::from_str::<Value>(text).ok()).flatten() {
            Some(value) => self.value(&value, depth + 1),
            None => self.prose(text, depth),
        }
    }

    /// Adds a sentence, which may contain the upstream's JSON: `litellm.BadRequestError: … - {"error": …}`.
    fn prose(&mut self, text: &str, depth: usize) {
        self.texts.push(text.trim().to_owned());
        if let Some(start) = text.find('{').filter(|_| depth < MAX_DEPTH) {
            // Only the first value is read, because prose may follow behind it.
            let inner = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>().next();
            // Only the first value is read; prose may follow behind the JSON.
            if let Some(Ok(value)) = inner {
                self.value(&value, depth + 1);
            }
        }
    }

    fn value(&mut self, value: &Value, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        match value {
            Value::String(text) => self.string(text, depth),
            Value::Array(items) => items.iter().for_each(|item| self.value(item, depth + 1)),
            Value::Object(object) => self.object(object, depth),
            _ => {}
        }
    }

    fn object(&mut self, object: &Map<String, Value>, depth: usize) {
        // llama.cpp gives both numbers in fields of their own.
        self.numbers = self.numbers.or(ReportedOverflow {
            used_tokens: token_count::limit(object.get("n_prompt_tokens")),
            limit_tokens: token_count::limit(object.get("n_ctx")),
        });
        for (key, value) in object {
            match (key.as_str(), value) {
                // The user's own text may speak of windows and limits, and would look like an error about them.
                (key, _) if ECHOES.contains(&key) => {}
                (key, Value::Array(attempts)) if ATTEMPTS.contains(&key) => {
                    attempts.last().into_iter().for_each(|last| self.value(last, depth + 1));
                }
                (key, Value::String(code)) if CODE_FIELDS.contains(&key) => self.code(code, depth),
                (key, Value::Number(code)) if STATUS_FIELDS.contains(&key) => {
                    self.named_status(code.as_u64(), depth);
                }
                (_, value) => self.value(value, depth + 1),
            }
        }
    }

    fn code(&mut self, code: &str, depth: usize) {
        // Some servers write the status as a text.
        self.named_status(code.parse().ok(), depth);
        // Amazon's services name the kind behind the service: `com.amazon.coral.service#ThrottlingException`.
        self.codes.push(code.rsplit('#').next().unwrap_or(code).to_lowercase());
    }

    fn named_status(&mut self, number: Option<u64>, depth: usize) {
        let named = number.and_then(|number| u16::try_from(number).ok()).filter(|n| (400..600).contains(n));
        // The innermost status is that of the server that failed. Proxies wrap it in one of their own.
        if let Some(status) = named.filter(|_| self.status.is_none_or(|(known, _)| known <= depth)) {
            self.status = Some((depth, status));
        }
    }
}

/// Returns the last attempt in the text of a retrying client, which reports all attempts.
fn last_attempt(text: &str) -> &str {
    text.rfind("Last error:").map_or(text, |at| &text[at + "Last error:".len()..])
}
