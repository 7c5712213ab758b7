use crate::ProviderKind;
use crate::ToolChoice;
use serde_json::{Value, json};

use super::*;

const AUTO: ToolChoice = ToolChoice::Auto;

fn to(kind: ProviderKind, model: &str) -> MappingTarget<'_> {
    MappingTarget { kind, model, is_local: false, has_tools: true, tool_choice: &AUTO }
}

fn carried(dialect: Dialect, request: &Value, to: &MappingTarget<'_>) -> MappedParams {
    map_params(dialect, &request.to_string(), to).unwrap()
}

fn refused(dialect: Dialect, request: Value, kind: ProviderKind) -> Option<String> {
    map_params(dialect, &request.to_string(), &to(kind, "m")).unwrap_err().param
}

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn of_chat() -> Value {
    json!({
        "model": "m", "messages": [], "stream": true, "max_tokens": 9, "tools": [], "tool_choice": "auto",
        "temperature": 1.5, "top_p": 0.5, "top_k": 40, "stop": "END", "seed": 7,
        "frequency_penalty": 0.5, "presence_penalty": 0, "n": 1, "logprobs": false,
        "parallel_tool_calls": false, "user": "u", "reasoning_effort": "xhigh", "prompt_cache_key": "k",
        "response_format": { "type": "json_schema", "json_schema": { "name": "s", "strict": true, "schema": { "type": "object" } } },
    })
}

#[test]
fn chat_to_messages() {
    let MappedParams { fields, ignored, changed } =
        carried(Dialect::Chat, &of_chat(), &to(ProviderKind::Anthropic, "claude-opus-4-6"));
    assert_eq!(
        Value::Object(fields),
        json!({
            "temperature": 1.0, "top_k": 40, "stop_sequences": ["END"], "metadata": { "user_id": "u" },
            "tool_choice": { "type": "auto", "disable_parallel_tool_use": true },
            "output_config": { "effort": "high", "format": { "type": "json_schema", "schema": { "type": "object" } } },
        })
    );
    assert_eq!(ignored, list(&["top_p", "seed", "frequency_penalty", "prompt_cache_key"]));
    assert_eq!(changed, list(&["temperature=1", "reasoning_effort=high"]));
    let older = carried(Dialect::Chat, &of_chat(), &to(ProviderKind::Anthropic, "claude-3-5-haiku"));
    assert!(older.ignored.contains(&"reasoning_effort".to_owned()));
}

#[test]
fn chat_to_gemini_and_ollama() {
    let gemini = carried(Dialect::Chat, &of_chat(), &to(ProviderKind::Gemini, "gemini-3-pro"));
    assert_eq!(
        Value::Object(gemini.fields),
        json!({ "generationConfig": {
            "temperature": 1.5, "topP": 0.5, "topK": 40, "stopSequences": ["END"], "seed": 7,
            "frequencyPenalty": 0.5, "thinkingConfig": { "thinkingLevel": "high" },
            "responseMimeType": "application/json", "responseJsonSchema": { "type": "object" },
        } })
    );
    assert_eq!(gemini.ignored, list(&["parallel_tool_calls", "user", "prompt_cache_key"]));
    let ollama = carried(Dialect::Chat, &of_chat(), &to(ProviderKind::Ollama, "gpt-oss:20b"));
    assert_eq!(
        Value::Object(ollama.fields),
        json!({
            "options": { "temperature": 1.5, "top_p": 0.5, "top_k": 40, "stop": ["END"], "seed": 7, "frequency_penalty": 0.5 },
            "think": "high", "format": { "type": "object" },
        })
    );
}

#[test]
fn messages_to_chat_and_to_responses() {
    let asked = json!({
        "model": "m", "max_tokens": 9, "messages": [], "system": "s", "temperature": 0.3, "top_k": 5,
        "stop_sequences": ["A", "B"], "metadata": { "user_id": "u" }, "service_tier": "auto",
        "thinking": { "type": "enabled", "budget_tokens": 4_096 },
        "tool_choice": { "type": "any", "disable_parallel_tool_use": true },
        "context_management": { "edits": [] },
    });
    let local = MappingTarget { is_local: true, ..to(ProviderKind::OpenAiCompatible, "m") };
    let chat = carried(Dialect::Messages, &asked, &local);
    assert_eq!(
        Value::Object(chat.fields),
        json!({
            "temperature": 0.3, "top_k": 5, "stop": ["A", "B"], "reasoning_effort": "medium",
            "parallel_tool_calls": false,
        })
    );
    assert_eq!(chat.ignored, list(&["metadata.user_id", "context_management"]));
    assert_eq!(chat.changed, list(&["thinking=medium"]));
    // Servers of others may refuse fields that they do not know.
    let hosted = carried(Dialect::Messages, &asked, &to(ProviderKind::OpenAiCompatible, "m"));
    assert_eq!(hosted.ignored, list(&["top_k", "metadata.user_id", "thinking", "context_management"]));
    let mut without_stop = asked.clone();
    without_stop.as_object_mut().unwrap().remove("stop_sequences");
    let responses = carried(Dialect::Messages, &without_stop, &to(ProviderKind::OpenAi, "gpt-5.1"));
    assert_eq!(
        Value::Object(responses.fields),
        json!({
            "temperature": 0.3, "reasoning": { "effort": "medium" }, "parallel_tool_calls": false,
            "safety_identifier": "u",
        })
    );
    assert_eq!(refused(Dialect::Messages, asked, ProviderKind::OpenAi).as_deref(), Some("stop_sequences"));
}

