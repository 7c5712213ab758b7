//! The commands of a session, and the driver's answers.

use std::sync::{Arc, PoisonError};

use longhaul_core::budget::StrategyTrigger;
use longhaul_core::event::{Event, EventBody, ModelChoice, ViewEdit};
use longhaul_core::history::{History, UndoError};
use longhaul_core::ids::{ApprovalId, EditId, Millis, QueueId};
use longhaul_core::message::Part;
use longhaul_core::metadata::MessageMetadata;
use longhaul_core::meter;
use longhaul_core::plan::{CompactionPolicy, Plan, PlanContext};
use longhaul_core::queue::QueuedMessage;
use longhaul_core::run::{CompactionOutcome, Run, RunLoopInput, RunRecovery, RunSettings, RunStatus};
use longhaul_core::strategy::{
    CompactionSelection, CompactionStrategy, ProtectionLevel, ThresholdInput, TriggerThreshold,
};
use longhaul_store::{SharedNodes, StoreError};
use tokio::sync::oneshot;

use super::context::DriverContext;
use super::waiters::PendingCancel;
use super::{OrderChange, SessionDriver};
use crate::agent::{Agent, SummaryModel};
use crate::api_events::ApiEvent;
use crate::context::{self, ContextReport};
use crate::session::{
    CancelCutoff, CancelPoint, OwnerMessage, PinOutcome, ResumeOutcome, RunOutcome, SessionError,
    SwitchOutcome, folded, whole_log,
};

/// The maximum number of events in the search for messages taken since a cancel was left.
const EVENTS_SINCE: usize = 1_000;

/// A command for a session.
pub(crate) enum SessionCommand {
    /// Stops the current run. The reply is sent once the run has ended, whatever starts next.
    Cancel {
        reply: oneshot::Sender<CancelPoint>,
    },
    Resume {
        reply: oneshot::Sender<ResumeOutcome>,
    },
    /// Starts the next attempt at once during a wait for the model's server; the reply says whether there was a wait.
    RetryNow {
        reply: oneshot::Sender<bool>,
    },
    WhenIdle {
        reply: oneshot::Sender<RunOutcome>,
    },
    Compact {
        strategy: Option<SharedStrategy>,
        instructions: Option<String>,
        reply: oneshot::Sender<CompactionOutcome>,
    },
    Queue {
        change: QueueChange,
        reply: oneshot::Sender<Result<Vec<QueueId>, StoreError>>,
    },
    Record {
        make: RecordMaker,
        reply: oneshot::Sender<Result<Vec<Event>, SessionError>>,
    },
    /// Pins, edits or removes a standing order, in any state of the run.
    ChangeOrders {
        change: OrderChange,
        reply: oneshot::Sender<Result<PinOutcome, SessionError>>,
    },
    /// Switches to another agent or model, from the next step on.
    Switch {
        choice: ModelChoice,
        agent: Arc<Agent>,
        reply: oneshot::Sender<SwitchOutcome>,
    },
    /// Applies other settings, from the next decision on.
    Govern {
        policy: Box<CompactionPolicy>,
        summariser: Option<SummaryModel>,
        reply: oneshot::Sender<()>,
    },
    Look {
        look: Box<dyn FnOnce(&Run) + Send>,
    },
    /// Computes something that takes long in a long session, which others can read meanwhile.
    Compute {
        compute: Box<dyn FnOnce(&Run) + Send>,
    },
    Context {
        reply: oneshot::Sender<ContextReport>,
    },
    Decide {
        approval_id: ApprovalId,
        allowed: bool,
        reason: Option<String>,
        reply: oneshot::Sender<bool>,
    },
    Close {
        reply: oneshot::Sender<()>,
    },
    /// Closes a session at rest; otherwise there is no answer.
    CloseAtRest {
        reply: oneshot::Sender<()>,
    },
    /// Reads the queue and the signals left by other nodes. Messages queued before `since` keep waiting if no later
    /// message follows.
    HearNodes {
        nodes: SharedNodes,
        since: Millis,
    },
    /// Takes the waiting messages, if the agent's rules allow it and the session is not parked.
    TakeUp,
}

/// A compaction strategy for any session.
pub(crate) type SharedStrategy = Arc<dyn CompactionStrategy>;

