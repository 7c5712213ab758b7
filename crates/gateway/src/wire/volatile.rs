//! What clients put into a history that is another with every request although the conversation is the same, and what
//! we ourselves have put into an answer that comes back. Neither is part of a prefix's name.

/// Blocks of text that begin so are left out of the canonical form: Claude Code's attribution, its first system block,
/// which names its version and how it was started, and in some versions a token of the request (seen 2026-05 with
/// `cch=`, 2026-11 in 2.1.197 without).
///
/// Looked for and not found in 2026-11: Codex 0.169, opencode, Qwen Code, pi and Cline send what they sent before as it
/// was, and so does Claude Code but for this block and its cache marks.
const TOKENS: [&str; 1] = ["x-anthropic-billing-header:"];

/// Our notices (SPEC §7) by how they begin; each ends with its line.
const NOTICES: [&str; 4] = [
    "⚙️ Compacting conversation history…",
    "✅ Context compacted, continuing…",
    "⚠️ Max compaction attempts reached",
    "⚠️ Context limit exceeded (",
];

/// Keys that mark a cache and say nothing. Claude Code (2.1.197, 2026-11) moves its mark to the newest block with every
/// request.
pub const CACHE_MARKS: [&str; 1] = ["cache_control"];

/// Whether a block of text with this content is another with every request.
pub fn is_volatile(text: &str) -> bool {
    TOKENS.iter().any(|start| text.trim_start().starts_with(start))
}

/// The text without our notices; `None` if it has none.
pub fn without_notices(text: &str) -> Option<String> {
    if !NOTICES.iter().any(|notice| text.contains(notice)) {
        return None;
    }
    let is_notice = |line: &&str| NOTICES.iter().any(|notice| line.trim_start().starts_with(notice));
    Some(text.split_inclusive('\n').filter(|line| !is_notice(line)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Wire;
    use crate::wire::messages::Messages;

    #[test]
    fn notices_go_by_the_line() {
        let text = "one\n⚙️ Compacting conversation history…\n✅ Context compacted, continuing…\ntwo";
        assert_eq!(without_notices(text).as_deref(), Some("one\ntwo"));
        assert_eq!(without_notices("one\ntwo"), None);
    }

    #[test]
    fn what_claude_code_sends_again_has_the_same_name() {
        // Two requests in a row of 2.1.197, texts cut short.
        let first = [
            r#"{"role":"user","content":[{"type":"text","text":"<system-reminder>\nAs you answer</system-reminder>"},{"type":"text","text":"Read the log","cache_control":{"type":"ephemeral"}}]}"#,
            r#"{"role":"system","content":"Available agent types for the Agent tool"}"#,
            r#"{"role":"user","content":[{"tool_use_id":"toolu_1","type":"tool_result","content":"station 0","is_error":false,"cache_control":{"type":"ephemeral"}}]}"#,
        ];
        let second = [
            r#"{"role":"user","content":[{"type":"text","text":"<system-reminder>\nAs you answer</system-reminder>"},{"type":"text","text":"Read the log"}]}"#,
            r#"{"role":"system","content":"Available agent types for the Agent tool"}"#,
            r#"{"role":"user","content":[{"tool_use_id":"toolu_1","type":"tool_result","content":"station 0","is_error":false}]}"#,
        ];
        let name = |item: &str| {
            let mut form = Vec::new();
            Messages.canonical(item, 0, &mut form).unwrap();
            form
        };
        for (old, new) in first.iter().zip(&second) {
            assert_eq!(name(old), name(new), "{new}");
        }
        assert_ne!(name(second[0]), name(&second[0].replace("Read", "Write")));
    }

    #[test]
    fn an_attribution_is_volatile() {
        assert!(is_volatile("x-anthropic-billing-header: cc_version=2.1.197.ed9; cc_entrypoint=sdk-cli;"));
        assert!(is_volatile("x-anthropic-billing-header: cc_version=2.1; cch=abc"));
        assert!(!is_volatile("You are x-anthropic-billing-header:"));
    }
}
