//! Refusals about a part of a request: the kind and the place of the part.
//!
//! The words of an error give the kind. The place that the error names is looked up in the request. Sources of
//! the words: Anthropic, OpenAI, Azure, Google, Alibaba, DeepSeek, OpenRouter, vLLM, llama.cpp, Ollama, LM
//! Studio.

use longhaul_core::error::ErrorCode;
use longhaul_core::refusal::{PartRefusal, PictureSizeLimits, RefusedPart, RefusedPartKind};
use serde_json::Value;

use crate::server_error;

mod count_limit;
mod place;
mod size_limit;
#[cfg(test)]
mod tests;

/// Recognises a refused part in an answer outside 2xx, or in an error inside an answer (`status` is `None` then).
/// `request` is another program's request.
pub fn recognise(status: Option<u16>, said: &str, request: &[u8]) -> Option<PartRefusal> {
    let error = match status {
        Some(status) => server_error::from_response(status, None, said.to_owned()),
        None => server_error::from_answer(said),
    };
    let mut refusal = *error.refusal?;
    refusal.part = locate(&refusal, said, request);
    Some(refusal)
}

/// Reads the refused part from an error. `None` if the same request may succeed later, or if the error is about
/// something outside the conversation.
pub(crate) fn read(status: Option<u16>, code: ErrorCode, message: &str) -> Option<PartRefusal> {
    // Servers quote names differently or not at all, so the tables of words have no quotes.
    let text = message.to_lowercase().replace(['`', '"', '\'', '’'], "");
    let kind = kind(code, &text);
    match (status, code) {
        // A filter refuses with any status, or inside a stream.
        (_, ErrorCode::Refused) => {}
        // 404 is the status of an item that the server has not kept.
        (Some(400 | 404 | 413 | 415 | 422), ErrorCode::InvalidRequest) => {}
        (None, ErrorCode::InvalidRequest) => {}
        // A gateway of many models answers 404 if none of them takes the part.
        (Some(404), _) if has(&text, &["support image", "support file", "support multimodal"]) => {}
        // A server that fails at a part fails at it again, so even a 500 is a refusal here.
        (None | Some(500..=599), ErrorCode::ThirdParty | ErrorCode::InvalidRequest)
            if matches!(kind, Some(RefusedPartKind::Image | RefusedPartKind::File))
                && has(&text, FAILED_AT) => {}
        _ => return None,
    }
    // Leaving out a part of the conversation does not help against a refused setting.
    if kind.is_none() && (has(&text, PARAMETERS) || code == ErrorCode::NotFound) {
        return None;
    }
    let is_image = kind == Some(RefusedPartKind::Image);
    let takes_none =
        is_image && has(&text, NO_IMAGES) || kind == Some(RefusedPartKind::File) && has(&text, NO_FILES);
    let is_counted = matches!(kind, Some(RefusedPartKind::Image | RefusedPartKind::File));
    let most = if is_counted && !takes_none { count_limit::max_parts(&text) } else { None };
    let takes_none = takes_none || most == Some(0);
    let size = match is_image && !takes_none {
        true => size_limit::picture_limits(&text),
        false => PictureSizeLimits::default(),
    };
    Some(PartRefusal { kind, takes_none, most, size, ..PartRefusal::default() })
}

/// Returns the part that an error names by its place in the request, for example `messages.3.content.1`.
pub fn locate(refusal: &PartRefusal, error_body: &str, request: &[u8]) -> Option<RefusedPart> {
    if let Some(tool) = named_tool(refusal, error_body) {
        return Some(RefusedPart::Tool(tool));
    }
    let places = place::named_in(error_body);
    let item = named_reasoning(refusal, error_body);
    if places.is_empty() && item.is_none() {
        return None;
    }
    let request: Value = serde_json::from_slice(request).ok()?;
    let by_id = item.and_then(|id| place::reasoning_item(id, &request));
    let is_about_reasoning = refusal.kind == Some(RefusedPartKind::Reasoning);
    let signature =
        || places.iter().filter(|_| is_about_reasoning).find_map(|place| place.signed_part(&request));
    by_id.or_else(signature).or_else(|| places.iter().find_map(|place| place.part_of(&request)))
}

/// Returns the id of the reasoning item that an error names: "Item with id 'rs_1' not found".
fn named_reasoning<'e>(refusal: &PartRefusal, error_body: &'e str) -> Option<&'e str> {
    if refusal.kind != Some(RefusedPartKind::Reasoning) {
        return None;
    }
    let (_, rest) = error_body.split_once("Item with id '")?;
    rest.split('\'').next()
}

/// Returns the tool that an error names: "Invalid schema for function 'x'".
fn named_tool(refusal: &PartRefusal, error_body: &str) -> Option<String> {
    if refusal.kind != Some(RefusedPartKind::ToolSchema) {
        return None;
    }
    // The quotes around the name are escaped if the body is JSON.
    let text = error_body.replace("\\\"", "\"");
    ["function ", "Function ", "tool ", "Tool "].iter().find_map(|word| {
        text.match_indices(word).find_map(|(at, _)| {
            let rest = &text[at + word.len()..];
            // Without a quote the next word is prose, as in "function calling is off".
            let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"' | '`'))?;
            let (name, _) = rest[1..].split_once(quote)?;
            is_tool_name(name).then(|| name.to_owned())
        })
    })
}

