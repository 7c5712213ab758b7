//! The total usage of an answer, reported as the field `x_longhaul` beside the usage if the gateway acted on the
//! request.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::HeaderMap;
use longhaul_core::error::ErrorCode;
use longhaul_core::usage::Usage;
use longhaul_providers::ProviderError;
use serde_json::json;

use super::{PreparationReport, context_management};
use crate::headers;
use longhaul_wire::added_fields::{self, AddedField, TOTALS};
use longhaul_wire::edit::Dialect;

/// The code for an answer that ended with `length` although it had been continued.
const MAX_COMPACTIONS: &str = "max-compactions";

/// The usage of all calls to the upstream for one answer.
#[derive(Debug, Default)]
pub(super) struct UsageTotals(Mutex<SpentTokens>);

/// The usage of one call, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartialUsage {
    pub(super) input: u64,
    pub(super) output: u64,
    /// Set if any figure is the gateway's count instead of the server's.
    pub(super) is_estimated: bool,
}

impl PartialUsage {
    /// Returns the usage of a call whose input was counted by the gateway and whose output is unknown.
    pub(super) fn input(input: u64) -> Self {
        Self { input, output: 0, is_estimated: true }
    }

    /// Returns the usage of a call as the server has reported it.
    pub(super) fn reported(usage: &Usage) -> Self {
        Self { input: usage.input_tokens, output: usage.output_tokens, is_estimated: false }
    }
}

#[derive(Clone, Debug, Default)]
struct SpentTokens {
    /// The newest call's report, if the caller's dialect has no place for usage.
    told: Option<Usage>,
    /// The newest call's input and output by the gateway's count, if the server reported nothing.
    estimated_usage: Option<(u64, u64)>,
    calls: u64,
    input: u64,
    output: u64,
    /// Set if part of the sums is the gateway's count, because a server had reported nothing when its stream was left.
    is_estimated: bool,
    restarts: u64,
    /// The number of steps in which something was looked up for the model.
    recalls: u64,
    /// Set if the text after a restart is only an approximate continuation.
    is_approximate: bool,
    /// Set if the answer ran to the real end of the window.
    is_spent: bool,
}

/// The cost of all calls for one answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AnswerCost {
    /// The number of calls, including calls for summaries.
    pub(super) calls: u64,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    /// Set if some of the tokens are the gateway's count.
    pub(super) is_estimated: bool,
    /// The number of stops to make room.
    pub(super) restarts: u64,
}

impl UsageTotals {
    /// Returns the cost of the answer so far.
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

    /// Adds an answered call, including a call for a summary. `counted` supplies the gateway's count if the server
    /// reports nothing.
    pub(super) fn add(&self, usage: Option<&Usage>, counted: impl FnOnce() -> PartialUsage) {
        // A translated call without a report was counted when its answer ended.
        let estimated = self.0.lock().unwrap_or_else(PoisonError::into_inner).estimated_usage.take();
        // Some servers report zeros instead of nothing.
        let reported = usage.filter(|usage| usage.total_tokens() > 0);
        self.partial(match (reported, estimated) {
            (Some(usage), _) => PartialUsage::reported(usage),
            (None, Some((input, output))) => PartialUsage { input, output, is_estimated: true },
            (None, None) => counted(),
        });
    }

