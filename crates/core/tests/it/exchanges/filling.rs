//! Conversations whose window fills again and again, in virtual time. Summarisers are slow, away, refuse for length or
//! answer nonsense; hooks cancel; tasks are cut off.
//!
//! The requests are exchanges, the choice of each edit is an `EditChoice`, and the summaries between the requests are a
//! `BackgroundSummaryState`. Sizes are numbers, but the calls for a summary are those of a real draft.

use std::collections::VecDeque;

use longhaul_core::attempt::RetryPolicy;
use longhaul_core::budget::Budget;
use longhaul_core::error::ErrorCode;
use longhaul_core::exchange::{
    Exchange, ExchangeEffect, ExchangeInput, ExchangeLimits, OverflowFacts, RelayOutcome, ResponseFacts,
    ShorteningOutcome, UpstreamFailure,
};
use longhaul_core::history::{History, SummaryWriterRecord};
use longhaul_core::message::{ModelAnswer, ModelStopReason, Part, Role};
use longhaul_core::plan::{CompactionPolicy, Plan, PlanTrigger, SummaryDraft, SummaryWriterModel, plan};
use longhaul_core::shortening::{
    self, BackgroundConditions, BackgroundSummaryEffect, BackgroundSummaryInput, BackgroundSummaryState,
    CompactionPace, EditChoice, EditChoiceEffect, EditChoiceInput, EditSource, FallbackSummary,
    FittedViewFacts, MissingSummaryCause, PlanKind, SummaryPurpose, SummaryWriting,
};
use longhaul_core::strategy;

use super::Named;
use crate::recorded::Session;
use crate::rng::Rng;

const CONVERSATIONS: u64 = 400;

/// The requests of one conversation.
const REQUESTS: u64 = 60;

/// More effects than any request needs.
const MAX_EFFECTS: u32 = 200;

/// The most model calls for one compaction, repeated calls not counted. The gateway has the same.
const MAX_CALLS: usize = 3;

/// The time after which a writer is given up, in milliseconds.
const PATIENCE_MS: u64 = 300_000;

/// A draft of a real conversation, with what its calls need.
struct Template {
    history: History,
    draft: SummaryDraft,
    budget: Budget,
    policy: CompactionPolicy,
}

/// Returns drafts whose summary is one answer at the end of the request, and one in pieces.
fn templates() -> Vec<Template> {
    let writers =
        [SummaryWriterModel::Session, SummaryWriterModel::Other { window: 3_000, max_output: None }];
    writers.into_iter().map(template).collect()
}

fn template(writer: SummaryWriterModel) -> Template {
    let mut session = Session::new(500);
    for at in 0..60 {
        let text = format!("step {at}: read src/file{at}.rs and mend test{at}, please. ").repeat(6);
        let role = if at % 2 == 0 { Role::User } else { Role::Assistant };
        session.say(&crate::recorded::Said { role, text, calls: Vec::new(), answers: None });
    }
    let strategy = strategy::by_name("summarization").expect("its name");
    let policy = CompactionPolicy { writer, max_summary_calls: MAX_CALLS, ..CompactionPolicy::new(strategy) };
    let budget = Budget::new(16_000, None);
    let trigger = PlanTrigger::Requested { instructions: None };
    let Plan::Summarise(draft) = plan(&session.history, session.fixed, &budget, &policy, &trigger) else {
        panic!("a summary is wanted")
    };
    Template { history: session.history, draft: *draft, budget, policy }
}

/// The behaviour of a summariser.
#[derive(Clone, Copy, Debug)]
struct Writer {
    /// The chance of each misbehaviour at a call, in percent.
    nonsense: u64,
    too_long: u64,
    away: u64,
    /// The longest time of one call, in milliseconds.
    slowest_ms: u64,
}

/// A task that writes a summary after its request.
struct Task {
    /// The time at which it goes on, in milliseconds.
    at_ms: u64,
    purpose: SummaryPurpose,
    /// The outcome of a writing that ends at that time.
    outcome: Option<Result<(), MissingSummaryCause>>,
}

