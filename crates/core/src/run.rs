//! The loop as a pure state machine: [`Run::handle`] takes what happened and answers with what to do.
//!
//! One `Run` serves one session. Everything that must survive a crash is in its [`History`]; the rest (the
//! phase, what is in flight) is rebuilt by [`Run::new`] and an [`Input::Recover`]. The driver above does the
//! effects and feeds the outcomes back; it decides nothing.
//!
//! A step, in the order of the functions below: take the queue, plan, call the model, store its answer, run
//! its tools, and again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::budget::{ASSUMED_WINDOW, Budget};
use crate::error::ErrorCode;
use crate::event::{Cut, ErrorInfo, EventBody, NoteReason, RunEnd, StepKind, StepStart, ViewEdit};
use crate::history::{History, closing_result};
use crate::ids::{CallId, Millis, Seq, StepId};
use crate::message::{Answer, Finish, Message, Part, Role, ToolCall, ToolStatus};
use crate::meter;
use crate::plan::{self, Misfit, Occasion, Plan, SummaryDraft};
use crate::queue::{Queued, coalesce};
use crate::usage::Usage;

mod effect;
mod input;
mod recover;
mod settings;
mod tools;

pub use effect::{AppendId, CompactionOutcome, Effect, Notice, Timer};
pub use input::{Failure, Input};
pub use settings::{Approval, Fixed, Model, Recovery, Retry, Settings, ToolRule};

use tools::ToolPhase;

/// How long the recovery step after a time-out may take.
pub const RECOVERY_STEP_MS: u64 = 60_000;

/// The loop of one session.
#[derive(Clone, Debug)]
pub struct Run {
    settings: Arc<Settings>,
    history: History,
    phase: Phase,
    stop: Option<Stop>,
    step: StepGuards,
    pending: BTreeMap<AppendId, Then>,
    next_append: u64,
    woken: bool,
    resuming: bool,
    /// When the newest event was appended: as near to now as the loop needs to know.
    now: Millis,
}

/// Where the loop is.
#[derive(Clone, Debug, PartialEq)]
enum Phase {
    Idle,
    ReadingQueue,
    /// An append is in flight, nothing else.
    Storing,
    Calling {
        step: StepId,
        began: bool,
    },
    Retrying {
        step: StepId,
    },
    Summarising {
        draft: Box<SummaryDraft>,
        occasion: Occasion,
    },
    Tools(ToolPhase),
}

/// What a person who watches wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Nothing is going on.
    Idle,
    /// The model is being called.
    Streaming,
    /// Tools are running.
    ExecutingTools,
    /// A person is asked.
    WaitingApproval,
    /// A summary is being written.
    Compacting,
    /// The session waits for a person after repeated failures.
    Parked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Cancelled,
    Timeout,
}

/// What may happen once per step only.
#[derive(Clone, Debug, Default, PartialEq)]
struct StepGuards {
    compacted: bool,
    overflowed: bool,
    attempts: u32,
}

/// What comes after an append.
#[derive(Clone, Debug, PartialEq)]
enum Then {
    Begun,
    Boundary,
    Prepare,
    StartStep,
    CallModel { step: StepId },
    AfterAnswer { finish: Finish },
    AfterOverflow,
    RunTool(CallId),
    AskApproval(CallId),
    ToolStored(CallId),
    Decided(CallId),
    ActOn { plan: Box<Plan>, occasion: Occasion },
    Finish { end: RunEnd, error: Option<ErrorInfo> },
    Ended(RunEnd),
    Compacted(Box<ViewEdit>),
    Recovered,
    Recorded,
}

impl Run {
    /// The loop of a session with that history, at rest. If the history has an open run, send
    /// [`Input::Recover`] first.
    pub fn new(settings: Arc<Settings>, history: History) -> Self {
        Self {
            settings,
            history,
            phase: Phase::Idle,
            stop: None,
            step: StepGuards::default(),
            pending: BTreeMap::new(),
            next_append: 0,
            woken: false,
            resuming: false,
            now: 0,
        }
    }

    /// The session.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// What the user chose.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Changes what the user chose, from the next decision on.
    pub fn configure(&mut self, settings: Arc<Settings>) {
        self.settings = settings;
    }

