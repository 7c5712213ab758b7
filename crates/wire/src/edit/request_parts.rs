//! The parts of a request that a server may refuse, with their places: pictures, files, reasoning, tool results,
//! tools.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

use super::Dialect;
use super::patch::RequestPatch;
use crate::gemini::NO_SIGNATURE;
use crate::raw_json::{elements, field, fields, place, quote, string, text_field};

/// The depth to which a list of items is searched: an item, its content, a result, its content.
const MAX_DEPTH: usize = 12;

/// The kind of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPartKind {
    /// A picture.
    Image,
    /// A file.
    File,
    /// Reasoning of a model: a block, an item, or a field of a message.
    Reasoning,
    /// The signature of Google's models on a call or a text.
    Signature,
    /// The content of a tool's result.
    ToolResult,
    /// The definition of a tool.
    Tool,
}

/// A part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestPart {
    /// The range of the part's JSON.
    pub at: Range<usize>,
    /// The kind of the part.
    pub kind: RequestPartKind,
    /// The name of a tool, or of the call that a result answers; empty otherwise.
    pub name: String,
    /// The list that contains the part, and its index there, if the part can be taken out.
    element: Option<(usize, usize)>,
}

/// All parts of a request that can be left out.
#[derive(Debug, Default)]
pub struct RequestParts {
    /// The parts in order.
    pub parts: Vec<RequestPart>,
    /// The places of the elements of each list.
    lists: Vec<Vec<Range<usize>>>,
}

impl RequestParts {
    /// Finds the parts of a request. A request that cannot be read has none.
    pub fn of(request: &str) -> Self {
        let mut found = Self::default();
        let all = fields(request).unwrap_or_default();
        for name in ["messages", "input"] {
            if let Some(items) = field(&all, name) {
                found.gather(items, place(request, items).start, 0);
            }
        }
        if let Some(tools) = field(&all, "tools") {
            found.gather_tools(tools, place(request, tools).start);
        }
        found
    }

    /// Returns the request without some of its parts, and the number of these parts. `note_of` returns the note
    /// for the place of a part, or `None` for a part that stays. Notes replace pictures, files and results;
    /// reasoning and tools are taken out.
    pub fn without(
        &self,
        request: &Bytes,
        dialect: Dialect,
        mut note_of: impl FnMut(&RequestPart) -> Option<String>,
    ) -> (Bytes, usize) {
        let mut patch = RequestPatch::default();
        let mut removed: BTreeMap<usize, Vec<(usize, String)>> = BTreeMap::new();
        let (mut count, mut covered) = (0, 0);
        for part in &self.parts {
            // A part inside a result that is left out has gone with the result.
            if part.at.start < covered {
                continue;
            }
            let Some(note) = note_of(part) else { continue };
            count += 1;
            covered = part.at.end;
            match (part.kind, part.element) {
                (RequestPartKind::Image | RequestPartKind::File, _) => {
                    patch.replace(part.at.clone(), words(dialect, &note))
                }
                (RequestPartKind::ToolResult, _) => patch.replace(part.at.clone(), quote(&note)),
                (_, Some((list, index))) => removed.entry(list).or_default().push((index, note)),
                // Google's models refuse a call without a signature, and take this text for one.
                (RequestPartKind::Signature, _) => patch.replace(part.at.clone(), quote(NO_SIGNATURE)),
                // Reasoning in a field of its message is in no list from which it could be taken.
                (_, None) => patch.replace(part.at.clone(), "null"),
            }
        }
        for (list, indices) in removed {
            // A part that could not be taken out was counted above.
            count -= self.take_out(list, &indices, dialect, &mut patch);
        }
        (patch.apply(request), count)
    }

    /// Takes elements out of a list. An empty list of content gets a note; a list of tools is never emptied.
    /// Returns the number of remaining elements.
    fn take_out(
        &self,
        list: usize,
        removed: &[(usize, String)],
        dialect: Dialect,
        patch: &mut RequestPatch,
    ) -> usize {
        let Some(all) = self.lists.get(list) else { return removed.len() };
        let is_tool = self
            .parts
            .iter()
            .any(|part| part.kind == RequestPartKind::Tool && part.element.is_some_and(|(of, _)| of == list));
        let last_kept = (0..all.len()).rev().find(|index| !removed.iter().any(|(at, _)| at == index));
        let Some(last_kept) = last_kept else {
            let (Some(first), Some(last)) = (all.first(), all.last()) else { return removed.len() };
            // APIs refuse an empty list of tools, so the last tools stay and the refusal reaches the client.
            if is_tool {
                return removed.len();
            }
            let note = removed.first().map_or("", |(_, note)| note.as_str());
            patch.replace(first.start..last.end, words(dialect, note));
            return 0;
        };
        // Each element goes with the comma behind it; elements behind the last kept one go with the comma before
        // them.
        for (index, _) in removed.iter().filter(|(index, _)| *index < last_kept) {
            patch.replace(all[*index].start..all[*index + 1].start, "");
        }
        if last_kept + 1 < all.len() {
            patch.replace(all[last_kept].end..all[all.len() - 1].end, "");
        }
        0
    }

