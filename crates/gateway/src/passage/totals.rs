//! What an answer took in all, where something was done for it: the field `x_longhaul` beside its usage.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::HeaderMap;
use longhaul_core::usage::Usage;
use serde_json::json;

use super::{Action, Report};
use crate::headers;
use crate::wire::Dialect;
use crate::wire::json::{field, fields, string, with_field};
use crate::wire::sse::{Event, Events};

/// The field's name.
const FIELD: &str = "x_longhaul";

/// Why an answer ended with `length` although it was gone on with.
const MAX_COMPACTIONS: &str = "max-compactions";

/// What was asked of the upstream for one answer.
#[derive(Debug, Default)]
pub(super) struct Totals(Mutex<Spent>);

#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    calls: u64,
    input: u64,
    output: u64,
    /// Streams that were left have told nothing: they are counted here.
    is_estimated: bool,
    restarts: u64,
    /// Whether what came after a restart is only about what would have come.
    is_approximate: bool,
    /// Whether the answer went on to the real end of the window.
    is_spent: bool,
}

impl Totals {
    /// A call that was answered, a summary too.
    pub(super) fn add(&self, usage: Option<&Usage>) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spent.calls += 1;
        match usage {
            Some(usage) => {
                spent.input += usage.input_tokens;
                spent.output += usage.output_tokens;
            }
            None => spent.is_estimated = true,
        }
    }

    /// A stream that was left.
    pub(super) fn left(&self, input: u64, output: u64) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spent.calls += 1;
        spent.restarts += 1;
        spent.input += input;
        spent.output += output;
        spent.is_estimated = true;
    }

    /// The model was only asked to go on.
    pub(super) fn approximate(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_approximate = true;
    }

    /// The answer ends at the real end of the window, because no more room could be made.
    pub(super) fn spent(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_spent = true;
    }

    /// What an answer that is sent as a whole says in its headers.
    pub(super) fn describe(&self, headers: &mut HeaderMap) {
        let spent = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spent.calls > 1 {
            headers::say(headers, "x-longhaul-calls", &spent.calls.to_string());
            headers::say(
                headers,
                "x-longhaul-billed",
                &format!("input={} output={}", spent.input, spent.output),
            );
        }
        if spent.restarts > 0 {
            headers::say(headers, "x-longhaul-restarts", &spent.restarts.to_string());
        }
    }

    /// The field; `None` if nothing was done.
    fn field(&self, report: &Report) -> Option<String> {
        let spent = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let acted = matches!(report.action, Action::Pruned | Action::Compacted);
        (acted || spent.restarts > 0).then(|| {
            let mut field = json!({
                "action": report.action.as_str(),
                "tokens_before": report.before,
                "tokens_after": report.after,
                "restarts": spent.restarts,
                "calls": spent.calls,
                "billed": { "input_tokens": spent.input, "output_tokens": spent.output, "estimated": spent.is_estimated },
            });
            if spent.is_approximate {
                field["approximate"] = true.into();
            }
            if spent.is_spent {
                field["code"] = MAX_COMPACTIONS.into();
            }
            field.to_string()
        })
    }

    /// A whole answer with the field.
    pub(super) fn beside(&self, report: &Report, body: Bytes) -> Bytes {
        let added =
            self.field(report).and_then(|total| with_field(std::str::from_utf8(&body).ok()?, FIELD, &total));
        added.map_or(body, Bytes::from)
    }

    /// The end of a stream with the field, in the event that has the usage; in Chat Completions without usage in the
    /// one that has the finish reason.
    pub(super) fn at_end(&self, report: &Report, dialect: Dialect, end: Vec<u8>) -> Vec<u8> {
        let Some(total) = self.field(report) else { return end };
        let mut events = Events::default();
        events.feed(end.clone().into());
        let mut raw: Vec<Bytes> = std::iter::from_fn(|| events.next_event()).collect();
        let rest = events.rest();
        let added = |raw: &Bytes| {
            let event = Event::parse(raw);
            let data = with_total(dialect, event.data, &total)?;
            let text = std::str::from_utf8(raw).ok()?;
            Some(Bytes::from(text.replacen(event.data, &data, 1)))
        };
        let found = raw.iter().enumerate().rev().find_map(|(at, raw)| Some((at, added(raw)?)));
        let Some((at, event)) = found else { return end };
        raw[at] = event;
        let mut whole: Vec<u8> = raw.concat();
        whole.extend_from_slice(&rest);
        whole
    }
}

