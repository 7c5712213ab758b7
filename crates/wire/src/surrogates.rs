//! Repair of characters that a server has cut in two: UTF-16 surrogates whose halves are in two events.
//!
//! JSON may hold a lone half (`"\ud83d"`). Rust's text may not, so the whole string would be lost. Halves of one
//! character are joined before JSON is parsed; a half that stays alone becomes U+FFFD.

mod lone;

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

pub(crate) use lone::in_arguments;
pub use lone::replace_lone_halves;

/// The length of one escaped half: `\ud83d`.
const HALF_BYTES: usize = 6;

/// The replacement of a lone half.
const REPLACEMENT: &str = "\\ufffd";

/// The largest size of a ping, in bytes. Longer events have content.
const MAX_PING_BYTES: usize = 64;

/// A filter that joins the halves of characters which a server spread over two events. Events are JSON texts.
///
/// ```
/// let mut joiner = longhaul_wire::surrogates::SurrogateJoiner::default();
/// assert!(joiner.take(r#"{"text":"a\ud83d"}"#.to_owned()).is_empty());
/// let both = joiner.take(r#"{"text":"\ude00b"}"#.to_owned());
/// assert_eq!(both, [r#"{"text":"a\ud83d\ude00"}"#, r#"{"text":"b"}"#]);
/// ```
#[derive(Debug, Default)]
pub struct SurrogateJoiner {
    held: Option<String>,
}

impl SurrogateJoiner {
    /// Reports whether an event is complete and need not go through [`take`](Self::take).
    pub fn lets_pass(&self, event: &str) -> bool {
        self.held.is_none() && !is_suspect(event)
    }

    /// Takes the next event, and returns the events that are complete now. The list is empty if the event ends
    /// inside a character: it waits for the next one.
    pub fn take(&mut self, event: String) -> Vec<String> {
        if self.lets_pass(&event) {
            return vec![event];
        }
        let held = self.held.take();
        let JoinedPayloads { before, next, goes_on } =
            mend(held.as_deref().unwrap_or_default(), &event, true);
        let before = held.map(|_| before);
        let next = if goes_on { self.held.replace(next) } else { Some(next) };
        before.into_iter().chain(next).collect()
    }

    /// Returns the waiting event, which no other event follows.
    pub fn rest(&mut self) -> Option<String> {
        self.held.take().map(|held| whole(&held).into_owned())
    }
}

/// Returns JSON that came whole with its halves joined, and lone halves replaced by U+FFFD.
pub fn whole(json: &str) -> Cow<'_, str> {
    if is_suspect(json) { Cow::Owned(mend("", json, false).next) } else { Cow::Borrowed(json) }
}

/// Reports whether the data of an event is only a sign of life. Such events have no content, so they end no
/// waiting.
pub fn is_ping(data: &str) -> bool {
    // Anthropic's ping is `{"type": "ping"}`.
    data.is_empty() || (data.len() <= MAX_PING_BYTES && data.contains("\"ping\""))
}

/// Reports whether the text may contain a half at all.
fn is_suspect(json: &str) -> bool {
    json.contains("\\ud") || json.contains("\\uD")
}

/// One half of a character without the other half beside it.
struct LoneSurrogate<'a> {
    at: usize,
    place: SurrogatePosition,
    /// The field that contains the half, or the last field before it.
    key: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SurrogatePosition {
    /// A low half at the beginning of a string.
    Beginning,
    /// A high half at the end of a string.
    End,
    /// A half in the middle of a string, where no other half can come.
    Inside,
}

/// Two consecutive payloads, with whole characters.
struct JoinedPayloads {
    before: String,
    next: String,
    /// `true` if `next` still ends inside a character.
    goes_on: bool,
}

