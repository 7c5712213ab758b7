//! Lists of events as watchers are told them, and what is heard of them.

use serde_json::{Value, json};

use super::*;

/// A run of two steps: reasoning, text and two calls, one of which fails; then the answer.
pub(crate) fn with_tools() -> Vec<Value> {
    let mut events = taken(1);
    events.extend(first_step());
    events.extend([
        json!({ "name": "tool:started", "seq": 6, "callId": "c1" }),
        json!({ "name": "tool:output", "callId": "c1", "text": "a.txt", "offset": 0 }),
        json!({ "name": "tool:started", "seq": 7, "callId": "c2" }),
        result(8, "c2", false, "[Not found.]"),
        result(9, "c1", true, "a.txt"),
        chunk("s10", "m-s10", "text", "There is ", 0),
        chunk("s10", "m-s10", "text", "one.", 9),
        chunk("s10", "m-s10", "text", "", 13),
        added(11, "m-s10", json!([{ "type": "text", "text": "There is one." }])),
        json!({ "name": "llm:response", "seq": 12, "stepId": "s10", "content": "There is one." }),
        json!({ "name": "context:usage", "seq": 12, "total": 120 }),
        complete(13, "stop"),
    ]);
    events
}

fn taken(seq: u64) -> Vec<Value> {
    vec![
        json!({ "name": "queue:snapshot", "entries": [] }),
        json!({ "name": "message:queued", "id": "q1", "position": 1 }),
        json!({ "name": "run:started", "seq": seq, "runId": "r1" }),
        json!({ "name": "llm:thinking", "seq": seq, "runId": "r1" }),
        json!({ "name": "message:dequeued", "seq": seq + 1, "ids": ["q1"], "count": 1, "coalesced": false }),
        json!({ "name": "message:added", "seq": seq + 1, "messageId": "q1", "role": "user", "source": "typed",
            "parts": [{ "type": "text", "text": "Look." }] }),
    ]
}

/// Reasoning, text, and two calls that are written bit by bit.
fn first_step() -> Vec<Value> {
    let call = |id: &str, name: &str, arguments: &str| json!({ "type": "tool-call", "call_id": id, "name": name, "arguments": arguments });
    vec![
        chunk("s3", "m-s3", "reasoning", "I could ", 0),
        chunk("s3", "m-s3", "reasoning", "look.", 8),
        chunk("s3", "m-s3", "text", "I look", 0),
        chunk("s3", "m-s3", "text", ". Änd", 6),
        input("s3", 0, Some("ls"), ""),
        input("s3", 0, None, "{\"path\":"),
        input("s3", 0, None, "\".\"}"),
        input("s3", 1, Some("read"), "{}"),
        added(
            4,
            "m-s3",
            json!([
                { "type": "reasoning", "text": "I could look." }, { "type": "text", "text": "I look. Änd" },
                call("c1", "ls", "{\"path\":\".\"}"), call("c2", "read", "{}"),
            ]),
        ),
        json!({ "name": "llm:tool-call", "seq": 4, "callId": "c1", "toolName": "ls", "stepId": "s3", "args": {}, "argsText": "" }),
        json!({ "name": "context:usage", "seq": 5, "total": 100 }),
    ]
}

/// An answer that is paused in its text, goes on after a compaction, and ends.
pub(crate) fn paused() -> Vec<Value> {
    let mut events = taken(1);
    events.extend([
        chunk("s3", "m-s3", "text", "One two", 0),
        json!({ "name": "message:added", "seq": 4, "messageId": "m-s3", "role": "assistant", "paused": true,
            "parts": [{ "type": "text", "text": "One two" }] }),
        json!({ "name": "context:compacting", "strategy": "adaptive", "reason": "token_limit", "trigger": 9 }),
        json!({ "name": "context:compressed", "seq": 6, "compactionId": "e6", "strategy": "adaptive" }),
        chunk("s7", "m-s3", "text", " three", 7),
        json!({ "name": "message:added", "seq": 8, "messageId": "m-s7", "continues": "m-s3", "role": "assistant",
            "parts": [{ "type": "text", "text": " three" }] }),
        complete(9, "stop"),
    ]);
    events
}

