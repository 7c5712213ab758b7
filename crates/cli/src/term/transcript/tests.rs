use super::*;
use crate::removed_messages::RemovedMessages;

fn printed(happenings: &[UiEvent]) -> String {
    let mut transcript = TranscriptRenderer::new(TextPainter::default(), TranscriptTarget::Chat, 60);
    for (at, happening) in happenings.iter().enumerate() {
        transcript.take(happening, at as u64 * 1_000);
    }
    transcript.output()
}

fn call(id: &str, path: &str) -> UiEvent {
    let arguments = format!(r#"{{"path":"{path}"}}"#);
    UiEvent::Call(ToolCallInfo { id: id.into(), tool: "read".into(), arguments })
}

fn said(text: &str) -> [UiEvent; 2] {
    [UiEvent::Dequeued { count: 1 }, UiEvent::User { text: text.into() }]
}

#[test]
fn a_turn_reads_from_top_to_bottom() {
    let [dequeued, user] = said("Please split lexer.rs into smaller files, without changing what it does.");
    let ended = ToolResultInfo {
        id: "c1".into(),
        status: "completed".into(),
        text: "x\n[All 12 lines.]".into(),
        ..ToolResultInfo::default()
    };
    let shrunk = ViewEditInfo {
        id: "e9".into(),
        strategy: "adaptive".into(),
        gone: RemovedMessages::from_message_count(41),
        before_tokens: 96_200,
        after_tokens: 11_400,
        undo: UndoOption::Newest,
        ..ViewEditInfo::default()
    };
    let text = printed(&[
        dequeued,
        user,
        UiEvent::Text("\n\nI'll read the ".into()),
        UiEvent::Text("file first.\n".into()),
        UiEvent::Answer { text: "I'll read the file first.\n".into(), cut: false },
        call("c1", "lexer.rs"),
        UiEvent::Started { id: "c1".into() },
        UiEvent::Usage,
        UiEvent::Ended(ended),
        UiEvent::Compacted(shrunk),
        UiEvent::Text("Done.".into()),
        UiEvent::Answer { text: "Done.".into(), cut: false },
        UiEvent::RunEnded(RunEndInfo { end: "stop".into(), ..RunEndInfo::default() }),
    ]);
    let expected = "\
you    Please split lexer.rs into smaller files, without
       changing what it does.
agent  I'll read the file first.
  ▸ read lexer.rs                     12 lines · 2 s
─ compacted 41 messages · 96.2K → 11.4K · adaptive
  all recoverable · /undo
agent  Done.
";
    assert_eq!(text, expected);
}

#[test]
fn an_answer_that_was_not_streamed_is_printed_whole() {
    let text = printed(&[UiEvent::Answer { text: "All of it.".into(), cut: true }]);
    assert_eq!(text, "agent  All of it.\n       (cut off here)\n");
}

#[test]
fn an_answer_that_was_paused_is_printed_once_and_in_one_piece() {
    let shrunk = ViewEditInfo {
        id: "e9".into(),
        strategy: "adaptive".into(),
        gone: RemovedMessages::from_message_count(41),
        before_tokens: 96_200,
        after_tokens: 11_400,
        undo: UndoOption::Newest,
        ..ViewEditInfo::default()
    };
    let rule = || UiEvent::Compacted(shrunk.clone());
    let stored = printed(&[piece("One word"), rule(), piece(" and two"), rule(), answer_end()]);
    let live = [
        text_event("One word"),
        piece("One word"),
        rule(),
        text_event(" and"),
        text_event(" two"),
        piece(" and two"),
    ];
    let streamed = printed(&[&live[..], &[rule(), text_event(" in the end."), answer_end()]].concat());
    assert_eq!(stored, streamed);
    assert!(stored.starts_with("agent  One word and two in the end.\n─ compacted"), "{stored}");
    assert_eq!(stored.matches("compacted").count(), 2, "{stored}");
}

fn answer_end() -> UiEvent {
    UiEvent::Answer { text: " in the end.".into(), cut: false }
}

fn text_event(text: &str) -> UiEvent {
    UiEvent::Text(text.into())
}

fn piece(text: &str) -> UiEvent {
    UiEvent::Piece { text: text.into() }
}

#[test]
fn turns_stand_apart_and_notes_are_not_typed() {
    let [dequeued, user] = said("one");
    let note = UiEvent::User { text: "[The same tool call …]".into() };
    let text = printed(&[dequeued.clone(), user.clone(), note, dequeued, user]);
    assert_eq!(text, "you    one\n  [The same tool call …]\n\nyou    one\n");
}

#[test]
fn a_failed_run_says_what_is_kept_and_what_to_do() {
    let error = Some(("network".into(), "cannot connect to http://localhost:1".into()));
    let text =
        printed(&[UiEvent::RunEnded(RunEndInfo { end: "error".into(), error, ..RunEndInfo::default() })]);
    assert_eq!(
        text,
        "✗ cannot connect to http://localhost:1 (network) ·\n  everything so far is kept; /retry goes on\n"
    );
}

#[test]
fn a_repeated_call_says_how_long_it_goes_on_and_how_to_stop_it() {
    let told = |target, patience_ms, limit| {
        let policy = RetryPolicy { patience_ms, ..RetryPolicy::default() };
        let mut transcript =
            TranscriptRenderer::new(TextPainter::default(), target, 200).with_retry(policy, "Esc");
        for attempt in 1..=5 {
            let message = "the server is busy".to_owned();
            let retrying = UiEvent::Retrying { message, attempt, after_ms: 1_000, limit };
            transcript.take(&retrying, 0);
        }
        transcript.output()
    };
    let rows = told(TranscriptTarget::Chat, Some(1_800_000), RetryLimit::Patience);
    let first = "! the server is busy · trying again in 1 s · gives up after 30 min · Esc stops\n";
    assert!(rows.starts_with(first), "{rows}");
    assert!(rows.contains("4 attempts so far") && rows.lines().count() == 3, "{rows}");
    let row = told(TranscriptTarget::Shell, Some(1_800_000), RetryLimit::Patience);
    assert!(row.contains("trying again in 1 s, for up to 30 min (`retry.patience`); Esc ends\n"), "{row}");
    let row = told(TranscriptTarget::Shell, None, RetryLimit::Patience);
    assert!(row.contains(", without an end (`retry.patience`); Esc ends\n"), "{row}");
    let row = told(TranscriptTarget::Chat, None, RetryLimit::BrokenAnswers);
    assert!(row.contains(" · gives up after 5 broken answers · Esc stops\n"), "{row}");
    let row = told(TranscriptTarget::Shell, Some(1_800_000), RetryLimit::of("refusal"));
    assert!(row.contains("trying again in 1 s · once · Esc stops\n"), "{row}");
}

/// A transcript of 40 columns in which a row comes in the middle of an answer.
fn interrupted() -> TranscriptRenderer {
    let mut transcript = TranscriptRenderer::new(TextPainter::default(), TranscriptTarget::Chat, 40);
    transcript.take(&UiEvent::Text("one two three four five si".into()), 0);
    transcript.aside("  queued 1");
    transcript
}

#[test]
fn a_row_in_between_waits_for_the_end_of_the_line() {
    let mut transcript = interrupted();
    transcript.take(&UiEvent::Text("x seven eight nine".into()), 0);
    transcript.take(&UiEvent::Answer { text: String::new(), cut: false }, 0);
    transcript.aside("  and this");
    let expected = "\
agent  one two three four five six seven
  queued 1
       eight nine
  and this
";
    assert_eq!(transcript.output(), expected);
}

#[test]
fn a_row_in_between_does_not_wait_for_an_answer_that_halts() {
    let mut transcript = interrupted();
    transcript.flush_idle_rows();
    assert!(!transcript.output().contains("queued"), "it has just moved");
    transcript.flush_idle_rows();
    assert!(transcript.output().ends_with("si\n  queued 1\n"));
    let mut ended = interrupted();
    ended.take(&UiEvent::RunEnded(RunEndInfo::default()), 0);
    assert!(ended.output().contains("si\n  queued 1\n"), "nor beyond its end");
}

/// Messages merely left out are not called a compaction.
#[test]
fn the_notice_says_what_was_done() {
    let told = |strategy: &str| {
        let shrunk = ViewEditInfo {
            strategy: strategy.to_owned(),
            gone: RemovedMessages::from_message_count(2),
            ..ViewEditInfo::default()
        };
        printed(&[UiEvent::Compacted(shrunk)])
    };
    assert!(told("truncation").contains("left out 2 messages"), "{}", told("truncation"));
    assert!(told("adaptive").contains("compacted 2 messages"), "{}", told("adaptive"));
}

fn edit(strategy: &str, undo: UndoOption) -> ViewEditInfo {
    let (id, strategy) = ("e9".to_owned(), strategy.to_owned());
    let gone = RemovedMessages::from_message_count(41);
    ViewEditInfo {
        id,
        strategy,
        gone,
        before_tokens: 96_200,
        after_tokens: 11_400,
        undo,
        ..ViewEditInfo::default()
    }
}

/// The rows of edits in so many columns.
fn rows(setting: TranscriptTarget, columns: usize, happenings: &[UiEvent]) -> String {
    let mut transcript = TranscriptRenderer::new(TextPainter::default(), setting, columns);
    happenings.iter().for_each(|happening| transcript.take(happening, 0));
    transcript.output()
}

#[test]
fn a_row_that_is_too_wide_is_broken_and_loses_nothing() {
    let made = || ViewEditInfo {
        gone: RemovedMessages { messages: 41, summaries: 2, notes: 0 },
        why: "41 messages and what stood for others".into(),
        ..edit("proactive-threshold", UndoOption::Newest)
    };
    let told = |columns| rows(TranscriptTarget::Shell, columns, &[UiEvent::Compacted(made())]);
    let what = "─ compacted 41 messages and 2 earlier summaries";
    assert_eq!(
        told(120),
        format!("{what} · 96.2K → 11.4K · proactive-threshold · all recoverable · undo e9\n")
    );
    let narrow = format!("{what}\n  96.2K → 11.4K · proactive-threshold\n  all recoverable · undo e9\n");
    assert_eq!(told(50), narrow);
    for columns in [24, 40, 60] {
        assert!(told(columns).lines().all(|row| width(row) <= columns), "{}", told(columns));
        let words =
            |text: &str| text.replace(" · ", " ").split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&told(columns)), words(&told(120)), "in {columns} columns");
    }
    let mut piped = TranscriptRenderer::new(TextPainter::default(), TranscriptTarget::Shell, 40)
        .rows_of(usize::MAX)
        .with_reasons();
    piped.take(&UiEvent::Compacted(made()), 0);
    let reason = "  why: 41 messages and what stood for others\n";
    assert_eq!(piped.output(), format!("{}{reason}", told(120)), "what no terminal shows is not broken");
    let cleared =
        rows(TranscriptTarget::Chat, 99, &[UiEvent::Cleared(edit("reactive-overflow", UndoOption::Newest))]);
    let cut = ViewEditInfo { is_message_cut: true, ..edit("truncation", UndoOption::Newest) };
    let cut = rows(TranscriptTarget::Chat, 120, &[UiEvent::Cleared(cut)]);
    assert!(cut.starts_with("─ the message does not fit: its beginning and its end are shown · "), "{cut}");
    assert!(
        cleared.starts_with("─ pruned 41 old tool results · ") && cleared.contains(" · reactive-overflow · ")
    );
}

