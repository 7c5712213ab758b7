//! Identifiers that will be needed again: ids, hashes, addresses, versions and branches, copied letter for letter.
//!
//! A name is kept if a result shows the name and a later call uses it. A name in several messages is kept too, if a
//! person or the model wrote one of them. Names that occur only in tool output, such as a listing read twice, are not.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::bounded_fact_map::BoundedFactMap;
use super::{line, shell, tools};
use crate::ids::Seq;

/// The most names kept.
const MAX_ITEMS: usize = 256;

/// The most names that wait for a second sighting.
const MAX_WAITING: usize = 4_096;

/// The longest word that counts as a name, in bytes.
const MAX_NAME_BYTES: usize = 120;

/// The longest address of a web page that counts as a name, in bytes.
const MAX_ADDRESS_BYTES: usize = 300;

/// The longest argument that is searched, in bytes. Longer ones are content, which repeats text that was read.
const MAX_ARGUMENT_BYTES: usize = 300;

/// The part of one text that is searched, in bytes.
const MAX_READ_BYTES: usize = 32 << 10;

/// The author of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameSource {
    /// A person or the model.
    Speaker,
    Tool,
}

/// A name that was seen and is not kept yet.
#[derive(Clone, Debug, PartialEq)]
struct NameSighting {
    at: Seq,
    spoken: bool,
    shown: bool,
    label: Option<Arc<str>>,
}

/// A kept name, with the key of the argument.
#[derive(Clone, Debug, PartialEq)]
struct TrackedName {
    label: Option<Arc<str>>,
    used: bool,
}

/// The names seen so far.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NameTracker {
    kept: BoundedFactMap<TrackedName>,
    waiting: BoundedFactMap<NameSighting>,
}

impl Default for NameTracker {
    fn default() -> Self {
        Self { kept: BoundedFactMap::new(MAX_ITEMS), waiting: BoundedFactMap::new(MAX_WAITING) }
    }
}

impl NameTracker {
    /// Records the names in a text of the message at `at`.
    pub(super) fn read_text(&mut self, at: Seq, voice: NameSource, text: &str) {
        for name in names(line::head(text, MAX_READ_BYTES)) {
            self.record_sighting(at, voice, name, None, false);
        }
    }

    /// Records the names in the arguments of a call. The key of an argument becomes the label of its name.
    pub(super) fn read_arguments(&mut self, at: Seq, tool: &str, arguments: &Map<String, Value>) {
        if let Some(command) = tools::command_line(tool, arguments) {
            // A branch counts at once: later commands need it, and its name seldom has the digits of an identifier.
            if let Some(branch) = branch(&command) {
                self.keep(&branch, Some("branch".into()), true);
            }
            let command = line::head(&command, 2_000);
            names(command).for_each(|name| self.record_sighting(at, NameSource::Speaker, name, None, true));
            return;
        }
        for (key, value) in arguments {
            self.read_value(at, key, value, 0);
        }
    }

    /// Records the names in one value of the arguments, to a depth of 4 and up to 64 items per list.
    fn read_value(&mut self, at: Seq, key: &str, value: &Value, depth: u32) {
        match value {
            Value::String(text) if text.len() <= MAX_ARGUMENT_BYTES => self.read_argument(at, key, text),
            Value::Number(number) if is_id_key(key) => self.read_argument(at, key, &number.to_string()),
            Value::Array(items) if depth < 4 => {
                items.iter().take(64).for_each(|item| self.read_value(at, key, item, depth + 1));
            }
            Value::Object(fields) if depth < 4 => {
                fields.iter().take(64).for_each(|(key, item)| self.read_value(at, key, item, depth + 1));
            }
            _ => {}
        }
    }

    fn read_argument(&mut self, at: Seq, key: &str, text: &str) {
        let is_one = text.len() <= MAX_NAME_BYTES && !text.is_empty() && !text.contains(char::is_whitespace);
        if is_one && (is_id_key(key) && !text.contains('/') || is_name(text)) {
            self.record_sighting(at, NameSource::Speaker, text, Some(key), true);
        } else {
            names(text).for_each(|name| self.record_sighting(at, NameSource::Speaker, name, None, true));
        }
    }

    /// Records a sighting of a name, and keeps the name if the sighting shows a further need.
    fn record_sighting(&mut self, at: Seq, voice: NameSource, name: &str, label: Option<&str>, used: bool) {
        if let Some(known) = self.kept.get_mut(name) {
            known.used |= used;
            known.label = known.label.take().or_else(|| label.map(Into::into));
            return;
        }
        let spoken = voice == NameSource::Speaker;
        let Some(before) = self.waiting.get_mut(name) else {
            let sighting = NameSighting { at, spoken, shown: !spoken, label: label.map(Into::into) };
            self.waiting.put(name, sighting);
            return;
        };
        before.label = before.label.take().or_else(|| label.map(Into::into));
        // Two tool results with the same name show only that the same thing was read twice.
        let again = before.at != at && (spoken || before.spoken);
        let was_used = used && before.shown;
        (before.spoken, before.shown) = (before.spoken || spoken, before.shown || !spoken);
        if again || was_used {
            let label = self.waiting.take(name).and_then(|sighting| sighting.label);
            self.keep(name, label, used);
        }
    }

    fn keep(&mut self, name: &str, label: Option<Arc<str>>, used: bool) {
        let used = used || self.kept.get(name).is_some_and(|known| known.used);
        self.kept.put(name, TrackedName { label, used });
    }