    fn gather_tools(&mut self, tools: &str, start: usize) {
        let all = elements(tools).unwrap_or_default();
        let list = self.lists.len();
        self.lists.push(ranges(tools, &all, start));
        for (index, tool) in all.iter().enumerate() {
            let of_tool = fields(tool).unwrap_or_default();
            let inner = field(&of_tool, "function").and_then(fields).unwrap_or_default();
            let name = field(&inner, "name").or_else(|| field(&of_tool, "name")).and_then(string);
            let at = start + place(tools, tool).start;
            self.parts.push(RequestPart {
                at: at..at + tool.len(),
                kind: RequestPartKind::Tool,
                name: name.unwrap_or_default(),
                element: Some((list, index)),
            });
        }
    }

    fn gather(&mut self, text: &str, start: usize, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        if !text.starts_with('[') {
            return self.gather_object(text, start, depth, None);
        }
        let all = elements(text).unwrap_or_default();
        let list = self.lists.len();
        self.lists.push(ranges(text, &all, start));
        for (index, element) in all.into_iter().enumerate() {
            let at = start + place(text, element).start;
            if element.starts_with('{') {
                self.gather_object(element, at, depth + 1, Some((list, index)));
            } else {
                self.gather(element, at, depth + 1);
            }
        }
    }

    fn gather_object(&mut self, text: &str, start: usize, depth: usize, element: Option<(usize, usize)>) {
        let all = fields(text).unwrap_or_default();
        let whole = match text_field(&all, "type").unwrap_or_default().as_str() {
            "image" | "image_url" | "input_image" => Some(RequestPartKind::Image),
            "document" | "file" | "input_file" => Some(RequestPartKind::File),
            "thinking" | "redacted_thinking" | "reasoning" => Some(RequestPartKind::Reasoning),
            // Arguments of a call may look like parts, but are the model's own JSON.
            "tool_use" | "server_tool_use" | "function_call" | "custom_tool_call" => {
                return self.gather_signatures(text, start, 0);
            }
            _ => None,
        };
        if let Some(kind) = whole {
            let at = start..start + text.len();
            return self.parts.push(RequestPart { at, kind, name: String::new(), element });
        }
        // In order: Messages, Responses, Chat Completions.
        let results = [("content", "tool_use_id"), ("output", "call_id"), ("content", "tool_call_id")];
        let result = results.iter().find(|(content, call)| {
            field(&all, content).is_some() && field(&all, call).and_then(string).is_some()
        });
        if let Some((content, call)) = result
            && let Some(value) = field(&all, content)
        {
            let kind = RequestPartKind::ToolResult;
            let name = text_field(&all, call).unwrap_or_default();
            self.parts.push(RequestPart { at: shifted_place(text, value, start), kind, name, element: None });
        }
        for (name, value) in &all {
            // Chat Completions servers have three names for reasoning in a message.
            let is_reasoning = matches!(&**name, "reasoning_content" | "reasoning_details" | "reasoning");
            if is_reasoning && *value != "null" {
                let kind = RequestPartKind::Reasoning;
                let at = shifted_place(text, value, start);
                self.parts.push(RequestPart { at, kind, name: String::new(), element: None });
            } else if value.starts_with(['{', '[']) {
                self.gather(value, start + place(text, value).start, depth + 1);
            } else if is_signature(name, value) {
                self.push_signature(shifted_place(text, value, start));
            }
        }
    }

    /// Gathers the signatures of a call: beside its arguments, or in a proxy's field for what is Google's.
    fn gather_signatures(&mut self, call: &str, start: usize, depth: usize) {
        for (name, value) in fields(call).unwrap_or_default() {
            if is_signature(&name, value) {
                self.push_signature(shifted_place(call, value, start));
            } else if depth < 2 && matches!(&*name, "extra_content" | "google" | "provider_metadata") {
                self.gather_signatures(value, start + place(call, value).start, depth + 1);
            }
        }
    }