#[test]
fn a_reason_is_told_in_full() {
    let reason = "the answer was cut off at its length limit, which is not what was asked for".to_owned();
    let text = rows(TranscriptTarget::Chat, 40, &[UiEvent::CompactionFailed { reason: reason.clone() }]);
    assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), format!("─ no summary: {reason}"));
    let text = rows(TranscriptTarget::Chat, 40, &[UiEvent::Note { text: reason.clone() }]);
    assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), reason);
    assert!(text.lines().all(|row| width(row) <= 40), "{text}");
}

#[test]
fn an_undo_is_offered_only_where_it_would_succeed() {
    assert_eq!(undo_column(TranscriptTarget::Chat, UndoOption::Newest), "/undo");
    assert_eq!(undo_column(TranscriptTarget::Chat, UndoOption::Named), "/undo e9");
    assert_eq!(undo_column(TranscriptTarget::Shell, UndoOption::Newest), "undo e9");
    assert_eq!(undo_column(TranscriptTarget::Chat, UndoOption::After("e12".into())), "/undo e12 first");
    assert_eq!(undo_column(TranscriptTarget::Shell, UndoOption::Refused("undone since")), "undone since");
    assert_eq!(undo_column(TranscriptTarget::Chat, UndoOption::Unknown), "all recoverable");
}

