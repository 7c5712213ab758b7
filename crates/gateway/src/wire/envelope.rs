//! The outermost object of a request: which field stands where, in one pass over its bytes.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Bad;

/// Where the fields of a request stand that the gateway looks at. The bytes are the client's.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The request.
    pub bytes: Bytes,
    /// The model that the client asks for.
    pub model: String,
    /// Where its name stands, quotes included.
    pub model_at: Range<usize>,
    /// Whether a stream is asked for.
    pub stream: bool,
    /// Where that is said.
    pub stream_at: Option<Range<usize>>,
    /// The output limit that the client sets, in tokens; of several the first of [`Names::max_output`].
    pub max_output: Option<u64>,
    /// Where that is said.
    pub max_output_at: Option<Range<usize>>,
    /// The list of items, brackets included; the whole text if the items are one string.
    pub items_at: Range<usize>,
    /// Each item.
    pub items: Vec<Range<usize>>,
    /// The system prompt outside of the items.
    pub system_at: Option<Range<usize>>,
    /// The tools.
    pub tools_at: Option<Range<usize>>,
    /// Every other field of [`Names::others`] that is there.
    pub others_at: Vec<(&'static str, Range<usize>)>,
}

/// What the fields are called in a dialect.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// The list of items.
    pub items: &'static str,
    /// The output limit, the one that counts first.
    pub max_output: &'static [&'static str],
    /// The system prompt outside of the items; empty if there is no such field.
    pub system: &'static str,
    /// Other fields whose places are wanted.
    pub others: &'static [&'static str],
    /// Whether the items may be one string.
    pub items_may_be_text: bool,
}

impl Envelope {
    /// Reads a request.
    ///
    /// # Errors
    /// [`Bad`] if it is no JSON object, if `model` or the items are missing or if a field has another type.
    pub fn read(bytes: Bytes, names: &Names) -> Result<Self, Bad> {
        let text = std::str::from_utf8(&bytes).map_err(|_| Bad::new("the request is not UTF-8"))?;
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let fields = deserializer.deserialize_map(FieldsOf(names)).map_err(|error| not_json(&error))?;
        deserializer.end().map_err(|error| not_json(&error))?;
        let at = |part: &str| range_in(text, part);
        let model = fields.model.ok_or_else(|| Bad::field("model", "`model` is missing"))?;
        let name =
            serde_json::from_str(model).map_err(|_| Bad::field("model", "`model` must be a string"))?;
        let items_raw =
            fields.items.ok_or_else(|| Bad::field(names.items, format!("`{}` is missing", names.items)))?;
        let items = match fields.list {
            Some(list) => list.iter().map(|item| at(item)).collect(),
            None if names.items_may_be_text && items_raw.starts_with('"') => vec![at(items_raw)],
            None => return Err(Bad::field(names.items, format!("`{}` must be a list", names.items))),
        };
        let stream = match fields.stream.filter(|raw| *raw != "null") {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err(Bad::field("stream", "`stream` must be true or false")),
        };
        let said = names.max_output.iter().zip(&fields.max_output);
        let limit = said.filter_map(|(name, raw)| Some((name, (*raw)?))).find(|(_, raw)| *raw != "null");
        let max_output = match limit {
            None => None,
            Some((name, raw)) => Some(limit_of(name, raw)?),
        };
        let envelope = Self {
            model: name,
            model_at: at(model),
            stream,
            stream_at: fields.stream.map(at),
            max_output,
            max_output_at: limit.map(|(_, raw)| at(raw)),
            items_at: at(items_raw),
            items,
            system_at: fields.system.filter(|raw| *raw != "null").map(at),
            tools_at: fields.tools.filter(|raw| *raw != "null").map(at),
            others_at: fields.others.iter().map(|(name, raw)| (*name, at(raw))).collect(),
            bytes: Bytes::new(),
        };
        Ok(Self { bytes, ..envelope })
    }

    /// The text at a place of the request.
    pub fn text(&self, at: &Range<usize>) -> &str {
        self.bytes.get(at.clone()).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// One item as the client wrote it.
    pub fn item(&self, index: usize) -> &str {
        self.items.get(index).map(|at| self.text(at)).unwrap_or_default()
    }

    /// The text of another field, if it is there.
    pub fn other(&self, name: &str) -> Option<&str> {
        self.others_at.iter().find(|(known, _)| *known == name).map(|(_, at)| self.text(at))
    }
}

fn limit_of(name: &str, raw: &str) -> Result<u64, Bad> {
    let number: f64 =
        raw.parse().map_err(|_| Bad::field(name, format!("`{name}` must be a number of tokens")))?;
    // Some clients say -1 for "as much as there is room".
    Ok(if number < 0.0 { u64::MAX } else { number as u64 })
}

fn not_json(error: &serde_json::Error) -> Bad {
    Bad::new(format!("the request is not a JSON object: {error}"))
}

/// Where `part`, a slice of `whole`, stands in it.
fn range_in(whole: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - whole.as_ptr().addr();
    start..start + part.len()
}

#[derive(Default)]
struct Fields<'a> {
    model: Option<&'a str>,
    stream: Option<&'a str>,
    max_output: Vec<Option<&'a str>>,
    items: Option<&'a str>,
    list: Option<Vec<&'a str>>,
    system: Option<&'a str>,
    tools: Option<&'a str>,
    others: Vec<(&'static str, &'a str)>,
}

struct FieldsOf<'n>(&'n Names);

impl<'a> Visitor<'a> for FieldsOf<'_> {
    type Value = Fields<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Fields<'a>, A::Error> {
        let names = self.0;
        let mut fields = Fields { max_output: vec![None; names.max_output.len()], ..Fields::default() };
        while let Some(key) = map.next_key_seed(Key)? {
            if key == names.items {
                let (raw, list) = map.next_value_seed(Items)?;
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
                        fields.others.retain(|(known, _)| known != name);
                        fields.others.push((name, raw));
                    }
                }
            }
        }
        Ok(fields)
    }
}

/// A key, borrowed unless it has escapes.
struct Key;

impl<'a> DeserializeSeed<'a> for Key {
    type Value = Cow<'a, str>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for Key {
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

/// The items: the text as a whole, and if it is a list its elements.
struct Items;

impl<'a> DeserializeSeed<'a> for Items {
    type Value = (&'a str, Option<Vec<&'a str>>);

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let raw: &'a RawValue = serde::Deserialize::deserialize(deserializer)?;
        if !raw.get().starts_with('[') {
            return Ok((raw.get(), None));
        }
        let mut inner = serde_json::Deserializer::from_str(raw.get());
        let list = inner.deserialize_seq(Elements).map_err(serde::de::Error::custom)?;
        Ok((raw.get(), Some(list)))
    }
}

struct Elements;

impl<'a> Visitor<'a> for Elements {
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
