//! The use of a background summary when more messages have to go by now than it covers.

use super::super::{PlanContext, extract};
use super::{SectionProgress, SummaryDraft};
use crate::event::ViewEdit;
use crate::history::ViewItem;
use crate::strategy::ProtectionLevel;

/// Returns the edit that the strategy selects now, with a background summary of a part of the dropped messages. The
/// other dropped messages stand below the summary verbatim, as far as there is room.
pub(in crate::plan) fn extended(context: &PlanContext<'_>, written: &SummaryDraft) -> Option<ViewEdit> {
    let [section] = written.sections.as_slice() else { return None };
    let SectionProgress::Written(text) = &section.work else { return None };
    if !written.is_about(context.history.view()) {
        return None;
    }
    ProtectionLevel::ALL.into_iter().find_map(|protection| {
        let mut selection = context.policy.strategy.choose(context, protection)?;
        context.protect(&mut selection.dropped);
        context.spare_unread(&mut selection);
        context.drop_redundant_clears(&mut selection);
        if !selection.dropped.contains(&true) {
            return None;
        }
        let covered = context.units.iter().map(|unit| {
            let items = &context.history.view()[unit.items.clone()];
            items.iter().any(|item| written.is_of(section, item))
        });
        let covered: Vec<bool> = covered.collect();
        let covers_all =
            covered.iter().zip(&selection.dropped).all(|(covered, dropped)| *dropped || !covered);
        let mut draft = SummaryDraft::new(context, &selection).filter(|_| covers_all)?;
        let [new] = draft.sections.as_mut_slice() else { return None };
        let more = (0..context.units.len()).filter(|at| selection.dropped[*at] && !covered[*at]);
        let more: Vec<&ViewItem> =
            more.flat_map(|at| &context.history.view()[context.units[at].items.clone()]).collect();
        let room = new.limit_tokens.max(new.extract_tokens.unwrap_or(0));
        let counter = context.history.counter();
        // The usage of the old draft is stored with the edit by the caller that drops the draft.
        draft.refused.clone_from(&written.refused);
        draft.say("written ahead of a part of it");
        // The summary is paid for, so it is used even without any of the newer messages.
        [room, room / 4, 0].into_iter().find_map(|room| {
            let said = extract::newest_verbatim(&more, room, counter);
            let text = if said.is_empty() { text.clone() } else { format!("{text}\n\n{said}") };
            draft.sections[0].work = SectionProgress::Written(text);
            let edit = draft.finish(context.history).ok()?;
            context.may_commit(&edit).then_some(edit)
        })
    })
}
