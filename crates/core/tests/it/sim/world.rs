//! The world around a run: clock, store, queue, and everything that is in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use longhaul_core::error::ErrorCode;
use longhaul_core::event::{Event, EventBody, FORMAT};
use longhaul_core::history::{History, request_messages};
use longhaul_core::ids::{ApprovalId, CallId, OrderId, QueueId, StepId};
use longhaul_core::message::{Part, ToolCall, ToolResult, ToolStatus};
use longhaul_core::plan::{SummaryForm, SummaryRequest};
use longhaul_core::queue::{QueuedMessage, coalesce};
use longhaul_core::repetition::Repetition;
use longhaul_core::run::{
    AppendId, ModelCallFailure, PreCompactInput, PreCompactOutput, Run, RunEffect, RunLoopInput, RunNotice,
    RunSettings, RunTimer, WaitReason,
};
use longhaul_core::truncate::TextLimit;
use longhaul_core::usage::Usage;

use super::model::{Course, image, sent_tokens, tool_result};
use super::scene::{self, Truth};
use super::stats::Stats;
use crate::pool::text;
use crate::rng::Rng;

/// Something that will end.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    due: u64,
    what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Append {
        id: AppendId,
        events: Vec<EventBody>,
        takes: Vec<QueueId>,
    },
    /// What was waiting when the store was asked, or `None`: what is waiting when it answers.
    ReadQueue(Option<Vec<QueuedMessage>>),
    Count(Option<u64>),
    ModelBegins,
    ModelEnds {
        course: Course,
        input: u64,
    },
    Summary {
        task: u64,
        ahead: bool,
        input: RunLoopInput,
    },
    Hook(RunLoopInput),
    ModelStopped(RunLoopInput),
    Tool(ToolResult),
    Approval(ApprovalId),
    Timer(RunTimer),
    RetryNow,
}

pub(crate) struct SimulatedRun {
    pub(crate) rng: Rng,
    pub(crate) verbose: bool,
    pub(crate) clock: u64,
    pub(crate) settings: Arc<RunSettings>,
    pub(crate) truth: Truth,
    pub(crate) run: Run,
    pub(crate) log: Vec<Event>,
    /// Folded from the log, event by event.
    pub(crate) mirror: History,
    pub(crate) queue: Vec<QueuedMessage>,
    pub(crate) sent: u64,
    /// Messages that are in history, or were taken back by their sender.
    pub(crate) settled: BTreeSet<QueueId>,
    pub(crate) newest_taken: u64,
    /// Messages that waited when a cancel or a crash came.
    pub(crate) may_wait: BTreeSet<QueueId>,
    pub(crate) flights: Vec<Flight>,
    pub(crate) ran: BTreeSet<CallId>,
    pub(crate) compactions_asked: u64,
    pub(crate) guards: Guards,
    /// All the text of the answer that the model is giving, or has begun and may go on with.
    pub(crate) saying: Option<String>,
    pub(crate) stats: Stats,
}

/// What the checks count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guards {
    pub(crate) edits_in_step: u32,
    pub(crate) overflows_in_step: u32,
    pub(crate) calls_in_step: u32,
    /// When the newest outage was met.
    pub(crate) outage_since: u64,
    pub(crate) summaries_in_step: u64,
    pub(crate) handled: u64,
}

