//! `middle-removal`: valid, the first task stays, the room is used.

use std::path::Path;

use longhaul_core::budget::{Budget, StrategyTrigger};
use longhaul_core::event::{EventBody, ViewEdit};
use longhaul_core::history::{History, ViewItem, ViewItemKind, request_messages};
use longhaul_core::message::{Part, Role};
use longhaul_core::meter;
use longhaul_core::plan::{CompactionPolicy, Plan, PlanTrigger, plan};
use longhaul_core::strategy;
use proptest::prelude::*;

use crate::recorded::{self, Said, Session};
use crate::rng::Rng;
use crate::{pool, validity};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures/trajectories");

const WINDOWS: [u64; 9] = [4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 200_000, 400_000, 1_000_000];

/// The counts of observed cases, so that a test that observes none fails.
#[derive(Debug, Default)]
struct Seen {
    edits: usize,
    removals: usize,
    /// Edits after which the first task had to be there.
    tasks: usize,
    /// Edits after which the budget had to be used.
    measured: usize,
    /// The least share of the budget that was used then, in per mille.
    least: u64,
}

/// Plans once and commits; what must hold does.
fn step(session: &mut Session, window: u64, seen: &mut Seen) {
    let policy = CompactionPolicy::new(strategy::by_name("middle-removal").expect("its name"));
    let budget = Budget::new(window, None);
    let Plan::Edit(edit) = plan(&session.history, session.fixed, &budget, &policy, &PlanTrigger::Routine)
    else {
        let bound = meter::read(&session.history, session.fixed).bound();
        assert!(
            bound <= budget.usable || !ends_fit(&session.history, session.fixed, budget.usable),
            "{bound} of {window}: nothing is done"
        );
        return;
    };
    let before = session.history.clone();
    session.add(EventBody::ViewEdited(edit.clone()));
    check(&before, session, &edit, seen);
}

/// What a cleared result still takes, in tokens.
const PLACEHOLDER_TOKENS: u64 = 40;

/// Whether no single message is larger than a tenth of `keep` tokens, by the meter; a call counts with what it costs to
/// clear its results, because it cannot stay without them.
fn all_are_small(history: &History, keep: u64) -> bool {
    let least = |item: &ViewItem| item.tokens + item.message.tool_calls().count() as u64 * PLACEHOLDER_TOKENS;
    // The meter is up to an eighth above the count until a provider has reported some calls.
    history.view().iter().all(|item| least(item) * 9 / 8 <= keep / 10)
}

/// Whether the first task and the newest leave room for a note.
fn ends_fit(history: &History, fixed: u64, keep: u64) -> bool {
    let mut typed =
        history.view().iter().filter(|item| item.kind == ViewItemKind::Typed).map(|item| item.tokens);
    let ends = typed.next().unwrap_or(0) + typed.next_back().unwrap_or(0);
    (fixed + ends) * 9 / 8 + 100 < keep
}

fn shows(history: &History, parts: &[Part]) -> bool {
    request_messages(history.view()).first().is_some_and(|message| message.parts.starts_with(parts))
}

fn check(before: &History, session: &Session, edit: &ViewEdit, seen: &mut Seen) {
    seen.edits += 1;
    seen.removals +=
        usize::from(session.history.view().iter().any(|item| matches!(item.kind, ViewItemKind::Removed(_))));
    let messages = request_messages(session.history.view());
    if messages.last().is_some_and(|last| last.role != Role::Assistant) {
        validity::check(&messages).expect("a valid request");
    }
    let keep = edit.trigger_tokens;
    let small = all_are_small(before, keep);
    let first = session.history.entries().iter().find(|entry| entry.message.role == Role::User);
    let first = &first.expect("a task").message.parts;
    // The last resort keeps the newest step before the first task, which it quotes.
    let is_own = edit.strategy == "middle-removal";
    if is_own && shows(before, first) && ends_fit(before, session.fixed, keep) {
        assert!(shows(&session.history, first), "the first task is gone: {edit:?}");
        seen.tasks += 1;
    }
    let bound = meter::read(&session.history, session.fixed).bound();
    assert!(bound < keep, "{bound} of {keep}");
    assert!(bound.abs_diff(edit.compressed_bound) <= 1, "{bound} {edit:?}");
    if small {
        let used = bound * 1_000 / keep;
        assert!(used >= 900, "{used} per mille of {keep} used: {edit:?}");
        seen.least = if seen.measured == 0 { used } else { seen.least.min(used) };
        seen.measured += 1;
    }
}

