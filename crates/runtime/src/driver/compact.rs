//! The effect that asks a hook about a compaction.

use longhaul_core::run::{Input, PreCompact, PreCompactAnswer};

use super::Driver;
use crate::hooks::{PreCompactRequest, PreCompactTrigger, WhatGoes};

impl Driver {
    pub(super) fn ask_pre_compact(&mut self, task: u64, ask: PreCompact) {
        let hooks = self.agent.hooks.clone();
        let inbox = self.shared.inbox.clone();
        let reason = serde_json::to_value(ask.reason).ok();
        let ask = PreCompactRequest {
            session_id: self.shared.session_id.clone(),
            trigger: if ask.manual { PreCompactTrigger::Manual } else { PreCompactTrigger::Auto },
            reason: reason.and_then(|reason| reason.as_str().map(str::to_owned)).unwrap_or_default(),
            current_tokens: ask.current_tokens,
            target_tokens: ask.target_tokens,
            message_count: ask.message_count,
            what_goes: WhatGoes {
                messages: ask.messages_gone,
                handles: ask.what_goes.iter().map(ToString::to_string).collect(),
            },
            custom_instructions: ask.custom_instructions,
        };
        self.tasks.spawn(async move {
            let answer = hooks.pre_compact(ask).await.map(|answer| PreCompactAnswer {
                cancel: answer.cancel,
                reason: answer.reason,
                custom_instructions: answer.custom_instructions,
                custom_summary: answer.custom_summary,
            });
            let _ = inbox.send(Input::PreCompactAnswered { task, answer }.into());
        });
    }
}
