//! The encoder of the conversation, content by content.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use longhaul_core::error::ErrorCode;
use longhaul_core::ids::CallId;
use longhaul_core::message::{MediaPart, Message, ModelOrigin, Part, RawJson, Role, ToolResult, ToolStatus};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{API, GeminiAdaptations, encode_parts};
use crate::raw_json::{self, RawObject};
use crate::{ModelRequest, ModelSettings, ProviderError, UNSUPPORTED};

/// The signature of a call without one, which another model made or which has changed since. Gemini 3 refuses a
/// turn whose first call of a step is unsigned. The value is Google's own for that
/// (<https://ai.google.dev/gemini-api/docs/thought-signatures>, frequently asked questions).
pub(crate) const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The content of one author.
#[derive(Debug, Serialize)]
pub(super) struct GeminiContent<'a> {
    role: &'static str,
    parts: Vec<GeminiPart<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum GeminiPart<'a> {
    Native(Box<RawValue>),
    Text { text: Cow<'a, str> },
    Inline(GeminiInlinePart<'a>),
    Answer(GeminiFunctionResponsePart<'a>),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiInlinePart<'a> {
    inline_data: GeminiBlob<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiBlob<'a> {
    mime_type: &'a str,
    data: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiFunctionResponsePart<'a> {
    function_response: GeminiFunctionResponse<'a>,
}

#[derive(Debug, Serialize)]
struct GeminiFunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    response: GeminiFunctionOutcome,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<GeminiInlinePart<'a>>,
}

/// The two keys that have a meaning to the API.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum GeminiFunctionOutcome {
    Output(String),
    Error(String),
}

/// Returns all contents.
///
/// # Errors
/// `invalid-request` for a tool result whose call is not in the request, and for calls whose arguments are no
/// JSON object.
pub(super) fn encode<'a>(
    request: &'a ModelRequest,
    settings: &'a ModelSettings,
    adaptations: GeminiAdaptations,
) -> Result<Vec<GeminiContent<'a>>, ProviderError> {
    let mut writer = GeminiInputEncoder::new(request, settings, adaptations);
    for message in &request.messages {
        match message.role {
            Role::Tool => writer.tool(message)?,
            Role::User => writer.user(message),
            Role::Assistant => writer.assistant(message)?,
        }
    }
    writer.end_step();
    Ok(writer.contents)
}

/// The identity of a call in its answer.
#[derive(Clone, Copy)]
struct GeminiCallName<'a> {
    /// Google's own id; our id is never sent.
    id: Option<&'a str>,
    name: &'a str,
}

struct GeminiInputEncoder<'a> {
    request: &'a ModelRequest,
    target: ModelOrigin,
    /// `true` for a model of the third generation or later. Such models check signatures, and take media inside
    /// the answer of a function.
    is_strict: bool,
    /// `true` if every call needs a signature.
    signs_calls: bool,
    contents: Vec<GeminiContent<'a>>,
    calls: BTreeMap<&'a CallId, GeminiCallName<'a>>,
    /// The answers of the step so far. All of them become one content, in call order.
    answers: Vec<GeminiPart<'a>>,
    /// Media of those answers that cannot be inside them.
    after: Vec<GeminiPart<'a>>,
}

impl<'a> GeminiInputEncoder<'a> {
    fn new(request: &'a ModelRequest, settings: &'a ModelSettings, adaptations: GeminiAdaptations) -> Self {
        let model = &settings.model;
        Self {
            request,
            target: settings.origin(API),
            is_strict: generation(model).is_some_and(|generation| generation >= 3),
            signs_calls: adaptations.signs_calls,
            contents: Vec::new(),
            calls: BTreeMap::new(),
            answers: Vec::new(),
            after: Vec::new(),
        }
    }

    /// Appends a content. The API refuses a content without parts.
    fn push(&mut self, role: &'static str, parts: Vec<GeminiPart<'a>>) {
        if !parts.is_empty() {
            self.contents.push(GeminiContent { role, parts });
        }
    }

    fn user(&mut self, message: &'a Message) {
        self.end_step();
        let parts = message.parts.iter().filter_map(|part| self.said(part)).collect();
        self.push("user", parts);
    }

