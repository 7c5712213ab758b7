//! The pruning agent's part of a draft.

use super::super::earlier_summary::EarlierSummary;
use super::super::imported_summary::standing_orders;
use super::super::pruning_agent::{PruningProgress, PruningRoom};
use super::super::{SummaryWriterModel, extract};
use super::{DraftSection, SectionProgress, SummaryDraft, SummaryRejection, WRITTEN};
use crate::budget::Budget;
use crate::event::{EventBody, ViewEdit, ViewOperation};
use crate::history::{History, ViewItem, ViewUnit, units};
use crate::ids::{LogHandle, LogRange};
use crate::message::Part;
use crate::retention::user_text::user_room;

/// The room for a reasoning model's thoughts before its answer, in tokens.
const THOUGHT_TOKENS: u64 = 1_024;

/// Returns the room of one call of a pruning agent; `None` if no model writes.
fn room_of_agent(draft: &SummaryDraft, budget: &Budget) -> Option<PruningRoom> {
    let window = draft.window_of_writer(budget)?;
    let max_output_tokens = match draft.writer {
        SummaryWriterModel::Session | SummaryWriterModel::Nobody => budget.reserve.max(window / 8),
        SummaryWriterModel::Other { max_output, .. } => {
            max_output.unwrap_or(crate::budget::DEFAULT_MAX_OUTPUT)
        }
    };
    // No answer takes more than two fifths of the window, so that small windows keep room for the messages.
    let max_output_tokens = max_output_tokens.min(window * 2 / 5);
    let limits: u64 = draft.sections.iter().map(|section| section.limit_tokens).sum();
    Some(PruningRoom {
        // Order, messages and answer together must fit the window, even if the count is off by its margin.
        call_tokens: (window as f64 / (1.0 + draft.increment.margin())) as u64,
        // The agent's words for long messages take as much as its summary, and thoughts come on top.
        words_tokens: (2 * limits + THOUGHT_TOKENS).min(max_output_tokens / 2),
        max_output_tokens,
    })
}

/// Returns the progress of a pruning agent at its start; `None` if no model writes, or if the conversation does not
/// fit its window.
pub(super) fn prune(draft: &SummaryDraft, view: &[ViewItem], budget: &Budget) -> Option<PruningProgress> {
    let room = room_of_agent(draft, budget)?;
    let end = draft.sections.first().and_then(|section| {
        let last = view.iter().rposition(|item| draft.is_of(section, item))?;
        Some(last + 1)
    })?;
    let limits = (draft.edit.original_tokens, budget.window);
    PruningProgress::new(view, end, limits, room, draft.max_calls, &draft.increment)
}

/// Returns the edit of a pruning agent, with extracts of the pieces without a usable answer.
pub(super) fn pruned(
    draft: &SummaryDraft,
    pruning: &PruningProgress,
    history: &History,
) -> Result<ViewEdit, SummaryRejection> {
    let missing = pruning.missing().count() as u64;
    if missing == 0 {
        return pruned_with(draft, pruning, &[], history);
    }
    let room: u64 = draft.sections.iter().filter_map(|section| section.extract_tokens).sum();
    // The agent's own words take the first half of the room. Extracts get less where that is not enough.
    for most in [room / 2 / missing, room / pruning.pieces() as u64] {
        let made = pruned_with(draft, pruning, &extracts(pruning, most, history), history);
        if !matches!(made, Err(SummaryRejection::TooLong { .. })) {
            return made;
        }
    }
    pruned_with(draft, pruning, &extracts(pruning, 0, history), history)
}

/// Returns the pruned edit with as many quotes of the user as fit.
fn pruned_with(
    draft: &SummaryDraft,
    pruning: &PruningProgress,
    extracts: &[String],
    history: &History,
) -> Result<ViewEdit, SummaryRejection> {
    let bare = pruned_beside(draft, pruning, extracts, 0, history)?;
    let limit = bare.trigger_tokens.min(bare.original_bound);
    let (_, handles) = draft.what_goes();
    let quotes = history.user_text_of(&handles);
    if quotes.is_empty() {
        return Ok(bare);
    }
    let free = limit.saturating_sub(bare.compressed_bound);
    let mut room = user_room(free, limit, draft.user_text_share, quotes.order_tokens());
    while room > 0 {
        match pruned_beside(draft, pruning, extracts, room, history) {
            Err(SummaryRejection::TooLong { .. }) => room = room * 3 / 4,
            quoted => return quoted,
        }
    }
    Ok(bare)
}