    /// Whether nothing is going on.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// What is going on.
    pub fn status(&self) -> Status {
        match &self.phase {
            Phase::Idle if self.history.parked().is_some() => Status::Parked,
            Phase::Idle => Status::Idle,
            Phase::Summarising { .. } => Status::Compacting,
            Phase::Tools(tools) if tools.is_asking() => Status::WaitingApproval,
            Phase::Tools(_) => Status::ExecutingTools,
            _ => Status::Streaming,
        }
    }

    /// The room of a model call.
    pub fn budget(&self) -> Budget {
        let model = &self.settings.model;
        let known = model.window.or(self.history.window()).unwrap_or(ASSUMED_WINDOW);
        let window = self.history.learned_window(model.window).map_or(known, |learned| learned.min(known));
        Budget::new(window, model.max_output)
    }

    /// The meter for the next request.
    pub fn meter(&self) -> meter::Reading {
        meter::read(&self.history, self.settings.fixed.tokens)
    }

    /// What a compaction on request would do, without doing it.
    pub fn preview(&self, instructions: Option<String>) -> Plan {
        self.plan(&Occasion::Requested { instructions })
    }

    /// Takes what happened, answers what to do.
    pub fn handle(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.dispatch(input, &mut effects);
        effects
    }

    fn dispatch(&mut self, input: Input, out: &mut Vec<Effect>) {
        match input {
            Input::Wake => self.wake(out),
            Input::Resume => {
                self.resuming = self.is_idle();
                self.wake(out);
            }
            Input::QueueRead(queued) => self.queue_read(&queued, out),
            Input::Appended { id, events } => self.appended(id, &events, out),
            Input::QueueChanged { id } => {
                self.pending.remove(&id);
                if !self.stop_at_boundary(out) {
                    self.read_queue(out);
                }
            }
            Input::ModelBegan => {
                if let Phase::Calling { began, .. } = &mut self.phase {
                    *began = true;
                }
            }
            Input::ModelAnswered(answer) => self.answered(answer, out),
            Input::ModelFailed { failure, partial } => self.failed(failure, partial, out),
            Input::ModelStopped { partial, usage } => {
                if let Phase::Calling { .. } = self.phase {
                    self.stopped(partial, usage, out);
                }
            }
            Input::Summarised(answer) => self.summarised(answer, out),
            Input::ToolEnded(result) => self.tool_ended(result, out),
            Input::Decided { approval_id, allowed, reason } => {
                self.decided(&approval_id, allowed, reason, out);
            }
            Input::TimerFired(timer) => self.timer_fired(timer, out),
            Input::Cancel => self.interrupt(Stop::Cancelled, out),
            Input::Compact { instructions } => self.compact(Occasion::Requested { instructions }, out),
            Input::Record(events) => {
                if self.is_idle() {
                    self.append(events, Then::Recorded, out);
                }
            }
            Input::Recover { partial } => self.recover(partial, out),
        }
    }

    /// Hands events to the store; `then` follows when they are durable.
    fn append(&mut self, events: Vec<EventBody>, then: Then, out: &mut Vec<Effect>) {
        self.append_with(events, Vec::new(), Vec::new(), then, out);
    }

    fn append_with(
        &mut self,
        events: Vec<EventBody>,
        takes: Vec<crate::ids::QueueId>,
        settles: Vec<StepId>,
        then: Then,
        out: &mut Vec<Effect>,
    ) {
        let id = AppendId(self.next_append);
        self.next_append += 1;
        self.pending.insert(id, then);
        out.push(Effect::Append { id, events, takes, settles });
    }

    fn appended(&mut self, id: AppendId, events: &[crate::event::Event], out: &mut Vec<Effect>) {
        for event in events {
            // The store numbers events without gaps, and this is its only writer.
            let folded = self.history.apply(event);
            self.now = event.at;
            debug_assert_eq!(folded, Ok(()));
        }
        match self.pending.remove(&id) {
            Some(then) => self.go_on(then, out),
            None => debug_assert!(false, "an append that nobody asked for"),
        }
    }

