//! Names in use: the paths and identifiers that many messages of any author contain.

use crate::ids::Seq;
use crate::message::Message;
use crate::retention_report::facts::for_each_name;
use crate::text_table::TextTable;

/// The most names kept. Beyond this number, old names in one message only go first.
const MAX_WORDS: usize = 16_384;

/// The longest word that counts as a name, in bytes.
const MAX_BYTES: usize = 80;

/// The age at which a name counts half, in log positions since its last occurrence.
const HALF_LIFE: u64 = 400;

/// Paths and identifiers, with the number of messages that contain each.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct IdentifierCounts(TextTable<Box<str>, IdentifierCount>);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct IdentifierCount {
    messages: u64,
    last: Seq,
}

impl IdentifierCount {
    /// Returns the weight at the log position `newest`, in thousandths of a message.
    fn weight(&self, newest: Seq) -> u64 {
        self.messages * 1_000 * HALF_LIFE / (HALF_LIFE + newest - self.last)
    }
}

impl IdentifierCounts {
    pub(super) fn read(&mut self, at: Seq, message: &Message) {
        for_each_name(message, |word| {
            if word.len() > MAX_BYTES {
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
        if self.0.len() > MAX_WORDS {
            self.make_room();
        }
    }

    /// Removes the older half of the names in one message only, or of all names if those are too few.
    fn make_room(&mut self) {
        // Half of them go at once, because finding the oldest takes a pass over all names.
        let mut ages: Vec<Seq> =
            self.0.values().filter(|seen| seen.messages == 1).map(|seen| seen.last).collect();
        ages.sort_unstable();
        // The median age, so that the table halves whatever the session's length.
        let middle = ages.get(ages.len() / 2).copied().unwrap_or(Seq::MAX);
        self.0.retain(|_, seen| seen.messages > 1 || seen.last > middle);
        // Most names are in several messages, so age alone decides.
        if self.0.len() > MAX_WORDS {
            let mut ages: Vec<Seq> = self.0.values().map(|seen| seen.last).collect();
            ages.sort_unstable();
            let middle = ages[ages.len() / 2];
            self.0.retain(|_, seen| seen.last > middle);
        }
    }

    /// Returns the names that more than one message contains, the most used first. Recent names count more.
    pub(super) fn most_used(&self) -> Vec<&str> {
        // The age counts from the newest name and not from the end of the log: this text must follow from these
        // messages alone.
        let newest = self.0.values().map(|seen| seen.last).max().unwrap_or(0);
        let mut words: Vec<(u64, &str)> = self
            .0
            .iter()
            .filter(|(_, seen)| seen.messages > 1)
            .map(|(word, seen)| (seen.weight(newest), &**word))
            .collect();
        // Equal weights are ordered by name, because the order of the table must not show in the text.
        words.sort_by(|left, right| right.0.cmp(&left.0).then(left.1.cmp(right.1)));
        words.into_iter().map(|(_, word)| word).collect()
    }
}
