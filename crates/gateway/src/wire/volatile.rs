//! What clients put into a history that is another with every request although the conversation is the same, and what
//! we ourselves have put into an answer that comes back. Neither is part of a prefix's name.

/// Blocks of text that begin so are left out of the canonical form: a per-request attribution of Claude Code in its
/// first system block (seen 2026-05).
const TOKENS: [&str; 1] = ["x-anthropic-billing-header:"];

/// Our notices (SPEC §7) by how they begin; each ends with its line.
const NOTICES: [&str; 4] = [
    "⚙️ Compacting conversation history…",
    "✅ Context compacted, continuing…",
    "⚠️ Max compaction attempts reached",
    "⚠️ Context limit exceeded (",
];

/// Keys that mark a cache and say nothing.
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

    #[test]
    fn notices_go_by_the_line() {
        let text = "one\n⚙️ Compacting conversation history…\n✅ Context compacted, continuing…\ntwo";
        assert_eq!(without_notices(text).as_deref(), Some("one\ntwo"));
        assert_eq!(without_notices("one\ntwo"), None);
    }

    #[test]
    fn an_attribution_is_volatile() {
        assert!(is_volatile("x-anthropic-billing-header: cc_version=2.1; cch=abc"));
        assert!(!is_volatile("You are x-anthropic-billing-header:"));
    }
}
