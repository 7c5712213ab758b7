//! Providers that report what is not so: once, and for good.

use longhaul_core::budget::{Budget, StrategyTrigger};
use longhaul_core::event::EventBody;
use longhaul_core::message::Role;
use longhaul_core::meter;
use longhaul_core::plan::{CompactionPolicy, Plan, PlanTrigger, plan};
use longhaul_core::strategy;

use crate::recorded::{Said, Session};

fn said(role: Role, tokens: usize) -> Said {
    Said { role, text: " word".repeat(tokens), calls: Vec::new(), answers: None }
}

/// What the provider reports in its `n`th call for so many tokens.
type Report = dyn Fn(usize, u64) -> u64;

/// A chat of so many calls. With a window, room is made in it.
fn chat(calls: usize, window: Option<u64>, report: &Report) -> (Session, usize) {
    let mut session = Session::new(500);
    let mut edits = 0;
    for call in 0..calls {
        session.say(&said(Role::User, 40 + call % 5));
        edits += usize::from(window.is_some_and(|window| makes_room(&mut session, window)));
        session.answer(&said(Role::Assistant, 60 + call % 7), |tokens| report(call, tokens));
    }
    session.say(&said(Role::User, 40));
    (session, edits)
}

fn makes_room(session: &mut Session, window: u64) -> bool {
    let strategy = strategy::by_name("truncation").expect("its name");
    let policy =
        CompactionPolicy { trigger: Some(StrategyTrigger::Overflow), ..CompactionPolicy::new(strategy) };
    let budget = Budget::new(window, None);
    match plan(&session.history, session.fixed, &budget, &policy, &PlanTrigger::Routine) {
        Plan::Edit(edit) => session.add(EventBody::ViewEdited(edit)),
        _ => return false,
    }
    true
}

/// A report that the next one takes back is no error of ours: ten calls later the bound is what it would have been.
#[test]
fn one_false_report_is_forgotten() {
    for at in [0, 1, 2, 5, 19, 20, 40] {
        for (times, of) in [(10, 1), (4, 1), (2, 1), (13, 10), (3, 4), (1, 2), (27, 100)] {
            let lie = move |call, tokens| if call == at { tokens * times / of } else { tokens };
            let (told, _) = chat(at + 11, None, &lie);
            let (honest, _) = chat(at + 11, None, &|_, tokens| tokens);
            let (told, honest) = (meter::read(&told.history, 500), meter::read(&honest.history, 500));
            assert_eq!(told, honest, "{times}/{of} at {at}");
        }
    }
}

/// The same where so large a report has the planner make room at once.
#[test]
fn one_false_report_is_forgotten_over_an_edit() {
    let mut seen = 0;
    for at in [10, 25, 40] {
        let lie = move |call, tokens| if call == at { tokens * 10 } else { tokens };
        let (told, edits) = chat(at + 11, Some(10_000), &lie);
        let (_, honest) = chat(at + 11, Some(10_000), &|_, tokens| tokens);
        seen += edits - honest;
        let reading = meter::read(&told.history, 500);
        let counted = 500 + told.history.view_tokens();
        assert!(reading.margin <= 0.011, "at {at}: {reading:?}");
        assert!(reading.total.abs_diff(counted) * 50 < counted, "at {at}: {reading:?} of {counted}");
    }
    assert!(seen > 0, "no room was made");
}

/// What stays as it was reported is no lie: a prompt that the server has put before all others, a vocabulary that costs
/// more from now on.
#[test]
fn what_lasts_stays_in_the_bound() {
    let prompt = |call, tokens| if call < 25 { tokens } else { tokens + 3_000 };
    let (session, _) = chat(60, None, &prompt);
    assert!(meter::read(&session.history, 500).margin > 0.2);
    let vocabulary = |call: usize, tokens: u64| tokens + 40 * (call as u64).saturating_sub(25) * 3;
    let (session, _) = chat(30, None, &vocabulary);
    let reading = meter::read(&session.history, 500);
    assert!(reading.margin > 0.02, "{reading:?}");
}

/// One count that was false and one that is true may come in a run of errors: only the false one goes.
#[test]
fn an_error_between_two_exact_reports_counts() {
    let (session, _) = chat(60, None, &|call, tokens| tokens + if call < 30 { 0 } else { 700 });
    let worst = session.history.errors_per_mille().min().expect("errors");
    assert!(worst < -100, "{worst}");
}

/// The errors of the meter before each of so many calls, each counted by the server before it as `count` says.
fn counted(calls: usize, count: impl Fn(usize, u64) -> u64) -> Vec<i64> {
    let mut session = Session::new(500);
    let mut errors = Vec::new();
    for call in 0..calls {
        session.say(&said(Role::User, 40 + call % 5));
        let tokens = session.fixed + session.history.view_tokens();
        session.add(EventBody::InputCounted { tokens: count(call, tokens), fixed_tokens: session.fixed });
        errors.push(meter::read(&session.history, session.fixed).total as i64 - tokens as i64);
        session.answer(&said(Role::Assistant, 60 + call % 7), |tokens| tokens);
    }
    errors
}

/// A count that leaves the tools out each time is off once: what it leaves out is added from then on.
#[test]
fn what_a_count_leaves_out_each_time_is_added_to_it() {
    let errors = counted(30, |_, tokens| tokens - 400);
    assert_eq!(errors[0], -400, "nothing contradicts it yet");
    assert!(errors[1..].iter().all(|error| error.abs() <= 1), "{errors:?}");
}

/// A count that says less than was reported of the same beginning is not used, whatever it is.
#[test]
fn a_count_below_what_was_reported_is_not_used() {
    let errors = counted(
        30,
        |call, tokens| if call == 0 { tokens } else { tokens * (30 + call as u64 * 37 % 40) / 100 },
    );
    assert!(errors.iter().all(|error| error.unsigned_abs() < 100), "{errors:?}");
}
