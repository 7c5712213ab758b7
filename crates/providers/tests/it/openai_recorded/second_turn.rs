//! The content of each recorded answer, and of the calls' results, in the next request.

use std::collections::BTreeMap;

use longhaul_core::message::{Message, ModelAnswer, Part, RawJson, Role, ToolResult, ToolStatus};
use longhaul_providers::openai_chat::{OpenAiChatConfig, OpenAiChatProvider, ServerFamily};
use longhaul_providers::openai_responses::OpenAiResponsesProvider;
use longhaul_providers::{ModelEndpoint, ModelRequest, Provider};
use serde_json::Value;
use serde_json::value::RawValue;

use super::reading::{One, Wire, recorded};
use super::{answers, calls};

fn second_turn(provider: &dyn Provider, answer: &ModelAnswer) -> String {
    let origin = Some(provider.origin());
    let assistant = Message { id: "a".into(), role: Role::Assistant, parts: answer.parts.clone(), origin };
    let results = calls(answer).map(|call| {
        let content = vec![Part::text(format!("result of {}", call.name))];
        let result = ToolResult {
            call_id: call.call_id.clone(),
            status: ToolStatus::Completed,
            content,
            truncated: None,
        };
        Message { id: "t".into(), role: Role::Tool, parts: vec![Part::ToolResult(result)], origin: None }
    });
    let begin = Message::user("u", vec![Part::text("begin")]);
    let end = Message::user("u2", vec![Part::text("go on")]);
    let messages = [begin, assistant].into_iter().chain(results).chain([end]).collect();
    let request = ModelRequest { messages, ..ModelRequest::default() };
    String::from_utf8(provider.render(&request).unwrap().to_vec()).unwrap()
}

fn provider(wire: Wire) -> Box<dyn Provider> {
    match wire {
        Wire::Chat => {
            let mut config = OpenAiChatConfig::new("http://localhost/v1", "m");
            config.family = Some(ServerFamily::OPENROUTER);
            Box::new(OpenAiChatProvider::new(config).unwrap())
        }
        Wire::Responses => Box::new(
            OpenAiResponsesProvider::new(ModelEndpoint::new("openai", "http://localhost/v1", "m")).unwrap(),
        ),
    }
}

/// A text in the form inside JSON.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Read by another road: the argument texts of a chat answer, by index, without our types.
fn chat_arguments(one: &One) -> Vec<String> {
    let mut found: BTreeMap<u64, String> = BTreeMap::new();
    for payload in one.payloads() {
        let Ok(chunk) = serde_json::from_str::<Value>(&payload) else { continue };
        let choice = &chunk["choices"][0];
        let said = if one.is_streamed() { &choice["delta"] } else { &choice["message"] };
        for (place, call) in said["tool_calls"].as_array().into_iter().flatten().enumerate() {
            let index = call["index"].as_u64().unwrap_or(place as u64);
            let more = call["function"]["arguments"].as_str().unwrap_or_default();
            found.entry(index).or_default().push_str(more);
        }
    }
    found.into_values().collect()
}

/// The output items of a response, as bytes: from the item's last event, else from the closing copy.
fn response_items(one: &One) -> Vec<Box<RawValue>> {
    #[derive(serde::Deserialize)]
    struct Event<'a> {
        #[serde(default, borrow, rename = "type")]
        kind: Option<&'a str>,
        #[serde(default)]
        item: Option<Box<RawValue>>,
        #[serde(default)]
        output: Vec<Box<RawValue>>,
    }
    let payloads = one.payloads();
    if !one.is_streamed() {
        return serde_json::from_str::<Event<'_>>(&payloads[0]).unwrap().output;
    }
    let events = payloads.iter().filter_map(|payload| serde_json::from_str::<Event<'_>>(payload).ok());
    events
        .filter(|event| event.kind == Some("response.output_item.done"))
        .filter_map(|event| event.item)
        .collect()
}

