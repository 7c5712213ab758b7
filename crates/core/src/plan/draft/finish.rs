//! The edit that a draft becomes.

use std::borrow::Cow;
use std::sync::Arc;

use super::super::documents::shortened_groups;
use super::super::imported_summary::standing_orders;
use super::super::{PlanContext, earlier_summary, messages_in_words};
use super::{
    DraftSection, MARK, PruningAgentState, SectionProgress, SummaryDraft, SummaryRejection, agent, defused,
    subject,
};
use crate::estimate::TokensByScript;
use crate::event::{EditKind, SummaryCheck, ViewEdit, ViewOperation};
use crate::history::{History, ViewItem, ViewItemKind};
use crate::ids::{EditId, LogHandle};
use crate::message::{Message, Part};
use crate::meter::MeterReading;
use crate::retention::system_messages::SystemMessages;
use crate::retention::user_text::{UserText, user_room};
use crate::usage::Usage;

/// The sizes that are tried where extracts are too long beside an earlier summary: shares of the pinned facts and of
/// that summary, in quarters. The pinned facts are shortened first, the summary last.
const SHORTER: [(u64, u64); 5] = [(2, 4), (0, 4), (0, 2), (0, 1), (0, 0)];

impl SummaryDraft {
    /// Returns the draft with a summary that a hook or a strategy supplies.
    ///
    /// # Errors
    /// [`SummaryRejection`] if the text says nothing or is too long.
    pub fn given(&self, text: &str, history: &History) -> Result<Self, SummaryRejection> {
        let text = text.trim().trim_start_matches(MARK).trim();
        if text.is_empty() {
            return Err(SummaryRejection::Incomplete("it is empty"));
        }
        let mut given = Self { agent: PruningAgentState::None, is_given: true, ..self.clone() };
        // The text covers all sections. Later sections have only their handles.
        let mut text = Some(defused(text));
        for section in &mut given.sections {
            let text = text.take().unwrap_or_default();
            if !section.earlier.is_carried_by(&text) {
                section.earlier = std::mem::take(&mut section.earlier).kept();
            }
            section.work = SectionProgress::Written(text);
        }
        given.fitted(&given.edit, &given.floor, history)?;
        Ok(given)
    }

    /// Returns the edit with empty summaries: the part that is certain before any summary is written.
    ///
    /// # Errors
    /// [`SummaryRejection`] as [`finish`](Self::finish).
    pub fn finish_bare(&self, history: &History) -> Result<ViewEdit, SummaryRejection> {
        let mut bare = Self { agent: PruningAgentState::None, is_given: true, ..self.clone() };
        bare.sections.iter_mut().for_each(|section| section.work = SectionProgress::Written(String::new()));
        bare.finish(history)
    }

    /// Adds to the edit's reason.
    pub fn say(&mut self, more: &str) {
        self.edit.why.push_str(&format!("; {more}"));
    }

    /// Renders the pinned facts in advance, so that no work is left when the draft is committed.
    pub fn make_ledgers(&mut self, history: &History) {
        for section in &mut self.sections {
            section.ledger = Some(section.ledger(history));
        }
    }

    /// Returns whether every summary of the draft is written.
    pub fn is_written(&self) -> bool {
        if let PruningAgentState::Asked(pruning) = &self.agent {
            return pruning.is_done();
        }
        self.sections.iter().all(DraftSection::is_done)
    }

    /// Returns the edit with summaries, and with extracts where no model wrote a summary.
    ///
    /// # Errors
    /// [`SummaryRejection`] if a summary is too long, or the view has changed meanwhile.
    pub fn finish(&self, history: &History) -> Result<ViewEdit, SummaryRejection> {
        // The operations are valid only for the view that the draft was made from.
        if history.view_hash() != self.edit.base_view_hash {
            return Err(SummaryRejection::Stale);
        }
        match &self.agent {
            PruningAgentState::Asked(pruning) if pruning.is_done() => agent::pruned(self, pruning, history),
            _ => self.fitted(&self.edit, &self.floor, history),
        }
    }

