//! Content that changes with every request of one conversation, and the gateway's notices in answers that a client
//! sends back. Neither is part of the hash that names a prefix.

use memchr::memmem;

use crate::raw_json::{elements, field, fields, quote, string, with_field};

/// The beginnings of text blocks outside of the canonical form. The only entry is Claude Code's attribution, the
/// first system block. The block names Claude Code's version and way of starting, and in some versions a token of the
/// request (seen 2026-05 with `cch=`, 2026-11 in 2.1.197 without).
///
/// Looked for and not found in 2026-11: Codex 0.169, opencode, Qwen Code, pi and Cline send earlier content
/// unchanged. Claude Code does so too, but for this block and its cache marks.
const TOKENS: [&str; 1] = ["x-anthropic-billing-header:"];

/// The notice that an answer is stopped, or not begun yet, because room is made.
pub const COMPACTING: &str = "⚙️ Compacting conversation history…";

/// The notice that room was made.
pub const CONTINUING: &str = "✅ Context compacted, continuing…";

/// The notice that the answer continues to the real end of the window.
pub const SPENT: &str = "⚠️ Max compaction attempts reached";

/// The beginning of the notice that an answer has ended at the window's end.
const EXCEEDED: &str = "⚠️ Context limit exceeded (";

/// The end of the notice [`EXCEEDED`].
const ABORTING: &str = " tokens). Aborting.";

/// The beginnings of our notices; each notice is one line. In an answer's text a notice is a separate paragraph, with
/// an empty line before (unless the paragraph is the first) and behind (unless the paragraph is the last).
const NOTICES: [&str; 4] = [COMPACTING, CONTINUING, SPENT, EXCEEDED];

/// Words of the notices with the same JSON from every client.
const WORDS: [&str; 4] = [
    "Compacting conversation history",
    "Context compacted, continuing",
    "Max compaction attempts reached",
    "Context limit exceeded (",
];

/// Keys of cache marks, outside of the content. Claude Code (2.1.197, 2026-11) moves its mark to the newest block
/// with every request.
pub const CACHE_MARKS: [&str; 1] = ["cache_control"];

/// Reports whether a block of text with this content changes with every request.
pub(crate) fn is_volatile(text: &str) -> bool {
    TOKENS.iter().any(|start| text.trim_start().starts_with(start))
}

/// Returns the text without our notices; `None` if the text has none.
pub fn without_notices(text: &str) -> Option<String> {
    // Most texts have no notice and need no copy.
    if !NOTICES.iter().any(|notice| text.contains(notice)) {
        return None;
    }
    let mut clean = String::with_capacity(text.len());
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        if !is_notice(line) {
            clean.push_str(line);
            continue;
        }
        while lines.next_if(|line| is_notice(line)).is_some() {}
        // The empty lines around the paragraph are ours too.
        let begins = clean.is_empty() || clean.ends_with("\n\n");
        if begins && (lines.peek().is_none() || lines.next_if(|line| *line == "\n").is_some()) {
            clean.truncate(clean.len().saturating_sub(2));
        }
    }
    Some(clean)
}

