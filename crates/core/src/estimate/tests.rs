use super::message::file_tokens;
use super::*;
use crate::message::{
    BlobRef, MediaPart, Message, OpaquePart, Part, RawJson, ReasoningPart, Role, ToolCall, ToolResult,
    ToolSpec, ToolStatus,
};

fn media(media_type: &str, bytes: u64) -> MediaPart {
    let blob = BlobRef { hash: "0".repeat(64), bytes };
    MediaPart { blob, media_type: media_type.to_owned(), name: None, width: None, height: None }
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

/// The differences between families: digits one by one, contractions, marks before a word, line ends after marks.
#[test]
fn each_family_has_its_own_weights() {
    let tokens =
        |text: &str| TokenizerFamily::ALL.map(|family| (family.tokens(&text.repeat(100)) + 50) / 100);
    assert_eq!(tokens(" 1234567"), [4, 4, 8, 8]);
    assert_eq!(tokens("don't stop "), [2, 3, 3, 4]);
    assert_eq!(tokens("x;\n"), [2, 2, 2, 3]);
}

#[test]
fn pieces_have_names_and_weights() {
    let met = |text: &str| pieces(text).filter(|(_, count)| *count > 0).collect::<Vec<_>>();
    assert_eq!(
        met("it's 1234"),
        [("BareWord2", 1), ("Contraction", 1), ("DigitGroup", 2), ("DigitExcess", 2), ("LoneBlank", 1)]
    );
    assert_eq!(met("a-b_c"), [("MarkWord1", 2), ("UnderscoreWord", 1), ("DashWord", 1), ("BareWord1", 1)]);
    assert_eq!(
        met("\\n\\tif\\\\n"),
        [("Escape", 1), ("EscapeWord", 1), ("EscapeAfterMarks", 1), ("BareWord2", 1), ("Marks1", 1)]
    );
    assert_eq!(met("’tis"), [("MarkWord3", 1)], "a typographic mark is a mark");
    for family in TokenizerFamily::ALL {
        assert_eq!(family.weights().len(), pieces("").count());
    }
}

#[test]
fn families_by_the_names_of_models() {
    let cases = [
        (
            TokenizerFamily::Llama,
            "llama3.2:3b meta-llama/Llama-3.1-8B-Instruct llama-3.3-70b-versatile Meta-Llama-3-8B",
        ),
        (
            TokenizerFamily::Llama,
            "hermes-3-llama-3.1-8b deepseek-r1-distill-llama-70b nvidia/Llama-3_1-Nemotron-51B llama",
        ),
        (
            TokenizerFamily::Qwen,
            "qwen3-30b-a3b Qwen/Qwen2.5-Coder-32B-Instruct QwQ-32B deepseek-r1-distill-qwen-7b",
        ),
        (
            TokenizerFamily::Qwen,
            "gpt-4o-distill-qwen-7b open-mistral-nemo mistral-large-latest devstral-small-2507",
        ),
        (
            TokenizerFamily::Gemma,
            "gemma3:27b google/gemma-3-4b-it gemini-3-pro models/gemini-2.5-flash medgemma-4b",
        ),
        (
            TokenizerFamily::O200k,
            "claude-sonnet-4-5 gpt-6 o3 grok-4 kimi-k2 glm-4.6 deepseek-chat mixtral-8x7b",
        ),
        (
            TokenizerFamily::O200k,
            "llama-2-7b-chat llama2:7b meta-llama/Llama-4-Scout codellama:7b ollama/phi-4 meta-llama/x",
        ),
    ];
    for (family, models) in cases {
        for model in models.split(' ') {
            assert_eq!(TokenizerFamily::of(model), family, "{model}");
        }
    }
    assert_eq!(TokenizerFamily::of(""), TokenizerFamily::default());
    let named = MessageTokenCounter::estimated(TokenizerFamily::Qwen);
    assert_eq!((named.kind(), named.name()), (CountAccuracy::Estimated, "structured estimate for Qwen"));
    assert_ne!(
        named,
        MessageTokenCounter::default(),
        "a log folded with one is not a log folded with the other"
    );
}

#[test]
fn never_more_than_the_bytes() {
    for text in ["x", "\u{e000}", "Ж", "é", "\0", "\n", "🏽", ".x\n", "1", "it's"] {
        for family in TokenizerFamily::ALL {
            assert!((1..=text.len() as u64).contains(&family.tokens(text)), "{family:?}, {text:?}");
        }
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
    let reasoning = ReasoningPart { text: "Let me look at it.".to_owned(), native: None };
    let opaque = OpaquePart { kind: "search".to_owned(), native: RawJson(r#"{"query":"x"}"#.to_owned()) };
    let parts = vec![
        Part::Reasoning(reasoning),
        Part::text("I read the file."),
        call(r#"{"path":"a.rs"}"#),
        Part::Opaque(opaque),
        Part::Image(media("image/png", 10_000)),
    ];
    let sum = MessageTokenCounter::structured().breakdown(&message(Role::Assistant, parts.clone()));
    let message = message(Role::Assistant, parts);
    assert_eq!(sum.total(), message_tokens(&message));
    assert_eq!(
        sum.total(),
        FramingTokens::default().message + message.parts.iter().map(part_tokens).sum::<u64>()
    );
    assert_eq!(sum.reasoning, message.parts.iter().take(1).map(part_tokens).sum::<u64>());
    assert_eq!(sum.media, UNKNOWN_IMAGE_TOKENS);
    assert!(sum.text > 0 && sum.tool_calls > 10 && sum.reasoning > 0, "{sum:?}");
    assert_eq!(sum.tool_results, 0);
}

#[test]
fn each_tool_result_is_a_message_of_its_own() {
    let picture = Part::Image(MediaPart { width: Some(512), height: Some(512), ..media("image/png", 9) });
    let one = result(vec![Part::text("done"), picture]);
    let sum = MessageTokenCounter::structured().breakdown(&message(Role::Tool, vec![one.clone(), one]));
    assert_eq!(sum.framing, 2 * FramingTokens::default().message);
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
    let hidden = Part::Reasoning(ReasoningPart { text: String::new(), native: native.clone() });
    assert_eq!(part_tokens(&hidden), 300);
    let signed = Part::Reasoning(ReasoningPart { text: "Yes.".to_owned(), native });
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
        let rule = ImageTokenRule::default();
        assert_eq!(rule.tokens(Some(width), Some(height)), tokens, "{width} × {height}");
        assert_eq!(rule.tokens(Some(height), Some(width)), tokens, "{height} × {width}");
    }
    assert_eq!(ImageTokenRule::default().tokens(Some(100), None), UNKNOWN_IMAGE_TOKENS);
}

/// Worked examples of the providers' guides.
#[test]
fn pictures_by_the_rule_of_their_model() {
    for (model, (width, height), tokens) in [
        ("gpt-4o-mini", (1_024, 1_024), 2_833 + 4 * 5_667),
        ("openai/gpt-5", (1_024, 1_024), 70 + 4 * 140),
        ("gpt-4.1-mini-2025-04-14", (1_024, 1_024), 1_659),
        ("o4-mini", (1_800, 2_400), 2_642),
        ("claude-3-5-haiku-20241022", (200, 200), 64),
        ("claude-sonnet-4-5", (1_000, 1_000), 1_296),
        ("claude-sonnet-4-5", (8_000, 8_000), 1_568),
        ("claude-opus-4-8", (8_000, 8_000), 4_784),
        ("gemini-2.5-flash", (384, 384), 258),
        ("gemini-2.5-flash", (385, 384), 258),
        ("gemini-2.5-flash", (1_000, 700), 516),
        ("gemini-3-pro", (10, 10), 1_120),
        ("Qwen/Qwen2.5-VL-7B-Instruct", (280, 560), 200),
        ("somebody's", (1_024, 1_024), 765),
    ] {
        assert_eq!(ImageTokenRule::of(model).tokens(Some(width), Some(height)), tokens, "{model}");
    }
    assert_eq!(ImageTokenRule::of("gemini-3-pro").tokens(None, None), 1_120);
}

#[test]
fn a_model_counts_by_its_own_template() {
    let one = Message::user("m", vec![Part::text("")]);
    let around = |model: &str| {
        let counter = MessageTokenCounter::default().for_model(model);
        (counter.message(&one), counter.framing().reply)
    };
    assert_eq!(around("gpt-4o"), (4, 3));
    assert_eq!(around("openai/gpt-oss-20b"), (5, 2));
    assert_eq!(around("qwen3-8b"), (5, 3));
    assert_eq!(around("llama-3.1-8b"), (5, 4));
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
