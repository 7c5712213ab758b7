//! Checks of the configured hooks: the programs and files of their commands must be reachable inside the sandbox.

use std::ffi::OsString;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use longhaul::config::{AgentConfig, HookConfig, HookTarget};
use longhaul::hooks::HookEvent;
use longhaul::sandbox::{Sandbox, SpawnRequest};

use crate::environment::CliEnvironment;
use crate::term::style::TextPainter;
use crate::term::text::visible;

/// The script of the look-up. Its exit code is 3 for a missing program or file, and 2 or 4 for an unreadable one.
///
/// The file is opened because a shell also finds files that the sandbox does not let it read.
const LOOK: &str = r#"case $1 in */*) at=$1 ;; *) at=$(command -v -- "$1") || exit 3 ;; esac
case $at in */*) [ -e "$at" ] || exit 3; : < "$at" || exit 4 ;; esac"#;

/// The maximum time of one look-up.
const DEADLINE: Duration = Duration::from_secs(5);

/// Returns a line for each hook, label and fact. No hook is run.
pub(super) async fn facts(
    place: &CliEnvironment,
    config: &AgentConfig,
    sandbox: &Arc<Sandbox>,
    style: TextPainter,
) -> Vec<(&'static str, String)> {
    let hooks = &config.hooks;
    let configured = [
        (HookEvent::PreCompact, &hooks.pre_compact),
        (HookEvent::PreToolUse, &hooks.pre_tool_use),
        (HookEvent::PostToolUse, &hooks.post_tool_use),
        (HookEvent::UserPromptSubmit, &hooks.user_prompt_submit),
    ];
    let mut facts = Vec::new();
    for (event, hook) in configured {
        let Some(HookConfig { target, .. }) = hook else { continue };
        let fact = match target {
            HookTarget::Command(line) => command(place, line, sandbox, style).await,
            // A hook's server may act on a request, so it is not asked just to see it.
            HookTarget::Url(_) => "a server, which is not asked".to_owned(),
        };
        facts.push(("hook", format!("{} · {fact}", event.as_str())));
    }
    facts
}

async fn command(place: &CliEnvironment, line: &str, sandbox: &Arc<Sandbox>, style: TextPainter) -> String {
    for name in named(line) {
        // Looked at from inside the sandbox, because hooks run there.
        let shown = visible(name);
        match look(place, name, sandbox).await {
            Some(0) => {}
            Some(3) => return style.red(&format!("there is no {shown}")),
            Some(_) => {
                let why = "it is there, but not where confined commands may read";
                return style.red(&format!("{shown} cannot be reached: {why}"));
            }
            None => return "could not be looked at".to_owned(),
        }
    }
    "is there".to_owned()
}

/// Returns the program and the files of a command line, as far as they are plain words.
fn named(line: &str) -> Vec<&str> {
    // Words behind a quote or an operator need a shell to be understood, so the list ends before them.
    let words = line
        .split_whitespace()
        .take_while(|word| word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./+".contains(c)));
    words
        .enumerate()
        // The first word is a program to find. Later words count as files only if they look like a path.
        .filter(|(at, word)| *at == 0 || (word.contains('/') && !word.starts_with('-')))
        .map(|(_, word)| word)
        .collect()
}

async fn look(place: &CliEnvironment, name: &str, sandbox: &Arc<Sandbox>) -> Option<i32> {
    let request = SpawnRequest {
        program: OsString::from("/bin/sh"),
        args: ["-c", LOOK, "sh", name].map(OsString::from).to_vec(),
        env: Vec::new(),
        directory: place.workspace.clone(),
        stdin: Stdio::null(),
        stdout: Stdio::null(),
        stderr: Stdio::null(),
    };
    let mut child = sandbox.spawn(request).await.ok()?;
    // A look-up that hangs, for example on a network share, must not hang the whole report.
    tokio::time::timeout(DEADLINE, child.wait()).await.ok()?.ok()?.code()
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn programs_and_files_are_told_from_other_words() {
        assert_eq!(named("python3 hooks/guard.py --strict"), ["python3", "hooks/guard.py"]);
        assert_eq!(named("/usr/local/bin/guard -v"), ["/usr/local/bin/guard"]);
        assert_eq!(named("A=1 guard"), [""; 0], "what a shell must read is left to it");
        assert_eq!(named("cat | guard"), ["cat"]);
    }
}
