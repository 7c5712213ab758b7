//! Whole screens, as a person would see them, and what keys do.

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use crate::removed_messages::RemovedMessages;
use crate::term::meter::ContextMeterBar;
use crate::term::style::TextPainter;
use crate::term::ui_event::{
    RetryLimit, RunEndInfo, ToolCallInfo, ToolResultInfo, UiEvent, UndoOption, ViewEditInfo,
};

use super::{KeyAction, QueuedMessageRow, SlashCommandHelp, UiCommand, UiState};

fn commands() -> Vec<SlashCommandHelp> {
    let all = [
        ("/context", "what fills the window"),
        ("/compact [WORDS]", "make room now; WORDS say what the summary should mind"),
        ("/recall WORDS", "find anything that was said"),
    ];
    all.map(|(usage, does)| SlashCommandHelp { usage: usage.into(), does: does.into() }).to_vec()
}

fn state(columns: usize, rows: usize) -> UiState {
    let mut state = UiState::new(TextPainter::default(), columns, rows, commands());
    state.meter = ContextMeterBar::sample();
    state
}

/// The whole screen: finished rows that still fit, and the live ones, with `_` where the cursor is.
fn screen(state: &mut UiState, above: &mut String, now: u64) -> String {
    above.push_str(&state.finished());
    let view = state.view(now);
    let (columns, rows) = state.size();
    let live = view.rows();
    assert!(usize::from(live) <= rows, "{live} rows of {rows}");
    let mut terminal = Terminal::new(TestBackend::new(columns as u16, live)).unwrap();
    terminal.draw(|frame| view.render(frame)).unwrap();
    let cursor = terminal.get_cursor_position().unwrap();
    let buffer = terminal.backend().buffer();
    let mut lines: Vec<String> = above.lines().map(str::to_owned).collect();
    lines.drain(..lines.len().saturating_sub(rows - usize::from(live)));
    for y in 0..live {
        let mut line: String = (0..columns as u16)
            .map(|x| if (x, y) == (cursor.x, cursor.y) { "_" } else { buffer[(x, y)].symbol() })
            .collect();
        line.truncate(line.trim_end().len());
        lines.push(line);
    }
    lines.join("\n")
}

fn type_in(state: &mut UiState, text: &str) {
    for c in text.chars() {
        assert_eq!(state.act(KeyAction::Insert(c), 0), None);
    }
}

fn call(id: &str, command: &str) -> ToolCallInfo {
    let arguments = serde_json::json!({ "command": command }).to_string();
    ToolCallInfo { id: id.into(), tool: "bash".into(), arguments }
}

fn waiting(id: &str, text: &str) -> QueuedMessageRow {
    QueuedMessageRow { id: id.into(), text: text.into(), is_text: true }
}

/// A busy moment: an answer comes in after a compaction, two tools run, two messages wait.
fn busy(columns: usize, rows: usize) -> String {
    let mut state = state(columns, rows);
    let mut above = String::new();
    let told = [
        UiEvent::Dequeued { count: 1 },
        UiEvent::User { text: "Please split lexer.rs into a module of its own.".into() },
        UiEvent::RunStarted,
        UiEvent::Text("I'll read the file first. ".into()),
        UiEvent::Answer { text: "I'll read the file first.".into(), cut: false },
        UiEvent::Call(call("1", "wc -l lexer.rs")),
        UiEvent::Started { id: "1".into() },
        UiEvent::Ended(ToolResultInfo {
            id: "1".into(),
            status: "completed".into(),
            text: "5310 lexer.rs\n[exit code 0]".into(),
            ..ToolResultInfo::default()
        }),
        UiEvent::Compacted(ViewEditInfo {
            id: "cmp_1".into(),
            strategy: "adaptive".into(),
            gone: RemovedMessages::from_message_count(41),
            before_tokens: 96_200,
            after_tokens: 11_400,
            undo: UndoOption::Newest,
            ..ViewEditInfo::default()
        }),
        UiEvent::Call(call("2", "cargo test")),
        UiEvent::Call(call("3", "cargo clippy --all-targets -- -D warnings")),
        UiEvent::Started { id: "2".into() },
        UiEvent::Started { id: "3".into() },
        UiEvent::Text("The tests fail because the lexer looks".into()),
    ];
    for happening in &told {
        state.take(happening, 1_000);
    }
    state.set_busy(true, false);
    state.set_queue(vec![waiting("a", "and this too"), waiting("b", "then run them all again")], 1_000);
    screen(&mut state, &mut above, 15_000)
}

