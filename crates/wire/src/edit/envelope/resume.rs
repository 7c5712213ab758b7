//! Parsing of a request with the beginning of an earlier request: only the new part is read.

use std::ops::Range;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{EnvelopeFieldNames, RequestEnvelope, after_space, mended, range_in};

/// The number of bytes that are compared at a time.
const BLOCK: usize = 4_096;

/// Moves a range behind `from` by `by` bytes.
fn shifted(at: Range<usize>, from: usize, by: usize) -> Range<usize> {
    if at.start < from { at } else { at.start + by..at.end + by }
}

impl RequestEnvelope {
    /// Parses a later version of the request `known`. Items at the common beginning, equal byte by byte, are reused;
    /// only the rest is parsed. The result equals the result of [`RequestEnvelope::read`]. `None`: the request must
    /// be read whole, because it begins differently or has another form.
    pub fn parse_continued(bytes: &Bytes, names: &EnvelopeFieldNames, known: &Self) -> Option<Self> {
        let shared = shared_bytes(bytes, &known.bytes);
        // A repeated request, such as a retry, has nothing new.
        if shared == bytes.len() && shared == known.bytes.len() {
            return Some(Self { bytes: bytes.clone(), ..known.clone() });
        }
        let start = known.items_at.start;
        let count = known.items.partition_point(|item| item.end <= shared);
        let behind = known.items.get(count.checked_sub(1)?)?.end;
        // A number or a word may continue behind the shared bytes (`12` of `123`), so the last shared item must be
        // closed by its own last byte.
        let is_whole = known.bytes.get(start) == Some(&b'[')
            && matches!(known.bytes.get(behind - 1), Some(b'}' | b']' | b'"'));
        let rest = std::str::from_utf8(bytes.get(behind..)?).ok()?;
        // Only a full read replaces lone halves of characters.
        if !is_whole || mended(rest.as_bytes()).is_some() {
            return None;
        }
        let mut items = known.items.get(..count)?.to_vec();
        let end = behind + list(rest, |item| items.push(behind + item.start..behind + item.end))?;
        // The rest of the object is parsed with an empty list in the list's place: parsing the list itself is the
        // cost to save.
        let without = [bytes.get(..start)?, b"[]", bytes.get(end..)?].concat();
        let fields = Self::read(without.into(), names).ok()?;
        let (at, moved) = (start..start + 2, end - start - 2);
        // A second field with the items' name would move the list. Such a request is read whole.
        (fields.items_at == at).then(|| fields.with_list(bytes, at.end, moved, (start..end, items)))
    }

    /// Returns the envelope with its list again, which moves every range behind `from`.
    fn with_list(
        self,
        bytes: &Bytes,
        from: usize,
        by: usize,
        (items_at, items): (Range<usize>, Vec<Range<usize>>),
    ) -> Self {
        Self {
            model_at: self.model_at.map(|at| shifted(at, from, by)),
            stream_at: self.stream_at.map(|at| shifted(at, from, by)),
            max_output_at: self.max_output_at.map(|at| shifted(at, from, by)),
            system_at: self.system_at.map(|at| shifted(at, from, by)),
            tools_at: self.tools_at.map(|at| shifted(at, from, by)),
            others_at: self.others_at.into_iter().map(|(name, at)| (name, shifted(at, from, by))).collect(),
            bytes: bytes.clone(),
            items_at,
            items,
            ..self
        }
    }
}

/// Returns the number of common bytes at the beginning.
fn shared_bytes(one: &[u8], other: &[u8]) -> usize {
    let blocks = one.chunks(BLOCK).zip(other.chunks(BLOCK));
    // Whole blocks compare much faster than single bytes.
    let same = BLOCK * blocks.take_while(|(one, other)| one.len() == BLOCK && one == other).count();
    let pairs = one[same.min(one.len())..].iter().zip(&other[same.min(other.len())..]);
    same + pairs.take_while(|(one, other)| one == other).count()
}