    fn go_on(&mut self, then: Then, out: &mut Vec<Effect>) {
        match then {
            Then::Begun => {
                self.start_run_timer(out);
                self.prepare(out);
            }
            Then::Boundary => self.boundary(out),
            Then::Prepare => self.prepare(out),
            Then::StartStep => self.start_step(out),
            Then::CallModel { step } => self.call_model(step, out),
            Then::AfterAnswer { finish } => self.after_answer(finish, out),
            Then::AfterOverflow => self.after_overflow(out),
            Then::RunTool(call) => self.run_tool(&call, out),
            Then::AskApproval(call) => self.ask(&call, out),
            Then::ToolStored(call) => self.tool_stored(&call, out),
            Then::Decided(call) => self.decision_stored(&call, out),
            Then::ActOn { plan, occasion } => {
                if !self.stop_at_boundary(out) {
                    self.act_on(*plan, occasion, out);
                }
            }
            Then::Finish { end, error } => self.finish(end, error, out),
            Then::Ended(end) => self.ended(end, out),
            Then::Compacted(edit) => {
                self.step = StepGuards::default();
                out.push(Effect::CompactionDone(CompactionOutcome::Committed(edit)));
                self.idle(out);
            }
            Then::Recovered => self.after_recovery(out),
            Then::Recorded if self.is_idle() && self.pending.is_empty() => self.wake_if_asked(out),
            Then::Recorded => {}
        }
    }

    /// The next position of the log: what ids of single-flight events are made of.
    fn next_seq(&self) -> Seq {
        self.history.last_seq() + 1
    }
}

/// Starting, taking the queue, ending.
impl Run {
    fn wake(&mut self, out: &mut Vec<Effect>) {
        if self.is_idle() && self.pending.is_empty() {
            self.read_queue(out);
        } else {
            self.woken = true;
        }
    }

    fn read_queue(&mut self, out: &mut Vec<Effect>) {
        self.phase = Phase::ReadingQueue;
        self.woken = false;
        out.push(Effect::ReadQueue);
    }

    fn queue_read(&mut self, queued: &[Queued], out: &mut Vec<Effect>) {
        if self.phase != Phase::ReadingQueue {
            return;
        }
        if self.stop_at_boundary(out) {
            return;
        }
        let waiting = !queued.is_empty();
        let unanswered = !self.history.is_answered();
        match self.history.open_run().map(|run| run.steps) {
            None if waiting || (self.resuming && unanswered) => self.begin(queued, out),
            None => self.rest(out),
            Some(steps) if steps >= self.settings.max_steps && (waiting || unanswered) => {
                self.finish(RunEnd::MaxSteps, None, out);
            }
            Some(_) if waiting => self.take(queued, Vec::new(), Then::Prepare, out),
            Some(_) if unanswered => self.prepare(out),
            Some(_) => self.finish(RunEnd::Stop, None, out),
        }
    }

    /// There is nothing to do, unless a message came after the queue was read.
    fn rest(&mut self, out: &mut Vec<Effect>) {
        self.phase = Phase::Idle;
        self.resuming = false;
        out.push(Effect::Rested);
        self.wake_if_asked(out);
    }

    fn begin(&mut self, queued: &[Queued], out: &mut Vec<Effect>) {
        self.resuming = false;
        self.stop = None;
        let run_id = format!("r{}", self.next_seq()).into();
        let started = vec![EventBody::RunStarted { run_id }];
        if queued.is_empty() {
            self.phase = Phase::Storing;
            self.append(started, Then::Begun, out);
        } else {
            self.take(queued, started, Then::Begun, out);
        }
    }

    /// What is left of the run's time: a recovered run does not get it anew.
    fn start_run_timer(&self, out: &mut Vec<Effect>) {
        if let (Some(timeout_ms), Some(run)) = (self.settings.timeout_ms, self.history.open_run()) {
            let spent_ms = self.now.saturating_sub(run.started_at);
            let after_ms = timeout_ms.saturating_sub(spent_ms);
            out.push(Effect::StartTimer { timer: Timer::Run, after_ms });
        }
    }

    fn take(&mut self, queued: &[Queued], mut events: Vec<EventBody>, then: Then, out: &mut Vec<Effect>) {
        let (parts, coalesced) = coalesce(queued);
        let taken: Vec<_> = queued.iter().map(|entry| entry.id.clone()).collect();
        let id = match taken.as_slice() {
            [only] => only.as_str().into(),
            _ => crate::ids::MessageId::new(format!("m{}", self.next_seq() + events.len() as u64)),
        };
        let message = Message::user(id, parts);
        events.push(EventBody::MessagesTaken { message, taken: taken.clone(), coalesced });
        self.phase = Phase::Storing;
        self.append_with(events, taken, Vec::new(), then, out);
    }