/// A change of the queued messages. The change is made between two of the loop's decisions, never during a decision.
pub(crate) enum QueueChange {
    /// A message without new `metadata` keeps the old metadata.
    Edit {
        id: QueueId,
        parts: Vec<Part>,
        metadata: Option<MessageMetadata>,
    },
    Remove {
        id: QueueId,
    },
    Clear,
}

/// Makes the events of a change at rest, or returns the reason against the change.
pub(crate) type RecordMaker = Box<dyn FnOnce(&Run) -> Result<Vec<EventBody>, SessionError> + Send>;

impl SessionDriver {
    pub(super) async fn command(&mut self, command: SessionCommand) -> Result<(), StoreError> {
        match command {
            SessionCommand::Cancel { reply } => self.cancel(reply).await?,
            SessionCommand::Resume { reply } => self.resume(reply).await?,
            SessionCommand::RetryNow { reply } => {
                // The input ends the wait, so the answer is read before.
                let was_waiting = self.context.run.waiting().is_some();
                self.process_input(RunLoopInput::RetryNow).await?;
                let _ = reply.send(was_waiting);
            }
            SessionCommand::WhenIdle { reply } => self.waiters.waiting.push(reply),
            SessionCommand::Compact { strategy, instructions, reply } => {
                self.compact(strategy, instructions, reply).await?;
            }
            SessionCommand::Queue { change, reply } => {
                // The change is made whether or not the caller still waits for it.
                let _ = reply.send(self.change_queue(change).await);
            }
            SessionCommand::Record { make, reply } => self.record(make, reply).await?,
            SessionCommand::ChangeOrders { change, reply } => self.change_orders(change, reply).await?,
            SessionCommand::Switch { choice, agent, reply } => {
                let switched = self.switch(choice, agent).await?;
                let _ = reply.send(switched);
            }
            SessionCommand::Govern { policy, summariser, reply } => {
                set_policy(&mut self.context, *policy, summariser);
                let _ = reply.send(());
            }
            SessionCommand::Look { look } => self.context.read_in_place(look),
            SessionCommand::Compute { compute } => self.context.compute_in_place(|run| compute(run)),
            SessionCommand::Context { reply } => {
                let _ = reply.send(context::of(&self.context.run, &self.context.agent));
            }
            SessionCommand::Decide { approval_id, allowed, reason, reply } => {
                let known = self.approvals.close(&approval_id);
                tracing::debug!(
                    approval = approval_id.as_str(),
                    allowed,
                    known,
                    "an answer to a question came"
                );
                // A second answer to the same question must not reach the loop.
                if known {
                    self.process_input(RunLoopInput::Decided { approval_id, allowed, reason }).await?;
                }
                // The person who answered may be gone. The decision counts all the same.
                let _ = reply.send(known);
            }
            SessionCommand::HearNodes { nodes, since } => self.handle_node_signals(&nodes, since).await?,
            SessionCommand::TakeUp => {
                let continues = self.context.agent.rules.recovery == RunRecovery::Continue;
                // A session is parked after repeated crashes. Another attempt by itself could crash again, so a person
                // decides.
                let is_parked = self.context.run.history().parked().is_some();
                tracing::debug!(continues, is_parked, "waiting messages may be taken");
                if continues && !is_parked {
                    self.process_input(RunLoopInput::Wake).await?;
                }
            }
            SessionCommand::CloseAtRest { reply } => {
                if self.context.run.is_idle() {
                    self.closing = Some(reply);
                }
            }
            SessionCommand::Close { reply } => {
                // `Session::close` raised the flag once, and each raise needs its answer.
                self.context.shared.stop_flag.answer();
                self.closing = Some(reply);
                // A run that only waits for its model's server continues in the next process, if the rules allow it.
                let goes_on = self.context.run.settings().recovery == RunRecovery::Continue;
                self.leaves_open = goes_on && self.context.run.waiting().is_some();
                tracing::debug!(
                    is_idle = self.context.run.is_idle(),
                    leaves_open = self.leaves_open,
                    "the session is closed"
                );
                if !self.context.run.is_idle() && !self.leaves_open {
                    self.process_input(RunLoopInput::Cancel).await?;
                }
            }
        }
        Ok(())
    }

