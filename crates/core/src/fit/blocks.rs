//! The content of a message in JSON: a text, or an array of blocks. Both formats have this form with their own blocks.

use serde_json::{Value, json};

use crate::message::{BlobRef, MediaPart, OpaquePart, Part, RawJson};

/// Returns the parts of a content; `read_block` reads a block of an array.
pub(super) fn read_content(content: &Value, read_block: fn(&Value) -> Part) -> Vec<Part> {
    match content {
        Value::String(text) => vec![Part::text(text)],
        Value::Array(blocks) => blocks.iter().map(read_block).collect(),
        _ => Vec::new(),
    }
}

/// Returns a content that shows `parts` of `original`. Unchanged blocks keep all their fields.
/// `rewrite` gives the block of a part that was changed; by default only texts have one.
pub(super) fn write_content(
    parts: &[Part],
    original: &Value,
    read_block: fn(&Value) -> Part,
    rewrite: &dyn Fn(&Part) -> Option<Value>,
) -> Value {
    let Value::Array(blocks) = original else {
        return Value::String(parts.iter().filter_map(Part::as_text).collect());
    };
    // Blocks are taken out once found, because equal blocks may differ in the fields that the parts do not have.
    let mut left: Vec<&Value> = blocks.iter().collect();
    let shown =
        parts.iter().filter_map(|part| match left.iter().position(|block| read_block(block) == *part) {
            Some(at) => Some(left.remove(at).clone()),
            None => {
                rewrite(part).or_else(|| part.as_text().map(|text| json!({"type": "text", "text": text})))
            }
        });
    Value::Array(shown.collect())
}

/// Returns the text of a content without the other blocks.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// Returns a string of a JSON object; empty if the string is missing.
pub(super) fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the picture or file of a block. `data` is base64, or an address.
pub(super) fn media(media_type: &str, data: &str) -> MediaPart {
    // Base64 has four characters for three bytes.
    let bytes = (data.len() as u64 * 3).div_ceil(4);
    let blob = BlobRef { hash: blake3::hash(data.as_bytes()).to_hex().to_string(), bytes };
    MediaPart { blob, media_type: media_type.to_owned(), name: None, width: None, height: None }
}

/// Returns a block as bytes, which the planner counts and does not read.
pub(super) fn opaque(block: &Value) -> Part {
    Part::Opaque(OpaquePart { kind: string(&block["type"]), native: RawJson(block.to_string()) })
}
