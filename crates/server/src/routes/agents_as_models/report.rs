//! Report on an agent's answer: the edits of the conversation's view, and the usage of all model calls. The form is the
//! gateway's.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use longhaul::context::ContextReport;
use longhaul_core::event::{EditKind, Event, EventBody, PartialAnswerReason};
use longhaul_core::usage::Usage;
use longhaul_wire::added_fields::{AddedField, TOTALS};
use serde_json::json;

/// The action of a stream whose head went out before anything was known.
pub(super) const WAITING_ACTION: &str = "waiting";

/// The strongest edit of the conversation's view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum ViewAction {
    #[default]
    None,
    Pruned,
    Compacted,
}

impl ViewAction {
    fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pruned => "pruned",
            Self::Compacted => "compacted",
        }
    }
}

/// The edits and the usage of an answer so far, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AgentAnswerReport {
    action: ViewAction,
    /// The size of the conversation before the first edit.
    before: u64,
    /// The size of the conversation after the newest edit.
    after: u64,
    /// The number of stops in the answer's text to make room.
    restarts: u64,
    /// The number of model calls, including calls for summaries.
    calls: u64,
    /// The input of the newest step: the size of a conversation without an edit.
    newest_input: u64,
    input_tokens: u64,
    output_tokens: u64,
    /// Set if part of the sums is our count, because the server reported nothing.
    is_estimated: bool,
}

impl AgentAnswerReport {
    /// Returns the report of a run from its events.
    pub(super) fn of_run<'e>(events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut report = Self::default();
        events.into_iter().for_each(|event| report.add_event(&event.body));
        report
    }

    fn add_event(&mut self, event: &EventBody) {
        match event {
            EventBody::StepFinished { usage, estimated_input, .. } => {
                self.newest_input = usage.as_ref().map_or(*estimated_input, |usage| usage.input_tokens);
                match usage {
                    Some(usage) => self.add_call(usage),
                    None => {
                        self.calls += 1;
                        self.input_tokens += estimated_input;
                        self.is_estimated = true;
                    }
                }
            }
            // A failed call may have been billed.
            EventBody::StepFailed { usage: Some(usage), .. } => self.add_call(usage),
            EventBody::AssistantAdded { cut: Some(PartialAnswerReason::Paused), .. } => self.restarts += 1,
            EventBody::ViewEdited(edit) => {
                self.add_edit(edit.kind, edit.original_tokens, edit.compressed_tokens);
                edit.usage.iter().for_each(|usage| self.add_call(usage));
            }
            _ => {}
        }
    }

    fn add_call(&mut self, usage: &Usage) {
        self.calls += 1;
        self.input_tokens += usage.input_tokens;
        self.output_tokens += usage.output_tokens;
    }

    /// Adds an edit with the sizes of the conversation before and after, in tokens.
    pub(super) fn add_edit(&mut self, kind: EditKind, before: u64, after: u64) {
        let action = match kind {
            EditKind::Prune => ViewAction::Pruned,
            EditKind::Compaction => ViewAction::Compacted,
        };
        // Only the first edit's size counts as "before": later edits start from a shortened view.
        if self.action == ViewAction::None {
            self.before = before;
        }
        self.action = self.action.max(action);
        self.after = after;
    }

    /// Adds the edits to the headers of an answer. `is_known` is unset if the head goes out before anything is known.
    pub(super) fn describe_edits(&self, is_known: bool, headers: &mut HeaderMap) {
        let action = if is_known { self.action.as_str() } else { WAITING_ACTION };
        insert(headers, "x-longhaul-action", action);
        if is_known && self.action != ViewAction::None {
            insert(headers, "x-longhaul-tokens-before", &self.before.to_string());
            insert(headers, "x-longhaul-tokens-after", &self.after.to_string());
        }
    }

    /// Adds the totals to the headers of a whole answer.
    pub(super) fn describe_totals(&self, headers: &mut HeaderMap) {
        // For a single call the usage in the answer's body says the same.
        if self.calls > 1 {
            insert(headers, "x-longhaul-calls", &self.calls.to_string());
            let billed = format!("input={} output={}", self.input_tokens, self.output_tokens);
            insert(headers, "x-longhaul-billed", &billed);
        }
        if self.restarts > 0 {
            insert(headers, "x-longhaul-restarts", &self.restarts.to_string());
        }
    }

    /// Returns the totals as a field beside the usage. There is none for an answer of one call without an edit: its
    /// usage says all.
    pub(super) fn added_fields(&self) -> Vec<AddedField> {
        let has_acted = self.action != ViewAction::None;
        let has_more = has_acted || self.calls > 1;
        let (before, after) =
            if has_acted { (self.before, self.after) } else { (self.newest_input, self.newest_input) };
        let total = has_more.then(|| {
            json!({
                "action": self.action.as_str(),
                "tokens_before": before,
                "tokens_after": after,
                "restarts": self.restarts,
                "calls": self.calls,
                "billed": {
                    "input_tokens": self.input_tokens,
                    "output_tokens": self.output_tokens,
                    "estimated": self.is_estimated,
                },
            })
        });
        total.map(|total| (TOTALS, total.to_string())).into_iter().collect()
    }
}

