//! The words of servers that refuse a request because it has tools.
//!
//! Sources: Ollama (`routes.go`), OpenRouter (404), vLLM (`serving_chat.py`), llama.cpp (`common/chat.cpp`), Groq,
//! DeepSeek, Together, LM Studio, LiteLLM, SiliconFlow, Novita, Zhipu.

use serde_json::Value;

/// Sentences about tools as such.
const NO_TOOLS: &[&str] = &[
    "does not support tools",
    "does not support tool",
    "doesn't support tool",
    "do not support tool",
    "not support tool use",
    "support tool use",
    "tool use is not supported",
    "tool calling is not supported",
    "tool calls are not supported",
    "tools is not supported",
    "tools are not supported",
    "tools not supported",
    "does not support function",
    "doesn't support function",
    "function calling is not supported",
    "function calling is not enabled",
    "function calling not support",
    "function call is not supported",
    "function calls are not supported",
    "functions are not supported",
    "not supported for function calling",
    "not supported for json mode/function calling",
    "requires --enable-auto-tool-choice",
    "tools param requires --jinja",
    "tool_choice is not supported",
];

/// Chinese sentences about tools, without blanks.
const NO_TOOLS_CHINESE: &[&str] = &[
    "tools参数不支持",
    "tools不支持",
    "不支持tools",
    "不支持tool_choice",
    "不支持工具调用",
    "不支持函数调用",
    "不支持functioncall",
];

/// Words before the name of a field that a server does not know.
const UNKNOWN_FIELD: &[&str] = &[
    "unknown parameter: ",
    "unsupported parameter: ",
    "unrecognized request argument supplied: ",
    "unknown field ",
    "unknown field: ",
    "unexpected keyword argument ",
];

/// The fields of a request that hold its tools.
const TOOL_FIELDS: &[&str] = &["tools", "functions", "tool_choice"];

/// Reports whether an error is about tools as such, not about one tool. `message` is the error's message and `body` the
/// whole answer.
pub(super) fn refuses_tools(message: &str, body: &str) -> bool {
    // Servers quote the names of fields in different ways, or not at all.
    let text = message.to_lowercase().replace(['`', '"', '\''], "");
    NO_TOOLS.iter().any(|words| text.contains(words))
        || is_unknown_field(&text)
        || is_among_unsupported(&text)
        || is_chinese_refusal(&text)
        || is_forbidden_field(body)
}

/// Reports whether a text names the field of the tools as unknown: "Unknown parameter: tools.".
fn is_unknown_field(text: &str) -> bool {
    UNKNOWN_FIELD
        .iter()
        .any(|words| text.match_indices(words).any(|(at, _)| is_tool_field(&text[at + words.len()..])))
        || TOOL_FIELDS
            .iter()
            .any(|field| text.starts_with(&format!("{field}: extra inputs are not permitted")))
}

/// Reports whether a text begins with the name of a field of tools. A path goes on behind the name (`tools[0].name`), and
/// names a place inside one tool.
fn is_tool_field(text: &str) -> bool {
    TOOL_FIELDS.iter().filter_map(|field| text.strip_prefix(field)).any(|rest| {
        let is_path = rest.starts_with('[') || rest.starts_with('_');
        let is_deeper = rest.strip_prefix('.').is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
        !is_path && !is_deeper && !rest.starts_with(char::is_alphanumeric)
    })
}

/// Reports whether LiteLLM lists tools among unsupported parameters: "does not support parameters: [tools], for model".
fn is_among_unsupported(text: &str) -> bool {
    text.split("does not support parameters: ").skip(1).any(|rest| {
        let list = rest.split([']', ')']).next().unwrap_or_default();
        list.split(['[', '(', '{', ',', ':', ' ']).any(|name| TOOL_FIELDS.contains(&name))
    })
}

fn is_chinese_refusal(text: &str) -> bool {
    // Most errors have no Chinese words, and are not copied.
    text.contains("不支持") && {
        let text: String = text.split_whitespace().collect();
        NO_TOOLS_CHINESE.iter().any(|words| text.contains(words))
    }
}

/// Reports whether a list of validation errors refuses the field of the tools as an extra one, as FastAPI and pydantic
/// write it: `{"type": "extra_forbidden", "loc": ["body", "tools"]}`.
fn is_forbidden_field(body: &str) -> bool {
    let Ok(body) = serde_json::from_str::<Value>(body) else { return false };
    let details = body.get("detail").or_else(|| body.pointer("/error/detail")).and_then(Value::as_array);
    details.into_iter().flatten().any(|detail| {
        let is_extra = detail.get("type").and_then(Value::as_str) == Some("extra_forbidden");
        let place = detail.get("loc").and_then(Value::as_array).map(Vec::as_slice);
        // A longer place is one inside a tool.
        let is_tools = matches!(place, Some([root, Value::String(field)])
            if root == "body" && TOOL_FIELDS.contains(&field.as_str()));
        is_extra && is_tools
    })
}
