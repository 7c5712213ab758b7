//! A client's system message in the middle of a conversation is in every view, whatever strategy shortens the view.

use longhaul_core::budget::Budget;
use longhaul_core::event::{EventBody, NoteReason};
use longhaul_core::message::{Message, Part, Role};
use longhaul_core::plan::{CompactionPolicy, SummaryWriterModel};
use longhaul_core::strategy;

use crate::recorded::{Said, Session};
use crate::windows::{Seen, step};

const WINDOW_TOKENS: u64 = 16_000;

/// Has a conversation of many windows with a system message near its beginning. The view must show all of `shown` at
/// every step.
fn outlasts_compactions(message: &str, shown: &[&str], writer: Option<SummaryWriterModel>) {
    let said = |role, text: String| Said { role, text, calls: Vec::new(), answers: None };
    for name in strategy::NAMES {
        let mut policy = CompactionPolicy::new(strategy::by_name(name).expect("its name"));
        policy.writer = writer.unwrap_or(policy.writer);
        let budget = Budget::new(WINDOW_TOKENS, None);
        let (mut session, mut seen) = (Session::new(1_000), Seen::default());
        for turn in 0..300 {
            session.say(&said(Role::User, format!("Question {turn}? {}", "stone ".repeat(30))));
            step(&mut session, &budget, &policy, &mut seen);
            session.say(&said(Role::Assistant, format!("Answer{turn}.{}", " word".repeat(250))));
            step(&mut session, &budget, &policy, &mut seen);
            if turn == 1 {
                let message = Message::user("system", vec![Part::text(message)]);
                session.add(EventBody::NoteAdded { message, why: NoteReason::SystemMessage });
            }
            let texts: Vec<String> = session.history.view().iter().map(|item| item.message.text()).collect();
            let view = texts.join("\n");
            for text in shown.iter().filter(|_| turn >= 1) {
                assert!(view.contains(text), "{name}, turn {turn}: {text} is not in {view}");
            }
        }
        assert!(seen.edits() >= 3, "{name}: {} edits", seen.edits());
    }
}

#[test]
fn a_system_message_is_shown_whole_after_every_compaction() {
    let rule = "House rule 7c:\n\nanswer in Latin, and sign with \"Vale\".";
    outlasts_compactions(rule, &[rule], None);
}

#[test]
fn a_system_message_outlasts_extracts_too() {
    let rule = "House rule 7c:\n\nanswer in Latin, and sign with \"Vale\".";
    outlasts_compactions(rule, &[rule], Some(SummaryWriterModel::Nobody));
}

#[test]
fn a_system_message_longer_than_a_quarter_of_the_window_keeps_both_ends() {
    let long = format!("Rule one is Latin.\n{}\nRule nine is Greek.", "filler ".repeat(6_000));
    outlasts_compactions(&long, &["Rule one is Latin.", "Rule nine is Greek."], None);
}
