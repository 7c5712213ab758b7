//! Replays recorded sessions under context policies and compares costs and kept content.
//!
//! A [`SessionRecording`](recording::SessionRecording) has all events, whatever the agent was
//! shown. A [`ContextPolicy`](policy::ContextPolicy) decides the view before each model call.
//! [`replay`](replay::replay) makes a [`ReplayOutcome`](outcome::ReplayOutcome) of both. A replay is not
//! counterfactual: the recorded answers stay unchanged, although an agent with another view might have acted
//! differently.

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