/// Joins halves of the same field, within one payload too: a whole answer may be a list of pieces. With
/// `may_go_on` the halves at the ends of `next` stay unchanged.
fn mend(before: &str, next: &str, may_go_on: bool) -> JoinedPayloads {
    let (earlier, later) = (halves(before), halves(next));
    let split = earlier.len();
    let all: Vec<(&str, &LoneSurrogate<'_>)> =
        earlier.iter().map(|half| (before, half)).chain(later.iter().map(|half| (next, half))).collect();
    // Halves join only within the same field, because another field is another text.
    let mut open: BTreeMap<&str, VecDeque<usize>> = BTreeMap::new();
    // At a high half: the low half that joins it. At a joined low half: the empty text, because it has moved.
    let mut joined: Vec<Option<&str>> = vec![None; all.len()];
    for (index, (json, half)) in all.iter().enumerate() {
        match half.place {
            SurrogatePosition::End => open.entry(half.key).or_default().push_back(index),
            SurrogatePosition::Beginning => {
                if let Some(high) = open.get_mut(half.key).and_then(VecDeque::pop_front) {
                    joined[high] = Some(&json[half.at..half.at + HALF_BYTES]);
                    joined[index] = Some("");
                }
            }
            SurrogatePosition::Inside => {}
        }
    }
    let before = rewritten(before, &earlier, &joined[..split], false);
    let next = rewritten(next, &later, &joined[split..], may_go_on);
    let goes_on = may_go_on
        && later
            .iter()
            .zip(&joined[split..])
            .any(|(half, with)| half.place == SurrogatePosition::End && with.is_none());
    JoinedPayloads { before, next, goes_on }
}

fn rewritten(json: &str, halves: &[LoneSurrogate<'_>], joined: &[Option<&str>], may_go_on: bool) -> String {
    let mut out = String::with_capacity(json.len());
    let mut done = 0;
    for (half, with) in halves.iter().zip(joined) {
        let end = half.at + HALF_BYTES;
        out.push_str(&json[done..half.at]);
        match (half.place, with) {
            (SurrogatePosition::End, Some(low)) => {
                out.push_str(&json[half.at..end]);
                out.push_str(low);
            }
            (SurrogatePosition::End, None) if may_go_on => out.push_str(&json[half.at..end]),
            (SurrogatePosition::Beginning, Some(_)) => {}
            _ => out.push_str(REPLACEMENT),
        }
        done = end;
    }
    out.push_str(&json[done..]);
    out
}

/// Returns all lone halves in order. A text that is no JSON may yield fewer.
fn halves(json: &str) -> Vec<LoneSurrogate<'_>> {
    let bytes = json.as_bytes();
    let mut found = Vec::new();
    let (mut key, mut at) = ("", 0);
    while let Some(quote) = find(bytes, at, b"\"") {
        let begin = quote + 1;
        let end = in_string(bytes, begin, |at, place| found.push(LoneSurrogate { at, place, key }));
        let after = bytes.get(end + 1..).unwrap_or_default().trim_ascii_start();
        // A string before a colon is a key.
        if after.first() == Some(&b':') {
            key = &json[begin..end];
        }
        at = end + 1;
    }
    found
}

/// Passes the lone halves of the string that begins at `begin` to `tell`. Returns the position of the closing
/// quote.
fn in_string(bytes: &[u8], begin: usize, mut tell: impl FnMut(usize, SurrogatePosition)) -> usize {
    let mut at = begin;
    while let Some(special) = find(bytes, at, b"\"\\") {
        if bytes[special] == b'"' {
            return special;
        }
        // Every escape but `\u` is two bytes long.
        at = special + 2;
        let Some(unit) = unit(bytes, special) else { continue };
        at = special + HALF_BYTES;
        match unit {
            // Both halves side by side are a whole character.
            0xD800..=0xDBFF if matches!(self::unit(bytes, at), Some(0xDC00..=0xDFFF)) => at += HALF_BYTES,
            0xD800..=0xDBFF if bytes.get(at) == Some(&b'"') => tell(special, SurrogatePosition::End),
            0xDC00..=0xDFFF if special == begin => tell(special, SurrogatePosition::Beginning),
            0xD800..=0xDFFF => tell(special, SurrogatePosition::Inside),
            _ => {}
        }
    }
    bytes.len()
}

fn find(bytes: &[u8], from: usize, any: &[u8]) -> Option<usize> {
    bytes.get(from..)?.iter().position(|byte| any.contains(byte)).map(|place| from + place)
}

/// Returns the code unit that is escaped as `\uXXXX` at this position.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + HALF_BYTES)?.strip_prefix(b"\\u")?;
    // `from_str_radix` takes a sign too, as in `+12a`.
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests;
