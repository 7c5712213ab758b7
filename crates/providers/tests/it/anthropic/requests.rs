//! Requests in the model's view, reviewed by eye.

use bytes::Bytes;
use longhaul_core::message::{OpaquePart, ToolSpec};
use longhaul_providers::ToolChoice;
use longhaul_providers::anthropic::PromptCacheTtl;

use super::*;

fn rendered(request: &ModelRequest, config: AnthropicConfig) -> Value {
    serde_json::from_slice(&AnthropicProvider::new(config).unwrap().render(request).unwrap()).unwrap()
}

fn plain() -> AnthropicConfig {
    AnthropicConfig::new("http://localhost/v1", "m")
}

fn reasoning(native: &str) -> Part {
    Part::Reasoning(ReasoningPart { text: "Hm".into(), native: Some(RawJson(native.into())) })
}

fn read(call_id: &str, provider_id: &str) -> Part {
    Part::ToolCall(ToolCall {
        call_id: call_id.into(),
        name: "read".into(),
        arguments: r#"{"path": "a.png"}"#.into(),
        provider_id: Some(provider_id.into()),
        native: None,
    })
}

fn media(hash: &str, media_type: &str) -> MediaPart {
    let blob = BlobRef { hash: hash.into(), bytes: 3 };
    MediaPart { blob, media_type: media_type.into(), name: Some("a".into()), width: None, height: None }
}

fn tools() -> Vec<ToolSpec> {
    let spec = |name: &str, description: &str, parameters: &str| ToolSpec {
        name: name.into(),
        description: description.into(),
        parameters: RawJson(parameters.into()),
        read_only: true,
        poll: false,
        source: "builtin".into(),
    };
    vec![
        spec(
            "read",
            "Reads a file.",
            r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#,
        ),
        spec("ls", "", r#"{"type":"object"}"#),
    ]
}

/// Reasoning, two calls at once, a picture and an error from tools, a queued message, a second step.
fn conversation() -> Vec<Message> {
    vec![
        Message::user(
            "u1",
            vec![Part::text("Look at "), Part::text("these."), Part::File(media("pdf", "application/pdf"))],
        ),
        written(vec![
            reasoning(r#"{"type":"thinking","thinking":"Hm","signature":"c2ln"}"#),
            Part::text("I look."),
            read("c-1", "toolu_1"),
            read("c-2", "toolu_2"),
        ]),
        result(
            "c-1",
            ToolStatus::Completed,
            vec![Part::text("Picture a.png"), Part::Image(media("png", "image/png"))],
        ),
        result("c-2", ToolStatus::Error, vec![Part::text("no such file")]),
        user("First the sky, please."),
        written(vec![
            reasoning(r#"{"type":"redacted_thinking","data":"ZGF0YQ=="}"#),
            Part::Opaque(OpaquePart {
                kind: "compaction".into(),
                native: RawJson(r#"{"type":"compaction","content":"so far"}"#.into()),
            }),
            Part::text("It is blue."),
        ]),
        user("And the sea?"),
    ]
}

fn request(messages: Vec<Message>) -> ModelRequest {
    let media = [("png", "abc"), ("pdf", "%PDF")];
    ModelRequest {
        system: "You look at pictures.".into(),
        messages,
        tools: tools(),
        max_output_tokens: Some(4096),
        media: media.map(|(hash, bytes)| (hash.to_owned(), Bytes::from_static(bytes.as_bytes()))).into(),
        ..ModelRequest::default()
    }
}

#[test]
fn the_same_model_goes_on() {
    insta::assert_json_snapshot!(rendered(&request(conversation()), plain()));
}

#[test]
fn another_model_takes_over() {
    let mut config = plain();
    config.endpoint.model = "another".into();
    config.endpoint.declared.images = Some(false);
    config.cache = PromptCacheTtl::OneHour;
    insta::assert_json_snapshot!(rendered(&request(conversation()), config));
}

#[test]
fn a_last_step_without_tools_in_the_middle_of_a_turn() {
    let mut config = plain();
    config.cache = PromptCacheTtl::Off;
    config.endpoint.body =
        json!({"temperature": 0.5, "metadata": {"user_id": "u"}}).as_object().unwrap().clone();
    let request = ModelRequest { tools: Vec::new(), ..request(conversation()[..4].to_vec()) };
    insta::assert_json_snapshot!(rendered(&request, config));
}

#[test]
fn a_tool_is_demanded() {
    let request = ModelRequest { tool_choice: ToolChoice::Named("read".into()), ..request(vec![user("x")]) };
    insta::assert_json_snapshot!(rendered(&request, plain()));
}
