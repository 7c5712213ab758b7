//! The outermost object of a request: the range of each field, found in a single pass over the bytes.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use memchr::memmem;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::ParseError;

mod resume;

/// The ranges of the request's fields for the gateway. The bytes are the client's.
#[derive(Clone, Debug)]
pub struct RequestEnvelope {
    /// The request.
    pub bytes: Bytes,
    /// The requested model; empty for none.
    pub model: String,
    /// The range of the model's name, quotes included.
    pub model_at: Option<Range<usize>>,
    /// `true` if the client asks for a stream.
    pub stream: bool,
    /// The range of the `stream` value.
    pub stream_at: Option<Range<usize>>,
    /// The client's output limit, in tokens; of several limits the first of [`EnvelopeFieldNames::max_output`].
    pub max_output: Option<u64>,
    /// The range of the output limit's value.
    pub max_output_at: Option<Range<usize>>,
    /// The range of the item list, brackets included; of the whole text if the items are one string.
    pub items_at: Range<usize>,
    /// The range of each item.
    pub items: Vec<Range<usize>>,
    /// The range of the system prompt outside of the items.
    pub system_at: Option<Range<usize>>,
    /// The range of the tools.
    pub tools_at: Option<Range<usize>>,
    /// The ranges of the other fields in [`EnvelopeFieldNames::others`] that the request has.
    pub others_at: Vec<(&'static str, Range<usize>)>,
}

/// The names of the fields in a dialect.
#[derive(Clone, Copy, Debug)]
pub struct EnvelopeFieldNames {
    /// The name of the item list.
    pub items: &'static str,
    /// The names of the output limit, in order of precedence.
    pub max_output: &'static [&'static str],
    /// The name of the system prompt outside of the items; empty if there is no such field.
    pub system: &'static str,
    /// Other fields whose ranges are needed.
    pub others: &'static [&'static str],
    /// `true` if the items may be one string.
    pub items_may_be_text: bool,
}

impl RequestEnvelope {
    /// Parses a request into the ranges of its fields.
    ///
    /// # Errors
    /// [`ParseError`] for other content than a JSON object, for missing items and for a field of another type.
    pub fn read(bytes: Bytes, names: &EnvelopeFieldNames) -> Result<Self, ParseError> {
        let bytes = without_half_characters(bytes);
        let text = std::str::from_utf8(&bytes).map_err(|_| ParseError::new("the request is not UTF-8"))?;
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let fields = deserializer
            .deserialize_map(EnvelopeVisitor { names, text })
            .map_err(|error| not_json(&error))?;
        // Servers refuse a request with something behind its object.
        deserializer.end().map_err(|error| not_json(&error))?;
        let model = fields.model.filter(|raw| *raw != "null");
        let name = model
            .map(serde_json::from_str)
            .transpose()
            .map_err(|_| ParseError::field("model", "`model` must be a string"))?
            .unwrap_or_default();
        let items_raw = fields
            .items
            .ok_or_else(|| ParseError::field(names.items, format!("`{}` is missing", names.items)))?;
        let items = match fields.list {
            Some(list) => list.iter().map(|item| range_in(text, item)).collect(),
            None if names.items_may_be_text && items_raw.starts_with('"') => vec![range_in(text, items_raw)],
            None => {
                let kind = if names.items_may_be_text { "a string or a list" } else { "a list" };
                return Err(ParseError::field(names.items, format!("`{}` must be {kind}", names.items)));
            }
        };
        let stream = match fields.stream.filter(|raw| *raw != "null") {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err(ParseError::field("stream", "`stream` must be true or false")),
        };
        let said = names.max_output.iter().zip(&fields.max_output);
        let limit = said.filter_map(|(name, raw)| Some((name, (*raw)?))).find(|(_, raw)| *raw != "null");
        let max_output = match limit {
            None => None,
            Some((name, raw)) => Some(limit_of(name, raw)?),
        };
        let envelope = Self {
            model: name,
            // A `null` has a range too, because a new name replaces it there.
            model_at: fields.model.map(|part| range_in(text, part)),
            stream,
            stream_at: fields.stream.map(|part| range_in(text, part)),
            max_output,
            max_output_at: limit.map(|(_, raw)| range_in(text, raw)),
            items_at: range_in(text, items_raw),
            items,
            system_at: fields.system.filter(|raw| *raw != "null").map(|part| range_in(text, part)),
            tools_at: fields.tools.filter(|raw| *raw != "null").map(|part| range_in(text, part)),
            others_at: fields.others.iter().map(|(name, raw)| (*name, range_in(text, raw))).collect(),
            // `text` borrows from `bytes` until every range is known.
            bytes: Bytes::new(),
        };
        Ok(Self { bytes, ..envelope })
    }