/// A call that asks first, and is answered.
pub(crate) fn asking(decision: &str) -> Vec<Value> {
    let mut events = taken(1);
    events.extend(first_step());
    let success = decision == "allow";
    events.extend([
        json!({ "name": "tool:started", "seq": 6, "callId": "c1" }),
        json!({ "name": "tool:approval-request", "seq": 7, "approvalId": "S:a-c2", "callId": "c2" }),
        result(8, "c1", true, "a.txt"),
        json!({ "name": "tool:approval-response", "seq": 9, "approvalId": "S:a-c2", "decision": decision }),
        result(10, "c2", success, "It is so."),
        chunk("s11", "m-s11", "text", "Good.", 0),
        added(12, "m-s11", json!([{ "type": "text", "text": "Good." }])),
        complete(13, "stop"),
    ]);
    events
}

/// A run that is cancelled while a call is being written.
pub(crate) fn cancelled() -> Vec<Value> {
    let mut events = taken(1);
    events.extend(first_step().into_iter().take(6));
    events.extend([
        added(4, "m-s3", json!([{ "type": "text", "text": "I look. Änd" }])),
        complete(6, "cancelled"),
    ]);
    events
}

/// A run that fails in the middle of an answer, after one attempt was repeated.
pub(crate) fn failed() -> Vec<Value> {
    let mut events = taken(1);
    events.extend([
        json!({ "name": "llm:error", "error": "busy", "code": "rate-limit-exceeded", "recoverable": true }),
        chunk("s3", "m-s3", "text", "I lo", 0),
        json!({ "name": "llm:error", "seq": 4, "error": "gone", "code": "network", "recoverable": false }),
        json!({ "name": "run:complete", "seq": 5, "runId": "r1", "finishReason": "error", "steps": 1, "usage": null,
            "error": { "code": "network", "message": "The stream broke." } }),
    ]);
    events
}

fn chunk(step: &str, message: &str, voice: &str, content: &str, offset: u64) -> Value {
    json!({ "name": "llm:chunk", "stepId": step, "messageId": message, "chunkType": voice,
        "content": content, "offset": offset })
}

fn input(step: &str, index: u64, tool: Option<&str>, delta: &str) -> Value {
    json!({ "name": "llm:tool-input", "stepId": step, "index": index, "toolName": tool, "delta": delta })
}

fn added(seq: u64, id: &str, parts: Value) -> Value {
    json!({ "name": "message:added", "seq": seq, "messageId": id, "role": "assistant", "source": "model",
        "parts": parts })
}

fn result(seq: u64, call: &str, success: bool, text: &str) -> Value {
    json!({ "name": "llm:tool-result", "seq": seq, "callId": call, "toolName": "x", "success": success,
        "sanitized": [{ "type": "text", "text": text }] })
}

fn complete(seq: u64, reason: &str) -> Value {
    json!({ "name": "run:complete", "seq": seq, "runId": "r1", "finishReason": reason, "steps": 1,
        "usage": { "inputTokens": 5, "outputTokens": 2, "reasoningTokens": 0, "cacheReadTokens": 0,
            "cacheWriteTokens": 0, "totalTokens": 7 } })
}

pub(crate) fn all() -> [Vec<Value>; 6] {
    [with_tools(), paused(), asking("allow"), asking("deny"), cancelled(), failed()]
}

/// What a fold makes of events; the stream breaks off where they end.
pub(crate) fn heard(mut fold: UiStreamTranslator, events: &[Value]) -> Vec<UiStreamEvent> {
    let mut acts = fold.open();
    for event in events {
        acts.extend(fold.take(event));
    }
    acts.extend(
        fold.break_off(UiStreamEnd::Failed { code: "interrupted".to_owned(), message: "over".to_owned() }),
    );
    assert!(fold.is_over() && fold.take(&events[0]).is_empty());
    acts
}

