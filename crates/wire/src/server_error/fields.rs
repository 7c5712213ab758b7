//! The fields of an error object, in one shape for all servers.

use serde_json::{Map, Value};

use super::{no_reason, sentences};
use crate::field_fault;

/// The number of characters of a body without an error object that go into the message.
pub(super) const MAX_QUOTE_CHARS: usize = 300;

/// The depth of nesting behind which an object is no error object any more.
const MAX_DEPTH: usize = 8;

/// The message of an error without words.
const NO_WORDS: &str = "the server gave no reason";

/// The fields that hold a message.
const MESSAGE_KEYS: &[&str] = &[
    "message",
    "detail",
    "msg",
    "error_description",
    "error_message",
    "error_msg",
    "errorMessage",
    "errmsg",
    "status_msg",
    "Message",
];

/// MiniMax's codes, with the words of other servers for them
/// (<https://platform.minimax.io/docs/api-reference/errorcode>).
const MINIMAX_CODES: &[(u64, &str)] = &[
    (1000, "server_error"),
    (1001, "timeout_error"),
    (1002, "rate_limit_error"),
    (1004, "authentication_error"),
    (1008, "billing_error"),
    (1013, "server_error"),
    (1024, "server_error"),
    (1026, "content_filter"),
    (1027, "content_filter"),
    (1033, "server_error"),
    (1039, "rate_limit_error"),
    (2013, "invalid_request_error"),
    (2049, "invalid_api_key"),
];

/// The fields of an error object.
#[derive(Debug, Default)]
pub(super) struct ServerErrorFields {
    message: Option<String>,
    /// The text from which `message` was taken, if that is a text with another error inside.
    whole_message: Option<String>,
    /// The sentences of an error without a message, each with the field that it is about.
    sentences: Option<String>,
    /// The values of `type`, `code`, `status` and `reason`, in lower case.
    pub(super) words: Vec<String>,
    /// A status given as a number inside the object.
    pub(super) status: Option<u16>,
}

impl ServerErrorFields {
    pub(super) fn read(body: &str) -> Self {
        let mut said = Self::default();
        if let Ok(value) = serde_json::from_str::<Value>(body) {
            said.take(&value, 0);
            // An object may have other names for its message, or a message for each field.
            said.sentences = Some(sentences(&value));
        }
        said
    }

    /// Reads the innermost `error` first: it is the most exact.
    fn take(&mut self, value: &Value, depth: usize) {
        match value {
            _ if depth > MAX_DEPTH => {}
            Value::Object(object) => self.take_object(object, depth),
            // Gemini puts the error object of a stream into a list.
            Value::Array(items) => items.iter().for_each(|item| self.take(item, depth + 1)),
            Value::String(text) => self.say(text, depth),
            _ => {}
        }
    }

    fn take_object(&mut self, object: &Map<String, Value>, depth: usize) {
        let inner = ["error", "errors", "base_resp"]
            .iter()
            .find_map(|key| object.get(*key).filter(|inner| !inner.is_null()));
        if let Some(inner) = inner {
            self.take(inner, depth + 1);
        }
        // OpenRouter says only that a provider failed. The provider's own error is a text beside.
        match object.get("metadata").and_then(|metadata| metadata.get("raw")) {
            Some(Value::String(raw)) if !raw.trim_start().starts_with('<') => self.say(raw, depth),
            Some(raw @ Value::Object(_)) => self.take(raw, depth + 1),
            _ => {}
        }
        // FastAPI, which vLLM and SGLang are built on, names the message `detail`, or `msg` in a list of details. Some
        // servers put an object or a list in the place of a sentence.
        for key in MESSAGE_KEYS {
            if let Some(message) = object.get(*key) {
                self.take(message, depth + 1);
            }
        }
        for key in ["type", "code", "status", "reason", "status_code", "statusCode"] {
            self.word(object.get(key));
        }
        // Amazon's services name the kind behind the service: `com.amazon.coral.service#ThrottlingException`.
        let kind = object.get("__type").and_then(Value::as_str);
        self.words.extend(kind.and_then(|kind| kind.rsplit('#').next()).map(str::to_lowercase));
        let minimax = object.get("status_code").and_then(Value::as_u64);
        if let Some((_, word)) = MINIMAX_CODES.iter().find(|(code, _)| Some(*code) == minimax) {
            self.words.push((*word).to_owned());
        }
        if let Some(Value::Array(details)) = object.get("details") {
            details.iter().for_each(|detail| self.word(detail.get("reason")));
        }
    }

    /// Takes a message. A text that ends in an error object says what that object says.
    fn say(&mut self, text: &str, depth: usize) {
        let text = text.trim();
        // The first message wins, which is the innermost one, unless another one says more.
        if text.is_empty() || self.message.as_ref().is_some_and(|known| !no_reason::says_more(text, known)) {
            return;
        }
        let Some((before, inner)) = error_inside(text) else {
            self.message = Some(text.to_owned());
            return;
        };
        let message = match inner {
            InnerError::Object(value) => {
                let mut said = Self::default();
                said.take(&value, depth + 1);
                self.words.append(&mut said.words);
                self.status = self.status.or(said.status);
                said.message.unwrap_or_else(|| sentences(&value))
            }
            InnerError::Message(message) => message,
        };
        self.whole_message = Some(text.to_owned());
        self.message = match (before, message.as_str()) {
            ("", "") => None,
            ("", _) => Some(message),
            (before, "") => Some(before.to_owned()),
            (before, message) => Some(format!("{before}: {message}")),
        };
    }

