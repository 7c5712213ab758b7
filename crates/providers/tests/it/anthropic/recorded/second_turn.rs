//! The content of an answer in a second turn.

use super::*;

/// The answer's blocks, put together without our decoder.
fn blocks(recording: &Recording) -> Vec<Value> {
    let payloads = recording.payloads();
    if !recording.is_streamed() {
        return payloads[0]["content"].as_array().unwrap().clone();
    }
    let mut blocks: BTreeMap<u64, Value> = BTreeMap::new();
    let mut inputs: BTreeMap<u64, String> = BTreeMap::new();
    for event in &payloads {
        let index = event["index"].as_u64().unwrap_or_default();
        match event["type"].as_str().unwrap() {
            "message_start" => (blocks, inputs) = Default::default(),
            "content_block_start" => {
                blocks.insert(index, event["content_block"].clone());
            }
            "content_block_delta" => {
                grow(blocks.get_mut(&index).unwrap(), &event["delta"], inputs.entry(index).or_default())
            }
            _ => {}
        }
    }
    for (index, input) in inputs.iter().filter(|(_, input)| !input.is_empty()) {
        blocks.get_mut(index).unwrap()["input"] = serde_json::from_str(input).unwrap();
    }
    blocks.into_values().collect()
}

fn grow(block: &mut Value, delta: &Value, input: &mut String) {
    let key = match delta["type"].as_str().unwrap() {
        "input_json_delta" => return input.push_str(delta["partial_json"].as_str().unwrap()),
        "text_delta" => "text",
        "thinking_delta" => "thinking",
        "signature_delta" => "signature",
        "compaction_delta" => "content",
        other => panic!("the test knows no {other}"),
    };
    let before = block[key].as_str().unwrap_or_default().to_owned();
    block[key] = (before + delta[key].as_str().unwrap()).into();
}

/// Reports whether the API takes the block back.
fn is_sendable(block: &Value) -> bool {
    let blank = |key: &str| block[key].as_str().unwrap_or_default().trim().is_empty();
    match block["type"].as_str().unwrap() {
        "text" => !blank("text"),
        "thinking" => !blank("signature"),
        _ => true,
    }
}

/// A block without empty fields.
fn bare(block: &Value) -> Value {
    let fields = block.as_object().unwrap().iter();
    let says = |value: &Value| !value.is_null() && value != &json!([]);
    Value::Object(
        fields.filter(|(_, value)| says(value)).map(|(key, value)| (key.clone(), value.clone())).collect(),
    )
}

/// A second turn after an answer, through the whole encoding of a request.
fn second_turn(answer: &ModelAnswer) -> String {
    let mut messages = vec![user("hi"), written(answer.parts.clone())];
    let ids: Vec<String> = calls(answer).map(|call| call.call_id.to_string()).collect();
    messages.extend(ids.iter().map(|id| result(id, ToolStatus::Completed, vec![Part::text("done")])));
    messages.push(user("go on"));
    let provider = AnthropicProvider::new(AnthropicConfig::new("http://localhost/v1", "m")).unwrap();
    let body = provider.render(&ModelRequest { messages, ..ModelRequest::default() }).unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

#[test]
fn a_second_turn_sends_back_what_the_first_one_said() {
    let Some(recorded) = recorded("a_second_turn_sends_back_what_the_first_one_said") else { return };
    let (mut compared, mut signatures, mut arguments) = (0, 0, 0);
    for recording in &recorded.answers {
        let (_, answer) = whole(&recording.body).unwrap();
        let sent = second_turn(&answer);
        let body: Value = serde_json::from_str(&sent).unwrap();
        let expected: Vec<Value> =
            blocks(recording).iter().filter(|block| is_sendable(block)).map(bare).collect();
        if expected.is_empty() {
            let turns = body["messages"].as_array().unwrap().len();
            assert_eq!(turns, 1, "{}: of unsigned reasoning nothing goes back", recording.file);
            continue;
        }
        let turn: Vec<Value> = body["messages"][1]["content"].as_array().unwrap().iter().map(bare).collect();
        assert_eq!(turn, expected, "{}", recording.file);
        compared += turn.len();
        for block in blocks(recording) {
            for proof in ["signature", "data", "id", "tool_use_id"] {
                let proof = block[proof].as_str().filter(|proof| !proof.is_empty());
                signatures +=
                    usize::from(proof.is_some_and(|proof| sent.contains(&json!(proof).to_string())));
                assert!(
                    proof.is_none_or(|proof| sent.contains(&json!(proof).to_string())),
                    "{}",
                    recording.file
                );
            }
        }
        for call in calls(&answer) {
            arguments += 1;
            assert!(sent.contains(&call.arguments), "{}", recording.file);
            assert_eq!(call.arguments, heard(recording, call), "{}", recording.file);
            let answered = body["messages"][2]["content"].as_array().unwrap();
            let id = call.provider_id.as_deref().unwrap();
            assert!(answered.iter().any(|block| block["tool_use_id"] == id), "{}", recording.file);
        }
    }
    println!("{compared} blocks, {signatures} proofs and names, {arguments} arguments");
    assert!(compared > 80 && signatures > 30 && arguments >= 10, "{compared} {signatures} {arguments}");
}

/// The server's argument bytes of a call.
fn heard(recording: &Recording, call: &ToolCall) -> String {
    let body = std::str::from_utf8(&recording.body).unwrap();
    let id = call.provider_id.as_deref().unwrap();
    if !recording.is_streamed() {
        // One JSON text inside another: its bytes stand in the body, or the test has found a change.
        assert!(body.contains(&call.arguments), "{}", recording.file);
        return call.arguments.clone();
    }
    let payloads = recording.payloads();
    let start = payloads.iter().rposition(|event| event["content_block"]["id"] == id).unwrap();
    let index = &payloads[start]["index"];
    let pieces = payloads[start..].iter().filter(|event| &event["index"] == index);
    let text: String = pieces.filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    if text.is_empty() { "{}".to_owned() } else { text }
}