    /// Handles the signals of other nodes in their order: a cancel ends the run of its time. Messages queued before the
    /// cancel then wait, and messages sent after it wake the session.
    async fn handle_node_signals(&mut self, nodes: &SharedNodes, since: Millis) -> Result<(), StoreError> {
        // The set exists from the first signal on. `cancel` uses its existence as the mark that other nodes exist.
        self.announced.get_or_insert_default();
        // Signals come before the queue: a cancel must not stop the run of a message that was sent after it.
        for signal in nodes.take_signals(&self.context.lease).await? {
            match OwnerMessage::read(&signal.body) {
                Some(OwnerMessage::Cancel { clear_queue, before }) => {
                    self.cancel_for_node(clear_queue, before).await?
                }
                None => {
                    let session = &self.context.shared.session_id;
                    tracing::warn!(%session, "a signal of another node is not understood and is ignored");
                }
            }
        }
        let queue = self.queue().await?;
        let announced = self.announced.get_or_insert_default();
        let wakes =
            queue.iter().any(|message| message.queued_at >= since && !announced.contains(&message.id));
        tracing::debug!(queued = queue.len(), wakes, since, "other nodes changed the queue");
        // The set is replaced, so ids of messages that were taken do not accumulate.
        *announced = ids(&queue).collect();
        if wakes {
            self.process_input(RunLoopInput::Wake).await?;
        }
        Ok(())
    }