/// The counts of observed cases, so that a test that observes none fails.
#[derive(Debug, Default)]
struct Seen {
    written: u64,
    used: u64,
    failed: u64,
    waited: u64,
    extracts: u64,
    cancelled: u64,
    cut_off: u64,
    rests: u64,
    served: u64,
}

struct SimulatedConversation<'t> {
    rng: Rng,
    now_ms: u64,
    templates: &'t [Template],
    waits: bool,
    has_hook: bool,
    writer: Writer,
    record: SummaryWriterRecord,
    pace: CompactionPace,
    window: u64,
    tokens: u64,
    items: usize,
    /// The extract that waits for its summary.
    extract: Option<FallbackSummary>,
    background: BackgroundSummaryState,
    task: Option<Task>,
    /// The outcome that a request may collect.
    finished: Option<Result<(), MissingSummaryCause>>,
    /// Stored summaries that no view has adopted.
    stored: Vec<SummaryPurpose>,
    is_kept_for_full_view: bool,
    is_cancelled: bool,
    seen: Seen,
}

impl<'t> SimulatedConversation<'t> {
    fn new(seed: u64, templates: &'t [Template]) -> Self {
        let mut rng = Rng::new(seed);
        let is_calm = rng.chance(30);
        let chance = |rng: &mut Rng| if is_calm || rng.chance(40) { 0 } else { rng.between(5, 100) };
        let writer = Writer {
            nonsense: chance(&mut rng),
            too_long: chance(&mut rng),
            away: chance(&mut rng),
            slowest_ms: rng.magnitude(1_000, 600_000),
        };
        Self {
            waits: rng.chance(25),
            has_hook: rng.chance(30),
            window: rng.magnitude(4_000, 200_000),
            rng,
            now_ms: 1_000_000,
            templates,
            writer,
            record: SummaryWriterRecord::default(),
            pace: CompactionPace::default(),
            tokens: 500,
            items: 0,
            extract: None,
            background: BackgroundSummaryState::default(),
            task: None,
            finished: None,
            stored: Vec::new(),
            is_kept_for_full_view: false,
            is_cancelled: false,
            seen: Seen::default(),
        }
    }

    fn play(mut self) -> Seen {
        for _ in 0..REQUESTS {
            self.items += 2;
            self.tokens += self.window * self.rng.between(1, 12) / 100;
            self.now_ms += self.rng.magnitude(500, 900_000);
            self.go_on_with_task();
            self.request();
            if self.rng.chance(2) {
                self.cut_off();
            }
        }
        // Every task ends by itself.
        self.now_ms += 10 * PATIENCE_MS;
        self.go_on_with_task();
        assert!(!self.background.is_working(), "a summary is on its way without end");
        let kept = self.stored.len() as u64;
        assert_eq!(self.seen.written, self.seen.used + kept, "a valid summary was dropped: {:?}", self.seen);
        self.seen
    }

    /// Plays one request as an exchange with one upstream.
    fn request(&mut self) {
        let limits = ExchangeLimits { upstreams: 1, retry: RetryPolicy::default() };
        let mut exchange = Exchange::new(limits);
        let mut effects = VecDeque::from(exchange.handle(ExchangeInput::Begin));
        let mut is_answered = false;
        for performed in 0.. {
            assert!(performed < MAX_EFFECTS, "the exchange goes on without end");
            let Some(effect) = effects.pop_front() else { break };
            let input = match effect {
                ExchangeEffect::Prepare { .. } => match self.fit() {
                    true => ExchangeInput::Prepared { can_shorten: true },
                    false => ExchangeInput::NotPrepared(UpstreamFailure::Final),
                },
                ExchangeEffect::Send => {
                    self.now_ms += 1_000;
                    ExchangeInput::Responded(self.response())
                }
                ExchangeEffect::LowerOutput => ExchangeInput::OutputLowered(false),
                ExchangeEffect::OmitPart => ExchangeInput::PartOmitted(false),
                ExchangeEffect::Shorten => {
                    let before = self.tokens;
                    self.edit(&PlanTrigger::Overflow);
                    ExchangeInput::Shortened(match self.tokens < before {
                        true => ShorteningOutcome::Shorter,
                        false => ShorteningOutcome::NothingLeft,
                    })
                }
                ExchangeEffect::Relay => {
                    let ready = RelayOutcome::Ready { is_stream: false, failure: None, lacks_path: false };
                    ExchangeInput::Relayed(ready)
                }
                ExchangeEffect::Deliver => {
                    is_answered = true;
                    continue;
                }
                _ => continue,
            };
            effects.extend(exchange.handle(input));
        }
        assert!(exchange.is_over(), "the exchange waits for nothing");
        self.seen.served += u64::from(is_answered);
        self.take_turn(is_answered);
    }