    /// Returns the edit with extracts only.
    ///
    /// # Errors
    /// [`SummaryRejection`] if even that is too long, or the view has changed meanwhile.
    pub fn finish_extractive(&self, history: &History) -> Result<ViewEdit, SummaryRejection> {
        if history.view_hash() != self.edit.base_view_hash {
            return Err(SummaryRejection::Stale);
        }
        let mut bare = self.clone();
        bare.is_given = false;
        bare.sections.iter_mut().for_each(|section| section.work = SectionProgress::Extracted);
        bare.fitted(&self.edit, &self.floor, history)
    }

    /// Returns whether the draft became `edit`.
    pub fn became(&self, edit: &ViewEdit) -> bool {
        let ranges = edit.ops.iter().map(ViewOperation::range);
        // Ids and sizes change when a draft is committed to a later view. Strategy and ranges do not.
        edit.strategy == self.edit.strategy && ranges.eq(self.edit.ops.iter().map(ViewOperation::range))
    }

    /// Returns whether the view still shows the messages of the draft unchanged.
    pub fn is_about(&self, view: &[ViewItem]) -> bool {
        subject(view, &self.edit.ops) == self.subject
    }

    /// Returns the edit for the present view, if the messages of the draft are unchanged and none of them is protected
    /// now. Summaries that are not written yet have an extract in their place, which is [swapped](Self::swapped) later.
    pub(in crate::plan) fn rebased(&self, context: &PlanContext<'_>) -> Option<ViewEdit> {
        let view = context.history.view();
        if !self.is_about(view) {
            return None;
        }
        if !self.is_written() {
            // No step waits for a background summary (decision 0016): an extract takes its place until the text is
            // there.
            return self.unwritten().rebased(context);
        }
        let is_extract = self.sections.iter().all(|section| section.work == SectionProgress::Extracted);
        let how = if is_extract { "the summary is on its way" } else { "written ahead" };
        let dropped = context.units.iter().map(|unit| {
            let mut ops = self.edit.ops.iter().filter(|op| !matches!(op, ViewOperation::Placeholder { .. }));
            ops.any(|op| op.range().overlaps(&unit.range))
        });
        let dropped: Vec<bool> = dropped.collect();
        let mut kept = dropped.clone();
        context.protect(&mut kept);
        // A part that an undo has pinned since, or the newest typed message, must stay.
        if kept != dropped {
            return None;
        }
        let cleared = view.iter().enumerate().filter(|(_, item)| {
            let from = item.range.from;
            self.edit
                .ops
                .iter()
                .any(|op| matches!(op, ViewOperation::Placeholder { seq, .. } if *seq == from))
        });
        let cleared: Vec<usize> = cleared.map(|(at, _)| at).collect();
        let excerpts = self.excerpt_tokens(context.history);
        let floor = context.reading(|unit| !dropped[unit], &cleared, excerpts);
        let messages = context.messages() - context.units.messages_in(&dropped) + self.sections.len() as u64;
        let edit = context.view_edit(
            self.edit.ops.clone(),
            EditKind::Compaction,
            &self.edit.strategy,
            &floor,
            messages,
            format!("{}; {how}", self.edit.why),
        );
        let edit = self.fitted(&edit, &floor, context.history).ok()?;
        context.may_commit(&edit).then_some(edit)
    }

    /// Returns the tokens of the typed messages that the edit shows by their beginning and their end.
    fn excerpt_tokens(&self, history: &History) -> TokensByScript {
        let excerpts = self.edit.ops.iter().filter_map(|op| match op {
            ViewOperation::Placeholder { seq, excerpt, cut: true } => {
                Some(shortened_groups(history, *seq, excerpt))
            }
            _ => None,
        });
        excerpts.sum()
    }

