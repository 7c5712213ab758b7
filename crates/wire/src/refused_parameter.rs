//! Errors that refuse a parameter of a request by name, whatever its value.
//!
//! Sources of the words: OpenAI, Azure, Anthropic, Mistral, Groq, xAI, Fireworks, vLLM, llama.cpp, LiteLLM.

use serde_json::Value;

use crate::field_fault::{self, RequestFieldFault};

/// The parameters that a request can do without, and all their spellings that stand for no word of English.
const PARAMETERS: &[&str] = &[
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "stream_options",
    "parallel_tool_calls",
    "reasoning_effort",
    "prompt_cache_key",
    "prompt_cache_retention",
    "cache_control",
    "service_tier",
    "chat_template_kwargs",
    "cache_prompt",
    "previous_response_id",
    "context_management",
    "output_config",
    "safety_identifier",
];

/// Parameters whose names are words, too: they count only in quotation marks or at a place for names.
const WORDS: &[&str] =
    &["store", "include", "reasoning", "seed", "user", "metadata", "verbosity", "truncation", "thinking"];

/// Fields without which a request asks for nothing, or for something else. A refusal of one is no matter of leaving a
/// parameter out.
const NEEDED: &[&str] = &[
    "model",
    "messages",
    "input",
    "contents",
    "system",
    "instructions",
    "tools",
    "functions",
    "tool_choice",
    "stream",
    "add_generation_prompt",
    "continue_final_message",
];

/// Words by which a server refuses a parameter, and not its value alone.
const REFUSALS: &[&str] = &[
    "unsupported",
    "not supported",
    "not support",
    "unrecognized",
    "unknown",
    "unexpected",
    "extra inputs",
    "extra_forbidden",
    "extraneous",
    "additional propert",
    "not permitted",
    "not allowed",
    "only allowed when",
    "deprecated",
    "cannot both",
    "may only be set",
    "may not be specified",
    "cannot be specified",
    "only the default",
    "is not available",
    "not implemented",
    "replaced by",
    "不支持",
];

/// Words about the value of a parameter. `stream_options` has a single value, so they refuse the parameter itself.
const VALUE_REFUSALS: &[&str] = &["invalid value", "invalid parameter", "invalid argument", "invalid type"];

/// Returns the parameter that an error refuses by name, in the spelling of the request. `message` is the error's message
/// and `body` the whole answer.
///
/// `None` if the error is about something else, or about a value that another value could replace.
pub(crate) fn read(message: &str, body: &str) -> Option<String> {
    let located = field_fault::read(message, body).iter().find_map(located_parameter);
    if located.is_some() {
        return located;
    }
    let fields = serde_json::from_str::<Value>(body).ok();
    let text = message.to_lowercase();
    if text.contains("stream_options") && VALUE_REFUSALS.iter().any(|words| text.contains(words)) {
        return Some("stream_options".to_owned());
    }
    if !REFUSALS.iter().any(|words| text.contains(words)) {
        return None;
    }
    // xAI names parameters in camel case.
    named(&snake_case(message)).or_else(|| {
        let param = fields.as_ref().and_then(|body| body.pointer("/error/param")?.as_str());
        param.and_then(known)
    })
}

/// Returns `include` if an error names it as the place of its fault: `"param": "include"`, or a value inside it.
pub(crate) fn include_at(body: &str) -> Option<String> {
    let fields: Value = serde_json::from_str(body).ok()?;
    let rest = fields.pointer("/error/param")?.as_str()?.strip_prefix("include")?;
    (rest.is_empty() || rest.starts_with('[')).then(|| "include".to_owned())
}

/// Returns the parameter that a fault refuses as an extra one, as FastAPI and pydantic write it:
/// `{"type": "extra_forbidden", "loc": ["body", "store"]}`.
fn located_parameter(fault: &RequestFieldFault) -> Option<String> {
    if !fault.is_extra() {
        return None;
    }
    match fault.place.as_slice() {
        // The place is no prose, so a name that is in no table counts, too.
        [name] => known(name).or_else(|| (!NEEDED.contains(&name.as_str())).then(|| name.clone())),
        // A longer place is one inside the conversation, where only cache marks can be left out.
        [.., name] if name == "cache_control" => Some(name.clone()),
        [first, ..] => known(first),
        [] => None,
    }
}

/// Returns the first parameter that a text names.
fn named(text: &str) -> Option<String> {
    let places = PARAMETERS.iter().map(|name| (*name, false)).chain(WORDS.iter().map(|name| (*name, true)));
    let found = places.filter_map(|(name, is_word)| {
        let at = text.match_indices(name).map(|(at, _)| at).find(|at| {
            let (before, after) = (&text[..*at], &text[at + name.len()..]);
            // Cache marks stand inside the conversation, and one setting turns all of them off.
            let is_nested_mark = name == "cache_control" && before.ends_with('.');
            // Cerebras writes `body.stream_options`.
            let before = if is_nested_mark { "" } else { before.strip_suffix("body.").unwrap_or(before) };
            is_alone(before, after) && (!is_word || is_at_place_of_name(before, after))
        })?;
        Some((at, name))
    });
    found.min().map(|(_, name)| name.to_owned())
}

