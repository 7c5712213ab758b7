use longhaul_core::event::{EditKind, EditReason};
use longhaul_core::message::ToolCall;

use super::*;

fn log() -> ConversationLog {
    let name = "x".to_owned();
    ConversationLog::new(
        MessageTokenCounter::default(),
        ModelOrigin { provider: name.clone(), api: name.clone(), model: name },
        false,
    )
}

fn typed(text: &str) -> Vec<ItemSegment> {
    vec![ItemSegment::Typed(vec![Part::text(text)])]
}

fn calls(id: &str) -> Vec<ItemSegment> {
    vec![ItemSegment::Assistant(vec![Part::ToolCall(ToolCall {
        call_id: id.into(),
        name: "read".to_owned(),
        arguments: "{}".to_owned(),
        provider_id: Some(id.to_owned()),
        native: None,
    })])]
}

fn result(id: &str, text: &str) -> Vec<ItemSegment> {
    vec![ItemSegment::Result { call: id.to_owned(), failed: false, content: vec![Part::text(text)] }]
}

fn edit(log: &ConversationLog, ops: Vec<ViewOperation>) -> ViewEdit {
    ViewEdit {
        id: format!("e{}", log.history.last_seq()).into(),
        base_view_hash: log.history.view_hash(),
        ops,
        kind: EditKind::Compaction,
        strategy: "s".to_owned(),
        reason: EditReason::TokenLimit,
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
    }
}

fn replace(from: Seq, to: Seq, text: &str) -> ViewOperation {
    ViewOperation::Replace { range: LogRange { from, to }, parts: vec![Part::text(text)], summary: true }
}

fn shown(log: &ConversationLog) -> Vec<String> {
    let text = |message: &Message| match message.parts.as_slice() {
        [Part::ToolResult(result)] => format!("result {:?}", result.content[0].as_text().unwrap_or_default()),
        [Part::ToolCall(call)] => format!("call {}", call.name),
        _ => message.text(),
    };
    log.history.view().iter().map(|item| text(&item.message)).collect()
}

/// A typed message, then so many calls with results, all by one name.
fn items(turns: usize) -> Vec<Vec<ItemSegment>> {
    let step = |at: usize| [calls("c"), result("c", &format!("r{at}"))];
    std::iter::once(typed("go")).chain((0..turns).flat_map(step)).collect()
}

#[test]
fn calls_of_one_name_are_different_calls() {
    let mut log = log();
    log.feed(items(3)).unwrap();
    let ids: std::collections::BTreeSet<String> = log
        .history
        .view()
        .iter()
        .flat_map(|item| item.message.tool_calls().map(|call| call.call_id.to_string()).collect::<Vec<_>>())
        .collect();
    assert_eq!(ids.len(), 3);
    let expected =
        ["go", "call read", "result \"r0\"", "call read", "result \"r1\"", "call read", "result \"r2\""];
    assert_eq!(shown(&log), expected);
    assert!(log.history.open_calls().is_empty());
}

#[test]
fn a_result_without_a_call_is_a_note_and_an_open_call_is_left_open() {
    let mut log = log();
    log.feed(vec![
        typed("go"),
        calls("a"),
        typed("never mind"),
        calls("a"),
        result("a", "late"),
        result("b", "lost"),
    ])
    .unwrap();
    assert_eq!(log.history.open_calls().len(), 1, "the newer one is answered");
    assert_eq!(shown(&log).last().unwrap(), "lost");
}

#[test]
fn edits_mean_the_same_in_a_log_that_is_made_anew() {
    let all = items(9);
    let mut grown = log();
    grown.feed(all[..7].to_vec()).unwrap();
    // The first two steps.
    let at = |log: &ConversationLog, item: usize| log.placed[item].seq;
    let first = edit(&grown, vec![replace(at(&grown, 1), at(&grown, 4), "S1")]);
    grown.commit(first, None);
    grown.feed(all[7..15].to_vec()).unwrap();
    let second = edit(
        &grown,
        vec![replace(at(&grown, 1), at(&grown, 10), "S2"), ViewOperation::clear(at(&grown, 12))],
    );
    grown.commit(second, None);
    let (edits, item) = grown.portable().unwrap();
    assert_eq!(item, 12);
    let mut anew = log();
    anew.feed(all[..=item].to_vec()).unwrap();
    edits.into_iter().for_each(|(edit, stopgap)| anew.commit(edit, stopgap));
    anew.feed(all[item + 1..15].to_vec()).unwrap();
    assert_eq!(shown(&anew), shown(&grown));
    assert_eq!(shown(&anew)[..2], ["go".to_owned(), "S2".to_owned()]);
    // And so does what follows.
    grown.feed(all[15..].to_vec()).unwrap();
    anew.feed(all[15..].to_vec()).unwrap();
    assert_eq!(shown(&anew), shown(&grown));
}

#[test]
fn what_was_reported_is_the_anchor_of_the_next_request() {
    let mut log = log();
    log.feed(vec![typed("go")]).unwrap();
    let usage = Usage { input_tokens: 40, output_tokens: 9, ..Usage::default() };
    let start = RequestSnapshot { view_hash: log.history.view_hash(), fixed_tokens: 3, window: None };
    log.reported = Some(ReportedUsage { usage, start, estimated: 38 });
    log.feed(vec![
        vec![ItemSegment::Assistant(vec![Part::text("one two three four five six")])],
        typed("more"),
    ])
    .unwrap();
    let anchor = log.history.anchor().unwrap();
    assert_eq!((anchor.input, anchor.output), (40, 9));
    assert_eq!(log.feed(vec![vec![ItemSegment::Assistant(Vec::new())]]), Ok(()));
    assert_eq!(
        log.feed(vec![vec![ItemSegment::Assistant(Vec::new())]]),
        Err(HistoryMismatchError),
        "an answer goes on"
    );
}

#[test]
fn an_edit_that_was_stored_goes_back_to_where_it_was() {
    let mut log = log();
    let mut made = Vec::new();
    for round in 0..4 {
        let from = log.history.last_seq() + 1;
        for at in 0..3 {
            let answer = vec![ItemSegment::Assistant(vec![Part::text(format!("answer {at}"))])];
            log.feed(vec![typed(&format!("question {round} {at}")), answer]).unwrap();
        }
        let last = log.placed[log.placed.len() - 2].seq;
        let edit = edit(&log, vec![replace(from, last, "so")]);
        made.push(edit.ops.clone());
        log.commit(edit, None);
        log.refused(&RequestSnapshot::default(), None, None);
    }
    let (stored, _) = log.portable().unwrap();
    assert_ne!(stored[3].0.ops, made[3], "stored as if nothing had been edited");
    let back: Vec<_> = stored.into_iter().map(|(edit, _)| log.placed(edit).ops).collect();
    assert_eq!(back, made);
}