impl SimulatedRun {
    pub(crate) fn new(seed: u64, verbose: bool) -> Self {
        let mut rng = Rng::new(seed);
        let truth = Truth::new(&mut rng);
        let settings = Arc::new(scene::settings(&mut rng, &truth));
        let mut world = Self {
            run: Run::new(settings.clone(), History::default()),
            rng,
            verbose,
            clock: 1_000_000,
            settings,
            truth,
            log: Vec::new(),
            mirror: History::default(),
            queue: Vec::new(),
            sent: 0,
            settled: BTreeSet::new(),
            newest_taken: 0,
            may_wait: BTreeSet::new(),
            flights: Vec::new(),
            ran: BTreeSet::new(),
            compactions_asked: 0,
            guards: Guards::default(),
            saying: None,
            stats: Stats { sessions: 1, ..Stats::default() },
        };
        world.say(|world| format!("{:?}\n{:?}", world.truth, world.settings));
        let begun =
            EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None };
        world.store(vec![begun]);
        world.run = Run::new(world.settings.clone(), world.refold());
        world
    }

    pub(crate) fn say(&self, what: impl FnOnce(&Self) -> String) {
        if self.verbose {
            println!("{:>9} {}", self.clock, what(self));
        }
    }

    pub(crate) fn refold(&self) -> History {
        History::fold(&self.log).expect("the log folds")
    }

    pub(crate) fn play(&mut self) {
        for _ in 0..self.rng.between(40, 300) {
            self.act();
        }
        self.come_to_rest();
        // Whatever a cancel or a crash left waiting enters now.
        for _ in 0..3 {
            self.input(RunLoopInput::Resume);
            self.come_to_rest();
        }
        assert!(self.queue.is_empty(), "messages that never entered: {:?}", self.queue);
        assert_eq!(self.settled.len() as u64, self.sent, "every message entered or was removed");
        self.stats.events = self.log.len() as u64;
    }

    fn come_to_rest(&mut self) {
        let mut left = 60_000;
        while !self.flights.is_empty() {
            self.deliver_next();
            left -= 1;
            assert!(left > 0, "the session does not come to rest");
        }
        self.check_at_rest();
    }

    fn act(&mut self) {
        if self.flights.is_empty() {
            self.check_at_rest();
        }
        let busy = !self.flights.is_empty();
        match self.rng.below(1_000) {
            _ if !busy && self.rng.chance(70) => self.send_message(),
            0..60 => self.send_message(),
            60..70 => self.cancel(),
            70..80 => self.crash_again_and_again(),
            80..90 => self.ask_for_compaction(),
            90..110 => self.change_queue(),
            110..115 => self.input(RunLoopInput::Resume),
            115..120 => self.input(RunLoopInput::Wake),
            120..135 if !busy => self.record(),
            135..150 => self.change_orders(),
            _ if busy => self.deliver_next(),
            200..400 => self.record(),
            400..500 => self.ask_for_compaction(),
            500..550 => self.crash(),
            550..600 => self.cancel(),
            600..700 => self.input(RunLoopInput::Resume),
            _ => self.send_message(),
        }
    }

    pub(crate) fn input(&mut self, input: RunLoopInput) {
        self.guards.handled += 1;
        self.say(|_| {
            let mut text = format!("→ {input:?}");
            text.truncate(text.floor_char_boundary(400));
            text
        });
        let effects = self.run.handle(input);
        for effect in effects {
            self.say(|_| {
                let mut text = format!("  ← {effect:?}");
                text.truncate(text.floor_char_boundary(400));
                text
            });
            self.perform(effect);
        }
        self.check_in_passing();
    }
}

/// People.
impl SimulatedRun {
    fn send_message(&mut self) {
        let id = QueueId::new(format!("q{:05}", self.sent));
        self.sent += 1;
        self.stats.messages += 1;
        let parts = self.message_parts();
        self.queue.push(QueuedMessage::new(id, self.clock, parts));
        self.input(RunLoopInput::Wake);
    }

    fn message_parts(&mut self) -> Vec<Part> {
        let window = self.truth.window;
        let chars = match self.rng.below(200) {
            0 => window * 8,
            1..=10 => window,
            _ => self.rng.magnitude(5, 1_500),
        };
        let body = text(&mut self.rng, chars as usize);
        let mut parts = vec![Part::text(format!("message {}: {body}", self.sent))];
        if self.rng.chance(3) {
            parts.push(image());
        }
        parts
    }

    fn change_queue(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        let at = self.rng.below(self.queue.len() as u64) as usize;
        if self.rng.chance(50) {
            let gone = self.queue.remove(at);
            self.say(|_| format!("{} is removed", gone.id));
            self.settled.insert(gone.id);
            self.stats.removed += 1;
        } else {
            self.queue[at].parts = vec![Part::text(format!("edited at {}", self.clock))];
            self.stats.edited += 1;
        }
    }

