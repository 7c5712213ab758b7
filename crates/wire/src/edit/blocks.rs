//! Pictures and files in a request, where they stand.

use std::ops::Range;

use super::Dialect;
use crate::raw_json::{elements, field, fields, place, quote, string};

/// How deep a list of items is looked into: an item, its content, a result, its content.
const MAX_DEPTH: usize = 12;

/// A picture or a file in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where it stands, braces included.
    pub at: Range<usize>,
    /// Whether it is a picture.
    pub is_image: bool,
}

/// All pictures and files of a request, in order.
pub fn blocks(request: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let all = fields(request).unwrap_or_default();
    for name in ["messages", "input"] {
        if let Some(items) = field(&all, name) {
            gather(items, place(request, items).start, 0, &mut found);
        }
    }
    found
}

fn gather(text: &str, start: usize, depth: usize, found: &mut Vec<Block>) {
    if depth > MAX_DEPTH {
        return;
    }
    let mut inside = |part: &str| {
        if part.starts_with(['{', '[']) {
            gather(part, start + place(text, part).start, depth + 1, found);
        }
    };
    if text.starts_with('[') {
        return elements(text).unwrap_or_default().into_iter().for_each(inside);
    }
    let all = fields(text).unwrap_or_default();
    match field(&all, "type").and_then(string).as_deref() {
        Some("image" | "image_url" | "input_image") => {
            found.push(Block { at: start..start + text.len(), is_image: true });
        }
        Some("document" | "file" | "input_file") => {
            found.push(Block { at: start..start + text.len(), is_image: false });
        }
        _ => all.iter().for_each(|(_, value)| inside(value)),
    }
}

/// Words in the place of a picture or a file.
pub fn words(dialect: Dialect, note: &str) -> String {
    let kind = match dialect {
        Dialect::Chat | Dialect::Messages => "text",
        Dialect::Responses => "input_text",
    };
    format!(r#"{{"type":"{kind}","text":{}}}"#, quote(note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_and_files_stand_where_they_stand() {
        let request = r#"{ "model":"m", "messages" : [ {"role":"user","content":"image"},
            {"role":"user","content":[{"type":"text","text":"a"}, {"type":"image_url","image_url":{"url":"x"}}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[
                {"type":"image","source":{"type":"base64","data":"QQ=="}},{"type":"document","source":{}}]}]} ] }"#;
        let found = blocks(request);
        let shown: Vec<&str> = found.iter().map(|block| &request[block.at.clone()]).collect();
        assert_eq!(
            shown,
            [
                r#"{"type":"image_url","image_url":{"url":"x"}}"#,
                r#"{"type":"image","source":{"type":"base64","data":"QQ=="}}"#,
                r#"{"type":"document","source":{}}"#,
            ]
        );
        assert_eq!(found.iter().map(|block| block.is_image).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(blocks(r#"{"input":"image"}"#), []);
        assert_eq!(blocks("no object"), []);
        assert_eq!(words(Dialect::Responses, "a \"b\""), r#"{"type":"input_text","text":"a \"b\""}"#);
    }
}