#[test]
fn a_busy_moment_is_readable_at_a_glance() {
    insta::assert_snapshot!("busy_80x24", busy(80, 24));
    insta::assert_snapshot!("busy_40x12", busy(40, 12));
    insta::assert_snapshot!("busy_20x12", busy(20, 12));
}

#[test]
fn a_question_has_room_in_a_narrow_terminal() {
    for (columns, rows) in [(40, 12), (20, 12)] {
        let mut state = state(columns, rows);
        state.set_busy(true, false);
        state.set_asked(Some("bash"));
        let shown = screen(&mut state, &mut String::new(), 0);
        assert!(shown.contains("waits for you") && shown.contains("y/n/a › _"), "{shown}");
        type_in(&mut state, "n use the other folder");
        let shown = screen(&mut state, &mut String::new(), 0);
        assert!(shown.ends_with("folder_"), "{shown}");
    }
}

#[test]
fn what_is_typed_is_shown_between_words_and_the_cursor_is_where_it_is() {
    for (columns, rows) in [(80, 24), (40, 12)] {
        let mut state = state(columns, rows);
        type_in(&mut state, "A message of some length, which has no room in one row, ");
        state.act(KeyAction::Paste((0..120).map(|at| format!("line {at}\n")).collect()), 0);
        state.act(KeyAction::NewLine, 0);
        type_in(&mut state, "and a second line");
        state.act(KeyAction::WordLeft, 0);
        let shown = screen(&mut state, &mut String::new(), 0);
        insta::assert_snapshot!(format!("typing_{columns}x{rows}"), shown);
    }
}

#[test]
fn a_slash_offers_commands_and_the_keys_choose() {
    for (columns, rows) in [(80, 24), (40, 12)] {
        let mut state = state(columns, rows);
        type_in(&mut state, "/");
        state.act(KeyAction::Down, 0);
        let shown = screen(&mut state, &mut String::new(), 0);
        insta::assert_snapshot!(format!("offers_{columns}x{rows}"), shown);
        assert_eq!(state.act(KeyAction::Enter, 0), Some(UiCommand::Entered("/compact".into())));
    }
    let mut state = state(80, 24);
    type_in(&mut state, "/re");
    assert_eq!(state.act(KeyAction::Enter, 0), None, "it says nothing without words");
    type_in(&mut state, "heron");
    assert_eq!(state.act(KeyAction::Enter, 0), Some(UiCommand::Entered("/recall heron".into())));
    type_in(&mut state, "/nonsense");
    assert_eq!(state.act(KeyAction::Enter, 0), Some(UiCommand::Entered("/nonsense".into())));
}

#[test]
fn a_question_takes_the_input_and_gives_it_back() {
    let mut state = state(80, 24);
    state.set_busy(true, false);
    type_in(&mut state, "yes but");
    state.set_asked(Some("bash"));
    insta::assert_snapshot!("asked_80x24", screen(&mut state, &mut String::new(), 0));
    assert_eq!(state.act(KeyAction::Enter, 0), None, "nothing is no answer");
    type_in(&mut state, "n use the other folder");
    assert_eq!(state.act(KeyAction::Enter, 0), Some(UiCommand::Entered("n use the other folder".into())));
    state.set_asked(None);
    assert_eq!(
        state.act(KeyAction::Enter, 0),
        Some(UiCommand::Entered("yes but".into())),
        "what was being written"
    );
    assert_eq!(state.act(KeyAction::Up, 0), None);
    assert_eq!(
        state.act(KeyAction::Enter, 0),
        Some(UiCommand::Entered("yes but".into())),
        "answers are not history"
    );
}

#[test]
fn the_up_key_changes_what_was_queued_last_and_then_walks_the_history() {
    let mut state = state(80, 24);
    state.remember("earlier");
    state.set_queue(vec![waiting("a", "one"), waiting("b", "two")], 0);
    state.act(KeyAction::Up, 0);
    insta::assert_snapshot!("changing_80x24", screen(&mut state, &mut String::new(), 0));
    type_in(&mut state, " more");
    let wish = UiCommand::Change { id: "b".into(), text: "two more".into() };
    assert_eq!(state.act(KeyAction::Enter, 0), Some(wish));
    state.act(KeyAction::Up, 0);
    assert_eq!(state.act(KeyAction::Escape, 0), None, "left as it is");
    state.act(KeyAction::Up, 0);
    state.set_queue(vec![waiting("a", "one")], 0);
    assert_eq!(
        state.act(KeyAction::Enter, 0),
        Some(UiCommand::Entered("two".into())),
        "it was taken meanwhile"
    );
    state.set_queue(Vec::new(), 0);
    state.act(KeyAction::Up, 0);
    assert_eq!(state.act(KeyAction::Enter, 0), Some(UiCommand::Entered("two".into())));
    state.act(KeyAction::Up, 0);
    state.act(KeyAction::Up, 0);
    assert_eq!(state.act(KeyAction::Enter, 0), Some(UiCommand::Entered("earlier".into())));
}

