use super::*;
use std::path::Path;

use longhaul::api_events::ApiEvent;
use serde_json::Value;

fn updates(shows: EditorCapabilities) -> EditorUpdateTranslator {
    EditorUpdateTranslator::new(Path::new("/work").to_owned(), shows)
}

/// Returns the event with a test's fields. The fields that no test looks at have any value.
fn told(name: &'static str, payload: Value) -> SessionEvent {
    let mut whole = json!({
        "stepId": "s-1", "toolName": "bash", "truncated": false, "outputReserve": 0, "expectedError": 0.0,
        "compactionCount": 0, "strategy": "summarization", "reason": "token_limit", "trigger": 0,
        "originalMessages": 0, "compressedMessages": 0, "code": "third-party", "runId": "r",
        "finishReason": "stop", "steps": 0,
    });
    for (key, value) in payload.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let event = SessionEvent::from_announcement(&ApiEvent::passing(name, &"s".into(), whole)).unwrap();
    assert!(!matches!(event, SessionEvent::Other { .. }), "{event:?}");
    event
}

fn take(updates: &mut EditorUpdateTranslator, name: &'static str, payload: Value) -> Vec<Value> {
    let made = updates.take(&told(name, payload), &UpdateDetails::default());
    made.into_iter().map(|update| serde_json::to_value(update).unwrap()).collect()
}

fn chunk(content: &str, offset: u64) -> Value {
    json!({ "messageId": "m-1", "chunkType": "text", "content": content, "offset": offset })
}

fn answer(text: &str) -> Value {
    json!({ "messageId": "m-1", "role": "assistant", "source": "model",
            "parts": [{ "type": "reasoning", "text": "hm" }, { "type": "text", "text": text }] })
}

fn texts(updates: &[Value]) -> Vec<String> {
    updates
        .iter()
        .map(|update| {
            let kind = update["sessionUpdate"].as_str().unwrap();
            format!("{kind} {}", update["content"]["text"].as_str().unwrap_or_default())
        })
        .collect()
}

#[test]
fn what_was_streamed_is_not_sent_again() {
    let mut live = updates(EditorCapabilities::default());
    assert_eq!(texts(&take(&mut live, "llm:chunk", chunk("Häl", 0))), ["agent_message_chunk Häl"]);
    // What streams twice after an attempt that failed.
    assert_eq!(texts(&take(&mut live, "llm:chunk", chunk("Hälf", 0))), ["agent_message_chunk f"]);
    let rest = take(&mut live, "message:added", answer("Hälfte"));
    assert_eq!(texts(&rest), ["agent_thought_chunk hm", "agent_message_chunk te"]);
    assert_eq!(rest[0]["messageId"], "m-1-thought");
    assert_eq!(rest[1]["messageId"], "m-1");
}

#[test]
fn after_a_gap_the_whole_message_tells_the_rest_in_order() {
    let mut live = updates(EditorCapabilities::default());
    take(&mut live, "llm:chunk", chunk("one ", 0));
    assert_eq!(take(&mut live, "llm:chunk", chunk("three", 8)), Vec::<Value>::new(), "`two ` is missing");
    let rest = take(&mut live, "message:added", answer("one two three"));
    assert_eq!(texts(&rest)[1], "agent_message_chunk two three");
}

#[test]
fn a_paused_answer_goes_on_as_one_message() {
    let mut live = updates(EditorCapabilities::default());
    take(&mut live, "llm:chunk", chunk("first ", 0));
    let mut piece = answer("first ");
    (piece["interrupted"], piece["parts"][0]["text"]) = ("paused".into(), "".into());
    assert_eq!(take(&mut live, "message:added", piece), Vec::<Value>::new());
    assert_eq!(texts(&take(&mut live, "llm:chunk", chunk("second", 6))), ["agent_message_chunk second"]);
    let mut piece = answer("second part");
    (piece["messageId"], piece["continues"], piece["parts"][0]["text"]) =
        ("m-2".into(), "m-1".into(), "".into());
    let rest = take(&mut live, "message:added", piece);
    assert_eq!(texts(&rest), ["agent_message_chunk  part"]);
    assert_eq!(rest[0]["messageId"], "m-1");
}

#[test]
fn a_history_is_told_with_what_its_user_typed_and_nothing_else() {
    let mut again = updates(EditorCapabilities::default());
    assert_eq!(
        take(&mut again, "message:added", message_from("typed")),
        Vec::<Value>::new(),
        "the editor shows it"
    );
    again.telling = UpdateDelivery::Again;
    assert_eq!(texts(&take(&mut again, "message:added", message_from("typed"))), ["user_message_chunk hi"]);
    assert_eq!(take(&mut again, "message:added", message_from("note")), Vec::<Value>::new());
    let whole = take(&mut again, "message:added", answer("there"));
    assert_eq!(texts(&whole), ["agent_thought_chunk hm", "agent_message_chunk there"]);
    let meter = json!({ "total": 5, "window": 10 });
    assert_eq!(take(&mut again, "context:usage", meter), Vec::<Value>::new(), "of the past");
}

fn message_from(source: &str) -> Value {
    json!({ "messageId": "u-1", "role": "user", "source": source, "parts": [{ "type": "text", "text": "hi" }] })
}

