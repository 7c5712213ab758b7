//! Faults of single fields of a request, each with a place, a kind and a sentence.
//!
//! Servers that check requests with pydantic report them: FastAPI, and with it vLLM, SGLang, Mistral and many small
//! servers. Some of them send the list as JSON, others as the text that Python prints.

use serde_json::Value;

/// The largest number of faults read from one error.
const MAX_FAULTS: usize = 16;

/// The number of faults in a message for people.
const MAX_DESCRIBED: usize = 3;

/// The depth of nesting to which an error is searched for faults.
const MAX_DEPTH: usize = 6;

/// The fields that hold the place of a fault: pydantic, zod (`path`), ajv, and many handwritten checks.
const PLACES: [&str; 6] = ["loc", "path", "field", "property", "instancePath", "pointer"];

/// The fields that hold the sentence of a fault.
const SENTENCES: [&str; 3] = ["msg", "message", "description"];

/// A fault of one field of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestFieldFault {
    /// The names and numbers on the way to the field. Behind the field's name may stand names of types that were
    /// tried.
    pub(crate) place: Vec<String>,
    /// The kind of the fault, as pydantic names it.
    kind: String,
    /// The sentence for people.
    words: String,
    /// The value of the field that was sent.
    sent: SentValue,
}

/// The value of a field that was sent, as far as the error repeats it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SentValue {
    #[default]
    Unknown,
    Null,
    List,
    Other,
}

/// Returns the faults of an error. `message` is the error's message, and `body` the whole answer.
pub(crate) fn read(message: &str, body: &str) -> Vec<RequestFieldFault> {
    let mut listed = Vec::new();
    if let Ok(fields) = serde_json::from_str::<Value>(body) {
        collect(&fields, 0, &mut listed);
    }
    if !listed.is_empty() {
        return listed;
    }
    // The message may have been put into words already, and the body still has the list in a text.
    printed(if is_printed(message) { message } else { body })
}

/// Adds the faults inside a value, in order.
fn collect(value: &Value, depth: usize, found: &mut Vec<RequestFieldFault>) {
    if depth > MAX_DEPTH || found.len() >= MAX_FAULTS {
        return;
    }
    match value {
        Value::Array(items) => items.iter().take(MAX_FAULTS).for_each(|item| collect(item, depth + 1, found)),
        Value::Object(fields) => match RequestFieldFault::listed(value) {
            Some(fault) => found.push(fault),
            None => fields.values().for_each(|field| collect(field, depth + 1, found)),
        },
        _ => {}
    }
}

/// Returns the first faults in words, each with the field's place.
pub(crate) fn describe(faults: &[RequestFieldFault]) -> String {
    let mut described: Vec<String> = Vec::new();
    for fault in faults {
        let words = match fault.place.as_slice() {
            [] => fault.words.clone(),
            place => format!("{}: {}", place.join("."), fault.words),
        };
        if !described.contains(&words) && described.len() < MAX_DESCRIBED {
            described.push(words);
        }
    }
    described.join("; ")
}

/// Reports whether a text has faults as Python prints them.
pub(crate) fn is_printed(text: &str) -> bool {
    text.contains("'loc': (")
}

impl RequestFieldFault {
    /// Returns a fault of a list in JSON; `None` for an object without a place or a sentence.
    fn listed(fault: &Value) -> Option<Self> {
        let place = PLACES.iter().find_map(|name| place_of(name, fault.get(*name)?))?;
        let sent = match fault.get("input") {
            None => SentValue::Unknown,
            Some(Value::Null) => SentValue::Null,
            Some(Value::Array(_)) => SentValue::List,
            Some(_) => SentValue::Other,
        };
        let text = |key: &str| fault.get(key).and_then(Value::as_str).map(str::to_owned);
        let words = SENTENCES.iter().find_map(|name| text(name))?;
        Some(Self { place: in_body(place), kind: text("type").unwrap_or_default(), words, sent })
    }

    /// Reports whether the fault has exactly these words.
    pub(crate) fn is_worded(&self, words: &str) -> bool {
        self.words == words
    }

    /// Reports whether the fault is that of a field which the server does not know.
    pub(crate) fn is_extra(&self) -> bool {
        matches!(self.kind.as_str(), "extra_forbidden" | "value_error.extra")
    }

    /// Reports whether the field is missing, or null where a text is demanded.
    pub(crate) fn is_missing_text(&self) -> bool {
        let words = self.words.to_lowercase();
        let wants_text = ["valid string", "str type expected", "not an allowed value"]
            .iter()
            .any(|demand| words.contains(demand));
        let is_missing = matches!(self.kind.as_str(), "missing" | "value_error.missing")
            || words.contains("field required");
        is_missing || wants_text && matches!(self.sent, SentValue::Null | SentValue::Unknown)
    }

    /// Reports whether a list was sent where a text is demanded.
    pub(crate) fn is_list_for_text(&self) -> bool {
        self.sent == SentValue::List && self.words.to_lowercase().contains("valid string")
    }

    /// Reports whether the place is a field of a message of the conversation.
    pub(crate) fn is_message_field(&self, name: &str) -> bool {
        let [list, number, field, rest @ ..] = self.place.as_slice() else { return false };
        let is_number = number.parse::<usize>().is_ok();
        // Behind the name only names of types may follow. A number means a place inside the field.
        is_number
            && list == "messages"
            && field == name
            && rest.iter().all(|step| step.parse::<usize>().is_err())
    }

    /// Reports whether the first message's role is none of those that the server names.
    pub(crate) fn is_first_role_besides(&self, role: &str) -> bool {
        let is_first = self.place.get(1).is_some_and(|number| number == "0");
        let names_roles = self.words.contains("'user'");
        is_first && self.is_message_field("role") && names_roles && !self.words.contains(&format!("'{role}'"))
    }
}

