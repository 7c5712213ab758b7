//! The goals of the measures.

/// The number of COMPINT's 15 standing orders that are in the view, in every cell.
pub(crate) const COMPINT_KEPT: usize = 15;

/// The number of our own 30 standing orders in six languages that are in the view, in every cell.
pub(crate) const HIDDEN_KEPT: usize = 30;

/// The share of lines under a title that promises rules that are rules, in percent.
pub(crate) const LISTED_PRECISION_PERCENT: f64 = 80.0;

/// The number of refused answers among 25 that are no summary.
pub(crate) const REFUSED: usize = 25;

/// The number of accepted summaries among 10 good ones.
pub(crate) const ACCEPTED: usize = 10;

/// The number of 20 superseded facts and orders whose newest version is in the view.
pub(crate) const NEWEST_KEPT: usize = 20;

/// The maximum number of superseded facts and orders whose old version is unmarked beside the newest.
pub(crate) const MAX_STALE: usize = 2;

/// The share of locked decisions and forbidden behaviours of CompactBench's practice cases in the view, in percent.
pub(crate) const COMPACTBENCH_PERCENT: f64 = 95.0;

/// The share of LoCoMo's evidence among the first ten hits of a search, in percent.
pub(crate) const LOCOMO_AT_10_PERCENT: f64 = 72.0;

/// The number of answers of lost-in-compaction in the view.
pub(crate) const LOST_IN_VIEW: usize = 35;

/// The share of answers of lost-in-compaction among the first ten hits of a search, in percent.
pub(crate) const LOST_AT_10_PERCENT: f64 = 96.0;

/// The maximum cost of the reading job in a window of 64K tokens, in thousands of input tokens.
pub(crate) const JOB_64K_COST: f64 = 560.0;

/// The maximum cost of the reading job in a window of 32K tokens, in thousands of input tokens.
pub(crate) const JOB_32K_COST: f64 = 430.0;

/// The minimum number of the 40 needles in view at the end of the reading job in a window of 64K tokens.
pub(crate) const JOB_64K_NEEDLES: usize = 30;

/// The minimum number of the 40 needles in view at the end of the reading job in a window of 32K tokens.
pub(crate) const JOB_32K_NEEDLES: usize = 20;
