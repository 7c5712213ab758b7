//! An agent that reads forty files, one a step, each with one line that is needed at the end.

use std::collections::HashSet;

use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::event::{Event, EventBody, FORMAT};
use longhaul_core::history::HistoryFoldError;
use longhaul_core::ids::CallId;
use longhaul_core::message::{Message, ModelStopReason, Part, Role, ToolCall, ToolResult, ToolStatus};
use serde::Serialize;

use crate::lab::planner_policy::PlannerPolicy;
use crate::lab::policy::{ContextPolicy, PolicyInput, PolicyRequest};
use crate::lab::price::PriceTable;
use crate::lab::recording::SessionRecording;
use crate::lab::replay::{ReplayOptions, replay};
use crate::lab::rivals;

/// The number of files. Each is read in a step of its own.
pub(crate) const FILES: usize = 40;

/// Tokens of system prompt and tools of a usual agent.
pub(crate) const FIXED_TOKENS: u64 = 3_000;

/// The policies under which the job is run, ours first.
const POLICIES: [&str; 9] = [
    "adaptive",
    "reactive-overflow",
    "pruning-agent",
    "claude-code",
    "codex",
    "opencode",
    "langchain-summarization",
    "langchain-clear-tool-uses",
    "append-only",
];

const WORDS: [&str; 24] = [
    "anchor", "basin", "copper", "delta", "ember", "fjord", "gravel", "harbor", "inlet", "juniper", "kelp",
    "lantern", "mortar", "nickel", "orchard", "pebble", "quarry", "ridge", "saddle", "timber", "umber",
    "valley", "willow", "zephyr",
];

/// The result of a policy on the job.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReadingJobScore {
    /// The policy.
    pub(crate) policy: String,
    /// The window, in tokens.
    pub(crate) window: u64,
    /// Cost in thousands of input tokens: input 1, cached input 0.1, output 5.
    pub(crate) cost_thousands: f64,
    /// The number of needles in the final request.
    pub(crate) needles_visible: usize,
    /// The number of files that no request had whole.
    pub(crate) never_whole: usize,
    /// The number of requests that are larger than the usable room.
    pub(crate) overflows: u64,
    /// The number of requests in which nothing of the newest result was shown.
    pub(crate) newest_cleared: usize,
    /// Compactions on the way.
    pub(crate) compactions: u64,
    /// The largest request, in tokens.
    pub(crate) peak_tokens: u64,
}

/// Returns the prices of the measure, for a million tokens.
pub(super) fn prices() -> PriceTable {
    PriceTable {
        name: "reading-job".to_owned(),
        input: 1.0,
        cache_read: 0.1,
        cache_write: 1.0,
        output: 5.0,
        cache_minimum_tokens: 0,
        cache_life_ms: 3_600_000,
    }
}

/// A policy that observes the requests of another.
struct PolicyObserver {
    policy: Box<dyn ContextPolicy>,
    whole: HashSet<usize>,
    newest_cleared: usize,
    last: Vec<std::sync::Arc<str>>,
}

impl ContextPolicy for PolicyObserver {
    fn name(&self) -> &str {
        self.policy.name()
    }

    fn sources(&self) -> Vec<String> {
        self.policy.sources()
    }

    fn has_recall(&self) -> bool {
        self.policy.has_recall()
    }

    fn request(&mut self, recording: &SessionRecording, next: usize, now: &PolicyInput) -> PolicyRequest {
        let request = self.policy.request(recording, next, now);
        let shown: HashSet<u64> = request.view.iter().map(|segment| segment.id).collect();
        for file in 0..FILES {
            // A shortened result has another id, so a known id means that the file is whole.
            if shown.contains(&recording.id(result_entry(file))) {
                self.whole.insert(file);
            }
        }
        // Before the first file there is no result that could be missing.
        let newest = (0..FILES).rfind(|file| result_entry(*file) < next);
        if let Some(file) = newest {
            let has_part = request.view.iter().any(|segment| shows_part(&segment.text, file));
            self.newest_cleared += usize::from(!has_part);
        }
        self.last = request.view.iter().map(|segment| segment.text.clone()).collect();
        request
    }
}

/// Returns the entry of a file's content. The entries are a task, then a call and a result for each file.
fn result_entry(file: usize) -> usize {
    2 + 2 * file
}

/// Returns whether a text has a line of a file's content.
fn shows_part(text: &str, file: usize) -> bool {
    text.contains(&format!("\n{} ", line_mark(file)))
}

fn line_mark(file: usize) -> String {
    format!("n{file:02}:")
}

fn needle(file: usize) -> String {
    format!("ticket {}-{:04} is open", WORDS[file * 7 % WORDS.len()].to_uppercase(), 1_009 + file * 211)
}

fn path(file: usize) -> String {
    format!("notes/{}_{file:02}.txt", WORDS[file % WORDS.len()])
}

