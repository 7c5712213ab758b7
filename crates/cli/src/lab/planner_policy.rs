//! The policy with this project's own planner: with the history, the meter and the edits of a session.
//!
//! The recording's messages are folded into a separate history step by step, with the replay's usage.
//! Where the planner wants a summary it gets the [stand-in](crate::lab::summary) of all policies.

use std::collections::HashMap;
use std::sync::Arc;

use longhaul_core::event::{Event, EventBody, FORMAT, NoteReason, StepKind, StepStart};
use longhaul_core::history::{History, LogEntryKind, ViewItem};
use longhaul_core::ids::{LogRange, Millis};
use longhaul_core::message::{Message, ModelOrigin, ModelStopReason, Part, ToolResult};
use longhaul_core::meter;
use longhaul_core::plan;
use longhaul_core::usage::Usage;

use crate::lab::policy::{ContextPolicy, PolicyInput, PolicyRequest, SideCall, ViewSegment};
use crate::lab::recording::{RecordedMessage, SessionRecording, text_of};
use crate::lab::score::ScriptedSummariser;

pub(crate) mod pass;

/// A strategy of this project.
pub(crate) struct PlannerPolicy {
    name: String,
    policy: plan::CompactionPolicy,
    /// The source of the options, for the report.
    options: String,
    log: PolicyLog,
    /// Entries of the recording in the log.
    fed: usize,
    /// The model calls for background summaries since the last request.
    made_ahead: Vec<SideCall>,
    /// Items of the view as last sent.
    sent: Vec<SentMessage>,
}

/// An item of the view, and the sent segment.
type SentMessage = (LogRange, Arc<Message>, ViewSegment);

impl std::fmt::Debug for PlannerPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The log may hold a whole session and is left out.
        f.debug_struct("PlannerPolicy")
            .field("name", &self.name)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// A log as it grows under the policy.
#[derive(Default)]
pub(crate) struct PolicyLog {
    pub(crate) history: History,
    pub(crate) at: Millis,
    pub(crate) steps: u64,
    pub(crate) fixed_tokens: u64,
    pub(crate) ahead: Option<pass::PendingSummaryDraft>,
    /// The model for summaries.
    pub(crate) summariser: ScriptedSummariser,
    /// The summariser's answers since the last compaction.
    pub(crate) answers: Vec<String>,
    /// The edits of the view so far, oldest first.
    pub(crate) edits: Vec<pass::CommittedEdit>,
}

impl PolicyLog {
    /// Appends an event. The lab makes only fitting events, so none is refused.
    pub(crate) fn add(&mut self, body: EventBody) {
        let event = Event { seq: self.history.last_seq() + 1, at: self.at, format: FORMAT, body };
        let folded = self.history.apply(&event);
        // An event that does not fold is a defect of the lab, not of a recording.
        debug_assert!(folded.is_ok(), "{folded:?}");
    }

    pub(crate) fn step_id(&self) -> longhaul_core::ids::StepId {
        format!("s{}", self.steps).into()
    }

    pub(crate) fn begin_step(&mut self, now: &PolicyInput) {
        self.steps += 1;
        let fixed_tokens = self.fixed_tokens;
        let start = StepStart {
            step_id: self.step_id(),
            run_id: "r".into(),
            purpose: StepKind::Main,
            model: origin(),
            system_hash: String::new(),
            tools_hash: String::new(),
            view_hash: self.history.view_hash(),
            fixed_tokens,
            estimated_input: meter::read(&self.history, fixed_tokens).total,
            max_output_tokens: now.budget.reserve,
            window_tokens: Some(now.budget.window),
        };
        self.add(EventBody::StepStarted(Box::new(start)));
    }
}

fn origin() -> ModelOrigin {
    ModelOrigin { provider: "recorded".to_owned(), api: "recorded".to_owned(), model: "recorded".to_owned() }
}