    fn response(&mut self) -> ResponseFacts {
        let is_too_long = self.tokens > self.window || self.rng.chance(3);
        let said = OverflowFacts { is_said: true, ..OverflowFacts::default() };
        ResponseFacts {
            overflow: is_too_long.then_some(said),
            is_refusal: is_too_long,
            is_for_client: true,
            is_whole_answer: !is_too_long,
            passing_failure: None,
            unnamed_refusal: None,
            has_tried_singles: false,
        }
    }

    /// Makes a request fit, and starts what is due after it. Returns `false` if the request is refused.
    fn fit(&mut self) -> bool {
        let has_collected_summary = self.collect();
        let mut is_edited = false;
        if self.plan(&PlanTrigger::Routine, true) != PlanKind::Fits {
            let tokens = self.tokens;
            let Some(edited) = self.edit_view() else { return false };
            is_edited = edited;
            assert!(self.tokens <= tokens);
        }
        self.start_summary(is_edited, has_collected_summary);
        true
    }

    fn collect(&mut self) -> bool {
        let came = BackgroundSummaryInput::RequestCame { has_extract: self.extract.is_some() };
        let effects = self.background.handle(came);
        if effects.is_empty() {
            return false;
        }
        let outcome = self.finished.take().expect("an outcome");
        assert_eq!(effects[0], BackgroundSummaryEffect::ChargeRequest);
        match effects[1] {
            BackgroundSummaryEffect::NoteFailure(cause) => {
                assert_eq!(outcome, Err(cause));
                let now = self.now_ms / 1_000;
                self.extract = self.extract.map(|extract| extract.failed(cause, now));
                false
            }
            BackgroundSummaryEffect::KeepForFullView => {
                self.is_kept_for_full_view = true;
                false
            }
            BackgroundSummaryEffect::OfferForExtract => outcome.is_ok(),
            other => panic!("{other:?}"),
        }
    }

    /// Adopts what is stored where it helps, as the memo's look-up does.
    fn adopt(&mut self, is_full: bool) -> bool {
        let (before, has_extract) = (self.stored.len(), self.extract.is_some());
        self.stored.retain(|purpose| match purpose {
            SummaryPurpose::AheadOfNeed => !is_full && !has_extract,
            SummaryPurpose::ReplaceExtract => !has_extract,
        });
        let adopted = before - self.stored.len();
        self.seen.used += adopted as u64;
        if adopted > 0 {
            self.extract = None;
            self.tokens = self.tokens.min(self.window / 4);
        }
        adopted > 0
    }

    /// Returns whether the view was edited; `None` if the request is refused.
    fn edit_view(&mut self) -> Option<bool> {
        self.is_kept_for_full_view = false;
        if self.adopt(true) && self.plan(&PlanTrigger::Routine, true) == PlanKind::Fits {
            return Some(true);
        }
        // A cancellation holds as long as the request fits the window.
        if self.is_cancelled && self.tokens < self.window {
            return Some(false);
        }
        self.edit(&PlanTrigger::Routine)
    }

    fn rests(&self) -> bool {
        self.record.is_suspended()
    }