/// Every history once, in every window.
fn at_once(said: &[Said], seen: &mut Seen) {
    let whole = Session::of(said);
    for window in WINDOWS {
        let mut session = Session { history: whole.history.clone(), fixed: whole.fixed };
        step(&mut session, window, seen);
    }
}

/// As it grows, planned before every step.
fn growing(said: &[Said], window: u64, seen: &mut Seen) {
    let mut session = Session::new(window / 20);
    for one in said {
        if one.role == Role::Assistant && !session.history.view().is_empty() {
            step(&mut session, window, seen);
        }
        session.say(one);
    }
}

fn recorded(of: fn(&Path) -> Option<Vec<Said>>, test: &str) -> Option<Vec<Said>> {
    let said = of(FIXTURES.as_ref());
    if said.is_none() {
        eprintln!("{test}: skipped, the recorded fixtures are absent");
    }
    said
}

#[test]
fn airline_runs_in_every_window() {
    let Some(all) = recorded(recorded::airline, "airline_runs_in_every_window") else { return };
    let mut seen = Seen::default();
    for size in [200, 2_000, 10_000] {
        at_once(&recorded::repeated(&all, size), &mut seen);
    }
    for window in [4_000, 16_000, 64_000] {
        growing(&recorded::repeated(&all, 2_000), window, &mut seen);
    }
    println!("airline: {seen:?}");
    assert!(seen.edits > 20 && seen.removals > 15 && seen.tasks > 20 && seen.measured > 15, "{seen:?}");
}

#[test]
fn a_coding_session_in_every_window() {
    let Some(all) = recorded(recorded::coding, "a_coding_session_in_every_window") else { return };
    let mut seen = Seen::default();
    for size in [200, 2_000, 10_000] {
        at_once(&recorded::repeated(&all, size), &mut seen);
    }
    for window in [4_000, 32_000, 128_000, 400_000] {
        growing(&recorded::repeated(&all, 2_000), window, &mut seen);
    }
    println!("coding: {seen:?}");
    assert!(seen.edits > 20 && seen.removals > 15 && seen.tasks > 20 && seen.measured > 5, "{seen:?}");
}

/// A session whose messages are at most a tenth of what may be kept, mostly: small and large by order of magnitude.
fn random(seed: u64, window: u64) -> Vec<Said> {
    let mut rng = Rng::new(seed);
    let keep = Budget::new(window, None).usable.min(window * 4 / 5);
    let largest = keep * rng.between(5, 110) / 1_000;
    let (typed, calls) = (rng.between(1, 40), rng.between(0, 4));
    let mut total = 0;
    let mut said = Vec::new();
    let mut text = |rng: &mut Rng| {
        let bytes = rng.magnitude(8, (largest * 4).max(16));
        total += bytes / 4;
        (pool::text(rng, bytes as usize).to_owned(), total)
    };
    loop {
        let is_typed = said.is_empty() || rng.chance(typed);
        let (words, total) = text(&mut rng);
        let plain = |role| Said { role, text: words.clone(), calls: Vec::new(), answers: None };
        if is_typed {
            if total > keep * 3 / 2 || said.len() > 4_000 {
                said.push(plain(Role::User));
                return said;
            }
            said.push(plain(Role::User));
            continue;
        }
        let step = said.len();
        let ids: Vec<String> = (0..rng.below(calls + 1)).map(|at| format!("c{step}-{at}")).collect();
        let call = |id: &String| (id.clone(), "read".to_owned(), "{\"path\":\"src/a.rs\"}".to_owned());
        said.push(Said { calls: ids.iter().map(call).collect(), ..plain(Role::Assistant) });
        for id in ids {
            let answers = Some((id, "read".to_owned()));
            said.push(Said { role: Role::Tool, text: text(&mut rng).0, calls: Vec::new(), answers });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(crate::cases(150)) })]

    #[test]
    fn any_session_keeps_both_ends_and_uses_its_room(seed in any::<u64>(), at in 0..5_usize, fixed in any::<bool>()) {
        let window = WINDOWS[at];
        let said = random(seed, window);
        let mut seen = Seen::default();
        let mut once = Session::new(if fixed { window / 20 } else { 0 });
        said.iter().for_each(|one| once.say(one));
        step(&mut once, window, &mut seen);
        growing(&said, window, &mut seen);
        prop_assert!(seen.edits > 0);
    }
}

