//! Compaction by summary: the draft without texts, and the rules of a valid draft.

use std::sync::Arc;

use super::earlier_summary::EarlierSummary;
use super::imported_summary::standing_orders;
use super::pruning_agent::{NO_JSON, OTHER_JSON, PruningProgress};
use super::{PlanContext, PlanTrigger, SummaryWriterModel, TokenPrices};
use crate::estimate::TokensByScript;
use crate::event::{EditKind, EditReason, ViewEdit, ViewOperation};
use crate::history::ViewItem;
use crate::ids::{LogHandle, Seq};
use crate::message::{ModelAnswer, ModelStopReason, Part};
use crate::meter::{MeterReading, TokenIncrement};
use crate::strategy::{CompactionSelection, UnitReplacement};
use crate::usage::Usage;

mod agent;
mod asking;
mod check;
mod extended;
mod finish;
mod refusing;
mod section;

pub use asking::{SummaryForm, SummaryRequest};
pub use check::{SummaryCheckInput, SummaryDefect, check_summary};
pub(super) use check::{carries, check_words};
pub(super) use extended::extended;
use refusing::{refuse, with_pieces};

/// The first word of every summary.
#[doc(hidden)]
pub const MARK: &str = "[SUMMARY]";

/// The first words of every request for a summary, in the last message.
#[doc(hidden)]
pub const ORDER_START: &str = "The conversation is about to be shortened";

/// The room for the mark, the count and the handles above a summary's text, in tokens.
pub(super) const HEADER_TOKENS: u64 = 64;

/// The line between the pinned facts and a model's summary.
pub(super) const WRITTEN: &str = "Summary, written by a model from what was said, not by the program:";

/// The fewest tokens in which a summary can say anything useful.
pub(super) const LEAST_TOKENS: u64 = 200;

/// A compaction without a summary yet.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryDraft {
    /// The edit without texts.
    edit: ViewEdit,
    /// The parts that the edit shows in place of the dropped messages.
    sections: Vec<DraftSection>,
    /// The size of the next request with everything but the summaries.
    floor: MeterReading,
    /// The tokens that the summaries add to the floor.
    increment: TokenIncrement,
    /// The user's instructions for the summary.
    instructions: Option<String>,
    /// A digest of the view items that the draft touches. The draft is void once the digest has changed.
    subject: String,
    writer: SummaryWriterModel,
    prices: Option<TokenPrices>,
    cache_is_warm: bool,
    /// The usage of the model calls so far.
    usage: Option<Usage>,
    /// The progress of a pruning agent. The sections are used only if the agent's answer is invalid.
    agent: PruningAgentState,
    fixed_tokens: u64,
    /// The units that may be dropped.
    may_go: Vec<bool>,
    /// `true` if a hook, not a model, has supplied the text.
    is_given: bool,
    /// The size of the present request by this crate's own count, in tokens.
    counted_tokens: u64,
    /// The most tokens that quotes of system messages may take.
    system_message_tokens: u64,
    /// The share of the free room that quotes of the user may take.
    user_text_share: f64,
    /// `true` if the model has the tool `recall`.
    has_recall: bool,
    /// The reason why the newest answer was refused. The request is then repeated once.
    complaint: Option<&'static str>,
    /// The reasons why answers were refused so far, oldest first.
    refused: Vec<&'static str>,
    /// The text that a summary replaces if the summary is asked for at the end of the live request.
    material: Arc<str>,
    /// `true` if a request behind the live one ends where the dropped part ends.
    ends_at_cut: bool,
    /// `true` if no request may stand behind the live one, because the server has refused one for its length.
    stands_alone: bool,
    /// The most model calls for the whole draft.
    max_calls: usize,
}

/// The progress of a pruning agent.
#[derive(Clone, Debug, PartialEq)]
enum PruningAgentState {
    /// No agent is asked.
    None,
    /// The agent was not asked yet.
    Fresh,
    /// The agent is being asked, or has answered everything.
    Asked(PruningProgress),
}

/// The replacement of one part of the conversation.
#[derive(Clone, Debug, PartialEq)]
struct DraftSection {
    /// The operation that gets the text.
    op: usize,
    messages: u64,
    handles: Vec<LogHandle>,
    /// The most that the summary may have, in tokens.
    limit_tokens: u64,
    /// The least room of an extract in place of the summary, in tokens; the extract fills the room. `None`:
    /// the summary's limit, and a brief extract.
    extract_tokens: Option<u64>,
    /// The most that the pinned facts above the summary may have, in tokens; 0 for none.
    ledger_tokens: u64,
    /// The pinned facts, once rendered.
    ledger: Option<String>,
    /// The summaries that models wrote of earlier parts and that are dropped with the section.
    earlier: EarlierSummary,
    work: SectionProgress,
}

