//! The parts, checked as their reader checks them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::ui_protocol::tests::{every_way, failed, heard, with_tools};
use crate::ui_protocol::{UiProtocol, UiStreamEvent, UiStreamTranslator};

fn parts(acts: Vec<UiStreamEvent>) -> Vec<Value> {
    let mut text = String::new();
    let mut parts = UiPartWriter::of("S");
    for act in acts {
        parts.write(act, &mut text);
    }
    let data = text.split_terminator("\n\n").map(|frame| frame.strip_prefix("data: ").unwrap());
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| json!({ "type": data }))).collect()
}

/// The faults at which `processUIMessageStream` throws, and more.
fn check(parts: &[Value]) {
    let (mut open, mut writing, mut known) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for part in parts {
        let (kind, id) = (part["type"].as_str().unwrap(), part["id"].as_str().unwrap_or_default());
        let call = part["toolCallId"].as_str().unwrap_or_default();
        match kind {
            "text-start" | "reasoning-start" => assert!(open.insert(id), "{parts:?}"),
            "text-delta" | "reasoning-delta" => assert!(open.contains(id), "{parts:?}"),
            "text-end" | "reasoning-end" => assert!(open.remove(id), "{parts:?}"),
            "tool-input-start" => assert!(known.insert(call) && writing.insert(call), "{parts:?}"),
            "tool-input-delta" => assert!(writing.contains(call), "{parts:?}"),
            "tool-input-available" | "tool-input-error" => assert!(writing.remove(call), "{parts:?}"),
            "finish-step" => assert!(open.is_empty() && writing.is_empty(), "{parts:?}"),
            _ => {}
        }
    }
    assert!(open.is_empty() && writing.is_empty(), "{parts:?}");
    assert_eq!((&parts[0]["type"], &parts[parts.len() - 1]["type"]), (&json!("start"), &json!("[DONE]")));
}

#[test]
fn whatever_happens_the_parts_are_legal() {
    for acts in every_way() {
        check(&parts(acts));
    }
}

#[test]
fn an_answer_with_tools_reads_like_this() {
    let parts = parts(heard(UiStreamTranslator::awaiting("q1"), &with_tools()));
    let kinds: Vec<&str> = parts.iter().map(|part| part["type"].as_str().unwrap()).collect();
    #[rustfmt::skip]
    let expected = [
        "start", "data-queue", "data-queue",
        "start-step", "reasoning-start", "reasoning-delta", "reasoning-delta", "reasoning-end",
        "text-start", "text-delta", "text-delta", "text-end",
        "tool-input-start", "tool-input-delta", "tool-input-delta", "tool-input-start", "tool-input-delta",
        "tool-input-available", "tool-input-available", "data-context", "data-tool-output",
        "tool-output-error", "tool-output-available", "finish-step",
        "start-step", "text-start", "text-delta", "text-delta", "text-end", "data-context", "finish-step",
        "finish", "[DONE]",
    ];
    assert_eq!(kinds, expected);
    let start = json!({ "type": "start", "messageId": "a-q1", "messageMetadata": { "sessionId": "S" } });
    assert_eq!(parts[0], start);
    assert_eq!(parts[17]["input"], json!({ "path": "." }));
    assert_eq!((&parts[17]["providerExecuted"], &parts[17]["dynamic"]), (&json!(true), &json!(true)));
    assert_eq!((&parts[21]["errorText"], &parts[22]["output"]), (&json!("[Not found.]"), &json!("a.txt")));
    // Clients keep the metadata as it is, so its order counts, too.
    let finish = concat!(
        r#"{"type":"finish","finishReason":"stop","messageMetadata":{"finishReason":"stop","steps":1,"#,
        r#""usage":{"inputTokens":5,"outputTokens":2,"reasoningTokens":0,"cacheReadTokens":0,"#,
        r#""cacheWriteTokens":0,"totalTokens":7},"runId":"r1"}}"#,
    );
    assert_eq!(parts[31].to_string(), finish);
}

#[test]
fn an_error_is_a_part() {
    let parts = parts(heard(UiStreamTranslator::awaiting("q1"), &failed()));
    let error = json!({ "type": "error", "errorText": "The stream broke. (network)" });
    assert_eq!(parts[parts.len() - 3], error);
}

#[test]
fn only_the_newest_message_counts() {
    let messages = |newest: Value| -> Vec<UiMessage> {
        serde_json::from_value(
            json!([{ "id": "1", "role": "user", "parts": [{ "type": "text", "text": "old" }] }, newest]),
        )
        .unwrap()
    };
    let newest = json!({ "id": "2", "role": "user", "parts": [
        { "type": "step-start" }, { "type": "text", "text": "new" },
        { "type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA", "filename": "a.png" },
    ] });
    let UiTurnRequest::Say { content: ClientContent::Parts(parts), name, again: false, .. } =
        wish(messages(newest), false).unwrap()
    else {
        panic!("nothing is said")
    };
    let image = json!({ "type": "image", "mediaType": "image/png", "data": "AAAA", "name": "a.png" });
    assert_eq!((name.as_str(), parts), ("2", vec![json!({ "type": "text", "text": "new" }), image]));
    let elsewhere = json!({ "id": "2", "role": "user", "parts": [
        { "type": "file", "mediaType": "image/png", "url": "https://example.org/a.png" },
    ] });
    assert!(wish(messages(elsewhere), false).is_err());
    let answered = json!({ "id": "3", "role": "assistant", "parts": [
        { "type": "dynamic-tool", "state": "approval-requested", "approval": { "id": "S:a" } },
        { "type": "dynamic-tool", "state": "approval-responded",
            "approval": { "id": "S:b", "approved": false, "reason": "no" } },
    ] });
    let UiTurnRequest::Decide(decisions) = wish(messages(answered), false).unwrap() else {
        panic!("nothing is decided")
    };
    let [UiApprovalDecision { approval, allowed: false, reason: Some(reason) }] = decisions.as_slice() else {
        panic!("{decisions:?}")
    };
    assert_eq!((approval.as_str(), reason.as_str()), ("S:b", "no"));
    assert!(wish(Vec::new(), false).is_err());
}
