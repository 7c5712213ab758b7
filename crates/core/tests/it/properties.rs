//! Properties of histories, views and plans, on random stories.

use std::sync::Arc;

use longhaul_core::attempt::RetryPolicy;
use longhaul_core::budget::{Budget, StrategyTrigger};
use longhaul_core::estimate::TokensByScript;
use longhaul_core::event::{
    Event, EventBody, FORMAT, NoteReason, PartialAnswerReason, StepKind, StepStart, ViewEdit, ViewOperation,
};
use longhaul_core::history::{History, ViewItemKind, closing_result, request_messages, units};
use longhaul_core::ids::{CallId, StepId};
use longhaul_core::message::{
    BlobRef, MediaPart, Message, ModelAnswer, ModelOrigin, ModelStopReason, OutputTruncation, Part, RawJson,
    ReasoningPart, Role, ToolCall, ToolResult, ToolStatus,
};
use longhaul_core::meter;
use longhaul_core::plan::{
    CompactionPolicy, MARK, Plan, PlanTrigger, PruneOptions, SummaryDraft, SummaryForm, SummaryRequest,
    SummaryWriterModel, TokenPrices, plan,
};
use longhaul_core::run::{RequestPrefix, Run, RunRecovery, RunSettings, ServerCountPolicy, SessionModel};
use longhaul_core::strategy;
use longhaul_core::usage::Usage;
use proptest::prelude::*;

use crate::pool::text;
use crate::rng::Rng;
use crate::stage::good_summary;
use crate::{handles, validity};

const PRICES: TokenPrices =
    TokenPrices { input: 3.0, cache_read: 0.3, cache_write: 3.75, output: 15.0, cache_life_ms: 300_000 };

/// One thing that happens in a story.
#[derive(Clone, Debug)]
enum Happening {
    Typed {
        bytes: usize,
        image: bool,
    },
    Note,
    Step {
        say: usize,
        calls: Vec<usize>,
        order: u64,
        thinks: bool,
        usage: bool,
    },
    Cut {
        kind: PartialAnswerReason,
        calls: usize,
    },
    /// An answer in pieces, room made between them; the last asks for tools.
    Pieces {
        pieces: Vec<usize>,
        calls: Vec<usize>,
        strategy: usize,
        summary: u8,
        usage: bool,
    },
    Plan {
        strategy: usize,
        trigger: u8,
        plan_trigger: u8,
        summary: u8,
    },
    Undo {
        which: usize,
        release: bool,
    },
}

fn happening() -> impl Strategy<Value = Happening> {
    let size = prop_oneof![4 => 1_usize..400, 2 => 400_usize..6_000, 1 => 6_000_usize..30_000];
    let calls = proptest::collection::vec(size.clone(), 0..5);
    prop_oneof![
        3 => (1_usize..3_000, any::<bool>()).prop_map(|(bytes, image)| Happening::Typed { bytes, image }),
        1 => Just(Happening::Note),
        8 => (0_usize..1_500, calls, any::<u64>(), any::<bool>(), prop::bool::weighted(0.8)).prop_map(
            |(say, calls, order, thinks, usage)| Happening::Step { say, calls, order, thinks, usage }
        ),
        1 => (prop_oneof![Just(PartialAnswerReason::Cancelled), Just(PartialAnswerReason::Lost)], 0_usize..3)
            .prop_map(|(kind, calls)| Happening::Cut { kind, calls }),
        2 => pieces(),
        4 => (0_usize..8, any::<u8>(), any::<u8>(), any::<u8>()).prop_map(
            |(strategy, trigger, plan_trigger, summary)| Happening::Plan { strategy, trigger, plan_trigger, summary }
        ),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(which, release)| Happening::Undo { which, release }),
    ]
}

fn pieces() -> impl Strategy<Value = Happening> {
    let sizes = proptest::collection::vec(1_usize..9_000, 1..4);
    let calls = proptest::collection::vec(1_usize..400, 0..3);
    (sizes, calls, 0_usize..8, any::<u8>(), any::<bool>()).prop_map(
        |(pieces, calls, strategy, summary, usage)| Happening::Pieces {
            pieces,
            calls,
            strategy,
            summary,
            usage,
        },
    )
}

