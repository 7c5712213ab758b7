//! A growing chat under one strategy, and the view of its next request.

use std::sync::Arc;

use longhaul_core::budget::Budget;
use longhaul_core::event::EventBody;
use longhaul_core::history::History;
use longhaul_core::message::{Message, ModelStopReason, Part, Role};
use longhaul_core::plan::{self, SummaryWriterModel};
use longhaul_core::usage::Usage;
use serde::Deserialize;

use super::ScriptedSummariser;
use crate::lab::planner_policy::{PolicyLog, pass};
use crate::lab::policy::PolicyInput;
use crate::lab::price::{PriceTable, tables};
use crate::lab::recording::text_of;

/// One message of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct ChatTurn {
    /// `user` or `assistant`.
    pub(crate) role: Role,
    /// The text of the message.
    #[serde(rename = "content")]
    pub(crate) text: Arc<str>,
}

impl ChatTurn {
    /// Creates a message of the user.
    pub(crate) fn user(text: impl Into<Arc<str>>) -> Self {
        Self { role: Role::User, text: text.into() }
    }

    /// Creates a message of the assistant.
    pub(crate) fn assistant(text: impl Into<Arc<str>>) -> Self {
        Self { role: Role::Assistant, text: text.into() }
    }
}

/// A chat under a strategy of this project, with a summariser of the measure's choice.
pub(crate) struct SimulatedChat {
    log: PolicyLog,
    policy: plan::CompactionPolicy,
    prices: PriceTable,
    budget: Budget,
    last_input: u64,
    last_output: u64,
    said: u64,
}

impl SimulatedChat {
    /// Creates an empty chat in a window of so many tokens. Returns `None` if there is no such strategy.
    pub(crate) fn new(strategy: &str, window_tokens: u64, summariser: ScriptedSummariser) -> Option<Self> {
        let mut policy = pass::usual_policy(strategy)?;
        // The extract is made by program, so the planner must not count on a model's call.
        if summariser == ScriptedSummariser::Extract {
            policy.writer = SummaryWriterModel::Nobody;
        }
        let prices = tables::anthropic_sonnet();
        policy.prices = Some(pass::known(&prices));
        let mut log = PolicyLog { summariser, ..PolicyLog::default() };
        log.add(EventBody::SessionStarted {
            title: None,
            forked_from: None,
            imported_from: None,
            folder: None,
        });
        log.add(EventBody::RunStarted { run_id: "r".into() });
        let budget = Budget::new(window_tokens, None);
        Some(Self { log, policy, prices, budget, last_input: 0, last_output: 0, said: 0 })
    }

    /// Adds the next message. The request before an answer is planned as a run plans it.
    pub(crate) fn say(&mut self, turn: &ChatTurn) {
        self.said += 1;
        let id = format!("m{}", self.said);
        let parts = vec![Part::text(&*turn.text)];
        match turn.role {
            Role::Assistant => {
                self.answer(Message { id: id.into(), role: Role::Assistant, parts, origin: None })
            }
            _ => {
                let message = Message::user(id, parts);
                self.log.add(EventBody::message_taken(message));
            }
        }
    }

    fn answer(&mut self, message: Message) {
        // A run plans before each request, so the view may change before the answer is added.
        self.plan_request();
        let now = self.situation();
        self.log.begin_step(&now);
        let counter = self.log.history.counter().clone();
        self.last_input = self.view_tokens() + counter.framing().reply;
        self.last_output = message.parts.iter().map(|part| counter.part(part)).sum();
        let step_id = self.log.step_id();
        let finish = ModelStopReason::Stop;
        self.log.add(EventBody::AssistantAdded { step_id: step_id.clone(), message, finish, cut: None });
        let usage =
            Usage { input_tokens: self.last_input, output_tokens: self.last_output, ..Usage::default() };
        // Equal to the reported input: both are counted by one counter, so there is no error to learn.
        let estimated_input = self.last_input;
        let finished =
            EventBody::StepFinished { step_id, usage: Some(usage), estimated_input, envelope: None };
        self.log.add(finished);
        let now = self.situation();
        // A background summary begins after an answer, while the user reads.
        pass::look_ahead(&mut self.log, &self.policy, &now);
    }

    /// Plans the next request, as a run does before it sends one.
    pub(crate) fn plan_request(&mut self) {
        let now = self.situation();
        pass::before_step(&mut self.log, &self.policy, &now);
    }

    /// Compacts as a user's request does.
    pub(crate) fn compact(&mut self) {
        let now = self.situation();
        pass::compact_on_request(&mut self.log, &self.policy, &now);
    }

    fn situation(&self) -> PolicyInput {
        PolicyInput {
            budget: self.budget,
            prices: self.prices.clone(),
            last_input: self.last_input,
            last_output: self.last_output,
            // A chat has no times, so every request but the first finds a warm cache.
            cache_is_warm: self.last_input > 0,
            at: None,
        }
    }

    /// Returns the tokens of the view.
    pub(crate) fn view_tokens(&self) -> u64 {
        self.log.history.view().iter().map(|item| item.tokens).sum()
    }

    /// Returns whether the view is larger than a request may be.
    pub(crate) fn overflows(&self) -> bool {
        self.view_tokens() + self.log.history.counter().framing().reply > self.budget.usable
    }

    /// Returns the text of each message of the view.
    pub(crate) fn view_texts(&self) -> Vec<String> {
        self.log.history.view().iter().map(|item| text_of(&item.message)).collect()
    }

    /// Returns all text of the view, message by message.
    pub(crate) fn view_text(&self) -> String {
        self.view_texts().join("\n")
    }

    /// Returns the number of committed compactions.
    pub(crate) fn compactions(&self) -> usize {
        self.log.edits.iter().filter(|it| it.is_compaction()).count()
    }

    /// Returns the shown text of each compaction, and the summariser's answers for it.
    pub(crate) fn committed(&self) -> impl Iterator<Item = (String, &[String])> {
        let compactions = self.log.edits.iter().filter(|it| it.is_compaction());
        compactions.map(|committed| (committed.shown_text(), committed.answers.as_slice()))
    }

    /// Returns the folded log.
    pub(crate) fn history(&self) -> &History {
        &self.log.history
    }
}

impl std::fmt::Debug for SimulatedChat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulatedChat").field("policy", &self.policy).finish_non_exhaustive()
    }
}