/// Reports whether a whole line is a notice of ours: a model may mention one inside a line.
fn is_notice(line: &str) -> bool {
    let line = line.trim();
    if [COMPACTING, CONTINUING, SPENT].contains(&line) {
        return true;
    }
    let figures = line.strip_prefix(EXCEEDED).and_then(|rest| rest.strip_suffix(ABORTING));
    figures
        .and_then(|figures| figures.split_once('/'))
        .is_some_and(|(used, limit)| is_number(used) && is_number(limit))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the notice that an answer has ended at the end of the window.
pub fn exceeded(used: u64, limit: u64) -> String {
    format!("{EXCEEDED}{used}/{limit}{ABORTING}")
}

/// Returns a notice as an SSE comment, which parsers of events skip.
pub fn comment(notice: &str) -> String {
    format!(": {notice}\n\n")
}

/// Reports whether a JSON text may contain one of our notices.
pub fn may_have_notices(json: &str) -> bool {
    // Clients escape the symbols and the dots of the notices in different ways, so only their ASCII words are
    // searched.
    WORDS.iter().any(|words| memmem::find(json.as_bytes(), words.as_bytes()).is_some())
}

/// Returns a model's item without our notices; `None` if the item has none, or has nothing else.
pub fn item_without_notices(item: &str) -> Option<String> {
    let said = fields(item)?;
    if field(&said, "role").and_then(string)? != "assistant" {
        return None;
    }
    let content = field(&said, "content")?;
    if let Some(text) = string(content) {
        // A message of nothing but notices stays, because an empty one would be refused.
        let clean = without_notices(&text).filter(|clean| !clean.trim().is_empty())?;
        return with_field(item, "content", &quote(&clean));
    }
    let (mut blocks, mut is_changed) = (Vec::new(), false);
    for block in elements(content)? {
        let text = fields(block).and_then(|said| field(&said, "text").and_then(string));
        let Some(clean) = text.and_then(|text| without_notices(&text)) else {
            blocks.push(block.to_owned());
            continue;
        };
        is_changed = true;
        // Many servers refuse an empty text block.
        if !clean.trim().is_empty() {
            blocks.extend(with_field(block, "text", &quote(&clean)));
        }
    }
    let content = format!("[{}]", blocks.join(","));
    (is_changed && !blocks.is_empty()).then(|| with_field(item, "content", &content))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::WireCodec;
    use crate::messages::edit::MessagesCodec;

    #[test]
    fn a_paragraph_of_notices_leaves_the_text_as_it_was() {
        let both = format!("{COMPACTING}\n{CONTINUING}");
        for (shown, was) in [
            (format!("one\n\n{both}\n\n two"), "one two"),
            (format!("{both}\n\none"), "one"),
            (format!("one\n\n{SPENT}\n\n two\n\n{}", exceeded(7, 8)), "one two"),
            (format!("a\n\n{both}\n\n b\n\n{both}\n\n c"), "a b c"),
        ] {
            assert_eq!(without_notices(&shown).as_deref(), Some(was), "{shown}");
        }
    }

    #[test]
    fn an_item_of_the_models_is_cleaned_and_no_other() {
        let text = format!("one\n\n{COMPACTING}\n\n two");
        let item =
            |role: &str, content: serde_json::Value| serde_json::json!({ "role": role, "content": content });
        let clean = |item: &serde_json::Value| {
            assert!(may_have_notices(&item.to_string()));
            item_without_notices(&item.to_string())
                .map(|item| serde_json::from_str::<serde_json::Value>(&item).unwrap())
        };
        assert_eq!(
            clean(&item("assistant", text.as_str().into())),
            Some(item("assistant", "one two".into()))
        );
        let blocks = |text: &str| serde_json::json!([{ "type": "text", "text": text }, { "type": "x" }]);
        assert_eq!(clean(&item("assistant", blocks(&text))), Some(item("assistant", blocks("one two"))));
        assert_eq!(clean(&item("user", text.as_str().into())), None, "a person may quote them");
        assert_eq!(clean(&item("assistant", COMPACTING.into())), None, "nothing would be left");
    }

    #[test]
    fn notices_go_by_the_line() {
        let text = "one\n⚙️ Compacting conversation history…\n✅ Context compacted, continuing…\ntwo";
        assert_eq!(without_notices(text).as_deref(), Some("one\ntwo"));
        assert_eq!(without_notices("one\ntwo"), None);
        // Words of the model's own about them stay, whole.
        for own in [
            format!("see log:\n{CONTINUING} PIN 4711\nend"),
            format!("it said: {COMPACTING}\n"),
            "⚠️ Context limit exceeded (a/b tokens). Aborting.".to_owned(),
            "⚠️ Context limit exceeded (7/8 tokens). Aborting. Or not.".to_owned(),
        ] {
            assert_eq!(without_notices(&own).as_deref().unwrap_or(&own), own);
        }
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
            MessagesCodec.write_canonical_item(item, 0, &mut form).unwrap();
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
