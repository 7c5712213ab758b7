//! Lists of events as watchers are told them, and what is heard of them.

use longhaul::SessionEvent;
use longhaul::api_events::ApiEvent;
use longhaul_core::ids::Seq;
use serde_json::{Value, json};

use super::*;

fn passing(name: &'static str, payload: Value) -> ApiEvent {
    ApiEvent::passing(name, &"S".into(), payload)
}

fn stored(seq: Seq, name: &'static str, payload: Value) -> ApiEvent {
    ApiEvent { seq: Some(seq), ..passing(name, payload) }
}

/// The events of the log among `events`.
fn only_stored(events: &[ApiEvent]) -> Vec<ApiEvent> {
    events.iter().filter(|event| event.seq.is_some()).cloned().collect()
}

/// A run of two steps: reasoning, text and two calls, one of which fails; then the answer.
pub(crate) fn with_tools() -> Vec<ApiEvent> {
    let mut events = taken(1);
    events.extend(first_step());
    events.extend([
        stored(6, "tool:started", json!({ "callId": "c1" })),
        passing("tool:output", json!({ "callId": "c1", "text": "a.txt", "offset": 0 })),
        stored(7, "tool:started", json!({ "callId": "c2" })),
        result(8, "c2", false, "[Not found.]"),
        result(9, "c1", true, "a.txt"),
        chunk("s10", "m-s10", "text", "There is ", 0),
        chunk("s10", "m-s10", "text", "one.", 9),
        chunk("s10", "m-s10", "text", "", 13),
        added(11, "m-s10", json!([{ "type": "text", "text": "There is one." }])),
        stored(12, "llm:response", json!({ "stepId": "s10", "content": "There is one." })),
        usage(12, 120),
        complete(13, "stop"),
    ]);
    events
}

fn taken(seq: u64) -> Vec<ApiEvent> {
    vec![
        passing("queue:snapshot", json!({ "entries": [] })),
        passing("message:queued", json!({ "id": "q1", "position": 1 })),
        stored(seq, "run:started", json!({ "runId": "r1" })),
        stored(seq, "llm:thinking", json!({ "runId": "r1" })),
        stored(seq + 1, "message:dequeued", json!({ "ids": ["q1"], "count": 1, "coalesced": false })),
        stored(
            seq + 1,
            "message:added",
            json!({ "messageId": "q1", "role": "user", "source": "typed",
                "parts": [{ "type": "text", "text": "Look." }] }),
        ),
    ]
}

/// Reasoning, text, and two calls that are written bit by bit.
fn first_step() -> Vec<ApiEvent> {
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
        stored(
            4,
            "llm:tool-call",
            json!({ "callId": "c1", "toolName": "ls", "stepId": "s3", "args": {}, "argsText": "" }),
        ),
        usage(5, 100),
    ]
}

/// An answer that is paused in its text, goes on after a compaction, and ends.
pub(crate) fn paused() -> Vec<ApiEvent> {
    let mut events = taken(1);
    events.extend([
        chunk("s3", "m-s3", "text", "One two", 0),
        stored(
            4,
            "message:added",
            json!({ "messageId": "m-s3", "role": "assistant", "source": "model",
                "interrupted": "paused", "paused": true, "parts": [{ "type": "text", "text": "One two" }] }),
        ),
        passing(
            "context:compacting",
            json!({ "strategy": "adaptive", "reason": "token_limit", "trigger": 9 }),
        ),
        stored(
            6,
            "context:compressed",
            json!({ "compactionId": "e6", "strategy": "adaptive", "reason": "token_limit",
                "originalTokens": 9, "compressedTokens": 4, "originalMessages": 5, "compressedMessages": 2,
                "costNote": "3 messages replaced by a summary" }),
        ),
        chunk("s7", "m-s3", "text", " three", 7),
        stored(
            8,
            "message:added",
            json!({ "messageId": "m-s7", "continues": "m-s3", "role": "assistant", "source": "model",
                "parts": [{ "type": "text", "text": " three" }] }),
        ),
        complete(9, "stop"),
    ]);
    events
}