#[test]
fn a_second_chat_turn_holds_ids_details_and_arguments_unchanged() {
    let Some(all) = recorded("a_second_chat_turn_holds_ids_details_and_arguments_unchanged") else { return };
    let provider = provider(Wire::Chat);
    let (mut arguments, mut ids, mut details) = (0, 0, 0);
    for (one, answer) in answers(all).filter(|(one, _)| one.wire == Wire::Chat) {
        let sent = second_turn(&*provider, &answer);
        let heard = chat_arguments(one);
        assert_eq!(
            calls(&answer).map(|call| call.arguments.clone()).collect::<Vec<_>>(),
            heard,
            "{}",
            one.file()
        );
        for call in calls(&answer) {
            let written = match call.arguments.as_str() {
                "" | "null" => "{}".to_owned(),
                cut if serde_json::from_str::<Value>(cut).is_err() => {
                    serde_json::json!({"invalid_json": cut}).to_string()
                }
                whole => whole.to_owned(),
            };
            assert!(
                sent.contains(&format!(r#""arguments":{}"#, quoted(&written))),
                "{}: {call:?}",
                one.file()
            );
            arguments += 1;
            if let Some(id) = call.provider_id.as_deref().filter(|id| id.len() <= 40) {
                assert!(sent.contains(&format!(r#""id":{}"#, quoted(id))), "{}: {id}", one.file());
                assert!(sent.contains(&format!(r#""tool_call_id":{}"#, quoted(id))), "{}: {id}", one.file());
                ids += 1;
            }
        }
        for native in natives(&answer) {
            let fields = &native.as_str()[1..native.as_str().len() - 1];
            assert!(sent.contains(fields), "{}: {fields}", one.file());
            details += 1;
        }
        for signature in strings(one, &["signature", "data"], "reasoning_details") {
            assert!(sent.contains(&quoted(&signature)), "{}: {signature}", one.file());
        }
    }
    println!("{arguments} arguments, {ids} ids, {details} details");
    assert!(arguments > 80 && ids > 80 && details > 5, "{arguments} {ids} {details}");
}

fn natives(answer: &ModelAnswer) -> impl Iterator<Item = &RawJson> {
    answer.parts.iter().filter_map(|part| match part {
        Part::Reasoning(reasoning) => reasoning.native.as_ref(),
        Part::ToolCall(call) => call.native.as_ref(),
        _ => None,
    })
}

/// The unsplit proofs of a chat answer's reasoning.
fn strings(one: &One, keys: &[&str], list: &str) -> Vec<String> {
    let mut found = Vec::new();
    for payload in one.payloads() {
        let Ok(chunk) = serde_json::from_str::<Value>(&payload) else { continue };
        for said in ["delta", "message"] {
            for entry in chunk["choices"][0][said][list].as_array().into_iter().flatten() {
                found.extend(keys.iter().filter_map(|key| entry[key].as_str()).map(str::to_owned));
            }
        }
    }
    found
}

#[test]
fn a_second_response_turn_holds_items_ids_and_arguments_unchanged() {
    let Some(all) = recorded("a_second_response_turn_holds_items_ids_and_arguments_unchanged") else {
        return;
    };
    let provider = provider(Wire::Responses);
    let (mut items, mut encrypted, mut outputs) = (0, 0, 0);
    for (one, answer) in answers(all).filter(|(one, _)| one.wire == Wire::Responses) {
        let sent = second_turn(&*provider, &answer);
        let heard = response_items(one);
        let loses = heard.iter().any(|item| is_lost(item));
        let mut after = 0;
        for item in heard.iter().filter(|item| !is_lost(item) && !is_bare(item)) {
            let bytes = if loses { without_id(item) } else { item.get().to_owned() };
            let Some(at) = sent[after..].find(&bytes) else {
                let is_last = matches!(answer.parts.last(), Some(Part::Reasoning(_)));
                assert!(
                    is_last && kind(item) == "reasoning",
                    "{}: {bytes} not in order in {sent}",
                    one.file()
                );
                continue;
            };
            after += at + bytes.len();
            items += 1;
            encrypted +=
                usize::from(field(item, "encrypted_content").as_str().is_some_and(|text| !text.is_empty()));
        }
        for call in calls(&answer) {
            let id = quoted(call.provider_id.as_deref().unwrap());
            assert!(sent.contains(&format!(r#"_output","call_id":{id},"#)), "{}: {id}", one.file());
            outputs += 1;
        }
    }
    println!("{items} items, {encrypted} of them encrypted, {outputs} outputs");
    assert!(items > 100 && encrypted > 10 && outputs > 15, "{items} {encrypted} {outputs}");
}

fn field(item: &RawValue, name: &str) -> Value {
    serde_json::from_str::<Value>(item.get()).unwrap()[name].clone()
}

fn kind(item: &RawValue) -> String {
    field(item, "type").as_str().unwrap_or_default().to_owned()
}

/// Reasoning without a stored reference: nothing is stored.
fn is_lost(item: &RawValue) -> bool {
    let holds = |name: &str| match field(item, name) {
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    };
    kind(item) == "reasoning" && !holds("encrypted_content") && !holds("content")
}

/// A message without words.
fn is_bare(item: &RawValue) -> bool {
    let says = |part: &Value| {
        ["text", "refusal"].iter().any(|key| part[key].as_str().is_some_and(|text| !text.is_empty()))
    };
    kind(item) == "message" && !field(item, "content").as_array().is_some_and(|parts| parts.iter().any(says))
}

/// An item without the id, with all other bytes.
fn without_id(item: &RawValue) -> String {
    let fields: Vec<(String, Box<RawValue>)> = fields(item);
    let kept = fields.iter().filter(|(name, _)| name != "id");
    let kept: Vec<String> = kept.map(|(name, value)| format!("{}:{}", quoted(name), value.get())).collect();
    format!("{{{}}}", kept.join(","))
}

fn fields(item: &RawValue) -> Vec<(String, Box<RawValue>)> {
    struct Fields(Vec<(String, Box<RawValue>)>);
    impl<'de> serde::Deserialize<'de> for Fields {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Visitor;
            impl<'de> serde::de::Visitor<'de> for Visitor {
                type Value = Fields;

                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                    let mut fields = Vec::new();
                    while let Some(field) = map.next_entry()? {
                        fields.push(field);
                    }
                    Ok(Fields(fields))
                }
            }
            deserializer.deserialize_map(Visitor)
        }
    }
    serde_json::from_str::<Fields>(item.get()).unwrap().0
}
