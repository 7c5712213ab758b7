//! What holds for every strategy in every window, on recorded work: SPEC's validity, and that nothing is lost.

use longhaul_core::budget::Budget;
use longhaul_core::event::{EventBody, NoteReason, ViewEdit};
use longhaul_core::history::{History, LogEntry, request_messages};
use longhaul_core::ids::LogRange;
use longhaul_core::message::{Message, ModelAnswer, ModelStopReason, Part, Role};
use longhaul_core::meter;
use longhaul_core::pinned_facts::PinnedFacts;
use longhaul_core::plan::{self, CompactionPolicy, Plan, PlanTrigger, SummaryDraft};
use longhaul_core::strategy;

use crate::recorded::{self, Said, Session};
use crate::validity;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures/trajectories");

/// Windows that recorded work of about a million tokens fills.
const WINDOWS: [u64; 7] = [4_000, 8_000, 32_000, 128_000, 200_000, 400_000, 1_000_000];

/// The counts of observed cases, so that a test that observes none fails.
#[derive(Default)]
pub(crate) struct Seen {
    edits: usize,
    summaries: usize,
    ledgers: usize,
}

impl Seen {
    pub(crate) fn edits(&self) -> usize {
        self.edits
    }
}

/// The same for all summaries of a draft. It ends: a draft asks so often and not more.
fn write(draft: &mut SummaryDraft, history: &History, budget: &Budget) {
    while let Some(request) = draft.request(history.view(), budget) {
        let counter = history.counter();
        let input: u64 = request.messages.iter().map(|message| counter.message(message)).sum();
        assert!(
            input + request.max_output_tokens <= budget.window,
            "{input} and {}",
            request.max_output_tokens
        );
        let parts = vec![Part::text(crate::stage::good_summary(&request))];
        if draft
            .take(ModelAnswer { parts, finish: ModelStopReason::Stop, usage: None, envelope: None })
            .is_err()
        {
            return;
        }
    }
}

pub(crate) fn step(session: &mut Session, budget: &Budget, policy: &CompactionPolicy, seen: &mut Seen) {
    let bound = meter::read(&session.history, session.fixed).bound();
    let line = plan::threshold(&session.history, session.fixed, budget, policy);
    let planned = plan::plan(&session.history, session.fixed, budget, policy, &PlanTrigger::Routine);
    assert!(
        planned == Plan::Fits || bound >= line.tokens,
        "it acts at {bound}, the display says {}",
        line.tokens
    );
    let edit = match planned {
        Plan::Edit(edit) => *edit,
        Plan::Summarise(mut draft) => {
            seen.summaries += 1;
            write(&mut draft, &session.history, budget);
            match draft.finish(&session.history).or_else(|_| draft.finish_extractive(&session.history)) {
                Ok(edit) => edit,
                Err(_) => return,
            }
        }
        _ => return,
    };
    let before = session.history.clone();
    session.add(EventBody::ViewEdited(Box::new(edit.clone())));
    seen.edits += 1;
    check(&before, session, &edit);
    if edit.strategy == "adaptive" {
        seen.ledgers += check_ledger(&session.history, budget);
    }
    let again = plan::plan(&session.history, session.fixed, budget, policy, &PlanTrigger::Routine);
    assert_eq!(again, Plan::Fits, "a second pass changes nothing");
}

fn check(before: &History, session: &Session, edit: &ViewEdit) {
    let after = &session.history;
    let messages = request_messages(after.view());
    if messages.last().is_some_and(|last| last.role != Role::Assistant) {
        validity::check(&messages).expect("a valid request");
    }
    let bound = meter::read(after, session.fixed).bound();
    assert!(bound < edit.trigger_tokens && bound < edit.original_bound, "{bound}: {edit:?}");
    assert!(validity::holds_newest_typed(&messages, after), "the newest typed message stays: {edit:?}");
    let unreachable = after.entries().iter().find(|entry| !is_reachable(after, entry));
    assert_eq!(unreachable.map(|entry| entry.seq), None, "in view, or behind a handle");
    let first = edit.ops.iter().map(|op| op.range().from).min().expect("an operation");
    assert!(untouched(before, first).eq(untouched(after, first)), "what precedes the cut stays as it was");
    let undone = after.with(EventBody::ViewRestored { edit_id: edit.id.clone() });
    let shown =
        |history: &History| history.view().iter().map(|item| item.message.clone()).collect::<Vec<_>>();
    assert_eq!(shown(&undone), shown(before), "undo is exact");
}

