//! Longhaul's own fields in an answer, beside its usage.

use bytes::Bytes;

use crate::edit::Dialect;
use crate::raw_json::{elements, field, fields, string, with_field};
use crate::sse::{SseEvent, SseReader};

/// The name of the field with everything that an answer took.
pub const TOTALS: &str = "x_longhaul";

/// A field's name, and its value as JSON.
pub type AddedField = (&'static str, String);

/// Returns a whole answer with more fields. An answer that is no JSON object stays as it is.
pub fn add_to_answer(body: Bytes, added: &[AddedField]) -> Bytes {
    if added.is_empty() {
        return body;
    }
    // An answer that is not UTF-8 is the upstream's affair and goes out unchanged.
    let Ok(text) = std::str::from_utf8(&body) else { return body };
    with_fields(text, added).map_or(body.clone(), Bytes::from)
}

/// Returns the end of a stream with the fields in the event that has the usage. A Chat Completions stream without
/// usage gets the fields in the event with the finish reason.
pub fn add_to_stream_end(dialect: Dialect, end: Vec<u8>, added: &[AddedField]) -> Vec<u8> {
    if added.is_empty() {
        return end;
    }
    let mut events = SseReader::default();
    events.feed(end.clone().into());
    let mut raw: Vec<Bytes> = std::iter::from_fn(|| events.next_event()).collect();
    // A last event without its empty line must not be lost.
    let rest = events.take_rest();
    // From the end: usage may occur in several events, and clients read the last one.
    let found =
        raw.iter().enumerate().rev().find_map(|(at, raw)| Some((at, event_with_added(dialect, raw, added)?)));
    // Without such an event the stream stays as the upstream wrote it.
    let Some((at, event)) = found else { return end };
    if let Some(place) = raw.get_mut(at) {
        *place = event;
    }
    let mut whole: Vec<u8> = raw.concat();
    whole.extend_from_slice(&rest);
    whole
}

/// Returns the object with more fields; `None` if `object` is no object.
fn with_fields(object: &str, added: &[AddedField]) -> Option<String> {
    added.iter().try_fold(object.to_owned(), |object, (name, value)| with_field(&object, name, value))
}

/// Returns an event with the fields; `None` if the fields belong to another event.
fn event_with_added(dialect: Dialect, raw: &Bytes, added: &[AddedField]) -> Option<Bytes> {
    let event = SseEvent::parse(raw);
    let data = with_total(dialect, &event.data, added)?;
    // Only the data is replaced, so the event keeps its name, its id and its line breaks.
    let text = std::str::from_utf8(raw).ok()?;
    Some(Bytes::from(text.replacen(&*event.data, &data, 1)))
}

/// Returns the event's data with the fields; `None` if the fields belong to another event.
fn with_total(dialect: Dialect, data: &str, added: &[AddedField]) -> Option<String> {
    let all = fields(data)?;
    let kind = field(&all, "type").and_then(string);
    match (dialect, kind.as_deref()) {
        (Dialect::Chat, _) => {
            // With `include_usage` every chunk before the report has `usage: null`.
            let has_usage = field(&all, "usage").is_some_and(|raw| raw != "null");
            (has_usage || field(&all, "choices").is_some_and(has_finished_choice)).then_some(())?;
            with_fields(data, added)
        }
        (Dialect::Messages, Some("message_delta")) => with_fields(data, added),
        (Dialect::Responses, Some("response.completed" | "response.incomplete")) => {
            // The fields belong beside `usage`, which the Responses API nests in the answer.
            let response = with_fields(field(&all, "response")?, added)?;
            with_field(data, "response", &response)
        }
        _ => None,
    }
}

/// Returns whether one of the choices of a chunk has a reason to finish.
fn has_finished_choice(choices: &str) -> bool {
    let mut choices = elements(choices).unwrap_or_default().into_iter().filter_map(fields);
    choices.any(|choice| field(&choice, "finish_reason").and_then(string).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_the_fields_in_its_last_event_with_usage() {
        let added = [(TOTALS, "1".to_owned())];
        let end = b"data: {\"usage\":{}}\n\ndata: {\"usage\":{}}\n\ndata: [DONE]\n\n".to_vec();
        let with = String::from_utf8(add_to_stream_end(Dialect::Chat, end.clone(), &added)).unwrap();
        assert_eq!(with, "data: {\"usage\":{}}\n\ndata: {\"usage\":{},\"x_longhaul\":1}\n\ndata: [DONE]\n\n");
        assert_eq!(
            add_to_stream_end(Dialect::Responses, end.clone(), &added),
            end,
            "no event of this dialect"
        );
        assert_eq!(add_to_stream_end(Dialect::Chat, end.clone(), &[]), end);
    }

    #[test]
    fn a_whole_answer_that_is_no_object_stays() {
        let added = [(TOTALS, "1".to_owned())];
        assert_eq!(add_to_answer(Bytes::from_static(b"{}"), &added), r#"{"x_longhaul":1}"#);
        assert_eq!(add_to_answer(Bytes::from_static(b"[]"), &added), "[]");
    }
}
