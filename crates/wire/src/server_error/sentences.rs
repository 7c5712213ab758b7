//! The sentences of an error object of any shape: FastAPI, Django, marshmallow and others put a sentence, or a list of
//! sentences, under the name of each field.

use serde_json::Value;

/// The largest number of sentences, and of characters in all.
const MAX_SENTENCES: usize = 3;
const MAX_CHARS: usize = 300;

/// The largest depth of nesting.
const MAX_DEPTH: usize = 12;

/// Fields whose values are no sentences for people.
const NO_SENTENCES: &[&str] = &[
    "type",
    "code",
    "status",
    "status_code",
    "statusCode",
    "object",
    "param",
    "loc",
    "input",
    "ctx",
    "url",
    "id",
    "request_id",
    "requestId",
    "trace_id",
    "traceId",
    "traceback",
    "stack",
    "timestamp",
    "path",
    "method",
    "instance",
    "documentation_url",
    "@type",
    "provider",
    "provider_name",
    "model",
];

/// Fields that hold sentences and are not what the sentences are about.
const FRAMES: &[&str] = &[
    "error",
    "errors",
    "detail",
    "details",
    "message",
    "msg",
    "description",
    "reason",
    "title",
    "exception",
    "json",
    "body",
    "query",
    "data",
    "metadata",
    "raw",
    "non_field_errors",
    "nonFieldErrors",
    "fields",
    "fieldErrors",
    "field_errors",
    "formErrors",
    "validation_errors",
    "_errors",
    "__all__",
];

/// Returns the first sentences of an error object, each with its field, for example `messages.3.content: may not be
/// blank`. Empty for an object without sentences.
pub(crate) fn sentences(error: &Value) -> String {
    let mut found = Vec::new();
    collect(error, &mut Vec::new(), &mut found);
    let mut words = found.join("; ");
    if let Some((at, _)) = words.char_indices().nth(MAX_CHARS) {
        words.truncate(at);
    }
    words
}

fn collect<'e>(value: &'e Value, place: &mut Vec<&'e str>, found: &mut Vec<String>) {
    if found.len() >= MAX_SENTENCES || place.len() > MAX_DEPTH {
        return;
    }
    match value {
        Value::String(text) if !text.trim().is_empty() => {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let sentence = match place.as_slice() {
                [] => text,
                steps => format!("{}: {text}", steps.join(".")),
            };
            if !found.contains(&sentence) {
                found.push(sentence);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, place, found)),
        Value::Object(fields) => {
            for (name, field) in fields.iter().filter(|(name, _)| !NO_SENTENCES.contains(&name.as_str())) {
                let is_frame = FRAMES.contains(&name.as_str());
                place.extend((!is_frame).then_some(name.as_str()));
                collect(field, place, found);
                place.truncate(place.len() - usize::from(!is_frame));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sentence_is_told_with_its_field() {
        for (error, words) in [
            (
                r#"{"max_tokens":["Ensure this value is less than 8."]}"#,
                "max_tokens: Ensure this value is less than 8.",
            ),
            (
                r#"{"errors":{"messages":{"3":{"content":["May not be\n blank."]}}}}"#,
                "messages.3.content: May not be blank.",
            ),
            (r#"{"non_field_errors":["No."],"code":"x"}"#, "No."),
            (r#"{"a":["1.","2.","3.","4."]}"#, "a: 1.; a: 2.; a: 3."),
            (r#"{"error":{"code":"x","type":"y"}}"#, ""),
            ("{}", ""),
            (r#"["One.","Two.","One."]"#, "One.; Two."),
        ] {
            assert_eq!(sentences(&serde_json::from_str(error).unwrap()), words, "{error}");
        }
        let long = serde_json::json!({ "why": "é".repeat(900) });
        assert_eq!(sentences(&long).chars().count(), MAX_CHARS);
    }
}