#[test]
fn an_undo_without_room_is_not_called_recoverable() {
    let no_room = edit("adaptive", UndoOption::Refused("no room to undo"));
    let row = rows(TranscriptTarget::Chat, 99, &[UiEvent::Compacted(no_room)]);
    assert!(row.ends_with(" · recall finds all · no room to undo\n"), "{row}");
}

#[test]
fn a_command_s_row_names_the_whole_command_of_the_undo() {
    let mut transcript = TranscriptRenderer::new(TextPainter::default(), TranscriptTarget::Shell, 120);
    transcript.set_undo_command("longhaul undo s1".to_owned());
    transcript.take(&UiEvent::Compacted(edit("adaptive", UndoOption::Newest)), 0);
    let row = transcript.output();
    assert!(row.ends_with(" · all recoverable · longhaul undo s1 e9\n"), "{row}");
}

fn undo_column(target: TranscriptTarget, undo: UndoOption) -> String {
    let row = rows(target, 99, &[UiEvent::Compacted(edit("adaptive", undo))]);
    row.trim_end().rsplit(" · ").next().unwrap().to_owned()
}

#[test]
fn an_extract_is_told_from_a_summary() {
    let text = rows(
        TranscriptTarget::Chat,
        99,
        &[
            UiEvent::Compacting { is_extract: false },
            compaction_failed(),
            compacted_by("adaptive"),
            compacted_by("adaptive"),
        ],
    );
    let expected = "\
─ compacting … a summary is being written
─ no summary: the answer was empty
─ compacted 41 messages · 96.2K → 11.4K · adaptive, without a model · all recoverable · /undo
─ compacted 41 messages · 96.2K → 11.4K · adaptive · all recoverable · /undo
";
    assert_eq!(text, expected);
    let by_itself = ViewEditInfo { is_extract: true, ..edit("adaptive", UndoOption::Newest) };
    let text = rows(TranscriptTarget::Chat, 99, &[UiEvent::Compacted(by_itself)]);
    assert!(text.contains(" · adaptive, without a model · "), "nothing failed, and no model wrote: {text}");
    let text = rows(TranscriptTarget::Chat, 99, &[compaction_failed(), compacted_by("truncation")]);
    assert!(text.contains("left out 41 messages") && !text.contains("extract"), "{text}");
}

fn compacted_by(strategy: &str) -> UiEvent {
    UiEvent::Compacted(edit(strategy, UndoOption::Newest))
}

fn compaction_failed() -> UiEvent {
    UiEvent::CompactionFailed { reason: "the answer was empty".into() }
}