#[test]
fn the_newest_step_comes_back_without_its_results() {
    let said =
        |role, tokens: usize| Said { role, text: " word".repeat(tokens), calls: Vec::new(), answers: None };
    let mut session = Session::new(0);
    session.say(&said(Role::User, 20));
    for at in 0..12 {
        let call = (format!("c{at}"), "read".to_owned(), "{}".to_owned());
        session.say(&Said { calls: vec![call], ..said(Role::Assistant, 10) });
        let answers = Some((format!("c{at}"), "read".to_owned()));
        session.say(&Said { answers, ..said(Role::Tool, if at == 11 { 5_000 } else { 200 }) });
    }
    let mut seen = Seen::default();
    step(&mut session, 5_000, &mut seen);
    let newest = session.history.view().last().expect("a result");
    assert!(matches!(&newest.kind, ViewItemKind::Result { cleared: Some(_), .. }), "{newest:?}");
    let first = &session.history.view()[0];
    assert_eq!(first.message.parts, [Part::text(" word".repeat(20))]);
}

/// Where the room is full although the view has hardly grown since the last edit, another is worth it: it wins as much as
/// the view must grow by, otherwise.
#[test]
fn no_edit_after_an_edit_wins_next_to_nothing() {
    let said =
        |role, tokens: usize| Said { role, text: " word".repeat(tokens), calls: Vec::new(), answers: None };
    for name in strategy::NAMES {
        let mut again = 0;
        for window in [4_000, 4_096, 6_000, 16_000, 64_000] {
            let budget = Budget::new(window, None);
            let policy = CompactionPolicy { trigger: Some(StrategyTrigger::Overflow), ..policy(name) };
            let mut session = Session::new(window / 20);
            let mut settled = None;
            for turn in 0..400 {
                let role = if turn % 2 == 0 { Role::User } else { Role::Assistant };
                session.say(&said(role, window as usize / 100 + turn % 7));
                let Some(edit) = edit(&session, &budget, &policy) else { continue };
                let won = edit.original_bound - edit.compressed_bound;
                if settled.is_some_and(|settled| session.history.view_tokens() < settled + budget.progress())
                {
                    again += 1;
                    assert!(won >= budget.progress(), "{name}, {window}, {turn}: {won} are won: {edit:?}");
                }
                session.add(EventBody::ViewEdited(Box::new(edit)));
                settled = Some(session.history.view_tokens());
            }
        }
        println!("{name}: {again} edits in a row");
        assert!(again > 0 || *name != "middle-removal", "nothing was seen");
    }
}

/// What is done now, by extracts where a summary is asked for.
fn edit(session: &Session, budget: &Budget, policy: &CompactionPolicy) -> Option<ViewEdit> {
    match plan(&session.history, session.fixed, budget, policy, &PlanTrigger::Routine) {
        Plan::Edit(edit) => Some(*edit),
        Plan::Summarise(draft) => draft.finish_extractive(&session.history).ok(),
        _ => None,
    }
}

fn policy(name: &str) -> CompactionPolicy {
    CompactionPolicy::new(strategy::by_name(name).expect("its name"))
}