    /// Returns the draft with extracts only, and without usage or refusals.
    pub fn unwritten(&self) -> Self {
        let mut bare = Self {
            agent: PruningAgentState::None,
            is_given: false,
            refused: Vec::new(),
            usage: None,
            ..self.clone()
        };
        bare.sections.iter_mut().for_each(|section| section.work = SectionProgress::Extracted);
        bare
    }

    /// Returns whether the next request would have to show the dropped messages. That is impossible once an extract
    /// stands in their place.
    pub fn needs_view(&self) -> bool {
        self.sections.iter().any(|section| section.work == SectionProgress::Fresh)
    }

    /// Returns whether the view still shows the extracts of `edit`, which stood in for the summaries.
    pub fn is_stood_in_by(&self, edit: &EditId, view: &[ViewItem]) -> bool {
        let kind = ViewItemKind::Summary(edit.clone());
        self.sections.iter().all(|section| {
            let range = self.edit.ops.get(section.op).map(ViewOperation::range);
            view.iter().any(|item| item.kind == kind && Some(item.range) == range)
        })
    }

    /// Returns the edit that replaces the extracts of `stand_in` by the summaries; `None` if the view has changed
    /// there, or if the summaries do not fit.
    pub(in crate::plan) fn swapped(&self, stand_in: &EditId, context: &PlanContext<'_>) -> Option<ViewEdit> {
        let is_extract = self.sections.iter().all(|section| section.work == SectionProgress::Extracted);
        if !self.is_written() || is_extract || !self.is_stood_in_by(stand_in, context.history.view()) {
            return None;
        }
        let mut draft = self.clone();
        let mut ops = Vec::new();
        for section in &mut draft.sections {
            ops.push(self.edit.ops.get(section.op)?.clone());
            section.op = ops.len() - 1;
        }
        let units = context.units.iter();
        let dropped: Vec<bool> = units.map(|unit| ops.iter().any(|op| op.range() == unit.range)).collect();
        let floor = context.after_dropping(&dropped, &[], 0);
        let why = format!("; an extract stood in its place until now{}", self.edit.why);
        let name = &self.edit.strategy;
        let edit = context.view_edit(ops, EditKind::Compaction, name, &floor, context.messages(), why);
        let edit =
            // A summary may be longer than its extract, so the present size is no limit here.
            draft.filled_below(edit, &floor, context.history, context.threshold.tokens.min(context.budget.usable));
        edit.ok()
    }

    /// Returns the edit with all texts. Extracts that are too long are made shorter.
    fn fitted(
        &self,
        edit: &ViewEdit,
        floor: &MeterReading,
        history: &History,
    ) -> Result<ViewEdit, SummaryRejection> {
        let mut filled = self.filled(edit.clone(), floor, history);
        // A half and a quarter of the surplus are tried, then none, which leaves the length of a summary.
        for share in [2, 4, 0] {
            if filled.is_ok() || !self.sections.iter().any(DraftSection::has_roomy_extract) {
                break;
            }
            let mut shorter = self.clone();
            for section in &mut shorter.sections {
                let limit = section.limit_tokens;
                section.extract_tokens = section
                    .extract_tokens
                    .map(|room| limit + room.saturating_sub(limit).checked_div(share).unwrap_or(0));
            }
            filled = shorter.filled(edit.clone(), floor, history);
        }
        for (ledger_share, earlier_share) in SHORTER {
            if filled.is_ok() || !self.sections.iter().any(|section| !section.earlier.text().is_empty()) {
                break;
            }
            filled = self.with_shares(ledger_share, earlier_share).filled(edit.clone(), floor, history);
        }
        filled
    }

