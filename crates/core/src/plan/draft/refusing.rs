//! Refused answers: the request is repeated once, then an extract replaces that part.

use super::super::verbatim::shortened;
use super::{DraftSection, PruningAgentState, SectionProgress, SummaryDraft, SummaryRejection};

/// The line above parts for which the model wrote no usable summary.
const IN_PARTS: &str = "Parts of which no summary was made, their beginnings and ends word for word:";

/// The number of first parts without a usable answer after which the model is not asked for others.
// Decision 0035: a model that answers in prose was asked 28 times for a compaction of 14 parts before there were
// limits.
const MAX_AT_FIRST: usize = 2;

/// The number of parts without a usable answer, among usable ones, after which the model is not asked for others.
const MAX_IN_ALL: usize = 4;

/// Returns whether the model seems unable to write these summaries, by the numbers of refused and usable answers.
fn is_enough(refused: usize, usable: usize) -> bool {
    refused >= MAX_IN_ALL || usable == 0 && refused >= MAX_AT_FIRST
}

/// Refuses the newest answer: the same request follows once more, or the part is given up.
pub(super) fn refuse(draft: &mut SummaryDraft, why: &'static str) -> Result<(), SummaryRejection> {
    let is_one = is_one_answer(draft);
    draft.refused.push(why);
    // A model that answers in prose where JSON is required does so again, so a repetition would only cost a call.
    let is_hopeless =
        is_one && draft.agent != PruningAgentState::None && SummaryRejection::Incomplete(why).is_other_form();
    if !is_hopeless && draft.complaint.replace(why).is_none() {
        return Ok(());
    }
    draft.complaint = None;
    if let PruningAgentState::Asked(pruning) = &mut draft.agent {
        pruning.give_up();
        let (refused, usable) = pruning.outcomes();
        if is_enough(refused, usable) {
            pruning.give_up_rest();
        }
        if is_one || pruning.is_given_up() {
            draft.agent = PruningAgentState::None;
            return Err(SummaryRejection::Incomplete(why));
        }
        return Ok(());
    }
    if is_one {
        return Err(SummaryRejection::Incomplete(why));
    }
    give_up(draft);
    let is_void = draft.sections.iter().all(|section| section.work == SectionProgress::Extracted);
    if is_void { Err(SummaryRejection::Incomplete(why)) } else { Ok(()) }
}

/// Returns whether the whole summary is one answer.
fn is_one_answer(draft: &SummaryDraft) -> bool {
    match (&draft.agent, draft.sections.as_slice()) {
        (PruningAgentState::Asked(pruning), _) => pruning.pieces() == 1,
        (_, [section]) => match &section.work {
            SectionProgress::Reading { pieces, .. } => pieces.len() == 1,
            _ => true,
        },
        _ => false,
    }
}

/// Gives up the newest piece.
fn give_up(draft: &mut SummaryDraft) {
    let Some(at) = draft.sections.iter().position(|section| !section.is_done()) else { return };
    let work = match std::mem::replace(&mut draft.sections[at].work, SectionProgress::Extracted) {
        SectionProgress::Reading { pieces, next, so_far, mut given_up } => {
            given_up.push(next);
            let mut next = next;
            if is_enough(given_up.len(), next + 1 - given_up.len()) {
                given_up.extend(next + 1..pieces.len());
                next = pieces.len() - 1;
            }
            let is_last = next + 1 == pieces.len();
            match so_far {
                _ if given_up.len() == pieces.len() => SectionProgress::Extracted,
                Some(text) if is_last => {
                    SectionProgress::Written(with_pieces(draft, at, text, &pieces, &given_up))
                }
                so_far => SectionProgress::Reading { pieces, next: next + 1, so_far, given_up },
            }
        }
        _ => SectionProgress::Extracted,
    };
    draft.sections[at].work = work;
    let works = draft.sections.iter().map(|section| &section.work);
    let refused = works.clone().filter(|work| **work == SectionProgress::Extracted).count();
    let written = works.filter(|work| matches!(work, SectionProgress::Written(_))).count();
    if is_enough(refused, written) {
        let open = draft.sections.iter_mut().filter(|section| !section.is_done());
        open.for_each(|section| section.work = SectionProgress::Extracted);
    }
}

/// Returns a section's summary with extracts of the pieces that the summary lacks.
pub(super) fn with_pieces(
    draft: &SummaryDraft,
    at: usize,
    text: String,
    pieces: &[String],
    given_up: &[usize],
) -> String {
    let DraftSection { limit_tokens, extract_tokens, .. } = &draft.sections[at];
    // The summary of the other pieces takes its limit first.
    let room = extract_tokens.unwrap_or(0).saturating_sub(*limit_tokens).max(*limit_tokens);
    let most = room / pieces.len().max(1) as u64;
    let mark = format!(" {}>", draft.mark());
    let extracts = given_up.iter().filter_map(|at| {
        let piece = super::defused(&pieces[*at].replace(&mark, ">"));
        shortened(&piece, most, &|text| draft.increment.text(text))
    });
    let extracts: Vec<String> = extracts.collect();
    if extracts.is_empty() { text } else { format!("{text}\n\n{IN_PARTS}\n{}", extracts.join("\n")) }
}
