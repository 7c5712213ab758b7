//! Documents that a user has typed or pasted: an old one is cut to its beginning and end before it is dropped.
//!
//! A summary quotes little of a long message. Where the view has more room, a document keeps its place with as much text
//! as fits. A later edit may cut it further, and its handle leads to the whole.

use super::PlanContext;
use crate::estimate::TokensByScript;
use crate::history::{History, ViewItemKind, ViewUnitKind};
use crate::ids::Seq;
use crate::message::{Message, Part};
use crate::strategy::{CompactionSelection, ShortenedMessage};
use crate::truncate::{TextLimit, TruncationMode, shortened, truncate};

/// The smallest part of the usable room that makes a message a document: one in so many.
const DOCUMENT_SHARE: u64 = 16;

/// The least text of a document that is worth its place, in tokens. Quotes in the summary have a part of it anyway.
const MIN_EXCERPT_TOKENS: u64 = 400;

/// The room that stays for the note on the other dropped messages, in tokens.
const NOTE_TOKENS: u64 = 128;

/// Takes the dropped documents of the user back into a selection, the newest first, as far as the request stays
/// below `target` tokens. Those that do not fit whole are cut to their beginning and end.
pub(super) fn keep_documents(context: &PlanContext<'_>, selection: &mut CompactionSelection, target: u64) {
    let mut units: Vec<usize> =
        (0..selection.dropped.len()).filter(|unit| is_document(context, *unit, selection)).collect();
    let used = context.after_selection(selection, TokensByScript::of(NOTE_TOKENS)).bound();
    // New text may have up to an eighth more tokens than its estimate.
    let room = target.saturating_sub(used) * 8 / 9;
    // So many documents share the room that each of them says something. The newest stay.
    let most = (room / MIN_EXCERPT_TOKENS) as usize;
    units.drain(..units.len().saturating_sub(most));
    let each = water_level(units.iter().map(|unit| context.units[*unit].tokens).collect(), room);
    for unit in units {
        let item = context.units[unit].items.start;
        if context.units[unit].tokens > each {
            let Some(message) = shortened_message(context, item, each) else { continue };
            selection.shortened.push(message);
        }
        selection.dropped[unit] = false;
    }
    selection.shortened.sort_unstable_by_key(|message| message.item);
}

/// Returns whether a unit is an old document that a selection drops.
fn is_document(context: &PlanContext<'_>, unit: usize, selection: &CompactionSelection) -> bool {
    let item = &context.history.view()[context.units[unit].items.start];
    if !selection.dropped[unit]
        || context.units[unit].kind != ViewUnitKind::Typed
        || context.is_protected(unit)
    {
        return false;
    }
    let entry = context.history.entry(item.range.to);
    // A client's message can be rewritten as text alone, so its pictures would be lost.
    let has_only_text =
        entry.is_some_and(|entry| entry.message.parts.iter().all(|part| part.as_text().is_some()));
    if !context.policy.cuts_user_messages && !has_only_text {
        return false;
    }
    let is_imported = context.history.imported_summaries().contains(&item.range.from);
    item.kind == ViewItemKind::Typed && !is_imported && is_long_message(context, unit)
}

/// Returns whether the message of a unit is so long that it may be shown by its beginning and end.
pub(super) fn is_long_message(context: &PlanContext<'_>, unit: usize) -> bool {
    let item = &context.history.view()[context.units[unit].items.start];
    // A document that was cut before is still one.
    let whole = context.history.entry(item.range.to).map_or(0, |entry| entry.tokens());
    whole.max(item.tokens) >= MIN_EXCERPT_TOKENS.max(context.budget.usable / DOCUMENT_SHARE)
}

/// Returns the typed message at `item` in the view with its beginning and end in at most `most` tokens. `None` if the
/// text is not the long part of the message.
fn shortened_message(context: &PlanContext<'_>, item: usize, most: u64) -> Option<ShortenedMessage> {
    let entry = context.history.entry(context.history.view()[item].range.to)?;
    let texts: Vec<&str> = entry.message.parts.iter().filter_map(Part::as_text).collect();
    let limit = TextLimit { max_chars: u64::MAX, max_tokens: most };
    let cut = truncate(&texts.join("\n"), &limit, TruncationMode::Both, context.history.counter())?;
    if cut.kept.is_empty() {
        return None;
    }
    let excerpt = shortened(&cut, entry.seq, context.history.has_recall());
    let tokens = shortened_groups(context.history, entry.seq, &excerpt);
    Some(ShortenedMessage::new(item, excerpt, tokens))
}

/// Returns the tokens of the typed message at `seq` with `excerpt` in place of its text. Pictures and files stay.
pub(super) fn shortened_groups(history: &History, seq: Seq, excerpt: &str) -> TokensByScript {
    let entry = history.entry(seq);
    let others =
        entry.into_iter().flat_map(|entry| &entry.message.parts).filter(|part| part.as_text().is_none());
    let parts = [Part::text(excerpt)].into_iter().chain(others.cloned()).collect();
    history.counter().message_groups(&Message::user("", parts))
}

/// Returns the size at which half of the room below `target` is free. In tokens of the request.
pub(super) fn half_of_room(fixed_tokens: u64, target: u64) -> u64 {
    fixed_tokens + target.saturating_sub(fixed_tokens) / 2
}

/// Returns the most tokens of each text with which all have at most `room` together. Room that small texts leave goes to
/// the large ones.
pub(super) fn water_level(mut sizes: Vec<u64>, room: u64) -> u64 {
    sizes.sort_unstable();
    let (mut left, mut level) = (room, 0);
    for (at, size) in sizes.iter().enumerate() {
        level = left / (sizes.len() - at) as u64;
        if *size > level {
            return level;
        }
        left -= size;
    }
    level.max(sizes.last().copied().unwrap_or(0))
}
