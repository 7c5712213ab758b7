use longhaul_core::event::{
    CoalescedMessages, EditKind, EditReason, EventBody, FORMAT, ForkOrigin, ModelChoice, ViewEdit,
    ViewOperation,
};
use longhaul_core::history::History;
use longhaul_core::ids::LogRange;
use longhaul_core::message::{Message, ModelOrigin, Part};
use longhaul_core::metadata::MessageMetadata;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::import::{ImportError, ImportFormat, ImportedSession, import};

const AGENT: &str = r#"[
  {"role":"system","content":"Be brief."},
  {"role":"user","content":[{"type":"text","text":"What is in ```this```?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAIAAAADCAYAAAC56t6BAAAAC0lEQVR4nGNgQAcAABIAAW2zTY8AAAAASUVORK5CYII="}}]},
  {"role":"assistant","reasoning_content":"Look first.","content":null,"tool_calls":[{"id":"call_9","type":"function","function":{"name":"look","arguments":"{\"far\": 1.50}"}}]},
  {"role":"tool","tool_call_id":"call_9","content":"line 1\n````\nline 2"},
  {"role":"assistant","content":"A square."}
]"#;

fn recorded() -> ImportedSession {
    import(AGENT.as_bytes(), 1_000).expect("a list of messages").sessions.remove(0)
}

fn events(imported: &ImportedSession) -> Vec<Event> {
    let numbered = (1..).zip(imported.events.iter().cloned());
    numbered.map(|(seq, (at, body))| Event { seq, at, format: FORMAT, body }).collect()
}

fn meta(title: Option<String>) -> SessionMeta {
    SessionMeta { id: "0192-a".into(), title, created_at: 1_000 }
}

fn write(imported: &ImportedSession) -> Vec<u8> {
    let mut out = Vec::new();
    let blobs = imported.blobs.iter().map(|(blob, content)| (blob, content));
    jsonl(&mut out, &meta(imported.title.clone()), &events(imported), blobs).expect("memory does not fail");
    out
}

#[test]
fn what_is_exported_is_imported_again_and_the_same() {
    let original = recorded();
    assert_eq!(original.blobs.len(), 1);
    let file = write(&original);
    let again = import(&file, 5).expect("our own export");
    assert_eq!(again.format, ImportFormat::Longhaul);
    let again = &again.sessions[0];
    assert_eq!(again.events, original.events);
    assert_eq!((&again.blobs, &again.title), (&original.blobs, &original.title));
    assert_eq!((again.warnings.len(), again.missing_blobs.len()), (0, 0));
    assert_eq!(write(again), file);
}

/// Metadata of clients is in the file, and in the session that is made of it.
#[test]
fn metadata_is_exported_and_imported_again() {
    let metadata = |of: &str| MessageMetadata::try_from(json!({ "z": of, "a": ["`", 1.5] })).unwrap();
    let coalesced = CoalescedMessages {
        message_count: 2,
        original_messages: vec!["q2".into(), "q3".into()],
        first_queued_at: 1,
        last_queued_at: 2,
        original_metadata: [("q3".into(), metadata("third"))].into(),
    };
    let taken = |taken: &[&str], coalesced, metadata| EventBody::MessagesTaken {
        message: Message::user("m", vec![Part::text("hello")]),
        taken: taken.iter().map(|id| (*id).into()).collect(),
        coalesced,
        metadata,
    };
    let mut log = events(&recorded());
    log.truncate(1);
    let bodies = [taken(&["q1"], None, Some(metadata("first"))), taken(&["q2", "q3"], Some(coalesced), None)];
    let first = log[0].clone();
    log.extend((2..).zip(bodies).map(|(seq, body)| Event { seq, body, ..first.clone() }));
    let mut file = Vec::new();
    jsonl(&mut file, &meta(None), &log, std::iter::empty()).unwrap();
    let again = import(&file, 0).unwrap().sessions.remove(0);
    let bodies: Vec<&EventBody> = again.events.iter().map(|(_, body)| body).collect();
    assert_eq!(bodies, log.iter().map(|event| &event.body).collect::<Vec<_>>());
    assert_eq!(again.warnings, []);
    let shown = markdown(&meta(None), &log);
    for expected in [r#"{"z":"first","a":["`",1.5]}"#, r#"{"z":"third","a":["`",1.5]}"#] {
        assert!(shown.contains(&format!("**Metadata**\n\n```json\n{expected}\n```")), "{shown}");
    }
}

