//! The hooks of a configuration.

use std::sync::Arc;

use crate::config::{HookConfig, HookTarget, HooksConfig};
use crate::hooks::{CommandHook, Hook, HookError, HookEvent, HookSet, HttpHook};
use crate::sandbox::Sandbox;
use crate::workspace::Workspace;

/// A configured hook cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`hooks.{}`: {why}", event.as_str())]
pub struct HookSetupError {
    /// The event of the hook, which is its key below `hooks`.
    pub event: HookEvent,
    /// The reason.
    pub why: HookError,
}

/// Returns the configured hooks, none of them started or connected yet. Commands run in the workspace's root, confined
/// by `sandbox`.
///
/// # Errors
/// [`HookSetupError`]: an address cannot be used.
pub fn hook_set(
    config: &HooksConfig,
    workspace: &Workspace,
    sandbox: &Arc<Sandbox>,
) -> Result<HookSet, HookSetupError> {
    let configured = [
        (HookEvent::PreCompact, &config.pre_compact),
        (HookEvent::PreToolUse, &config.pre_tool_use),
        (HookEvent::PostToolUse, &config.post_tool_use),
        (HookEvent::UserPromptSubmit, &config.user_prompt_submit),
    ];
    let mut hooks = HookSet::new();
    for (event, hook) in configured {
        let Some(HookConfig { target, timeout }) = hook else { continue };
        let hook: Arc<dyn Hook> = match target {
            HookTarget::Command(line) => {
                Arc::new(CommandHook::new(line, workspace.root(), Arc::clone(sandbox)))
            }
            HookTarget::Url(url) => {
                Arc::new(HttpHook::new(url).map_err(|why| HookSetupError { event, why })?)
            }
        };
        hooks = hooks.with(event, hook, *timeout);
    }
    Ok(hooks)
}