    /// Chooses one edit and commits it. Returns whether there was one; `None` if the request is refused.
    fn edit(&mut self, trigger: &PlanTrigger) -> Option<bool> {
        let may_wait = shortening::may_wait_for_summary(self.waits, self.rests(), trigger);
        let mut choice = EditChoice::new(trigger.clone(), may_wait);
        let mut next = choice.handle(EditChoiceInput::Begin);
        let (mut is_given, mut cause) = (false, MissingSummaryCause::NotYetAsked);
        for performed in 0.. {
            assert!(performed < 20, "the choice goes on without end");
            let input = match next.expect("a choice ends with an effect") {
                EditChoiceEffect::MakePlan { with_summaries } => {
                    EditChoiceInput::Planned(self.plan(trigger, with_summaries))
                }
                EditChoiceEffect::AskHook => {
                    let is_cancelled = self.has_hook && self.rng.chance(30);
                    self.is_cancelled = is_cancelled;
                    self.seen.cancelled += u64::from(is_cancelled);
                    is_given = self.has_hook && !is_cancelled && self.rng.chance(20);
                    let fits_the_window = self.tokens < self.window;
                    EditChoiceInput::HookAnswered { is_cancelled, gives_summary: is_given, fits_the_window }
                }
                EditChoiceEffect::WriteSummary if is_given => EditChoiceInput::SummaryWritten(true),
                EditChoiceEffect::WriteSummary => {
                    assert!(self.waits, "a request waits for a summary although nobody is to");
                    let (outcome, took_ms) = self.write();
                    self.now_ms += took_ms;
                    self.seen.waited += 1;
                    self.note_writer(outcome);
                    cause = outcome.err().unwrap_or(cause);
                    EditChoiceInput::SummaryWritten(outcome.is_ok())
                }
                EditChoiceEffect::MakeExtract => EditChoiceInput::ExtractMade(self.rng.chance(95)),
                EditChoiceEffect::Commit(source) => {
                    self.commit(source, may_wait, cause);
                    return Some(true);
                }
                EditChoiceEffect::Leave | EditChoiceEffect::LeaveForHook => return Some(false),
                _ => return None,
            };
            next = choice.handle(input);
        }
        None
    }

    fn plan(&mut self, trigger: &PlanTrigger, with_summaries: bool) -> PlanKind {
        let is_full = self.tokens >= self.window * 3 / 4 || *trigger == PlanTrigger::Overflow;
        match self.rng.below(100) {
            _ if !is_full => PlanKind::Fits,
            0 if *trigger == PlanTrigger::Routine => PlanKind::DoesNotFit,
            1..10 => PlanKind::Prune,
            _ if with_summaries => PlanKind::Summary,
            _ => PlanKind::Compaction,
        }
    }

    fn commit(&mut self, source: EditSource, may_wait: bool, cause: MissingSummaryCause) {
        self.is_cancelled = false;
        self.tokens = self.tokens.min(self.window * 3 / 10);
        if source != EditSource::Extract {
            return;
        }
        self.seen.extracts += 1;
        let rests = self.rests();
        if rests {
            self.record.record_skipped_compaction();
            self.seen.rests += 1;
        }
        if may_wait || self.pace.wants_summary(rests, self.items) {
            self.extract = Some(FallbackSummary::new(cause, self.now_ms / 1_000));
        }
    }

    fn is_extract_due(&self) -> bool {
        self.extract.is_some_and(|extract| extract.is_due(self.now_ms / 1_000))
    }