    /// Returns the draft with shorter texts: so many quarters of its pinned facts and of the earlier summaries.
    /// Extracts are no longer than summaries.
    fn with_shares(&self, ledger_share: u64, earlier_share: u64) -> Self {
        let mut shorter = self.clone();
        for section in &mut shorter.sections {
            section.extract_tokens = section.extract_tokens.map(|_| section.limit_tokens * ledger_share / 4);
            section.ledger_tokens = section.ledger_tokens * ledger_share / 4;
            section.ledger = None;
            if section.ledger_tokens == 0 {
                section.limit_tokens = section.limit_tokens * ledger_share / 4;
            }
            section.earlier.limit(section.earlier.shown_tokens() * earlier_share / 4);
        }
        if shorter.sections.iter().any(|section| section.earlier.is_shortened()) {
            shorter.edit.why.push_str(earlier_summary::SHORTENED);
        }
        shorter
    }

    /// Returns the edit with all texts, below the trigger and the size before.
    pub(super) fn filled(
        &self,
        edit: ViewEdit,
        floor: &MeterReading,
        history: &History,
    ) -> Result<ViewEdit, SummaryRejection> {
        let limit = edit.trigger_tokens.min(edit.original_bound);
        self.filled_below(edit, floor, history, limit)
    }

    /// Returns the edit with all texts and with as many quotes of the user as fit below `limit` tokens.
    fn filled_below(
        &self,
        mut edit: ViewEdit,
        floor: &MeterReading,
        history: &History,
        limit: u64,
    ) -> Result<ViewEdit, SummaryRejection> {
        let no_quotes = vec![String::new(); self.sections.len()];
        let bare = self.rendered(&no_quotes, history, false);
        let mut added = self.added(&bare);
        let mut bound = self.bound_of(floor, &added);
        if bound >= limit {
            return Err(SummaryRejection::TooLong { tokens: bound, limit });
        }
        let mut texts = bare;
        // Quotes of the user take a share of the rest, and less where the estimate of a share is too low.
        let quotes: Vec<Arc<UserText>> =
            self.sections.iter().map(|section| history.user_text_of(&section.handles)).collect();
        let orders: u64 = quotes.iter().map(|quote| quote.order_tokens()).sum();
        // Quotes come last: a summary without quotes is better than none.
        let mut room = user_room(limit - bound, limit, self.user_text_share, orders);
        // Standing orders come before the names and facts of an extract, which the log gives again.
        let standing: u64 = quotes.iter().map(|quote| quote.standing_order_tokens()).sum();
        let quotes_only = room < standing && self.sections.iter().any(|section| section.is_extract());
        if quotes_only {
            let spare = self.bound_of(floor, &self.added(&self.rendered(&no_quotes, history, true)));
            room = user_room(limit.saturating_sub(spare), limit, self.user_text_share, orders);
        }
        while room > 0 && quotes.iter().any(|quote| !quote.is_empty()) {
            let quoted = self.quoted(&quotes, room, history, quotes_only);
            let with_quotes = self.added(&quoted);
            if self.bound_of(floor, &with_quotes) < limit {
                (texts, added) = (quoted, with_quotes);
                bound = self.bound_of(floor, &added);
                break;
            }
            room = room * 3 / 4;
        }
        for (section, text) in self.sections.iter().zip(texts) {
            if let Some(ViewOperation::Replace { parts, .. }) = edit.ops.get_mut(section.op) {
                *parts = vec![Part::text(text)];
            }
        }
        let tokens = floor.total + self.increment.tokens(&added);
        edit.compressed_tokens = tokens;
        edit.compressed_bound = bound;
        edit.why = format!("{}{}", self.what_was_done(), edit.why);
        // A set usage marks the edit as a model's work, even if the server reported none.
        edit.usage = self.usage.clone().or_else(|| self.is_by_model().then(Usage::default));
        edit.summary = self.check_outcome();
        Ok(edit)
    }