#[test]
fn without_blobs_the_log_is_whole_and_the_gap_is_told() {
    let original = recorded();
    let mut file = Vec::new();
    jsonl(&mut file, &meta(None), &events(&original), std::iter::empty()).expect("memory does not fail");
    let again = import(&file, 0).expect("our own export").sessions.remove(0);
    assert_eq!(again.events, original.events);
    assert_eq!(again.missing_blobs, [original.blobs[0].0.clone()]);
    insta::assert_snapshot!(again.warnings[0], @"1 stored contents are not in the file and cannot be shown");
}

/// A file could name the agent that may do most.
#[test]
fn the_agent_is_not_the_files_to_choose() {
    let mut log = events(&recorded());
    let to = ModelOrigin { provider: "p".to_owned(), api: "a".to_owned(), model: "m".to_owned() };
    let choice = Some(ModelChoice { agent: Some("root".to_owned()), model: None });
    let switched = EventBody::ModelSwitched { to, choice };
    let newest = log.last().expect("a session").clone();
    log.push(Event { seq: newest.seq + 1, body: switched, ..newest });
    let mut file = Vec::new();
    jsonl(&mut file, &meta(None), &log, std::iter::empty()).expect("memory does not fail");
    let again = import(&file, 0).expect("our own export").sessions.remove(0);
    let (_, last) = again.events.last().expect("a session");
    assert!(matches!(last, EventBody::ModelSwitched { choice: None, .. }), "{last:?}");
}

#[test]
fn the_link_to_a_parent_is_cut() {
    let mut log = events(&recorded());
    if let EventBody::SessionStarted { forked_from, .. } = &mut log[0].body {
        *forked_from = Some(ForkOrigin { session_id: "somebody-else".into(), at_seq: 7 });
    }
    let mut file = Vec::new();
    jsonl(&mut file, &meta(None), &log, std::iter::empty()).expect("memory does not fail");
    let again = import(&file, 0).expect("our own export").sessions.remove(0);
    assert!(matches!(&again.events[0].1, EventBody::SessionStarted { forked_from: None, .. }));
    insta::assert_snapshot!(again.warnings[0], @"line 2: the session was forked from somebody-else; that link was cut");
}

#[test]
fn a_session_exported_while_it_ran_comes_back_idle() {
    let mut log = events(&recorded());
    log.truncate(4);
    let started = EventBody::RunStarted { run_id: "r1".into() };
    log.insert(1, Event { seq: 2, at: 1_000, format: FORMAT, body: started });
    (1..).zip(&mut log).for_each(|(seq, event)| event.seq = seq);
    let mut file = Vec::new();
    jsonl(&mut file, &meta(None), &log, std::iter::empty()).expect("memory does not fail");
    let again = import(&file, 0).expect("our own export").sessions.remove(0);
    let history = History::fold(&events(&again)).expect("positions follow each other");
    assert!(history.open_calls().is_empty() && history.open_run().is_none());
    insta::assert_snapshot!(again.warnings[0], @"the session was exported in the middle of a run, which was closed");
}