fn story() -> impl Strategy<Value = (u64, Vec<Happening>)> {
    (any::<u64>(), proptest::collection::vec(happening(), 1..40))
}

/// A log as it grows.
struct Log {
    rng: Rng,
    events: Vec<Event>,
    history: History,
    budget: Budget,
    fixed: u64,
}

impl Log {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let budget = Budget::new(rng.magnitude(4_000, 100_000), None);
        let fixed = rng.below(budget.usable / 8);
        let mut log = Self { rng, events: Vec::new(), history: History::default(), budget, fixed };
        log.add(EventBody::SessionStarted {
            title: None,
            forked_from: None,
            imported_from: None,
            folder: None,
        });
        log.add(EventBody::RunStarted { run_id: "r".into() });
        log.typed(20, false);
        log
    }

    fn add(&mut self, body: EventBody) {
        let event = Event { seq: self.events.len() as u64 + 1, at: 0, format: FORMAT, body };
        self.history.apply(&event).expect("events follow each other");
        self.events.push(event);
    }

    fn next(&self) -> u64 {
        self.events.len() as u64 + 1
    }

    fn bound(&self) -> u64 {
        meter::read(&self.history, self.fixed).bound()
    }

    fn request(&self) -> Vec<Message> {
        request_messages(self.history.view())
    }

    fn typed(&mut self, bytes: usize, image: bool) {
        let body = text(&mut self.rng, bytes);
        let mut parts = vec![Part::text(format!("{} {body}", self.next()))];
        if image {
            parts.push(picture());
        }
        let message = Message::user(format!("m{}", self.next()), parts);
        self.add(EventBody::message_taken(message));
    }

    fn begin_step(&mut self) -> StepId {
        let step_id = StepId::new(format!("s{}", self.next()));
        let start = StepStart {
            step_id: step_id.clone(),
            run_id: "r".into(),
            purpose: StepKind::Main,
            model: origin(),
            system_hash: String::new(),
            tools_hash: String::new(),
            view_hash: self.history.view_hash(),
            fixed_tokens: self.fixed,
            estimated_input: meter::read(&self.history, self.fixed).total,
            max_output_tokens: 1_000,
            window_tokens: None,
        };
        self.add(EventBody::StepStarted(Box::new(start)));
        step_id
    }

    fn answer(&mut self, step: &StepId, parts: Vec<Part>, cut: Option<PartialAnswerReason>) {
        let message =
            Message { id: format!("m-{step}").into(), role: Role::Assistant, parts, origin: Some(origin()) };
        let body =
            EventBody::AssistantAdded { step_id: step.clone(), message, finish: ModelStopReason::Stop, cut };
        self.add(body);
    }

    /// What the provider counts: always a little more than we.
    fn reported_input(&self) -> u64 {
        (self.history.view_tokens() + self.fixed) * 104 / 100 + 200
    }

    fn step(&mut self, say: usize, calls: &[usize], order: u64, thinks: bool, usage: bool) {
        let estimated_input = meter::read(&self.history, self.fixed).total;
        let input_tokens = self.reported_input();
        let step = self.begin_step();
        let mut parts = Vec::new();
        if thinks {
            let native = say.is_multiple_of(2).then(|| RawJson("{}".to_owned()));
            parts.push(Part::Reasoning(ReasoningPart { text: text(&mut self.rng, 80).to_owned(), native }));
        }
        if say > 0 || calls.is_empty() {
            parts.push(Part::text(format!("so {}", text(&mut self.rng, say))));
        }
        parts.extend((0..calls.len()).map(|at| call(&step, at)));
        let output_tokens = parts.iter().map(longhaul_core::estimate::part_tokens).sum();
        self.answer(&step, parts, None);
        let usage = usage.then(|| Usage { input_tokens, output_tokens, ..Usage::default() });
        self.add(EventBody::StepFinished { step_id: step.clone(), usage, estimated_input, envelope: None });
        let mut pending: Vec<usize> = (0..calls.len()).collect();
        let mut order = Rng::new(order);
        while !pending.is_empty() {
            let at = pending.remove(order.below(pending.len() as u64) as usize);
            self.add(EventBody::ToolStarted { call_id: call_id(&step, at) });
            let result = self.result(&step, at, calls[at]);
            self.add(EventBody::ToolFinished { result });
        }
    }

    fn result(&mut self, step: &StepId, at: usize, bytes: usize) -> ToolResult {
        let body = text(&mut self.rng, bytes);
        let status = if bytes.is_multiple_of(7) { ToolStatus::Error } else { ToolStatus::Completed };
        let truncated = bytes.is_multiple_of(5).then(|| OutputTruncation {
            head_bytes: body.floor_char_boundary(bytes / 3),
            omitted_chars: 1_000,
            total_chars: 1_000 + body.chars().count() as u64,
            blob: BlobRef { hash: "2".repeat(64), bytes: 9_000 },
            lost_bytes: 0,
        });
        let mut content = vec![Part::text(body)];
        if bytes.is_multiple_of(11) {
            content.push(picture());
        }
        ToolResult { call_id: call_id(step, at), status, content, truncated }
    }

    fn cut(&mut self, kind: PartialAnswerReason, calls: usize) {
        let step = self.begin_step();
        let mut parts = vec![Part::text(text(&mut self.rng, 60))];
        if kind == PartialAnswerReason::Cancelled {
            parts.extend((0..calls).map(|at| call(&step, at)));
        }
        self.answer(&step, parts, Some(kind));
        self.add(EventBody::StepFinished {
            step_id: step.clone(),
            usage: None,
            estimated_input: 0,
            envelope: None,
        });
        let open: Vec<CallId> =
            self.history.open_calls().iter().map(|open| open.call.call_id.clone()).collect();
        for id in open {
            let result = closing_result(&id, ToolStatus::Cancelled, "[Cancelled]");
            self.add(EventBody::ToolFinished { result });
        }
        self.typed(10, false);
    }

    fn pieces(&mut self, pieces: &[usize], calls: &[usize], strategy: usize, summary: u8, usage: bool) {
        let mut whole = String::new();
        for bytes in pieces {
            let estimated_input = meter::read(&self.history, self.fixed).total;
            let input_tokens = self.reported_input();
            let step = self.begin_step();
            let piece = format!("{} {}", self.next(), text(&mut self.rng, *bytes));
            whole.push_str(&piece);
            self.answer(&step, vec![Part::text(piece)], Some(PartialAnswerReason::Paused));
            let usage = usage.then(|| Usage { input_tokens, output_tokens: 1, ..Usage::default() });
            self.add(EventBody::StepFinished { step_id: step, usage, estimated_input, envelope: None });
            assert!(self.history.is_paused());
            self.plan(strategy, summary, 0, summary);
            assert_eq!(self.history.view().last().map(|item| item.message.text()).as_ref(), Some(&whole));
            validity::check_prefill(&self.request()).expect("a valid request");
        }
        self.step(40, calls, 7, false, usage);
        assert!(!self.history.is_paused());
        let newest = self.history.view().iter().rev().find(|item| item.kind == ViewItemKind::Assistant);
        assert!(
            newest.is_some_and(|item| item.message.text().starts_with(&whole)),
            "the answer is not in one"
        );
    }

    fn note(&mut self) {
        let message = Message::user(format!("m{}", self.next()), vec![Part::text("[a note]")]);
        self.add(EventBody::NoteAdded { message, why: NoteReason::Loop });
    }

    fn happen(&mut self, happening: &Happening) {
        match happening {
            Happening::Typed { bytes, image } => self.typed(*bytes, *image),
            Happening::Note => self.note(),
            Happening::Step { say, calls, order, thinks, usage } => {
                self.step(*say, calls, *order, *thinks, *usage);
            }
            Happening::Cut { kind, calls } => self.cut(*kind, *calls),
            Happening::Pieces { pieces, calls, strategy, summary, usage } => {
                self.pieces(pieces, calls, *strategy, *summary, *usage);
            }
            Happening::Plan { strategy, trigger, plan_trigger, summary } => {
                self.plan(*strategy, *trigger, *plan_trigger, *summary);
            }
            Happening::Undo { which, release } => self.undo(*which, *release),
        }
    }

    fn policy(&mut self, strategy: usize, trigger: u8) -> CompactionPolicy {
        let name = strategy::NAMES[strategy % strategy::NAMES.len()];
        let share = 0.05 + f64::from(trigger) / 255.0 * 0.95;
        CompactionPolicy {
            trigger: (!trigger.is_multiple_of(4)).then_some(StrategyTrigger::Share(share)),
            prune: PruneOptions {
                protect_tokens: self.rng.magnitude(50, 5_000),
                minimum_tokens: self.rng.magnitude(20, 3_000),
                protected_tools: Vec::new(),
            },
            prices: self.rng.chance(50).then_some(PRICES),
            writer: match trigger % 5 {
                3 => SummaryWriterModel::Other { window: 6_000, max_output: Some(900) },
                4 => SummaryWriterModel::Other { window: 40_000, max_output: None },
                _ => SummaryWriterModel::Session,
            },
            ..CompactionPolicy::new(strategy::by_name(name).expect("a strategy of that name"))
        }
    }

    fn plan(&mut self, strategy: usize, trigger: u8, plan_trigger: u8, summary: u8) {
        let policy = self.policy(strategy, trigger);
        let plan_trigger = match plan_trigger % 4 {
            _ if self.history.is_paused() => PlanTrigger::Pause,
            0 | 1 => PlanTrigger::Routine,
            2 => PlanTrigger::Overflow,
            _ => PlanTrigger::Requested { instructions: None },
        };
        let planned = plan(&self.history, self.fixed, &self.budget, &policy, &plan_trigger);
        let refolded = History::fold(&self.events).expect("the log folds");
        let again = plan(&refolded, self.fixed, &self.budget, &policy, &plan_trigger);
        assert_eq!(planned, again, "equal inputs, unequal plans");
        let edit = match planned {
            Plan::Fits => {
                // An overflow that nothing can be done about is an error, never silence.
                assert_ne!(plan_trigger, PlanTrigger::Overflow);
                return;
            }
            Plan::DoesNotFit(misfit) => {
                assert!(
                    self.bound() > misfit.usable_tokens || plan_trigger == PlanTrigger::Overflow,
                    "{misfit}"
                );
                return;
            }
            Plan::Edit(edit) => *edit,
            Plan::Summarise(mut draft) => {
                assert!(draft.finish(&History::default()).is_err());
                self.check_blank_answers(&draft);
                let words = text(&mut self.rng, usize::from(summary) * 8 + 1);
                let mut calls = 0;
                while let Some(request) = draft.request(self.history.view(), &self.budget) {
                    validity::check(&request.messages).expect("the summary request is valid");
                    self.check_room(&request, policy.writer);
                    calls += 1;
                    // Each of 32 may be made once more.
                    assert!(calls <= 64, "more calls than one compaction may make");
                    let asked = request.messages[0].text();
                    let pruned = crate::pruning::answer(&mut self.rng, &asked);
                    let is_plain = self.rng.below(2) == 0;
                    let good = || if is_plain { format!("Goal: so {words}") } else { good_summary(&request) };
                    let taken = draft.take(said(&pruned.unwrap_or_else(good)));
                    assert!(
                        matches!(taken, Ok(()) | Err(longhaul_core::plan::SummaryRejection::Incomplete(_))),
                        "{taken:?}"
                    );
                    if taken.is_err() {
                        break;
                    }
                }
                match draft.finish(&self.history).or_else(|_| draft.finish_extractive(&self.history)) {
                    Ok(edit) => edit,
                    Err(_) => return,
                }
            }
            other => panic!("{other:?}"),
        };
        self.commit(edit);
    }

    /// Whoever is asked for a summary is asked for no more than its window takes, answer included.
    fn check_room(&self, request: &SummaryRequest, writer: SummaryWriterModel) {
        // Reasoning without a native item is not sent back.
        let is_sent = |part: &Part| !matches!(part, Part::Reasoning(ReasoningPart { native: None, .. }));
        let messages = request.messages.iter().map(|message| {
            let parts = message.parts.iter().filter(|part| is_sent(part)).cloned().collect();
            self.history.counter().message_groups(&Message { parts, ..message.clone() })
        });
        let fixed = if request.form == SummaryForm::Riding { self.fixed } else { 0 };
        let groups = messages.sum::<TokensByScript>() + TokensByScript::of(fixed);
        let input = self.history.calibration().ratios().apply(&groups);
        let window = match writer {
            SummaryWriterModel::Other { window, .. } => window,
            _ => self.budget.window,
        };
        let output = request.max_output_tokens;
        assert!(input + output <= window, "{:?}: {input} and {output} of {window}", request.form);
    }

    /// Who says nothing, however often, has written no summary.
    fn check_blank_answers(&self, draft: &SummaryDraft) {
        let mut blank = draft.clone();
        let mut asked = false;
        while blank.request(self.history.view(), &self.budget).is_some() {
            asked = true;
            if blank.take(said("  ")).is_err() {
                return;
            }
        }
        assert!(!asked, "blanks were taken for a summary: {blank:?}");
    }

    fn commit(&mut self, edit: ViewEdit) {
        let before = (self.history.view_hash(), self.request(), meter::read(&self.history, self.fixed));
        let was = self.bound();
        let clone = self.history.clone();
        self.add(EventBody::ViewEdited(Box::new(edit.clone())));
        let is = self.bound();
        assert!(is < was, "{was} became {is}: {edit:?}");
        assert!(is <= edit.compressed_bound, "{is} instead of {}: {edit:?}", edit.compressed_bound);
        let total = meter::read(&self.history, self.fixed).total;
        assert_eq!(edit.original_tokens, before.2.total);
        assert!(total.abs_diff(edit.compressed_tokens) <= 1, "{total} instead of {edit:?}");
        let limit = if edit.compressed_bound < edit.trigger_tokens {
            edit.trigger_tokens
        } else {
            self.budget.usable
        };
        assert!(is < limit, "{is} is not under {limit}: {edit:?}");
        // Undone at once, it never happened.
        let undone = self.history.with(EventBody::ViewRestored { edit_id: edit.id.clone() });
        assert_eq!(undone.view_hash(), before.0);
        assert_eq!(request_messages(undone.view()), before.1);
        let reading = meter::read(&undone, self.fixed);
        assert!(reading.total.abs_diff(before.2.total) <= before.2.total / 5 + 700, "{reading:?} {before:?}");
        assert_eq!(undone.view_tokens(), clone.view_tokens());
    }

    fn undo(&mut self, which: usize, release: bool) {
        let edits = self.history.edits();
        if edits.is_empty() {
            return;
        }
        let edit_id = edits[which % edits.len()].edit.id.clone();
        if self.history.check_undo(&edit_id).is_ok() {
            self.add(EventBody::ViewRestored { edit_id: edit_id.clone() });
            if release {
                self.add(EventBody::RangeReleased { edit_id });
            }
        }
    }

    /// What holds at any point of any story.
    fn check(&self) {
        let view = self.history.view();
        let tokens: u64 = view.iter().map(|item| item.tokens).sum();
        assert_eq!(tokens, self.history.view_tokens());
        assert!(self.history.kept_groups().total() <= tokens);
        let messages = self.request();
        if messages.last().is_some_and(|last| last.role != Role::Assistant) {
            validity::check(&messages).expect("a valid request");
        }
        assert!(validity::holds_newest_typed(&messages, &self.history), "the newest message is not shown");
        handles::check(&self.history);
        self.check_order();
    }

    /// Results stand right after their step, in call order, and nowhere else; nothing else left its place.
    fn check_order(&self) {
        let view = self.history.view();
        let mut last = 0;
        for unit in units(view, &[]) {
            assert!(unit.range.from > last, "{unit:?} after {last}");
            last = view[unit.items.clone()].iter().map(|item| item.range.from).max().unwrap_or(0);
            let head = &view[unit.items.start];
            let calls: Vec<&CallId> = head.message.tool_calls().map(|call| &call.call_id).collect();
            let results: Vec<&CallId> =
                view[unit.items.start + 1..unit.items.end].iter().map(result_of).collect();
            assert_eq!(calls, results, "calls and results of one step");
        }
    }
}

