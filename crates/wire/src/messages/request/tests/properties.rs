//! Properties of every conversation.

use proptest::prelude::*;

use super::*;

/// A step of a conversation: the user's text, the model's text and calls, the tools' results.
#[derive(Clone, Debug)]
struct Step {
    said: Option<String>,
    answer: String,
    calls: Vec<(String, bool)>,
    origin: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let said = prop::option::weighted(0.5, "[a-z \\n]{0,8}");
    let calls = prop::collection::vec(("[a-z]{0,4}", any::<bool>()), 0..3);
    (said, "[a-z ]{0,8}", calls, any::<bool>()).prop_map(|(said, answer, calls, origin)| Step {
        said,
        answer,
        calls,
        origin,
    })
}

/// A conversation, and the possible ends of a request.
fn conversation(steps: Vec<Step>) -> (Vec<Message>, Vec<usize>) {
    let mut messages = vec![user("begin")];
    let mut ends = vec![1];
    for (at, step) in steps.into_iter().enumerate() {
        let origin = if step.origin { own() } else { foreign() };
        // Of a foreign answer without words or calls nothing is left.
        let answer = if step.origin { step.answer } else { format!("{}.", step.answer) };
        let mut parts = vec![thinking("t"), Part::text(answer)];
        let ids: Vec<String> = (0..step.calls.len()).map(|call| format!("c:{at}.{call}")).collect();
        parts.extend(ids.iter().map(|id| call(id, Some("same"), r#"{"p": 1}"#)));
        messages.push(assistant(parts, origin));
        for (id, (text, fails)) in ids.iter().zip(&step.calls) {
            let status = if *fails { ToolStatus::Error } else { ToolStatus::Completed };
            let image = Part::Image(media("png", "image/png"));
            messages.push(result_of(id, status, vec![Part::text(text.clone()), image]));
        }
        match step.said {
            Some(text) => messages.push(user(&text)),
            None if ids.is_empty() => messages.push(user("go on")),
            None => {}
        }
        ends.push(messages.len());
    }
    (messages, ends)
}

fn without_marks(text: &str) -> String {
    text.replace(r#","cache_control":{"type":"ephemeral"}"#, "")
}

/// The bytes up to the end of the messages.
fn beginning(messages: &[Message], cache: PromptCacheTtl) -> String {
    let request =
        ModelRequest { system: "s".into(), tools: vec![tool("read")], ..request(messages.to_vec()) };
    let mut config = config();
    config.cache = cache;
    let text = without_marks(&text_of(&request, &config));
    let tail = r#"],"max_tokens":4096}"#;
    text.strip_suffix(tail).unwrap_or_else(|| panic!("{text}")).to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_longer_conversation_begins_with_the_same_bytes_but_for_the_marks(steps in prop::collection::vec(step(), 1..8)) {
        let (messages, ends) = conversation(steps);
        let whole = beginning(&messages, PromptCacheTtl::FiveMinutes);
        prop_assert_eq!(&whole, &beginning(&messages, PromptCacheTtl::Off));
        for end in ends {
            let shorter = beginning(&messages[..end], PromptCacheTtl::FiveMinutes);
            prop_assert!(whole.starts_with(&shorter), "{shorter}\n{whole}");
        }
    }

    #[test]
    fn every_request_is_valid_in_the_eyes_of_the_api(steps in prop::collection::vec(step(), 1..8)) {
        let (messages, _) = conversation(steps);
        let request = ModelRequest { tools: vec![tool("read")], ..request(messages) };
        let body = body(&request, &config());
        let mut open: Vec<String> = Vec::new();
        for (at, turn) in body["messages"].as_array().unwrap().iter().enumerate() {
            let role = if at % 2 == 0 { "user" } else { "assistant" };
            prop_assert_eq!(&turn["role"], role);
            let blocks = turn["content"].as_array().unwrap();
            prop_assert!(!blocks.is_empty());
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            prop_assert!(texts.into_iter().all(|text| !text.trim().is_empty()));
            let ids = |key: &str| blocks.iter().filter_map(|block| block[key].as_str().map(str::to_owned)).collect::<Vec<_>>();
            if role == "user" {
                prop_assert_eq!(&ids("tool_use_id"), &open);
                let firsts = blocks.iter().take(open.len());
                prop_assert!(firsts.into_iter().all(|block| block["type"] == "tool_result"));
            }
            open = ids("id");
            let legal = |id: &String| id.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter));
            prop_assert!(open.iter().all(legal), "{open:?}");
        }
        prop_assert!(open.is_empty());
    }
}