    /// Returns the text in a range of the request.
    pub fn text(&self, at: &Range<usize>) -> &str {
        self.bytes.get(at.clone()).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// Returns an item with the client's bytes.
    pub fn item(&self, index: usize) -> &str {
        self.items.get(index).map(|at| self.text(at)).unwrap_or_default()
    }

    /// Returns the number of bytes of the items from `index` on.
    pub fn bytes_from(&self, index: usize) -> usize {
        self.items.get(index).map_or(0, |first| self.items_at.end.saturating_sub(first.start))
    }

    /// Returns the request's name of its output limit, if the request sets one.
    pub fn max_output_name(&self) -> Option<&str> {
        // A dialect may have several names for the limit, and the bytes before the value show which of them was used.
        let before = self.text(&(0..self.max_output_at.as_ref()?.start)).trim_end().strip_suffix(':')?;
        before.trim_end().strip_suffix('"')?.rsplit_once('"').map(|(_, name)| name)
    }

    /// Returns the text of another field, if the request has it.
    pub fn other(&self, name: &str) -> Option<&str> {
        self.others_at.iter().find(|(known, _)| *known == name).map(|(_, at)| self.text(at))
    }
}

/// Returns the bytes with `\ufffd` for every lone half of a surrogate pair. JavaScript programs write such halves
/// where they cut a text. No reader here and few servers take them. Every other byte keeps its place.
fn without_half_characters(bytes: Bytes) -> Bytes {
    mended(&bytes).map_or(bytes, BytesMut::freeze)
}

/// Returns the text without lone halves of surrogate pairs; `None` if nothing changes.
fn mended(bytes: &[u8]) -> Option<BytesMut> {
    let mut mended: Option<BytesMut> = None;
    for half in [b"\\ud", b"\\uD"] {
        for at in memmem::find_iter(bytes, half).filter(|at| is_half_character(bytes, *at)) {
            // The copy is made only for a request that needs it. The length stays, so all ranges stay right.
            let mended = mended.get_or_insert_with(|| BytesMut::from(bytes));
            mended[at..at + ESCAPE_BYTES].copy_from_slice(b"\\ufffd");
        }
    }
    mended
}

/// The bytes of `\u` with its four digits.
const ESCAPE_BYTES: usize = 6;

/// The half of a surrogate pair that an escape encodes.
#[derive(PartialEq, Eq)]
enum SurrogateHalf {
    First,
    Second,
}

/// Reports whether the escape at this place is one half of a pair without the other half beside it.
fn is_half_character(bytes: &[u8], at: usize) -> bool {
    match half(bytes, at) {
        Some(SurrogateHalf::First) => half(bytes, at + ESCAPE_BYTES) != Some(SurrogateHalf::Second),
        Some(SurrogateHalf::Second) => {
            let before = at.checked_sub(ESCAPE_BYTES).and_then(|before| half(bytes, before));
            before != Some(SurrogateHalf::First)
        }
        None => false,
    }
}

/// Returns the half that an escape encodes. A `u` after an even number of backslashes begins no escape.
fn half(bytes: &[u8], at: usize) -> Option<SurrogateHalf> {
    let [b'\\', b'u', b'd' | b'D', digits @ ..] = bytes.get(at..at + ESCAPE_BYTES)? else { return None };
    let half = match digits.first()? {
        b'8' | b'9' | b'a' | b'b' | b'A' | b'B' => SurrogateHalf::First,
        b'c'..=b'f' | b'C'..=b'F' => SurrogateHalf::Second,
        _ => return None,
    };
    // An even number of backslashes before the escape are escaped themselves, and do not belong to it.
    let backslashes = bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
    (digits.iter().all(u8::is_ascii_hexdigit) && backslashes % 2 == 0).then_some(half)
}

fn limit_of(name: &str, raw: &str) -> Result<u64, ParseError> {
    let number: f64 =
        raw.parse().map_err(|_| ParseError::field(name, format!("`{name}` must be a number of tokens")))?;
    // Some clients send -1 for "as much as fits".
    Ok(if number < 0.0 { u64::MAX } else { number as u64 })
}

fn not_json(error: &serde_json::Error) -> ParseError {
    ParseError::new(format!("the request is not a JSON object: {error}"))
}

/// Returns the range of `part`, a slice of `whole`, in it.
fn range_in(whole: &str, part: &str) -> Range<usize> {
    // Both are slices of one text, so the difference of their addresses is the position.
    let start = part.as_ptr().addr() - whole.as_ptr().addr();
    start..start + part.len()
}

#[derive(Default)]
struct EnvelopeFields<'a> {
    model: Option<&'a str>,
    stream: Option<&'a str>,
    max_output: Vec<Option<&'a str>>,
    items: Option<&'a str>,
    list: Option<Vec<&'a str>>,
    system: Option<&'a str>,
    tools: Option<&'a str>,
    others: Vec<(&'static str, &'a str)>,
}