/// Watched from the message on, every way in which a list can be cut short.
pub(crate) fn every_way() -> Vec<Vec<UiStreamEvent>> {
    let mut ways = Vec::new();
    for events in all() {
        for end in 1..=events.len() {
            ways.push(heard(UiStreamTranslator::awaiting("q1"), &events[..end]));
            let stored: Vec<Value> =
                events[..end].iter().filter(|it| it.get("seq").is_some()).cloned().collect();
            if !stored.is_empty() {
                ways.push(heard(UiStreamTranslator::telling(Some("a-q1".to_owned()), Vec::new()), &stored));
                ways.push(heard(
                    UiStreamTranslator::going_on("a-q1".to_owned(), vec!["S:a-c2".to_owned()], Vec::new()),
                    &stored,
                ));
            }
            for begin in 0..end {
                ways.push(heard(UiStreamTranslator::telling(None, Vec::new()), &events[begin..end]));
            }
        }
    }
    ways
}

/// What is open, while acts come that must be legal.
#[derive(Debug, Default)]
struct Open {
    step: Option<String>,
    part: Option<String>,
    parts: Vec<String>,
    writing: Vec<String>,
    calls: Vec<String>,
    edits: Vec<usize>,
}

impl Open {
    fn take(&mut self, act: &UiStreamEvent) {
        match act {
            UiStreamEvent::StepBegins { step, .. } => assert_eq!(self.step.replace(step.clone()), None),
            UiStreamEvent::StepEnds { step } => {
                assert_eq!(self.step.take().as_ref(), Some(step));
                assert!(self.part.is_none() && self.writing.is_empty());
            }
            UiStreamEvent::VoiceBegins { part, .. } => {
                assert!(self.step.is_some() && !self.parts.contains(part));
                self.parts.push(part.clone());
                assert_eq!(self.part.replace(part.clone()), None);
            }
            UiStreamEvent::Says { part, text, .. } => {
                assert!(self.part.as_ref() == Some(part) && !text.is_empty())
            }
            UiStreamEvent::VoiceEnds { part, .. } => assert_eq!(self.part.take().as_ref(), Some(part)),
            UiStreamEvent::CallBegins { call, .. } => {
                assert!(self.step.is_some() && self.part.is_none() && !self.calls.contains(call));
                self.writing.push(call.clone());
                self.calls.push(call.clone());
            }
            UiStreamEvent::CallWrites { call, .. } => assert!(self.writing.contains(call)),
            UiStreamEvent::CallReady { call, .. } | UiStreamEvent::CallDropped { call, .. } => {
                let before = self.writing.len();
                self.writing.retain(|writing| writing != call);
                assert_eq!(self.writing.len() + 1, before);
            }
            UiStreamEvent::Edit { number, state, .. } if state["state"] == "running" => {
                self.edits.push(*number)
            }
            UiStreamEvent::Edit { number, .. } => self.edits.retain(|edit| edit != number),
            _ => {}
        }
    }
}

#[test]
fn whatever_happens_every_beginning_has_its_end() {
    for acts in every_way() {
        let mut open = Open::default();
        assert!(matches!(acts[0], UiStreamEvent::Begins { .. }), "{acts:?}");
        assert!(matches!(acts[acts.len() - 1], UiStreamEvent::Ends(_)), "{acts:?}");
        for (at, act) in acts.iter().enumerate() {
            assert_eq!(at == 0, matches!(act, UiStreamEvent::Begins { .. }), "{acts:?}");
            assert_eq!(at == acts.len() - 1, matches!(act, UiStreamEvent::Ends(_)), "{acts:?}");
            open.take(act);
        }
        assert!(open.step.is_none() && open.part.is_none() && open.edits.is_empty(), "{acts:?}");
    }
}

fn said(acts: &[UiStreamEvent], of: UiTextKind) -> String {
    let said = acts.iter().filter_map(|act| match act {
        UiStreamEvent::Says { voice, text, .. } if *voice == of => Some(text.as_str()),
        _ => None,
    });
    said.collect()
}

