//! The facts that a replay's edits took out of view, and the ways that still lead to them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use longhaul_core::message::{Message, Part};
use longhaul_core::retention_report::{RecoveryAccess, RetentionTally, survey_within};

use crate::lab::policy::{PolicyRequest, ViewSegment};
use crate::lab::recording::SessionRecording;

/// The facts of everything that left the view, by class.
#[derive(Debug, Default)]
pub(super) struct RetentionTracker {
    pub(super) classes: BTreeMap<String, RetentionTally>,
    /// The view last shown to the agent.
    view: Vec<ViewSegment>,
    /// The number of entries at that time.
    seen: usize,
}

impl RetentionTracker {
    pub(super) fn note(
        &mut self,
        recording: &SessionRecording,
        request: &PolicyRequest,
        next: usize,
        has_recall: bool,
    ) {
        if request.edit.is_some() {
            self.survey(recording, request, next, has_recall);
        }
        self.view.clone_from(&request.view);
        self.seen = next;
    }

    fn survey(
        &mut self,
        recording: &SessionRecording,
        request: &PolicyRequest,
        next: usize,
        has_recall: bool,
    ) {
        // Ids are compared and not positions, because an edit may move what it keeps.
        let kept: HashSet<u64> = request.view.iter().map(|segment| segment.id).collect();
        let known = recording.need_index();
        let shown = self.view.iter().filter(|segment| !kept.contains(&segment.id)).map(|segment| match known
            .entry_of(segment.id)
        {
            Some(at) => recording.entries[at].message.clone(),
            None => Arc::new(Message::user("", vec![Part::text(&*segment.text)])),
        });
        // Messages since the last request may be removed before they were ever shown.
        let new = (self.seen..next).filter(|at| !kept.contains(&recording.id(*at)));
        // An entry without tokens is never sent, so no edit has removed it.
        let new = new.map(|at| &recording.entries[at]).filter(|entry| entry.tokens > 0);
        let gone: Vec<Arc<Message>> = shown.chain(new.map(|entry| entry.message.clone())).collect();
        let gone: Vec<&Message> = gone.iter().map(|message| &**message).collect();
        // Facts are looked for in the whole view, because a summary may keep what a message lost.
        let after: String = request.view.iter().flat_map(|segment| [&segment.text, "\n"]).collect();
        let reach = if has_recall { RecoveryAccess::Model } else { RecoveryAccess::User };
        for (class, tally) in survey_within(&gone, &after, reach).classes {
            let sum = self.classes.entry(class).or_default();
            sum.verbatim += tally.verbatim;
            sum.recoverable_by_model += tally.recoverable_by_model;
            sum.recoverable_by_user += tally.recoverable_by_user;
            sum.lost += tally.lost;
        }
    }
}