/// The event's data with the field; `None` if it is not the one that has it.
fn with_total(dialect: Dialect, data: &str, total: &str) -> Option<String> {
    let all = fields(data)?;
    let kind = field(&all, "type").and_then(string);
    match (dialect, kind.as_deref()) {
        (Dialect::Chat, _) => {
            let ends = |choices: &str| choices.contains("\"finish_reason\":\"");
            let has = |name| field(&all, name).is_some_and(|raw| raw != "null");
            (has("usage") || field(&all, "choices").is_some_and(ends)).then_some(())?;
            with_field(data, FIELD, total)
        }
        (Dialect::Messages, Some("message_delta")) => with_field(data, FIELD, total),
        (Dialect::Responses, Some("response.completed" | "response.incomplete")) => {
            let response = with_field(field(&all, "response")?, FIELD, total)?;
            with_field(data, "response", &response)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(dialect: Dialect, action: Action, end: &str) -> String {
        let totals = Totals::default();
        totals.add(Some(&Usage { input_tokens: 7, output_tokens: 2, ..Usage::default() }));
        let report = Report { action, before: 90, after: 40, why: String::new() };
        String::from_utf8(totals.at_end(&report, dialect, end.as_bytes().to_vec())).unwrap()
    }

    #[test]
    fn the_event_with_the_usage_has_it() {
        let total = r#""x_longhaul":{"action":"compacted","tokens_before":90,"tokens_after":40,"restarts":0,"calls":1,"billed":{"input_tokens":7,"output_tokens":2,"estimated":false}}"#;
        let chat =
            "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\ndata: {\"usage\":{}}\n\ndata: [DONE]\n\n";
        let expected = chat.replace("{\"usage\":{}}", &format!("{{\"usage\":{{}},{total}}}"));
        assert_eq!(ended(Dialect::Chat, Action::Compacted, chat), expected);
        let bare = "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        assert!(
            ended(Dialect::Chat, Action::Compacted, bare)
                .starts_with(&format!("data: {{\"choices\":[{{\"finish_reason\":\"stop\"}}],{total}}}\n\n"))
        );
        let messages = "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
        assert!(
            ended(Dialect::Messages, Action::Compacted, messages)
                .contains(&format!("\"usage\":{{}},{total}}}\n\nevent: message_stop"))
        );
        let responses = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{}}}\n\n";
        assert!(
            ended(Dialect::Responses, Action::Compacted, responses)
                .contains(&format!("{{\"usage\":{{}},{total}}}}}\n\n"))
        );
        for same in [chat, messages, responses] {
            assert_eq!(ended(Dialect::Chat, Action::None, same), same, "nothing was done");
            assert_eq!(ended(Dialect::Chat, Action::Remembered, same), same);
        }
    }

    #[test]
    fn a_whole_answer_has_it_too() {
        let totals = Totals::default();
        totals.left(50, 5);
        let body = totals.beside(&Report::default(), Bytes::from_static(b"{\"id\":1}"));
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (&body["x_longhaul"]["restarts"], &body["x_longhaul"]["billed"]["estimated"]),
            (&json!(1), &json!(true))
        );
        let untouched = Totals::default().beside(&Report::default(), Bytes::from_static(b"{ \"id\": 1 }"));
        assert_eq!(&untouched[..], b"{ \"id\": 1 }");
    }
}