/// Reports whether a name is not part of a longer word or of a path into the conversation.
fn is_alone(before: &str, after: &str) -> bool {
    // `reasoning.effort` is refused with its whole object, and `messages.0.reasoning` is no parameter.
    !before.ends_with(|c| is_word_char(c) || c == '.' || c == ']') && !after.starts_with(is_word_char)
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_at_place_of_name(before: &str, after: &str) -> bool {
    let quoted = before.ends_with(['\'', '"', '`']) && after.starts_with(['\'', '"', '`', '.']);
    // OpenAI: "Unrecognized request argument supplied: NAME". Anthropic: "NAME: Extra inputs are not permitted".
    quoted || before.ends_with("supplied: ") || after.to_lowercase().starts_with(": extra inputs")
}

fn known(name: &str) -> Option<String> {
    let name = snake_case(name);
    // Of a path such as `reasoning.effort` only the first name is a parameter.
    let first = name.split('.').next()?;
    PARAMETERS.iter().chain(WORDS).find(|known| **known == first).map(|known| (*known).to_owned())
}

/// Returns a text with names in camel case as snake case: `presencePenalty` as `presence_penalty`.
fn snake_case(text: &str) -> String {
    let mut snake = String::with_capacity(text.len());
    let mut is_after_lower = false;
    for c in text.chars() {
        if c.is_ascii_uppercase() && is_after_lower {
            snake.push('_');
        }
        is_after_lower = c.is_ascii_lowercase();
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_found_however_the_refusal_is_worded() {
        for (message, name) in [
            ("Unrecognized request argument supplied: stream_options", "stream_options"),
            ("Unrecognized request arguments supplied: store, parallel_tool_calls", "store"),
            ("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
            (
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                "max_tokens",
            ),
            (
                "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
                "temperature",
            ),
            ("Unsupported parameter: 'reasoning.effort' is not supported with this model.", "reasoning"),
            ("Unknown parameter: 'include'.", "include"),
            ("prompt_cache_key: Extra inputs are not permitted", "prompt_cache_key"),
            ("store: Extra inputs are not permitted", "store"),
            ("`temperature` is deprecated for this model.", "temperature"),
            (
                "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
                "temperature",
            ),
            ("`temperature` may only be set to 1 when thinking is enabled", "temperature"),
            ("messages.0.content.0.text.cache_control: Extra inputs are not permitted", "cache_control"),
            ("property 'stream_options' is unsupported", "stream_options"),
            ("Argument not supported on this model: presencePenalty", "presence_penalty"),
            ("Model grok-4 does not support parameter reasoningEffort.", "reasoning_effort"),
            ("json: unknown field \"parallel_tool_calls\"", "parallel_tool_calls"),
            ("Extra inputs are not permitted, field: 'prompt_cache_key'", "prompt_cache_key"),
            (
                "[{'type': 'extra_forbidden', 'loc': ('body', 'store'), 'msg': 'Extra inputs are not permitted', 'input': False}]",
                "store",
            ),
            (
                "litellm.UnsupportedParamsError: x does not support parameters: ['temperature'], for model=y",
                "temperature",
            ),
            ("body.stream_options: property 'body.stream_options' is unsupported", "stream_options"),
            ("Invalid value for parameter stream_options", "stream_options"),
            ("参数 stream_options 不支持", "stream_options"),
            ("stream_options is not implemented", "stream_options"),
            ("previous_response_id is not supported", "previous_response_id"),
            ("thinking: Extra inputs are not permitted", "thinking"),
            ("json: unknown field \"thinking\"", "thinking"),
            ("messages.0.content.0.cache_control: Extra inputs are not permitted", "cache_control"),
            ("max_tokens has been replaced by max_completion_tokens for this model", "max_tokens"),
        ] {
            assert_eq!(read(message, "").as_deref(), Some(name), "{message}");
        }
    }

    #[test]
    fn a_parameter_may_stand_beside_the_message() {
        let body = r#"{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted","input":{}}]}"#;
        assert_eq!(read("Extra inputs are not permitted", body).as_deref(), Some("stream_options"));
        for (kind, place, name) in [
            ("extra_forbidden", r#"["body","guided_json"]"#, "guided_json"),
            ("value_error.extra", r#"["body","store"]"#, "store"),
            ("extra_forbidden", r#"["body","stream_options","include_usage"]"#, "stream_options"),
            ("extra_forbidden", r#"["body","system",0,"cache_control"]"#, "cache_control"),
        ] {
            let body = format!(r#"{{"detail":[{{"type":"{kind}","loc":{place},"msg":"Extra inputs"}}]}}"#);
            assert_eq!(read("Extra inputs", &body).as_deref(), Some(name), "{place}");
        }
        let body = r#"{"error":{"message":"Unsupported value","param":"reasoning.effort"}}"#;
        assert_eq!(read("Unsupported value", body).as_deref(), Some("reasoning"));
    }

    #[test]
    fn values_and_parts_are_no_refused_parameters() {
        for message in [
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
            "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens",
            "temperature must be between 0 and 2",
            "Invalid value for 'temperature': 3",
            "messages.body.stream_options: property is unsupported",
            "该模型不支持图片",
            "Bad Request",
            "image input is not supported",
            "messages.0.content.0.text: Extra inputs are not permitted",
            "messages[1].reasoning: Extra inputs are not permitted",
            "the user is not allowed to use this model",
            "Unknown parameter: 'tools'.",
        ] {
            assert_eq!(read(message, "{}"), None, "{message}");
        }
        let body =
            r#"{"detail":[{"type":"extra_forbidden","loc":["body","messages",0,"store"],"msg":"no"}]}"#;
        assert_eq!(read("no", body), None);
        let body = r#"{"detail":[{"type":"extra_forbidden","loc":["body","messages"],"msg":"no"}]}"#;
        assert_eq!(read("no", body), None, "a request needs its conversation");
        let body = r#"{"detail":[{"type":"less_than","loc":["body","temperature"],"msg":"Input should be less than 2"}]}"#;
        assert_eq!(read("Input should be less than 2", body), None);
    }
}
