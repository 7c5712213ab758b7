//! Before a request goes out: what is known of its conversation, how much it has, and what is done if that is too much.

use std::sync::Arc;

use longhaul_core::budget::{Budget, Trigger};
use longhaul_core::event::{EditKind, ViewEdit};
use longhaul_core::history::History;
use longhaul_core::message::Origin;
use longhaul_core::meter::{self, Reading};
use longhaul_core::plan::{self, Occasion, Plan, Policy};
use longhaul_core::strategy::Truncation;
use longhaul_store::memo::{MemoKey, MemoScope};
use tokio::sync::MutexGuard;

use super::conversation::{Conversation, Known, Names, State, chain};
use super::log::{Log, Start};
use super::{Action, Report, Route, steps, summary};
use crate::wire::{Fault, FaultKind, Step};

/// Of what shaped a decision everything that is in no other part of its name.
const POLICY_VERSION: &str = "gateway-1";

/// Prefixes that are looked up at once, the longest ones.
const MAX_KEYS: usize = 4_096;

/// Plans for one request at most: as in a run, again only if the first was of no use.
const MOST_PLANS: usize = 3;

/// Where the gateway acts: at 80 % of the window on an estimate that includes room for an answer, which is 20 % of the
/// rest and at least 1,000 tokens (SPEC §7). Other strategies have their own triggers.
pub(super) fn trigger(policy: &Policy, window: u64) -> Option<Trigger> {
    let tokens = (window * 3).div_ceil(4).min((window * 4).div_ceil(5).saturating_sub(1_000));
    (policy.strategy.name() == "pruning-agent").then(|| Trigger::Tokens(tokens.max(window / 4)))
}

/// A request that may go out.
#[derive(Clone, Debug, Default)]
pub(super) struct Prepared {
    /// Its items, if they are others than the client's.
    pub(super) steps: Option<Vec<Step>>,
    pub(super) report: Report,
    /// What its input will be, in tokens; 0 if nothing was counted.
    pub(super) input: u64,
    /// The same with the expected error.
    pub(super) bound: u64,
    /// The call, as the log will have it.
    pub(super) start: Start,
    /// Items of the client's in it.
    pub(super) items: usize,
}

impl Route {
    /// The room of this request.
    pub(super) fn budget(&self) -> Budget {
        let asked = self.passage.envelope.max_output.filter(|limit| *limit < u64::MAX && *limit > 0);
        Budget::new(self.window.tokens, asked.or(self.limits.max_output))
    }

    /// Finds the conversation of the request, and makes the request fit.
    ///
    /// # Errors
    /// [`Fault`] if it cannot be read, or cannot fit.
    pub(super) async fn prepare(&mut self) -> Result<Prepared, Fault> {
        if !self.policy.enabled {
            return Ok(Prepared::default());
        }
        let conversation = self.find_own().await?;
        let mut state = conversation.state.lock().await;
        self.feed(&mut state)?;
        self.fit(&mut state, &Occasion::Routine).await
    }

    /// The request's input as it would be sent, in tokens, and whether that is less than the client's history. It is not
    /// shortened now.
    ///
    /// # Errors
    /// [`Fault`] if it cannot be read.
    pub(super) async fn count(&mut self) -> Result<(u64, bool), Fault> {
        let conversation = self.find_own().await?;
        let mut state = conversation.state.lock().await;
        self.feed(&mut state)?;
        let fixed = state.fixed.as_ref().map_or(0, |(_, tokens)| *tokens);
        let is_shortened = state.log.history.edits().iter().any(|edit| edit.active);
        Ok((meter::read(&state.log.history, fixed).total, is_shortened))
    }

    /// The conversation of the request; one of its own if another request has gone on with it meanwhile.
    async fn find_own(&mut self) -> Result<Arc<Conversation>, Fault> {
        let conversation = self.find_conversation()?;
        let is_ahead = conversation.state.lock().await.log.items > self.passage.envelope.items.len();
        let conversation = match is_ahead {
            true => Arc::new(Conversation::new(self.known()?, self.new_state())),
            false => conversation,
        };
        Ok(self.conversation.insert(conversation).clone())
    }