fn result_of(item: &longhaul_core::history::ViewItem) -> &CallId {
    assert!(matches!(item.kind, ViewItemKind::Result { .. }));
    match item.message.parts.as_slice() {
        [Part::ToolResult(result)] => &result.call_id,
        other => panic!("not a result: {other:?}"),
    }
}

fn said(text: &str) -> ModelAnswer {
    ModelAnswer { parts: vec![Part::text(text)], finish: ModelStopReason::Stop, usage: None, envelope: None }
}

fn origin() -> ModelOrigin {
    ModelOrigin { provider: "p".to_owned(), api: "a".to_owned(), model: "m".to_owned() }
}

fn picture() -> Part {
    Part::Image(MediaPart {
        blob: BlobRef { hash: "1".repeat(64), bytes: 4_000 },
        media_type: "image/png".to_owned(),
        name: None,
        width: Some(300),
        height: Some(200),
    })
}

fn call_id(step: &StepId, at: usize) -> CallId {
    CallId::new(format!("c-{step}-{at}"))
}

fn call(step: &StepId, at: usize) -> Part {
    Part::ToolCall(ToolCall {
        call_id: call_id(step, at),
        name: ["read", "bash"][at % 2].to_owned(),
        arguments: if at == 3 { "{broken".to_owned() } else { "{\"path\":\"src/a.rs\"}".to_owned() },
        provider_id: None,
        native: None,
    })
}

