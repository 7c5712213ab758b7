//! Asking the PreCompact hook about a compaction of a client's conversation.

use std::fmt::Write as _;

use longhaul_core::event::EditKind;
use longhaul_core::meter;
use longhaul_core::plan::{Occasion, Plan};
use longhaul_core::run::{PreCompact, PreCompactAnswer};

use super::UpstreamAttempt;
use super::conversation::State;
use super::log::ConversationLog;

/// The deadline that a hook is told, in milliseconds. The hook itself keeps its own.
const DEADLINE_MS: u64 = 10_000;

/// Bytes of a conversation's name that identify it to a hook.
const NAME_BYTES: usize = 8;

impl UpstreamAttempt {
    /// Asks the hook about `plan`. `None` without a hook, for a plan that is no compaction, and without an answer.
    pub(super) async fn ask_pre_compact(
        &self,
        log: &ConversationLog,
        plan: &Plan,
        fixed: u64,
        occasion: &Occasion,
    ) -> Option<PreCompactAnswer> {
        let hook = self.exchange.inner.parts.pre_compact.as_ref()?;
        let is_compaction = match plan {
            Plan::Edit(edit) => edit.kind == EditKind::Compaction,
            Plan::Summarise(_) => true,
            Plan::Fits | Plan::DoesNotFit(_) => false,
        };
        if !is_compaction {
            return None;
        }
        let current_tokens = meter::read(&log.history, fixed).total;
        let message_count = log.history.view().len() as u64;
        let is_manual = matches!(occasion, Occasion::Requested { .. });
        let ask = PreCompact::new(plan, is_manual, current_tokens, message_count, DEADLINE_MS);
        let answer = hook.answer(&self.conversation_name(), ask).await?;
        if answer.cancel {
            tracing::info!(reason = answer.reason, "the PreCompact hook cancelled a compaction");
        }
        Some(answer)
    }

    /// Returns whether the request can be sent as it is, with less room for the answer than is usually kept.
    pub(super) fn fits_the_window(&self, log: &ConversationLog, fixed: u64) -> bool {
        meter::read(&log.history, fixed).bound() < self.window.tokens
    }

    /// Returns whether the hook's cancellation still holds: until the request does not fit the window.
    pub(super) fn is_cancelled_by_hook(&self, state: &State, fixed: u64, occasion: &Occasion) -> bool {
        let is_cancelled = state.hook_answer.as_ref().is_some_and(|answer| answer.cancel);
        *occasion == Occasion::Routine && is_cancelled && self.fits_the_window(&state.log, fixed)
    }

    fn conversation_name(&self) -> String {
        let mut name = String::from("gateway-");
        for byte in &self.beginning()[..NAME_BYTES] {
            let _infallible = write!(name, "{byte:02x}");
        }
        name
    }
}