    /// Returns the text of each section with quotes of the user, in at most `room` tokens together. Each section gets
    /// its share.
    fn quoted(
        &self,
        quotes: &[Arc<UserText>],
        room: u64,
        history: &History,
        quotes_only: bool,
    ) -> Vec<String> {
        let whole: Vec<u64> = quotes.iter().map(|quote| quote.whole_tokens()).collect();
        // A divisor below: a draft may have nothing to quote.
        let all = whole.iter().sum::<u64>().max(1);
        let texts = quotes.iter().zip(whole).map(|(quote, tokens)| {
            // The product of two token counts may exceed 64 bits.
            let share = u128::from(room) * u128::from(tokens) / u128::from(all);
            quote.fit(share as u64)
        });
        self.rendered(&texts.collect::<Vec<_>>(), history, quotes_only)
    }

    /// Returns the text of each section with the quotes of the user. Each section quotes its system messages, and the
    /// last section lists the standing orders. With `quotes_only` extracts have no other text than open todos and files.
    fn rendered(&self, quotes: &[String], history: &History, quotes_only: bool) -> Vec<String> {
        let last = self.sections.len().saturating_sub(1);
        let sections = self.sections.iter().zip(quotes).enumerate();
        let texts = sections.map(|(at, (section, quote))| {
            let orders = if at == last { standing_orders(history) } else { String::new() };
            let standing = self.standing_text(history, orders, &section.handles);
            // A hook speaks for the user, and a model may invent.
            let section =
                if self.is_given { Cow::Borrowed(section) } else { section.with_checked_rules(history) };
            section.render(history, &standing, quote, quotes_only)
        });
        texts.collect()
    }

    /// Returns the list of standing `orders` with the system messages behind `handles` below it. Each message has the
    /// room that it has if the draft quotes all of its system messages.
    pub(super) fn standing_text(&self, history: &History, orders: String, handles: &[LogHandle]) -> String {
        if history.system_messages().is_empty() {
            return orders;
        }
        let (_, all) = self.what_goes();
        let each = SystemMessages::of(history, &all).share(self.system_message_tokens);
        let messages = SystemMessages::of(history, handles).list(each);
        let texts = [orders.trim_end(), messages.trim_end()];
        texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
    }

    /// Returns the tokens that the texts add to the request.
    fn added(&self, texts: &[String]) -> TokensByScript {
        let messages = texts.iter().map(|text| Message::user("", vec![Part::text(text.as_str())]));
        messages.map(|message| self.increment.groups(&message)).sum()
    }

    /// Returns the bound of the request with `added` tokens beside all messages that stay.
    fn bound_of(&self, floor: &MeterReading, added: &TokensByScript) -> u64 {
        floor.bound() + self.increment.bound(added) + self.sections.len() as u64
    }

    /// Returns the outcome of the check of the model's answers; `None` if the model gave no answer.
    pub(super) fn check_outcome(&self) -> Option<SummaryCheck> {
        let is_pruned = matches!(&self.agent, PruningAgentState::Asked(pruning) if pruning.is_done());
        let checked = self.is_by_model() || is_pruned;
        let reasons = self.refused.iter().map(|why| (*why).to_owned()).collect();
        (checked || !self.refused.is_empty()).then_some(SummaryCheck { checked, reasons })
    }

    /// Returns whether a model has written any part of the draft.
    pub(super) fn is_by_model(&self) -> bool {
        !self.is_given
            && self.sections.iter().any(|section| matches!(section.work, SectionProgress::Written(_)))
    }

    /// Returns the action in words: the number of messages, and their replacement.
    pub(super) fn what_was_done(&self) -> String {
        let (count, _) = self.what_goes();
        let written = self
            .sections
            .iter()
            .filter(|section| matches!(section.work, SectionProgress::Written(_)))
            .count();
        let by = match (written, self.sections.len()) {
            _ if self.is_given => "what the hook says".to_owned(),
            (0, 1) => "an extract without a model".to_owned(),
            (1, 1) => "a summary by the model".to_owned(),
            (0, all) => format!("{all} extracts without a model"),
            (written, all) if written == all => format!("{all} summaries by the model"),
            (written, all) => format!("{written} summaries by the model and {} extracts", all - written),
        };
        format!("{} replaced by {by}", messages_in_words(count))
    }
}
