//! A reading job: an agent reads many files in one turn, and each file holds one line that matters.
//!
//! Unlike a [recording](crate::lab::recording::SessionRecording), the job is a closed loop around the loop of a session
//! ([`Run`](longhaul_core::run::Run)). If the planner or the truncation at the source cut a result, the agent reads
//! again. The files are made by a program; equal seeds give equal files.

use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::plan::{CompactionPolicy, TokenPrices};

use super::rng::SeededRng;

mod agent;
mod filling;

/// The prices of the measure: input 1, cached input 0.1, output 5.
pub(crate) const PRICES: TokenPrices =
    TokenPrices { input: 1.0, cache_read: 0.1, cache_write: 1.0, output: 5.0, cache_life_ms: 300_000 };

/// The setup of a job.
#[derive(Clone, Debug)]
pub(crate) struct ReadingOptions {
    /// The context window, in tokens.
    pub(crate) window_tokens: u64,
    /// System prompt and tools, in tokens.
    pub(crate) fixed_tokens: u64,
    /// `true` if the loop limits a result at its source, as in a session. Behind the gateway the agent is
    /// foreign, and nothing limits its results before the planner does.
    pub(crate) truncates_at_source: bool,
    /// The number of files that the agent asks for in one step.
    pub(crate) files_per_step: usize,
    /// The policy for the bounds of the context.
    pub(crate) policy: CompactionPolicy,
}

/// The outcome of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReadingOutcome {
    /// Cost in tokens of uncached input: input 1, cached input 0.1, output 5; summaries included.
    pub(crate) cost: f64,
    /// The part of the cost that is for summaries.
    pub(crate) summary_cost: f64,
    /// Requests of the agent.
    pub(crate) requests: usize,
    /// Requests that read the rest of a file that was cut.
    pub(crate) rereads: usize,
    /// The number of lines that matter and are verbatim in the final request.
    pub(crate) needles_visible: usize,
    /// The number of lines that matter and are in the final request or behind a handle that it names.
    pub(crate) needles_reachable: usize,
    /// The number of files whose first showing was cut.
    pub(crate) files_cut: usize,
    /// The number of files whose text was never shown completely, not even in pieces.
    pub(crate) files_incomplete: usize,
    /// Requests in which a result after the newest assistant message is a placeholder without content.
    pub(crate) placeholders: usize,
    /// Requests larger than the window less the output reserve.
    pub(crate) overflows: usize,
    /// Summaries awaited by the agent.
    pub(crate) waits: usize,
    /// Edits of the view.
    pub(crate) edits: usize,
    /// Tokens of each request, in order.
    pub(crate) context: Vec<u64>,
    /// The error that ended the job, if the job had no last answer.
    pub(crate) error: Option<String>,
}

/// A file with a line that matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadingFile {
    /// The path of the file.
    pub(crate) path: String,
    /// The lines of the file, the one that matters among them.
    pub(crate) lines: Vec<String>,
    /// The line that matters.
    pub(crate) needle: String,
}

/// A reading job of so many files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadingJob {
    /// The files in the order in which they are read.
    pub(crate) files: Vec<ReadingFile>,
}

impl ReadingJob {
    /// Creates a job of `count` files of 2,000 to 8,000 tokens.
    pub(crate) fn new(seed: u64, count: usize) -> Self {
        let mut rng = SeededRng::new(seed);
        let files = (0..count).map(|at| file(&mut rng, at)).collect();
        Self { files }
    }

    /// Runs the job.
    pub(crate) fn run(&self, options: &ReadingOptions) -> ReadingOutcome {
        agent::run(self, options)
    }
}

fn file(rng: &mut SeededRng, at: usize) -> ReadingFile {
    let counter = MessageTokenCounter::default();
    let target = rng.between(2_000, 8_000);
    let (path, needle) = (filling::path(rng, at), filling::needle(rng, at));
    let (mut lines, mut tokens) = (Vec::new(), 0);
    while tokens < target {
        let line = filling::line(rng, at, lines.len());
        tokens += counter.text(&line) + 1;
        lines.push(line);
    }
    // The line's place is random, so that no fixed rule of what to keep can favour it.
    let place = rng.below(lines.len() as u64) as usize;
    lines.insert(place, needle.clone());
    ReadingFile { path, lines, needle }
}