impl PlannerPolicy {
    /// Creates a policy with a name for tables.
    pub(crate) fn new(name: impl Into<String>, policy: plan::CompactionPolicy) -> Self {
        Self {
            name: name.into(),
            policy,
            options: "its defaults".to_owned(),
            log: PolicyLog::default(),
            fed: 0,
            made_ahead: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// Sets the report's words for the source of the options, for example `the options of longhaul.yml`.
    #[must_use]
    pub(crate) fn with_options_of(self, options: impl Into<String>) -> Self {
        Self { options: options.into(), ..self }
    }

    /// Returns the strategy of a name with its default options.
    pub(crate) fn by_name(strategy: &str) -> Option<Self> {
        pass::usual_policy(strategy).map(|policy| Self::new(strategy, policy))
    }

    /// Returns the edits of the view so far, oldest first.
    pub(crate) fn edits(&self) -> &[pass::CommittedEdit] {
        &self.log.edits
    }

    fn open(&mut self, recording: &SessionRecording) {
        self.log.history = History::new(recording.counter.clone());
        self.log.fixed_tokens = recording.fixed_tokens;
        self.log.add(EventBody::SessionStarted {
            title: None,
            forked_from: None,
            imported_from: None,
            folder: None,
        });
        self.log.add(EventBody::RunStarted { run_id: "r".into() });
    }

    fn append_entry(&mut self, entry: &RecordedMessage, now: &PolicyInput) {
        // Formats without times leave the clock where it stands.
        self.log.at = entry.at.unwrap_or(self.log.at);
        let message = (*entry.message).clone();
        match &entry.kind {
            LogEntryKind::Typed => {
                self.log.add(EventBody::message_taken(message));
            }
            LogEntryKind::Assistant(cut) => self.answer(message, *cut, now),
            LogEntryKind::Result { .. } => results(message).for_each(|result| {
                self.log.add(EventBody::ToolFinished { result });
            }),
            _ => self.log.add(EventBody::NoteAdded { message, why: NoteReason::Imported }),
        }
    }

    fn answer(
        &mut self,
        message: Message,
        cut: Option<longhaul_core::event::PartialAnswerReason>,
        now: &PolicyInput,
    ) {
        let step_id = self.log.step_id();
        // Equal to the reported input: the replay and the planner use one counter, so there is no error to learn.
        let estimated_input = now.last_input;
        let usage =
            Usage { input_tokens: now.last_input, output_tokens: now.last_output, ..Usage::default() };
        let finish = if message.tool_calls().next().is_some() {
            ModelStopReason::ToolCalls
        } else {
            ModelStopReason::Stop
        };
        self.log.add(EventBody::AssistantAdded { step_id: step_id.clone(), message, finish, cut });
        let finished =
            EventBody::StepFinished { step_id, usage: Some(usage), estimated_input, envelope: None };
        self.log.add(finished);
        let calls = pass::look_ahead(&mut self.log, &self.policy, now);
        self.made_ahead.extend(calls);
    }

    /// Returns the view. Every item keeps the id of its earlier requests.
    fn view(&mut self) -> Vec<ViewSegment> {
        let view = self.log.history.view();
        // Unchanged items keep their segments. To hash every text for every request would be slow.
        let same = self.sent.iter().zip(view).take_while(|(sent, item)| is_same(sent, item)).count();
        let others = self.sent.split_off(same);
        // Behind the first difference a segment may only have moved, so the others are found by range.
        let others: HashMap<LogRange, SentMessage> = others.into_iter().map(|sent| (sent.0, sent)).collect();
        for item in &view[same..] {
            let known = others.get(&item.range).filter(|sent| is_same(sent, item));
            self.sent.push(match known {
                Some(sent) => sent.clone(),
                None => {
                    let segment = ViewSegment::new(text_of(&item.message), item.tokens);
                    (item.range, item.message.clone(), segment)
                }
            });
        }
        self.sent.iter().map(|(_, _, segment)| segment.clone()).collect()
    }
}

fn is_same((range, message, _): &SentMessage, item: &ViewItem) -> bool {
    // The history shares unchanged messages, so equal pointers are enough and no text is compared.
    *range == item.range && Arc::ptr_eq(message, &item.message)
}

fn results(message: Message) -> impl Iterator<Item = ToolResult> {
    message.parts.into_iter().filter_map(|part| match part {
        Part::ToolResult(result) => Some(result),
        _ => None,
    })
}

impl ContextPolicy for PlannerPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn sources(&self) -> Vec<String> {
        vec![format!(
            "this project's planner with the strategy {} and {}",
            self.policy.strategy.name(),
            self.options
        )]
    }

    fn has_recall(&self) -> bool {
        true
    }

    fn request(&mut self, recording: &SessionRecording, next: usize, now: &PolicyInput) -> PolicyRequest {
        // `fed` stays 0 while no entry comes before an answer, so the log's own number decides as well.
        if self.fed == 0 && self.log.history.last_seq() == 0 {
            self.open(recording);
        }
        self.policy.prices = Some(pass::known(&now.prices));
        for entry in &recording.entries[self.fed..next] {
            self.append_entry(entry, now);
        }
        self.fed = next;
        self.log.at = now.at.unwrap_or(self.log.at);
        // Planned before the step begins: the step's event records the view that the plan has made.
        let passed = pass::before_step(&mut self.log, &self.policy, now);
        self.log.begin_step(now);
        // Background summaries were made after the last answer, so they come first.
        let side_calls = self.made_ahead.drain(..).chain(passed.side_calls).collect();
        PolicyRequest { view: self.view(), side_calls, edit: passed.edit }
    }
}
