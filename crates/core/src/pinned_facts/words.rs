//! The names that the work revolves around: those that many messages hold, whoever wrote them.

use crate::ids::Seq;
use crate::message::Message;
use crate::retention_report::facts::for_each_name;
use crate::text_table::TextTable;

/// Names kept at most; then those that came once, and long ago, make way.
const MOST_WORDS: usize = 16_384;

/// Longer ones are no names.
const MOST_BYTES: usize = 80;

/// A name that was last seen so many positions ago counts half.
const HALF_LIFE: u64 = 400;

/// Paths and identifiers, with the number of messages that hold them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct IdentifierCounts(TextTable<Box<str>, IdentifierCount>);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct IdentifierCount {
    messages: u64,
    last: Seq,
}

impl IdentifierCounts {
    pub(super) fn read(&mut self, at: Seq, message: &Message) {
        for_each_name(message, |word| {
            if word.len() > MOST_BYTES {
                return;
            }
            match self.0.get_mut(word) {
                // A message counts once, however often it has the word.
                Some(seen) if seen.last == at => {}
                Some(seen) => *seen = IdentifierCount { messages: seen.messages + 1, last: at },
                None => {
                    self.0.insert(word.into(), IdentifierCount { messages: 1, last: at });
                }
            }
        });
        if self.0.len() > MOST_WORDS {
            self.make_room();
        }
    }

    fn make_room(&mut self) {
        let mut ages: Vec<Seq> =
            self.0.values().filter(|seen| seen.messages == 1).map(|seen| seen.last).collect();
        ages.sort_unstable();
        let middle = ages.get(ages.len() / 2).copied().unwrap_or(Seq::MAX);
        self.0.retain(|_, seen| seen.messages > 1 || seen.last > middle);
        // All of them came often: the oldest go.
        if self.0.len() > MOST_WORDS {
            let mut ages: Vec<Seq> = self.0.values().map(|seen| seen.last).collect();
            ages.sort_unstable();
            let middle = ages[ages.len() / 2];
            self.0.retain(|_, seen| seen.last > middle);
        }
    }

    /// Those that more than one message holds, the most used first, the newer counting more.
    pub(super) fn most_used(&self) -> Vec<&str> {
        let newest = self.0.values().map(|seen| seen.last).max().unwrap_or(0);
        let weight =
            |seen: &IdentifierCount| seen.messages * 1_000 * HALF_LIFE / (HALF_LIFE + newest - seen.last);
        let mut words: Vec<(u64, &str)> = self
            .0
            .iter()
            .filter(|(_, seen)| seen.messages > 1)
            .map(|(word, seen)| (weight(seen), &**word))
            .collect();
        words.sort_by(|left, right| right.0.cmp(&left.0).then(left.1.cmp(right.1)));
        words.into_iter().map(|(_, word)| word).collect()
    }
}
