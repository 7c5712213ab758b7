//! A lenient look at a message that cannot be parsed, to find the request that the message answers.
//!
//! Some servers send JSON that no parser accepts: half of a surrogate pair, endless nesting, raw line breaks. The
//! caller that waits for such an answer must get an error at once and not only after the timeout.

use rmcp::model::RequestId;

/// The top-level facts of a text that begins like a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct McpMessageOutline {
    /// The request that the message answers.
    pub(super) answers: Option<RequestId>,
    /// True if the text claims to be a JSON-RPC message and has no `method` of its own.
    pub(super) is_answer: bool,
}

/// Scans a text that need not be valid JSON. The scan never fails, copies nothing and does not recurse.
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
    // A message with a method is the server's own request; its id does not belong to one of ours.
    McpMessageOutline { answers: id.filter(|_| !has_method), is_answer: is_message && !has_method }
}

/// The keys of the outermost object, each with the text after its colon.
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

    /// Returns the string that begins after the quote at `at`, and moves past it.
    fn string(&mut self) -> Option<&'a str> {
        let start = self.at + 1;
        let bytes = self.text.as_bytes();
        let mut end = start;
        while *bytes.get(end)? != b'"' {
            // An escaped quote does not end the string.
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
                    // Only a string with a colon behind it is a key; the same text may be a value.
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

/// Reads a number or a string at the start of a text as an id.
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