fn is_tool_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'))
}

fn has(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

fn kind(code: ErrorCode, text: &str) -> Option<RefusedPartKind> {
    if has(text, NOT_LEFT_OUT) {
        return None;
    }
    // The first row that matches wins, so the order matters: an error about a file may mention images too.
    let table: [(RefusedPartKind, &[&str]); 5] = [
        (RefusedPartKind::Reasoning, REASONING),
        (RefusedPartKind::ToolSchema, TOOL_SCHEMAS),
        (RefusedPartKind::File, FILES),
        (RefusedPartKind::Image, IMAGES),
        (RefusedPartKind::Content, FILTERS),
    ];
    let found = table.iter().find(|(_, words)| has(text, words)).map(|(kind, _)| *kind);
    found.or((code == ErrorCode::Refused).then_some(RefusedPartKind::Content))
}

/// Requirements beyond the omission of a part.
const NOT_LEFT_OUT: &[&str] = &[
    "must be passed back",
    "must start with a thinking block",
    "expected thinking or redacted_thinking",
    // Gemini demands a signature, and the omission of one would not give it. The request's form changes instead
    // (`gemini::GeminiAdaptations`).
    "missing a thought_signature",
    "missing thought_signature",
    "missing a thought signature",
    "missing thought signature",
];

const REASONING: &[&str] = &[
    "invalid_encrypted_content",
    "encrypted content",
    "encrypted_content",
    "signature in thinking",
    "thinking.signature",
    "thinking block",
    "redacted_thinking",
    "thought signature",
    "thought_signature",
    "thoughtsignature",
    "of type reasoning",
    "reasoning item",
    "reasoning_content",
    "reasoning_details",
    // OpenAI's ids of reasoning items
    "item with id rs_",
];

const TOOL_SCHEMAS: &[&str] = &[
    "invalid schema for function",
    "invalid schema for tool",
    "input_schema",
    "function_declarations",
    "functiondeclaration",
    "function.parameters",
    "json schema conversion failed",
    "invalid tool schema",
    "tool schema",
    "failed to parse grammar",
    "failed to initialize samplers",
    "grammar",
    "inputschema.json",
    "toolspec",
];

const FILES: &[&str] = &[
    "pdf",
    "input_file",
    "file_data",
    "file data",
    "file type",
    "document source",
    "document block",
    "document has no pages",
    "document is not",
    "document is invalid",
    "file part",
    "file input",
    "files are not",
    "support file",
];

const IMAGES: &[&str] = &[
    "image",
    "multimodal",
    "multi-modal",
    "mmproj",
    "support vision",
    "vision model",
    "vision input",
    "without vision",
    "picture",
    "unsupported mime type",
    "invalid mime type",
];

const FILTERS: &[&str] = &[
    "content filter",
    "content_filter",
    "content management policy",
    "content policy",
    "content_policy",
    "usage policies",
    "usage policy",
    "inappropriate content",
    "data_inspection_failed",
    "datainspectionfailed",
    "content exists risk",
    "flagged",
    "sensitive content",
    "sensitive words",
    "敏感内容",
    "敏感词",
    "safety system",
    "prohibited content",
    "prohibited_content",
    "blocked by",
    "prompt was blocked",
    "moderation",
];

const NO_IMAGES: &[&str] = &[
    "not support image",
    "not support vision",
    "not support multimodal",
    "not support multi-modal",
    "doesnt support image",
    "doesnt support vision",
    "found that support image",
    "not a multimodal",
    "not a vision",
    "not multimodal",
    "image input is not supported",
    "image inputs are not supported",
    "image input not supported",
    "images are not supported",
    "image_url is not supported",
    "image_url is only supported by",
    "unknown variant image_url",
    "required for image input",
    "mmproj",
    "without vision",
    "text-only",
    "only supports text",
    "only text is supported",
];

const NO_FILES: &[&str] = &[
    "not support file",
    "not support pdf",
    "not support document",
    "doesnt support file",
    "doesnt support pdf",
    "found that support file",
    "pdf input is not supported",
    "file input is not supported",
    "files are not supported",
    "unknown variant file",
    "unknown variant input_file",
];

/// The words of a server that fails at a picture or a file.
const FAILED_AT: &[&str] = &[
    "not support",
    "unsupported",
    "doesnt support",
    "mmproj",
    "invalid",
    "decod",
    "cannot identify",
    "could not process",
    "failed to process",
    "failed to load",
    "unable to process",
    "unable to load",
    "required for image input",
    "broken",
    "corrupt",
    "truncated",
    "exceeds limit",
    "exceeds the limit",
    "exceeds maximum",
    "exceeds the maximum",
    "decompression bomb",
];

/// Settings of a request that are not part of the conversation.
const PARAMETERS: &[&str] = &[
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "temperature",
    "top_p",
    "top_k",
    "penalty",
    "tool_choice",
    "response_format",
    "stream_options",
    "reasoning_effort",
    "reasoning.effort",
    "budget_tokens",
    "parallel_tool_calls",
    "service_tier",
    "invalid model",
    "model not",
    "model does not exist",
    "unknown model",
    "api version",
    "anthropic-version",
    "anthropic-beta",
    "unrecognized request argument",
    "unknown parameter",
    "unknown field",
    "extra inputs are not permitted",
];
