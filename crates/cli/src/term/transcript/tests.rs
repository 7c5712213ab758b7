use super::*;
use crate::gone::Gone;

fn printed(happenings: &[Happening]) -> String {
    let mut transcript = Transcript::new(Style::default(), Setting::Chat, 60);
    for (at, happening) in happenings.iter().enumerate() {
        transcript.take(happening, at as u64 * 1_000);
    }
    transcript.output()
}

fn call(id: &str, path: &str) -> Happening {
    let arguments = format!(r#"{{"path":"{path}"}}"#);
    Happening::Call(Call { id: id.into(), tool: "read".into(), arguments })
}

fn said(text: &str) -> [Happening; 2] {
    [Happening::Dequeued { count: 1 }, Happening::User { text: text.into() }]
}

#[test]
fn a_turn_reads_from_top_to_bottom() {
    let [dequeued, user] = said("Please split lexer.rs into smaller files, without changing what it does.");
    let ended = Ended {
        id: "c1".into(),
        status: "completed".into(),
        text: "x\n[All 12 lines.]".into(),
        ..Ended::default()
    };
    let shrunk = Shrunk {
        id: "e9".into(),
        strategy: "adaptive".into(),
        gone: Gone::some(41),
        before_tokens: 96_200,
        after_tokens: 11_400,
        undo: Undo::Newest,
        ..Shrunk::default()
    };
    let text = printed(&[
        dequeued,
        user,
        Happening::Text("\n\nI'll read the ".into()),
        Happening::Text("file first.\n".into()),
        Happening::Answer { text: "I'll read the file first.\n".into(), cut: false },
        call("c1", "lexer.rs"),
        Happening::Started { id: "c1".into() },
        Happening::Usage,
        Happening::Ended(ended),
        Happening::Compacted(shrunk),
        Happening::Text("Done.".into()),
        Happening::Answer { text: "Done.".into(), cut: false },
        Happening::RunEnded(RunEnded { end: "stop".into(), ..RunEnded::default() }),
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
    let text = printed(&[Happening::Answer { text: "All of it.".into(), cut: true }]);
    assert_eq!(text, "agent  All of it.\n       (cut off here)\n");
}

#[test]
fn an_answer_that_was_paused_is_printed_once_and_in_one_piece() {
    let shrunk = Shrunk {
        id: "e9".into(),
        strategy: "adaptive".into(),
        gone: Gone::some(41),
        before_tokens: 96_200,
        after_tokens: 11_400,
        undo: Undo::Newest,
        ..Shrunk::default()
    };
    let rule = || Happening::Compacted(shrunk.clone());
    let piece = |text: &str| Happening::Piece { text: text.into() };
    let end = || Happening::Answer { text: " in the end.".into(), cut: false };
    let stored = printed(&[piece("One word"), rule(), piece(" and two"), rule(), end()]);
    let text = |text: &str| Happening::Text(text.into());
    let live = [text("One word"), piece("One word"), rule(), text(" and"), text(" two"), piece(" and two")];
    let streamed = printed(&[&live[..], &[rule(), text(" in the end."), end()]].concat());
    assert_eq!(stored, streamed);
    assert!(stored.starts_with("agent  One word and two in the end.\n─ compacted"), "{stored}");
    assert_eq!(stored.matches("compacted").count(), 2, "{stored}");
}

#[test]
fn turns_stand_apart_and_notes_are_not_typed() {
    let [dequeued, user] = said("one");
    let note = Happening::User { text: "[The same tool call …]".into() };
    let text = printed(&[dequeued.clone(), user.clone(), note, dequeued, user]);
    assert_eq!(text, "you    one\n  [The same tool call …]\n\nyou    one\n");
}

#[test]
fn a_failed_run_says_what_is_kept_and_what_to_do() {
    let error = Some(("network".into(), "cannot connect to http://localhost:1".into()));
    let text =
        printed(&[Happening::RunEnded(RunEnded { end: "error".into(), error, ..RunEnded::default() })]);
    assert_eq!(
        text,
        "✗ network: cannot connect to http://localhost:1 · everything\n  so far is kept; /retry goes on\n"
    );
}

/// A transcript of 40 columns in which a row comes in the middle of an answer.
fn interrupted() -> Transcript {
    let mut transcript = Transcript::new(Style::default(), Setting::Chat, 40);
    transcript.take(&Happening::Text("one two three four five si".into()), 0);
    transcript.aside("  queued 1");
    transcript
}

#[test]
fn a_row_in_between_waits_for_the_end_of_the_line() {
    let mut transcript = interrupted();
    transcript.take(&Happening::Text("x seven eight nine".into()), 0);
    transcript.take(&Happening::Answer { text: String::new(), cut: false }, 0);
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
    transcript.beat();
    assert!(!transcript.output().contains("queued"), "it has just moved");
    transcript.beat();
    assert!(transcript.output().ends_with("si\n  queued 1\n"));
    let mut ended = interrupted();
    ended.take(&Happening::RunEnded(RunEnded::default()), 0);
    assert!(ended.output().contains("si\n  queued 1\n"), "nor beyond its end");
}

/// What is merely left out is not called a compaction.
#[test]
fn the_notice_says_what_was_done() {
    let told = |strategy: &str| {
        let shrunk = Shrunk { strategy: strategy.to_owned(), gone: Gone::some(2), ..Shrunk::default() };
        printed(&[Happening::Compacted(shrunk)])
    };
    assert!(told("truncation").contains("left out 2 messages"), "{}", told("truncation"));
    assert!(told("adaptive").contains("compacted 2 messages"), "{}", told("adaptive"));
}

fn edit(strategy: &str, undo: Undo) -> Shrunk {
    let (id, strategy) = ("e9".to_owned(), strategy.to_owned());
    let gone = Gone::some(41);
    Shrunk { id, strategy, gone, before_tokens: 96_200, after_tokens: 11_400, undo, ..Shrunk::default() }
}

/// The rows of edits in so many columns.
fn rows(setting: Setting, columns: usize, happenings: &[Happening]) -> String {
    let mut transcript = Transcript::new(Style::default(), setting, columns);
    happenings.iter().for_each(|happening| transcript.take(happening, 0));
    transcript.output()
}

#[test]
fn a_row_that_is_too_wide_is_broken_and_loses_nothing() {
    let made = || Shrunk {
        gone: Gone { messages: 41, summaries: 2, notes: 0 },
        why: "41 messages and what stood for others".into(),
        ..edit("proactive-threshold", Undo::Newest)
    };
    let told = |columns| rows(Setting::Shell, columns, &[Happening::Compacted(made())]);
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
    let mut piped = Transcript::new(Style::default(), Setting::Shell, 40).rows_of(usize::MAX).with_reasons();
    piped.take(&Happening::Compacted(made()), 0);
    let reason = "  why: 41 messages and what stood for others\n";
    assert_eq!(piped.output(), format!("{}{reason}", told(120)), "what no terminal shows is not broken");
    let cleared = rows(Setting::Chat, 99, &[Happening::Cleared(edit("reactive-overflow", Undo::Newest))]);
    let cut = Shrunk { is_message_cut: true, ..edit("truncation", Undo::Newest) };
    let cut = rows(Setting::Chat, 120, &[Happening::Cleared(cut)]);
    assert!(
        cut.starts_with("─ the message is longer than the window: its beginning and its end are shown · "),
        "{cut}"
    );
    assert!(
        cleared.starts_with("─ cleared 41 old tool results · ")
            && cleared.contains(" · reactive-overflow · ")
    );
}

#[test]
fn a_reason_is_told_in_full() {
    let reason = "the answer was cut off at its length limit, which is not what was asked for".to_owned();
    let text = rows(Setting::Chat, 40, &[Happening::CompactionFailed { reason: reason.clone() }]);
    assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), format!("─ no summary: {reason}"));
    let text = rows(Setting::Chat, 40, &[Happening::Note { text: reason.clone() }]);
    assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), reason);
    assert!(text.lines().all(|row| width(row) <= 40), "{text}");
}

