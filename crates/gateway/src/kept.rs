//! Answers that a client goes on from by name (`previous_response_id`) although the model's server keeps none: what was
//! said up to them, as long as there is room.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::wire::json::{elements, field, fields, quoted, string};
use crate::wire::sse::{Event, Events};

/// What all of it may have, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// Answers at most.
const MAX_ANSWERS: usize = 20_000;

/// An answer by its name, for whoever was given it.
type Name = ([u8; 32], String);

/// The answers that are kept, the newest.
#[derive(Default)]
pub(crate) struct Answers {
    known: Mutex<Known>,
    /// Bytes of everything that is kept.
    bytes: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Known {
    turns: HashMap<Name, Arc<Turn>>,
    oldest: VecDeque<Name>,
}

/// What one request has added to a conversation, and its answer.
pub(crate) struct Turn {
    before: Option<Arc<Self>>,
    /// The input as it was written: a list of items, or a text.
    asked: Bytes,
    /// The items of the answer, with commas between them.
    answered: String,
    all_bytes: Arc<AtomicUsize>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.all_bytes.fetch_sub(self.asked.len() + self.answered.len(), Ordering::Relaxed);
        // One after the other: a long conversation must not be dropped from within itself.
        let mut before = self.before.take();
        while let Some(mut turn) = before.and_then(Arc::into_inner) {
            before = turn.before.take();
        }
    }
}

impl Turn {
    /// Everything that was said up to here, as items of JSON with commas between them.
    pub(crate) fn items(&self) -> String {
        let mut turns = vec![self];
        while let Some(before) = turns.last().and_then(|turn| turn.before.as_deref()) {
            turns.push(before);
        }
        let both = turns.iter().rev().flat_map(|turn| [items(&turn.asked), turn.answered.clone()]);
        both.filter(|items| !items.is_empty()).collect::<Vec<_>>().join(",")
    }
}

impl Answers {
    /// The conversation up to an answer; `None` if it is not known, or was somebody else's.
    pub(crate) fn find(&self, caller: [u8; 32], id: &str) -> Option<Arc<Turn>> {
        self.known().turns.get(&(caller, id.to_owned())).cloned()
    }

    /// Keeps the answer that a response describes: its name and its items. What has none is not kept.
    pub(crate) fn keep(&self, caller: [u8; 32], before: Option<Arc<Turn>>, asked: Bytes, response: &str) {
        let Some(said) = fields(response) else { return };
        let Some(id) = field(&said, "id").and_then(string) else { return };
        let output = field(&said, "output").and_then(elements).unwrap_or_default();
        let answered = output.join(",");
        self.bytes.fetch_add(asked.len() + answered.len(), Ordering::Relaxed);
        let turn = Arc::new(Turn { before, asked, answered, all_bytes: Arc::clone(&self.bytes) });
        let name = (caller, id);
        let mut known = self.known();
        if known.turns.insert(name.clone(), turn).is_none() {
            known.oldest.push_back(name);
        }
        while known.turns.len() > MAX_ANSWERS || self.bytes.load(Ordering::Relaxed) > MAX_BYTES {
            let Some(oldest) = known.oldest.pop_front() else { return };
            known.turns.remove(&oldest);
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The items of an input, with commas between them.
pub(crate) fn items(input: &[u8]) -> String {
    let input = std::str::from_utf8(input).unwrap_or_default();
    match string(input) {
        Some(text) => {
            let text = quoted(&text);
            format!(r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":{text}}}]}}"#)
        }
        None => elements(input).unwrap_or_default().join(","),
    }
}

/// The response that the last events of a stream describe as a whole.
pub(crate) fn closing(events: &Bytes) -> Option<String> {
    let mut cut = Events::default();
    cut.feed(events.clone());
    let all: Vec<Bytes> = std::iter::from_fn(|| cut.next_event()).collect();
    all.iter().rev().find_map(|raw| {
        let said = fields(Event::parse(raw).data)?;
        let kind = field(&said, "type").and_then(string)?;
        let ends = matches!(kind.as_str(), "response.completed" | "response.incomplete");
        field(&said, "response").filter(|_| ends).map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(id: &str, text: &str) -> String {
        format!(r#"{{"id":"{id}","output":[{{"t":"{text}"}},{{"u":1}}]}}"#)
    }

    #[test]
    fn a_conversation_is_put_together_from_its_turns() {
        let answers = Answers::default();
        answers.keep([1; 32], None, Bytes::from_static(br#"[{"q":1}]"#), &response("a", "x"));
        let first = answers.find([1; 32], "a").unwrap();
        assert_eq!(first.items(), r#"{"q":1},{"t":"x"},{"u":1}"#);
        answers.keep([1; 32], Some(first.clone()), Bytes::from_static(br#"[{"q":2}]"#), &response("b", "y"));
        let second = answers.find([1; 32], "b").unwrap();
        assert_eq!(second.items(), format!(r#"{},{{"q":2}},{{"t":"y"}},{{"u":1}}"#, first.items()));
        assert!(answers.find([2; 32], "a").is_none(), "nobody goes on from another's answer");
        assert!(answers.find([1; 32], "c").is_none());
    }

    #[test]
    fn what_is_too_much_gives_way_and_long_conversations_end_quietly() {
        let answers = Answers::default();
        let mut before = None;
        for at in 0..30_000 {
            answers.keep(
                [1; 32],
                before.take(),
                Bytes::from_static(b"[{}]"),
                &response(&at.to_string(), "x"),
            );
            before = answers.find([1; 32], &at.to_string());
        }
        assert!(answers.find([1; 32], "0").is_none() && answers.find([1; 32], "29999").is_some());
        let big = "y".repeat(MAX_BYTES / 4);
        for at in 0..12 {
            answers.keep([2; 32], None, Bytes::new(), &response(&at.to_string(), &big));
        }
        assert!(answers.bytes.load(Ordering::Relaxed) <= MAX_BYTES + 4_000_000);
        assert!(answers.find([2; 32], "11").is_some() && answers.find([2; 32], "0").is_none());
        drop(before);
        drop(answers);
    }
}
