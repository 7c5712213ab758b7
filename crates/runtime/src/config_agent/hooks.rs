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
    let mut hooks = HookSet::new();
    for (event, HookConfig { target, timeout }) in configured_hooks(config) {
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

/// Returns the events with a configured hook, and the hooks.
pub(crate) fn configured_hooks(config: &HooksConfig) -> impl Iterator<Item = (HookEvent, &HookConfig)> {
    let places = [
        (HookEvent::PreCompact, &config.pre_compact),
        (HookEvent::PreToolUse, &config.pre_tool_use),
        (HookEvent::PostToolUse, &config.post_tool_use),
        (HookEvent::UserPromptSubmit, &config.user_prompt_submit),
    ];
    places.into_iter().filter_map(|(event, hook)| Some((event, hook.as_ref()?)))
}