/// The progress of a section's summary.
#[derive(Clone, Debug, PartialEq)]
enum SectionProgress {
    /// No model was asked yet.
    Fresh,
    /// A model reads the section piece by piece.
    Reading {
        pieces: Vec<String>,
        next: usize,
        so_far: Option<String>,
        /// The pieces for which the model gave no usable summary.
        given_up: Vec<usize>,
    },
    /// The summary is written, by a model or by a hook.
    Written(String),
    /// No model can write the summary.
    Extracted,
}

/// The reason why a summary is not committed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SummaryRejection {
    /// The answer was cut off, or is no plain text.
    #[error("the model's answer was rejected as a summary: {0}")]
    Incomplete(&'static str),
    /// The summary is too long: the view would not be under the trigger.
    #[error("with this summary the request would have {tokens} tokens, the limit is {limit}")]
    TooLong {
        /// The bound of the request with the summary.
        tokens: u64,
        /// The trigger, or the size before.
        limit: u64,
    },
    /// The view has changed since the draft was made.
    #[error("the view has changed since the summary was asked for")]
    Stale,
}

impl SummaryRejection {
    /// Returns whether a pruning agent's answer has another form than the requested JSON. The agent's model may be
    /// unable to write JSON.
    pub fn is_other_form(&self) -> bool {
        matches!(self, Self::Incomplete(NO_JSON | OTHER_JSON))
    }
}

impl SummaryDraft {
    /// Returns the newest position of the log that the compaction touches; `None` if the compaction touches nothing.
    pub fn last_position(&self) -> Option<Seq> {
        self.edit.ops.iter().map(|op| op.range().to).max()
    }

    /// Makes a request behind the live one end where the dropped part ends. A view that has outgrown the window can be
    /// summarised in this way, too, as far as the server has read it before.
    pub fn end_requests_at_cut(&mut self) {
        self.ends_at_cut = true;
    }

    /// Keeps later requests from standing behind the live one. They show the dropped part alone.
    pub(crate) fn stand_alone(&mut self) {
        self.stands_alone = true;
    }

    /// Creates a draft; `None` if the rest of the view, with summaries of a useful size, would not be under
    /// the trigger.
    pub(super) fn new(context: &PlanContext<'_>, selection: &CompactionSelection) -> Option<Self> {
        let (asked, messages, ledger_tokens) = match selection.replacement {
            UnitReplacement::Note => return None,
            UnitReplacement::Summary { tokens } | UnitReplacement::Pruned { tokens } => {
                (tokens, usize::MAX, 0)
            }
            UnitReplacement::Chapters { tokens, messages } => (tokens, messages.max(1), 0),
            UnitReplacement::Ledger { ledger_tokens, tokens }
            | UnitReplacement::Extract { ledger_tokens, tokens } => (tokens, usize::MAX, ledger_tokens),
        };
        let chapters = chapters(context, &selection.dropped, messages);
        let floor = context.after_selection(selection, TokensByScript::default());
        // The writer's answer has no more room than the reserve, whatever the strategy asks for.
        let most = asked.min(context.budget.usable / 6).min(context.budget.reserve);
        // All chapters have one limit, because the room below the trigger is shared.
        let limit = summary_limit(context, selection, chapters.len() as u64, ledger_tokens, most)?;
        // Quotes of the user go first: an extract fills half of the room that the quotes leave.
        let quoted = context.user_text_bound(
            &selection.dropped,
            floor.bound()
                + limit * chapters.len() as u64
                + ledger_tokens
                + order_list_tokens(context)
                + context.quoted_system_tokens(&selection.dropped),
        );
        let room = extract_room(context, floor.bound() + quoted, chapters.len() as u64);
        // An extract below pinned facts stays brief, because the facts have filled the room already.
        let extract_tokens = (ledger_tokens == 0).then(|| limit.max(room));
        let (mut ops, mut sections) = (Vec::new(), Vec::new());
        for units in &chapters {
            let dropped = units.as_slice();
            // One summary covers all runs of the section. It stands in the place of the first run.
            let mut place = Some(ops.len());
            for range in context.units.runs(dropped) {
                match place.take() {
                    Some(op) => {
                        sections.push(DraftSection {
                            op,
                            messages: context.units.messages_in(dropped),
                            handles: context.handles(dropped),
                            limit_tokens: limit,
                            extract_tokens,
                            ledger_tokens,
                            ledger: None,
                            earlier: EarlierSummary::in_units(context, dropped),
                            work: SectionProgress::Fresh,
                        });
                        ops.push(ViewOperation::Replace { range, parts: Vec::new(), summary: true });
                    }
                    None => ops.push(ViewOperation::Drop { range }),
                }
            }
        }
        ops.extend(context.ops_in_place(selection));
        let dropped = context.units.messages_in(&selection.dropped);
        let kept = context.messages() - dropped + sections.len() as u64;
        let making = context.policy.prices.filter(TokenPrices::are_known).map_or(0.0, |prices| {
            prices.riding(context.before, 0, limit, !context.history.is_cold(prices.cache_life_ms))
        });
        let why =
            context.reasoned(String::new(), &selection.why, &floor, context.first_touched(selection), making);
        let name = context.policy.strategy.name();
        let edit = context.view_edit(ops, EditKind::Compaction, name, &floor, kept, why);
        let instructions = match context.trigger {
            PlanTrigger::Requested { instructions } => instructions.clone(),
            _ => None,
        };
        Some(Self {
            increment: TokenIncrement::of(context.history),
            subject: subject(context.history.view(), &edit.ops),
            writer: context.policy.writer,
            prices: context.policy.prices.filter(TokenPrices::are_known),
            // Without prices nothing says how long the cache lives, so it counts as warm.
            cache_is_warm: !context
                .history
                .is_cold(context.policy.prices.map_or(u64::MAX, |p| p.cache_life_ms)),
            usage: None,
            agent: if matches!(selection.replacement, UnitReplacement::Pruned { .. }) {
                PruningAgentState::Fresh
            } else {
                PruningAgentState::None
            },
            fixed_tokens: context.fixed_tokens,
            may_go: selection.dropped.clone(),
            is_given: false,
            counted_tokens: context.counted(),
            system_message_tokens: context.system_message_tokens.get(),
            user_text_share: context.policy.user_text_share,
            has_recall: context.history.has_recall(),
            complaint: None,
            refused: Vec::new(),
            material: Arc::default(),
            ends_at_cut: false,
            stands_alone: false,
            max_calls: context.policy.max_summary_calls.max(1),
            edit,
            sections,
            floor,
            instructions,
        })
    }