/// A call that asks first, and is answered.
pub(crate) fn asking(decision: &str) -> Vec<ApiEvent> {
    let mut events = taken(1);
    events.extend(first_step());
    let success = decision == "allow";
    events.extend([
        stored(6, "tool:started", json!({ "callId": "c1" })),
        stored(7, "tool:approval-request", json!({ "approvalId": "S:a-c2", "callId": "c2", "args": {} })),
        result(8, "c1", true, "a.txt"),
        stored(9, "tool:approval-response", json!({ "approvalId": "S:a-c2", "decision": decision })),
        result(10, "c2", success, "It is so."),
        chunk("s11", "m-s11", "text", "Good.", 0),
        added(12, "m-s11", json!([{ "type": "text", "text": "Good." }])),
        complete(13, "stop"),
    ]);
    events
}

/// A run that is cancelled while a call is being written.
pub(crate) fn cancelled() -> Vec<ApiEvent> {
    let mut events = taken(1);
    events.extend(first_step().into_iter().take(6));
    events.extend([
        added(4, "m-s3", json!([{ "type": "text", "text": "I look. Änd" }])),
        complete(6, "cancelled"),
    ]);
    events
}

/// A run that fails in the middle of an answer, after one attempt was repeated.
pub(crate) fn failed() -> Vec<ApiEvent> {
    let mut events = taken(1);
    events.extend([
        passing("llm:error", json!({ "error": "busy", "code": "rate-limit-exceeded", "recoverable": true })),
        chunk("s3", "m-s3", "text", "I lo", 0),
        stored(4, "llm:error", json!({ "error": "gone", "code": "network", "recoverable": false })),
        stored(
            5,
            "run:complete",
            json!({ "runId": "r1", "finishReason": "error", "steps": 1, "usage": null,
                "error": { "code": "network", "message": "The stream broke." } }),
        ),
    ]);
    events
}

fn chunk(step: &str, message: &str, voice: &str, content: &str, offset: u64) -> ApiEvent {
    passing(
        "llm:chunk",
        json!({ "stepId": step, "messageId": message, "chunkType": voice, "content": content, "offset": offset }),
    )
}

fn input(step: &str, index: u64, tool: Option<&str>, delta: &str) -> ApiEvent {
    passing("llm:tool-input", json!({ "stepId": step, "index": index, "toolName": tool, "delta": delta }))
}

fn added(seq: u64, id: &str, parts: Value) -> ApiEvent {
    stored(
        seq,
        "message:added",
        json!({ "messageId": id, "role": "assistant", "source": "model", "parts": parts }),
    )
}

fn result(seq: u64, call: &str, success: bool, text: &str) -> ApiEvent {
    let status = if success { "completed" } else { "error" };
    stored(
        seq,
        "llm:tool-result",
        json!({ "callId": call, "toolName": "x", "success": success, "status": status, "truncated": false,
            "sanitized": [{ "type": "text", "text": text }] }),
    )
}

fn usage(seq: u64, total: u64) -> ApiEvent {
    let window = json!({ "total": total, "window": 1_000, "outputReserve": 100, "expectedError": 0.1, "compactionCount": 0 });
    stored(seq, "context:usage", window)
}

fn complete(seq: u64, reason: &str) -> ApiEvent {
    stored(
        seq,
        "run:complete",
        json!({ "runId": "r1", "finishReason": reason, "steps": 1,
        "usage": { "inputTokens": 5, "outputTokens": 2, "reasoningTokens": 0, "cacheReadTokens": 0,
            "cacheWriteTokens": 0, "totalTokens": 7 } }),
    )
}

pub(crate) fn all() -> [Vec<ApiEvent>; 6] {
    [with_tools(), paused(), asking("allow"), asking("deny"), cancelled(), failed()]
}

/// What a fold makes of events; the stream breaks off where they end.
pub(crate) fn heard(mut fold: UiStreamTranslator, events: &[ApiEvent]) -> Vec<UiStreamEvent> {
    let mut acts = fold.open();
    for event in events {
        let typed = SessionEvent::from_announcement(event);
        assert!(!matches!(typed, Some(SessionEvent::Other { .. })), "{event:?} is no event of the API");
        acts.extend(fold.take(event));
    }
    let message = "over".to_owned();
    acts.extend(fold.break_off(UiStreamEnd::Failed { code: ErrorCode::Interrupted, message }));
    assert!(fold.is_over() && fold.take(&events[0]).is_empty());
    acts
}