    /// Between two steps: the place where a run may end.
    fn boundary(&mut self, out: &mut Vec<Effect>) {
        if self.stop_at_boundary(out) {
            return;
        }
        let run = self.history.open_run();
        if run.is_some_and(|run| run.recovering) {
            return self.finish(RunEnd::Timeout, None, out);
        }
        if run.is_some_and(|run| run.steps >= self.settings.max_steps) && !self.history.is_answered() {
            return self.finish(RunEnd::MaxSteps, None, out);
        }
        self.read_queue(out);
    }

    fn stop_at_boundary(&mut self, out: &mut Vec<Effect>) -> bool {
        if self.history.open_run().is_none() {
            let cancelled = self.stop.take() == Some(Stop::Cancelled);
            if cancelled {
                self.rest(out);
            }
            return cancelled;
        }
        match self.stop {
            None => false,
            Some(Stop::Cancelled) => {
                self.finish(RunEnd::Cancelled, None, out);
                true
            }
            Some(Stop::Timeout) => {
                self.begin_recovery_step(out);
                true
            }
        }
    }

    /// Gives the model one step without tools to say where it stands.
    fn begin_recovery_step(&mut self, out: &mut Vec<Effect>) {
        if self.history.open_run().is_none_or(|run| run.recovering) {
            return self.finish(RunEnd::Timeout, None, out);
        }
        self.stop = None;
        let mut events = self.closing_events("[The run's time is over; the call was stopped.]");
        let text = "[The time of this run is over. Tools are off. Say in a few lines what is done, what is not, \
                    and what comes next.]";
        let id = format!("m{}", self.next_seq() + events.len() as u64);
        events.push(EventBody::NoteAdded {
            message: Message::user(id, vec![Part::text(text)]),
            why: NoteReason::TimeUp,
        });
        self.phase = Phase::Storing;
        self.step = StepGuards::default();
        out.push(Effect::StartTimer { timer: Timer::RecoveryStep, after_ms: RECOVERY_STEP_MS });
        self.append(events, Then::Prepare, out);
    }

    /// Results for every call without one, so that no later request is invalid.
    fn closing_events(&self, text: &str) -> Vec<EventBody> {
        let mut events = Vec::new();
        for open in self.history.open_calls() {
            let call_id = open.call.call_id.clone();
            if let Some(approval_id) = open.approval.clone() {
                let reason = Some("the run was stopped".to_owned());
                events.push(EventBody::ApprovalResolved {
                    approval_id,
                    call_id: call_id.clone(),
                    allowed: false,
                    reason,
                });
            }
            events.push(EventBody::ToolFinished {
                result: closing_result(&call_id, ToolStatus::Cancelled, text),
            });
        }
        events
    }

    fn finish(&mut self, end: RunEnd, error: Option<ErrorInfo>, out: &mut Vec<Effect>) {
        let Some(run) = self.history.open_run() else { return self.idle(out) };
        let run_id = run.id.clone();
        let text = match end {
            RunEnd::Cancelled => "[Cancelled by the user before it ended.]",
            _ => "[The run ended before this call did.]",
        };
        let mut events = self.closing_events(text);
        events.push(EventBody::RunFinished { run_id, reason: end, error });
        self.phase = Phase::Storing;
        for timer in [Timer::Run, Timer::RecoveryStep] {
            out.push(Effect::StopTimer { timer });
        }
        self.append(events, Then::Ended(end), out);
    }

    fn ended(&mut self, end: RunEnd, out: &mut Vec<Effect>) {
        let cancelled = self.stop.take() == Some(Stop::Cancelled) || end == RunEnd::Cancelled;
        self.phase = Phase::Idle;
        self.step = StepGuards::default();
        out.push(Effect::RunEnded(end));
        // Waiting messages start the next run, but for those that had come before a cancel. A run that ends by
        // itself has just found the queue empty.
        if cancelled || end == RunEnd::Stop {
            self.wake_if_asked(out);
        } else {
            self.read_queue(out);
        }
    }

    /// Idle again, after something that was no run.
    fn idle(&mut self, out: &mut Vec<Effect>) {
        self.phase = Phase::Idle;
        self.stop = None;
        self.wake_if_asked(out);
    }

    fn wake_if_asked(&mut self, out: &mut Vec<Effect>) {
        if std::mem::take(&mut self.woken) {
            self.read_queue(out);
        }
    }

    fn fail(&mut self, code: ErrorCode, message: impl Into<String>, out: &mut Vec<Effect>) {
        let error = ErrorInfo { code, message: message.into() };
        self.finish(RunEnd::Error, Some(error), out);
    }
}