#[test]
fn responses_to_chat() {
    let asked = json!({
        "model": "m", "input": "hi", "instructions": "s", "max_output_tokens": 9, "store": false,
        "reasoning": { "effort": "minimal", "summary": "auto" }, "parallel_tool_calls": true,
        "text": { "format": { "type": "json_schema", "name": "s", "schema": { "type": "object" } }, "verbosity": "low" },
        "include": ["reasoning.encrypted_content"], "truncation": "auto",
    });
    let local = MappingTarget { is_local: true, ..to(ProviderKind::OpenAiCompatible, "m") };
    let MappedParams { fields, ignored, changed } = carried(Dialect::Responses, &asked, &local);
    assert_eq!(
        Value::Object(fields),
        json!({
            "reasoning_effort": "low", "parallel_tool_calls": true,
            "response_format": { "type": "json_schema", "json_schema": { "name": "s", "schema": { "type": "object" } } },
        })
    );
    let mut ignored = ignored;
    ignored.sort();
    assert_eq!(
        ignored,
        list(&["include.reasoning.encrypted_content", "reasoning.summary", "text.verbosity"])
    );
    assert_eq!(changed, list(&["reasoning.effort=low"]));
}

#[test]
fn what_would_change_the_answer_is_refused_by_name() {
    for (request, param) in [
        (json!({ "n": 2 }), "n"),
        (json!({ "logprobs": true }), "logprobs"),
        (json!({ "logit_bias": { "1": 5 } }), "logit_bias"),
        (json!({ "response_format": { "type": "json_object" } }), "response_format"),
        (json!({ "response_format": { "type": "grammar" } }), "response_format"),
        (json!({ "modalities": ["text", "audio"] }), "modalities"),
        (json!({ "functions": [{ "name": "f" }] }), "functions"),
        (json!({ "temperature": "hot" }), "temperature"),
        (json!({ "grammar": "root ::= x" }), "grammar"),
    ] {
        assert_eq!(refused(Dialect::Chat, request, ProviderKind::Anthropic).as_deref(), Some(param));
    }
    for (request, param) in [
        (json!({ "background": true }), "background"),
        (json!({ "top_logprobs": 3 }), "top_logprobs"),
        (json!({ "include": ["message.output_text.logprobs"] }), "include.message.output_text.logprobs"),
        (json!({ "prompt": { "id": "p" } }), "prompt"),
    ] {
        assert_eq!(
            refused(Dialect::Responses, request, ProviderKind::OpenAiCompatible).as_deref(),
            Some(param)
        );
    }
    let mcp = json!({ "mcp_servers": [{ "url": "https://x" }] });
    assert_eq!(
        refused(Dialect::Messages, mcp, ProviderKind::OpenAiCompatible).as_deref(),
        Some("mcp_servers")
    );
    // What says nothing is nothing.
    let idle = json!({ "n": 1, "logprobs": false, "top_logprobs": 0, "logit_bias": {}, "seed": null, "store": false,
        "response_format": { "type": "text" }, "service_tier": "auto" });
    assert_eq!(carried(Dialect::Chat, &idle, &to(ProviderKind::Anthropic, "m")), MappedParams::default());
}

#[test]
fn tools_of_the_makers_servers_are_told_apart() {
    let names = |dialect, tools: Value| -> Vec<String> {
        server_tools(dialect, &tools.to_string()).into_iter().map(|tool| tool.name).collect()
    };
    let responses = json!([{ "type": "function", "name": "f" }, { "type": "custom", "name": "c" }, { "type": "web_search" }]);
    assert_eq!(names(Dialect::Responses, responses), ["web_search"]);
    let messages =
        json!([{ "name": "f", "input_schema": {} }, { "type": "web_search_20250305", "name": "web_search" }]);
    assert_eq!(names(Dialect::Messages, messages), ["web_search"]);
    assert!(names(Dialect::Chat, json!([{ "type": "function", "function": { "name": "f" } }])).is_empty());
}