struct EnvelopeVisitor<'n, 'a> {
    names: &'n EnvelopeFieldNames,
    text: &'a str,
}

impl<'a> EnvelopeVisitor<'_, 'a> {
    /// Returns the text behind a key, from its value on, if the key is written without escapes.
    fn behind(&self, key: &Cow<'a, str>) -> Option<&'a str> {
        // A key with escapes has no place in the text, and is too rare to look for.
        let Cow::Borrowed(key) = key else { return None };
        let rest = self.text[range_in(self.text, key).end..].strip_prefix('"')?;
        Some(after_space(after_space(rest).strip_prefix(':')?))
    }
}

fn after_space(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '\n', '\r'])
}

impl<'a> Visitor<'a> for EnvelopeVisitor<'_, 'a> {
    type Value = EnvelopeFields<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<EnvelopeFields<'a>, A::Error> {
        let names = self.names;
        let mut fields =
            EnvelopeFields { max_output: vec![None; names.max_output.len()], ..EnvelopeFields::default() };
        while let Some(key) = map.next_key_seed(FieldNameSeed)? {
            if key == names.items {
                let (raw, list) = map.next_value_seed(ItemListSeed { rest: self.behind(&key) })?;
                (fields.items, fields.list) = (Some(raw), list);
                continue;
            }
            let raw = map.next_value::<&'a RawValue>()?.get();
            match &*key {
                "model" => fields.model = Some(raw),
                "stream" => fields.stream = Some(raw),
                "tools" => fields.tools = Some(raw),
                key if key == names.system && !names.system.is_empty() => fields.system = Some(raw),
                key => {
                    if let Some(at) = names.max_output.iter().position(|name| *name == key) {
                        fields.max_output[at] = Some(raw);
                    } else if let Some(name) = names.others.iter().find(|name| **name == key) {
                        // Of repeated fields the last one counts, as JSON readers take it.
                        fields.others.retain(|(known, _)| known != name);
                        fields.others.push((name, raw));
                    }
                }
            }
        }
        Ok(fields)
    }
}

/// A deserializer of a key, borrowed unless the key has escapes.
struct FieldNameSeed;

impl<'a> DeserializeSeed<'a> for FieldNameSeed {
    type Value = Cow<'a, str>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for FieldNameSeed {
    type Value = Cow<'a, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, text: &'a str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// A deserializer of the items: the whole text, and for a list its elements.
struct ItemListSeed<'a> {
    /// The text from the list on, if known. The list is read only once then.
    rest: Option<&'a str>,
}

impl<'a> DeserializeSeed<'a> for ItemListSeed<'a> {
    type Value = (&'a str, Option<Vec<&'a str>>);

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        // The list is by far the largest part of a request. Reading it as one raw value first would walk it twice.
        if let Some(rest) = self.rest.filter(|rest| rest.starts_with('[')) {
            let list = deserializer.deserialize_seq(ItemListVisitor)?;
            let end = list.last().map_or(1, |item| range_in(rest, item).end);
            let end = rest.len() - after_space(&rest[end..]).len() + 1;
            return Ok((&rest[..end], Some(list)));
        }
        let raw: &'a RawValue = serde::Deserialize::deserialize(deserializer)?;
        if !raw.get().starts_with('[') {
            return Ok((raw.get(), None));
        }
        let mut inner = serde_json::Deserializer::from_str(raw.get());
        let list = inner.deserialize_seq(ItemListVisitor).map_err(serde::de::Error::custom)?;
        Ok((raw.get(), Some(list)))
    }
}