#[test]
fn an_edit_reaches_only_back() {
    let refuse = |range: LogRange| {
        let mut log = events(&recorded());
        let op = ViewOperation::Drop { range };
        let edit = ViewEdit {
            id: "e1".into(),
            base_view_hash: String::new(),
            ops: vec![op],
            kind: EditKind::Compaction,
            strategy: "truncation".into(),
            reason: EditReason::Requested,
            trigger_tokens: 0,
            original_tokens: 0,
            compressed_tokens: 0,
            original_bound: 0,
            compressed_bound: 0,
            original_messages: 0,
            compressed_messages: 0,
            why: String::new(),
            usage: None,
            summary: None,
        };
        let seq = log.len() as u64 + 1;
        log.push(Event { seq, at: 1_000, format: FORMAT, body: EventBody::ViewEdited(Box::new(edit)) });
        let mut file = Vec::new();
        jsonl(&mut file, &meta(None), &log, std::iter::empty()).expect("memory does not fail");
        import(&file, 0).is_err()
    };
    assert!(!refuse(LogRange { from: 2, to: 5 }));
    assert!(refuse(LogRange { from: 5, to: 2 }));
    assert!(refuse(LogRange { from: 2, to: 9 }));
    assert!(refuse(LogRange { from: 0, to: 2 }));
}

#[test]
fn damaged_files_are_refused_with_the_place() {
    let file = String::from_utf8(write(&recorded())).expect("JSON is text");
    let refuse = |text: &str| import(text.as_bytes(), 0).expect_err("should be refused").to_string();
    let lines: Vec<&str> = file.lines().collect();
    insta::assert_snapshot!(refuse(&lines[..4].join("\n")), @"the file ends early: 3 of 8 events");
    insta::assert_snapshot!(refuse(&lines[..lines.len() - 1].join("\n")), @"the file ends early: 0 of 1 blobs");
    insta::assert_snapshot!(refuse(&file.replacen("\"seq\":3", "\"seq\":4", 1)), @"line 4: event 4 stands where event 3 belongs");
    insta::assert_snapshot!(refuse(&file.replacen("\"format\":1", "\"format\":9", 1)), @"the file was written in format 9; this version reads up to 1");
    insta::assert_snapshot!(refuse(&file.replacen("\"version\":1", "\"version\":2", 1)), @"the file was written in format 2; this version reads up to 1");
    insta::assert_snapshot!(refuse(&file.replacen("iVBORw0K", "iVBORw1K", 1)), @"line 10: the content does not have the hash it is named by");
    insta::assert_snapshot!(refuse(&file.replacen("\"kind\":\"step-finished\"", "\"kind\":\"step-vanished\"", 1)), @"line 5: unknown variant `step-vanished`, expected one of `session-started`, `messages-taken`, `note-added`, `run-started`, `input-counted`, `step-started`, `assistant-added`, `step-finished`, `step-failed`, `tool-started`, `tool-finished`, `approval-requested`, `approval-resolved`, `view-edited`, `view-restored`, `parts-omitted`, `range-released`, `compaction-failed`, `model-switched`, `run-finished`, `recovered`, `parked`, `title-set`, `order-pinned`, `order-edited`, `order-removed`");
    let twice = [lines[0], lines[1], &lines[1].replace("\"seq\":1", "\"seq\":2")].join("\n");
    insta::assert_snapshot!(refuse(&twice), @"line 3: a session begins once, with its first event");
}

#[test]
fn a_transcript_for_people() {
    let imported = recorded();
    insta::assert_snapshot!(markdown(&meta(imported.title.clone()), &events(&imported)), @r#"
    # What is in ```this```?

    ## User

    What is in ```this```?

    *[image: image/png, 68 bytes, @blob:bc596eb4b5c32a3812a03d1f8ac8ef837aa15caee8a19bb24f29591e8553ec8e]*

    ## Assistant

    > Look first.

    **Call** `look`

    ```json
    {"far": 1.50}
    ```

    **Result** `look`

    `````
    line 1
    ````
    line 2
    `````

    ## Assistant

    A square.
    "#);
}

proptest! {
    #[test]
    fn a_damaged_export_is_read_or_refused(at in 0usize..4000, cut in 0usize..60, insert in "[\\PC\n]{0,6}") {
        let mut file = String::from_utf8(write(&recorded())).expect("JSON is text").into_bytes();
        let from = at.min(file.len());
        let to = (from + cut).min(file.len());
        file.splice(from..to, insert.bytes());
        if let Err(ImportError::Entry { reason, .. }) = import(&file, 0) {
            prop_assert!(!reason.is_empty());
        }
    }
}