#[test]
fn a_call_is_announced_runs_prints_and_ends() {
    let mut live = updates(EditorCapabilities::default());
    let call = json!({ "callId": "c1", "toolName": "bash", "args": { "command": "ls" }, "argsText": r#"{"command":"ls"}"# });
    let made = take(&mut live, "llm:tool-call", call);
    assert_eq!(made[0]["sessionUpdate"], "tool_call");
    let asked = serde_json::to_value(live.asked("c1").unwrap()).unwrap();
    assert_eq!((&asked["toolCallId"], &asked["kind"]), (&json!("c1"), &json!("execute")));
    assert_eq!(take(&mut live, "tool:started", tool_event())[0]["status"], "in_progress");
    assert_eq!(
        take(&mut live, "tool:output", tool_event())[0]["content"][0]["content"]["text"],
        "```\na.rs\n```"
    );
    let result = json!({ "callId": "c1", "success": true, "status": "completed", "omittedChars": 1200,
        "totalChars": 2000, "sanitized": [{ "type": "text", "text": "a.rs" }] });
    let ended = take(&mut live, "llm:tool-result", result);
    assert_eq!(ended[0]["status"], "completed");
    assert_eq!(
        ended[0]["rawOutput"],
        json!({ "status": "completed", "output": "a.rs", "omittedChars": 1200 })
    );
    assert!(ended[0]["content"][1]["content"]["text"].as_str().unwrap().contains("1,200 of 2,000"));
    assert_eq!(take(&mut live, "tool:output", tool_event()), Vec::<Value>::new(), "it has ended");
}

fn tool_event() -> Value {
    json!({ "callId": "c1", "text": "a.rs\n", "offset": 0 })
}

#[test]
fn the_meter_carries_the_cost_where_it_is_known() {
    let mut live = updates(EditorCapabilities::default());
    let meter = told("context:usage", json!({ "total": 5, "window": 10 }));
    let of = |live: &mut EditorUpdateTranslator, cost| {
        let made = live.take(&meter, &UpdateDetails { cost, ..UpdateDetails::default() });
        serde_json::to_value(&made[0]).unwrap()
    };
    let plain = json!({ "sessionUpdate": "usage_update", "used": 5, "size": 10 });
    assert_eq!(of(&mut live, None), plain);
    assert_eq!(of(&mut live, Some(0.25))["cost"], json!({ "amount": 0.25, "currency": "USD" }));
}

fn compressed() -> Value {
    json!({ "compactionId": "e7", "originalTokens": 12_345, "compressedTokens": 4_000, "costNote": "over the trigger" })
}

#[test]
fn a_compaction_is_shown_as_far_as_the_editor_can() {
    let mut plain = updates(EditorCapabilities::default());
    assert_eq!(take(&mut plain, "context:compacting", json!({})), Vec::<Value>::new());
    let shown = texts(&take(&mut plain, "context:compressed", compressed()));
    assert_eq!(shown, ["agent_thought_chunk Context compacted: 12.3K → 4K tokens. over the trigger\n"]);

    let mut notices = updates(EditorCapabilities { notices: true, compactions: false });
    let shown = take(&mut notices, "context:compressed", compressed());
    assert_eq!((&shown[0]["sessionUpdate"], &shown[0]["severity"]), (&json!("notice"), &json!("info")));
    notices.telling = UpdateDelivery::Again;
    assert_eq!(take(&mut notices, "context:compressed", compressed()), Vec::<Value>::new(), "not history");

    let mut rows = updates(EditorCapabilities { notices: true, compactions: true });
    let begun = take(&mut rows, "context:compacting", json!({}));
    assert_eq!(
        (&begun[0]["sessionUpdate"], &begun[0]["status"]),
        (&json!("compaction_update"), &json!("in_progress"))
    );
    let beside = UpdateDetails { summary: Some("[SUMMARY] …".into()), ..UpdateDetails::default() };
    let made = rows.take(&told("context:compressed", compressed()), &beside);
    let made = serde_json::to_value(&made[0]).unwrap();
    assert_eq!((&made["compactionId"], &made["status"]), (&begun[0]["compactionId"], &json!("completed")));
    assert_eq!(made["summary"][1]["text"], "[SUMMARY] …");
}

#[test]
fn a_compaction_that_is_not_made_does_not_stay_open() {
    let mut rows = updates(EditorCapabilities { notices: false, compactions: true });
    let begun = take(&mut rows, "context:compacting", json!({}));
    let failed = take(&mut rows, "context:compact-failed", json!({ "reason": "it was empty" }));
    assert_eq!((&failed[0]["status"], &failed[0]["error"]), (&json!("failed"), &json!("it was empty")));
    assert_eq!(failed[0]["compactionId"], begun[0]["compactionId"]);
    let begun = take(&mut rows, "context:compacting", json!({}));
    let ended = take(&mut rows, "run:complete", json!({ "finishReason": "cancelled" }));
    assert_eq!(ended[0]["status"], "cancelled");
    assert_ne!(begun[0]["compactionId"], failed[0]["compactionId"]);
    assert_eq!(take(&mut rows, "run:complete", json!({})), Vec::<Value>::new());
}
