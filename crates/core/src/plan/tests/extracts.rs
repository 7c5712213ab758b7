//! Extracts that stand where no model has written a summary.

use super::*;

#[test]
fn the_extract_keeps_words_of_the_user_files_and_errors() {
    let mut log = Log::new();
    log.typed("never touch Cargo.lock");
    log.step("read", 2_600);
    let result = crate::history::closing_result(&"x".into(), ToolStatus::Error, "error[E0308]: mismatched");
    log.answer(vec![Part::ToolCall(ToolCall {
        call_id: "x".into(),
        name: "bash".to_owned(),
        arguments: "{\"command\":\"cargo check\"}".to_owned(),
        provider_id: None,
        native: None,
    })]);
    log.add(EventBody::ToolFinished { result });
    log.say("I shall mend it");
    for turn in 0..2 {
        log.typed(&format!("turn {turn}"));
        log.step("read", 900);
    }
    let plan = log.plan(&Budget::new(8_000, None), &policy("reactive-overflow"), &PlanTrigger::Overflow);
    let edit = draft(plan).finish_extractive(&log.history).unwrap();
    log.commit(&edit);
    let summary = log.history.view()[0].message.text();
    for kept in ["never touch Cargo.lock", "src/main.rs", "error[E0308]", "cargo check", "mend it"] {
        assert!(summary.contains(kept), "{kept}: {summary}");
    }
}

#[test]
fn an_extract_fills_half_of_what_quotes_leave_below_the_line() {
    for name in ["reactive-overflow", "pruning-agent", "summarization", "proactive-threshold"] {
        let mut log = talk(30, 150);
        let draft = draft(log.routine(12_000, &policy(name)));
        // With the expected error of an estimate.
        let (floor, line) = (draft.floor_tokens() * 11 / 10, draft.trigger_tokens());
        // A summary might have had more.
        let limit = floor + (draft.limit_tokens() + 64) * 11 / 10;
        // Quotes of the user take half of what is free, the extract half of the rest.
        let half = (floor + (line - floor) * 3 / 4).max(limit);
        let edit = draft.finish_extractive(&log.history).unwrap();
        assert!(
            edit.compressed_bound <= half + half / 32 + 64,
            "{name}: {} of {half}",
            edit.compressed_bound
        );
        assert!(edit.compressed_bound * 10 > half * 8, "{name}: {} of {half}", edit.compressed_bound);
        log.commit(&edit);
        let shown = log.shown();
        let kept = (0..30).filter(|turn| shown.contains(&format!("answer{turn} word"))).count();
        assert!(kept > 7, "{name}: {kept} answers\n{shown}");
    }
}

#[test]
fn an_extract_of_extracts_keeps_what_it_can_without_nesting() {
    let mut log = talk(30, 150);
    for round in 0..4 {
        let draft = draft(log.routine(12_000, &policy("reactive-overflow")));
        let edit = draft.finish_extractive(&log.history).unwrap();
        log.commit(&edit);
        let summary = log.history.view()[0].message.text();
        assert_eq!(summary.matches(MARK).count(), 1, "{summary}");
        for title in ["What was said last, word for word", "Earlier summary"] {
            assert!(summary.matches(title).count() <= 1, "{round}: {summary}");
        }
        for turn in 0..20 {
            log.typed(&format!("more{turn} {}", "word ".repeat(200)));
            log.say("yes");
        }
    }
}

#[test]
fn an_extract_has_no_room_for_acknowledgements() {
    let mut log = Log::new();
    log.typed("Let us begin.");
    log.say("The parser fails on nested quotes.");
    for turn in 0..60 {
        log.typed(&format!("note {turn}: {}", "word ".repeat(100)));
        log.say("Noted and recorded.");
    }
    let draft = draft(log.routine(8_000, &policy("reactive-overflow")));
    log.commit(&draft.finish_extractive(&log.history).unwrap());
    let summary = log.history.view()[0].message.text();
    assert!(summary.contains("assistant: The parser fails on nested quotes."), "{summary}");
    assert!(!summary.contains("Noted and recorded."), "{summary}");
}
