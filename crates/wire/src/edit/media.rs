//! Pictures and files in a request, as the planner counts them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use longhaul_core::message::{BlobRef, MediaPart, Part};

use super::canonical::JsonNode;
use crate::raw_json::{elements, fields, string, text_field};

/// Returns content from its base64 text. `None` if the text is no base64.
pub fn encoded(media_type: &str, name: Option<String>, base64: &str) -> Option<Part> {
    let bytes = STANDARD.decode(base64.trim()).ok()?;
    // Only the size is read. The estimate of a picture's tokens depends on it.
    let size = if is_picture(media_type) { imagesize::blob_size(&bytes).ok() } else { None };
    Some(part(MediaPart {
        blob: BlobRef { hash: blake3::hash(&bytes).to_hex().to_string(), bytes: bytes.len() as u64 },
        media_type: media_type.to_owned(),
        name,
        width: size.as_ref().and_then(|size| u32::try_from(size.width).ok()),
        height: size.as_ref().and_then(|size| u32::try_from(size.height).ok()),
    }))
}

/// Returns content that the request names by its address only.
pub fn linked(media_type: &str, name: Option<String>, address: &str) -> Part {
    // The content is not fetched, so the hash is that of the address.
    let blob = BlobRef { hash: blake3::hash(address.as_bytes()).to_hex().to_string(), bytes: 0 };
    part(MediaPart { blob, media_type: media_type.to_owned(), name, width: None, height: None })
}

/// Returns content behind an address. A data URL is content; any other address stays an address. `None` for a
/// data URL that cannot be read.
pub(crate) fn part_from_url(url: &str, media_type: &str, name: Option<String>) -> Option<Part> {
    match url.strip_prefix("data:").map(|rest| rest.split_once(";base64,")) {
        None => Some(linked(media_type, name, url)),
        Some(Some((kind, base64))) => encoded(kind.split(';').next().unwrap_or(media_type), name, base64),
        // A data URL without base64 is percent-encoded text, which is not read here.
        Some(None) => None,
    }
}

/// Returns a list of content in which `text_block` stands for all text. Pictures, files and other blocks stay. `None` if
/// the content has nothing but text.
pub(crate) fn text_beside_media(content: &str, text_block: &str) -> Option<String> {
    let is_text = |block: &&str| {
        string(block).is_some() || fields(block).is_some_and(|block| text_field(&block, "text").is_some())
    };
    let (texts, others): (Vec<&str>, Vec<&str>) = elements(content)?.into_iter().partition(is_text);
    // The place of the first text is that of the question about the pictures.
    let before = elements(content)?.into_iter().take_while(|block| !is_text(block)).count();
    let before = if texts.is_empty() { 0 } else { before };
    let mut blocks = others;
    blocks.insert(before, text_block);
    (blocks.len() > 1).then(|| format!("[{}]", blocks.join(",")))
}

/// The pictures and files of an item, by hash, for a request in another dialect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemMedia {
    /// The bytes of content in base64.
    pub contents: BTreeMap<String, Bytes>,
    /// The addresses (`http`, `https`) of content that the request only links.
    pub links: BTreeMap<String, String>,
}

/// Returns all pictures and files in an item.
pub fn find_media(item: &str) -> ItemMedia {
    let mut found = ItemMedia::default();
    if let Some(node) = JsonNode::parse(item) {
        gather(&node, &mut found);
    }
    found
}

/// The fields that hold addresses: `source` (Messages), `image_url` (the other dialects) and files.
const ADDRESSES: [&str; 3] = ["url", "image_url", "file_url"];

fn gather(node: &JsonNode<'_>, found: &mut ItemMedia) {
    let base64 = match node {
        JsonNode::Text(text) => text.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")),
        JsonNode::List(list) => return list.iter().for_each(|node| gather(node, found)),
        JsonNode::Object(fields) => {
            for (name, node) in fields {
                gather(node, found);
                if let Some(address) = node.as_text().filter(|_| ADDRESSES.contains(&&**name))
                    && (address.starts_with("http://") || address.starts_with("https://"))
                {
                    found.links.insert(named(address.as_bytes()), address.to_owned());
                }
            }
            // Anthropic's `source` has bare base64 in `data`. The other dialects use data URLs.
            let is_source = node.get("type").and_then(JsonNode::as_text) == Some("base64");
            node.get("data").and_then(JsonNode::as_text).filter(|_| is_source).map(|data| ("", data))
        }
        _ => None,
    };
    if let Some(bytes) = base64.and_then(|(_, base64)| STANDARD.decode(base64.trim()).ok()) {
        found.contents.insert(named(&bytes), bytes.into());
    }
}

fn named(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

fn is_picture(media_type: &str) -> bool {
    media_type.starts_with("image/")
}

fn part(media: MediaPart) -> Part {
    if is_picture(&media.media_type) { Part::Image(media) } else { Part::File(media) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_measured() {
        let gif = STANDARD.encode(b"GIF89a\x05\x00\x07\x00\x00\x00\x00;");
        let url = format!("data:image/gif;base64,{gif}");
        for part in [encoded("image/gif", None, &gif), part_from_url(&url, "image/png", None)] {
            let Some(Part::Image(media)) = part else { panic!("{part:?}") };
            assert_eq!((media.width, media.height, media.blob.bytes), (Some(5), Some(7), 14));
            assert_eq!(media.media_type, "image/gif");
        }
        let Some(Part::Image(media)) = encoded("image/gif", None, &gif) else { panic!() };
        for item in [
            format!(r#"{{"content":[{{"source":{{"type":"base64","data":"{gif}"}}}}]}}"#),
            format!(r#"{{"content":[{{"type":"image_url","image_url":{{"url":"{url}"}}}}]}}"#),
            format!(r#"{{"content":[{{"type":"input_image","image_url":"{url}"}},{{"text":"data: no"}}]}}"#),
        ] {
            let contents = find_media(&item).contents;
            assert_eq!(contents.keys().collect::<Vec<_>>(), [&media.blob.hash], "{item}");
            assert_eq!(contents[&media.blob.hash].len(), 14);
        }
        assert_eq!(find_media("{"), ItemMedia::default());
        let item =
            r#"{"content":[{"type":"input_image","image_url":"https://x/y.png"},{"text":"http://no"}]}"#;
        let links = find_media(item).links;
        assert_eq!(links.values().collect::<Vec<_>>(), ["https://x/y.png"]);
        let Some(Part::Image(media)) = part_from_url("https://x/y.png", "image/png", None) else { panic!() };
        assert!(links.contains_key(&media.blob.hash));
        assert_eq!(encoded("image/gif", None, "no base64!"), None);
        assert_eq!(part_from_url("data:image/gif,x", "image/png", None), None);
        assert!(matches!(part_from_url("https://x/y.png", "image/png", None), Some(Part::Image(_))));
        assert!(matches!(linked("application/pdf", None, "file_1"), Part::File(_)));
    }
}