    fn word(&mut self, value: Option<&Value>) {
        match value {
            // LiteLLM gives the status as a text (`"code": "429"`).
            Some(Value::String(text)) => match text.parse() {
                Ok(number) => self.number(number),
                // Servers write the same code with blanks, dashes or underscores.
                Err(_) => self.words.push(text.to_lowercase().replace([' ', '-'], "_")),
            },
            Some(Value::Number(number)) => self.number(number.as_u64().unwrap_or_default()),
            _ => {}
        }
    }

    fn number(&mut self, number: u64) {
        if let (None, Ok(status @ 400..=599)) = (self.status, u16::try_from(number)) {
            self.status = Some(status);
        }
    }

    /// Returns the server's message, or the beginning of the body. Faults of single fields are named by their places.
    pub(super) fn message(&self, body: &str) -> String {
        let faults = field_fault::read(self.message.as_deref().unwrap_or_default(), body);
        match &self.message {
            Some(message) if faults.is_empty() => return message.clone(),
            // The list as Python prints it says no more than the faults do.
            Some(message)
                if !field_fault::is_printed(message)
                    && !faults.iter().any(|fault| fault.is_worded(message)) =>
            {
                return format!("{message} ({})", field_fault::describe(&faults));
            }
            _ if !faults.is_empty() => return field_fault::describe(&faults),
            _ => {}
        }
        match (&self.sentences, body.trim()) {
            (_, "") => self.without_words(),
            (_, html) if html.starts_with('<') => {
                "the server answered with a page, not with an error object".to_owned()
            }
            (Some(sentences), _) if sentences.is_empty() => self.without_words(),
            (Some(sentences), _) => sentences.clone(),
            (None, text) => text.chars().take(MAX_QUOTE_CHARS).collect(),
        }
    }

    /// Returns the message of an error without words: its codes, if they say anything.
    fn without_words(&self) -> String {
        let codes: Vec<&str> =
            self.words.iter().map(String::as_str).filter(|word| !no_reason::is_empty(word)).collect();
        match codes.is_empty() {
            true => NO_WORDS.to_owned(),
            false => format!("{NO_WORDS} but the code {}", codes.join(", ")),
        }
    }

    /// Returns everything that the message says, for readers of words: also the codes of an error inside the message.
    pub(super) fn text(&self, body: &str) -> String {
        let message = self.message(body);
        match &self.whole_message {
            Some(whole) => format!("{message} {whole}"),
            None => message,
        }
    }

    /// Returns the server's own words, without ours: empty for an error without any.
    pub(super) fn own_words(&self, body: &str) -> String {
        let message = self.message(body);
        match body.trim_start().starts_with('<') {
            true => page_title(body).to_owned(),
            false if message == self.without_words() => String::new(),
            false => message,
        }
    }
}

/// An error inside the text of another one.
enum InnerError {
    /// An error object as JSON.
    Object(Value),
    /// The message of an error object as Python prints it.
    Message(String),
}

/// Returns the error object inside a text, with the words before it. Proxies of many servers (LiteLLM) quote the answer
/// of the server that they asked: `OpenAIException - Error code: 400 - {'error': {'message': …`.
fn error_inside(text: &str) -> Option<(&str, InnerError)> {
    let at = text.find(['{', '[']).filter(|at| text[*at..].ends_with(['}', ']']))?;
    let before = text[..at].trim_end_matches(|c: char| c.is_whitespace() || matches!(c, ':' | '-' | ','));
    match serde_json::from_str::<Value>(&text[at..]) {
        Ok(value) => {
            let object = value.get(0).unwrap_or(&value);
            let is_error =
                at == 0 || ["error", "message", "detail"].iter().any(|key| object.get(key).is_some());
            is_error.then_some((before, InnerError::Object(value)))
        }
        // Faults of fields have a reader of their own.
        Err(_) if field_fault::is_printed(text) => None,
        Err(_) => {
            let (_, rest) = text[at..].split_once("'message': ")?;
            Some((before, InnerError::Message(field_fault::quoted(rest)?.trim().to_owned())))
        }
    }
}

/// Returns the title of a page; an empty text if the page has none.
fn page_title(page: &str) -> &str {
    // Only ASCII letters change, so a position in `lower` is the same position in `page`.
    let lower = page.to_ascii_lowercase();
    let title = lower.find("<title").and_then(|start| {
        let start = start + lower[start..].find('>')? + 1;
        Some(start..start + lower[start..].find('<')?)
    });
    title.map_or("", |title| &page[title])
}
