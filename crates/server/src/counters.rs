//! The server's metrics, in the text format of Prometheus.
//!
//! All activity of sessions passes the store, so the store is the place for counts
//! ([`ServerMetrics::watching`]).

mod store;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_core::event::EventBody;
use longhaul_core::message::ToolStatus;
use longhaul_core::usage::Usage;
use longhaul_store::{BlobSweepReport, SharedStore};

use self::store::InstrumentedStore;

/// A family of figures: name, kind, and help text.
type MetricFamily = (&'static str, &'static str, &'static str);

const SESSIONS: MetricFamily = ("longhaul_sessions", "gauge", "Sessions by what they do.");
const QUEUED: MetricFamily = ("longhaul_queued_messages", "gauge", "Messages that wait, in all sessions.");
const STREAMS: MetricFamily = ("longhaul_event_streams", "gauge", "Event streams that are open.");
const STARTED: MetricFamily = ("longhaul_runs_started_total", "counter", "Runs that were begun.");
const RUNS: MetricFamily = ("longhaul_runs_total", "counter", "Runs that have ended, by why.");
const STEPS: MetricFamily =
    ("longhaul_steps_total", "counter", "Model calls that were answered, or failed, with the code.");
const INPUT: MetricFamily =
    ("gen_ai_client_inference_usage_input_tokens_total", "counter", "Input tokens, cached ones included.");
const OUTPUT: MetricFamily =
    ("gen_ai_client_inference_usage_output_tokens_total", "counter", "Output tokens.");
const CACHE_READ: MetricFamily = (
    "gen_ai_client_inference_usage_cache_read_input_tokens_total",
    "counter",
    "Input tokens read from a cache.",
);
const CACHE_WRITE: MetricFamily = (
    "gen_ai_client_inference_usage_cache_write_input_tokens_total",
    "counter",
    "Input tokens written to a cache.",
);
const REASONING: MetricFamily =
    ("gen_ai_client_inference_usage_reasoning_output_tokens_total", "counter", "Output tokens of reasoning.");
const EDITS: MetricFamily = ("longhaul_compactions_total", "counter", "Compactions and prunes, by strategy.");
const UNDONE: MetricFamily =
    ("longhaul_compactions_undone_total", "counter", "Compactions and prunes that were undone.");
const TOOLS: MetricFamily = ("longhaul_tool_calls_total", "counter", "Tool calls that have ended, by how.");
const EXPIRED: MetricFamily =
    ("longhaul_sessions_expired_total", "counter", "Sessions deleted because they are kept no longer.");
const ASIDE: MetricFamily = (
    "longhaul_blobs_set_aside_total",
    "counter",
    "Images and long outputs that no session names; they are removed a day later.",
);
const REMOVED: MetricFamily =
    ("longhaul_blobs_removed_total", "counter", "Images and long outputs that were removed.");
const REMOVED_BYTES: MetricFamily =
    ("longhaul_blobs_removed_bytes_total", "counter", "How many bytes those had.");
const REQUESTS: MetricFamily = ("longhaul_http_requests_total", "counter", "Requests by route and status.");

const COUNTED: [MetricFamily; 16] = [
    STARTED,
    RUNS,
    STEPS,
    INPUT,
    OUTPUT,
    CACHE_READ,
    CACHE_WRITE,
    REASONING,
    EDITS,
    UNDONE,
    TOOLS,
    EXPIRED,
    ASIDE,
    REMOVED,
    REMOVED_BYTES,
    REQUESTS,
];

/// The metrics of a server. A clone is cheap and shares its counts.
#[derive(Clone, Debug, Default)]
pub struct ServerMetrics(Arc<Mutex<MetricCounts>>);

#[derive(Debug, Default)]
struct MetricCounts {
    /// The counts by family and labels.
    counts: BTreeMap<(&'static str, String), u64>,
    streams: u64,
}

/// A guard for the count of open event streams.
#[derive(Debug)]
pub(crate) struct OpenStreamGuard(ServerMetrics);

impl Drop for OpenStreamGuard {
    fn drop(&mut self) {
        self.0.with(|counts| counts.streams -= 1);
    }
}

impl ServerMetrics {
    /// Returns the store with counting of all appended events.
    pub fn watching(&self, store: SharedStore) -> SharedStore {
        Arc::new(InstrumentedStore::new(store, self.clone()))
    }

    pub(crate) fn stream(&self) -> OpenStreamGuard {
        self.with(|counts| counts.streams += 1);
        OpenStreamGuard(self.clone())
    }

    pub(crate) fn request(&self, method: &str, route: &str, status: u16) {
        let status = status.to_string();
        self.count(REQUESTS, &[("method", method), ("route", route), ("status", &status)], 1);
    }

    /// Counts sessions deleted after their expiry.
    pub(crate) fn expired(&self, sessions: u64) {
        self.count(EXPIRED, &[], sessions);
    }

    /// Counts the result of a blob sweep.
    pub(crate) fn swept(&self, swept: &BlobSweepReport) {
        self.count(ASIDE, &[], swept.set_aside);
        self.count(REMOVED, &[], swept.removed);
        self.count(REMOVED_BYTES, &[], swept.removed_bytes);
    }

    fn event(&self, body: &EventBody) {
        match body {
            EventBody::RunStarted { .. } => self.count(STARTED, &[], 1),
            EventBody::RunFinished { reason, .. } => {
                self.count(RUNS, &[("finish_reason", reason.as_str())], 1)
            }
            EventBody::StepFinished { usage, .. } => {
                // Answered calls have an empty code, so that the family sums up to all calls.
                self.count(STEPS, &[("code", "")], 1);
                usage.iter().for_each(|usage| self.tokens(usage));
            }
            EventBody::StepFailed { code, .. } => self.count(STEPS, &[("code", code.as_str())], 1),
            EventBody::ToolFinished { result } => {
                let status = match result.status {
                    ToolStatus::Completed => "completed",
                    ToolStatus::Error => "error",
                    ToolStatus::Cancelled => "cancelled",
                    ToolStatus::Interrupted => "interrupted",
                };
                self.count(TOOLS, &[("status", status)], 1);
            }
            EventBody::ViewEdited(edit) => self.count(EDITS, &[("strategy", &edit.strategy)], 1),
            EventBody::ViewRestored { .. } => self.count(UNDONE, &[], 1),
            _ => {}
        }
    }

    fn tokens(&self, usage: &Usage) {
        for (family, tokens) in [
            (INPUT, usage.input_tokens),
            (OUTPUT, usage.output_tokens),
            (CACHE_READ, usage.cache_read_tokens),
            (CACHE_WRITE, usage.cache_write_tokens),
            (REASONING, usage.reasoning_tokens),
        ] {
            self.count(family, &[], tokens);
        }
    }

    fn count(&self, family: MetricFamily, labels: &[(&str, &str)], more: u64) {
        let labels = written(labels);
        self.with(|counts| *counts.counts.entry((family.0, labels)).or_default() += more);
    }

    fn with(&self, work: impl FnOnce(&mut MetricCounts)) {
        // Counts are whole at any moment, so a panic of another holder does no harm.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns all metrics. `sessions` by status and `queued` are the current values.
    pub(crate) fn text(&self, sessions: &BTreeMap<&str, u64>, queued: u64) -> String {
        let mut text = String::new();
        family(
            &mut text,
            SESSIONS,
            sessions.iter().map(|(status, count)| (written(&[("status", status)]), *count)),
        );
        family(&mut text, QUEUED, [(String::new(), queued)]);
        self.with(|counts| {
            family(&mut text, STREAMS, [(String::new(), counts.streams)]);
            for of in COUNTED {
                // The text format wants all lines of one family together.
                let own = counts.counts.iter().filter(|((name, _), _)| *name == of.0);
                family(&mut text, of, own.map(|((_, labels), count)| (labels.clone(), *count)));
            }
        });
        text
    }
}

fn family(
    text: &mut String,
    (name, kind, help): MetricFamily,
    figures: impl IntoIterator<Item = (String, u64)>,
) {
    // Writing into a string cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, figure) in figures {
        let _ = writeln!(text, "{name}{labels} {figure}");
    }
}

fn written(labels: &[(&str, &str)]) -> String {
    let mut pairs = labels.iter().map(|(name, value)| {
        // The text format of Prometheus escapes exactly these three.
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    });
    match pairs.next() {
        Some(first) => format!("{{{}}}", pairs.fold(first, |all, pair| format!("{all},{pair}"))),
        None => String::new(),
    }
}
