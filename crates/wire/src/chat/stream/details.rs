//! Assembly of a router's reasoning details: entries come in pieces and are sent back whole, in order.

use std::collections::BTreeMap;

use longhaul_core::message::RawJson;
use serde_json::value::RawValue;

use crate::raw_json::RawObject;

/// Fields with more content in each piece.
const GROWING: &[&str] = &["text", "summary", "data"];

/// Fields with the content of an entry; an entry without any is empty.
const SAYING: &[&str] = &["text", "summary", "data", "signature"];

/// The entries so far.
#[derive(Debug, Default)]
pub(super) struct ReasoningDetailsAssembler(Vec<PartialReasoningDetail>);

/// An entry. Fields from a single piece keep their bytes.
#[derive(Debug)]
struct PartialReasoningDetail {
    fields: RawObject,
    grown: BTreeMap<&'static str, String>,
}

impl ReasoningDetailsAssembler {
    /// Takes the entries of a delta.
    pub(super) fn add(&mut self, raw: &RawValue) {
        // Details that cannot be read are left out: the answer is right without them.
        let pieces: Vec<RawObject> = serde_json::from_str(raw.get()).unwrap_or_default();
        for piece in pieces {
            match self.0.last_mut().filter(|last| last.is_continued_by(&piece)) {
                Some(last) => last.grow(piece),
                None => self.0.push(PartialReasoningDetail { fields: piece, grown: BTreeMap::new() }),
            }
        }
    }

    /// Returns the entries for the next request, if any entry has content.
    pub(super) fn native(&self) -> Option<RawJson> {
        let entries: Vec<RawObject> = self.0.iter().map(PartialReasoningDetail::whole).collect();
        let has_content = entries
            .iter()
            .any(|entry| SAYING.iter().any(|key| entry.text(key).is_some_and(|text| !text.is_empty())));
        let json = entries.iter().map(|entry| entry.to_json().0).collect::<Vec<_>>().join(",");
        has_content.then(|| RawJson(format!(r#"{{"reasoning_details":[{json}]}}"#)))
    }
}

fn is_given(entry: &RawObject, key: &str) -> bool {
    entry.get(key).is_some_and(|value| value != "null")
}

impl PartialReasoningDetail {
    /// Reports whether a piece continues the entry. Pieces of the same entry share index and type, and do not have
    /// different ids.
    fn is_continued_by(&self, piece: &RawObject) -> bool {
        let has_other_id =
            is_given(&self.fields, "id") && is_given(piece, "id") && self.fields.get("id") != piece.get("id");
        is_given(piece, "index")
            && self.fields.get("index") == piece.get("index")
            && self.fields.get("type") == piece.get("type")
            && !has_other_id
    }

    fn grow(&mut self, mut piece: RawObject) {
        for key in GROWING {
            let Some(more) = piece.text(key) else { continue };
            let fields = &self.fields;
            self.grown.entry(key).or_insert_with(|| fields.text(key).unwrap_or_default()).push_str(&more);
            // `grown` has the text now. The emptied field keeps its place among the fields of the entry.
            piece.set_text(key, "");
        }
        self.fields.overwrite(&piece);
    }

    fn whole(&self) -> RawObject {
        let mut whole = self.fields.clone();
        for (key, text) in &self.grown {
            whole.set_text(key, text);
        }
        whole
    }
}