    /// Makes room after a refusal; `None` if nothing got smaller.
    ///
    /// # Errors
    /// [`Fault`] if it cannot fit.
    pub(super) async fn make_room(
        &mut self,
        refused: &Prepared,
        used: Option<u64>,
        limit: Option<u64>,
    ) -> Result<Option<Prepared>, Fault> {
        if let Some(limit) = limit {
            self.target.learn_window(limit);
            self.window = self.target.window(&self.limits);
            if self.passage.overrides.trigger.is_none() && self.passage.inner.config.policy.trigger.is_none()
            {
                self.policy.trigger = trigger(&self.policy, self.window.tokens);
            }
        }
        let Some(conversation) = self.conversation.clone() else { return Ok(None) };
        let mut state = conversation.state.lock().await;
        if state.log.items != refused.items {
            return Ok(None);
        }
        state.log.refused(&refused.start, used, limit);
        let made = self.fit(&mut state, &Occasion::Overflow).await?;
        Ok((made.steps != refused.steps).then_some(made))
    }

    fn find_conversation(&self) -> Result<Arc<Conversation>, Fault> {
        let passage = &self.passage;
        let mut names = Names::new(passage.wire, &passage.envelope);
        let conversations = &passage.inner.conversations;
        Ok(conversations.find(&self.scope(), &mut names, &passage.envelope, || self.new_state())?)
    }

    pub(super) fn known(&self) -> Result<Known, Fault> {
        let envelope = &self.passage.envelope;
        let names = Names::new(self.passage.wire, envelope).all()?;
        Ok(Known { bytes: envelope.bytes.clone(), items: envelope.items.clone(), names })
    }

    pub(super) fn new_state(&self) -> State {
        let origin = self.target.origin();
        let counter = (self.passage.inner.parts.counter)(&origin);
        // What a client of another dialect calls the model's own item is none of this upstream's.
        let api = self.passage.wire.dialect().as_str().to_owned();
        State::new(counter, Origin { provider: "client".to_owned(), api, ..origin })
    }

    /// Who asks whom, and how.
    fn scope(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("longhaul 2026 gateway conversation");
        let dialect = self.passage.wire.dialect().as_str();
        for part in [&self.target.server.upstream.name, &self.target.model, dialect, &self.policy_name()] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.update(&self.passage.caller);
        *hasher.finalize().as_bytes()
    }

    fn policy_name(&self) -> String {
        let asked = self.passage.overrides.trigger;
        format!("{POLICY_VERSION}/{}/{asked:?}", self.policy.strategy.name())
    }

    /// Adds what is new of the request.
    pub(super) fn feed(&self, state: &mut State) -> Result<(), Fault> {
        let (wire, envelope) = (self.passage.wire, &self.passage.envelope);
        let (from, to) = (state.log.items, envelope.items.len());
        if from < to {
            let items: Vec<&str> = (from..to).map(|index| envelope.item(index)).collect();
            if state.log.feed(wire.pieces(&items, from)?).is_err() {
                *state = self.new_state();
                self.feed(state)?;
            }
        }
        self.count_fixed(state)
    }

    /// Counts system prompt and tools, if they are others than last time.
    fn count_fixed(&self, state: &mut State) -> Result<(), Fault> {
        let envelope = &self.passage.envelope;
        let places = [&envelope.system_at, &envelope.tools_at];
        let raw = places.map(|at| at.as_ref().map(|at| envelope.text(at)).unwrap_or_default());
        if state.fixed.as_ref().is_some_and(|(known, _)| raw.iter().eq(known.iter())) {
            return Ok(());
        }
        let fixed = self.passage.wire.fixed(envelope)?;
        let counter = state.log.history.counter();
        let head: u64 = state.log.system.iter().map(|part| counter.part(part)).sum();
        let tools: u64 = fixed.tools.iter().map(|tool| counter.tool(tool)).sum();
        let tokens = head + counter.text(&fixed.system) + tools + counter.framing().reply;
        state.fixed = Some((raw.map(str::to_owned), tokens));
        Ok(())
    }

