//! Replays recorded sessions under context policies and compares what they cost and what they keep.
//!
//! A [`SessionRecording`](recording::SessionRecording) is what happened, whatever the agent was shown. A
//! [`ContextPolicy`](policy::ContextPolicy) says what it would have been shown before each model call. [`replay`](replay::replay)
//! makes a [`ReplayOutcome`](outcome::ReplayOutcome) of both. A replay is not counterfactual: the recorded answers stay what
//! they were, although an agent that had seen less, or something else, might have done something else.

pub mod needed_later;
pub mod outcome;
pub mod planner_policy;
pub mod policy;
pub mod price;
pub mod recording;
pub mod replay;
pub mod report;
pub mod rivals;
pub mod score;
pub mod summary;
pub mod synthetic;