    fn cancel(&mut self) {
        self.stats.cancels += 1;
        self.let_wait();
        self.input(RunLoopInput::Cancel);
    }

    fn let_wait(&mut self) {
        self.may_wait.extend(self.queue.iter().map(|queued| queued.id.clone()));
    }

    fn ask_for_compaction(&mut self) {
        self.compactions_asked += 1;
        let instructions = self.rng.chance(50).then(|| "mind the paths".to_owned());
        self.input(RunLoopInput::Compact { instructions });
    }

    /// While idle: undo, release, rename, switch.
    fn record(&mut self) {
        if !self.run.is_idle() {
            return;
        }
        let edits = self.run.history().edits();
        let edit = (!edits.is_empty()).then(|| self.rng.pick(edits).clone());
        let body = match (self.rng.below(5), edit) {
            (0..=2, Some(edit)) if edit.active => {
                if self.run.history().check_undo(&edit.edit.id).is_err() {
                    return;
                }
                self.stats.undone += 1;
                EventBody::ViewRestored { edit_id: edit.edit.id.clone() }
            }
            (0..=2, Some(edit)) => {
                self.stats.released += 1;
                EventBody::RangeReleased { edit_id: edit.edit.id.clone() }
            }
            (3, _) => return self.switch(),
            _ => EventBody::TitleSet { title: "a title".to_owned() },
        };
        self.input(RunLoopInput::Record(vec![body]));
    }

    /// At any time: pin, change, remove.
    fn change_orders(&mut self) {
        let active: Vec<OrderId> = self.run.history().orders().map(|order| order.id.clone()).collect();
        let chars = self.rng.magnitude(5, 800);
        let order = text(&mut self.rng, chars as usize);
        let picked = (!active.is_empty()).then(|| self.rng.pick(&active).clone());
        let made = match (self.rng.below(6), picked) {
            (0, Some(id)) => self.run.remove_order(&id),
            (1, Some(id)) => self.run.edit_order(&id, order),
            (2, replaces) => self.run.pin_order(order, replaces),
            _ => self.run.pin_order(order, None),
        };
        // What does not fit is refused, and nothing is stored.
        let Ok(events) = made else { return };
        self.stats.orders += events.len() as u64;
        if !events.is_empty() {
            self.input(RunLoopInput::RecordOrders(events));
        }
    }

    fn switch(&mut self) {
        self.stats.switches += 1;
        self.truth = Truth::new(&mut self.rng);
        let mut settings = (*self.settings).clone();
        settings.fixed = scene::fixed(settings.fixed.tokens.min(self.truth.window / 6));
        settings.model = scene::model(&mut self.rng, &self.truth, &format!("model{}", self.stats.switches));
        let to = settings.model.origin.clone();
        self.settings = Arc::new(settings);
        self.run.configure(self.settings.clone());
        self.input(RunLoopInput::Record(vec![EventBody::ModelSwitched { to, choice: None }]));
        // What the log does not say the next life would not know.
        while self.flights.iter().any(|flight| matches!(flight.what, What::Append { .. })) {
            self.deliver_next();
        }
    }

    fn crash_again_and_again(&mut self) {
        self.crash();
        while self.rng.chance(60) && !self.flights.is_empty() {
            self.deliver_next();
            self.crash();
        }
    }

    /// The process dies. Of the appends in flight some had become durable.
    fn crash(&mut self) {
        self.stats.crashes += 1;
        self.stats.crashes_in_a_run += u64::from(self.mirror.open_run().is_some());
        self.say(|_| "the process dies".to_owned());
        self.let_wait();
        let partial = self.streamed_so_far();
        let mut flights = std::mem::take(&mut self.flights);
        flights.sort_by_key(|flight| flight.due);
        for flight in flights {
            let What::Append { events, takes, .. } = flight.what else { continue };
            if self.rng.chance(50) || !self.can_take(&events, &takes) {
                break;
            }
            self.commit(events, &takes);
        }
        self.compactions_asked = 0;
        self.guards.edits_in_step = 0;
        self.guards.overflows_in_step = 0;
        self.guards.calls_in_step = 0;
        self.guards.summaries_in_step = 0;
        self.run = Run::new(self.settings.clone(), self.refold());
        self.check_fold();
        self.input(RunLoopInput::Recover { partial });
    }