    fn start_summary(&mut self, is_edited: bool, has_collected_summary: bool) {
        let conditions = BackgroundConditions {
            has_summary: self.is_kept_for_full_view,
            has_extract: self.extract.is_some_and(|extract| extract.is_pending()),
            writer_rests: self.rests(),
            is_forbidden: self.is_cancelled,
        };
        let is_near = self.tokens >= self.window * 65 / 100;
        let facts = FittedViewFacts {
            is_edited,
            waits: shortening::may_wait_for_summary(self.waits, self.rests(), &PlanTrigger::Routine),
            is_extract_due: self.is_extract_due(),
            has_collected_summary,
            may_start_ahead: is_near && conditions.allow_start(),
        };
        let mut effects =
            VecDeque::from(self.background.handle(BackgroundSummaryInput::RequestFitted(facts)));
        while let Some(effect) = effects.pop_front() {
            let input = match effect {
                BackgroundSummaryEffect::AdoptStoredEdits => {
                    self.adopt(false);
                    BackgroundSummaryInput::StoredEditsAdopted { is_extract_due: self.is_extract_due() }
                }
                BackgroundSummaryEffect::PutOff(cause) => {
                    let now = self.now_ms / 1_000;
                    self.extract = self.extract.map(|extract| extract.failed(cause, now));
                    assert!(!self.is_extract_due(), "the next request would look for it again");
                    continue;
                }
                BackgroundSummaryEffect::MakeDraft(_) => BackgroundSummaryInput::Drafted(self.rng.chance(90)),
                BackgroundSummaryEffect::LookUpOthers(_) => {
                    let is_settled = !self.stored.is_empty() || self.rng.chance(5);
                    BackgroundSummaryInput::OthersLookedUp { is_settled }
                }
                BackgroundSummaryEffect::StartTask(purpose) => {
                    assert!(self.task.is_none(), "two summaries of one conversation");
                    self.task = Some(Task { at_ms: u64::MAX, purpose, outcome: None });
                    continue;
                }
                other => panic!("{other:?}"),
            };
            effects.extend(self.background.handle(input));
        }
    }

    /// Lets a task that waits for the end of its request go on.
    fn take_turn(&mut self, is_answered: bool) {
        let Some(task) = self.task.as_mut().filter(|task| task.at_ms == u64::MAX) else { return };
        task.at_ms = self.now_ms;
        let purpose = task.purpose;
        let turn = BackgroundSummaryInput::TurnCame { is_answered };
        let mut effects = VecDeque::from(self.background.handle(turn));
        while let Some(effect) = effects.pop_front() {
            let input = match effect {
                BackgroundSummaryEffect::LookUpOthers(_) => {
                    BackgroundSummaryInput::OthersLookedUp { is_settled: self.rng.chance(5) }
                }
                BackgroundSummaryEffect::AskHook => {
                    let is_cancelled = self.has_hook && self.rng.chance(30);
                    BackgroundSummaryInput::HookAnswered { is_cancelled }
                }
                BackgroundSummaryEffect::KeepCancellation => {
                    self.is_cancelled = true;
                    continue;
                }
                BackgroundSummaryEffect::Write => {
                    let (outcome, took_ms) = self.write();
                    let at_ms = self.now_ms + took_ms;
                    self.task = Some(Task { at_ms, purpose, outcome: Some(outcome) });
                    return;
                }
                other => panic!("{other:?}"),
            };
            effects.extend(self.background.handle(input));
        }
        self.task = None;
        assert!(!self.background.is_working(), "a task ends and leaves its stage behind");
    }

