//! Comments in code that speak to the assistant: `// AI: never rename this function`.
//!
//! Pasted code has comments such as "never call this twice", which are no orders of the user. A comment with a name of the
//! assistant before a colon is one.

/// The marks at the beginning of a comment.
const COMMENT_MARKS: &[&str] = &["//", "/*", "#", "<!--", "--", ";", "%", "*"];

/// The marks at the end of a comment.
const END_MARKS: &[&str] = &["*/", "-->"];

/// Names by which people address the assistant in a comment.
const ASSISTANT_NAMES: &[&str] = &[
    "ai",
    "ais",
    "assistant",
    "assistants",
    "agent",
    "agents",
    "llm",
    "llms",
    "claude",
    "chatgpt",
    "gpt",
    "copilot",
    "gemini",
    "cursor",
    "codex",
    "ki",
    "ia",
    "ии",
];

/// Words that may stand beside such a name.
const ADDRESS_WORDS: &[&str] = &[
    "note",
    "to",
    "for",
    "the",
    "all",
    "dear",
    "important",
    "attention",
    "please",
    "coding",
    "an",
    "für",
    "pour",
    "para",
];

/// Returns what a comment says to the assistant; `None` for other lines.
pub(super) fn addressed_comment(line: &str) -> Option<&str> {
    let text = line.trim();
    let body = COMMENT_MARKS.iter().find_map(|mark| text.strip_prefix(mark))?;
    let (label, said) = body.split_once(':')?;
    let mut words =
        label.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty()).peekable();
    words.peek()?;
    let mut is_named = false;
    for word in words {
        let word = word.to_lowercase();
        let is_name = ASSISTANT_NAMES.contains(&word.as_str());
        if !is_name && !ADDRESS_WORDS.contains(&word.as_str()) {
            return None;
        }
        is_named |= is_name;
    }
    let said = END_MARKS.iter().fold(said.trim(), |said, mark| said.trim_end_matches(mark).trim_end());
    (is_named && !said.is_empty()).then_some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_the_assistant_before_a_colon_addresses_it() {
        for (line, said) in [
            ("// assistant: never rename this function", Some("never rename this function")),
            ("    # Note to AI agents: keep this file short", Some("keep this file short")),
            ("<!-- AI: keep this header -->", Some("keep this header")),
            ("/* Claude: never reformat */", Some("never reformat")),
            ("// never call this twice", None),
            ("// TODO: never call this twice", None),
            ("let agent: Agent = new();", None),
        ] {
            assert_eq!(addressed_comment(line), said, "{line}");
        }
    }
}