/// Planning and compaction.
impl Run {
    fn plan(&self, occasion: &Occasion) -> Plan {
        let settings = &self.settings;
        plan::plan(&self.history, settings.fixed.tokens, &self.budget(), &settings.policy, occasion)
    }

    fn prepare(&mut self, out: &mut Vec<Effect>) {
        if self.stop_at_boundary(out) {
            return;
        }
        if self.step.compacted {
            return self.start_step(out);
        }
        match self.plan(&Occasion::Routine) {
            Plan::Fits => self.start_step(out),
            other => self.act_on(other, Occasion::Routine, out),
        }
    }

    fn act_on(&mut self, plan: Plan, occasion: Occasion, out: &mut Vec<Effect>) {
        match plan {
            Plan::Fits => self.nothing_to_do(&occasion, out),
            Plan::Edit(edit) => self.commit(*edit, &occasion, out),
            Plan::Summarise(draft) => self.ask_for_summary(draft, occasion, out),
            Plan::DoesNotFit(misfit) => self.does_not_fit(misfit, &occasion, out),
        }
    }

    fn nothing_to_do(&mut self, occasion: &Occasion, out: &mut Vec<Effect>) {
        match occasion {
            Occasion::Requested { .. } => {
                out.push(Effect::CompactionDone(CompactionOutcome::NothingToDo));
                self.idle(out);
            }
            Occasion::Overflow => {
                self.fail(
                    ErrorCode::ContextOverflow,
                    "the provider says that the request is too long, and nothing can be left out",
                    out,
                );
            }
            Occasion::Routine => self.start_step(out),
        }
    }

    fn does_not_fit(&mut self, misfit: Misfit, occasion: &Occasion, out: &mut Vec<Effect>) {
        if let Occasion::Requested { .. } = occasion {
            out.push(Effect::CompactionDone(CompactionOutcome::Refused(misfit.to_string())));
            return self.idle(out);
        }
        self.fail(ErrorCode::ContextOverflow, misfit.to_string(), out);
    }

    fn commit(&mut self, edit: ViewEdit, occasion: &Occasion, out: &mut Vec<Effect>) {
        self.commit_with(Vec::new(), edit, occasion, out);
    }

    fn commit_with(
        &mut self,
        mut events: Vec<EventBody>,
        edit: ViewEdit,
        occasion: &Occasion,
        out: &mut Vec<Effect>,
    ) {
        self.step.compacted = true;
        self.phase = Phase::Storing;
        let then = match occasion {
            Occasion::Requested { .. } => Then::Compacted(Box::new(edit.clone())),
            _ => Then::StartStep,
        };
        events.push(EventBody::ViewEdited(Box::new(edit)));
        self.append(events, then, out);
    }

    fn ask_for_summary(&mut self, draft: Box<SummaryDraft>, occasion: Occasion, out: &mut Vec<Effect>) {
        out.push(Effect::Notice(Notice::Compacting {
            strategy: draft.strategy().to_owned(),
            reason: draft.reason(),
            trigger_tokens: draft.trigger_tokens(),
        }));
        let request = draft.request(self.history.view(), &self.budget());
        let Some((form, messages)) = request else {
            return self.without_model(&draft, &occasion, out);
        };
        let max_output_tokens = draft.limit_tokens;
        self.phase = Phase::Summarising { draft, occasion };
        out.push(Effect::Summarise { form, messages, max_output_tokens });
    }

    fn summarised(&mut self, answer: Result<Answer, Failure>, out: &mut Vec<Effect>) {
        let Phase::Summarising { draft, occasion } = std::mem::replace(&mut self.phase, Phase::Storing)
        else {
            return;
        };
        if self.stop.is_some() {
            return self.boundary_or_idle(out);
        }
        let (usage, problem) = match answer {
            Ok(answer) => match draft.finish(&self.history.view_hash(), &answer) {
                Ok(edit) => return self.commit(edit, &occasion, out),
                Err(rejected) => {
                    (answer.usage, ErrorInfo { code: ErrorCode::ThirdParty, message: rejected.to_string() })
                }
            },
            Err(failure) => (failure.usage, ErrorInfo { code: failure.code, message: failure.message }),
        };
        out.push(Effect::Notice(Notice::CompactionFailed {
            strategy: draft.strategy().to_owned(),
            code: problem.code,
            reason: problem.message.clone(),
        }));
        self.commit_extract(&draft, &occasion, Some((usage, problem)), out);
    }

