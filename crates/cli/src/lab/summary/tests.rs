//! The content and the limit of the stand-in.

use std::path::PathBuf;
use std::sync::Arc;

use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::history::LogEntryKind;
use longhaul_core::message::{Message, Part, Role, TextPart, ToolCall, ToolResult, ToolStatus};

use super::*;

fn recorded(role: Role, kind: LogEntryKind, parts: Vec<Part>, text: &str) -> RecordedMessage {
    let message = Message { id: "m".into(), role, parts, origin: None };
    let tokens = MessageTokenCounter::default().message(&message);
    RecordedMessage { seq: 1, at: None, message: Arc::new(message), kind, tokens, text: text.into() }
}

fn typed(text: &str) -> RecordedMessage {
    recorded(Role::User, LogEntryKind::Typed, vec![Part::text(text)], text)
}

fn said(text: &str, path: &str) -> RecordedMessage {
    let call = Part::ToolCall(ToolCall {
        call_id: "c".into(),
        name: "read".to_owned(),
        arguments: format!(r#"{{"path":"{path}"}}"#),
        provider_id: None,
        native: None,
    });
    let text_part = Part::Text(TextPart { text: text.to_owned(), native: None });
    recorded(Role::Assistant, LogEntryKind::Assistant(None), vec![text_part, call], text)
}

fn result(text: &str) -> RecordedMessage {
    let result = Part::ToolResult(ToolResult {
        call_id: "c".into(),
        status: ToolStatus::Completed,
        content: vec![Part::text(text)],
        truncated: None,
    });
    recorded(Role::Tool, LogEntryKind::Result { tool: "read".to_owned() }, vec![result], text)
}

fn conversation() -> Vec<RecordedMessage> {
    vec![
        typed("Build the parser.\nNever touch the public interface."),
        said("We will use a table instead of recursion.", "src/parser.rs"),
        result("ok\nerror: unexpected end of file\nok"),
        said("The parser compiles now.", "src/lib.rs"),
    ]
}

#[test]
fn keeps_goal_constraints_files_errors_decisions_and_state() {
    let texts = conversation();
    let summary = stand_in_summary(&texts.iter().collect::<Vec<_>>(), 1_000, &MessageTokenCounter::default());
    assert_eq!(
        summary,
        "Goal:\n- Build the parser.\nConstraints:\n- Never touch the public interface.\nFiles:\n- src/parser.rs (read)\n\
         - src/lib.rs (read)\nErrors:\n- error: unexpected end of file\nDecisions:\n- We will use a table instead of \
         recursion.\nState:\n- The parser compiles now.\n"
    );
}

#[test]
fn never_exceeds_its_limit_and_prefers_the_newest() {
    let counter = MessageTokenCounter::default();
    let texts: Vec<RecordedMessage> =
        (0..200).map(|at| said("Working.", &format!("src/file_{at}.rs"))).collect();
    let texts: Vec<&RecordedMessage> = texts.iter().collect();
    for limit in [0, 1, 10, 64, 200, 999] {
        let summary = stand_in_summary(&texts, limit, &counter);
        assert!(counter.text(&summary) <= limit, "{limit}: {summary}");
    }
    let summary = stand_in_summary(&texts, 200, &counter);
    assert!(summary.contains("src/file_199.rs") && !summary.contains("src/file_0.rs"), "{summary}");
    assert!(counter.text(&summary) > 150, "the room is used: {summary}");
}

#[test]
fn an_earlier_summary_is_carried_on() {
    let counter = MessageTokenCounter::default();
    let texts = conversation();
    let first = stand_in_summary(&texts.iter().collect::<Vec<_>>(), 1_000, &counter);
    let first = recorded_summary(&first, Role::User, &counter);
    let newer = typed("Now write the tests. You must not use the network.");
    let second = stand_in_summary(&[&first, &newer], 1_000, &counter);
    for line in [
        "Never touch the public interface.",
        "Now write the tests.",
        "src/parser.rs (read)",
        "error: unexpected",
    ] {
        assert!(second.contains(line), "{line} in {second}");
    }
    assert_eq!(second.matches("Goal:").count(), 1);
}

#[test]
fn lengths_follow_what_is_covered_and_the_limit() {
    assert_eq!(length_tokens(100_000, None), TYPICAL_TOKENS);
    assert_eq!(length_tokens(100_000, Some(500)), 500);
    assert_eq!(length_tokens(2_000, None), 500);
    assert_eq!(length_tokens(10, None), 64);
}

/// The assumption about lengths is measured on the summaries of a recorded session.
#[test]
fn the_typical_length_is_that_of_recorded_summaries() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/trajectories");
    let path = root.join("badlogic__pi-mono/before-compaction.jsonl");
    let Ok(text) = std::fs::read_to_string(&path) else {
        assert!(std::env::var_os("LONGHAUL_REQUIRE_FIXTURES").is_none(), "{} is missing", path.display());
        eprintln!("skipped: {} is absent", path.display());
        return;
    };
    let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let compactions = lines.filter(|line| line["type"] == "compaction");
    let lengths: Vec<u64> = compactions
        .filter_map(|line| Some(MessageTokenCounter::default().text(line["summary"].as_str()?)))
        .collect();
    let mean = lengths.iter().sum::<u64>() / lengths.len() as u64;
    assert_eq!(lengths.len(), 2);
    assert!(mean.abs_diff(TYPICAL_TOKENS) <= 50, "{lengths:?}");
}