    /// The chunks that had been persisted of an answer that was streaming.
    fn streamed_so_far(&mut self) -> Option<String> {
        let begun = !self.flights.iter().any(|flight| matches!(flight.what, What::ModelBegins));
        let course = self.flights.iter().find_map(|flight| match &flight.what {
            What::ModelEnds { course, .. } if course.begins && begun => Some(course.clone()),
            _ => None,
        })?;
        let parts = match course.end {
            Ok(answer) => answer.parts,
            Err((_, partial)) => partial,
        };
        let text: String = parts.iter().filter_map(Part::as_text).collect();
        let end = text.floor_char_boundary(self.rng.below(text.len() as u64 + 1) as usize);
        Some(text[..end].to_owned())
    }
}

/// The store.
impl SimulatedRun {
    fn store(&mut self, bodies: Vec<EventBody>) -> Vec<Event> {
        let mut stored = Vec::new();
        for body in bodies {
            let event = Event { seq: self.log.len() as u64 + 1, at: self.clock, format: FORMAT, body };
            self.check_event(&event);
            let before = matches!(event.body, EventBody::ViewEdited(_)).then(|| self.mirror.clone());
            self.mirror.apply(&event).expect("the log has no gaps");
            self.log.push(event.clone());
            if let Some(before) = before {
                self.check_edit(&before, &event);
            }
            self.check_answer(&event);
            stored.push(event);
        }
        self.check_pauses();
        stored
    }

    /// Whether the entries that an append takes are still as they were read.
    fn can_take(&self, events: &[EventBody], takes: &[QueueId]) -> bool {
        let entries: Vec<QueuedMessage> =
            self.queue.iter().filter(|queued| takes.contains(&queued.id)).cloned().collect();
        let taken = events.iter().find_map(|body| match body {
            EventBody::MessagesTaken { message, .. } => Some(message),
            _ => None,
        });
        entries.len() == takes.len() && taken.is_none_or(|message| message.parts == coalesce(&entries).0)
    }

    fn commit(&mut self, events: Vec<EventBody>, takes: &[QueueId]) -> Vec<Event> {
        for id in takes {
            let number: u64 = id.as_str()[1..].parse().expect("a number");
            assert!(number >= self.newest_taken, "{id} enters out of order");
            self.newest_taken = number + 1;
            assert!(self.settled.insert(id.clone()), "{id} enters twice");
            self.stats.taken += 1;
        }
        self.queue.retain(|queued| !takes.contains(&queued.id));
        self.store(events)
    }

    /// Appends are made durable in the order they were asked for.
    fn append_due(&mut self) -> u64 {
        let appends = self.flights.iter().filter(|flight| matches!(flight.what, What::Append { .. }));
        let last = appends.map(|flight| flight.due).max().unwrap_or(0);
        last.max(self.clock + self.rng.magnitude(1, 50))
    }
}

/// Effects, and how they end.
impl SimulatedRun {
    fn fly(&mut self, after: u64, what: What) {
        self.flights.push(Flight { due: self.clock + after, what });
    }