    /// Ends a writing whose time has come.
    fn go_on_with_task(&mut self) {
        let Some(task) = self.task.take_if(|task| task.at_ms <= self.now_ms) else { return };
        let outcome = task.outcome.expect("a task that writes");
        for effect in self.background.handle(BackgroundSummaryInput::Written(outcome)) {
            match effect {
                BackgroundSummaryEffect::RecordWriter { .. } => self.note_writer(outcome),
                BackgroundSummaryEffect::Store(purpose) => {
                    assert_eq!((purpose, outcome), (task.purpose, Ok(())));
                    self.stored.push(purpose);
                    self.seen.written += 1;
                }
                BackgroundSummaryEffect::StoreFailure(cause) => {
                    assert_eq!(outcome, Err(cause));
                    self.seen.failed += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(
            outcome.is_err() || self.stored.last() == Some(&task.purpose),
            "a valid summary is not stored"
        );
        self.finished = Some(outcome);
        self.background.handle(BackgroundSummaryInput::Stored);
    }

    /// Ends a task in the middle, as the end of a gateway does.
    fn cut_off(&mut self) {
        if self.task.take().is_some() {
            self.background.handle(BackgroundSummaryInput::CutOff);
            self.seen.cut_off += 1;
            assert!(!self.background.is_working());
        }
    }

    fn note_writer(&mut self, outcome: Result<(), MissingSummaryCause>) {
        match outcome {
            Ok(()) => self.record.record_summary(),
            Err(cause) if cause.counts_against_writer() => self.record.failed(),
            Err(_) => {}
        }
    }

    /// Writes a summary with the calls of a real draft. Returns the outcome and the time that it took.
    fn write(&mut self) -> (Result<(), MissingSummaryCause>, u64) {
        let templates = self.templates;
        let template = self.rng.pick(templates);
        let mut writing = SummaryWriting::new(template.draft.clone(), template.budget);
        let mut took_ms = 0;
        // The calls since all were started again, without those that repeat one.
        let (mut calls, mut is_repeated, mut all) = (0, false, 0);
        while let Some(request) = writing.next_request(&template.history) {
            all += 1;
            let is_repetition = std::mem::take(&mut is_repeated);
            calls += usize::from(!is_repetition);
            assert!(calls <= MAX_CALLS, "{calls} calls for one compaction");
            assert!(all <= 4 * MAX_CALLS, "calls without end");
            took_ms += self.rng.between(200, self.writer.slowest_ms);
            if took_ms > PATIENCE_MS {
                return (Err(MissingSummaryCause::Away), PATIENCE_MS);
            }
            if self.rng.chance(self.writer.away) {
                return (Err(MissingSummaryCause::of(ErrorCode::Network)), took_ms);
            }
            if self.rng.chance(self.writer.too_long) {
                if writing.restart_smaller(ErrorCode::ContextOverflow, None).is_none() {
                    return (Err(MissingSummaryCause::of(ErrorCode::ContextOverflow)), took_ms);
                }
                (calls, is_repeated) = (0, false);
                continue;
            }
            let is_nonsense = self.rng.chance(self.writer.nonsense);
            let text = if is_nonsense { String::new() } else { crate::stage::good_summary(&request) };
            let parts = vec![Part::text(text)];
            let answer = ModelAnswer { parts, finish: ModelStopReason::Stop, usage: None, envelope: None };
            // A refused answer is asked for once more. The second refusal gives the piece up.
            is_repeated = is_nonsense && !is_repetition;
            if writing.draft_mut().take(answer).is_err() {
                return (Err(MissingSummaryCause::Rejected), took_ms);
            }
        }
        let strategy = &*template.policy.strategy;
        let finished = shortening::finish_summary(writing.draft(), &template.history, strategy);
        (finished.map(|_| ()).map_err(|_| MissingSummaryCause::Rejected), took_ms)
    }
}

#[test]
fn windows_fill_and_no_request_waits_no_call_is_wasted_and_no_summary_is_lost() {
    let replayed = crate::sim::number("LONGHAUL_SIM_SEED");
    let seeds = replayed.map_or(0..CONVERSATIONS, |seed| seed..seed + 1);
    let (templates, mut all) = (templates(), Seen::default());
    for seed in seeds {
        let _named = Named(seed);
        let seen = SimulatedConversation::new(seed, &templates).play();
        all.written += seen.written;
        all.used += seen.used;
        all.failed += seen.failed;
        all.waited += seen.waited;
        all.extracts += seen.extracts;
        all.cancelled += seen.cancelled;
        all.cut_off += seen.cut_off;
        all.rests += seen.rests;
        all.served += seen.served;
    }
    println!("{all:?}");
    if replayed.is_none() {
        // Each course is met often, so the properties were tried on all of them.
        let met = [all.written, all.used, all.failed, all.waited, all.extracts, all.cancelled, all.rests];
        assert!(met.iter().all(|times| *times > 100) && all.cut_off > 20, "{all:?}");
        assert!(all.served > CONVERSATIONS * REQUESTS * 95 / 100, "{all:?}");
    }
}
