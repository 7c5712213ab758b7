//! Summaries of earlier compactions.

use super::*;

/// A view that is full again and begins with a summary that a model wrote.
fn summarised_before() -> Log {
    let mut log = talk(16, 150);
    let draft =
        draft(log.plan(&Budget::new(8_000, None), &policy("reactive-overflow"), &PlanTrigger::Overflow));
    log.commit(&finished(&log, draft, EARLIER).unwrap());
    assert!(log.shown().contains(EARLIER));
    for turn in 30..46 {
        log.typed(&format!("question{turn} {}", "word ".repeat(150)));
        log.say(&format!("answer{turn} {}", "word ".repeat(150)));
    }
    log
}

const EARLIER: &str = "Goal: carry the amber lantern to question3 and question4\nDecisions: answer5 stands, as agreed with Ilse\n\
    Errors: E4711 in deploy/plan.toml, mended in deploy/hosts.toml\nNext steps: answer9 is to be read again, then RELEASE-77";

#[test]
fn no_edit_drops_the_summary_that_a_model_wrote() {
    let budget = Budget::new(8_000, None);
    for name in
        ["truncation", "middle-removal", "importance", "reactive-overflow", "summarization", "adaptive"]
    {
        for trigger in [PlanTrigger::Routine, PlanTrigger::Overflow] {
            let mut log = summarised_before();
            let edit = match log.plan(&budget, &policy(name), &trigger) {
                Plan::Edit(edit) => *edit,
                Plan::Summarise(draft) => {
                    if let Ok(bare) = draft.finish_bare(&log.history) {
                        let mut after = Log { history: log.history.clone(), fixed: log.fixed };
                        after.commit(&bare);
                        assert!(after.shown().contains("amber lantern"), "{name}: {}", after.shown());
                    }
                    draft.finish_extractive(&log.history).unwrap()
                }
                other => panic!("{name}: {other:?}"),
            };
            log.commit(&edit);
            assert!(log.shown().contains(EARLIER), "{name}: {}\n{}", edit.why, log.shown());
            // And the one after that, and the last resort.
            let last =
                without_summary(&log.history, log.fixed, &Budget::new(3_000, None), &policy(name), &trigger);
            if let Plan::Edit(last) = last {
                log.commit(&last);
                let is_said = last.why.contains(crate::plan::earlier_summary::SHORTENED);
                assert!(log.shown().contains(EARLIER) || is_said, "{name}: {}\n{}", last.why, log.shown());
            }
        }
    }
}

#[test]
fn the_next_summary_is_asked_to_carry_the_last_on() {
    let log = summarised_before();
    for window in [8_000, 3_400] {
        let mut draft =
            draft(log.plan(&Budget::new(8_000, None), &policy("reactive-overflow"), &PlanTrigger::Overflow));
        let budget = Budget::new(window, None);
        let (mut calls, mut last) = (0, String::new());
        while let Some(request) = draft.request(log.history.view(), &budget) {
            let text: String = request.messages.iter().map(|message| message.text()).collect();
            assert!(calls > 0 || text.contains(EARLIER), "{window}: {text}");
            calls += 1;
            last = format!("{} Errors: E4711 in deploy/plan.toml.", good_for(&text));
            draft.take(said(&last)).unwrap();
        }
        assert!(calls > usize::from(window < 8_000), "{window}: {calls}");
        let edit = draft.finish(&log.history).unwrap();
        assert!(format!("{:?}", edit.ops).contains("deploy/plan.toml"), "{last}");
    }
}

/// A session that goes on after a client's compaction: a summary of another log, then turns.
fn continued_from(summary: &str, is_note: bool) -> Log {
    let mut log = Log::new();
    let message = Message::user("m", vec![Part::text(summary)]);
    log.add(if is_note {
        EventBody::NoteAdded { message, why: crate::event::NoteReason::Imported }
    } else {
        EventBody::message_taken(message)
    });
    for turn in 0..24 {
        log.typed(&format!("question{turn} {}", "word ".repeat(150)));
        log.say(&format!("answer{turn} {}", "word ".repeat(150)));
    }
    log
}