    fn perform(&mut self, effect: RunEffect) {
        match effect {
            RunEffect::Append { id, events, takes, .. } => {
                let due = self.append_due();
                self.flights.push(Flight { due, what: What::Append { id, events, takes } });
            }
            RunEffect::ReadQueue => {
                let snapshot = self.rng.chance(50).then(|| self.queue.clone());
                let after = self.rng.magnitude(1, 20);
                self.fly(after, What::ReadQueue(snapshot));
            }
            RunEffect::Count { .. } => self.count(),
            RunEffect::CallModel { step, tools, max_output_tokens, pause_at_tokens } => {
                self.call_model(step, tools, max_output_tokens, pause_at_tokens);
            }
            RunEffect::Summarise { task, ahead, request } => self.summarise(task, ahead, &request),
            RunEffect::StopSummary { task } => {
                let is_it = |flight: &Flight| matches!(flight.what, What::Summary { task: other, .. } if other == task);
                self.flights.retain(|flight| !is_it(flight));
            }
            RunEffect::AskPreCompact { task, ask } => self.ask_hook(task, &ask),
            RunEffect::StopModel => self.stop_model(),
            RunEffect::RunTool { call, limit } => self.run_tool(&call, limit),
            RunEffect::StopTools => self.stop_tools(),
            RunEffect::AskApproval { approval_id, .. } => {
                let after = self.rng.magnitude(10, 100_000);
                self.stats.approvals += 1;
                self.fly(after, What::Approval(approval_id));
            }
            RunEffect::StartTimer { timer, after_ms } => {
                self.stop_timer(timer);
                self.fly(after_ms, What::Timer(timer));
            }
            RunEffect::StopTimer { timer } => self.stop_timer(timer),
            RunEffect::Notice(RunNotice::Waiting(wait)) => {
                self.stats.retries += 1;
                match wait.reason {
                    WaitReason::BrokenAnswer => self.stats.broken_answers += 1,
                    _ => {
                        self.stats.outages += 1;
                        if wait.attempt == 1 {
                            self.guards.outage_since = self.clock;
                        }
                    }
                }
                if self.rng.chance(10) {
                    self.stats.waits_that_were_cut_short += 1;
                    self.fly(wait.after_ms / 2, What::RetryNow);
                }
            }
            RunEffect::Notice(_) => {}
            RunEffect::CompactionDone(outcome) => {
                self.guards.summaries_in_step = 0;
                assert!(self.compactions_asked > 0, "an answer nobody waits for: {outcome:?}");
                self.compactions_asked -= 1;
                match outcome {
                    longhaul_core::run::CompactionOutcome::Refused(_) => self.stats.refused_requests += 1,
                    longhaul_core::run::CompactionOutcome::Committed(_) => {
                        self.stats.compactions_on_request += 1;
                    }
                    _ => {}
                }
            }
            RunEffect::RunEnded(end) => {
                assert!(self.mirror.open_run().is_none(), "{end:?} told before it is stored");
                assert_eq!(self.mirror.open_calls(), [], "open calls at the end of a run");
            }
            RunEffect::Rested => {}
        }
    }

    fn stop_timer(&mut self, timer: RunTimer) {
        self.flights.retain(|flight| !matches!(flight.what, What::Timer(other) if other == timer));
    }

    /// What the view has before anything was learned of it, in tokens.
    fn shown_tokens(&self) -> u64 {
        self.run.history().view().iter().map(|item| sent_tokens(&item.message)).sum()
    }

    /// System prompt and tools of the next request, in tokens.
    fn fixed_tokens(&self) -> u64 {
        self.settings.fixed.tokens_of(self.run.history())
    }

    /// The server counts, mostly right.
    fn count(&mut self) {
        let input = self.truth.input(self.fixed_tokens() + self.shown_tokens());
        let count = match self.rng.below(20) {
            0 => None,
            1 => Some(*self.rng.pick(&[0, 1, input * 50 + 100_000])),
            _ => Some(input),
        };
        let after = self.rng.magnitude(1, 2_000);
        self.stats.counts += u64::from(count == Some(input));
        self.fly(after, What::Count(count));
    }

    fn call_model(&mut self, step: StepId, tools: bool, max_output: u64, pause_at: Option<u64>) {
        let messages = request_messages(self.run.history().view());
        self.check_request(&messages, &step);
        let shown = self.shown_tokens();
        if self.rng.chance(3) {
            let anew: u64 = messages.iter().map(sent_tokens).sum();
            let merged = self.run.history().view().len() as u64 * 5;
            assert!(anew.abs_diff(shown) <= merged + 20, "{shown} in the view, {anew} sent");
        }
        let input = self.truth.input(self.fixed_tokens() + shown);
        let mut course = self.truth.course(&mut self.rng, input, max_output, tools);
        self.means_to_say(&mut course, max_output, pause_at);
        let overflows =
            matches!(&course.end, Err((failure, _)) if failure.code == ErrorCode::ContextOverflow);
        if overflows {
            self.count_overflow(input, &course);
        }
        let first = self.rng.magnitude(20, 3_000);
        if course.begins {
            self.fly(first, What::ModelBegins);
        }
        let last = first + self.rng.magnitude(1, 20_000);
        self.fly(last, What::ModelEnds { course, input });
    }