    /// Returns the names with their labels: names that calls have used come first, the newest of each group first.
    pub(super) fn kept(&self) -> impl Iterator<Item = String> {
        let (used, unused): (Vec<_>, Vec<_>) = self.kept.iter().rev().partition(|(_, name)| name.used);
        used.into_iter().chain(unused).map(|(name, fact)| {
            let name = line::name(name, MAX_ADDRESS_BYTES);
            match &fact.label {
                Some(label) => format!("{name} ({})", line::name(label, 40)),
                None => name,
            }
        })
    }

    /// Returns the number of names that were removed because there were too many.
    pub(super) fn evicted(&self) -> u64 {
        self.kept.evicted()
    }
}

/// Returns the words of a text that are names.
fn names(text: &str) -> impl Iterator<Item = &str> {
    words(text).filter_map(|word| {
        if word.len() < 4 && !word.starts_with('#') {
            return None;
        }
        // Only words with a digit and addresses can be names. The cheap check comes first, because most words fail it.
        let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
        let is_address = word.as_bytes().contains(&b':') && word.contains("://");
        if !has_digit && !is_address {
            return None;
        }
        let word = word.trim_end_matches(['.', ':', '!', '?', '-', '=', '…']);
        // Of `id=7a3b` and `item:12345` the value is the name.
        let word = if word.contains("://") { word } else { word.rsplit(['=', ':']).next().unwrap_or(word) };
        is_name(word).then_some(word)
    })
}

/// Returns the words of a text, which blanks, brackets, quotes and commas separate.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.bytes().position(|byte| !is_between(byte))?;
        rest = &rest[start..];
        let end = rest.bytes().position(is_between).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

/// The bytes that separate words, as a table: every byte of every message is looked up.
const BETWEEN: [bool; 256] = {
    let mut table = [false; 256];
    let marks = b"\"'`<>()[]{},;|\\*";
    let mut at = 0;
    while at < marks.len() {
        table[marks[at] as usize] = true;
        at += 1;
    }
    let mut blank = 0;
    while blank <= b' ' as usize {
        table[blank] = true;
        blank += 1;
    }
    table
};

fn is_between(byte: u8) -> bool {
    BETWEEN[usize::from(byte)]
}

/// Returns whether the value of an argument with this key is an identifier.
fn is_id_key(key: &str) -> bool {
    let key = tools::plain(key);
    [
        "id", "ids", "number", "code", "branch", "sha", "commit", "ref", "email", "url", "key", "token",
        "version",
    ]
    .iter()
    .any(|end| key.ends_with(end))
        // These keys end like keys of identifiers, but their values are sizes, places and codes of the world.
        && !matches!(key.as_str(), "linenumber" | "width" | "grid" | "postcode" | "zipcode" | "keycode")
}

/// Returns whether a word names one thing: an address, a hash, an id with its digits, an issue, a version, a date.
pub(super) fn is_name(word: &str) -> bool {
    if word.starts_with("https://") || word.starts_with("http://") {
        return (12..=MAX_ADDRESS_BYTES).contains(&word.len());
    }
    let bytes = word.as_bytes();
    let body = word.strip_prefix('#').unwrap_or(word);
    let is_plain = body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.@".contains(&byte));
    if bytes.len() > MAX_NAME_BYTES || body.is_empty() || !is_plain {
        return false;
    }
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    let uppers = bytes.iter().filter(|byte| byte.is_ascii_uppercase()).count();
    let lowers = bytes.iter().filter(|byte| byte.is_ascii_lowercase()).count();
    let marked = bytes.iter().any(|byte| b"_-@".contains(byte));
    if digits == 0 || !bytes.last().is_some_and(u8::is_ascii_alphanumeric) {
        return false;
    }
    if body.len() < word.len() {
        // A mere number is an issue, as in `#1867`. With letters it may be a colour, as in `#ff8`.
        return uppers + lowers == 0 || digits >= 3;
    }
    if uppers + lowers == 0 {
        let is_date = digits == 8 && word.split('-').map(str::len).eq([4, 2, 2]);
        return is_date || (digits >= 6 && digits == bytes.len()) || is_version(word);
    }
    if is_version(word.strip_prefix('v').unwrap_or(word)) {
        return true;
    }
    if word.contains('.') {
        // File names and fields have full stops as well; they are not identifiers unless the word is an e-mail address.
        return word.contains('@');
    }
    // Git shows at least seven digits of a hash.
    let is_hash = bytes.len() >= 7 && bytes.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
    let is_code = uppers >= 2 && lowers == 0 && bytes.len() >= 4;
    is_hash || is_code || digits >= 4 || (digits >= 3 && marked)
}

/// Returns whether a word is a version of three numbers: `1.2.3`, `1.2.3-rc1`.
fn is_version(word: &str) -> bool {
    let core = word.split(['-', '+']).next().unwrap_or(word);
    core.split('.').count() == 3
        && core
            .split('.')
            .all(|part| (1..=6).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the branch that a command line switches to or creates.
fn branch(command: &str) -> Option<String> {
    let commands = shell::commands(command);
    commands.iter().rev().find_map(|command| {
        let Some(("git", arguments)) = shell::program(command) else { return None };
        let mut words = arguments.iter();
        let sub = words.next()?.text();
        let mut options = words.clone().take_while(|word| word.text().starts_with('-'));
        let makes = options.any(|word| matches!(word.text(), "-b" | "-B" | "-c" | "-C"));
        // `git checkout NAME` may name a file as well as a branch, so it counts only with an option that creates one.
        if !(sub == "checkout" && makes || sub == "switch") {
            return None;
        }
        let name = words.find(|word| !word.text().starts_with('-'))?;
        let fits = name.is_known() && (1..=MAX_NAME_BYTES).contains(&name.text().len());
        fits.then(|| name.text().to_owned())
    })
}