/// Returns a content of 2,000 to 8,000 tokens, with the needle somewhere in it.
fn content(file: usize) -> String {
    const TOKENS_OF_LINE: usize = 12;
    // The sizes differ by a fixed rule, so every run has the same files.
    let lines = (2_000 + file * 2_711 % 6_000) / TOKENS_OF_LINE;
    let place = lines * (file * 37 % 100) / 100;
    let mut text = format!("# {}\n", path(file));
    for line in 0..lines {
        if line == place {
            text.push_str(&format!("{} {}\n", line_mark(file), needle(file)));
        }
        text.push_str(&line_mark(file));
        for step in [1, 5, 7, 11, 13] {
            text.push(' ');
            text.push_str(WORDS[(file * 31 + line * step + step) % WORDS.len()]);
        }
        text.push_str(&format!(" {line}\n"));
    }
    text
}

/// Returns the job as a recording of an agent whose system prompt and tools have so many tokens.
///
/// # Errors
/// [`HistoryFoldError`], if the new log does not fold: never.
pub(crate) fn recording(fixed_tokens: u64) -> Result<SessionRecording, HistoryFoldError> {
    let mut bodies = vec![
        EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None },
        EventBody::RunStarted { run_id: "r".into() },
    ];
    let task =
        format!("Read the {FILES} files in notes/ one by one and list the ticket that each names as open.");
    let message = Message::user("m0", vec![Part::text(task)]);
    bodies.push(EventBody::message_taken(message));
    for file in 0..FILES {
        let call_id = CallId::new(format!("c{file}"));
        let arguments = serde_json::json!({ "path": path(file) }).to_string();
        let call = ToolCall {
            call_id: call_id.clone(),
            name: "read".to_owned(),
            arguments,
            provider_id: None,
            native: None,
        };
        let parts = vec![Part::text(format!("Next is {}.", path(file))), Part::ToolCall(call)];
        bodies.push(answer(file, parts, ModelStopReason::ToolCalls));
        let content = vec![Part::text(content(file))];
        let result = ToolResult { call_id, status: ToolStatus::Completed, content, truncated: None };
        bodies.push(EventBody::ToolFinished { result });
    }
    let list: Vec<String> = (0..FILES).map(needle).collect();
    // The last answer needs every needle, so the needed-later figures count each of them.
    bodies.push(answer(FILES, vec![Part::text(list.join("\n"))], ModelStopReason::Stop));
    let events = (1..).zip(bodies).map(|(seq, body)| Event { seq, at: 0, format: FORMAT, body }).collect();
    let recording = SessionRecording::of(
        "reading-job",
        "synthetic",
        events,
        fixed_tokens,
        MessageTokenCounter::default(),
    )?;
    Ok(recording.made_by_program())
}

fn answer(step: usize, parts: Vec<Part>, finish: ModelStopReason) -> EventBody {
    let message = Message { id: format!("a{step}").into(), role: Role::Assistant, parts, origin: None };
    EventBody::AssistantAdded { step_id: format!("s{step}").into(), message, finish, cut: None }
}

/// Runs the job under every policy in a window of so many tokens, `fixed_tokens` of them for system prompt and tools.
///
/// # Errors
/// [`HistoryFoldError`] as [`recording`].
pub(crate) fn measure(
    window_tokens: u64,
    fixed_tokens: u64,
) -> Result<Vec<ReadingJobScore>, HistoryFoldError> {
    let recording = recording(fixed_tokens)?;
    let policies = POLICIES.iter().filter_map(|name| policy(name));
    Ok(policies.map(|policy| run(&recording, policy, window_tokens)).collect())
}

fn policy(name: &str) -> Option<Box<dyn ContextPolicy>> {
    let ours = PlannerPolicy::by_name(name).map(|ours| Box::new(ours) as Box<dyn ContextPolicy>);
    ours.or_else(|| rivals::named(name))
}

fn run(recording: &SessionRecording, policy: Box<dyn ContextPolicy>, window_tokens: u64) -> ReadingJobScore {
    let mut observed = PolicyObserver { policy, whole: HashSet::new(), newest_cleared: 0, last: Vec::new() };
    let outcome = replay(recording, &mut observed, window_tokens, &prices(), &ReplayOptions::default());
    ReadingJobScore {
        policy: outcome.policy,
        window: window_tokens,
        cost_thousands: outcome.cost * 1_000.0,
        needles_visible: (0..FILES)
            .filter(|file| observed.last.iter().any(|text| text.contains(&needle(*file))))
            .count(),
        never_whole: FILES - observed.whole.len(),
        overflows: outcome.overflows,
        newest_cleared: observed.newest_cleared,
        compactions: outcome.compactions,
        peak_tokens: outcome.peak_tokens,
    }
}
