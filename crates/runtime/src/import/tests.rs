mod formats;
mod recorded;

use std::collections::HashSet;
use std::path::PathBuf;

use longhaul_core::event::{EditKind, Event, FORMAT, NoteReason, PartialAnswerReason, ViewOperation};
use longhaul_core::history::{History, ViewItemKind, request_messages};
use longhaul_core::message::{Message, Part, RawJson, Role, ToolResult};
use proptest::prelude::*;

use super::*;
use crate::export::{SessionMeta, jsonl};

fn one(text: &str) -> ImportedSession {
    let mut import = import(text.as_bytes(), 42).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(import.sessions.len(), 1);
    let session = import.sessions.remove(0);
    assert_valid(&session);
    session
}

/// Checks the properties of every imported log.
fn assert_valid(session: &ImportedSession) {
    let mut open: Vec<&str> = Vec::new();
    let mut ids = HashSet::new();
    let mut last_at = 0;
    assert!(matches!(session.events[0].1, EventBody::SessionStarted { imported_from: Some(_), .. }));
    for (at, body) in &session.events {
        assert!(*at >= last_at, "time runs backwards");
        last_at = *at;
        match body {
            EventBody::ToolStarted { call_id } => assert!(open.contains(&call_id.as_str())),
            EventBody::ToolFinished { result } => {
                let call = open.iter().position(|call| *call == result.call_id.as_str());
                open.remove(call.expect("a result follows its call, once"));
            }
            EventBody::StepFinished { .. } | EventBody::StepFailed { .. } => {}
            _ => assert!(open.is_empty(), "results of a step stand together: {body:?}"),
        }
        if let Some(message) = message(body) {
            assert!(ids.insert(message.id.clone()), "{} is used twice", message.id);
            if !matches!(body, EventBody::AssistantAdded { cut: Some(PartialAnswerReason::Lost), .. }) {
                for call in message.tool_calls() {
                    assert!(!call.call_id.as_str().is_empty());
                    open.push(call.call_id.as_str());
                }
            }
        }
    }
    assert!(open.is_empty(), "calls without results: {open:?}");
}

fn message(body: &EventBody) -> Option<&Message> {
    match body {
        EventBody::MessagesTaken { message, .. }
        | EventBody::NoteAdded { message, .. }
        | EventBody::AssistantAdded { message, .. } => Some(message),
        _ => None,
    }
}

fn results(session: &ImportedSession) -> Vec<&ToolResult> {
    let finished = session.events.iter().filter_map(|(_, body)| match body {
        EventBody::ToolFinished { result } => Some(result),
        _ => None,
    });
    finished.collect()
}

/// One line for each event.
fn outline(session: &ImportedSession) -> String {
    let line = |body: &EventBody| match body {
        EventBody::MessagesTaken { message, .. } => format!("user {}: {}", message.id, message.text()),
        EventBody::NoteAdded { message, .. } => format!("note {}: {}", message.id, message.text()),
        EventBody::AssistantAdded { message, finish, cut, step_id } => {
            let calls: Vec<_> =
                message.tool_calls().map(|c| format!("{}={}({})", c.call_id, c.name, c.arguments)).collect();
            format!("assistant {} {step_id} {finish:?} {cut:?}: {} {calls:?}", message.id, message.text())
        }
        EventBody::StepFinished { usage, .. } => {
            format!("  usage {:?}", usage.as_ref().map(|u| (u.input_tokens, u.output_tokens)))
        }
        EventBody::ToolStarted { call_id } => format!("  start {call_id}"),
        EventBody::ToolFinished { result } => {
            let text: String = result.content.iter().filter_map(Part::as_text).collect();
            format!("  result {} {:?}: {text}", result.call_id, result.status)
        }
        EventBody::SessionStarted { title, imported_from, .. } => {
            format!("session {title:?} from {imported_from:?}")
        }
        EventBody::ViewEdited(edit) => format!(
            "compaction {} {:?}: {} -> {} tokens, {} -> {} messages",
            edit.id,
            edit.ops[0].range(),
            edit.original_tokens,
            edit.compressed_tokens,
            edit.original_messages,
            edit.compressed_messages
        ),
        other => format!("{other:?}"),
    };
    let mut out: Vec<String> = session.events.iter().map(|(_, body)| line(body)).collect();
    out.extend(session.warnings.iter().map(|warning| format!("! {warning}")));
    out.join("\n")
}

