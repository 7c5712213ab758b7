//! Assembly of a router's reasoning details: entries that come in pieces and are sent back whole, in order.

use std::collections::BTreeMap;

use longhaul_core::message::RawJson;
use serde_json::value::RawValue;

use crate::raw_json::RawObject;

/// Fields that grow from piece to piece.
const GROWING: &[&str] = &["text", "summary", "data"];

/// Fields of which one must have content; an entry without any is empty.
const SAYING: &[&str] = &["text", "summary", "data", "signature"];

/// The entries so far.
#[derive(Debug, Default)]
pub(super) struct ReasoningDetailsAssembler(Vec<PartialReasoningDetail>);

/// One entry. Fields that came in a single piece keep their bytes.
#[derive(Debug)]
struct PartialReasoningDetail {
    fields: RawObject,
    grown: BTreeMap<&'static str, String>,
}

impl ReasoningDetailsAssembler {
    /// Takes the entries of one delta.
    pub(super) fn add(&mut self, raw: &RawValue) {
        let pieces: Vec<RawObject> = serde_json::from_str(raw.get()).unwrap_or_default();
        for piece in pieces {
            match self.0.last_mut().filter(|last| last.is_continued_by(&piece)) {
                Some(last) => last.grow(piece),
                None => self.0.push(PartialReasoningDetail { fields: piece, grown: BTreeMap::new() }),
            }
        }
    }

    /// Returns the entries for the next request, if one of them has content.
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
    /// Reports whether a piece continues this entry. Pieces of one entry share its index and type, and do not
    /// have different ids.
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
