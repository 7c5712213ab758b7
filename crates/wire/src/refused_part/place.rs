//! Places in a request, as errors name them: `messages.3.content.1.image`, `input[2].content[0]`,
//! `contents[1].parts[0]`, or `["body", "messages", 3, "content", 1]`.

use longhaul_core::refusal::RefusedPart;
use serde_json::Value;

use crate::server_error;

/// The fields of a request that hold the parts of a conversation, and those that hold tools.
const ROOTS: [&str; 5] = ["messages", "input", "contents", "tools", "functions"];

/// The largest number of places read from one error, and of steps in one place.
const MAX_PLACES: usize = 8;
const MAX_STEPS: usize = 16;

/// A step from a value to a value inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RequestPathStep {
    Key(String),
    Index(usize),
}

/// A place in a request: a root and the steps from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestPath {
    root: &'static str,
    steps: Vec<RequestPathStep>,
}

/// Returns the places that an error names, in order.
pub(super) fn named_in(error_body: &str) -> Vec<RequestPath> {
    let mut places = Vec::new();
    if let Ok(value) = serde_json::from_str::<Value>(error_body) {
        lists(&value, 0, &mut places);
        // Django nests the steps of a place: `{"messages": {"3": {"content": ["…"]}}}`.
        written(&server_error::sentences(&value), &mut places);
    }
    written(error_body, &mut places);
    // An error may quote the whole request, with very many places in it.
    places.truncate(MAX_PLACES);
    places
}

/// Returns the steps that a list of keys and numbers names. `None` if the list has anything else.
fn listed_steps(items: &[Value]) -> Option<Vec<RequestPathStep>> {
    let steps = items.iter().take(MAX_STEPS).map(|item| match item {
        Value::Number(number) => usize::try_from(number.as_u64()?).ok().map(RequestPathStep::Index),
        Value::String(key) => Some(RequestPathStep::Key(key.clone())),
        _ => None,
    });
    steps.collect()
}

/// Adds places that are given as lists of keys and numbers.
fn lists(value: &Value, depth: usize, places: &mut Vec<RequestPath>) {
    if depth > 8 {
        return;
    }
    match value {
        Value::Array(items) => {
            let root =
                // FastAPI, which vLLM is built on, puts `body` before the field's name.
                items.iter().take(3).enumerate().find_map(|(at, item)| Some((at, root(item.as_str()?)?)));
            match root
                .and_then(|(at, root)| Some(RequestPath { root, steps: listed_steps(&items[at + 1..])? }))
            {
                // A root alone, such as "messages", is a word of prose and no place.
                Some(place) if matches!(place.steps.first(), Some(RequestPathStep::Index(_))) => {
                    places.push(place)
                }
                _ => items.iter().take(64).for_each(|item| lists(item, depth + 1, places)),
            }
        }
        Value::Object(fields) => fields.values().for_each(|field| lists(field, depth + 1, places)),
        _ => {}
    }
}

fn root(word: &str) -> Option<&'static str> {
    ROOTS.into_iter().find(|root| *root == word)
}

/// Adds places that are written with dots or brackets.
fn written(text: &str, places: &mut Vec<RequestPath>) {
    for root in ROOTS {
        for (at, _) in text.match_indices(root).take(MAX_PLACES) {
            let before = text[..at].chars().next_back();
            // `input` inside `max_input_tokens` is no root.
            if before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                continue;
            }
            let steps = steps(&text[at + root.len()..]);
            let place = RequestPath { root, steps };
            if matches!(place.steps.first(), Some(RequestPathStep::Index(_))) && !places.contains(&place) {
                places.push(place);
            }
        }
    }
}

fn steps(mut rest: &str) -> Vec<RequestPathStep> {
    let mut steps = Vec::new();
    while steps.len() < MAX_STEPS {
        let is_bracket = rest.starts_with('[');
        let Some(inner) = rest.strip_prefix(['[', '.']) else { break };
        let end = inner.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-'));
        let word = &inner[..end.unwrap_or(inner.len())];
        if word.is_empty() {
            break;
        }
        steps.push(match word.parse() {
            Ok(index) => RequestPathStep::Index(index),
            Err(_) => RequestPathStep::Key(word.to_owned()),
        });
        rest = &inner[word.len()..];
        rest = if is_bracket { rest.strip_prefix(']').unwrap_or(rest) } else { rest };
    }
    steps
}

/// Returns the reasoning item of a Responses request with this id.
pub(super) fn reasoning_item(id: &str, request: &Value) -> Option<RefusedPart> {
    let input = request.get("input")?;
    let item = input.as_array()?.iter().find(|item| item.get("id").and_then(Value::as_str) == Some(id))?;
    part(item, input).filter(|part| matches!(part, RefusedPart::Reasoning(_)))
}

impl RequestPath {
    /// Returns the signature at this place of the request, or around it.
    pub(super) fn signed_part(&self, request: &Value) -> Option<RefusedPart> {
        let along = self.values(request)?;
        let found = along.iter().skip(1).rev().find_map(|value| signature(value));
        found.filter(|signature| !signature.is_empty()).map(RefusedPart::Reasoning)
    }