    /// Makes the request fit, and says what it is then.
    async fn fit(&self, state: &mut State, occasion: &Occasion) -> Result<Prepared, Fault> {
        let fixed = state.fixed.as_ref().map_or(0, |(_, tokens)| *tokens);
        let before = meter::read(&state.log.history, fixed);
        self.remember(state, fixed, occasion).await?;
        let edit = self.act(&state.log, fixed, occasion).await?;
        let done = edit.as_ref().map(|edit| (edit.kind, edit.why.clone()));
        if let Some(edit) = edit {
            self.commit(state, edit).await;
        }
        let after = meter::read(&state.log.history, fixed);
        Ok(self.prepared(state, fixed, (before, after), done))
    }

    fn prepared(
        &self,
        state: &State,
        fixed: u64,
        (before, after): (Reading, Reading),
        done: Option<(EditKind, String)>,
    ) -> Prepared {
        let history = &state.log.history;
        let (action, why) = match done {
            Some((EditKind::Prune, why)) => (Action::Pruned, why),
            Some((EditKind::Compaction, why)) => (Action::Compacted, why),
            None if history.edits().is_empty() => (Action::None, String::new()),
            None => (Action::Remembered, "decided for an earlier request of this conversation".to_owned()),
        };
        let report = Report { action, before: before.total, after: after.total, why };
        let start = Start {
            view_hash: history.view_hash(),
            fixed_tokens: fixed,
            window: Some(self.window.tokens).filter(|_| self.limits.window.is_some()),
        };
        Prepared {
            steps: steps::steps(&state.log, state.log.items),
            report,
            input: after.total,
            bound: after.bound(),
            start,
            items: state.log.items,
        }
    }