    fn without_model(&mut self, draft: &SummaryDraft, occasion: &Occasion, out: &mut Vec<Effect>) {
        self.commit_extract(draft, occasion, None, out);
    }

    /// No usable summary: the extract; then truncation; then the error.
    fn commit_extract(
        &mut self,
        draft: &SummaryDraft,
        occasion: &Occasion,
        failed: Option<(Option<Usage>, ErrorInfo)>,
        out: &mut Vec<Effect>,
    ) {
        let plan = match draft.finish_extractive(&self.history.view_hash()) {
            Ok(edit) => Plan::Edit(Box::new(edit)),
            Err(_) => self.plan_without_summary(occasion),
        };
        let strategy = draft.strategy().to_owned();
        let failed = failed.map(|(usage, problem)| EventBody::CompactionFailed {
            strategy,
            code: problem.code,
            reason: problem.message,
            usage,
        });
        self.phase = Phase::Storing;
        match (failed, plan) {
            (None, plan) => self.act_on(plan, occasion.clone(), out),
            (Some(failed), Plan::Edit(edit)) => {
                let id = format!("e{}", self.next_seq() + 1).into();
                self.commit_with(vec![failed], ViewEdit { id, ..*edit }, occasion, out);
            }
            (Some(failed), plan) => {
                let then = Then::ActOn { plan: Box::new(plan), occasion: occasion.clone() };
                self.append(vec![failed], then, out);
            }
        }
    }

    fn plan_without_summary(&self, occasion: &Occasion) -> Plan {
        let settings = &self.settings;
        let budget = self.budget();
        plan::without_summary(&self.history, settings.fixed.tokens, &budget, &settings.policy, occasion)
    }

    fn compact(&mut self, occasion: Occasion, out: &mut Vec<Effect>) {
        if !self.is_idle() || !self.pending.is_empty() {
            out.push(Effect::CompactionDone(CompactionOutcome::Refused("the session is busy".to_owned())));
            return;
        }
        self.phase = Phase::Storing;
        let plan = self.plan(&occasion);
        self.act_on(plan, occasion, out);
    }

    fn boundary_or_idle(&mut self, out: &mut Vec<Effect>) {
        if self.history.open_run().is_some() {
            return self.boundary(out);
        }
        out.push(Effect::CompactionDone(CompactionOutcome::Refused("cancelled".to_owned())));
        self.idle(out);
    }
}

/// The model call.
impl Run {
    fn start_step(&mut self, out: &mut Vec<Effect>) {
        if self.stop_at_boundary(out) {
            return;
        }
        let Some(run) = self.history.open_run() else { return };
        let recovering = self.is_time_up();
        let settings = &self.settings;
        let tools = settings.model.tools && !recovering;
        let step = StepId::new(format!("s{}", self.next_seq()));
        let start = StepStart {
            step_id: step.clone(),
            run_id: run.id.clone(),
            purpose: if recovering { StepKind::Recovery } else { StepKind::Main },
            model: settings.model.origin.clone(),
            system_hash: settings.fixed.system_hash.clone(),
            tools_hash: if tools { settings.fixed.tools_hash.clone() } else { String::new() },
            view_hash: self.history.view_hash(),
            fixed_tokens: settings.fixed.tokens,
            estimated_input: self.meter().total,
            max_output_tokens: self.max_output(),
            window_tokens: settings.model.window,
        };
        self.step.attempts = 0;
        self.phase = Phase::Storing;
        self.append(vec![EventBody::StepStarted(Box::new(start))], Then::CallModel { step }, out);
    }

    /// The answer's limit: the reserve, or what the estimate leaves of the window.
    fn max_output(&self) -> u64 {
        let budget = self.budget();
        budget.reserve.min(budget.window.saturating_sub(self.meter().bound())).max(16)
    }

    /// Whether the model was told that the run's time is over.
    fn is_time_up(&self) -> bool {
        self.history.open_run().is_some_and(|run| run.time_is_up)
    }

    fn call_model(&mut self, step: StepId, out: &mut Vec<Effect>) {
        if self.stop.is_some() {
            return self.stopped(Vec::new(), None, out);
        }
        let calling = self.history.open_run().and_then(|run| run.calling.as_ref());
        let Some(start) = calling else { return };
        let tools =
            !start.tools_hash.is_empty() || (start.purpose == StepKind::Main && self.settings.model.tools);
        let max_output_tokens = start.max_output_tokens;
        self.phase = Phase::Calling { step: step.clone(), began: false };
        out.push(Effect::CallModel { step, tools, max_output_tokens });
    }