#[test]
fn a_list_of_messages() {
    let session = one(r#"{"model":"m-1","messages":[
        {"role":"developer","content":"Be brief."},
        {"role":"user","content":"Read two files\nplease"},
        {"role":"assistant","content":"Now.","tool_calls":[
            {"id":"x","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\",  \"n\": 1.0}"}},
            {"id":"y","type":"function","function":{"name":"read","arguments":{"path":"b"}}}]},
        {"role":"tool","tool_call_id":"y","content":"B"},
        {"role":"user","content":"faster"},
        {"role":"tool","tool_call_id":"x","content":[{"type":"text","text":"A"}]},
        {"role":"system","content":"Remember the time."},
        {"role":"assistant","content":null,"function_call":{"name":"now","arguments":"{}"}},
        {"role":"function","name":"now","content":"noon"},
        {"role":"critic","content":"meh"}
      ],
      "response":{"choices":[{"finish_reason":"length","message":{"role":"assistant","content":"It is"}}],
        "usage":{"prompt_tokens":90,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":64}}}}"#);
    assert_eq!(session.system_prompt.as_deref(), Some("Be brief."));
    let is_system = |body: &EventBody| matches!(body, EventBody::NoteAdded { why: NoteReason::SystemMessage, message } if message.text() == "Remember the time.");
    assert_eq!(session.events.iter().filter(|(_, body)| is_system(body)).count(), 1);
    insta::assert_snapshot!(outline(&session), @r#"
    session Some("Read two files") from Some("openai-messages")
    user m2: Read two files
    please
    assistant m3 s1 ToolCalls None: Now. ["c1=read({\"path\":\"a\",  \"n\": 1.0})", "c2=read({\"path\":\"b\"})"]
      usage None
      start c2
      result c2 Completed: B
      start c1
      result c1 Completed: A
    user m9: faster
    note m10: Remember the time.
    assistant m11 s2 ToolCalls None:  ["c3=now({})"]
      usage None
      start c3
      result c3 Completed: noon
    note m15: meh
    assistant m16 s3 Length None: It is []
      usage Some((90, 2))
    ! message 7: a system message in the middle was kept as a note
    ! message 10: a message of unknown role `critic` was kept as a note
    "#);
}

#[test]
fn calls_and_results_that_do_not_match_are_repaired() {
    let session = one(r#"[
        {"role":"tool","tool_call_id":"gone","name":"ls","content":"a b"},
        {"role":"user","content":""},
        {"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"ls","arguments":"{}"}}]},
        {"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"ls","arguments":"not json"}}]},
        {"role":"tool","tool_call_id":"1","content":"second"},
        {"role":"tool","tool_call_id":"1","content":"first"},
        {"role":"tool","tool_call_id":"1","content":"third"},
        {"role":"assistant","tool_calls":[{"id":"2","type":"function","function":{"name":"rm","arguments":"{}"}}]}
      ]"#);
    insta::assert_snapshot!(outline(&session), @r#"
    session None from Some("openai-messages")
    note m2: [Result of ls; its call is not in the recording.]
    a b
    assistant m3 s1 ToolCalls None:  ["c1=ls({})"]
      usage None
      start c1
      result c1 Completed: first
    assistant m7 s2 ToolCalls None:  ["c2=ls(not json)"]
      usage None
      start c2
      result c2 Completed: second
    note m11: [Result of a tool; its call is not in the recording.]
    third
    assistant m12 s3 ToolCalls None:  ["c3=rm({})"]
      usage None
      result c3 Interrupted: [No result of this call was recorded.]
    ! message 1: a result without its call was kept as a note
    ! message 2: an empty user message was left out
    ! message 7: a result without its call was kept as a note
    ! message 8: a call of `rm` has no result in the file; one that says so was added
    "#);
}

#[test]
fn half_a_character_does_not_take_the_text_with_it() {
    let session = one(r#"[{"role":"user","content":"\ud800 lone \ud83d\ude00"},
        {"role":"assistant","content":[{"type":"text","text":"a \udfff b"}]}]"#);
    insta::assert_snapshot!(outline(&session), @r#"
    session Some("� lone 😀") from Some("openai-messages")
    user m2: � lone 😀
    assistant m3 s1 Stop None: a � b []
      usage None
    ! escapes of half a character: 2 replaced by U+FFFD
    "#);
}

#[test]
fn media_and_reasoning_keep_their_bytes() {
    let session = one(r#"[
        {"role":"user","content":[
            {"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAIAAAADCAYAAAC56t6BAAAAC0lEQVR4nGNgQAcAABIAAW2zTY8AAAAASUVORK5CYII="}},
            {"type":"image_url","image_url":"https://example.org/cat.png"},
            {"type":"file","file":{"filename":"a.txt","file_data":"data:text/plain;base64,aGk"}},
            {"type":"file","file":{"filename":"b.txt","file_data":"data:text/plain;base64,%%%"}},
            {"type":"hologram","depth":3}]},
        {"role":"assistant","content":[
            {"type":"thinking", "thinking":"Hm.\u00e9",  "signature":"c2ln"},
            {"type":"thinking","thinking":"","signature":""},
            {"type":"redacted_thinking","data":"eA=="},
            {"type":"server_tool_use", "n": 1.00},
            {"type":"text","text":"A cat."}]}
      ]"#);
    let (_, EventBody::MessagesTaken { message: user, .. }) = &session.events[1] else {
        panic!("a user message")
    };
    let Part::Image(image) = &user.parts[0] else { panic!("an image") };
    assert_eq!((image.media_type.as_str(), image.width, image.height), ("image/png", Some(2), Some(3)));
    let Part::File(file) = &user.parts[2] else { panic!("a file") };
    assert_eq!((file.name.as_deref(), file.blob.bytes), (Some("a.txt"), 2));
    assert_eq!(session.blobs.len(), 2);
    assert_eq!(session.blobs[1], (file.blob.clone(), Bytes::from_static(b"hi")));
    assert_eq!(file.blob.hash, blake3::hash(b"hi").to_hex().to_string());
    let (_, EventBody::AssistantAdded { message: said, .. }) = &session.events[2] else {
        panic!("an answer")
    };
    let native = |part: &Part| match part {
        Part::Reasoning(reasoning) => reasoning.native.clone(),
        Part::Opaque(opaque) => Some(opaque.native.clone()),
        _ => None,
    };
    let natives: Vec<Option<RawJson>> = said.parts.iter().map(native).collect();
    let bytes = |text: &str| Some(RawJson(text.to_owned()));
    assert_eq!(
        natives,
        [
            bytes(r#"{"type":"thinking", "thinking":"Hm.\u00e9",  "signature":"c2ln"}"#),
            bytes(r#"{"type":"redacted_thinking","data":"eA=="}"#),
            bytes(r#"{"type":"server_tool_use", "n": 1.00}"#),
            None
        ]
    );
    insta::assert_snapshot!(outline(&session), @r#"
    session Some("[content: https://example.org/cat.png]") from Some("openai-messages")
    user m2: [content: https://example.org/cat.png][unreadable content: text/plain][unsupported content: hologram]
    assistant m3 s1 Stop None: A cat. []
      usage None
    ! message 1: content that the file only links to was replaced by its address
    ! message 1: content of type text/plain is not base64 and was left out
    ! message 1: content of unknown kind `hologram` was left out
    "#);
}

#[test]
fn a_pi_session() {
    let session = one(r#"{"type":"session","id":"s","timestamp":"2025-12-08T22:41:00.000Z","cwd":"/w"}
{"type":"message","timestamp":"2025-12-08T22:41:01.000Z","message":{"role":"user","content":"Fix it"}}
{"type":"message","timestamp":"2025-12-08T22:41:02.000Z","message":{"role":"assistant","provider":"anthropic","api":"anthropic-messages","model":"m","stopReason":"toolUse","usage":{"input":3,"output":5,"cacheRead":100,"cacheWrite":20,"totalTokens":128},"content":[{"type":"toolCall","id":"t1","name":"bash","arguments":{"command": "ls"}}]}}
{"type":"message","timestamp":"2025-12-08T22:41:03.000Z","message":{"role":"toolResult","toolCallId":"t1","toolName":"bash","isError":true,"content":[{"type":"text","text":"denied"}]}}
{"type":"thinking_level_change","timestamp":"2025-12-08T22:41:03.500Z","thinkingLevel":"low"}
{"type":"message","timestamp":"2025-12-08T22:41:04.000Z","message":{"role":"user","content":"And now?"}}
{"type":"compaction","timestamp":"2025-12-08T22:41:05.000Z","summary":"It was denied.","firstKeptEntryIndex":5,"tokensBefore":9000}
{"type":"message","timestamp":"2025-12-08T22:41:06.000Z","message":{"role":"assistant","stopReason":"aborted","usage":{"input":40,"output":1},"content":[{"type":"text","text":"Try"},{"type":"toolCall","id":"t2","name":"bash","arguments":{},"partialJson":"{\"com"}]}}
{"type":"message","timestamp":"2025-12-08T22:41:07.000Z","message":{"role":"assistant","stopReason":"error","errorMessage":"429 slow down","usage":{"input":0,"output":0},"content":[]}}
{"type":"message","timestamp":"2025-12-08T22:41:08.000Z","message":{"role":"bashExecution","command":"ls","output":"a\nb\n","exitCode":2,"cancelled":false}}
{"type":"compaction","timestamp":"2025-12-08T22:41:09.000Z","summary":"Nothing known.","tokensBefore":1}
{"type":"message","timest"#);
    assert_eq!(session.events[1].0, 1_765_233_661_000);
    insta::assert_snapshot!(outline(&session), @r#"
    session Some("Fix it") from Some("pi")
    user m2: Fix it
    assistant m3 s1 ToolCalls None:  ["c1=bash({\"command\": \"ls\"})"]
      usage Some((123, 5))
      start c1
      result c1 Error: denied
    user m7: And now?
    compaction e1 LogRange { from: 2, to: 6 }: 9000 -> 40 tokens, 4 -> 2 messages
    assistant m9 s2 Other Some(Cancelled): Try []
      usage Some((40, 1))
    StepFailed { step_id: StepId("s3"), code: RateLimitExceeded, message: "429 slow down", used_tokens: None, limit_tokens: None, usage: None, is_permanent: false }
    note m12: The user ran `ls` (exit status 2):
    a
    b
    note m13: [SUMMARY]
    Nothing known.
    ! entries of kind `thinking_level_change` have no counterpart here: 1 left out
    ! line 8: a call of `bash` that was cut off while it was written was left out
    ! line 11: a compaction that does not say what it covers was kept as a note
    ! line 12: the last line is cut off and was left out
    "#);
}

#[test]
fn of_a_pi_tree_the_newest_branch_is_the_conversation() {
    let session = one(r#"{"type":"session","version":3,"id":"s"}
{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"one"}}
{"type":"message","id":"b","parentId":"a","message":{"role":"user","content":"wrong turn"}}
{"type":"branch_summary","id":"c","parentId":"a","summary":"Went wrong."}
{"type":"message","id":"d","parentId":"c","message":{"role":"user","content":"two"}}
{"type":"compaction","id":"e","parentId":"d","summary":"So far.","firstKeptEntryId":"d","tokensBefore":7}
{"type":"session_info","id":"f","parentId":"e","name":"Two tries"}
{"type":"message","id":"g","parentId":"f","message":{"role":"user","content":"three"}}"#);
    insta::assert_snapshot!(outline(&session), @r#"
    session Some("Two tries") from Some("pi")
    user m2: one
    note m3: [Summary of another branch]
    Went wrong.
    user m4: two
    compaction e1 LogRange { from: 2, to: 3 }: 7 -> 0 tokens, 3 -> 2 messages
    user m6: three
    ! messages on other branches of the session: 1 left out
    "#);
}

#[test]
fn what_is_no_conversation_is_refused() {
    let refuse = |text: &str| import(text.as_bytes(), 0).expect_err("should be refused").to_string();
    insta::assert_snapshot!(refuse("  "), @"the file holds no conversation");
    insta::assert_snapshot!(refuse("hello"), @"unknown format: the file is not JSON");
    insta::assert_snapshot!(refuse("[]"), @"the file holds no conversation");
    insta::assert_snapshot!(refuse("[1,2]"), @"message 1: invalid type: integer `1`, expected a message");
    insta::assert_snapshot!(refuse("[{\"role\":\"user\""), @"unknown format: not a list of messages: EOF while parsing an object at line 1 column 15");
    insta::assert_snapshot!(refuse("{\"a\":1}"), @"unknown format: neither an export, a session, a list of messages, a trajectory, a log nor a tape");
    insta::assert_snapshot!(refuse("[{\"role\":\"user\",\"content\":\"a\"},{\"role\":5}]"), @"message 2: invalid type: integer `5`, expected a string");
    insta::assert_snapshot!(refuse("[{\"traj\":[{\"role\":\"user\",\"content\":\"a\"}]},{\"traj\":[{}]}]"), @"run 2, message 1: missing field `role`");
    insta::assert_snapshot!(refuse("{\"type\":\"session\"}\nnot json\n{\"type\":\"label\"}"), @"line 2: expected ident");
    insta::assert_snapshot!(refuse("{\"type\":\"session\"}"), @"the file holds no conversation");
    let deep = "[".repeat(200_000);
    assert!(import(deep.as_bytes(), 0).is_err());
}

/// The recorded material, or `None` (said aloud) where it is not at hand.
fn fixture(name: &str) -> Option<Vec<u8>> {
    let path: PathBuf = [concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures/trajectories"), name]
        .iter()
        .collect();
    match std::fs::read(&path) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            let required = std::env::var_os("LONGHAUL_REQUIRE_FIXTURES").is_some_and(|value| value == "1");
            assert!(!required, "{}: {error}", path.display());
            println!("skipped: ../shared/fixtures/trajectories/{name} is not here");
            None
        }
    }
}

#[test]
fn the_recorded_pi_session_is_imported_whole() {
    let Some(bytes) = fixture("badlogic__pi-mono/before-compaction.jsonl") else { return };
    let import = import(&bytes, 0).expect("a pi session");
    assert_eq!(import.format, ImportFormat::Pi);
    let session = &import.sessions[0];
    assert_valid(session);
    let count = |fits: fn(&EventBody) -> bool| session.events.iter().filter(|(_, body)| fits(body)).count();
    let users = count(|body| matches!(body, EventBody::MessagesTaken { .. }));
    let notes = count(|body| matches!(body, EventBody::NoteAdded { .. }));
    let answers = count(|body| matches!(body, EventBody::AssistantAdded { .. }));
    let failures = count(|body| matches!(body, EventBody::StepFailed { .. }));
    let recorded = count(|body| matches!(body, EventBody::ToolStarted { .. }));
    assert_eq!((users, notes, answers, failures, recorded), (55, 3, 483, 1, 448));
    assert_eq!(users + notes + answers + failures + recorded, 990);

    let made_up = results(session).len() - recorded;
    let told = |text: &str| session.warnings.iter().filter(|warning| warning.message.contains(text)).count();
    assert_eq!((made_up, told("has no result in the file")), (3, 3));
    assert_eq!(told("cut off while it was written"), 3);

    let proven =
        session.events.iter().filter_map(|(_, body)| message(body)).flat_map(|message| &message.parts);
    let mut signed = 0;
    for part in proven {
        if let Part::Reasoning(reasoning) = part
            && let Some(native) = &reasoning.native
        {
            signed += 1;
            assert!(
                memchr(&bytes, native.as_str().as_bytes()),
                "reasoning is not byte for byte that of the file"
            );
        }
    }
    assert!(signed > 40, "{signed} signed blocks");

    let used = session.events.iter().filter_map(|(_, body)| match body {
        EventBody::StepFinished { usage, .. } => usage.as_ref().map(|usage| usage.input_tokens),
        _ => None,
    });
    assert_eq!(used.max(), Some(184_915));
}

fn memchr(haystack: &[u8], needle: &[u8]) -> bool {
    std::str::from_utf8(haystack).is_ok_and(|text| text.contains(std::str::from_utf8(needle).unwrap_or("\0")))
}

#[test]
fn both_recorded_compactions_are_found() {
    let Some(bytes) = fixture("badlogic__pi-mono/before-compaction.jsonl") else { return };
    let session = import(&bytes, 0).expect("a pi session").sessions.remove(0);
    let edits: Vec<_> = session
        .events
        .iter()
        .filter_map(|(_, body)| match body {
            EventBody::ViewEdited(edit) => Some(edit),
            _ => None,
        })
        .collect();
    let before: Vec<u64> = edits.iter().map(|edit| edit.original_tokens).collect();
    assert_eq!(before, [175_004, 185_014]);
    for edit in edits {
        assert_eq!(edit.kind, EditKind::Compaction);
        assert!(edit.compressed_tokens > 0 && edit.compressed_tokens < edit.original_tokens / 2);
        assert!(edit.compressed_messages < edit.original_messages);
        let [ViewOperation::Replace { range, parts, summary: true }] = edit.ops.as_slice() else {
            panic!("one summary")
        };
        assert!(parts[0].as_text().is_some_and(|text| text.starts_with("[SUMMARY]\n# Context Checkpoint")));
        let index = usize::try_from(range.to).expect("small");
        let (_, first_kept) = &session.events[index];
        assert!(message(first_kept).is_some_and(|message| message.role == Role::User), "{first_kept:?}");
    }
}

/// The view after the whole recording: the second summary and the messages behind it.
#[test]
fn the_imported_log_folds_to_the_view_of_the_recording() {
    let Some(bytes) = fixture("badlogic__pi-mono/before-compaction.jsonl") else { return };
    let session = import(&bytes, 0).expect("a pi session").sessions.remove(0);
    let history = History::fold(&stored(&session)).expect("positions follow each other");
    assert_eq!((history.compactions(), history.open_calls().len()), (2, 0));
    let first = history.view().first().expect("a view");
    assert!(matches!(first.kind, ViewItemKind::Summary(_)), "{:?}", first.kind);
    assert_eq!(history.view().iter().filter(|item| matches!(item.kind, ViewItemKind::Summary(_))).count(), 1);
    let request = request_messages(history.view());
    let called: HashSet<&str> =
        request.iter().flat_map(Message::tool_calls).map(|call| call.call_id.as_str()).collect();
    let answered = request.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
        Part::ToolResult(result) => Some(result.call_id.as_str()),
        _ => None,
    });
    assert_eq!(called, answered.collect());
}

#[test]
fn the_recorded_pi_session_survives_our_own_format() {
    let Some(bytes) = fixture("badlogic__pi-mono/before-compaction.jsonl") else { return };
    let session = import(&bytes, 0).expect("a pi session").sessions.remove(0);
    let meta = SessionMeta { id: "s".into(), title: session.title.clone(), created_at: 1 };
    let write = |session: &ImportedSession| {
        let mut out = Vec::new();
        let blobs = session.blobs.iter().map(|(blob, content)| (blob, content));
        jsonl(&mut out, &meta, &stored(session), blobs).expect("memory does not fail");
        out
    };
    let file = write(&session);
    let again = import(&file, 0).expect("our own export").sessions.remove(0);
    assert_eq!(again.events, session.events);
    assert!(again.warnings.is_empty(), "{:?}", again.warnings);
    assert!(write(&again) == file, "the second export differs");
}

fn stored(session: &ImportedSession) -> Vec<Event> {
    let numbered = (1..).zip(session.events.iter().cloned());
    numbered.map(|(seq, (at, body))| Event { seq, at, format: FORMAT, body }).collect()
}

#[test]
fn every_recorded_tau_bench_run_is_imported() {
    let Some(bytes) = fixture("sierra-research__tau-bench/gpt-4o-airline.json") else { return };
    let import = import(&bytes, 9).expect("a list of runs");
    assert_eq!((import.format, import.sessions.len()), (ImportFormat::TauBench, 200));
    let mut messages = 0;
    for session in &import.sessions {
        assert_valid(session);
        assert!(session.warnings.is_empty(), "{:?}", session.warnings);
        History::fold(&stored(session)).expect("positions follow each other");
        assert!(
            session.system_prompt.as_deref().is_some_and(|text| text.starts_with("# Airline Agent Policy"))
        );
        messages +=
            1 + results(session).len() + session.events.iter().filter_map(|(_, body)| message(body)).count();
    }
    assert_eq!(messages, 5308);
}

#[test]
fn the_recorded_request_logs_are_imported_with_their_usage() {
    let name = "OpenHands__software-agent-sdk/litellm_proxy__anthropic__claude-sonnet-4-20250514-1757015046.707.json";
    let Some(bytes) = fixture(name) else { return };
    let session = import(&bytes, 0).expect("a request log").sessions.remove(0);
    assert_valid(&session);
    let usage = session.events.iter().find_map(|(_, body)| match body {
        EventBody::StepFinished { usage: Some(usage), .. } => Some((usage.input_tokens, usage.output_tokens)),
        _ => None,
    });
    assert_eq!(usage, Some((6729, 199)));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = import(&bytes, 0);
    }

    #[test]
    fn any_list_of_messages_makes_a_valid_log(list in proptest::collection::vec(any_message(), 1..20)) {
        if let Ok(import) = import(format!("[{}]", list.join(",")).as_bytes(), 0) {
            assert_valid(&import.sessions[0]);
        }
    }

    #[test]
    fn any_pi_session_makes_a_valid_log(list in proptest::collection::vec(any_line(), 1..20)) {
        let text = format!("{{\"type\":\"session\"}}\n{}", list.join("\n"));
        if let Ok(import) = import(text.as_bytes(), 0) {
            assert_valid(&import.sessions[0]);
        }
    }
}

fn any_call() -> impl Strategy<Value = String> {
    (0..4u8, any::<bool>()).prop_map(|(id, named)| match named {
        true => format!(r#"{{"id":"{id}","function":{{"name":"t{id}","arguments":"{{}}"}}}}"#),
        false => format!(r#"{{"function":{{"name":"t{id}"}}}}"#),
    })
}

fn any_message() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,5}".prop_map(|text| format!(r#"{{"role":"user","content":"{text}"}}"#)),
        proptest::collection::vec(any_call(), 0..4).prop_map(|calls| {
            format!(r#"{{"role":"assistant","content":"x","tool_calls":[{}]}}"#, calls.join(","))
        }),
        (0..4u8).prop_map(|id| format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"r"}}"#)),
        (0..4u8).prop_map(|id| format!(r#"{{"role":"function","name":"t{id}","content":"r"}}"#)),
        Just(r#"{"role":"system","content":"s"}"#.to_owned()),
        Just(
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"odd"}]}"#
                .to_owned()
        ),
    ]
}

fn any_line() -> impl Strategy<Value = String> {
    let stop = prop_oneof![Just("stop"), Just("toolUse"), Just("aborted"), Just("error")];
    prop_oneof![
        Just(r#"{"type":"message","message":{"role":"user","content":"u"}}"#.to_owned()),
        (proptest::collection::vec(0..4u8, 0..3), stop).prop_map(|(ids, stop)| {
            let calls: Vec<String> =
                ids.iter().map(|id| format!(r#"{{"type":"toolCall","id":"{id}","name":"t","arguments":{{}}}}"#)).collect();
            format!(
                r#"{{"type":"message","message":{{"role":"assistant","stopReason":"{stop}","content":[{}]}}}}"#,
                calls.join(",")
            )
        }),
        (0..4u8).prop_map(|id| format!(
            r#"{{"type":"message","message":{{"role":"toolResult","toolCallId":"{id}","toolName":"t","content":[]}}}}"#
        )),
        (0..25usize).prop_map(|kept| format!(r#"{{"type":"compaction","summary":"s","firstKeptEntryIndex":{kept}}}"#)),
        Just(r#"{"type":"message","message":{"role":"bashExecution","command":"ls"}}"#.to_owned()),
    ]
}

/// The texts of the messages, and the warnings.
fn damaged(file: &[u8]) -> (Vec<String>, Vec<String>) {
    let session = import(file, 7).unwrap().sessions.remove(0);
    let texts = session.events.iter().filter_map(|(_, body)| match body {
        EventBody::MessagesTaken { message, .. } => Some(message),
        EventBody::AssistantAdded { message, .. } => Some(message),
        _ => None,
    });
    let texts = texts.map(|message| message.parts.iter().filter_map(Part::as_text).collect()).collect();
    (texts, session.warnings.iter().map(ToString::to_string).collect())
}

#[test]
fn one_bad_byte_costs_its_character() {
    let list = |byte: &[u8]| {
        [
            b"[{\"role\":\"user\",\"content\":\"caf",
            byte,
            b"!\"},{\"role\":\"assistant\",\"content\":\"yes\"}]",
        ]
        .concat()
    };
    for byte in [&b"\xe9"[..], b"\xff", b"\0", b"\x01"] {
        let (texts, warnings) = damaged(&list(byte));
        assert_eq!(texts, ["caf\u{fffd}!", "yes"], "{byte:?}");
        assert_eq!(warnings, ["bytes that are not characters: 1 replaced by U+FFFD"], "{byte:?}");
    }
    assert_eq!(damaged(&list("\u{e9}".as_bytes())).1, Vec::<String>::new());
}

#[test]
fn a_file_in_utf_16_is_read() {
    let text =
        String::from_utf8(b"\xef\xbb\xbf[{\"role\":\"user\",\"content\":\"caf\xc3\xa9\"}]\r\n".to_vec())
            .unwrap();
    for unit in [u16::to_le_bytes as fn(u16) -> [u8; 2], u16::to_be_bytes] {
        let bytes: Vec<u8> = text.encode_utf16().flat_map(unit).collect();
        assert_eq!(damaged(&bytes).0, ["café"]);
    }
}

#[test]
fn one_damaged_line_costs_that_line() {
    let claude = |second: &str| {
        format!(
            "{{\"type\":\"user\",\"uuid\":\"1\",\"message\":{{\"content\":\"one\"}}}}\n{second}\n{}",
            r#"{"type":"user","uuid":"3","parentUuid":"2","message":{"content":"three"}}"#
        )
    };
    let pi = |second: &str| {
        format!(
            "{{\"type\":\"message\",\"id\":\"a\",\"message\":{{\"role\":\"user\",\"content\":\"one\"}}}}\n{second}\n{}",
            r#"{"type":"message","id":"c","parentId":"b","message":{"role":"user","content":"three"}}"#
        )
    };
    let files = [
        claude(r#"{"type":"user","uuid":"2","message":{"content"?"two"}}"#),
        claude(r#"?"type":"user","uuid":"2","message":{"content":"two"}}"#),
        pi(r#"{"type":"message","id":"b","parentId":"a","message":{"role":"user","content:"two"}}"#),
    ];
    for file in files {
        let (texts, warnings) = damaged(file.as_bytes());
        assert_eq!(texts, ["one", "three"], "{file}");
        assert!(warnings[0].starts_with("line 2: the line is damaged and was left out"), "{warnings:?}");
    }
    let mostly = "{\"type\":\"session\"}\n{\"type\":?}\n{?}\n{\"x\" 1}\n{\"type\":\"label\"}";
    assert!(matches!(
        import(mostly.as_bytes(), 7),
        Err(ImportError::Entry { place: ImportPosition::Line(2), .. })
    ));
}
