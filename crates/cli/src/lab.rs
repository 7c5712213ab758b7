//! Replays recorded sessions under context policies and compares costs and kept content.
//!
//! A [`SessionRecording`](recording::SessionRecording) has all events, whatever the agent was
//! shown. A [`ContextPolicy`](policy::ContextPolicy) decides the view before each model call.
//! [`replay`](replay::replay) makes a [`ReplayOutcome`](outcome::ReplayOutcome) of both. A replay is not
//! counterfactual: the recorded answers stay unchanged, although an agent with another view might have acted
//! differently.

pub(crate) mod needed_later;
pub(crate) mod outcome;
pub(crate) mod planner_policy;
pub(crate) mod policy;
pub(crate) mod price;
pub(crate) mod recording;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod rivals;
pub(crate) mod score;
pub(crate) mod summary;
pub(crate) mod synthetic;

#[cfg(test)]
mod tests;