    fn answered(&mut self, answer: Answer, out: &mut Vec<Effect>) {
        let Phase::Calling { step, .. } = &self.phase else { return };
        let step = step.clone();
        let parts = self.named_calls(&step, answer.parts, answer.finish);
        if !says_something(&parts) && answer.finish != Finish::Length {
            let failure = Failure::new(ErrorCode::ThirdParty, "the model's answer was empty", true);
            return self.failed(Failure { usage: answer.usage, ..failure }, Vec::new(), out);
        }
        let estimated_input = self.estimated_input();
        let events = vec![
            self.assistant(&step, parts, answer.finish, None),
            EventBody::StepFinished {
                step_id: step.clone(),
                usage: answer.usage,
                estimated_input,
                envelope: answer.envelope,
            },
        ];
        self.phase = Phase::Storing;
        self.append_with(events, Vec::new(), vec![step], Then::AfterAnswer { finish: answer.finish }, out);
    }

    fn estimated_input(&self) -> u64 {
        let calling = self.history.open_run().and_then(|run| run.calling.as_ref());
        calling.map_or(0, |start| start.estimated_input)
    }

    fn assistant(&self, step: &StepId, parts: Vec<Part>, finish: Finish, cut: Option<Cut>) -> EventBody {
        let message = Message {
            id: format!("m-{step}").into(),
            role: Role::Assistant,
            parts,
            origin: Some(self.settings.model.origin.clone()),
        };
        EventBody::AssistantAdded { step_id: step.clone(), message, finish, cut }
    }

    /// Gives every call a name of ours. A call that the output limit cut in two never existed; in the recovery
    /// step there are no tools to call.
    fn named_calls(&self, step: &StepId, parts: Vec<Part>, finish: Finish) -> Vec<Part> {
        let last_call = parts.iter().rposition(|part| matches!(part, Part::ToolCall(_)));
        let recovering = self.is_time_up();
        let mut named = Vec::with_capacity(parts.len());
        for (at, part) in parts.into_iter().enumerate() {
            match part {
                Part::ToolCall(_) if recovering => {}
                Part::ToolCall(call) => {
                    let may_be_cut = finish == Finish::Length && Some(at) == last_call;
                    if !may_be_cut || crate::history::is_object(&call.arguments) {
                        let call_id = CallId::new(format!("c-{step}-{at}"));
                        let provider_id = call.provider_id.or_else(|| {
                            let given = call.call_id.as_str();
                            (!given.is_empty()).then(|| given.to_owned())
                        });
                        named.push(Part::ToolCall(ToolCall { call_id, provider_id, ..call }));
                    }
                }
                other => named.push(other),
            }
        }
        named
    }

    fn after_answer(&mut self, finish: Finish, out: &mut Vec<Effect>) {
        self.step = StepGuards::default();
        if !self.history.open_calls().is_empty() {
            return self.start_tools(out);
        }
        if finish == Finish::Length && self.stop.is_none() && !self.is_time_up() {
            return self.finish(RunEnd::Length, None, out);
        }
        self.boundary(out);
    }

    fn failed(&mut self, failure: Failure, partial: Vec<Part>, out: &mut Vec<Effect>) {
        let Phase::Calling { step, began } = &self.phase else { return };
        let (step, began) = (step.clone(), *began);
        if self.stop.is_some() {
            return self.stopped(partial, failure.usage, out);
        }
        if failure.code == ErrorCode::ContextOverflow {
            return self.overflowed(&step, failure, out);
        }
        let empty = partial.is_empty() && failure.retryable;
        if empty
            && (!began || failure.is_empty_answer())
            && self.step.attempts + 1 < self.settings.retry.attempts
        {
            self.step.attempts += 1;
            let after_ms = self.settings.retry.delay_ms(self.step.attempts, failure.retry_after_ms);
            let attempt = self.step.attempts;
            out.push(Effect::Notice(Notice::Retrying {
                code: failure.code,
                message: failure.message,
                attempt,
                after_ms,
            }));
            out.push(Effect::StartTimer { timer: Timer::Retry, after_ms });
            self.phase = Phase::Retrying { step };
            return;
        }
        let mut events = Vec::new();
        if says_something(&partial) {
            events.push(self.assistant(&step, self.without_calls(partial), Finish::Other, Some(Cut::Lost)));
        }
        events.push(step_failed(&step, &failure));
        let error = Some(ErrorInfo { code: failure.code, message: failure.message });
        self.phase = Phase::Storing;
        self.append_with(events, Vec::new(), vec![step], Then::Finish { end: RunEnd::Error, error }, out);
    }

