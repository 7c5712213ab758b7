//! The hooks of a configuration.

use std::sync::Arc;

use longhaul::config::{HookConfig, HookTarget, HooksConfig};
use longhaul::hooks::{CommandHook, Hook, HookEvent, Hooks, HttpHook};
use longhaul::sandbox::Sandbox;
use longhaul::workspace::Workspace;

use crate::failure::{Failure, Outcome};

/// The hooks, none of them started or connected yet.
///
/// # Errors
/// An address that cannot be used.
pub(super) fn hooks(config: &HooksConfig, workspace: &Workspace, sandbox: &Arc<Sandbox>) -> Outcome<Hooks> {
    let configured = [
        (HookEvent::PreCompact, &config.pre_compact),
        (HookEvent::PreToolUse, &config.pre_tool_use),
        (HookEvent::PostToolUse, &config.post_tool_use),
        (HookEvent::UserPromptSubmit, &config.user_prompt_submit),
    ];
    let mut hooks = Hooks::new();
    for (event, hook) in configured {
        let Some(HookConfig { target, timeout }) = hook else { continue };
        let hook: Arc<dyn Hook> = match target {
            HookTarget::Command(line) => {
                Arc::new(CommandHook::new(line, workspace.root(), Arc::clone(sandbox)))
            }
            HookTarget::Url(url) => Arc::new(
                HttpHook::new(url)
                    .map_err(|error| Failure::usage(format!("`hooks.{}`: {error}", event.as_str())))?,
            ),
        };
        hooks = hooks.with(event, hook, *timeout);
    }
    Ok(hooks)
}