/// Watched from the message on, every way in which a list can be cut short.
pub(crate) fn every_way() -> Vec<Vec<UiStreamEvent>> {
    let mut ways = Vec::new();
    for events in all() {
        for end in 1..=events.len() {
            ways.push(heard(UiStreamTranslator::awaiting("q1"), &events[..end]));
            let stored = only_stored(&events[..end]);
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
            UiStreamEvent::Edit { number, state: UiEditState::Running, .. } => self.edits.push(*number),
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
        let mut events = only_stored(&live[..now]);
        let mut texts = [String::new(), String::new()];
        for event in live[..now].iter().rev().take_while(|event| event.name != "message:added") {
            if event.name == "llm:chunk" {
                let voice = usize::from(event.text("chunkType") == "reasoning");
                texts[voice].insert_str(0, event.text("content"));
            }
        }
        if !texts.concat().is_empty() {
            let step = if texts[1].is_empty() { "s10" } else { "s3" };
            events.push(passing(
                "llm:snapshot",
                json!({ "stepId": step, "messageId": format!("m-{step}"),
                "parts": [{ "type": "reasoning", "text": texts[1] }, { "type": "text", "text": texts[0] }] }),
            ));
        }
        events.push(passing("queue:snapshot", json!({ "entries": [] })));
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
        UiStreamEvent::Edit { kind: EditKind::Compaction, number: 1, state, .. } => Some(*state),
        _ => None,
    });
    let done = UiEditState::Done { original_tokens: 9, compressed_tokens: 4 };
    assert_eq!(states.collect::<Vec<_>>(), [UiEditState::Running, done]);
    let again = heard(UiStreamTranslator::telling(None, Vec::new()), &only_stored(&paused()));
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
        matches!(&acts[acts.len() - 1], UiStreamEvent::Ends(UiStreamEnd::Complete(run)) if run.end == RunEnd::Cancelled)
    );
}

#[test]
fn a_failure_is_said_last() {
    let acts = heard(UiStreamTranslator::awaiting("q1"), &failed());
    let end = UiStreamEnd::Failed { code: ErrorCode::Network, message: "The stream broke.".to_owned() };
    assert_eq!(acts[acts.len() - 1], UiStreamEvent::Ends(end));
    let notices = acts.iter().filter(|act| matches!(act, UiStreamEvent::Notice(_))).count();
    assert_eq!(notices, 2);
}

#[test]
fn a_message_that_waits_hears_nothing_of_the_answer_before_it() {
    let mut events = with_tools();
    events.truncate(events.len() - 1);
    events.insert(3, passing("message:queued", json!({ "id": "q2", "position": 1 })));
    let before = heard(UiStreamTranslator::awaiting("q2"), &events);
    assert!(before.iter().all(|act| matches!(
        act,
        UiStreamEvent::Begins { .. } | UiStreamEvent::Queue { .. } | UiStreamEvent::Ends(_)
    )));
    assert!(before.contains(&UiStreamEvent::Queue { ids: vec!["q1".into(), "q2".into()], own: Some(2) }));
    events.extend([
        stored(13, "message:dequeued", json!({ "ids": ["q2"] })),
        chunk("s14", "m-s14", "text", "And this.", 0),
        complete(15, "stop"),
    ]);
    assert_eq!(said(&heard(UiStreamTranslator::awaiting("q2"), &events), UiTextKind::Text), "And this.");
    events.truncate(8);
    events.push(passing("message:removed", json!({ "id": "q2" })));
    let removed = heard(UiStreamTranslator::awaiting("q2"), &events);
    assert!(matches!(
        &removed[removed.len() - 1],
        UiStreamEvent::Ends(UiStreamEnd::Failed { code: ErrorCode::Interrupted, .. })
    ));
}

#[test]
fn parts_without_text_are_named_by_their_type() {
    let media = |kind: &str, media_type: &str| json!({ "type": kind, "mediaType": media_type, "blob": { "hash": "h", "bytes": 1 } });
    let parts =
        json!([{ "type": "text", "text": "See:" }, media("image", "image/png"), media("file", "text/csv")]);
    let parts: Vec<Part> = serde_json::from_value(parts).unwrap();
    assert_eq!(text_of(&parts), "See:\n[image: image/png]\n[file: text/csv]");
}