    /// Returns the number of tokens by which the view gets shorter if the summaries are as long as they may be.
    pub fn savings_tokens(&self) -> u64 {
        let written: u64 =
            self.sections.iter().map(|section| section.limit_tokens + section.ledger_tokens).sum();
        self.edit.original_tokens.saturating_sub(self.floor.total + written)
    }

    /// Returns the name of the strategy that made the draft.
    pub fn strategy(&self) -> &str {
        &self.edit.strategy
    }

    /// Returns the cause of the compaction.
    pub fn reason(&self) -> EditReason {
        self.edit.reason
    }

    /// Returns the trigger that fired, in tokens.
    pub fn trigger_tokens(&self) -> u64 {
        self.edit.trigger_tokens
    }

    /// Returns the size of the request before the compaction, in tokens.
    pub fn original_tokens(&self) -> u64 {
        self.edit.original_tokens
    }

    /// Returns the size of the request before the compaction, in tokens, with the expected error.
    pub fn original_bound(&self) -> u64 {
        self.edit.original_bound
    }

    /// Returns the size of the request after the compaction with everything but the summary, in tokens.
    pub fn floor_tokens(&self) -> u64 {
        self.floor.total
    }

    /// Returns the most that the summaries together may have, in tokens.
    pub fn limit_tokens(&self) -> u64 {
        self.sections.iter().map(|section| section.limit_tokens).sum()
    }

    /// Returns the most that the pinned facts above the summaries may have, in tokens; 0 where there are none.
    pub fn ledger_tokens(&self) -> u64 {
        self.sections.iter().map(|section| section.ledger_tokens).sum()
    }

    /// Returns the number of dropped messages, and their handles.
    pub fn what_goes(&self) -> (u64, Vec<LogHandle>) {
        let handles = self.sections.iter().flat_map(|section| section.handles.iter().copied()).collect();
        (self.sections.iter().map(|section| section.messages).sum(), handles)
    }

    /// Returns the number of tool results that the edit also clears.
    pub fn cleared_results(&self) -> u64 {
        self.edit.ops.iter().filter(|op| matches!(op, ViewOperation::Placeholder { .. })).count() as u64
    }

    /// Returns the usage of the model calls so far.
    pub fn usage(&self) -> Option<&Usage> {
        self.usage.as_ref()
    }

    /// Returns the usage of the model calls so far and forgets it: the caller stores the usage.
    pub(crate) fn take_usage(&mut self) -> Option<Usage> {
        self.usage.take()
    }

