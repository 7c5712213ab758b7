//! What an answer took in all, where something was done for it: the field `x_longhaul` beside its usage.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::HeaderMap;
use longhaul_core::error::ErrorCode;
use longhaul_core::usage::Usage;
use longhaul_providers::ProviderError;
use serde_json::json;

use super::prepare::OutboundRequest;
use super::{PreparationReport, UpstreamAttempt};
use crate::headers;
use longhaul_wire::edit::{Dialect, PartialResponse};
use longhaul_wire::raw_json::{elements, field, fields, string, with_field};
use longhaul_wire::sse::{SseEvent, SseReader};

/// The field's name.
const FIELD: &str = "x_longhaul";

/// Why an answer ended with `length` although it was gone on with.
const MAX_COMPACTIONS: &str = "max-compactions";

/// What was asked of the upstream for one answer.
#[derive(Debug, Default)]
pub(super) struct UsageTotals(Mutex<SpentTokens>);

/// What a call has cost, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartialUsage {
    pub(super) input: u64,
    pub(super) output: u64,
    /// Whether any of it is our count and not the server's.
    pub(super) is_estimated: bool,
}

impl PartialUsage {
    /// A call that has read so many tokens by our count, and of which no more is known.
    pub(super) fn input(input: u64) -> Self {
        Self { input, output: 0, is_estimated: true }
    }
}

#[derive(Clone, Debug, Default)]
struct SpentTokens {
    /// What the newest call has reported, where the caller's dialect has no place for that.
    told: Option<Usage>,
    /// What the newest call has had by our count, input and output, where it has reported nothing.
    estimated_usage: Option<(u64, u64)>,
    calls: u64,
    input: u64,
    output: u64,
    /// Some of it is our count: a server told nothing before its stream was left.
    is_estimated: bool,
    restarts: u64,
    /// Steps of the model's in which something was looked up for it.
    recalls: u64,
    /// Whether what came after a restart is only about what would have come.
    is_approximate: bool,
    /// Whether the answer went on to the real end of the window.
    is_spent: bool,
}

/// The cost of all calls for one answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AnswerCost {
    /// Calls, those for summaries too.
    pub(super) calls: u64,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    /// Whether some of the tokens are our count.
    pub(super) is_estimated: bool,
    /// The number of times that the answer was stopped to make room.
    pub(super) restarts: u64,
}

impl UsageTotals {
    /// Returns what the answer has cost so far.
    pub(super) fn cost(&self) -> AnswerCost {
        let spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        AnswerCost {
            calls: spent.calls,
            input_tokens: spent.input,
            output_tokens: spent.output,
            is_estimated: spent.is_estimated,
            restarts: spent.restarts,
        }
    }

    /// A call that was answered, a summary too. `counted`: what it had by our count, for a server that reports nothing.
    pub(super) fn add(&self, usage: Option<&Usage>, counted: impl FnOnce() -> PartialUsage) {
        let told = |usage: &Usage| PartialUsage {
            input: usage.input_tokens,
            output: usage.output_tokens,
            is_estimated: false,
        };
        let reckoned = self.0.lock().unwrap_or_else(PoisonError::into_inner).estimated_usage.take();
        let counted = || match reckoned {
            Some((input, output)) => PartialUsage { input, output, is_estimated: true },
            None => counted(),
        };
        let reported = usage.filter(|usage| usage.total_tokens() > 0);
        self.partial(reported.map_or_else(counted, told));
    }