    /// Adds a refused, unbilled call.
    pub(super) fn refused(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).calls += 1;
    }

    /// Adds an abandoned or broken call, with the input by the gateway's count.
    pub(super) fn unanswered(&self, input: u64) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spent.calls += 1;
        spent.input += input;
        // The server may have charged for it, but has not reported how much.
        spent.is_estimated = true;
    }

    /// Returns whether the upstream was called yet.
    pub(super) fn has_calls(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).calls > 0
    }

    /// Records the report of a call in another dialect; `None` when the call begins.
    pub(super) fn set_reported_usage(&self, usage: Option<Usage>) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A report replaces the estimate, or one call would be counted twice.
        (spent.told, spent.estimated_usage) = (usage, None);
    }

    /// Records the gateway's count for a call in another dialect that ended without a report.
    pub(super) fn set_estimated_usage(&self, input: u64, output: u64) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (spent.told, spent.estimated_usage) = (None, Some((input, output)));
    }

    /// Returns the report of the newest call in another dialect.
    pub(super) fn told(&self) -> Option<Usage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).told.clone()
    }

    /// Counts a stream left and continued in another.
    pub(super) fn restarted(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).restarts += 1;
    }

    /// Adds a call with this cost, for example a stream that was left before its end.
    pub(super) fn partial(&self, PartialUsage { input, output, is_estimated }: PartialUsage) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spent.calls += 1;
        spent.input += input;
        spent.output += output;
        spent.is_estimated |= is_estimated;
    }

    /// Adds a failed call in another dialect. `input` is the gateway's count.
    pub(super) fn failed(&self, error: &ProviderError, input: u64) {
        match &error.usage {
            Some(usage) => self.add(Some(usage), || PartialUsage { input, output: 0, is_estimated: true }),
            // The server may have worked until the break, so the input counts as billed.
            None if matches!(error.code, ErrorCode::Timeout | ErrorCode::TruncatedStream) => {
                self.unanswered(input);
            }
            // Without a status the server was never reached, so nothing was billed.
            None if error.status.is_some() => self.refused(),
            None => {}
        }
    }

    /// Adds the usage of another set of calls, such as a background summary.
    pub(super) fn absorb(&self, other: &Self) {
        let SpentTokens { calls, input, output, is_estimated, .. } =
            // Copied first: two locks at once could wait for each other.
            other.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spent.calls += calls;
        spent.input += input;
        spent.output += output;
        spent.is_estimated |= is_estimated;
    }

    /// Prepares for another upstream or dialect for the same answer. The cost so far stays in the sums; all other state
    /// is reset.
    pub(super) fn try_elsewhere(&self) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let SpentTokens { calls, input, output, is_estimated, .. } = std::mem::take(&mut *spent);
        // An upstream that was never reached costs nothing and should not appear in the report.
        if input + output > 0 {
            *spent = SpentTokens { calls, input, output, is_estimated, ..SpentTokens::default() };
        }
    }

    /// Counts a lookup for the model.
    pub(super) fn recalled(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).recalls += 1;
    }

    /// Marks the answer as an approximate continuation.
    pub(super) fn approximate(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_approximate = true;
    }

    /// Marks the answer as ended by the window, because no more room could be made.
    pub(super) fn mark_window_exhausted(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_spent = true;
    }

    /// Adds the totals to the headers of a complete answer.
    pub(super) fn describe(&self, headers: &mut HeaderMap) {
        let spent = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // With one call the answer's own usage says everything.
        if spent.calls > 1 {
            headers::set_header(headers, "x-longhaul-calls", &spent.calls.to_string());
            headers::set_header(
                headers,
                "x-longhaul-billed",
                &format!("input={} output={}", spent.input, spent.output),
            );
        }
        if spent.restarts > 0 {
            headers::set_header(headers, "x-longhaul-restarts", &spent.restarts.to_string());
        }
        if spent.recalls > 0 {
            headers::set_header(headers, "x-longhaul-recalls", &spent.recalls.to_string());
        }
    }

    /// Returns the value of the field; `None` if the gateway did nothing.
    fn field(&self, report: &PreparationReport) -> Option<String> {
        let spent = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // More than one call without a compaction means that a summary failed and was tried again.
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

    /// Returns the gateway's fields for an answer, with values.
    fn added_fields(&self, report: &PreparationReport) -> Vec<AddedField> {
        let total = self.field(report).map(|total| (TOTALS, total));
        let edits = report.applied_edits.clone().map(|edits| (context_management::FIELD, edits));
        total.into_iter().chain(edits).collect()
    }

    /// Returns a complete answer with the fields added.
    pub(super) fn beside(&self, report: &PreparationReport, body: Bytes) -> Bytes {
        let added = self.added_fields(report);
        added_fields::add_to_answer(body, &added)
    }

    /// Returns the end of a stream with the fields in the event that has the usage. A Chat Completions stream without
    /// usage gets the fields in the event with the finish reason.
    pub(super) fn at_end(&self, report: &PreparationReport, dialect: Dialect, end: Vec<u8>) -> Vec<u8> {
        added_fields::add_to_stream_end(dialect, end, &self.added_fields(report))
    }
}

#[cfg(test)]
mod tests {
    use super::super::PreparationAction;
    use super::*;

    fn ended(dialect: Dialect, action: PreparationAction, end: &str) -> String {
        let totals = UsageTotals::default();
        totals.partial(PartialUsage { input: 7, output: 2, is_estimated: false });
        let report = PreparationReport { action, before: 90, after: 40, ..PreparationReport::default() };
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