fn untouched(history: &History, first: u64) -> impl Iterator<Item = &Message> {
    history.view().iter().take_while(move |item| item.range.to < first).map(|item| &*item.message)
}

fn is_reachable(history: &History, entry: &LogEntry) -> bool {
    let holds = |range: &LogRange| range.contains(entry.seq);
    history.view().iter().any(|item| holds(&item.range) || item.covers.iter().any(holds))
}

/// Open todos and paths of everything that is gone are in view word for word, if they fit in their share.
fn check_ledger(history: &History, budget: &Budget) -> usize {
    let summary = history.view().iter().find(|item| !item.covers.is_empty());
    let Some(summary) = summary else { return 0 };
    let is_gone = |entry: &&LogEntry| summary.covers.iter().any(|range| range.contains(entry.seq));
    let ledger = PinnedFacts::read(history.entries().iter().filter(is_gone));
    let kept: Vec<&str> = ledger.open_todos().chain(ledger.files().map(|(path, _)| path)).collect();
    let tokens = |line: &&str| history.counter().text(line) + 6;
    let share = (budget.usable / 8).min(8_000);
    if kept.iter().map(tokens).sum::<u64>() + 200 > share {
        return 0;
    }
    let text = summary.message.text();
    let missing: Vec<&&str> =
        kept.iter().filter(|line| !text.contains(&line[..line.floor_char_boundary(300)])).collect();
    assert!(missing.is_empty(), "{missing:?} of {} are not in {text}", kept.len());
    usize::from(!kept.is_empty())
}

fn growing(said: &[Said], window: u64, name: &str, seen: &mut Seen) {
    let budget = Budget::new(window, None);
    let policy = CompactionPolicy::new(strategy::by_name(name).expect("its name"));
    let mut session = Session::new(window / 20);
    for one in said {
        if one.role == Role::Assistant && !session.history.view().is_empty() {
            step(&mut session, &budget, &policy, seen);
        }
        session.say(one);
    }
}

/// Enough messages to fill the window some times, and no more.
fn enough(said: &[Said], window: u64, tokens_each: u64) -> Vec<Said> {
    let count = (3 * window / tokens_each).clamp(200, 3_500);
    recorded::repeated(said, count as usize)
}

fn every_strategy_in_every_window(said: &[Said], tokens_each: u64, ledgers: bool) {
    for name in strategy::NAMES {
        let mut seen = Seen::default();
        for window in WINDOWS {
            let edits = seen.edits;
            growing(&enough(said, window, tokens_each), window, name, &mut seen);
            let fills = 3_500 * tokens_each > window;
            assert!(seen.edits > edits || !fills, "{name} did nothing in {window}");
        }
        assert!(!ledgers || *name != "adaptive" || seen.ledgers > 10, "{name}: {} ledgers", seen.ledgers);
    }
}

/// What is too large takes no more away than itself.
#[test]
fn a_giant_note_does_not_empty_the_view() {
    let said = |role, text: String| Said { role, text, calls: Vec::new(), answers: None };
    for name in strategy::NAMES {
        let mut session = Session::new(1_000);
        for turn in 0..60 {
            session.say(&said(Role::User, format!("Question {turn}? You must keep rule {turn}.")));
            session.say(&said(Role::Assistant, format!("Answer {turn}.{}", " word".repeat(300))));
        }
        let message = Message::user("listing", vec![Part::text(" file".repeat(27_000))]);
        session.add(EventBody::NoteAdded { message, why: NoteReason::Imported });
        session.say(&said(Role::User, "And now?".to_owned()));
        let policy = CompactionPolicy::new(strategy::by_name(name).expect("its name"));
        let budget = Budget::new(32_000, None);
        step(&mut session, &budget, &policy, &mut Seen::default());
        let bound = meter::read(&session.history, session.fixed).bound();
        let shown: String = session.history.view().iter().map(|item| item.message.text()).collect();
        assert!(bound < budget.usable && bound > budget.usable / 4, "{name}: {bound} of {}", budget.usable);
        assert!(shown.contains("Answer 59.") && shown.contains("And now?"), "{name}");
    }
}

#[test]
fn airline_runs() {
    let Some(said) = recorded::airline(FIXTURES.as_ref()) else {
        return eprintln!("windows::airline_runs: skipped, the recorded fixtures are absent");
    };
    every_strategy_in_every_window(&said, 96, false);
}

#[test]
fn a_coding_session() {
    let Some(said) = recorded::coding(FIXTURES.as_ref()) else {
        return eprintln!("windows::a_coding_session: skipped, the recorded fixtures are absent");
    };
    every_strategy_in_every_window(&said, 420, true);
}
