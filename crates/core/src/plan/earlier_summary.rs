//! The summary that a model wrote earlier: no edit drops it. It stands word for word in what replaces its message, until a newer
//! summary has merged it.

use super::PlanContext;
use super::draft::{MARK, WRITTEN, carries};
use super::extract::{self, is_section_title};
use super::verbatim::shortened;
use crate::estimate::MessageTokenCounter;
use crate::history::{History, ViewItem, ViewItemKind};
use crate::retention::user_text;

/// The line above an earlier summary that an extract or a note carries on.
pub(super) const CARRIED: &str = "Earlier summary, as a model wrote it:";

/// The line below it.
const CARRIED_END: &str = "(end of the earlier summary)";

/// What an edit's reason says where an earlier summary is not whole.
pub(super) const SHORTENED: &str = "; the earlier summary was shortened to the room that was left";

/// What a model wrote of messages that went before.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EarlierSummary {
    text: String,
    /// Tokens of the text.
    tokens: u64,
    /// The most of it that is shown, in tokens.
    most_tokens: u64,
    /// Whether it stays beside another text.
    is_kept: bool,
}

impl EarlierSummary {
    /// Returns what models wrote in those of the items that are summaries or notes, in at most `most_tokens`.
    pub(super) fn of(history: &History, items: &[&ViewItem], most_tokens: u64) -> Self {
        let texts: Vec<String> = items.iter().filter_map(|item| written_in(history, item)).collect();
        let text = texts.join("\n\n");
        let tokens = history.counter().text(&text);
        Self { tokens, text, most_tokens: most_tokens.min(tokens), is_kept: false }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns how many tokens of it are shown at most.
    pub(super) fn shown_tokens(&self) -> u64 {
        self.most_tokens
    }

    /// Shows no more of it than so many tokens.
    pub(super) fn limit(&mut self, most_tokens: u64) {
        self.most_tokens = self.most_tokens.min(most_tokens);
    }

    /// The same, to stay beside another text.
    pub(super) fn kept(self) -> Self {
        Self { is_kept: true, ..self }
    }

    pub(super) fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Returns whether a newer text carries it on.
    pub(super) fn is_carried_by(&self, newer: &str) -> bool {
        self.text.is_empty() || carries(newer, &self.text)
    }

    /// Returns whether less than all of it is shown.
    pub(super) fn is_shortened(&self) -> bool {
        self.most_tokens < self.tokens
    }

    /// Returns the lines that show it; an empty text if there is nothing to show.
    pub(super) fn block(&self, counter: &MessageTokenCounter) -> String {
        let shown = shortened(&self.text, self.most_tokens, &|text| counter.text(text));
        match shown.filter(|text| !text.trim().is_empty()) {
            Some(text) => format!("{CARRIED}\n{}\n{CARRIED_END}", text.trim()),
            None => String::new(),
        }
    }
}

impl PlanContext<'_> {
    /// Returns what models wrote earlier in the units that go, in at most a sixth of the room, as any summary.
    pub(super) fn earlier(&self, gone: &[bool]) -> EarlierSummary {
        let units = self.units.iter().zip(gone).filter(|(_, gone)| **gone);
        let items: Vec<&ViewItem> = units
            .flat_map(|(unit, _)| &self.history.view()[unit.items.clone()])
            .filter(|item| is_stand_in(item))
            .collect();
        // An answer may exceed its limit by a quarter.
        let most = (self.budget.usable / 6) * 5 / 4;
        let mut earlier = EarlierSummary::of(self.history, &items, most);
        earlier.limit(self.earlier_tokens.get());
        earlier
    }

    /// Does what `make` does with less and less room for an earlier summary, until it succeeds.
    pub(super) fn with_less_earlier<T>(&self, make: impl Fn() -> Option<T>) -> Option<T> {
        let whole = make();
        let all = vec![true; self.units.len()];
        let tokens = if whole.is_none() { self.earlier(&all).shown_tokens() } else { 0 };
        if tokens == 0 {
            return whole;
        }
        let made = [2, 4, u64::MAX].into_iter().find_map(|share| {
            self.earlier_tokens.set(tokens / share);
            make()
        });
        self.earlier_tokens.set(u64::MAX);
        made
    }
}