    /// Returns the part of the request at this place, if it can be left out.
    pub(super) fn part_of(&self, request: &Value) -> Option<RefusedPart> {
        let along = self.values(request)?;
        let root = *along.first()?;
        if matches!(self.root, "tools" | "functions") {
            return along.iter().rev().find_map(|value| tool(value)).map(RefusedPart::Tool);
        }
        let inside = &along[1..];
        inside.iter().rev().find_map(|value| part(value, root)).or_else(|| {
            // A place above its part: the message's only picture is meant, or its text.
            let message = inside.first()?;
            only_media(message, root).or_else(|| inside.iter().rev().find_map(|value| text(value)))
        })
    }

    /// Returns the values on the way to this place, from the root inwards. A place deep inside a part means the whole
    /// part.
    fn values<'v>(&self, request: &'v Value) -> Option<Vec<&'v Value>> {
        let mut along = vec![request.get(self.root)?];
        for step in &self.steps {
            let last = along[along.len() - 1];
            let next = match step {
                RequestPathStep::Index(index) => last.get(*index),
                RequestPathStep::Key(key) => last.get(key),
            };
            // Some errors put the type of a block in the place of its field's name.
            match next {
                Some(next) => along.push(next),
                None if matches!(step, RequestPathStep::Key(_)) => {}
                None => return None,
            }
        }
        Some(along)
    }
}

/// Returns the thought signature of a part of Gemini's, or of a call in Google's compatible API.
fn signature(value: &Value) -> Option<String> {
    let compatible = value.pointer("/extra_content/google");
    let keys = ["thoughtSignature", "thought_signature"];
    [Some(value), compatible]
        .into_iter()
        .flatten()
        .find_map(|value| keys.iter().find_map(|key| text_of(value, key)))
}

fn tool(value: &Value) -> Option<String> {
    let named = value.get("name").or_else(|| value.get("function")?.get("name"));
    Some(named.or_else(|| only_declared_name(value))?.as_str()?.to_owned())
}

/// Returns the name of Gemini's function declaration, if the tool has exactly one.
fn only_declared_name(tool: &Value) -> Option<&Value> {
    match tool.get("functionDeclarations").or_else(|| tool.get("function_declarations"))? {
        Value::Array(only) if only.len() == 1 => only[0].get("name"),
        _ => None,
    }
}

/// Returns the part, if the value is a part by itself.
fn part(value: &Value, root: &Value) -> Option<RefusedPart> {
    if is_media(value) {
        return nth_media(value, root).map(RefusedPart::Media);
    }
    match value.get("type").and_then(Value::as_str) {
        Some("thinking" | "redacted_thinking" | "reasoning") => {
            let item = text_of(value, "signature")
                .or_else(|| text_of(value, "data"))
                .or_else(|| text_of(value, "encrypted_content"));
            item.or_else(|| text_of(value, "id")).filter(|item| !item.is_empty()).map(RefusedPart::Reasoning)
        }
        Some("tool_result") => text_of(value, "tool_use_id").map(RefusedPart::ToolResult),
        Some("function_call_output") => text_of(value, "call_id").map(RefusedPart::ToolResult),
        Some("text" | "input_text" | "output_text") => text_of(value, "text").map(RefusedPart::Text),
        _ if text_of(value, "role").as_deref() == Some("tool") => {
            text_of(value, "tool_call_id").map(RefusedPart::ToolResult)
        }
        _ => None,
    }
}

fn text_of(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn text(value: &Value) -> Option<RefusedPart> {
    match value {
        Value::String(text) => Some(RefusedPart::Text(text.clone())),
        Value::Object(fields) => match fields.get("content").or_else(|| fields.get("text"))? {
            Value::String(text) => Some(RefusedPart::Text(text.clone())),
            _ => None,
        },
        _ => None,
    }
}

fn only_media(message: &Value, root: &Value) -> Option<RefusedPart> {
    let mut found = Vec::new();
    all_media(message, 0, &mut found);
    match found.as_slice() {
        [only] => nth_media(only, root).map(RefusedPart::Media),
        _ => None,
    }
}

/// Reports whether a value is a picture or a file, on any wire.
fn is_media(value: &Value) -> bool {
    let Value::Object(fields) = value else { return false };
    match fields.get("type").and_then(Value::as_str) {
        Some("image" | "image_url" | "input_image" | "document" | "file" | "input_file") => true,
        Some(_) => false,
        None => {
            ["inlineData", "inline_data", "fileData", "file_data"].iter().any(|key| fields.contains_key(*key))
        }
    }
}

/// Returns the number of a picture or file among those of the request.
fn nth_media(media: &Value, root: &Value) -> Option<usize> {
    let mut found = Vec::new();
    all_media(root, 0, &mut found);
    // One picture may be in the request twice. Only its address in memory tells the copies apart.
    found.iter().position(|other| std::ptr::eq(*other, media))
}

fn all_media<'v>(value: &'v Value, depth: usize, found: &mut Vec<&'v Value>) {
    if depth > 32 {
        return;
    }
    match value {
        _ if is_media(value) => found.push(value),
        Value::Array(items) => items.iter().for_each(|item| all_media(item, depth + 1, found)),
        Value::Object(fields) => fields.values().for_each(|field| all_media(field, depth + 1, found)),
        _ => {}
    }
}
