//! The calls of the PreCompact hook before a client's conversation is compacted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_core::meter;
use longhaul_core::plan::{Plan, PlanTrigger};
use longhaul_core::run::{PreCompactInput, PreCompactOutput};
use longhaul_core::shortening;

use super::conversation::ConversationState;
use super::log::ConversationLog;
use super::memo_lookup::ConversationMemo;
use super::view_editor::ViewEditor;

/// The deadline given to the hook, in milliseconds. The hook enforces a deadline of its own.
const DEADLINE_MS: u64 = 10_000;

/// The number of bytes of a conversation's name for a hook.
const NAME_BYTES: usize = 8;

/// The hook's newest answers, by the beginning of the conversation. Some clients change a reminder at the end of their
/// history with each request; a hook sees all these requests as one conversation.
#[derive(Default)]
pub(crate) struct HookOutputCache(Mutex<BTreeMap<[u8; 32], PreCompactOutput>>);

/// The maximum number of answers. Each belongs to a conversation in use.
// A hook whose answer was forgotten is asked again.
const MAX_ANSWERS: usize = 1_000;

impl HookOutputCache {
    pub(super) fn get(&self, beginning: &[u8; 32]) -> Option<PreCompactOutput> {
        self.lock().get(beginning).cloned()
    }

    pub(super) fn set(&self, beginning: [u8; 32], answer: Option<PreCompactOutput>) {
        let mut answers = self.lock();
        match answer {
            Some(answer) => answers.insert(beginning, answer),
            // Without an answer this time, an older one must not stay in force.
            None => answers.remove(&beginning),
        };
        while answers.len() > MAX_ANSWERS {
            // The keys are hashes, so this drops an arbitrary answer. At worst that conversation's hook is asked
            // again.
            answers.pop_first();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<[u8; 32], PreCompactOutput>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConversationMemo {
    /// Returns the hook's newest answer for this conversation.
    pub(super) fn hook_answer(&self) -> Option<PreCompactOutput> {
        self.request.proxied.inner.hook_answers.get(&self.beginning())
    }

    /// Keeps the hook's answer as long as it holds.
    pub(super) fn keep_hook_answer(&self, answer: Option<PreCompactOutput>, is_edited: bool) {
        let answer = answer.filter(|answer| shortening::keeps_hook_answer(answer.cancel, is_edited));
        self.request.proxied.inner.hook_answers.set(self.beginning(), answer);
    }

    /// Returns the conversation's name for hooks.
    fn conversation_name(&self) -> String {
        let mut name = String::from("gateway-");
        for byte in &self.beginning()[..NAME_BYTES] {
            let _infallible = write!(name, "{byte:02x}");
        }
        name
    }
}

impl ViewEditor {
    /// Asks the hook about a plan that is a compaction. `None` without a hook or without an answer.
    pub(super) async fn ask_pre_compact(
        &self,
        log: &ConversationLog,
        plan: &Plan,
        fixed: u64,
        trigger: &PlanTrigger,
    ) -> Option<PreCompactOutput> {
        let hook = self.request.proxied.inner.parts.pre_compact.as_ref()?;
        let current_tokens = meter::read(&log.history, fixed).total;
        let message_count = log.history.view().len() as u64;
        let is_manual = matches!(trigger, PlanTrigger::Requested { .. });
        let ask = PreCompactInput::new(plan, is_manual, current_tokens, message_count, DEADLINE_MS);
        let answer = hook.answer(&self.memo.conversation_name(), ask).await?;
        if answer.cancel {
            tracing::info!(reason = answer.reason, "the PreCompact hook cancelled a compaction");
        }
        Some(answer)
    }

    /// Returns whether the hook's cancellation still holds.
    pub(super) fn is_cancelled_by_hook(
        &self,
        state: &ConversationState,
        fixed: u64,
        trigger: &PlanTrigger,
    ) -> bool {
        if self.request.proxied.inner.parts.pre_compact.is_none() {
            return false;
        }
        let is_cancelled = self.memo.hook_answer().is_some_and(|answer| answer.cancel);
        shortening::is_cancellation_in_force(trigger, is_cancelled, || {
            self.budget.fits_the_window(&state.log, fixed)
        })
    }
}