#[test]
fn the_next_edit_keeps_what_an_imported_summary_quotes() {
    use crate::retention::user_text::{ORDERS_TITLE, TITLE};
    let head = format!("{MARK} of 28 earlier messages: lh:2-29");
    let orders = format!("{ORDERS_TITLE}\n- o1: Never push to main without asking me.");
    let quotes = format!(
        "{TITLE}\n[1] Port the parser src/parser.rs for ticket 4711.\n    Always use tabs.\n[14] step 12"
    );
    let facts = "Files read, newest last:\n- src/lexer.rs";
    let summary = format!("{head}\n\n{orders}\n\n{quotes}\n\n{facts}\n\nGoal: port src/parser.rs with Ilse");
    for (name, is_note) in
        [("adaptive", true), ("adaptive", false), ("reactive-overflow", true), ("summarization", true)]
    {
        let mut log = continued_from(&summary, is_note);
        let edit = match log.plan(&Budget::new(8_000, None), &policy(name), &PlanTrigger::Overflow) {
            Plan::Edit(edit) => *edit,
            Plan::Summarise(draft) => draft.finish_extractive(&log.history).unwrap(),
            other => panic!("{name}: {other:?}"),
        };
        log.commit(&edit);
        // The edit after the next has no imported message in the view, only in the log.
        for turn in 50..74 {
            log.typed(&format!("question{turn} {}", "word ".repeat(150)));
            log.say(&format!("answer{turn} {}", "word ".repeat(150)));
        }
        for round in 0..2 {
            let shown = log.shown();
            for kept in [
                "Port the parser src/parser.rs",
                "Always use tabs.",
                "Never push to main",
                "src/lexer.rs",
                "with Ilse",
            ] {
                assert!(shown.contains(kept), "{name} {round}: {kept} {shown}");
            }
            assert!(!shown.contains("lh:2-29"), "a handle of another log leads nowhere: {shown}");
            if round == 0 {
                let last = log.plan(&Budget::new(8_000, None), &policy(name), &PlanTrigger::Overflow);
                let last = match last {
                    Plan::Edit(edit) => *edit,
                    Plan::Summarise(draft) => draft.finish_extractive(&log.history).unwrap(),
                    other => panic!("{name}: {other:?}"),
                };
                log.commit(&last);
            }
        }
    }
}

/// A newest result that no model has read goes before the second half of an earlier summary.
#[test]
fn a_whole_newest_result_shortens_the_earlier_summary_first() {
    let budget = Budget::new(8_000, None);
    let notes = (0..65).map(|at| format!("- note{at}: person{at} has the lantern of day{at}\n"));
    let earlier = format!("{EARLIER}\n{}", notes.collect::<String>());
    for name in ["adaptive", "reactive-overflow", "truncation"] {
        let mut log = talk(16, 150);
        let draft = draft(log.plan(&budget, &policy("reactive-overflow"), &PlanTrigger::Overflow));
        log.commit(&finished(&log, draft, &earlier).unwrap());
        log.typed("Read the file.");
        assert!(log.bound() < budget.usable && log.shown().contains("note64"), "{name}: {}", log.bound());
        // With the margin of a tenth the result fits beside half of the summary, and not beside all of it.
        let beside = 350 + log.history.counter().text(&earlier) * 6 / 10;
        let newest = (budget.usable * 10 / 11 - beside) as usize;
        log.step("read", newest);
        for _ in 0..3 {
            match log.plan(&budget, &policy(name), &PlanTrigger::Routine) {
                Plan::Fits => break,
                Plan::Edit(edit) => log.commit(&edit),
                Plan::Summarise(draft) => log.commit(&draft.finish_extractive(&log.history).unwrap()),
                other => panic!("{name}: {other:?}"),
            }
        }
        let shown = log.shown();
        assert!(log.bound() < budget.usable, "{name}: {}", log.bound());
        assert!(shown.contains(" word".repeat(newest).trim()), "{name}: the result is whole");
        assert!(shown.contains("amber lantern"), "{name}: the summary keeps its beginning: {shown:.400}");
    }
}