    /// Does what the memo knows to do.
    async fn remember(&self, state: &mut State, fixed: u64, occasion: &Occasion) -> Result<(), Fault> {
        let acts = || !matches!(self.plan(&state.log.history, fixed, occasion), Plan::Fits);
        if state.asked_memo || !state.log.history.edits().is_empty() || !acts() {
            return Ok(());
        }
        state.asked_memo = true;
        let envelope = &self.passage.envelope;
        let chain = chain(&Names::new(self.passage.wire, envelope).all()?);
        let keys: Vec<MemoKey> = chain.iter().rev().take(MAX_KEYS).map(|name| self.memo_key(name)).collect();
        let found = match self.passage.inner.parts.memo.find(&keys).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "what was decided for earlier requests cannot be read");
                None
            }
        };
        let Some(found) = found else { return Ok(()) };
        let last = chain.len() - 1 - found.index;
        let items: Vec<&str> = (0..envelope.items.len()).map(|index| envelope.item(index)).collect();
        let mut pieces = self.passage.wire.pieces(&items, 0)?;
        let rest = pieces.split_off(last + 1);
        let mut log = self.new_state().log;
        let follows = log.feed(pieces).is_ok();
        found.edits.into_iter().for_each(|edit| log.commit(edit));
        if !follows || log.feed(rest).is_err() {
            return Ok(());
        }
        state.log = log;
        Ok(())
    }

    fn memo_key(&self, prefix: &[u8; 32]) -> MemoKey {
        let upstream = format!("{}/{}", self.target.server.upstream.name, self.target.model);
        let policy = self.policy_name();
        let scope = MemoScope { credential: &self.passage.caller, upstream: &upstream, policy: &policy };
        MemoKey::new(&scope, prefix)
    }

    async fn commit(&self, state: &mut State, edit: ViewEdit) {
        tracing::info!(
            strategy = edit.strategy,
            before = edit.original_tokens,
            after = edit.compressed_tokens,
            why = edit.why,
            "a conversation was shortened"
        );
        state.log.commit(edit);
        let Some((edits, item)) = state.log.portable() else { return };
        let names = Names::new(self.passage.wire, &self.passage.envelope).all().unwrap_or_default();
        let Some(prefix) = chain(&names).get(item).copied() else { return };
        if let Err(error) = self.passage.inner.parts.memo.put(self.memo_key(&prefix), &edits).await {
            tracing::warn!(%error, "what was decided cannot be remembered");
        }
    }

    fn plan(&self, history: &History, fixed: u64, occasion: &Occasion) -> Plan {
        plan::plan_with(history, fixed, &self.budget(), &self.policy, occasion, None)
    }

    /// The edit that makes the request fit; `None` if it does.
    ///
    /// # Errors
    /// [`Fault`] if nothing does.
    pub(super) async fn act(
        &self,
        log: &Log,
        fixed: u64,
        occasion: &Occasion,
    ) -> Result<Option<ViewEdit>, Fault> {
        let mut policy = self.policy.clone();
        for _ in 0..MOST_PLANS {
            match plan::plan_with(&log.history, fixed, &self.budget(), &policy, occasion, None) {
                Plan::Fits => return Ok(None),
                Plan::Edit(edit) => return Ok(Some(*edit)),
                Plan::DoesNotFit(misfit) => {
                    return Err(Fault::new(FaultKind::ContextOverflow, misfit.to_string()));
                }
                Plan::Summarise(draft) => {
                    if let Some(edit) = summary::finish(self, log, *draft).await {
                        return Ok(Some(edit));
                    }
                    // No summary fits: what a model is not needed for.
                    let trigger = policy.trigger.unwrap_or_else(|| policy.strategy.trigger());
                    policy = Policy {
                        strategy: Arc::new(Truncation::default()),
                        trigger: Some(trigger),
                        ..policy
                    };
                }
            }
        }
        Ok(None)
    }

    /// The state of the request's conversation, if it is still this request's.
    pub(super) async fn state<'c>(
        &self,
        conversation: &'c Conversation,
        items: usize,
    ) -> Option<MutexGuard<'c, State>> {
        let state = conversation.state.lock().await;
        (state.log.items == items).then_some(state)
    }

    /// Makes room for the rest of an answer: the edit is one of what comes before it.
    ///
    /// # Errors
    /// [`Fault`] if there is none to be made.
    pub(super) async fn make_room_for_rest(&self, items: usize, text: &str) -> Result<Prepared, Fault> {
        let nothing = || Fault::new(FaultKind::ContextOverflow, "nothing can be left out to go on");
        let conversation = self.conversation.clone().ok_or_else(nothing)?;
        let mut state = self.state(&conversation, items).await.ok_or_else(nothing)?;
        let fixed = state.fixed.as_ref().map_or(0, |(_, tokens)| *tokens);
        let paused = state.log.paused(text);
        let before = meter::read(&paused.history, fixed);
        let edit = self.act(&paused, fixed, &Occasion::Pause).await?.ok_or_else(nothing)?;
        let done = Some((edit.kind, edit.why.clone()));
        self.commit(&mut state, edit).await;
        let after = meter::read(&state.log.paused(text).history, fixed);
        Ok(self.prepared(&state, fixed, (before, after), done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_acts_where_an_estimate_with_room_for_an_answer_is_eighty_percent() {
        let policy = Policy::new(Arc::new(longhaul_core::strategy::PruningAgent::default()));
        for window in [4_096_u64, 8_192, 10_000, 32_000, 128_000, 200_000, 1_000_000] {
            let Some(Trigger::Tokens(line)) = trigger(&policy, window) else { panic!("no trigger") };
            let is_full = |tokens: u64| {
                // In fifths, so that nothing is rounded.
                let buffer = (window - tokens).max(5_000);
                5 * tokens + buffer >= 4 * window
            };
            assert!(is_full(line) && !is_full(line - 1), "{line} of {window}");
        }
        let other = Policy::new(Arc::new(Truncation::default()));
        assert_eq!(trigger(&other, 8_000), None, "other strategies have their own");
    }
}