fn is_stand_in(item: &ViewItem) -> bool {
    matches!(item.kind, ViewItemKind::Summary(_) | ViewItemKind::Removed(_))
}

/// What a model wrote in an item of the view.
pub(super) fn written_in(history: &History, item: &ViewItem) -> Option<String> {
    let id = match &item.kind {
        ViewItemKind::Summary(id) => Some(id),
        ViewItemKind::Removed(_) => None,
        _ => return None,
    };
    let text = extract::plain_text(&item.message);
    let text = user_text::without_section(&text);
    let is_by_model = id.is_some_and(|id| {
        let edit = history.edits().iter().find(|state| state.edit.id == *id).map(|state| &state.edit);
        edit.is_some_and(|edit| match &edit.summary {
            Some(check) => check.checked,
            None => edit.usage.is_some(),
        })
    });
    written_of(&text, is_by_model)
}

fn written_of(text: &str, is_by_model: bool) -> Option<String> {
    let carried = text.split_once(&format!("{CARRIED}\n")).map(|(before, rest)| {
        let inner = rest.split_once(CARRIED_END).map_or(rest, |(inner, _)| inner);
        (before, inner.trim())
    });
    let before = carried.map_or(text, |(before, _)| before);
    let own = match before.split_once(WRITTEN) {
        Some((_, written)) => Some(up_to_title(written)),
        None if is_by_model && text.starts_with(MARK) && !before.lines().any(is_section_title) => {
            before.split_once("\n\n").map(|(_, body)| body.trim())
        }
        None => None,
    };
    let texts: Vec<&str> =
        carried.map(|(_, text)| text).into_iter().chain(own).filter(|text| !text.is_empty()).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// A text up to a section of the program's own.
fn up_to_title(text: &str) -> &str {
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        if is_section_title(line.trim()) {
            break;
        }
        end += line.len();
    }
    text[..end].trim()
}

/// A foreign text that cannot pose as the place of an earlier summary.
pub(super) fn without_marks(text: &str) -> String {
    if !text.contains(CARRIED) && !text.contains(CARRIED_END) && !text.contains(WRITTEN) {
        return text.to_owned();
    }
    let text = text.replace(CARRIED, "Earlier summary, as written:").replace(CARRIED_END, "(end)");
    text.replace(WRITTEN, "Summary, as written:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_wrote_is_found_in_what_stands_for_it() {
        let counter = MessageTokenCounter::default();
        let earlier =
            |text: &str| EarlierSummary { text: text.to_owned(), tokens: 9, most_tokens: 9, is_kept: false };
        let with_ledger = format!("{MARK} of 3\n\nFiles:\n- a.rs\n\n{WRITTEN}\nGoal: a\nNext steps: b");
        assert_eq!(written_of(&with_ledger, false).as_deref(), Some("Goal: a\nNext steps: b"));
        let alone = format!("{MARK} of 3 earlier messages.\n\nGoal: a\nNext steps: b");
        assert_eq!(written_of(&alone, true).as_deref(), Some("Goal: a\nNext steps: b"));
        assert_eq!(written_of(&alone, false), None, "an extract");
        let extract = format!("{MARK} of 5\n\nFiles:\n- a.rs\n\n{}", earlier("Goal: a").block(&counter));
        assert_eq!(written_of(&extract, false).as_deref(), Some("Goal: a"));
        let note =
            format!("[9 earlier messages were removed here.]\n\n{}", earlier("Goal: a").block(&counter));
        assert_eq!(written_of(&format!("{note}\n\nWhat they did:\n- x"), false).as_deref(), Some("Goal: a"));
        assert_eq!(written_of(&without_marks(&extract), false), None, "what others say is not taken for it");
    }
}