/// Adds the window and its source to the headers of an answer, in the gateway's words.
pub(super) fn describe_window(context: &ContextReport, headers: &mut HeaderMap) {
    let source = match context.window_source.as_str() {
        "declared" => "stated",
        "server" => "discovered",
        "assumed" => "assumed; state it with `context_window: N` in longhaul.yml",
        other => other,
    };
    insert(headers, "x-longhaul-window", &format!("{} ({source})", context.window));
}

fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    // A header is only additional information, so one that cannot be written is left out.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

#[cfg(test)]
mod tests {
    use longhaul_core::event::FORMAT;
    use serde_json::Value;

    use super::*;

    fn step(usage: Option<(u64, u64)>) -> EventBody {
        let usage = usage.map(|(input_tokens, output_tokens)| Usage {
            input_tokens,
            output_tokens,
            ..Usage::default()
        });
        EventBody::StepFinished { step_id: "s".into(), usage, estimated_input: 70, envelope: None }
    }

    fn report(bodies: Vec<EventBody>) -> AgentAnswerReport {
        let numbered = (1..).zip(bodies);
        let events: Vec<Event> =
            numbered.map(|(seq, body)| Event { seq, at: 0, format: FORMAT, body }).collect();
        AgentAnswerReport::of_run(&events)
    }

    fn field(report: &AgentAnswerReport) -> Option<Value> {
        report.added_fields().first().map(|(_, json)| serde_json::from_str(json).unwrap())
    }

    #[test]
    fn an_answer_of_one_call_has_no_totals() {
        let one = report(vec![step(Some((50, 5)))]);
        assert_eq!(field(&one), None);
        let mut headers = HeaderMap::new();
        one.describe_edits(true, &mut headers);
        one.describe_totals(&mut headers);
        assert_eq!((&headers["x-longhaul-action"], headers.len()), (&HeaderValue::from_static("none"), 1));
    }

    #[test]
    fn the_calls_of_all_steps_are_summed() {
        let two = report(vec![step(Some((50, 5))), step(None)]);
        let billed = json!({ "input_tokens": 120, "output_tokens": 5, "estimated": true });
        let expected = json!({ "action": "none", "tokens_before": 70, "tokens_after": 70, "restarts": 0,
            "calls": 2, "billed": billed });
        assert_eq!(field(&two), Some(expected));
        let mut headers = HeaderMap::new();
        two.describe_totals(&mut headers);
        assert_eq!(headers["x-longhaul-billed"], "input=120 output=5");
    }

    #[test]
    fn a_compaction_outweighs_a_prune() {
        let mut all = AgentAnswerReport::default();
        all.add_edit(EditKind::Prune, 90, 80);
        all.add_edit(EditKind::Compaction, 85, 40);
        all.add_edit(EditKind::Prune, 60, 50);
        let mut headers = HeaderMap::new();
        all.describe_edits(true, &mut headers);
        assert_eq!(headers["x-longhaul-action"], "compacted");
        assert_eq!(
            (&headers["x-longhaul-tokens-before"], &headers["x-longhaul-tokens-after"]),
            (&HeaderValue::from_static("90"), &HeaderValue::from_static("50"))
        );
        all.describe_edits(false, &mut headers);
        assert_eq!(headers["x-longhaul-action"], WAITING_ACTION);
    }
}
