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
        for occasion in [PlanTrigger::Routine, PlanTrigger::Overflow] {
            let mut log = summarised_before();
            let edit = match log.plan(&budget, &policy(name), &occasion) {
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
                without_summary(&log.history, log.fixed, &Budget::new(3_000, None), &policy(name), &occasion);
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
