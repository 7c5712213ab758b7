use super::*;
use crate::message::{
    BlobRef, Media, Message, Opaque, Part, RawJson, Reasoning, Role, ToolCall, ToolResult, ToolSpec,
    ToolStatus,
};

fn media(media_type: &str, bytes: u64) -> Media {
    let blob = BlobRef { hash: "0".repeat(64), bytes };
    Media { blob, media_type: media_type.to_owned(), name: None, width: None, height: None }
}

fn call(arguments: &str) -> Part {
    Part::ToolCall(ToolCall {
        call_id: "c1".into(),
        name: "read".to_owned(),
        arguments: arguments.to_owned(),
        provider_id: None,
        native: None,
    })
}

fn result(content: Vec<Part>) -> Part {
    let status = ToolStatus::Completed;
    Part::ToolResult(ToolResult { call_id: "c1".into(), status, content, truncated: None })
}

fn message(role: Role, parts: Vec<Part>) -> Message {
    Message { id: "m1".into(), role, parts, origin: None }
}

/// Texts whose pieces are all tokens of `o200k_base`: the count is exact.
#[test]
fn pieces_are_cut_as_the_tokenizer_cuts_them() {
    let cases = [
        ("", 0),
        ("a", 1),
        ("The cat sat on the mat.", 7),
        ("1234567", 3),
        ("x 12", 3),
        ("    return", 2),
        ("don't stop", 2),
        ("fooBar", 2),
    ];
    for (text, tokens) in cases {
        assert_eq!(text_tokens(text), tokens, "{text:?}");
    }
}

#[test]
fn never_more_than_the_bytes() {
    for text in ["x", "\u{e000}", "Ж", "é", "\0", "\n", "🏽"] {
        assert!((1..=text.len() as u64).contains(&text_tokens(text)), "{text:?}");
    }
}

#[test]
fn characters_by_four_round_up() {
    for (text, tokens) in [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("上下文窗口", 2)] {
        assert_eq!(chars_div_4(text), tokens, "{text:?}");
    }
}

#[test]
fn a_breakdown_adds_up() {
    let reasoning = Reasoning { text: "Let me look at it.".to_owned(), native: None };
    let opaque = Opaque { kind: "search".to_owned(), native: RawJson(r#"{"query":"x"}"#.to_owned()) };
    let parts = vec![
        Part::Reasoning(reasoning),
        Part::text("I read the file."),
        call(r#"{"path":"a.rs"}"#),
        Part::Opaque(opaque),
        Part::Image(media("image/png", 10_000)),
    ];
    let sum = Counter::structured().breakdown(&message(Role::Assistant, parts.clone()));
    let message = message(Role::Assistant, parts);
    assert_eq!(sum.total(), message_tokens(&message));
    assert_eq!(sum.total(), Framing::default().message + message.parts.iter().map(part_tokens).sum::<u64>());
    assert_eq!(sum.reasoning, message.parts.iter().take(1).map(part_tokens).sum::<u64>());
    assert_eq!(sum.media, UNKNOWN_IMAGE_TOKENS);
    assert!(sum.text > 0 && sum.tool_calls > 10 && sum.reasoning > 0, "{sum:?}");
    assert_eq!(sum.tool_results, 0);
}

#[test]
fn each_tool_result_is_a_message_of_its_own() {
    let picture = Part::Image(Media { width: Some(512), height: Some(512), ..media("image/png", 9) });
    let one = result(vec![Part::text("done"), picture]);
    let sum = Counter::structured().breakdown(&message(Role::Tool, vec![one.clone(), one]));
    assert_eq!(sum.framing, 2 * Framing::default().message);
    assert_eq!(sum.media, 2 * (85 + 170));
    assert_eq!(sum.tool_results, 2 * (10 + 1));
}

#[test]
fn a_call_and_its_result_cost_what_users_measure() {
    let pair = message_tokens(&message(Role::Tool, vec![result(vec![])])) + part_tokens(&call(""));
    assert!((23..=27).contains(&pair), "{pair}");
}

#[test]
fn reasoning_that_cannot_be_read_is_weighed_by_its_size() {
    let native = Some(RawJson("A".repeat(1_600)));
    let hidden = Part::Reasoning(Reasoning { text: String::new(), native: native.clone() });
    assert_eq!(part_tokens(&hidden), 300);
    let signed = Part::Reasoning(Reasoning { text: "Yes.".to_owned(), native });
    assert_eq!(part_tokens(&signed), text_tokens("Yes."));
}

/// Worked examples of the provider's guide, and sizes at the edges of its rule.
#[test]
fn pictures_by_tiles() {
    let cases = [
        ((1_024, 1_024), 765),
        ((2_048, 4_096), 1_105),
        ((512, 512), 255),
        ((513, 512), 425),
        ((1, 1), 255),
        ((0, 0), 255),
        ((u32::MAX, 1), 85 + 170 * 4),
    ];
    for ((width, height), tokens) in cases {
        assert_eq!(image_tokens(Some(width), Some(height)), tokens, "{width} × {height}");
        assert_eq!(image_tokens(Some(height), Some(width)), tokens, "{height} × {width}");
    }
    assert_eq!(image_tokens(Some(100), None), UNKNOWN_IMAGE_TOKENS);
}

#[test]
fn files_by_bytes_documents_up_to_a_cap() {
    assert_eq!(file_tokens(&media("text/plain", 40_001)), 10_001);
    assert_eq!(file_tokens(&media("application/pdf", 40_000)), 10_000);
    assert_eq!(file_tokens(&media("application/pdf", 1 << 30)), 300_000);
    assert_eq!(file_tokens(&media("text/plain", 1 << 30)), 1 << 28);
}

/// The weather function of the published example: 68 tokens of tools for 101 of the request.
#[test]
fn a_tool_is_near_the_published_count() {
    let tool = ToolSpec {
        name: "get_current_weather".to_owned(),
        description: "Get the current weather in a given location".to_owned(),
        parameters: RawJson(
            r#"{"type":"object","properties":{"location":{"type":"string","description":"The city and state, e.g. San Francisco, CA"},"unit":{"type":"string","description":"The unit of temperature to return","enum":["celsius","fahrenheit"]}},"required":["location"]}"#
                .to_owned(),
        ),
        read_only: true,
        poll: false,
        source: "builtin".to_owned(),
    };
    let tokens = tool_tokens(&tool);
    assert!((60..=82).contains(&tokens), "{tokens}");
}
