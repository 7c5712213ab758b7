//! The events, checked as AG-UI's client checks them (`verifyEvents`).

use std::collections::BTreeSet;

use longhaul::api_events::ApiEvent;
use serde_json::{Value, json};

use super::*;
use crate::ui_protocol::tests::{asking, cancelled, every_way, failed, heard, paused, with_tools};
use crate::ui_protocol::{UiProtocol, UiStreamEvent, UiStreamTranslator};

fn events(acts: Vec<UiStreamEvent>, state: &Value) -> Vec<Value> {
    let mut text = String::new();
    let mut events = AgUiEventWriter::of("T", "R", state);
    for act in acts {
        events.write(act, &mut text);
    }
    let data = text.split_terminator("\n\n").map(|frame| frame.strip_prefix("data: ").unwrap());
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn check(events: &[Value]) {
    let mut open = BTreeSet::new();
    for event in events {
        let kind = event["type"].as_str().unwrap();
        let id = ["stepName", "messageId", "toolCallId"].iter().find_map(|key| event[*key].as_str());
        let id = id.unwrap_or_default();
        match kind.rsplit_once('_') {
            Some((what, "START" | "STARTED")) if what != "RUN" => {
                assert!(open.insert((what, id)), "{kind} {id}: {events:?}");
            }
            Some((what, "END" | "FINISHED")) if what != "RUN" => {
                assert!(open.remove(&(what, id)), "{kind} {id}: {events:?}");
            }
            Some((what, "CONTENT" | "ARGS")) => {
                assert!(open.contains(&(what, id)) && event["delta"] != "", "{kind} {id}: {events:?}");
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}: {events:?}");
    assert_eq!(events[0], json!({ "type": "RUN_STARTED", "threadId": "T", "runId": "R" }));
    let ends = events.iter().filter(|event| event["type"] == "RUN_FINISHED" || event["type"] == "RUN_ERROR");
    assert_eq!(ends.count(), 1, "{events:?}");
}

#[test]
fn whatever_happens_the_events_are_legal() {
    for acts in every_way() {
        check(&events(acts, &Value::Null));
    }
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[test]
fn an_answer_with_tools_reads_like_this() {
    let events = events(heard(UiStreamTranslator::awaiting("q1"), &with_tools()), &json!({ "mine": 1 }));
    #[rustfmt::skip]
    let expected = [
        "RUN_STARTED", "CUSTOM", "CUSTOM", "STEP_STARTED",
        "REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END", "REASONING_END",
        "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END",
        "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_ARGS", "TOOL_CALL_START", "TOOL_CALL_ARGS",
        "TOOL_CALL_END", "TOOL_CALL_END", "STATE_DELTA", "CUSTOM", "TOOL_CALL_RESULT", "TOOL_CALL_RESULT",
        "STEP_FINISHED", "STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END", "STATE_DELTA", "STEP_FINISHED", "RUN_FINISHED",
    ];
    assert_eq!(kinds(&events), expected);
    assert_eq!(events[14]["parentMessageId"], "m-s3");
    let context = json!({ "total": 100, "window": 1_000, "outputReserve": 100, "expectedError": 0.1, "compactionCount": 0 });
    let patch = json!([{ "op": "add", "path": "/longhaul", "value": { "context": context } }]);
    assert_eq!(events[21]["delta"], patch);
    let last = &events[events.len() - 1];
    assert_eq!(
        (&last["outcome"], &last["usage"][0]["totalTokens"]),
        (&json!({ "type": "success" }), &json!(7))
    );
}

#[test]
fn the_ends_are_told_apart() {
    let last = |list: &[ApiEvent]| {
        events(heard(UiStreamTranslator::awaiting("q1"), list), &Value::Null).pop().unwrap()
    };
    assert_eq!(last(&cancelled())["outcome"], json!({ "type": "cancelled" }));
    assert_eq!(
        last(&failed()),
        json!({ "type": "RUN_ERROR", "message": "The stream broke.", "code": "network" })
    );
    let asks = last(&asking("allow"));
    assert_eq!(asks["outcome"]["type"], "interrupt");
    let interrupt = &asks["outcome"]["interrupts"][0];
    assert_eq!((&interrupt["id"], &interrupt["toolCallId"]), (&json!("S:a-c2"), &json!("s3.1")));
}

#[test]
fn state_that_cannot_be_added_to_is_left_alone() {
    let meters = |state: Value| {
        let events = events(heard(UiStreamTranslator::awaiting("q1"), &with_tools()), &state);
        let is_meter = |event: &&Value| {
            event["type"].as_str().unwrap().starts_with("STATE") || event["name"] == "longhaul.context"
        };
        events.iter().filter(is_meter).map(|event| event["type"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(meters(Value::Null), ["STATE_SNAPSHOT", "STATE_DELTA"]);
    assert_eq!(meters(json!([1])), ["CUSTOM", "CUSTOM"]);
}

#[test]
fn a_compaction_is_an_activity_of_one_name() {
    let events = events(heard(UiStreamTranslator::awaiting("q1"), &paused()), &Value::Null);
    let edits: Vec<&Value> = events.iter().filter(|event| event["type"] == "ACTIVITY_SNAPSHOT").collect();
    assert_eq!(edits.len(), 2);
    assert_eq!(
        (&edits[0]["messageId"], &edits[0]["content"]["state"]),
        (&json!("R.compaction-1"), &json!("running"))
    );
    assert_eq!(
        (&edits[1]["messageId"], &edits[1]["content"]["state"]),
        (&json!("R.compaction-1"), &json!("done"))
    );
}

#[test]
fn what_is_asked_for_is_read() {
    let messages = |newest: Value| -> Vec<AgUiMessage> {
        serde_json::from_value(json!([{ "id": "1", "role": "user", "content": "old" }, newest])).unwrap()
    };
    let parts = json!([
        { "type": "text", "text": "new" },
        { "type": "document", "source": { "type": "data", "mimeType": "text/plain", "value": "AAAA" } },
        { "type": "binary", "mimeType": "image/png", "data": "BBBB", "filename": "b.png" },
    ]);
    let newest = json!({ "id": "2", "role": "user", "content": parts });
    let UiTurnRequest::Say { content: ClientContent::Parts(parts), name, .. } =
        wish(messages(newest), Vec::new()).unwrap()
    else {
        panic!("nothing is said")
    };
    assert_eq!((name.as_str(), parts.len()), ("2", 3));
    assert_eq!(parts[1], json!({ "type": "file", "mediaType": "text/plain", "data": "AAAA" }));
    assert_eq!(parts[2]["name"], "b.png");
    let elsewhere = json!([{ "type": "image", "source": { "type": "url", "value": "https://example.org" } }]);
    assert!(wish(messages(json!({ "id": "2", "role": "user", "content": elsewhere })), Vec::new()).is_err());
    let resume = |status: &str, payload: Value| -> Vec<AgUiResume> {
        serde_json::from_value(json!([{ "interruptId": "S:a", "status": status, "payload": payload }]))
            .unwrap()
    };
    let allowed = |resume| match wish(messages(json!({ "role": "user", "content": "x" })), resume).unwrap() {
        UiTurnRequest::Decide(decisions) => decisions[0].allowed,
        other => panic!("{other:?}"),
    };
    assert!(allowed(resume("resolved", json!({ "approved": true }))));
    assert!(!allowed(resume("resolved", json!({ "approved": false }))));
    assert!(!allowed(resume("resolved", json!(null))));
    assert!(!allowed(resume("cancelled", json!({ "approved": true }))));
}