fn names(acts: &[UiStreamEvent]) -> Vec<String> {
    let names = acts.iter().filter_map(|act| match act {
        UiStreamEvent::VoiceBegins { part, .. } => Some(part.clone()),
        UiStreamEvent::CallReady { call, arguments, .. } => Some(format!("{call} {arguments}")),
        UiStreamEvent::Result { call, outcome, .. } => Some(format!("{call} {outcome:?}")),
        _ => None,
    });
    names.collect()
}

#[test]
fn who_comes_late_hears_the_same_under_the_same_names() {
    let live = with_tools();
    let all = heard(UiStreamTranslator::awaiting("q1"), &live);
    assert_eq!(said(&all, UiTextKind::Text), "I look. ÄndThere is one.");
    assert_eq!(said(&all, UiTextKind::Reasoning), "I could look.");
    let expected =
        ["m-s3.r1", "m-s3", "s3.0 {\"path\":\".\"}", "s3.1 {}", "s3.1 Failed", "s3.0 Done", "m-s10"];
    assert_eq!(names(&all), expected);
    assert_eq!(all[0], UiStreamEvent::Begins { name: Some("a-q1".to_owned()) });
    // From the log up to every moment, and from there on live: with the answer in flight, but without arguments that
    // were being written.
    for now in 6..live.len() {
        let mut events: Vec<Value> =
            live[..now].iter().filter(|it| it.get("seq").is_some()).cloned().collect();
        let mut texts = [String::new(), String::new()];
        for event in live[..now].iter().rev().take_while(|event| event["name"] != "message:added") {
            if event["name"] == "llm:chunk" {
                let voice = usize::from(event["chunkType"] == "reasoning");
                texts[voice].insert_str(0, event["content"].as_str().unwrap());
            }
        }
        if !texts.concat().is_empty() {
            let step = if texts[1].is_empty() { "s10" } else { "s3" };
            events.push(json!({ "name": "llm:snapshot", "stepId": step, "messageId": format!("m-{step}"),
                "parts": [{ "type": "reasoning", "text": texts[1] }, { "type": "text", "text": texts[0] }] }));
        }
        events.push(json!({ "name": "queue:snapshot", "entries": [] }));
        events.extend_from_slice(&live[now..]);
        let late = heard(UiStreamTranslator::telling(Some("a-q1".to_owned()), Vec::new()), &events);
        assert_eq!(said(&late, UiTextKind::Text), said(&all, UiTextKind::Text), "at {now}");
        assert_eq!(said(&late, UiTextKind::Reasoning), said(&all, UiTextKind::Reasoning), "at {now}");
        assert_eq!((names(&late), &late[0]), (names(&all), &all[0]), "at {now}");
    }
}

#[test]
fn an_answer_that_was_paused_goes_on_in_its_sentence() {
    let acts = heard(UiStreamTranslator::awaiting("q1"), &paused());
    assert_eq!(names(&acts), ["m-s3"]);
    assert_eq!(said(&acts, UiTextKind::Text), "One two three");
    let states = acts.iter().filter_map(|act| match act {
        UiStreamEvent::Edit { kind: "compaction", number: 1, state } => state["state"].as_str(),
        _ => None,
    });
    assert_eq!(states.collect::<Vec<_>>(), ["running", "done"]);
    let stored: Vec<Value> = paused().into_iter().filter(|event| event.get("seq").is_some()).collect();
    let again = heard(UiStreamTranslator::telling(None, Vec::new()), &stored);
    assert_eq!(
        (names(&again), said(&again, UiTextKind::Text)),
        (names(&acts), said(&acts, UiTextKind::Text))
    );
}

