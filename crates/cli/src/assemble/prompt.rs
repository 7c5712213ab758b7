//! The system prompt. The prompt is equal in all requests, so that caches stay warm.

use std::io::Read as _;

use longhaul::agent::SMALL_WINDOW_TOKENS;
use longhaul::config::{AgentConfig, SystemPrompt};
use longhaul::text_encoding::DecodedText;
use longhaul::workspace::{PathAccess, Workspace, WorkspaceError};
use longhaul_core::estimate::MessageTokenCounter;

/// The file with a workspace's notes to every agent.
const NOTES: &str = "AGENTS.md";

/// The maximum bytes of the notes in the prompt.
const MOST: u64 = 64 << 10;

/// The divisor of a small window for the maximum of the notes.
const NOTES_SHARE: u64 = 8;

// Neither prompt speaks of `recall`: the tool is not there before something has left the view, and its own description
// says then what it is for. A prompt that changed with it would cost the cache of every session.
const DEFAULT: &str = "\
You work for the person you talk with, in one folder of their machine, through tools.

- Look before you change: read the files that matter first. Prefer the other tools to `bash` for looking.
- Change little at a time, in the style that is there, and only what was asked for.
- Check your work: build it, run the tests, read the result. Say plainly what failed and what you did not check.
- What is long is cut and what is old is cleared or summarised; nothing is lost.
- Ask before anything that cannot be undone.
- Be brief and exact. Answer in the language you are addressed in.";

/// The prompt for a small window.
const BRIEF: &str = "You work in one folder of the user's machine, through tools. Look with `read`, step by step until \
all is done. Change only what was asked for, and check it. Be brief and exact, in the user's language.";

/// Returns the system prompt of an agent whose model has that `window`, in tokens, if it is known. `counter`
/// counts the tokens.
pub(super) fn system(
    config: &AgentConfig,
    workspace: &Workspace,
    window: Option<u64>,
    counter: &MessageTokenCounter,
) -> String {
    let small = window.filter(|tokens| *tokens < SMALL_WINDOW_TOKENS);
    let mut system = match &config.system_prompt {
        SystemPrompt::Text(text) if !text.trim().is_empty() => text.clone(),
        _ if small.is_some() => BRIEF.to_owned(),
        _ => DEFAULT.to_owned(),
    };
    // The notes stand behind the prompt, and both are read once: a changed prompt would empty the prompt cache.
    match notes(workspace) {
        Ok(Some(notes)) => {
            let notes = notes.trim();
            let shown = small.map_or(notes, |window| beginning(notes, window / NOTES_SHARE, counter));
            system.push_str(&format!("\n\n# {NOTES}\n\n{shown}"));
            if shown.len() < notes.len() {
                system.push_str(&format!("\n[{NOTES} goes on]"));
                tracing::warn!(
                    "{NOTES} is too long for the model's window: the first {} of its {} bytes are in the system \
                     prompt, and the model can read the rest",
                    shown.len(),
                    notes.len()
                );
            }
        }
        Ok(None) => {}
        // The agent works without its notes, so an unreadable file is no reason to stop.
        Err(error) => tracing::warn!("{NOTES} is not used: {error}"),
    }
    system
}

/// Returns the first lines of a text, as many as have at most `max_tokens`.
fn beginning<'t>(text: &'t str, max_tokens: u64, counter: &MessageTokenCounter) -> &'t str {
    if counter.text(text) <= max_tokens {
        return text;
    }
    let (mut end, mut tokens) = (0, 0);
    // Whole lines are counted one by one: a half rule could say the opposite.
    for line in text.split_inclusive('\n') {
        tokens += counter.text(line);
        if tokens > max_tokens {
            break;
        }
        end += line.len();
    }
    text[..end].trim_end()
}

/// Reads the notes as a tool would: a link out of the workspace or into the data folder is not followed.
fn notes(workspace: &Workspace) -> Result<Option<String>, WorkspaceError> {
    let path = match workspace.resolve(NOTES, PathAccess::Read) {
        Ok(path) => path,
        // Most workspaces have no notes, so this is the usual case.
        Err(WorkspaceError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    workspace
        .open_file(&path)?
        // One byte above the limit shows that the file is longer.
        .take(MOST + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| WorkspaceError::Io { path: NOTES.to_owned(), source })?;
    if bytes.len() as u64 > MOST {
        bytes.truncate(MOST as usize);
        tracing::warn!("only the first {} KiB of {NOTES} are used", MOST >> 10);
    }
    let DecodedText { text, damage, .. } = decoded_notes(&bytes);
    // The agent works with a damaged note, and the person can mend the file.
    if let Some(damage) = damage {
        tracing::warn!("{NOTES} has {damage}: replaced by U+FFFD in the system prompt");
    }
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

fn decoded_notes(bytes: &[u8]) -> DecodedText {
    if bytes.len() as u64 >= MOST { DecodedText::of_beginning(bytes) } else { DecodedText::new(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_text() {
        let text = |bytes: &[u8]| decoded_notes(bytes).text;
        assert_eq!(text("\u{feff}# Räte".as_bytes()), "# Räte");
        assert_eq!(text(b"\xff\xfeA\0b\0"), "Ab");
        assert_eq!(text(b"\xfe\xff\0A\0b"), "Ab");
        assert_eq!(text(b"caf\xe9"), "caf\u{fffd}");
    }

    #[test]
    fn a_character_that_the_limit_cuts_is_no_damage_of_the_file() {
        let mut bytes = "€".repeat(MOST as usize / 3 + 1).into_bytes();
        bytes.truncate(MOST as usize);
        let decoded = decoded_notes(&bytes);
        assert!(decoded.text.ends_with('€') && decoded.damage.is_none(), "{:?}", decoded.damage);
        bytes[9] = 0xff;
        assert!(decoded_notes(&bytes).damage.is_some_and(|damage| damage.offset == 9));
    }

    #[test]
    fn a_text_is_cut_at_a_line() {
        let counter = MessageTokenCounter::structured();
        let text = "one short line\n".repeat(50);
        let text = text.trim();
        assert_eq!(beginning(text, 10_000, counter), text);
        let cut = beginning(text, 60, counter);
        assert!(counter.text(cut) <= 60 && counter.text(cut) > 40, "{cut}");
        assert!(text.starts_with(cut) && cut.ends_with("line"), "{cut}");
        assert_eq!(beginning("a line that is too long for its room", 2, counter), "");
    }

    #[test]
    fn a_small_window_gets_a_small_prompt() {
        let counter = MessageTokenCounter::structured();
        assert!(counter.text(BRIEF) <= 50, "{}", counter.text(BRIEF));
        assert!(counter.text(DEFAULT) <= 150, "{}", counter.text(DEFAULT));
        assert!(!DEFAULT.contains("recall") && !BRIEF.contains("recall"));
    }
}
