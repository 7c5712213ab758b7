//! The model and agent of the session.

use crate::event::{ModelChoice, StepStart};
use crate::ids::Millis;
use crate::message::ModelOrigin;
use crate::request_pauses::RequestPauses;

/// The model of the newest step or switch, and the behaviour that the model's server has shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ModelState {
    pub(super) newest: Option<ModelOrigin>,
    pub(super) choice: ModelChoice,
    /// The hash of the newest step's tools. `None` before the first step of a newly chosen agent or model.
    pub(super) tools_hash: Option<String>,
    /// `true` from a switch of the model to the next step.
    pub(super) switched: bool,
    /// `true` if the model's server has refused to continue a paused answer.
    pub(super) refused_to_go_on: bool,
    pub(super) last_call_at: Option<Millis>,
    /// The pauses between the session's requests, to whichever model.
    pub(super) request_pauses: RequestPauses,
}

impl ModelState {
    /// Begins a step with the model that it names.
    pub(super) fn begin_step(&mut self, start: &StepStart) {
        self.newest = Some(start.model.clone());
        self.switched = false;
        self.tools_hash = (!start.tools_hash.is_empty()).then(|| start.tools_hash.clone());
    }

    /// Switches to another model, or to another server of the same model.
    pub(super) fn switch(&mut self, to: &ModelOrigin) {
        self.switched |= self.newest.as_ref().is_some_and(|model| model != to);
        self.newest = Some(to.clone());
        self.refused_to_go_on = false;
        self.last_call_at = None;
    }
}