    fn without_calls(&self, parts: Vec<Part>) -> Vec<Part> {
        parts.into_iter().filter(|part| !matches!(part, Part::ToolCall(_))).collect()
    }

    fn overflowed(&mut self, step: &StepId, failure: Failure, out: &mut Vec<Effect>) {
        let events = vec![step_failed(step, &failure)];
        let error = ErrorInfo { code: failure.code, message: failure.message };
        self.phase = Phase::Storing;
        if std::mem::replace(&mut self.step.overflowed, true) || !self.settings.policy.enabled {
            let then = Then::Finish { end: RunEnd::Error, error: Some(error) };
            return self.append_with(events, Vec::new(), vec![step.clone()], then, out);
        }
        self.append_with(events, Vec::new(), vec![step.clone()], Then::AfterOverflow, out);
    }

    fn after_overflow(&mut self, out: &mut Vec<Effect>) {
        if self.stop_at_boundary(out) {
            return;
        }
        let plan = self.plan(&Occasion::Overflow);
        self.act_on(plan, Occasion::Overflow, out);
    }

    /// The model call was stopped by us: what was seen stays.
    fn stopped(&mut self, partial: Vec<Part>, usage: Option<Usage>, out: &mut Vec<Effect>) {
        let calling = self.history.open_run().and_then(|run| run.calling.as_ref());
        let Some(step) = calling.map(|start| start.step_id.clone()) else { return };
        let mut events = Vec::new();
        let partial = self.named_calls(&step, partial, Finish::Length);
        if says_something(&partial) {
            events.push(self.assistant(&step, partial, Finish::Other, Some(Cut::Cancelled)));
        }
        events.push(match usage {
            Some(usage) => EventBody::StepFinished {
                step_id: step.clone(),
                usage: Some(usage),
                estimated_input: self.estimated_input(),
                envelope: None,
            },
            None => step_failed(&step, &Failure::new(ErrorCode::Interrupted, "the call was stopped", false)),
        });
        self.phase = Phase::Storing;
        self.append_with(events, Vec::new(), vec![step], Then::Boundary, out);
    }

    fn timer_fired(&mut self, timer: Timer, out: &mut Vec<Effect>) {
        match (timer, &self.phase) {
            (Timer::Retry, Phase::Retrying { step }) => {
                let step = step.clone();
                self.call_model(step, out);
            }
            (Timer::Run | Timer::RecoveryStep, _) => self.interrupt(Stop::Timeout, out),
            (Timer::Retry, _) => {}
        }
    }

    /// Somebody cancels, or the time is over.
    fn interrupt(&mut self, stop: Stop, out: &mut Vec<Effect>) {
        let compacting = matches!(self.phase, Phase::Summarising { .. });
        let beginning = matches!(self.phase, Phase::ReadingQueue | Phase::Storing) && stop == Stop::Cancelled;
        if self.history.open_run().is_none() && !compacting && !beginning {
            return;
        }
        if stop == Stop::Cancelled {
            // What waits now goes on waiting; a message that comes later is the next one.
            self.woken = false;
        }
        if self.stop == Some(Stop::Cancelled) {
            return;
        }
        let repeated = self.stop.replace(stop).is_some();
        match &self.phase {
            Phase::Calling { .. } | Phase::Summarising { .. } if !repeated => out.push(Effect::StopModel),
            Phase::Retrying { .. } => {
                out.push(Effect::StopTimer { timer: Timer::Retry });
                self.stopped(Vec::new(), None, out);
            }
            Phase::Tools(_) => self.stop_tools(out),
            _ => {}
        }
    }
}

fn step_failed(step: &StepId, failure: &Failure) -> EventBody {
    EventBody::StepFailed {
        step_id: step.clone(),
        code: failure.code,
        message: failure.message.clone(),
        used_tokens: failure.used_tokens,
        limit_tokens: failure.limit_tokens,
    }
}

fn says_something(parts: &[Part]) -> bool {
    parts.iter().any(|part| match part {
        Part::Text(text) => !text.text.trim().is_empty(),
        Part::Reasoning(reasoning) => reasoning.native.is_some(),
        _ => true,
    })
}

#[cfg(test)]
mod tests;
