//! Sessions as people have them, by every strategy.

use longhaul_core::budget::StrategyTrigger;
use longhaul_core::event::RunEnd;
use longhaul_core::message::Part;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy;

use crate::stage::{Stage, call, settings};

fn policy(name: &str) -> CompactionPolicy {
    CompactionPolicy::new(strategy::by_name(name).expect("a strategy of that name"))
}

/// About 400 tokens.
fn answer(at: usize) -> String {
    format!("Answer {at}: {}", "the value is what it was before ".repeat(57))
}

#[test]
fn a_hundred_queries_keep_the_view_short() {
    let policy = CompactionPolicy { trigger: Some(StrategyTrigger::Tokens(28_000)), ..policy("truncation") };
    let mut stage = Stage::chat(settings(32_000, 1_000, policy), answer);
    for query in 0..100 {
        assert_eq!(stage.say(&format!("Query {query}: what is the value?")), RunEnd::Stop);
    }
    let longest = stage.messages.iter().max().copied().unwrap_or(0);
    let at_end = stage.run.history().view().len();
    assert!(at_end < 100, "{at_end} messages in the view after 200 were said");
    assert!(!stage.edits().is_empty() && stage.edits().iter().all(|edit| edit.compressed_messages <= 12));
    assert!(longest < 200, "{longest}");
}

#[test]
fn a_chat_of_fifty_turns() {
    for name in strategy::NAMES {
        let mut stage = Stage::chat(settings(12_000, 600, policy(name)), answer);
        for turn in 0..50 {
            let said = format!("Turn {turn}: and what about case {turn}?");
            assert_eq!(stage.say(&said), RunEnd::Stop, "{name}");
            assert!(stage.shown().contains(&said), "{name}: the newest message stays verbatim");
        }
        assert!(!stage.edits().is_empty(), "{name}");
    }
}

#[test]
fn a_book_of_twenty_chapters_is_edited() {
    for name in strategy::NAMES {
        // Each chapter is read, then written anew.
        let script = |at: usize| {
            let chapter = at / 3;
            match at % 3 {
                0 => vec![call("read", &format!("{{\"path\":\"book/chapter-{chapter}.md\"}}"))],
                1 => vec![call(
                    "edit",
                    &format!("{{\"path\":\"book/chapter-{chapter}.md\",\"text\":\"better\"}}"),
                )],
                _ => vec![Part::text(format!("Chapter {chapter} is done."))],
            }
        };
        let mut stage = Stage::new(settings(16_000, 900, policy(name)), Box::new(script));
        stage.tool_output = Box::new(|call| match call.name.as_str() {
            "read" => "It was a dark and stormy night. ".repeat(250),
            _ => "written".to_owned(),
        });
        for chapter in 0..20 {
            let said = format!("Edit chapter {chapter}. Never change names.");
            assert_eq!(stage.say(&said), RunEnd::Stop, "{name}");
        }
        assert_eq!(stage.calls.len(), 60, "{name}");
        assert!(!stage.edits().is_empty(), "{name}");
        if *name == "adaptive" {
            let shown = stage.shown();
            assert!(shown.contains("book/chapter-0.md"), "the first path is still there");
            assert!(shown.contains("Never change names."), "the rule is still there");
        }
    }
}

#[test]
fn many_files_are_reviewed_in_one_turn() {
    for name in strategy::NAMES {
        let script = |at: usize| match at {
            0..40 => vec![
                Part::text(format!("File {at} has one flaw: E{at:04}.")),
                call("read", &format!("{{\"path\":\"src/part_{at}.rs\"}}")),
            ],
            _ => vec![Part::text("The review is done.")],
        };
        let mut stage = Stage::new(settings(20_000, 1_200, policy(name)), Box::new(script));
        stage.tool_output = Box::new(|_| "fn part() { todo!() }\n".repeat(120));
        assert_eq!(stage.say("Review every file. Do not edit."), RunEnd::Stop, "{name}: {:?}", stage.error());
        assert_eq!(stage.calls.len(), 41, "{name}");
        assert!(stage.shown().contains("Review every file. Do not edit."), "{name}");
    }
}