/// Returns the pruned edit with quotes of the user in at most `user_room` tokens.
fn pruned_beside(
    draft: &SummaryDraft,
    pruning: &PruningProgress,
    extracts: &[String],
    user_room: u64,
    history: &History,
) -> Result<ViewEdit, SummaryRejection> {
    let view = history.view();
    let units = units(view, &[]);
    let (_, handles) = draft.what_goes();
    // At least 1, because the share below is a quotient.
    let all_quotes = history.user_text_of(&handles).whole_tokens().max(1);
    let mut summary = Some(pruning.summary()).filter(|summary| !summary.is_empty());
    let mut says_nothing = false;
    let mut orders = Some(standing_orders(history));
    let ops = pruning.ops((view, &units), &draft.may_go, extracts, |run, words| {
        let texts: Vec<String> = summary.take().into_iter().chain(words).collect();
        says_nothing |= texts.is_empty();
        let words = texts.join("\n\n");
        let orders = orders.take().unwrap_or_default();
        stand_in(draft, history, &units, run, (orders, words), user_room as f64 / all_quotes as f64)
    });
    if ops.is_empty() {
        return Err(SummaryRejection::Incomplete("it leaves everything as it is"));
    }
    if says_nothing && pruning.is_silent() {
        return Err(SummaryRejection::Incomplete("it says nothing about the dropped messages"));
    }
    // A set usage marks the edit as a model's work, even if the server reported none.
    let usage = Some(draft.usage.clone().unwrap_or_default());
    let mut edit = ViewEdit { ops, usage, ..draft.edit.clone() };
    let after = history.with(EventBody::ViewEdited(Box::new(edit.clone())));
    let reading = crate::meter::read(&after, draft.fixed_tokens);
    let (tokens, limit) = (reading.bound(), edit.trigger_tokens.min(edit.original_bound));
    if tokens >= limit {
        return Err(SummaryRejection::TooLong { tokens, limit });
    }
    edit.compressed_tokens = reading.total;
    edit.compressed_bound = tokens;
    edit.compressed_messages = after.view().len() as u64;
    edit.summary = draft.check_outcome();
    let parts = match extracts.len() {
        0 => String::new(),
        some => format!(", {some} of {} parts by an extract", pruning.pieces()),
    };
    edit.why = format!("pruned by an agent{parts}{}", edit.why);
    Ok(edit)
}

/// Returns the extracts of the pieces without a usable answer, each in at most `most` tokens.
fn extracts(pruning: &PruningProgress, most: u64, history: &History) -> Vec<String> {
    let extracts = pruning.missing().map(|items| {
        let handles: Vec<LogHandle> =
            history.view()[items].iter().map(|item| LogHandle(item.range)).collect();
        // Pinned facts take at most a third, so that words of the conversation fit below them.
        extract::summary(history, &handles, most / 3, Some(most), "")
    });
    extracts.collect()
}

/// Returns the message in place of a run of units, with standing orders, system messages and the agent's words.
/// `quoted_share` is the most of the user's text in the run that is quoted, as a share; 1 or more quotes all of it.
fn stand_in(
    draft: &SummaryDraft,
    history: &History,
    units: &[ViewUnit],
    run: &[usize],
    (orders, words): (String, String),
    quoted_share: f64,
) -> ViewOperation {
    let (first, last) = (&units[run[0]], &units[run[run.len() - 1]]);
    let range = LogRange { from: first.range.from, to: last.range.to };
    let items = &history.view()[first.items.start..last.items.end];
    let mut covered = vec![range];
    covered.extend(items.iter().flat_map(|item| item.covers.iter().copied()));
    // An earlier summary that the agent's words do not carry on stays as it is.
    let items: Vec<&ViewItem> = items.iter().collect();
    let earlier = EarlierSummary::of(history, &items, u64::MAX);
    let earlier = if words.is_empty() || !earlier.is_carried_by(&words) {
        earlier.kept()
    } else {
        EarlierSummary::default()
    };
    let handles: Vec<LogHandle> =
        crate::history::merged(history.entries(), covered).into_iter().map(LogHandle).collect();
    let quotes = history.user_text_of(&handles);
    // A share of a single sentence is too little for the sentence. Standing orders are quoted all the same.
    let room = (quotes.whole_tokens() as f64 * quoted_share) as u64;
    let user_text = quotes.fit(room.max(quotes.standing_order_tokens()));
    let standing = draft.standing_text(history, orders, &handles);
    let section = DraftSection {
        op: 0,
        messages: items.len() as u64,
        handles,
        limit_tokens: 0,
        extract_tokens: None,
        ledger_tokens: 0,
        ledger: None,
        earlier,
        work: SectionProgress::Written(if words.is_empty() { words } else { format!("{WRITTEN}\n{words}") }),
    };
    ViewOperation::Replace {
        range,
        parts: vec![Part::text(
            section.with_checked_rules(history).render(history, &standing, &user_text, false),
        )],
        summary: true,
    }
}
