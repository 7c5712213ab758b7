//! What can be told of a message that cannot be read: whose request it answers.
//!
//! Servers send what no JSON reader takes: half of a surrogate pair, nesting without end, raw line breaks. Whoever
//! waits for such an answer must hear of it at once and not when the time is up.

use rmcp::model::RequestId;

/// What stands at the top level of a text that begins like a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct McpMessageOutline {
    /// The request that it answers.
    pub(super) answers: Option<RequestId>,
    /// Whether it says that it is a message of the protocol, and asks and tells nothing by itself.
    pub(super) is_answer: bool,
}

/// Looks through a text that need not be JSON. It stops at nothing, keeps nothing and goes into no depth.
pub(super) fn outline(text: &str) -> McpMessageOutline {
    let (mut id, mut is_message, mut has_method) = (None, false, false);
    for (key, rest) in TopLevelKeys::of(text) {
        match key {
            "id" => id = scalar(rest),
            "jsonrpc" => is_message = true,
            "method" => has_method = true,
            _ => {}
        }
    }
    McpMessageOutline { answers: id.filter(|_| !has_method), is_answer: is_message && !has_method }
}

/// The keys of the outermost object, each with what stands behind its colon.
struct TopLevelKeys<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> TopLevelKeys<'a> {
    fn of(text: &'a str) -> Self {
        let begins = text.trim_start().starts_with('{');
        Self { text, at: if begins { 0 } else { text.len() }, depth: 0 }
    }

    /// The string that begins behind the quote at `at`, which is left behind.
    fn string(&mut self) -> Option<&'a str> {
        let start = self.at + 1;
        let bytes = self.text.as_bytes();
        let mut end = start;
        while *bytes.get(end)? != b'"' {
            end += if bytes.get(end) == Some(&b'\\') { 2 } else { 1 };
        }
        self.at = end + 1;
        self.text.get(start..end)
    }
}

impl<'a> Iterator for TopLevelKeys<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(byte) = self.text.as_bytes().get(self.at) {
            match byte {
                b'"' => {
                    let string = self.string()?;
                    let behind = self.text.get(self.at..)?.trim_start();
                    if let Some(value) = behind.strip_prefix(':').filter(|_| self.depth == 1) {
                        return Some((string, value));
                    }
                    continue;
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
        }
        None
    }
}

/// A number or a string at the start of a text, as an id.
fn scalar(text: &str) -> Option<RequestId> {
    let text = text.trim_start();
    match text.strip_prefix('"') {
        Some(string) => string.split('"').next().map(|id| RequestId::String(id.into())),
        None => {
            let end = text.find(|c: char| c != '-' && !c.is_ascii_digit()).unwrap_or(text.len());
            text.get(..end)?.parse().ok().map(RequestId::Number)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Option<i64> {
        match outline(text).answers? {
            RequestId::Number(number) => Some(number),
            RequestId::String(_) => None,
        }
    }

    #[test]
    fn the_id_is_found_wherever_it_stands() {
        assert_eq!(number(r#"{"jsonrpc":"2.0","id":7,"result":{"id":8,"text":"\ud800"#), Some(7));
        assert_eq!(number("{\"result\":{\"a\":[\"}\\\"\n{\"]}, \"id\" : 9 ,\"jsonrpc\":\"2.0\"}"), Some(9));
        let string = outline(r#"{"id":"7","jsonrpc":"2.0","result":NaN}"#);
        assert_eq!(
            string,
            McpMessageOutline { answers: Some(RequestId::String("7".into())), is_answer: true }
        );
        let deep =
            format!(r#"{{"jsonrpc":"2.0","result":{}{},"id":3}}"#, "[".repeat(90_000), "]".repeat(90_000));
        assert_eq!(number(&deep), Some(3));
    }

    #[test]
    fn what_is_no_answer_answers_nothing() {
        for text in [
            r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"\ud800"}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":NaN}"#,
            r#"[{"jsonrpc":"2.0","id":7}"#,
            "Listening. \"id\": 7",
            "{]",
            "",
        ] {
            assert_eq!(outline(text), McpMessageOutline::default(), "{text}");
        }
        let lost = outline(r#"{"jsonrpc":"2.0","result":{"content":"x"#);
        assert_eq!(lost, McpMessageOutline { answers: None, is_answer: true });
        assert_eq!(outline(r#"{"jsonrpc":"2.0","id":null,"error":{"#).answers, None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in r#"[{}\[\]":\\,a-zé0-9 ]{0,80}"#) {
            let _ = outline(&text);
            let _ = outline(&format!("{{{text}"));
        }
    }
}