    /// Returns the user's instructions for the summary.
    pub fn instructions(&self) -> Option<&str> {
        self.instructions.as_deref()
    }

    /// Adds instructions for the summary.
    pub fn instruct(&mut self, more: &str) {
        self.instructions = Some(match self.instructions.take() {
            Some(old) => format!("{old}\n{more}"),
            None => more.to_owned(),
        });
    }

    /// Takes an answer to the newest request. [`request`](Self::request) returns another request if one is needed.
    ///
    /// An answer that [`check_summary`] refuses is asked for once more. Some summaries consist of several answers. If
    /// the second attempt at one of them is also refused, an extract replaces that part, and the other answers are
    /// kept.
    ///
    /// # Errors
    /// [`SummaryRejection::Incomplete`] if the only answer is no complete text, or if none of several answers is.
    pub fn take(&mut self, answer: ModelAnswer) -> Result<(), SummaryRejection> {
        // A refused answer was paid for too.
        if let Some(usage) = answer.usage.clone() {
            self.spend(usage);
        }
        let taken = complete_text(&answer).and_then(|text| match &mut self.agent {
            PruningAgentState::Asked(pruning) => pruning.take(&text),
            _ => {
                let text = self.checked(&text)?;
                self.keep_earlier_beside(&text);
                self.take_text(text);
                Ok(())
            }
        });
        match taken {
            Ok(()) => self.complaint = None,
            Err(why) => refuse(self, why)?,
        }
        Ok(())
    }

    /// Returns the summary in an answer to the newest request, by [`check_summary`].
    fn checked(&self, text: &str) -> Result<String, &'static str> {
        let Some(at) = self.sections.iter().position(|section| !section.is_done()) else {
            return Ok(text.to_owned());
        };
        let section = &self.sections[at];
        // The mark looks like an identifier, and the check would count it among the names of the conversation.
        let mark = format!(" {}>", self.mark());
        let (material, earlier) = match &section.work {
            SectionProgress::Reading { pieces, next, so_far, .. } => {
                let so_far = so_far.as_deref().unwrap_or_default();
                (format!("{}\n{so_far}", pieces[*next].replace(&mark, ">")), so_far)
            }
            // An earlier summary that the new one does not continue stays beside the new one.
            _ => (self.material.to_string(), ""),
        };
        let replaced = SummaryCheckInput {
            material: &material,
            earlier,
            order: &self.order(at),
            limit_tokens: section.limit_tokens,
            wants_headings: true,
        };
        check_summary(text, &replaced, &|text| self.increment.text(text)).map_err(SummaryDefect::as_str)
    }

    /// Keeps an earlier summary beside a text that does not continue it, in no more room than a summary has.
    fn keep_earlier_beside(&mut self, text: &str) {
        let Some(section) = self.sections.iter_mut().find(|section| !section.is_done()) else { return };
        if !section.earlier.is_carried_by(text) {
            section.earlier = std::mem::take(&mut section.earlier).kept();
            section.earlier.limit(section.limit_tokens);
        }
    }

    fn take_text(&mut self, text: String) {
        let Some(at) = self.sections.iter().position(|section| !section.is_done()) else { return };
        let work = match std::mem::replace(&mut self.sections[at].work, SectionProgress::Extracted) {
            SectionProgress::Reading { pieces, next, given_up, .. } if next + 1 < pieces.len() => {
                SectionProgress::Reading { pieces, next: next + 1, so_far: Some(text), given_up }
            }
            SectionProgress::Reading { pieces, given_up, .. } if !given_up.is_empty() => {
                SectionProgress::Written(with_pieces(self, at, text, &pieces, &given_up))
            }
            _ => SectionProgress::Written(text),
        };
        self.sections[at].work = work;
    }

    /// Refuses the answer to the newest request; `why` as in [`SummaryRejection::Incomplete`].
    ///
    /// # Errors
    /// The errors of [`take`](Self::take).
    pub fn reject(&mut self, why: &'static str) -> Result<(), SummaryRejection> {
        refuse(self, why)
    }

    /// Adds the usage of a call that gave no summary.
    pub fn spend(&mut self, usage: Usage) {
        match &mut self.usage {
            Some(sum) => sum.add(&usage),
            None => self.usage = Some(usage),
        }
    }
}