/// Returns the steps of a place, given as a list or as a path: `messages.3.content`, `messages[3].content`,
/// `/messages/3/content`.
fn place_of(name: &str, place: &Value) -> Option<Vec<String>> {
    match place {
        Value::Array(steps) => Some(steps.iter().filter_map(step).collect()),
        // Spring and others name the path of the HTTP request so.
        Value::String(path) if name == "path" && path.starts_with('/') => None,
        Value::String(path) => {
            let steps = path.split(['.', '/', '[', ']']).filter(|step| !step.is_empty());
            Some(steps.map(str::to_owned).collect()).filter(|steps: &Vec<String>| !steps.is_empty())
        }
        _ => None,
    }
}

fn step(step: &Value) -> Option<String> {
    match step {
        Value::String(name) => Some(name.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns a place without its first step `body`: FastAPI names the part of the HTTP request there.
fn in_body(mut place: Vec<String>) -> Vec<String> {
    if place.first().is_some_and(|first| first == "body") {
        place.remove(0);
    }
    place
}

/// Returns faults that Python has printed: `[{'type': 'missing', 'loc': ('body', 'messages', 3, 'content'), …}]`.
fn printed(text: &str) -> Vec<RequestFieldFault> {
    if !is_printed(text) {
        return Vec::new();
    }
    let faults = text.split("'type': ").skip(1).filter_map(|fault| {
        let place = fault.split_once("'loc': (")?.1.split_once(')')?.0;
        let steps = place.split(',').map(|step| step.trim().trim_matches(['\'', '"']).to_owned());
        let place = steps.filter(|step| !step.is_empty()).collect();
        let sent = match fault.split_once("'input': ").map(|(_, value)| value) {
            None => SentValue::Unknown,
            Some(value) if value.starts_with("None") => SentValue::Null,
            Some(value) if value.starts_with('[') => SentValue::List,
            Some(_) => SentValue::Other,
        };
        let words = quoted(fault.split_once("'msg': ")?.1)?.to_owned();
        Some(RequestFieldFault { place: in_body(place), kind: quoted(fault)?.to_owned(), words, sent })
    });
    faults.take(MAX_FAULTS).collect()
}

/// Returns the text in the quotation marks at the beginning.
pub(crate) fn quoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    text[1..].split_once(quote).map(|(quoted, _)| quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISSING: &str = r#"{"detail":[{"type":"missing","loc":["body","messages",3,"content"],"msg":"Field required","input":{"role":"assistant"}}]}"#;

    #[test]
    fn a_fault_has_a_place_a_kind_and_words() {
        for (message, body) in [
            ("", MISSING),
            (
                "",
                r#"{"error":{"detail":[{"type":"missing","loc":["messages",3,"content"],"msg":"Field required"}]}}"#,
            ),
            (
                "",
                r#"{"detail":[{"type":"value_error.missing","loc":["body","messages",3,"content"],"msg":"field required"}]}"#,
            ),
            (
                "",
                r#"{"message":[{"type":"missing","loc":["body","messages",3,"content"],"msg":"Field required"}]}"#,
            ),
            ("", r#"{"error":{"type":"missing","loc":"messages.3.content","msg":"Field required"}}"#),
            ("", r#"{"error":{"issues":[{"path":["messages",3,"content"],"message":"Field required"}]}}"#),
            ("", r#"{"detail":{"errors":[{"field":"messages[3].content","message":"Field required"}]}}"#),
            (
                "[{'type': 'missing', 'loc': ('body', 'messages', 3, 'content'), 'msg': 'Field required', 'input': {'role': 'assistant'}}]",
                "",
            ),
        ] {
            let faults = read(message, body);
            let [fault] = faults.as_slice() else { panic!("{message} {body}: {faults:?}") };
            assert_eq!(fault.place, ["messages", "3", "content"], "{message} {body}");
            assert!(fault.is_missing_text() && !fault.is_extra() && fault.is_message_field("content"));
            assert_eq!(describe(&faults).to_lowercase(), "messages.3.content: field required");
        }
    }

    #[test]
    fn a_null_and_a_list_in_the_place_of_a_text_are_told_apart() {
        let sent = |input: &str| {
            let body = format!(
                r#"{{"detail":[{{"type":"string_type","loc":["body","messages",1,"content","str"],"msg":"Input should be a valid string","input":{input}}}]}}"#
            );
            read("", &body).remove(0)
        };
        assert!(sent("null").is_missing_text() && !sent("null").is_list_for_text());
        assert!(sent("[{}]").is_list_for_text() && !sent("[{}]").is_missing_text());
        assert!(!sent("7").is_missing_text() && !sent("7").is_list_for_text());
    }

    #[test]
    fn several_faults_are_described_once_each() {
        let body = r#"{"detail":[
            {"type":"missing","loc":["body","messages",0,"a"],"msg":"x"},
            {"type":"missing","loc":["body","messages",0,"a"],"msg":"x"},
            {"type":"missing","loc":["body"],"msg":"JSON decode error"}]}"#;
        assert_eq!(describe(&read("", body)), "messages.0.a: x; JSON decode error");
    }

    #[test]
    fn other_errors_have_no_faults() {
        for body in [
            "",
            "no JSON",
            r#"{"detail":"Not found"}"#,
            r#"{"error":{"details":[{"reason":"X"}]}}"#,
            r#"{"status":400,"message":"no","path":"/v1/chat/completions"}"#,
            r#"{"error":{"message":"no","param":"temperature"}}"#,
        ] {
            assert_eq!(read("the request is wrong", body), [], "{body}");
        }
    }
}
