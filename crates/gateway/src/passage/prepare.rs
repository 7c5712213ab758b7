//! Before a request goes out: what is known of its conversation, how much it has, and what is done if that is too much.

use std::sync::Arc;

use longhaul_core::budget::{Budget, Trigger};
use longhaul_core::event::{EditKind, ViewEdit};
use longhaul_core::history::{History, request_messages};
use longhaul_core::message::{Message, Origin, Part};
use longhaul_core::meter::{self, Reading};
use longhaul_core::plan::{self, Occasion, Plan, Policy};
use longhaul_core::strategy::Truncation;
use longhaul_store::memo::{MemoKey, MemoScope};
use tokio::sync::{MutexGuard, OwnedMutexGuard};

use super::conversation::{Conversation, Known, Name, Names, State, chain};
use super::log::{Log, Start};
use super::{Action, Report, Route, cache, steps, summary};
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
    /// What it says, for an upstream of another dialect.
    pub(super) said: Option<Said>,
}

/// A conversation in neutral form.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    /// System prompts that stand among the items.
    pub(super) system: Vec<String>,
    pub(super) messages: Vec<Message>,
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
            // Nothing is counted and nothing cut: for another dialect the items are read all the same.
            let said = if self.crosses() { Some(self.work(|| self.said_alone()).await?) } else { None };
            let steps = self.work(|| self.cleaned()).await;
            return Ok(Prepared { said, steps, ..Prepared::default() });
        }
        let mut state = self.join().await?;
        self.fit(&mut state, &Occasion::Routine).await
    }

    /// Shortens the conversation because its client asks for it.
    ///
    /// # Errors
    /// [`Fault`] if it cannot be read, or nothing can be left out.
    pub(super) async fn compacted(&mut self) -> Result<Prepared, Fault> {
        let mut state = self.join().await?;
        self.fit(&mut state, &Occasion::Requested { instructions: None }).await
    }

    /// The client's items without our notices; `None` if they have none.
    fn cleaned(&self) -> Option<Vec<Step>> {
        let envelope = &self.passage.envelope;
        steps::clean(None, &steps::noticed(envelope), envelope)
    }

    fn said_alone(&self) -> Result<Said, Fault> {
        let mut state = self.new_state();
        self.feed(&mut state)?;
        Ok(said(&state.log))
    }

    /// The request's input as it would be sent, in tokens, and whether that is less than the client's history. It is not
    /// shortened now.
    ///
    /// # Errors
    /// [`Fault`] if it cannot be read.
    pub(super) async fn count(&mut self) -> Result<(u64, bool), Fault> {
        let state = self.join().await?;
        let fixed = state.fixed.as_ref().map_or(0, |(_, tokens)| *tokens);
        let is_shortened = state.log.history.edits().iter().any(|edit| edit.active);
        Ok((meter::read(&state.log.history, fixed).total, is_shortened))
    }

    /// Finds the conversation of the request and adds what is new in it. From here on nobody else is at it.
    async fn join(&mut self) -> Result<OwnedMutexGuard<State>, Fault> {
        let conversation = self.find_conversation().await?;
        let mut state = conversation.locked().await;
        if state.log.items > self.passage.envelope.items.len() {
            drop(state);
            return self.leave().await;
        }
        let new_bytes = self.new_bytes(&state);
        self.work_on(new_bytes, || self.feed(&mut state)).await?;
        self.conversation = Some(conversation);
        Ok(state)
    }

    /// A conversation of the request's own: another request has gone on with the common one.
    async fn leave(&mut self) -> Result<OwnedMutexGuard<State>, Fault> {
        let known = self.work(|| self.known()).await?;
        let conversation = Arc::new(Conversation::new(known, self.new_state()));
        let mut state = conversation.locked().await;
        self.work(|| self.feed(&mut state)).await?;
        self.conversation = Some(conversation);
        Ok(state)
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
        let mut state = conversation.locked().await;
        if state.log.items != refused.items {
            drop(state);
            state = self.leave().await?;
        }
        state.log.refused(&refused.start, used, limit);
        let made = self.fit(&mut state, &Occasion::Overflow).await?;
        Ok((made.steps != refused.steps).then_some(made))
    }

    async fn find_conversation(&self) -> Result<Arc<Conversation>, Fault> {
        let (passage, scope) = (&self.passage, self.scope());
        let mut names = Names::new(passage.wire, &passage.envelope);
        let conversations = &passage.inner.conversations;
        conversations.recall(&scope, &mut names);
        let new_bytes = names.new_bytes();
        let find = || conversations.find(&scope, &mut names, || self.new_state());
        Ok(self.work_on(new_bytes, find).await?)
    }

    /// Bytes of the request that the state knows nothing of.
    fn new_bytes(&self, state: &State) -> usize {
        let envelope = &self.passage.envelope;
        let fixed = self.fixed_texts();
        let is_counted = state.fixed.as_ref().is_some_and(|(known, _)| fixed.iter().eq(known.iter()));
        let fixed_bytes = if is_counted { 0 } else { fixed.iter().map(|text| text.len()).sum() };
        envelope.bytes_from(state.log.items) + fixed_bytes
    }

    /// System prompt and tools as they are written.
    fn fixed_texts(&self) -> [&str; 2] {
        let envelope = &self.passage.envelope;
        let places = [&envelope.system_at, &envelope.tools_at];
        places.map(|at| at.as_ref().map(|at| envelope.text(at)).unwrap_or_default())
    }

    fn known(&self) -> Result<Known, Fault> {
        let envelope = &self.passage.envelope;
        let names = Names::new(self.passage.wire, envelope).all()?;
        Ok(Known { request: Arc::clone(envelope), names })
    }

    fn new_state(&self) -> State {
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
    fn feed(&self, state: &mut State) -> Result<(), Fault> {
        let (wire, envelope) = (self.passage.wire, &self.passage.envelope);
        let (from, to) = (state.log.items, envelope.items.len());
        if from < to {
            let items: Vec<&str> = (from..to).map(|index| envelope.item(index)).collect();
            if state.log.feed(wire.pieces(&items, from)?).is_err() {
                *state = self.new_state();
                return self.feed(state);
            }
            let noticed = (from..to).filter(|index| steps::without_notices(envelope, *index).is_some());
            state.noticed.extend(noticed);
        }
        self.count_fixed(state)
    }

    /// Counts system prompt and tools, if they are others than last time.
    fn count_fixed(&self, state: &mut State) -> Result<(), Fault> {
        let raw = self.fixed_texts();
        if state.fixed.as_ref().is_some_and(|(known, _)| raw.iter().eq(known.iter())) {
            return Ok(());
        }
        let fixed = self.passage.wire.fixed(&self.passage.envelope)?;
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
        let plan_bytes = if self.is_roomy(&before, occasion) { 0 } else { self.passage.envelope.bytes.len() };
        let plan = self.work_on(plan_bytes, || self.plan(&state.log.history, fixed, occasion)).await;
        let mut done = None;
        if !matches!(plan, Plan::Fits) {
            let _turn = match plan {
                Plan::Summarise(_) => Some(self.turn().await),
                _ => None,
            };
            self.remember(state).await?;
            if let Some(edit) = self.act(&state.log, fixed, occasion).await? {
                done = Some((edit.kind, edit.why.clone()));
                self.commit(state, edit).await;
            }
        }
        let end = || {
            let after = meter::read(&state.log.history, fixed);
            self.prepared(state, fixed, (before, after), done)
        };
        let end_bytes = if self.is_unchanged(state) { 0 } else { self.passage.envelope.bytes.len() };
        Ok(self.work_on(end_bytes, end).await)
    }

    /// Whether there will be nothing to plan.
    fn is_roomy(&self, before: &Reading, occasion: &Occasion) -> bool {
        let line = self.policy.trigger.map(|trigger| self.budget().trigger(trigger));
        *occasion == Occasion::Routine && line.is_some_and(|line| before.bound() < line)
    }

    /// Whether the upstream gets what the client has sent.
    fn is_unchanged(&self, state: &State) -> bool {
        !self.crosses() && state.log.history.edits().is_empty() && state.noticed.is_empty()
    }

    /// Waits until no other conversation with the same beginning has a summary made: it may hold for this one too.
    async fn turn(&self) -> OwnedMutexGuard<()> {
        let names = self.names(2);
        let first = names.first().copied().unwrap_or_default();
        self.passage.inner.turns.wait(cache::head(&self.scope(), &first, names.get(1))).await
    }

    /// The names of the request's first items.
    fn names(&self, items: usize) -> Vec<Name> {
        let items = items.min(self.passage.envelope.items.len());
        self.conversation.as_ref().map(|conversation| conversation.names(items)).unwrap_or_default()
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
        // Another request of the conversation may have said the same without them.
        let noticed = match self.passage.inner.config.notices_in_text {
            true => steps::noticed(&self.passage.envelope),
            false => state.noticed.clone(),
        };
        let start = Start {
            view_hash: history.view_hash(),
            fixed_tokens: fixed,
            window: Some(self.window.tokens).filter(|_| self.limits.window.is_some()),
        };
        Prepared {
            steps: steps::clean(steps::steps(&state.log, state.log.items), &noticed, &self.passage.envelope),
            report,
            input: after.total,
            bound: after.bound(),
            start,
            items: state.log.items,
            said: self.crosses().then(|| said(&state.log)),
        }
    }

    /// Does what the memo knows to do, if that is more than was done here.
    async fn remember(&self, state: &mut State) -> Result<(), Fault> {
        let chain = self.work(|| chain(&self.names(usize::MAX))).await;
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
        let remembered = self.work(|| self.log_with(found.edits, last)).await?;
        // By the bare estimate, which both have: what the server has counted is known of one only.
        let total = |log: &Log| log.history.view_tokens();
        let is_less = |log: &Log| state.log.history.edits().is_empty() || total(log) < total(&state.log);
        if let Some(log) = remembered.filter(is_less) {
            state.log = log;
        }
        Ok(())
    }

    /// The log of the request with edits that were made when `last` was the last of its items; `None` if they are none
    /// for it.
    fn log_with(&self, edits: Vec<ViewEdit>, last: usize) -> Result<Option<Log>, Fault> {
        let envelope = &self.passage.envelope;
        let items: Vec<&str> = (0..envelope.items.len()).map(|index| envelope.item(index)).collect();
        let mut pieces = self.passage.wire.pieces(&items, 0)?;
        let rest = pieces.split_off(last + 1);
        let mut log = self.new_state().log;
        let follows = log.feed(pieces).is_ok();
        edits.into_iter().for_each(|edit| log.commit(edit));
        Ok((follows && log.feed(rest).is_ok()).then_some(log))
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
        let chain = self.work(|| chain(&self.names(item + 1))).await;
        let Some(prefix) = chain.get(item).copied() else { return };
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
            let plan = || plan::plan_with(&log.history, fixed, &self.budget(), &policy, occasion, None);
            match self.work(plan).await {
                Plan::Fits => return Ok(None),
                Plan::Edit(edit) => return Ok(Some(*edit)),
                Plan::DoesNotFit(misfit) => {
                    return Err(Fault::new(FaultKind::DoesNotFit, misfit.to_string()));
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
    pub(super) async fn make_room_for_rest(&self, old: &Prepared, text: &str) -> Result<Prepared, Fault> {
        let nothing = || Fault::new(FaultKind::ContextOverflow, "nothing can be left out to go on");
        let conversation = self.conversation.clone().ok_or_else(nothing)?;
        let mut state = self.state(&conversation, old.items).await.ok_or_else(nothing)?;
        let fixed = state.fixed.as_ref().map_or(0, |(_, tokens)| *tokens);
        let pause = || {
            let paused = state.log.paused(text);
            (meter::read(&paused.history, fixed), paused)
        };
        let (before, paused) = self.work(pause).await;
        let edit = self.act(&paused, fixed, &Occasion::Pause).await?;
        let done = edit.as_ref().map(|edit| (edit.kind, edit.why.clone()));
        if let Some(edit) = edit {
            self.commit(&mut state, edit).await;
        }
        let end = || {
            let after = meter::read(&state.log.paused(text).history, fixed);
            self.prepared(&state, fixed, (before, after), done)
        };
        let made = self.work(end).await;
        // The same request, asked twice, may have made the room already.
        if made.steps == old.steps { Err(nothing()) } else { Ok(made) }
    }
}

fn said(log: &Log) -> Said {
    Said {
        system: log.system.iter().filter_map(Part::as_text).map(str::to_owned).collect(),
        messages: request_messages(&steps::told(&log.history)),
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