#[test]
fn a_question_ends_the_stream_and_the_next_one_goes_on_behind_it() {
    let events = asking("allow");
    let asked = heard(UiStreamTranslator::awaiting("q1"), &events);
    let UiStreamEvent::Ends(UiStreamEnd::Asks(asking)) = &asked[asked.len() - 1] else { panic!("{asked:?}") };
    let expected =
        UiApprovalRequest { approval: "S:a-c2".to_owned(), call: "s3.1".to_owned(), tool: "read".to_owned() };
    assert_eq!(asking, &[expected]);
    assert!(names(&asked).contains(&"s3.0 Done".to_owned()), "what ran was waited for: {asked:?}");
    let going_on = || UiStreamTranslator::going_on("a-q1".to_owned(), vec!["S:a-c2".to_owned()], Vec::new());
    let rest = heard(going_on(), &events);
    assert_eq!(rest[0], UiStreamEvent::Begins { name: Some("a-q1".to_owned()) });
    assert_eq!(rest[1], UiStreamEvent::StepBegins { step: "s3".to_owned(), again: true });
    assert_eq!(names(&rest), ["s3.0 Done", "s3.1 Done", "m-s11"]);
    // It was answered elsewhere while nobody listened: whoever comes then hears the answer, not the question.
    let later =
        heard(UiStreamTranslator::telling(Some("a-q1".to_owned()), vec!["S:a-c2".to_owned()]), &events);
    assert!(
        !later.iter().any(|act| matches!(act, UiStreamEvent::Asks { .. }))
            && names(&later).contains(&"m-s11".to_owned())
    );
    let denied = heard(going_on(), &self::asking("deny"));
    assert_eq!(names(&denied), ["s3.0 Done", "s3.1 Denied", "m-s11"]);
}

#[test]
fn a_call_that_was_never_finished_is_dropped() {
    let acts = heard(UiStreamTranslator::awaiting("q1"), &cancelled());
    let dropped = UiStreamEvent::CallDropped {
        call: "s3.0".to_owned(),
        tool: "ls".to_owned(),
        arguments: "{\"path\":".to_owned(),
    };
    assert!(acts.contains(&dropped), "{acts:?}");
    assert!(
        matches!(&acts[acts.len() - 1], UiStreamEvent::Ends(UiStreamEnd::Complete { run }) if run["finishReason"] == "cancelled")
    );
}

#[test]
fn a_failure_is_said_last() {
    let acts = heard(UiStreamTranslator::awaiting("q1"), &failed());
    let end = UiStreamEnd::Failed { code: "network".to_owned(), message: "The stream broke.".to_owned() };
    assert_eq!(acts[acts.len() - 1], UiStreamEvent::Ends(end));
    let notices = acts.iter().filter(|act| matches!(act, UiStreamEvent::Notice(_))).count();
    assert_eq!(notices, 2);
}

#[test]
fn a_message_that_waits_hears_nothing_of_the_answer_before_it() {
    let mut events = with_tools();
    events.truncate(events.len() - 1);
    events.insert(3, json!({ "name": "message:queued", "id": "q2", "position": 1 }));
    let before = heard(UiStreamTranslator::awaiting("q2"), &events);
    assert!(before.iter().all(|act| matches!(
        act,
        UiStreamEvent::Begins { .. } | UiStreamEvent::Queue { .. } | UiStreamEvent::Ends(_)
    )));
    assert!(
        before.contains(&UiStreamEvent::Queue { ids: vec!["q1".to_owned(), "q2".to_owned()], own: Some(2) })
    );
    events.extend([
        json!({ "name": "message:dequeued", "seq": 13, "ids": ["q2"] }),
        chunk("s14", "m-s14", "text", "And this.", 0),
        complete(15, "stop"),
    ]);
    assert_eq!(said(&heard(UiStreamTranslator::awaiting("q2"), &events), UiTextKind::Text), "And this.");
    events.truncate(8);
    events.push(json!({ "name": "message:removed", "id": "q2" }));
    let removed = heard(UiStreamTranslator::awaiting("q2"), &events);
    assert!(
        matches!(&removed[removed.len() - 1], UiStreamEvent::Ends(UiStreamEnd::Failed { code, .. }) if code == "interrupted")
    );
}