    /// A call that was refused: nothing is billed for it.
    pub(super) fn refused(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).calls += 1;
    }

    /// A call that was not waited for to its end, or broke off: it has read so many tokens by our count.
    pub(super) fn unanswered(&self, input: u64) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spent.calls += 1;
        spent.input += input;
        spent.is_estimated = true;
    }

    /// Returns whether anything was asked of the upstream yet.
    pub(super) fn has_calls(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).calls > 0
    }

    /// A call in another dialect has begun, or has reported what it had.
    pub(super) fn set_reported_usage(&self, usage: Option<Usage>) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (spent.told, spent.estimated_usage) = (usage, None);
    }

    /// A call in another dialect has ended and has not reported what it had: by our count that was so much.
    pub(super) fn set_estimated_usage(&self, input: u64, output: u64) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (spent.told, spent.estimated_usage) = (None, Some((input, output)));
    }

    /// What the newest call in another dialect has reported.
    pub(super) fn told(&self) -> Option<Usage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).told.clone()
    }

    /// A stream that was left, to be gone on with in another.
    pub(super) fn restarted(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).restarts += 1;
    }

    /// A call that has cost so much: a stream, too, that did not come to its end.
    pub(super) fn partial(&self, PartialUsage { input, output, is_estimated }: PartialUsage) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spent.calls += 1;
        spent.input += input;
        spent.output += output;
        spent.is_estimated |= is_estimated;
    }

    /// A call in another dialect that failed; it was to read so many tokens by our count.
    pub(super) fn failed(&self, error: &ProviderError, input: u64) {
        match &error.usage {
            Some(usage) => self.add(Some(usage), || PartialUsage { input, output: 0, is_estimated: true }),
            None if matches!(error.code, ErrorCode::Timeout | ErrorCode::TruncatedStream) => {
                self.unanswered(input);
            }
            // Who could not be reached was not asked.
            None if error.status.is_some() => self.refused(),
            None => {}
        }
    }

    /// What was asked of the upstream beside the requests before.
    pub(super) fn absorb(&self, other: &Self) {
        let SpentTokens { calls, input, output, is_estimated, .. } =
            other.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spent.calls += calls;
        spent.input += input;
        spent.output += output;
        spent.is_estimated |= is_estimated;
    }

    /// Another upstream, or another dialect, is tried for the same answer: what was paid so far stays in the sums.
    pub(super) fn try_elsewhere(&self) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let SpentTokens { calls, input, output, is_estimated, .. } = std::mem::take(&mut *spent);
        if input + output > 0 {
            *spent = SpentTokens { calls, input, output, is_estimated, ..SpentTokens::default() };
        }
    }

    /// Something was looked up for a step of the model's.
    pub(super) fn recalled(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).recalls += 1;
    }

    /// The model was only asked to go on.
    pub(super) fn approximate(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_approximate = true;
    }

    /// The answer ends at the real end of the window, because no more room could be made.
    pub(super) fn mark_window_exhausted(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_spent = true;
    }

    /// What an answer that is sent as a whole says in its headers.
    pub(super) fn describe(&self, headers: &mut HeaderMap) {
        let spent = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
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
        if spent.recalls > 0 {
            headers::say(headers, "x-longhaul-recalls", &spent.recalls.to_string());
        }
    }

    /// The field; `None` if nothing was done.
    fn field(&self, report: &PreparationReport) -> Option<String> {
        let spent = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // A summary may have been tried again in vain.
        let is_more = spent.restarts + spent.recalls > 0 || spent.calls > 1;
        (report.has_acted() || is_more).then(|| {
            let mut field = json!({
                "action": report.action.as_str(),
                "tokens_before": report.before,
                "tokens_after": report.after,
                "restarts": spent.restarts,
                "calls": spent.calls,
                "billed": { "input_tokens": spent.input, "output_tokens": spent.output, "estimated": spent.is_estimated },
            });
            if spent.recalls > 0 {
                field["recalls"] = spent.recalls.into();
            }
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
    pub(super) fn beside(&self, report: &PreparationReport, body: Bytes) -> Bytes {
        let added =
            self.field(report).and_then(|total| with_field(std::str::from_utf8(&body).ok()?, FIELD, &total));
        added.map_or(body, Bytes::from)
    }

    /// The end of a stream with the field, in the event that has the usage; in Chat Completions without usage in the
    /// one that has the finish reason.
    pub(super) fn at_end(&self, report: &PreparationReport, dialect: Dialect, end: Vec<u8>) -> Vec<u8> {
        let Some(total) = self.field(report) else { return end };
        let mut events = SseReader::default();
        events.feed(end.clone().into());
        let mut raw: Vec<Bytes> = std::iter::from_fn(|| events.next_event()).collect();
        let rest = events.take_rest();
        let added = |raw: &Bytes| {
            let event = SseEvent::parse(raw);
            let data = with_total(dialect, &event.data, &total)?;
            let text = std::str::from_utf8(raw).ok()?;
            Some(Bytes::from(text.replacen(&*event.data, &data, 1)))
        };
        let found = raw.iter().enumerate().rev().find_map(|(at, raw)| Some((at, added(raw)?)));
        let Some((at, event)) = found else { return end };
        raw[at] = event;
        let mut whole: Vec<u8> = raw.concat();
        whole.extend_from_slice(&rest);
        whole
    }
}

impl UpstreamAttempt {
    /// What a call had by our count, of which this was seen. `left`: tokens of it that other calls have written.
    pub(super) fn counted(
        &self,
        prepared: &OutboundRequest,
        seen: &PartialResponse,
        left: u64,
    ) -> PartialUsage {
        let counter = (self.exchange.inner.parts.counter)(&self.target.origin());
        let calls = seen.calls.iter().flat_map(|call| [&call.name, &call.arguments]);
        let said = [&seen.text, &seen.reasoning].into_iter().chain(calls);
        let written: u64 = said.map(|text| counter.text(text)).sum();
        PartialUsage { input: prepared.input, output: written.saturating_sub(left), is_estimated: true }
    }
}

/// The event's data with the field; `None` if it is not the one that has it.
fn with_total(dialect: Dialect, data: &str, total: &str) -> Option<String> {
    let all = fields(data)?;
    let kind = field(&all, "type").and_then(string);
    match (dialect, kind.as_deref()) {
        (Dialect::Chat, _) => {
            let ends = |choices: &str| {
                let choices = elements(choices).unwrap_or_default().into_iter().filter_map(fields);
                choices.into_iter().any(|said| field(&said, "finish_reason").and_then(string).is_some())
            };
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
    use super::super::PreparationAction;
    use super::*;

    fn ended(dialect: Dialect, action: PreparationAction, end: &str) -> String {
        let totals = UsageTotals::default();
        totals.partial(PartialUsage { input: 7, output: 2, is_estimated: false });
        let report = PreparationReport { action, before: 90, after: 40, why: String::new() };
        String::from_utf8(totals.at_end(&report, dialect, end.as_bytes().to_vec())).unwrap()
    }

    #[test]
    fn the_event_with_the_usage_has_it() {
        let total = r#""x_longhaul":{"action":"compacted","tokens_before":90,"tokens_after":40,"restarts":0,"calls":1,"billed":{"input_tokens":7,"output_tokens":2,"estimated":false}}"#;
        let chat =
            "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\ndata: {\"usage\":{}}\n\ndata: [DONE]\n\n";
        let expected = chat.replace("{\"usage\":{}}", &format!("{{\"usage\":{{}},{total}}}"));
        assert_eq!(ended(Dialect::Chat, PreparationAction::Compacted, chat), expected);
        let bare = "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        assert!(
            ended(Dialect::Chat, PreparationAction::Compacted, bare)
                .starts_with(&format!("data: {{\"choices\":[{{\"finish_reason\":\"stop\"}}],{total}}}\n\n"))
        );
        let messages = "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
        assert!(
            ended(Dialect::Messages, PreparationAction::Compacted, messages)
                .contains(&format!("\"usage\":{{}},{total}}}\n\nevent: message_stop"))
        );
        let responses = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{}}}\n\n";
        assert!(
            ended(Dialect::Responses, PreparationAction::Compacted, responses)
                .contains(&format!("{{\"usage\":{{}},{total}}}}}\n\n"))
        );
        for same in [chat, messages, responses] {
            assert_eq!(ended(Dialect::Chat, PreparationAction::None, same), same, "nothing was done");
            assert_eq!(ended(Dialect::Chat, PreparationAction::Remembered, same), same);
        }
    }

    #[test]
    fn what_was_paid_elsewhere_stays_and_what_was_free_goes() {
        let totals = UsageTotals::default();
        totals.refused();
        totals.recalled();
        totals.try_elsewhere();
        assert!(!totals.has_calls(), "nothing was paid");
        totals.unanswered(40);
        totals.partial(PartialUsage { input: 50, output: 5, is_estimated: false });
        totals.restarted();
        totals.recalled();
        totals.try_elsewhere();
        totals.partial(PartialUsage { input: 7, output: 2, is_estimated: false });
        let field: serde_json::Value =
            serde_json::from_str(&totals.field(&PreparationReport::default()).unwrap()).unwrap();
        assert_eq!(field["calls"], 3);
        assert_eq!(field["billed"], json!({ "input_tokens": 97, "output_tokens": 7, "estimated": true }));
        assert_eq!((&field["restarts"], field.get("recalls")), (&json!(0), None), "of another answer");
    }

    #[test]
    fn a_whole_answer_has_it_too() {
        let totals = UsageTotals::default();
        totals.partial(PartialUsage { input: 50, output: 5, is_estimated: true });
        totals.restarted();
        let body = totals.beside(&PreparationReport::default(), Bytes::from_static(b"{\"id\":1}"));
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (&body["x_longhaul"]["restarts"], &body["x_longhaul"]["billed"]["estimated"]),
            (&json!(1), &json!(true))
        );
        let untouched = UsageTotals::default()
            .beside(&PreparationReport::default(), Bytes::from_static(b"{ \"id\": 1 }"));
        assert_eq!(&untouched[..], b"{ \"id\": 1 }");
    }
}