#[test]
fn an_undo_is_offered_only_where_it_would_succeed() {
    let told = |setting, undo| {
        let row = rows(setting, 99, &[Happening::Compacted(edit("adaptive", undo))]);
        row.trim_end().rsplit(" · ").next().unwrap().to_owned()
    };
    assert_eq!(told(Setting::Chat, Undo::Newest), "/undo");
    assert_eq!(told(Setting::Chat, Undo::Named), "/undo e9");
    assert_eq!(told(Setting::Shell, Undo::Newest), "undo e9");
    assert_eq!(told(Setting::Chat, Undo::After("e12".into())), "/undo e12 first");
    assert_eq!(told(Setting::Shell, Undo::Refused("undone since")), "undone since");
    assert_eq!(told(Setting::Chat, Undo::Unknown), "all recoverable");
}

#[test]
fn an_extract_is_told_from_a_summary() {
    let failed = || Happening::CompactionFailed { reason: "the answer was empty".into() };
    let made = |strategy| Happening::Compacted(edit(strategy, Undo::Newest));
    let text = rows(
        Setting::Chat,
        99,
        &[Happening::Compacting { is_extract: false }, failed(), made("adaptive"), made("adaptive")],
    );
    let expected = "\
─ compacting … a summary is being written
─ no summary: the answer was empty
─ compacted 41 messages · 96.2K → 11.4K · an extract by adaptive · all recoverable · /undo
─ compacted 41 messages · 96.2K → 11.4K · adaptive · all recoverable · /undo
";
    assert_eq!(text, expected);
    let by_itself = Shrunk { is_extract: true, ..edit("adaptive", Undo::Newest) };
    let text = rows(Setting::Chat, 99, &[Happening::Compacted(by_itself)]);
    assert!(text.contains(" · an extract by adaptive · "), "nothing failed, and no model wrote: {text}");
    let text = rows(Setting::Chat, 99, &[failed(), made("truncation")]);
    assert!(text.contains("left out 41 messages") && !text.contains("extract"), "{text}");
}
