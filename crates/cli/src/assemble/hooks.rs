//! The hooks of a configuration.

use std::sync::Arc;

use longhaul::config::{HookConfig, HookTarget, HooksConfig};
use longhaul::hooks::{CommandHook, Hook, HookEvent, HookSet, HttpHook};
use longhaul::sandbox::Sandbox;
use longhaul::workspace::Workspace;

use crate::failure::{CommandError, Outcome};

/// Returns the hooks, none of them started or connected yet.
///
/// # Errors
/// An unusable address.
pub(super) fn hooks(config: &HooksConfig, workspace: &Workspace, sandbox: &Arc<Sandbox>) -> Outcome<HookSet> {
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
            HookTarget::Url(url) => Arc::new(
                HttpHook::new(url)
                    .map_err(|error| CommandError::usage(format!("`hooks.{}`: {error}", event.as_str())))?,
            ),
        };
        hooks = hooks.with(event, hook, *timeout);
    }
    Ok(hooks)
}