struct ItemListVisitor;

impl<'a> Visitor<'a> for ItemListVisitor {
    type Value = Vec<&'a str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = seq.next_element::<&'a RawValue>()? {
            list.push(element.get());
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_character_is_a_mark_and_nothing_else_moves() {
        let mended = |text: &'static str| without_half_characters(Bytes::from_static(text.as_bytes()));
        for whole in [r#"{"a":"\ud83d\ude00 \\ud83d \n\u00e9 \\\"}"#, "", "\\", "\\u", "\\ud8", "\\ud83g"] {
            assert_eq!(mended(whole), whole);
        }
        for (half, expected) in [
            (r#"["\ud83d"]"#, r#"["\ufffd"]"#),
            (r#"["\ud83d\ud83d\ude00x\uDE00"]"#, r#"["\ufffd\ud83d\ude00x\ufffd"]"#),
            (r#"["\\\ude00\ud83d\n"]"#, r#"["\\\ufffd\ufffd\n"]"#),
            (r#"["\\ud83d\ude00\uD83D\\ude00"]"#, r#"["\\ud83d\ufffd\ufffd\\ude00"]"#),
        ] {
            assert_eq!(mended(half), expected);
            assert!(serde_json::from_slice::<Vec<String>>(&mended(half)).is_ok());
        }
    }
    /// Mends a text escape by escape from the beginning, as a slow reference for the tests.
    fn mended_by_walking(text: &str) -> String {
        let code = |at: usize| u16::from_str_radix(text.get(at..at + 6)?.strip_prefix("\\u")?, 16).ok();
        let (mut mended, mut at) = (String::new(), 0);
        while at < text.len() {
            let bytes = match code(at) {
                Some(0xD800..=0xDBFF) if matches!(code(at + 6), Some(0xDC00..=0xDFFF)) => 12,
                Some(0xD800..=0xDFFF) => {
                    mended.push_str("\\ufffd");
                    at += 6;
                    continue;
                }
                Some(_) => 6,
                None if text[at..].starts_with('\\') => 2,
                None => 1,
            };
            let end = (at + bytes).min(text.len());
            mended.push_str(&text[at..end]);
            at = end;
        }
        mended
    }

    proptest::proptest! {
        #[test]
        fn a_half_is_one_wherever_it_stands(pieces in proptest::collection::vec(0..9_usize, 0..24)) {
            let all = ["\\", "\\\\", "u", "\\ud83d", "\\uDE00", "\\ude00", "d8", "\\u00e9", "x"];
            let text: String = pieces.into_iter().map(|piece| all[piece]).collect();
            let mended = without_half_characters(Bytes::from(text.clone().into_bytes()));
            let expected = mended_by_walking(&text);
            proptest::prop_assert_eq!(&mended[..], expected.as_bytes());
        }
    }

    #[test]
    fn the_list_stands_where_it_stands_however_its_key_is_written() {
        let names = EnvelopeFieldNames {
            items: "m",
            max_output: &[],
            system: "",
            others: &[],
            items_may_be_text: true,
        };
        for (list, items) in [
            ("[]", vec![]),
            ("[ \n\t]", vec![]),
            ("[1]", vec!["1"]),
            ("[ {\"a\":[\"]\"]} ,\r\n\"]\\\"\" \t]", vec![r#"{"a":["]"]}"#, r#""]\"""#]),
            (r#""text\n""#, vec![r#""text\n""#]),
        ] {
            for key in [r#""m":"#, r#""m" : "#, "\n\"m\"\r\n\t:\n", r#""\u006d":"#, r#""m":[0,{}],"m":"#] {
                let text = format!("{{ \"model\":\"x\",{key}{list} , \"stream\": true}}");
                let envelope = RequestEnvelope::read(text.clone().into(), &names).unwrap();
                assert_eq!(envelope.text(&envelope.items_at), list, "{text}");
                let read: Vec<&str> = (0..envelope.items.len()).map(|at| envelope.item(at)).collect();
                assert_eq!(read, items, "{text}");
                assert!(envelope.stream);
            }
        }
        for bad in [r#"{"model":"x","m":[1,]}"#, r#"{"model":"x","m":[1"#, r#"{"model":"x","m":[1}]}"#] {
            assert!(RequestEnvelope::read(bad.into(), &names).is_err(), "{bad}");
        }
    }
}