/// Returns the whole text of an answer that contains only text; else the reason why it is unusable.
fn complete_text(answer: &ModelAnswer) -> Result<String, &'static str> {
    if answer.parts.iter().any(|part| matches!(part, Part::ToolCall(_))) {
        return Err(SummaryDefect::ToolCall.as_str());
    }
    if answer.finish != ModelStopReason::Stop {
        return Err(SummaryDefect::CutOff.as_str());
    }
    let answered: String = answer.parts.iter().filter_map(Part::as_text).collect();
    let text = check::without_thoughts(&answered);
    // Models imitate the mark of summaries that they were shown.
    let text = text.trim().trim_start_matches(MARK).trim();
    match (text.is_empty(), answered.trim().is_empty()) {
        (true, true) => Err(SummaryDefect::Empty.as_str()),
        (true, false) => Err(SummaryDefect::OnlyThoughts.as_str()),
        (false, _) => Ok(defused(text)),
    }
}

/// Returns a text with all summary marks and titles of the program disarmed. Quoted text and text of a model cannot pose
/// as another summary then, nor as the user's words or standing orders.
pub(super) fn defused(text: &str) -> String {
    super::earlier_summary::without_marks(&text.replace(MARK, "[summary]"))
}

/// Returns the units of each section: all dropped units, or runs of at most so many messages.
fn chapters(context: &PlanContext<'_>, dropped: &[bool], messages: usize) -> Vec<Vec<bool>> {
    if messages == usize::MAX {
        return vec![dropped.to_vec()];
    }
    // Each chapter takes at least one call, so there must not be more chapters than calls.
    // Half of the calls are left for chapters that are read in several pieces.
    let most = (context.policy.max_summary_calls / 2).max(1);
    let messages = messages.max((context.units.messages_in(dropped) as usize).div_ceil(most));
    let mut chapters: Vec<Vec<bool>> = Vec::new();
    let mut room = 0;
    for (at, unit) in context.units.iter().enumerate() {
        if !dropped[at] {
            room = 0;
            continue;
        }
        if room == 0 {
            chapters.push(vec![false; dropped.len()]);
            room = messages;
        }
        if let Some(chapter) = chapters.last_mut() {
            chapter[at] = true;
        }
        room = room.saturating_sub(unit.items.len());
    }
    chapters
}

/// Returns the room of each of `count` summaries, at most `limit`. The room is smaller where less fits under the
/// trigger, and `None` where a summary would be too short to say anything.
fn summary_limit(
    context: &PlanContext<'_>,
    selection: &CompactionSelection,
    count: u64,
    ledger: u64,
    limit: u64,
) -> Option<u64> {
    let ceiling = context.threshold_tokens.min(context.before);
    let beside = ledger + order_list_tokens(context) + context.quoted_system_tokens(&selection.dropped);
    std::iter::successors(Some(limit), |limit| Some(limit * 3 / 4))
        .take_while(|tried| *tried >= LEAST_TOKENS.min(limit))
        .find(|limit| {
            let added = TokensByScript::of(beside + count * (limit + HEADER_TOKENS));
            context.after_selection(selection, added).bound() < ceiling
        })
}

/// Returns the size of the list of standing orders with ids and marks, in tokens.
fn order_list_tokens(context: &PlanContext<'_>) -> u64 {
    const ITEM_TOKENS: u64 = 8;
    let count = context.history.orders().count() as u64;
    let own = if count == 0 { 0 } else { context.history.order_tokens() + (count + 2) * ITEM_TOKENS };
    if context.history.imported_summaries().is_empty() {
        return own;
    }
    own.max(context.history.counter().text(&standing_orders(context.history)))
}

/// Returns the room of an extract in the place of each of `count` summaries. The room is half of the distance between
/// the kept messages and the edit's target, so that the next compaction is not due at once.
fn extract_room(context: &PlanContext<'_>, floor_bound: u64, count: u64) -> u64 {
    let ceiling = context.threshold_tokens.min(context.before);
    let half = ceiling.saturating_sub(floor_bound) / 2;
    let increment = TokenIncrement::of(context.history);
    let most = (half / count.max(1)).saturating_sub(HEADER_TOKENS);
    std::iter::successors(Some(most), |room| Some(room * 7 / 8))
        .take_while(|room| *room > 0)
        .find(|room| increment.bound(&TokensByScript::of(count * (room + HEADER_TOKENS))) <= half)
        .unwrap_or(0)
}

/// Names the items that operations touch, in their present form.
fn subject(view: &[ViewItem], ops: &[ViewOperation]) -> String {
    let mut ranges: Vec<_> = ops.iter().map(ViewOperation::range).collect();
    // Operations of clears stand behind those of ranges, and the search below needs them in the order of the log.
    ranges.sort_unstable();
    let touched = view.iter().filter(|item| {
        let first = ranges.partition_point(|range| range.to < item.range.from);
        ranges.get(first).is_some_and(|range| range.overlaps(&item.range))
    });
    crate::history::hash_of(touched)
}
