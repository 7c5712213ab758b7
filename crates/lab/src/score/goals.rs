//! The figures that the measures are held to.

/// Standing orders of COMPINT that stand in the view, of 15, in every cell.
pub const COMPINT_KEPT: usize = 15;

/// Standing orders of our own in six languages that stand in the view, of 30, in every cell.
pub const HIDDEN_KEPT: usize = 30;

/// Lines under a title that promises rules which are rules, in percent.
pub const LISTED_PRECISION_PERCENT: f64 = 80.0;

/// Answers that are no summary and are refused, of 25.
pub const REFUSED: usize = 25;

/// Good summaries that are accepted, of 10.
pub const ACCEPTED: usize = 10;

/// Superseded facts and orders of which the newest stands in the view, of 20.
pub const NEWEST_KEPT: usize = 20;

/// Superseded facts and orders of which the old one stands unmarked beside the newest, at most.
pub const MAX_STALE: usize = 2;

/// Locked decisions and forbidden behaviours of CompactBench's practice cases in the view, in percent.
pub const COMPACTBENCH_PERCENT: f64 = 95.0;

/// Evidence of LoCoMo among the first ten hits of a search, in percent.
pub const LOCOMO_AT_10_PERCENT: f64 = 72.0;

/// Answers of lost-in-compaction in the view.
pub const LOST_IN_VIEW: usize = 35;

/// Answers of lost-in-compaction among the first ten hits of a search, in percent.
pub const LOST_AT_10_PERCENT: f64 = 96.0;

/// Cost of the reading job in a window of 64K tokens, in thousands of input tokens.
pub const JOB_64K_COST: f64 = 560.0;

/// Cost of the reading job in a window of 32K tokens, in thousands of input tokens.
pub const JOB_32K_COST: f64 = 430.0;

/// Needles in view at the end of the reading job in a window of 64K tokens, of 40.
pub const JOB_64K_NEEDLES: usize = 30;

/// Needles in view at the end of the reading job in a window of 32K tokens, of 40.
pub const JOB_32K_NEEDLES: usize = 20;