#[test]
fn once_cancels_and_twice_leaves() {
    for key in [KeyAction::Interrupt, KeyAction::Escape] {
        let mut state = state(80, 24);
        state.set_busy(true, false);
        type_in(&mut state, "a draft");
        assert_eq!(state.act(key.clone(), 10_000), Some(UiCommand::Cancel));
        assert_eq!(state.act(key.clone(), 11_000), Some(UiCommand::Leave));
        assert_eq!(state.act(key.clone(), 20_000), Some(UiCommand::Cancel), "too late to be the second");
        state.set_busy(false, false);
        assert_eq!(state.act(key.clone(), 30_000), None, "what is written goes first");
        assert_eq!(
            state.act(KeyAction::DeleteOrLeave, 30_100),
            Some(UiCommand::Leave),
            "and the input is empty"
        );
        assert_eq!(state.act(key.clone(), 30_200), None);
        assert_eq!(state.act(key, 30_300), Some(UiCommand::Leave));
        state.act(KeyAction::Up, 30_400);
        assert_eq!(state.act(KeyAction::Enter, 30_500), Some(UiCommand::Entered("a draft".into())));
    }
    let mut state = state(80, 24);
    type_in(&mut state, "/c");
    assert_eq!(state.act(KeyAction::Escape, 0), None, "it closes the offers");
    assert_eq!(state.act(KeyAction::Enter, 0), Some(UiCommand::Entered("/c".into())), "and nothing else");
}

#[test]
fn a_backslash_at_the_end_makes_a_line() {
    let mut state = state(80, 24);
    type_in(&mut state, "one\\");
    assert_eq!(state.act(KeyAction::Enter, 0), None);
    type_in(&mut state, "two");
    assert_eq!(state.act(KeyAction::Enter, 0), Some(UiCommand::Entered("one\ntwo".into())));
    type_in(&mut state, "in C:\\\\");
    assert_eq!(state.act(KeyAction::Enter, 0), Some(UiCommand::Entered("in C:\\\\".into())));
    assert_eq!(state.act(KeyAction::Enter, 0), None, "nothing is no message");
}

#[test]
fn an_answer_goes_up_line_by_line_and_its_end_when_it_has_ended() {
    let mut state = state(40, 12);
    state.take(&UiEvent::Text("one two three four five six seven ".into()), 0);
    assert_eq!(state.finished(), "agent  one two three four five six\n");
    let view = screen(&mut state, &mut String::new(), 0);
    assert!(view.starts_with("       seven▍\n"), "{view}");
    state.take(&UiEvent::Answer { text: String::new(), cut: false }, 0);
    state.take(&UiEvent::RunEnded(RunEndInfo { end: "stop".into(), ..RunEndInfo::default() }), 0);
    assert_eq!(state.finished(), "       seven\n");
    assert!(!screen(&mut state, &mut String::new(), 0).contains('▍'));
}

#[test]
fn a_call_that_is_tried_again_counts_down() {
    let mut state = state(80, 24);
    let message = "the server is busy".to_owned();
    let limit = RetryLimit::Patience;
    state.take(&UiEvent::Retrying { message, attempt: 1, after_ms: 8_000, limit }, 1_000);
    for (now, left) in [(1_500, 8), (5_000, 5)] {
        let shown = screen(&mut state, &mut String::new(), now);
        assert!(shown.contains(&format!("trying again in {left} s · Esc stops")), "{shown}");
    }
}

#[test]
fn another_size_sets_everything_anew() {
    let mut state = state(80, 24);
    state.take(&UiEvent::Text("one two three four five six seven eight nine ten eleven ".into()), 0);
    type_in(&mut state, "some words that are typed and take more than forty columns");
    assert_eq!(state.finished(), "");
    for (columns, rows) in [(40, 12), (20, 6), (10, 3), (1, 1), (200, 60)] {
        state.resize(columns, rows);
        let view = state.view(0);
        assert!(usize::from(view.rows()) <= rows.max(2), "{columns}×{rows}: {}", view.rows());
    }
    state.resize(40, 12);
    insta::assert_snapshot!("resized_40x12", screen(&mut state, &mut String::new(), 0));
    state.take(&UiEvent::Text("twelve thirteen fourteen fifteen sixteen seventeen eighteen ".into()), 0);
    let rows = state.finished();
    assert!(rows.lines().skip(1).all(|line| line.chars().count() < 40), "{rows}");
}