    fn summarise(&mut self, task: u64, ahead: bool, request: &SummaryRequest) {
        crate::validity::check(&request.messages).expect("the summary request is valid");
        self.guards.summaries_in_step += u64::from(!ahead);
        // Each of 32 may be made once more.
        assert!(self.guards.summaries_in_step <= 64, "more summaries than one compaction may ask for");
        self.stats.summaries += 1;
        self.stats.summaries_ahead += u64::from(ahead);
        let ours = match request.form {
            SummaryForm::Riding => self.fixed_tokens() + self.shown_tokens() + 250,
            SummaryForm::Flattened => request.messages.iter().map(sent_tokens).sum(),
        };
        let input = self.truth.input(ours);
        let pruned = crate::pruning::answer(&mut self.rng, &request.messages[0].text());
        self.stats.pruning_agents += u64::from(pruned.is_some());
        let answer = self.truth.summary(&mut self.rng, input, request.max_output_tokens, pruned);
        let answer = answer.map_err(|failure| *failure);
        let after = match &answer {
            Err(failure) if failure.code == ErrorCode::Timeout => 600_000,
            _ => self.rng.magnitude(100, 30_000),
        };
        self.fly(after, What::Summary { task, ahead, input: RunLoopInput::Summarised { task, answer } });
    }

    /// People's programs: most answer, some refuse, some never come back.
    fn ask_hook(&mut self, task: u64, ask: &PreCompactInput) {
        assert!(ask.dropped_messages > 0 && !ask.what_goes.is_empty(), "{ask:?}");
        self.stats.hooks += 1;
        let answer = match self.rng.below(8) {
            0 => return,
            1 => None,
            2 => Some(PreCompactOutput { cancel: true, ..PreCompactOutput::default() }),
            3 => Some(PreCompactOutput {
                custom_summary: Some(text(&mut self.rng, 300).to_owned()),
                ..PreCompactOutput::default()
            }),
            4 => Some(PreCompactOutput {
                custom_instructions: Some("mind the names".to_owned()),
                ..PreCompactOutput::default()
            }),
            _ => Some(PreCompactOutput::default()),
        };
        let after = self.rng.magnitude(1, 30_000);
        self.fly(after, What::Hook(RunLoopInput::PreCompactAnswered { task, answer }));
    }

    fn stop_model(&mut self) {
        let at = self
            .flights
            .iter()
            .position(|flight| {
                matches!(
                    flight.what,
                    What::ModelEnds { .. } | What::Summary { ahead: false, .. } | What::Count(_)
                )
            })
            .expect("a call to stop");
        let began = !self.flights.iter().any(|flight| matches!(flight.what, What::ModelBegins));
        if self.rng.chance(15) && began {
            self.flights[at].due = self.clock;
            return;
        }
        let stopped = match self.flights.remove(at).what {
            What::ModelEnds { course, input, .. } => self.cut_off(course, input, began),
            What::Count(_) => RunLoopInput::Counted(None),
            What::Summary { task, .. } => {
                self.guards.summaries_in_step = 0;
                let failure = ModelCallFailure::new(ErrorCode::Interrupted, "stopped", false);
                RunLoopInput::Summarised { task, answer: Err(failure) }
            }
            other => panic!("{other:?} cannot be stopped"),
        };
        self.flights.retain(|flight| !matches!(flight.what, What::ModelBegins));
        let after = self.rng.magnitude(1, 500);
        self.fly(after, What::ModelStopped(stopped));
    }