    fn said(&self, part: &'a Part) -> Option<GeminiPart<'a>> {
        match part {
            Part::Text(text) if text.text.is_empty() => None,
            Part::Text(text) => Some(GeminiPart::Text { text: Cow::Borrowed(&text.text) }),
            Part::Image(media) | Part::File(media) => {
                Some(self.inline(media).map_or_else(unsupported, GeminiPart::Inline))
            }
            _ => Some(unsupported()),
        }
    }

    fn inline(&self, media: &'a MediaPart) -> Option<GeminiInlinePart<'a>> {
        let mime_type = mime_type(&media.media_type)?;
        let data = STANDARD.encode(self.request.media.get(&media.blob.hash)?);
        Some(GeminiInlinePart { inline_data: GeminiBlob { mime_type, data } })
    }

    fn assistant(&mut self, message: &'a Message) -> Result<(), ProviderError> {
        self.end_step();
        let own = raw_json::is_own(message, &self.target);
        // The names come before the parts, because results refer to calls by Google's own id.
        for call in message.tool_calls() {
            // Another provider's id means nothing to Google, which does not need one.
            let id = call.provider_id.as_deref().filter(|_| own);
            self.calls.insert(&call.call_id, GeminiCallName { id, name: &call.name });
        }
        let mut parts = encode_parts(message, &self.target)?;
        if self.signs_calls {
            sign_calls(&mut parts, usize::MAX);
        } else if self.is_strict {
            // Of several calls in one step only the first needs a signature.
            sign_calls(&mut parts, 1);
        }
        let parts =
            parts.iter().filter_map(|part| raw_json::value(part.as_str())).map(GeminiPart::Native).collect();
        self.push("model", parts);
        Ok(())
    }

    fn tool(&mut self, message: &'a Message) -> Result<(), ProviderError> {
        for part in &message.parts {
            let Part::ToolResult(result) = part else { return Err(raw_json::misplaced(part)) };
            let Some(called) = self.calls.get(&result.call_id).copied() else {
                let message = format!("the result of call `{}` has no call before it", result.call_id);
                return Err(ProviderError::new(ErrorCode::InvalidRequest, message));
            };
            self.answer(called, result);
        }
        Ok(())
    }

    fn answer(&mut self, called: GeminiCallName<'a>, result: &'a ToolResult) {
        let mut words = String::new();
        let mut parts = Vec::new();
        for part in &result.content {
            match part {
                Part::Text(text) => words.push_str(&text.text),
                Part::Image(media) | Part::File(media) => match self.inline(media) {
                    // Older generations take media only outside of a function's answer.
                    Some(inline) if self.is_strict && nests(inline.inline_data.mime_type) => {
                        parts.push(inline)
                    }
                    Some(inline) => {
                        words.push_str("[a file follows the results]");
                        self.follow(called, inline);
                    }
                    None => words.push_str(UNSUPPORTED),
                },
                _ => words.push_str(UNSUPPORTED),
            }
        }
        // An empty output beside a file would look like a failed tool to the model.
        if words.is_empty() && !parts.is_empty() {
            words.push_str("[the attached file]");
        }
        let response = outcome(result.status, words);
        let function_response = GeminiFunctionResponse { id: called.id, name: called.name, response, parts };
        self.answers.push(GeminiPart::Answer(GeminiFunctionResponsePart { function_response }));
    }

    fn follow(&mut self, called: GeminiCallName<'a>, inline: GeminiInlinePart<'a>) {
        let label = format!("File given by {}:", called.name);
        self.after.push(GeminiPart::Text { text: Cow::Owned(label) });
        self.after.push(GeminiPart::Inline(inline));
    }

    fn end_step(&mut self) {
        let mut parts = std::mem::take(&mut self.answers);
        // Media come behind all answers: the answers of one step must stay together.
        parts.append(&mut self.after);
        self.push("user", parts);
    }
}

fn unsupported<'a>() -> GeminiPart<'a> {
    GeminiPart::Text { text: Cow::Borrowed(UNSUPPORTED) }
}

fn outcome(status: ToolStatus, words: String) -> GeminiFunctionOutcome {
    match status {
        ToolStatus::Completed => GeminiFunctionOutcome::Output(words),
        ToolStatus::Error => {
            GeminiFunctionOutcome::Error(words_or(words, "[the tool failed without a message]"))
        }
        ToolStatus::Cancelled => GeminiFunctionOutcome::Error(words_or(words, "[cancelled]")),
        ToolStatus::Interrupted => {
            GeminiFunctionOutcome::Error(words_or(words, "[interrupted, outcome unknown]"))
        }
    }
}

fn words_or(words: String, silence: &str) -> String {
    if words.is_empty() { silence.to_owned() } else { words }
}

/// Gives the placeholder to those of the first `count` calls that have no signature.
fn sign_calls(parts: &mut [RawJson], count: usize) {
    let objects = parts.iter_mut().filter_map(|part| Some((RawObject::parse(part.as_str())?, part)));
    let calls = objects.filter(|(object, _)| object.get("functionCall").is_some()).take(count);
    for (mut object, part) in calls.filter(|(object, _)| object.text(SIGNATURE).is_none()) {
        object.set_text(SIGNATURE, NO_SIGNATURE);
        *part = object.to_json();
    }
}

const SIGNATURE: &str = "thoughtSignature";

/// Returns the generation of a model: `gemini-3.1-pro-preview` is of the third.
fn generation(model: &str) -> Option<u64> {
    // Routers put the maker before the name.
    let name = model.rsplit('/').next()?.strip_prefix("gemini-")?;
    let digits = name.find(|c: char| !c.is_ascii_digit()).map_or(name, |end| &name[..end]);
    digits.parse().ok()
}

/// Returns the media type in the API's form; `None` for a type that the API refuses
/// (<https://ai.google.dev/gemini-api/docs/image-understanding>, `document-processing`, `audio`,
/// `video-understanding`).
fn mime_type(given: &str) -> Option<&str> {
    match given {
        "image/jpg" => Some("image/jpeg"),
        "image/png" | "image/jpeg" | "image/webp" | "image/heic" | "image/heif" | "application/pdf" => {
            Some(given)
        }
        // The API lists no type for source code or Markdown, so both are sent as plain text.
        text if text.starts_with("text/") => Some("text/plain"),
        heard if heard.starts_with("audio/") || heard.starts_with("video/") => Some(given),
        _ => None,
    }
}

/// Reports whether the answer of a function may contain media of this type
/// (<https://ai.google.dev/gemini-api/docs/function-calling>, multimodal function responses).
fn nests(mime_type: &str) -> bool {
    matches!(mime_type, "image/png" | "image/jpeg" | "image/webp" | "application/pdf" | "text/plain")
}