    fn push_signature(&mut self, at: Range<usize>) {
        let kind = RequestPartKind::Signature;
        self.parts.push(RequestPart { at, kind, name: String::new(), element: None });
    }
}

/// Returns whether a field holds the signature of one of Google's models, and not the text in place of one.
fn is_signature(name: &str, value: &str) -> bool {
    let is_named = matches!(name, "thought_signature" | "thoughtSignature");
    is_named
        && value.starts_with('"')
        && string(value).is_some_and(|text| !text.is_empty() && text != NO_SIGNATURE)
}

fn ranges(list: &str, elements: &[&str], start: usize) -> Vec<Range<usize>> {
    elements.iter().map(|element| shifted_place(list, element, start)).collect()
}

/// Returns the range of `part` in the text that has `whole` at `start`.
fn shifted_place(whole: &str, part: &str, start: usize) -> Range<usize> {
    let at = place(whole, part);
    start + at.start..start + at.end
}

/// Returns a block of text in the place of a picture or a file.
pub fn words(dialect: Dialect, note: &str) -> String {
    let kind = match dialect {
        Dialect::Chat | Dialect::Messages => "text",
        Dialect::Responses => "input_text",
    };
    format!(r#"{{"type":"{kind}","text":{}}}"#, quote(note))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn without(request: &str, dialect: Dialect, gone: &[RequestPartKind]) -> (Value, usize) {
        let bytes = Bytes::copy_from_slice(request.as_bytes());
        let parts = RequestParts::of(request);
        let (left, count) =
            parts.without(&bytes, dialect, |part| gone.contains(&part.kind).then(|| "gone".to_owned()));
        (serde_json::from_slice(&left).expect("it is still JSON"), count)
    }

    #[test]
    fn pictures_and_files_stand_where_they_stand() {
        let request = r#"{ "model":"m", "messages" : [ {"role":"user","content":"image"},
            {"role":"user","content":[{"type":"text","text":"a"}, {"type":"image_url","image_url":{"url":"x"}}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[
                {"type":"image","source":{"type":"base64","data":"QQ=="}},{"type":"document","source":{}}]}]} ] }"#;
        let found = RequestParts::of(request);
        let media = |part: &&RequestPart| matches!(part.kind, RequestPartKind::Image | RequestPartKind::File);
        let media: Vec<&RequestPart> = found.parts.iter().filter(media).collect();
        let shown: Vec<&str> = media.iter().map(|part| &request[part.at.clone()]).collect();
        assert_eq!(
            shown,
            [
                r#"{"type":"image_url","image_url":{"url":"x"}}"#,
                r#"{"type":"image","source":{"type":"base64","data":"QQ=="}}"#,
                r#"{"type":"document","source":{}}"#,
            ]
        );
        assert_eq!(RequestParts::of(r#"{"input":"image"}"#).parts, []);
        assert_eq!(RequestParts::of("no object").parts, []);
        assert_eq!(words(Dialect::Responses, "a \"b\""), r#"{"type":"input_text","text":"a \"b\""}"#);
    }

    #[test]
    fn reasoning_is_taken_out_wherever_it_stands() {
        let thinking = |at: usize| format!(r#"{{"type":"thinking","thinking":"t{at}","signature":"s{at}"}}"#);
        let text = r#"{"type":"text","text":"said"}"#;
        for (blocks, left) in [
            (vec![thinking(1), text.to_owned()], json!([{ "type": "text", "text": "said" }])),
            (
                vec![thinking(1), thinking(2), text.to_owned(), thinking(3)],
                json!([{ "type": "text", "text": "said" }]),
            ),
            (vec![text.to_owned(), thinking(1), thinking(2)], json!([{ "type": "text", "text": "said" }])),
            (vec![thinking(1), thinking(2)], json!([{ "type": "text", "text": "gone" }])),
        ] {
            let content = blocks.join(" ,\n ");
            let request = format!(r#"{{"messages":[{{"role":"assistant","content":[ {content} ]}}]}}"#);
            let (request, _) = without(&request, Dialect::Messages, &[RequestPartKind::Reasoning]);
            assert_eq!(request["messages"][0]["content"], left, "{content}");
        }
        let items = r#"{"input":[{"role":"user","content":"a"},{"type":"reasoning","id":"r","encrypted_content":"x"},{"role":"user","content":"b"}]}"#;
        let (request, count) = without(items, Dialect::Responses, &[RequestPartKind::Reasoning]);
        assert_eq!((request["input"].as_array().unwrap().len(), count), (2, 1));
        let chat = r#"{"messages":[{"role":"assistant","content":"a","reasoning_content":"because"}]}"#;
        let (request, _) = without(chat, Dialect::Chat, &[RequestPartKind::Reasoning]);
        assert_eq!(request["messages"][0]["reasoning_content"], Value::Null);
    }

    #[test]
    fn a_result_gets_a_note_and_what_stands_in_it_goes_with_it() {
        let picture = r#"[{"type":"image","source":{}}]"#;
        for (dialect, request, at) in [
            (
                Dialect::Messages,
                format!(
                    r#"{{"messages":[{{"content":[{{"type":"tool_result","tool_use_id":"t","content":{picture}}}]}}]}}"#
                ),
                "/messages/0/content/0/content",
            ),
            (
                Dialect::Responses,
                format!(
                    r#"{{"input":[{{"type":"function_call_output","call_id":"t","output":{picture}}}]}}"#
                ),
                "/input/0/output",
            ),
            (
                Dialect::Chat,
                format!(r#"{{"messages":[{{"role":"tool","tool_call_id":"t","content":{picture}}}]}}"#),
                "/messages/0/content",
            ),
        ] {
            let found = RequestParts::of(&request);
            assert_eq!(
                (found.parts[0].kind, found.parts[0].name.as_str()),
                (RequestPartKind::ToolResult, "t")
            );
            let (left, count) =
                without(&request, dialect, &[RequestPartKind::ToolResult, RequestPartKind::Image]);
            assert_eq!((left.pointer(at), count), (Some(&json!("gone")), 1), "{dialect:?}");
        }
    }

    #[test]
    fn tools_are_taken_out_by_name_and_never_all_of_them() {
        let tool =
            |name: &str| format!(r#"{{"type":"function","function":{{"name":"{name}","parameters":{{}}}}}}"#);
        let request = format!(r#"{{"tools":[{},{},{}]}}"#, tool("a"), tool("b"), tool("c"));
        let bytes = Bytes::from(request.clone());
        let parts = RequestParts::of(&request);
        for (gone, left) in [("a", 2), ("b", 2), ("c", 2), ("d", 3), ("ab", 1), ("bc", 1), ("abc", 3)] {
            let note = |part: &RequestPart| gone.contains(part.name.as_str()).then(String::new);
            let (request, count) = parts.without(&bytes, Dialect::Chat, note);
            let request: Value = serde_json::from_slice(&request).unwrap();
            assert_eq!(request["tools"].as_array().unwrap().len(), left, "{gone}");
            assert_eq!(count, 3 - left, "{gone}");
        }
        let named = r#"{"tools":[{"name":"of_messages","input_schema":{}}]}"#;
        assert_eq!(RequestParts::of(named).parts[0].name, "of_messages");
    }

    #[test]
    fn the_signature_of_a_call_gives_way_to_googles_placeholder() {
        for (dialect, request, at) in [
            (
                Dialect::Chat,
                r#"{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"sig"}}}]}]}"#,
                "/messages/0/tool_calls/0/extra_content/google/thought_signature",
            ),
            (
                Dialect::Messages,
                r#"{"messages":[{"content":[{"type":"tool_use","id":"c","name":"f","thought_signature":"sig","input":{"thought_signature":"mine"}}]}]}"#,
                "/messages/0/content/0/thought_signature",
            ),
            (
                Dialect::Responses,
                r#"{"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}","extra_content":{"google":{"thought_signature":"sig"}}}]}"#,
                "/input/0/extra_content/google/thought_signature",
            ),
        ] {
            let (left, count) = without(request, dialect, &[RequestPartKind::Signature]);
            assert_eq!((left.pointer(at), count), (Some(&json!(NO_SIGNATURE)), 1), "{dialect:?}");
            assert!(!left.to_string().contains("\"sig\""), "{left}");
            assert_eq!(RequestParts::of(&left.to_string()).parts, [], "the placeholder is no suspect");
        }
    }

    #[test]
    fn the_arguments_of_a_call_are_left_alone() {
        let request = r#"{"messages":[{"content":[{"type":"tool_use","id":"c","input":{"type":"image","reasoning":"x"}}]}]}"#;
        assert_eq!(RequestParts::of(request).parts, []);
    }
}