    fn cut_off(&mut self, course: Course, input: u64, began: bool) -> RunLoopInput {
        let mut partial = match course.end {
            Ok(answer) if began => answer.parts,
            Err((_, partial)) if began => partial,
            _ => Vec::new(),
        };
        partial.truncate(self.rng.below(partial.len() as u64 + 1) as usize);
        if let Some(Part::Text(text)) = partial.last_mut() {
            text.text.truncate(text.text.floor_char_boundary(text.text.len() / 2));
        }
        let usage = (began && self.rng.chance(20)).then(|| Usage {
            input_tokens: input,
            output_tokens: 5,
            ..Usage::default()
        });
        RunLoopInput::ModelStopped { partial, usage }
    }

    fn run_tool(&mut self, call: &ToolCall, limit: TextLimit) {
        self.check_tool_may_run(call);
        self.stats.tools_run += 1;
        let same = call.name == "poll" || (self.truth.loops && call.name == "read");
        let result = tool_result(&mut self.rng, call, &limit, same);
        self.stats.results_truncated += u64::from(result.truncated.is_some());
        let after = self.rng.magnitude(1, 60_000);
        self.fly(after, What::Tool(result));
    }

    fn stop_tools(&mut self) {
        for at in 0..self.flights.len() {
            let grace = self.clock + self.rng.below(5_000);
            let killed = self.rng.chance(60);
            let flight = &mut self.flights[at];
            let What::Tool(result) = &mut flight.what else { continue };
            flight.due = flight.due.min(grace);
            if killed {
                result.status = ToolStatus::Cancelled;
                result.content = vec![Part::text("[Cancelled by the user while it ran.]")];
                result.truncated = None;
            }
        }
    }

    fn deliver_next(&mut self) {
        let next = (0..self.flights.len()).min_by_key(|at| self.flights[*at].due).expect("a flight");
        let flight = self.flights.remove(next);
        self.clock = self.clock.max(flight.due);
        match flight.what {
            What::Append { id, events, takes } => self.end_append(id, events, &takes),
            What::ReadQueue(snapshot) => {
                let queued = snapshot.unwrap_or_else(|| self.queue.clone());
                self.input(RunLoopInput::QueueRead(queued));
            }
            What::Count(count) => self.input(RunLoopInput::Counted(count)),
            What::ModelBegins => self.input(RunLoopInput::ModelBegan),
            What::ModelEnds { course, .. } => {
                self.stats.answers += u64::from(course.end.is_ok());
                let input = match course.end {
                    Ok(answer) if course.pauses => {
                        RunLoopInput::ModelPaused { partial: answer.parts, usage: answer.usage }
                    }
                    Ok(answer) if self.rng.chance(1) => {
                        self.stats.repeated_answers += 1;
                        RunLoopInput::ModelRepeated {
                            repetition: Repetition { passage_bytes: 40, times: 103 },
                            partial: answer.parts,
                            usage: answer.usage,
                        }
                    }
                    Ok(answer) => RunLoopInput::ModelAnswered(answer),
                    Err((failure, partial)) => RunLoopInput::ModelFailed { failure, partial },
                };
                self.input(input);
            }
            What::Summary { input, .. } | What::ModelStopped(input) | What::Hook(input) => self.input(input),
            What::Tool(result) => self.input(RunLoopInput::ToolEnded(result)),
            What::Approval(approval_id) => {
                let allowed = self.rng.chance(70);
                let reason = (!allowed).then(|| "not today".to_owned());
                self.input(RunLoopInput::Decided { approval_id, allowed, reason });
            }
            What::RetryNow => self.input(RunLoopInput::RetryNow),
            What::Timer(timer) => {
                self.stats.timeouts += u64::from(!matches!(timer, RunTimer::Retry | RunTimer::Patience));
                self.input(RunLoopInput::TimerFired(timer));
            }
        }
    }

    fn end_append(&mut self, id: AppendId, events: Vec<EventBody>, takes: &[QueueId]) {
        if !self.can_take(&events, takes) {
            self.stats.changed_under_a_take += 1;
            return self.input(RunLoopInput::QueueChanged { id });
        }
        let stored = self.commit(events, takes);
        self.input(RunLoopInput::Appended { id, events: stored });
    }

    pub(crate) fn waiting(&self) -> BTreeMap<&str, bool> {
        self.queue.iter().map(|queued| (queued.id.as_str(), self.may_wait.contains(&queued.id))).collect()
    }
}