fn settings(log: &Log) -> RunSettings {
    RunSettings {
        max_steps: 100,
        timeout_ms: None,
        parallel_tools: None,
        recovery: RunRecovery::Rest,
        retry: RetryPolicy { patience_ms: Some(600_000), max_delay_ms: 60_000, stream_attempts: 3 },
        counting: ServerCountPolicy::Never,
        policy: CompactionPolicy::new(strategy::by_name("reactive-overflow").expect("the default")),
        pre_compact_ms: None,
        model: SessionModel {
            origin: origin(),
            window: Some(log.budget.window),
            remembered_window: None,
            max_output: None,
            tools: true,
            prefill: false,
        },
        fixed: RequestPrefix { tokens: log.fixed, ..RequestPrefix::default() },
        tools: std::collections::BTreeMap::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(crate::cases(1_000)) })]

    #[test]
    fn every_story_keeps_order_pairs_and_handles((seed, story) in story()) {
        let mut log = Log::new(seed);
        for happening in &story {
            log.happen(happening);
            log.check();
        }
    }

    #[test]
    fn a_log_read_back_is_the_same_session((seed, story) in story()) {
        let mut log = Log::new(seed);
        story.iter().for_each(|happening| log.happen(happening));
        let stored = serde_json::to_string(&log.events).expect("events encode");
        let events: Vec<Event> = serde_json::from_str(&stored).expect("events decode");
        prop_assert_eq!(&events, &log.events);
        let history = History::fold(&events).expect("the log folds");
        prop_assert!(history == log.history);
        let settings = Arc::new(settings(&log));
        let (live, next) = (Run::new(settings.clone(), log.history.clone()), Run::new(settings, history));
        prop_assert_eq!(live.meter(), next.meter());
        prop_assert_eq!(live.status(), next.status());
        prop_assert_eq!(live.preview(None), next.preview(None));
    }

    /// However often an answer is paused, and whatever it thinks first, every later request shows it as one.
    #[test]
    fn pieces_read_like_an_answer_that_was_never_paused(
        seed in any::<u64>(), bytes in 20_usize..3_000, cuts in proptest::collection::vec(any::<u32>(), 0..4),
        thinks in any::<bool>(), ends in any::<bool>(),
    ) {
        let mut rng = Rng::new(seed);
        let whole = format!("  It begins {} and it ends. \n", text(&mut rng, bytes));
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| whole.floor_char_boundary(*cut as usize % whole.len())).collect();
        cuts.extend([0, whole.len()]);
        cuts.sort_unstable();
        let thought = || thinks.then(|| Part::Reasoning(ReasoningPart { text: "hm".to_owned(), native: Some(RawJson("{}".to_owned())) }));
        let (mut plain, mut paused) = (Log::new(seed), Log::new(seed));
        let step = plain.begin_step();
        plain.answer(&step, thought().into_iter().chain([Part::text(whole.clone())]).collect(), None);
        for (at, piece) in cuts.windows(2).enumerate() {
            let is_last = at + 2 == cuts.len();
            let parts = thought().filter(|_| at == 0).into_iter().chain([Part::text(&whole[piece[0]..piece[1]])]).collect();
            let step = paused.begin_step();
            paused.answer(&step, parts, if !is_last { Some(PartialAnswerReason::Paused) } else if ends { None } else { Some(PartialAnswerReason::Cancelled) });
            paused.add(EventBody::StepFinished { step_id: step, usage: None, estimated_input: 0, envelope: None });
        }
        for log in [&mut plain, &mut paused] {
            log.typed(30, false);
        }
        let shown = |log: &Log| log.request().into_iter().map(|message| (message.role, message.parts)).collect::<Vec<_>>();
        let (one, other) = (shown(&plain), shown(&paused));
        prop_assert_eq!(one.len(), other.len());
        prop_assert_eq!(&one[1], &other[1], "byte for byte");
        prop_assert_eq!(plain.history.view()[1].tokens, paused.history.view()[1].tokens);
    }

    #[test]
    fn undoing_everything_shows_everything((seed, story) in story()) {
        let mut log = Log::new(seed);
        story.iter().for_each(|happening| log.happen(happening));
        let mut plain = Vec::new();
        for event in &log.events {
            let body = &event.body;
            if !matches!(body, EventBody::ViewEdited(_) | EventBody::ViewRestored { .. } | EventBody::RangeReleased { .. }) {
                plain.push(event.body.clone());
            }
        }
        let edits: Vec<_> = log.history.edits().iter().rev().filter(|state| state.active).cloned().collect();
        for state in edits {
            prop_assert!(log.history.check_undo(&state.edit.id).is_ok(), "newest first, nothing stands in the way");
            log.add(EventBody::ViewRestored { edit_id: state.edit.id.clone() });
        }
        let shown: Vec<Vec<Part>> = log.history.view().iter().map(|item| item.message.parts.clone()).collect();
        let mut never = History::default();
        for (at, body) in plain.into_iter().enumerate() {
            never.apply(&Event { seq: at as u64 + 1, at: 0, format: FORMAT, body }).expect("events follow");
        }
        // Markers of truncation name positions, which differ: compare the view by what was stored.
        let without_markers = |parts: &[Part]| -> usize { parts.len() };
        let expected: Vec<usize> = never.view().iter().map(|item| without_markers(&item.message.parts)).collect();
        prop_assert_eq!(shown.iter().map(|parts| without_markers(parts)).collect::<Vec<_>>(), expected);
        for (item, other) in log.history.view().iter().zip(never.view()) {
            prop_assert_eq!(&item.kind, &other.kind);
            prop_assert_eq!(item.message.tool_calls().collect::<Vec<_>>(), other.message.tool_calls().collect::<Vec<_>>());
            if item.message.role != Role::Tool {
                prop_assert_eq!(&item.message.parts, &other.message.parts);
            }
        }
    }

    #[test]
    fn an_edit_says_what_it_is((seed, story) in story()) {
        let mut log = Log::new(seed);
        story.iter().for_each(|happening| log.happen(happening));
        for state in log.history.edits() {
            for op in &state.edit.ops {
                let range = op.range();
                prop_assert!(range.from <= range.to && range.to < state.seq);
                if let ViewOperation::Replace { parts, summary, .. } = op {
                    let text = parts[0].as_text().unwrap_or_default();
                    prop_assert_eq!(text.starts_with(MARK), *summary);
                }
            }
            let replaces = state.edit.ops.iter().filter(|op| matches!(op, ViewOperation::Replace { .. })).count();
            let may_be_many = ["summarization", "pruning-agent"].contains(&state.edit.strategy.as_str());
            prop_assert!(replaces <= 1 || may_be_many, "one note or summary for each edit");
        }
    }
}