/// Walks the rest of a list from behind one of its elements, and passes the range of each further element.
/// Returns the end of the list.
fn list(text: &str, mut element: impl FnMut(Range<usize>)) -> Option<usize> {
    let mut rest = after_space(text);
    while let Some(behind) = rest.strip_prefix(',') {
        let mut values = serde_json::Deserializer::from_str(behind).into_iter::<&RawValue>();
        // A fault is left to the reading of the whole request, whose error names the place.
        let raw = values.next()?.ok()?.get();
        element(range_in(text, raw));
        rest = after_space(&text[range_in(text, raw).end..]);
    }
    let end = rest.strip_prefix(']')?;
    Some(text.len() - end.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAMES: EnvelopeFieldNames = EnvelopeFieldNames {
        items: "m",
        max_output: &["first", "second"],
        system: "s",
        others: &["n", "other"],
        items_may_be_text: true,
    };

    const FIELDS: [&str; 12] = [
        r#""model":"x""#,
        r#""model" : "yy""#,
        r#""model":7"#,
        r#""stream":true"#,
        r#""stream":"no""#,
        r#""first":null"#,
        r#""second": 12"#,
        r#""s":"\u0041é""#,
        r#""tools":[{"m":[1]}]"#,
        r#""n":2"#,
        r#""other":{"m":[{}]}"#,
        r#""m":[{"b":2}]"#,
    ];

    const ITEMS: [&str; 10] = [
        r#"{"a":"b"}"#,
        r#"{"a":"c"}"#,
        r#"["]",{}]"#,
        r#""text \"]\" é""#,
        "12",
        "123",
        "true",
        r#"{"x":"\ud83d"}"#,
        r#"{"x":"\ud83d\ude00"}"#,
        r#" {"a" : [ 1 , 2 ] } "#,
    ];

    fn body(before: &[usize], items: &[usize], after: &[usize], tail: &str) -> Bytes {
        let fields = |chosen: &[usize]| chosen.iter().map(|at| FIELDS[*at].to_owned()).collect::<Vec<_>>();
        let items: Vec<&str> = items.iter().map(|at| ITEMS[*at]).collect();
        let mut all = fields(before);
        all.push(format!("\"m\": [{}]", items.join(",")));
        all.extend(fields(after));
        format!("{{{}}}{tail}", all.join(" ,\n")).into()
    }

    #[test]
    fn a_conversation_that_grows_is_read_from_where_it_grows() {
        let known = RequestEnvelope::read(body(&[0], &[0, 3], &[3, 8], ""), &NAMES).unwrap();
        for (before, items, after, tail) in [
            (&[0], &[0, 3, 9, 2][..], &[3, 8][..], "\n"),
            (&[0], &[0, 1], &[6, 5], ""),
            (&[0], &[0, 3], &[3, 8], ""),
            (&[0], &[0, 3], &[8, 10, 7], " "),
        ] {
            let bytes = body(before, items, after, tail);
            let read =
                RequestEnvelope::parse_continued(&bytes, &NAMES, &known).expect("it begins as the known one");
            assert_eq!(format!("{read:?}"), format!("{:?}", RequestEnvelope::read(bytes, &NAMES).unwrap()));
        }
        for other in [body(&[1], &[0, 3], &[], ""), body(&[0], &[1, 3], &[], ""), body(&[0], &[0], &[], "x")]
        {
            assert!(RequestEnvelope::parse_continued(&other, &NAMES, &known).is_none(), "{other:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn what_is_read_after_another_is_what_is_read_whole(
            before in prop::collection::vec(0..FIELDS.len(), 0..4),
            after in prop::collection::vec(0..FIELDS.len(), 0..4),
            items in prop::collection::vec(0..ITEMS.len(), 0..6),
            known_items in 0..6_usize,
            known_after in prop::collection::vec(0..FIELDS.len(), 0..3),
            other in prop::option::of(0..ITEMS.len()),
            cut in prop::option::of(0..200_usize),
            tail in prop::sample::select(vec!["", " ", "\n\t", "x", ",", "}"]),
        ) {
            let mut first: Vec<usize> = items.iter().copied().take(known_items).collect();
            first.extend(other);
            let Ok(known) = RequestEnvelope::read(body(&before, &first, &known_after, ""), &NAMES) else { return Ok(()) };
            let mut bytes = body(&before, &items, &after, tail);
            if let Some(cut) = cut {
                bytes.truncate(cut.max(1));
            }
            let read = RequestEnvelope::parse_continued(&bytes, &NAMES, &known);
            let whole = RequestEnvelope::read(bytes, &NAMES);
            if let Some(read) = read {
                let whole = whole.expect("nothing is read that is not whole");
                prop_assert_eq!(format!("{read:?}"), format!("{whole:?}"));
            }
        }
    }
}
