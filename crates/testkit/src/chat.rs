//! Answers of a Chat Completions server.

use serde_json::{Value, json};

/// Returns a whole answer with a text and its usage in tokens.
pub fn answer(text: &str, input_tokens: u64, output_tokens: u64) -> Value {
    json!({
        "id": "a1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
        "usage": usage(input_tokens, output_tokens),
    })
}

/// Returns the `usage` object of a request.
pub fn usage(input_tokens: u64, output_tokens: u64) -> Value {
    json!({
        "prompt_tokens": input_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
    })
}

/// Returns the data of an event with `choices`, as one event of a stream.
fn event(id: &str, choices: &Value, usage: &Value) -> String {
    let chunk = json!({
        "id": id, "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, "usage": usage,
    });
    format!("data: {chunk}\n\n")
}

/// Returns an event with one delta.
pub fn delta_event(id: &str, delta: &Value) -> String {
    event(id, &json!([{ "index": 0, "delta": delta, "finish_reason": null }]), &Value::Null)
}

/// Returns the event with the reason why the answer has ended.
pub fn finish_event(id: &str, reason: &str) -> String {
    event(id, &json!([{ "index": 0, "delta": {}, "finish_reason": reason }]), &Value::Null)
}

/// Returns the event with the usage. OpenAI's servers send it in a chunk without choices, behind the last one.
pub fn usage_event(id: &str, input_tokens: u64, output_tokens: u64) -> String {
    event(id, &json!([]), &usage(input_tokens, output_tokens))
}

/// The event that ends a stream.
pub const DONE_EVENT: &str = "data: [DONE]\n\n";

/// Returns the events of a streamed text, one for each word, with the usage in tokens if there is one.
pub fn stream(id: &str, text: &str, usage_tokens: Option<(u64, u64)>) -> Vec<String> {
    let mut events = vec![delta_event(id, &json!({ "role": "assistant", "content": "" }))];
    let words = text.split_inclusive(' ').scan(false, |has_blank, word| {
        // Models write the blank before a word, not after it.
        let before = if std::mem::replace(has_blank, word.ends_with(' ')) { " " } else { "" };
        Some(format!("{before}{}", word.trim_end_matches(' ')))
    });
    events.extend(words.map(|word| delta_event(id, &json!({ "content": word }))));
    events.push(finish_event(id, "stop"));
    events.extend(usage_tokens.map(|(input, output)| usage_event(id, input, output)));
    events.push(DONE_EVENT.to_owned());
    events
}