    async fn cancel_for_node(
        &mut self,
        clear_queue: bool,
        before: Option<CancelCutoff>,
    ) -> Result<(), StoreError> {
        let mut meant: Vec<QueueId> = ids(&self.queue().await?).collect();
        if let Some(before) = &before {
            // Messages that were queued after the cancel was left are not part of it.
            meant.retain(|id| before.waiting.contains(id));
        }
        if clear_queue {
            // Messages are removed one by one, because `Clear` would also remove the later ones.
            for id in meant.iter().cloned() {
                match self.change_queue(QueueChange::Remove { id }).await {
                    // Another command has removed the message first.
                    Ok(_) | Err(StoreError::NotFound(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        // These messages were sent before the cancel: late news of them must not start a run.
        self.announced.get_or_insert_default().extend(meant);
        match before {
            // The present run answers a message that was sent after the cancel.
            Some(before) if self.took_since(&before).await? => {
                tracing::debug!(
                    seq = before.seq,
                    "a cancel of another node is ignored: the run answers a later message"
                );
                Ok(())
            }
            _ => self.process_input(RunLoopInput::Cancel).await,
        }
    }

    /// Returns whether a message from after the cancel was taken.
    async fn took_since(&self, before: &CancelCutoff) -> Result<bool, StoreError> {
        let (store, id) = (&self.context.shared.store, &self.context.shared.session_id);
        let since = store.read(id, before.seq, EVENTS_SINCE).await?;
        Ok(since.iter().any(|event| match &event.body {
            EventBody::MessagesTaken { taken, .. } => taken.iter().any(|id| !before.waiting.contains(id)),
            _ => false,
        }))
    }

    async fn queue(&self) -> Result<Vec<QueuedMessage>, StoreError> {
        self.context.shared.store.queue(&self.context.shared.session_id).await
    }

    async fn cancel(&mut self, reply: oneshot::Sender<CancelPoint>) -> Result<(), StoreError> {
        // Every raise is answered: a raise without an answer would end the next computation early, too.
        let has_ended_computation = self.context.shared.stop_flag.answer();
        let case = match self.context.run.status() {
            RunStatus::Idle | RunStatus::Parked => CancelPoint::Idle,
            RunStatus::ExecutingTools | RunStatus::WaitingApproval => CancelPoint::ToolsInProgress,
            RunStatus::Streaming if self.context.run.is_answering() => CancelPoint::PartialAssistant,
            _ => CancelPoint::BetweenCalls,
        };
        if self.announced.is_some() {
            // Signals about messages queued from now on may still arrive.
            let queue = self.queue().await?;
            self.announced.get_or_insert_default().extend(ids(&queue));
        }
        tracing::info!(point = ?case, has_ended_computation, "a cancel came");
        if has_ended_computation {
            // The work that the cancel was meant for ended before the command was read.
            let _ = reply.send(CancelPoint::BetweenCalls);
            return Ok(());
        }
        match case {
            CancelPoint::Idle => drop(reply.send(case)),
            met => self.waiters.cancels.push(PendingCancel {
                met,
                // An answer stored after this position is the one that the cancel cut off.
                since: self.context.run.history().last_seq(),
                reply,
            }),
        }
        self.process_input(RunLoopInput::Cancel).await
    }

    async fn resume(&mut self, reply: oneshot::Sender<ResumeOutcome>) -> Result<(), StoreError> {
        let was_busy = !self.context.run.is_idle();
        // The loop reports nothing if there is nothing to resume. A log that has grown shows that a run began.
        let before = self.context.run.history().last_seq();
        self.process_input(RunLoopInput::Resume).await?;
        let met = match (was_busy, self.context.run.history().last_seq() > before) {
            (true, _) => ResumeOutcome::Busy,
            (false, true) => ResumeOutcome::Begun,
            (false, false) => ResumeOutcome::NothingToDo,
        };
        tracing::debug!(outcome = ?met, "a resume was asked for");
        let _ = reply.send(met);
        Ok(())
    }

    /// Starts a compaction, one at a time: a request during other work is refused, and the other work is not disturbed.
    async fn compact(
        &mut self,
        strategy: Option<SharedStrategy>,
        instructions: Option<String>,
        reply: oneshot::Sender<CompactionOutcome>,
    ) -> Result<(), StoreError> {
        if self.compacting.is_some() || !self.context.run.is_idle() {
            tracing::debug!("a compaction was refused: the session is busy");
            // Refused and not queued: by the end of the run the view is another one.
            let _ = reply.send(CompactionOutcome::Refused("the session is busy".to_owned()));
            return Ok(());
        }
        if let Some(settings) = asked_settings(&self.context.run, strategy, instructions.as_deref()) {
            self.context.suspend_settings(settings);
        }
        tracing::info!(
            strategy = self.context.run.settings().policy.strategy.name(),
            has_instructions = instructions.is_some(),
            "a person asked for a compaction"
        );
        // The reply is in place before the input: a compaction without a summary is done within that input.
        self.compacting = Some(reply);
        self.process_input(RunLoopInput::Compact { instructions }).await
    }

    async fn change_queue(&self, change: QueueChange) -> Result<Vec<QueueId>, StoreError> {
        let (store, session_id) = (&self.context.shared.store, &self.context.shared.session_id);
        let (name, changed) = match change {
            QueueChange::Edit { id, parts, metadata } => {
                // The store replaces the whole message, so metadata that is not given must be carried over.
                let metadata = match metadata {
                    Some(metadata) => Some(metadata),
                    None => {
                        self.queue().await?.into_iter().find(|one| one.id == id).and_then(|one| one.metadata)
                    }
                };
                store.edit_queued(session_id, &id, parts, metadata).await?;
                ("message:edited", vec![id])
            }
            QueueChange::Remove { id } => {
                store.remove_queued(session_id, &id).await?;
                ("message:removed", vec![id])
            }
            QueueChange::Clear => ("message:removed", store.clear_queue(session_id).await?),
        };
        tracing::debug!(change = name, messages = changed.len(), "the queue was changed");
        for id in &changed {
            self.context.publish(ApiEvent::passing(name, session_id, serde_json::json!({ "id": id })));
        }
        Ok(changed)
    }

    async fn record(
        &mut self,
        make: RecordMaker,
        reply: oneshot::Sender<Result<Vec<Event>, SessionError>>,
    ) -> Result<(), StoreError> {
        // The change is computed here and not by the caller: between two messages nothing else can change the log.
        let made = if self.context.run.is_idle() { make(&self.context.run) } else { Err(SessionError::Busy) };
        let bodies = match made {
            Ok(bodies) => bodies,
            Err(error) => {
                let _ = reply.send(Err(error));
                return Ok(());
            }
        };
        let before = self.context.run.history().last_seq();
        self.process_input(RunLoopInput::Record(bodies)).await?;
        let count = (self.context.run.history().last_seq() - before) as usize;
        // The reply has the events as stored: their positions and times come from the append.
        let events = self.context.shared.store.tail(&self.context.shared.session_id, count).await?;
        let _ = reply.send(Ok(events));
        Ok(())
    }

    /// Stores a change of the orders in any state of the run: standing orders leave the view unchanged.
    async fn change_orders(
        &mut self,
        change: OrderChange,
        reply: oneshot::Sender<Result<PinOutcome, SessionError>>,
    ) -> Result<(), StoreError> {
        // The same text pinned twice is one order, so its novelty must be known before the change.
        let is_new = change.order(&self.context.run).is_none();
        let events = match change.events(&self.context.run) {
            Ok(events) => events,
            Err(error) => {
                let _ = reply.send(Err(error.into()));
                return Ok(());
            }
        };
        if !events.is_empty() {
            self.process_input(RunLoopInput::RecordOrders(events)).await?;
        }
        // The order is read back after the append, so that the reply shows the stored form.
        let order = change.order(&self.context.run);
        let stored = order.ok_or_else(|| SessionError::Conflict("the order was not stored".to_owned()));
        let _ = reply.send(stored.map(|order| PinOutcome { order, is_new }));
        Ok(())
    }

    /// Stores the switch as soon as no step is open.
    async fn switch(&mut self, choice: ModelChoice, agent: Arc<Agent>) -> Result<SwitchOutcome, StoreError> {
        let to = agent.provider.origin();
        let history = self.context.run.history();
        // With a switch on its way, the choice in the history is not the one that the session is about to have.
        let is_bound =
            self.pending_switches.is_empty() && self.context.shared.agent_binding().missing.is_none();
        let model = history.model().unwrap_or(&self.context.run.settings().model.origin);
        if is_bound && *history.choice() == choice && *model == to {
            return Ok(SwitchOutcome::Already);
        }
        tracing::debug!(from = model.model, to = to.model, "another agent or model was chosen");
        // The agent takes effect only when its event is stored, so that the log and the agent agree after a crash.
        self.pending_switches.push_back(agent);
        let switched = EventBody::ModelSwitched { to, choice: Some(choice) };
        self.process_input(RunLoopInput::RecordSoon(vec![switched])).await?;
        Ok(if self.pending_switches.is_empty() { SwitchOutcome::Now } else { SwitchOutcome::AtNextStep })
    }

    /// Binds the agent of the newest of so many stored switches.
    pub(super) async fn activate_switched_agent(&mut self, switches: usize) -> Result<(), StoreError> {
        let taken = switches.min(self.pending_switches.len());
        // Several switches may become durable in one append. Only the newest is in force.
        let Some(agent) = self.pending_switches.drain(..taken).next_back() else { return Ok(()) };
        let agent = agent.calibrated().with_deferral_decided();
        let shared = Arc::clone(&self.context.shared);
        shared.binding.write().unwrap_or_else(PoisonError::into_inner).missing = None;
        let (history, is_same) = (agent.new_history(), agent.reads_as(self.context.run.history()));
        // The age of the limits and the suspicions belong to the earlier model's server.
        self.limits_probe.reset();
        self.truncation.reset();
        self.context.set_agent(agent);
        if is_same {
            return Ok(());
        }
        // A history counts with a single tokenizer, so another one needs the whole log again.
        let log = whole_log(&shared.store, &shared.session_id).await?;
        match folded(&shared.session_id, history, log).await {
            // Another tokenizer counts the same log differently.
            Ok(history) => self.work.extend(self.context.run.recount(history)),
            // The history is whole and was only counted by another tokenizer, so the session continues with it.
            Err(error) => {
                tracing::error!(
                    session = %shared.session_id,
                    %error,
                    "the history is not counted with the new tokenizer; the earlier counts are kept"
                )
            }
        }
        Ok(())
    }
}

/// Applies other settings; the prices of the model stay.
fn set_policy(context: &mut DriverContext, policy: CompactionPolicy, summariser: Option<SummaryModel>) {
    tracing::debug!(
        strategy = policy.strategy.name(),
        enabled = policy.enabled,
        has_summary_model = summariser.is_some(),
        "the compaction settings were changed"
    );
    let mut agent = Agent::clone(&context.agent);
    // Prices belong to the session's model and are no setting.
    agent.rules.policy = CompactionPolicy { prices: agent.rules.policy.prices, ..policy };
    agent.rules.summariser = summariser;
    context.set_agent(Arc::new(agent));
}

fn ids(queue: &[QueuedMessage]) -> impl Iterator<Item = QueueId> {
    queue.iter().map(|message| message.id.clone())
}

/// Returns the settings for one compaction with another strategy or with instructions; `None` if neither was given.
fn asked_settings(
    run: &Run,
    strategy: Option<SharedStrategy>,
    instructions: Option<&str>,
) -> Option<Arc<RunSettings>> {
    let has_wish = strategy.is_some() || instructions.is_some_and(|text| !text.trim().is_empty());
    // Instructions alone need the wrapper as well: clearing old tool results would ignore them.
    let strategy = strategy.unwrap_or_else(|| Arc::clone(&run.settings().policy.strategy));
    has_wish.then(|| {
        let mut settings = RunSettings::clone(run.settings());
        settings.policy.strategy = Arc::new(RequestedStrategy(strategy));
        Arc::new(settings)
    })
}

/// A strategy requested by name or with instructions. Old tool results are not cleared instead: clearing is another
/// strategy and ignores instructions.
struct RequestedStrategy(SharedStrategy);

impl CompactionStrategy for RequestedStrategy {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn trigger(&self) -> StrategyTrigger {
        self.0.trigger()
    }

    fn choose(&self, context: &PlanContext<'_>, protection: ProtectionLevel) -> Option<CompactionSelection> {
        self.0.choose(context, protection)
    }

    fn prunes_first(&self) -> bool {
        false
    }

    fn threshold(&self, input: &ThresholdInput<'_>) -> TriggerThreshold {
        self.0.threshold(input)
    }

    fn background_selection(&self, context: &PlanContext<'_>) -> Option<CompactionSelection> {
        self.0.background_selection(context)
    }

    fn waits_for_summary(&self) -> bool {
        self.0.waits_for_summary()
    }

    fn validate(&self, before: &History, edit: &ViewEdit) -> Result<(), String> {
        self.0.validate(before, edit)
    }
}

/// Returns the plan of a compaction, by the configured strategy or another.
pub(crate) fn preview(run: &Run, strategy: Option<SharedStrategy>, instructions: Option<String>) -> Plan {
    let Some(settings) = asked_settings(run, strategy, instructions.as_deref()) else {
        return run.preview(instructions);
    };
    // A preview must leave the settings of the session as they are.
    let mut other = run.clone();
    other.configure(settings);
    other.preview(instructions)
}

/// Returns whether an undo of `edit_id` is allowed, and the event of the undo.
pub(crate) fn undo(run: &Run, edit_id: &EditId) -> Result<Vec<EventBody>, SessionError> {
    let undone = run.history().edits().iter().any(|state| state.edit.id == *edit_id && !state.active)
        || run.history().omissions().iter().any(|omission| omission.id == *edit_id && !omission.active);
    if undone {
        return Err(SessionError::AlreadyUndone(edit_id.clone()));
    }
    run.history().check_undo(edit_id).map_err(|error| match error {
        UndoError::NotFound(id) => SessionError::NotFound(format!("compaction {id}")),
        other => SessionError::Conflict(other.to_string()),
    })?;
    let restored = EventBody::ViewRestored { edit_id: edit_id.clone() };
    // Restored messages are exempt from automatic compaction until their release, so no later step would make them fit.
    let after = run.history().with(restored.clone());
    let tokens = meter::read(&after, run.settings().fixed.tokens_of(&after)).bound();
    let usable = run.budget().usable;
    if tokens > usable {
        return Err(SessionError::DoesNotFit { tokens, usable });
    }
    Ok(vec![restored])
}

/// Returns the event for releasing the messages under `edit_id`, if a release is allowed.
pub(crate) fn release(run: &Run, edit_id: EditId) -> Result<Vec<EventBody>, SessionError> {
    match run.history().edits().iter().find(|state| state.edit.id == edit_id) {
        None => Err(SessionError::NotFound(format!("compaction {edit_id}"))),
        Some(state) if state.active => Err(SessionError::NotUndone(edit_id)),
        Some(state) if state.released => Err(SessionError::AlreadyReleased(edit_id)),
        Some(_) => Ok(vec![EventBody::RangeReleased { edit_id }]),
    }
}
