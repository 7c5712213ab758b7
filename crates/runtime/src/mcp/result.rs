//! The conversion of a server's answer to a call into a tool's output.
//!
//! All texts become one, because only the first piece of an output is cut to the room that is left. Each picture or
//! file is replaced by a line in the text, and follows after the text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::structured;
use crate::tools::{PreservedEnd, ToolOutput, ToolOutputPart};

/// The maximum number of pictures and files of one answer, because each is a file of its own, flushed to disk.
const MAX_ATTACHMENTS: usize = 64;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct McpCallResult<'a> {
    /// The blocks; `null` for none.
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    structured_content: Option<&'a RawValue>,
    is_error: Option<Value>,
    result_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum McpContentBlock {
    Text { text: String },
    Image(McpEncodedMedia),
    Audio(McpEncodedMedia),
    ResourceLink(McpResourceLink),
    Resource { resource: McpEmbeddedResource },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct McpEncodedMedia {
    data: String,
    mime_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct McpResourceLink {
    uri: String,
    name: Option<String>,
    description: Option<String>,
    mime_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct McpEmbeddedResource {
    uri: String,
    mime_type: Option<String>,
    text: Option<String>,
    blob: Option<String>,
}

/// Reads the result of `tools/call`.
///
/// # Errors
/// The text is no such result.
pub(super) fn read(text: &str) -> serde_json::Result<ToolOutput> {
    // A result that is `null` is one without content.
    let written = serde_json::from_str::<Option<McpCallResult<'_>>>(text)?.unwrap_or_default();
    let mut pieces = McpOutputBuilder::default();
    for block in content_blocks(written.content.map_or("null", RawValue::get))? {
        match serde_json::from_str(block) {
            Ok(block) => pieces.add(block),
            // The block is of a later protocol or broken; the model may still understand it.
            Err(_) => pieces.texts.push(bare_text(block)),
        }
    }
    if let Some(structured) = written.structured_content.map(RawValue::get).filter(|it| *it != "null") {
        pieces.add_structured(structured);
    }
    if let Some(kind) = written.result_type.filter(|kind| kind != "complete") {
        pieces.texts.push(format!("[The answer is not complete but `{kind}`, which is not supported.]"));
        // The newer protocol lets a server ask for input instead of answering. This client answers no questions,
        // so the model is told.
        return Ok(pieces.output(true));
    }
    let is_error = written.is_error.is_some_and(|said| said == Value::Bool(true) || said == "true");
    Ok(pieces.output(is_error))
}

/// Returns the blocks of a result's content. Simple servers write one block or a text in place of the list.
///
/// # Errors
/// The content is a number or the like.
fn content_blocks(content: &str) -> serde_json::Result<Vec<&str>> {
    Ok(match content.as_bytes().first() {
        Some(b'{' | b'"') => vec![content],
        _ => {
            let blocks: Option<Vec<&RawValue>> = serde_json::from_str(content)?;
            let blocks = blocks.into_iter().flatten().map(RawValue::get);
            blocks.filter(|block| *block != "null").collect()
        }
    })
}

/// Returns the text of a block that is a bare text, and the JSON of any other block.
fn bare_text(block: &str) -> String {
    serde_json::from_str(block).unwrap_or_else(|_| block.to_owned())
}

#[derive(Default)]
struct McpOutputBuilder {
    texts: Vec<String>,
    media: Vec<ToolOutputPart>,
    /// The hashes of the base64 of `media`, as the server wrote it.
    encoded: Vec<blake3::Hash>,
    /// The number of pictures and files that are left out.
    left_out: usize,
}

impl McpOutputBuilder {
    fn add(&mut self, block: McpContentBlock) {
        match block {
            McpContentBlock::Text { text } => self.texts.push(text),
            McpContentBlock::Image(media) | McpContentBlock::Audio(media) => {
                self.add_media(&media.data, media.mime_type, None)
            }
            McpContentBlock::ResourceLink(link) => self.texts.push(link.render()),
            McpContentBlock::Resource { resource } => self.add_resource(resource),
        }
    }

    fn add_resource(&mut self, resource: McpEmbeddedResource) {
        let McpEmbeddedResource { uri, mime_type, text, blob } = resource;
        if let Some(text) = text {
            self.texts.push(format!("[Resource {uri}]\n{text}"));
        }
        if let Some(blob) = blob {
            let name = uri.rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_owned);
            self.add_media(&blob, mime_type.unwrap_or_else(|| "application/octet-stream".to_owned()), name);
        }
    }

    fn add_media(&mut self, data: &str, media_type: String, name: Option<String>) {
        // The check comes before the decoding, which would cost time for each of thousands of pictures.
        if self.media.len() >= MAX_ATTACHMENTS {
            self.left_out += 1;
            return;
        }
        let Ok(bytes) = STANDARD.decode(data) else {
            return self.texts.push(format!("[Broken {media_type}: it is not base64.]"));
        };
        let shown = name.as_ref().map(|name| format!("{name}, ")).unwrap_or_default();
        self.texts.push(format!(
            "[Attachment {}: {shown}{media_type}, {} bytes]",
            self.media.len() + 1,
            bytes.len()
        ));
        // A hash per picture is enough to recognise the same base64 in the structured content, and keeps no second copy
        // of it.
        self.encoded.push(blake3::hash(data.as_bytes()));
        self.media.push(ToolOutputPart::Media { bytes: Bytes::from(bytes), media_type, name });
    }

    /// Adds structured content. Servers are asked to repeat it as text; if one did, it is not added twice. Pictures in
    /// it are replaced by a reference to the attachment.
    fn add_structured(&mut self, structured: &str) {
        let Ok(mut value) = serde_json::from_str::<Value>(structured) else {
            return self.texts.push(structured.to_owned());
        };
        let has_media = structured::replace_media(&mut value, &self.encoded);
        if structured::is_told(&value, &self.texts, self.media.len()) {
            return;
        }
        self.texts.push(if has_media { value.to_string() } else { structured.to_owned() });
    }

    fn output(mut self, is_error: bool) -> ToolOutput {
        if self.left_out > 0 {
            self.texts.push(format!(
                "[{} of {} attachments are left out: at most {MAX_ATTACHMENTS} are taken from one answer.]",
                self.left_out,
                self.left_out + self.media.len()
            ));
        }
        let mut content = Vec::with_capacity(self.media.len() + 1);
        if !self.texts.is_empty() {
            content.push(ToolOutputPart::Text(self.texts.join("\n")));
        }
        content.extend(self.media);
        ToolOutput { content, is_error, cancelled: false, keep: PreservedEnd::Both, lost_bytes: 0 }
    }
}

impl McpResourceLink {
    fn render(self) -> String {
        let extras = [self.name, self.mime_type, self.description].into_iter().flatten();
        let extras: Vec<String> = extras.filter(|text| !text.is_empty()).collect();
        if extras.is_empty() {
            return format!("[Resource {}]", self.uri);
        }
        format!("[Resource {}: {}]", self.uri, extras.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(output: &ToolOutput) -> Vec<(&[u8], &str, Option<&str>)> {
        let media = output.content.iter().filter_map(|piece| match piece {
            ToolOutputPart::Media { bytes, media_type, name } => {
                Some((&bytes[..], media_type.as_str(), name.as_deref()))
            }
            ToolOutputPart::Text(_) => None,
        });
        media.collect()
    }

    #[test]
    fn texts_become_one_and_media_follow() {
        let output = read(
            r#"{"content":[
                {"type":"text","text":"before","annotations":{"audience":["user"]}},
                {"type":"image","data":"aGVsbG8=","mimeType":"image/png"},
                {"type":"text","text":"after"},
                {"type":"audio","data":"AAA=","mimeType":"audio/wav"},
                {"type":"image","data":"%%","mimeType":"image/gif"}
            ]}"#,
        )
        .unwrap();
        assert_eq!(
            output.as_text(),
            "before\n[Attachment 1: image/png, 5 bytes]\nafter\n[Attachment 2: audio/wav, 2 bytes]\n\
             [Broken image/gif: it is not base64.]"
        );
        assert_eq!(media(&output), [(&b"hello"[..], "image/png", None), (&b"\0\0"[..], "audio/wav", None)]);
        assert!(matches!(output.content[0], ToolOutputPart::Text(_)) && !output.is_error);
    }

    #[test]
    fn resources() {
        let output = read(
            r#"{"content":[
                {"type":"resource","resource":{"uri":"file:///a/b.txt","mimeType":"text/plain","text":"inside"}},
                {"type":"resource","resource":{"uri":"file:///a/b.pdf","mimeType":"application/pdf","blob":"JVBERg=="}},
                {"type":"resource_link","uri":"https://x/y","name":"y","description":"a page"},
                {"type":"resource_link","uri":"https://x/z"},
                {"type":"hologram","beam":1.10}
            ]}"#,
        )
        .unwrap();
        assert_eq!(
            output.as_text(),
            "[Resource file:///a/b.txt]\ninside\n[Attachment 1: b.pdf, application/pdf, 4 bytes]\n\
             [Resource https://x/y: y, a page]\n[Resource https://x/z]\n{\"type\":\"hologram\",\"beam\":1.10}"
        );
        assert_eq!(media(&output), [(&b"%PDF"[..], "application/pdf", Some("b.pdf"))]);
    }

    #[test]
    fn structured_content_is_shown_once_and_byte_for_byte() {
        let structured = r#"{"price": 1.10, "id":12345678901234567890123}"#;
        let alone = read(&format!(r#"{{"structuredContent":{structured}}}"#)).unwrap();
        assert_eq!(alone.as_text(), structured);
        let text = |text: &str| serde_json::to_string(text).unwrap();
        let twice = format!(
            r#"{{"content":[{{"type":"text","text":{}}}],"structuredContent":{{"a":1,"b":[2]}}}}"#,
            text("{\"b\": [2], \"a\": 1}")
        );
        assert_eq!(read(&twice).unwrap().as_text(), "{\"b\": [2], \"a\": 1}");
        let beside = r#"{"content":[{"type":"text","text":"two"}],"structuredContent":{"n":2}}"#;
        assert_eq!(read(beside).unwrap().as_text(), "two\n{\"n\":2}");
        let null = r#"{"content":[{"type":"text","text":"two"}],"structuredContent":null}"#;
        assert_eq!(read(null).unwrap().as_text(), "two");
    }

    #[test]
    fn structured_content_that_repeats_the_content_is_dropped() {
        let picture = "iVBORw0KGgo".repeat(1_000);
        let image = format!(r#"{{"type":"image","data":"{picture}","mimeType":"image/png"}}"#);
        let with = |structured: &str| {
            let text = r#"{"type":"text","text":"Image file: p.png"}"#;
            let output =
                read(&format!(r#"{{"content":[{text},{image}],"structuredContent":{structured}}}"#)).unwrap();
            assert_eq!(output.content.len(), 2, "a text and a picture");
            output.as_text()
        };
        let shown = "Image file: p.png\n[Attachment 1: image/png, 8250 bytes]";
        let twice = format!(r#"{{"fileName":"p.png","content":"{picture}","imageData":"{picture}"}}"#);
        assert_eq!(with(&twice), shown);
        assert_eq!(with(&format!(r#"{{"result":[{{"url":"data:image/png;base64,{picture}"}}]}}"#)), shown);
        let more = with(&format!(r#"{{"width":640,"title":"a cat","imageData":"{picture}"}}"#));
        assert_eq!(
            more,
            format!("{shown}\n{{\"width\":640,\"title\":\"a cat\",\"imageData\":\"[Attachment 1]\"}}")
        );
    }

    #[test]
    fn structured_content_that_wraps_the_texts_is_dropped() {
        let read = |content: &[&str], structured: &str| {
            let texts: Vec<Value> =
                content.iter().map(|text| serde_json::json!({ "type": "text", "text": text })).collect();
            let texts = serde_json::json!(texts);
            super::read(&format!(r#"{{"content":{texts},"structuredContent":{structured}}}"#))
                .unwrap()
                .as_text()
        };
        assert_eq!(read(&["two\nlines"], r#"{"result":"two\nlines"}"#), "two\nlines");
        let items = [r#"{"name":"a \"b\"","n":1}"#, r#"{"name":"c","n":2}"#];
        let structured = r#"{"result":[{"name":"a \"b\"","n":1},{"name":"c","n":2}]}"#;
        assert_eq!(read(&items, structured), items.join("\n"));
        assert_eq!(
            read(&["Found a.rs, 3 lines"], r#"{"file":"a.rs","lines":3,"more":null}"#),
            "Found a.rs, 3 lines"
        );
        let beside = r#"{"file":"b.rs","lines":3}"#;
        assert_eq!(read(&["Found a.rs, 3 lines"], beside), format!("Found a.rs, 3 lines\n{beside}"));
        assert_eq!(read(&["12 found"], r#"{"a":1,"b":2}"#), "12 found\n{\"a\":1,\"b\":2}");
    }

    #[test]
    fn of_thousands_of_pictures_a_few_are_taken_and_the_rest_is_counted() {
        let picture = r#"{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}"#;
        let file = r#"{"type":"resource","resource":{"uri":"x/y","blob":"aGVsbG8="}}"#;
        let blocks = [[picture; 2_000].join(","), [file; 1_000].join(",")].join(",");
        let output = read(&format!(r#"{{"content":[{blocks}]}}"#)).unwrap();
        assert_eq!(media(&output).len(), MAX_ATTACHMENTS);
        let last = "[2936 of 3000 attachments are left out: at most 64 are taken from one answer.]";
        assert!(output.as_text().ends_with(last), "{}", output.as_text());
        let all = read(&format!(r#"{{"content":[{}]}}"#, [picture; MAX_ATTACHMENTS].join(","))).unwrap();
        assert!(media(&all).len() == MAX_ATTACHMENTS && !all.as_text().contains("left out"));
    }

    #[test]
    fn errors_and_what_is_no_result() {
        assert!(read(r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#).unwrap().is_error);
        assert!(read(r#"{"content":[],"resultType":"complete"}"#).unwrap().content.is_empty());
        let asks = read(r#"{"resultType":"input_required","inputRequests":{}}"#).unwrap();
        assert!(asks.is_error && asks.as_text().contains("input_required"), "{asks:?}");
        assert!(read("[]").is_err());
        for empty in ["null", "{}", r#"{"content":null}"#, r#"{"content":[null],"isError":null}"#] {
            let output = read(empty).unwrap();
            assert!(output.content.is_empty() && !output.is_error, "{empty}");
        }
        for text in [
            r#"{"content":"plain"}"#,
            r#"{"content":["plain"]}"#,
            r#"{"content":{"type":"text","text":"plain"}}"#,
        ] {
            assert_eq!(read(text).unwrap().as_text(), "plain", "{text}");
        }
        assert!(read(r#"{"content":[],"isError":"true"}"#).unwrap().is_error);
    }

    proptest::proptest! {
        #[test]
        fn no_answer_makes_it_panic(text in "\\PC{0,200}") {
            let _ = read(&text);
            let _ = read(&format!(r#"{{"content":[{text}]}}"#));
        }
    }
}
