//! The body of a request: one JSON object whose fields keep the order of insertion.

use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::ProviderError;
use crate::raw_json::RawObject;

/// A JSON object whose fields keep the order of insertion.
#[derive(Default)]
pub struct RequestBody(Vec<u8>);

impl RequestBody {
    /// Adds a field.
    ///
    /// # Errors
    /// `invalid-request` if the value cannot be written as JSON.
    pub fn put(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<(), ProviderError> {
        // Fields are written as they come, so the conversation is not copied into a map first.
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        serde_json::to_writer(&mut self.0, name).map_err(not_json)?;
        self.0.push(b':');
        serde_json::to_writer(&mut self.0, value).map_err(not_json)
    }

    /// Adds a field unless `declared` has it. A declared value was put already, or is `null` to remove the field.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_unless(
        &mut self,
        declared: &Map<String, Value>,
        name: &str,
        value: &(impl Serialize + ?Sized),
    ) -> Result<(), ProviderError> {
        if declared.contains_key(name) { Ok(()) } else { self.put(name, value) }
    }

    /// Adds every declared field but `null`s and those of `ours`, which no configuration may replace.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_declared(
        &mut self,
        declared: &Map<String, Value>,
        ours: &[&str],
    ) -> Result<(), ProviderError> {
        declared
            .iter()
            .filter(|(name, value)| !value.is_null() && !ours.contains(&name.as_str()))
            .try_for_each(|(name, value)| self.put(name, value))
    }

    /// Returns the whole object.
    pub fn finish(mut self) -> Bytes {
        if self.0.is_empty() {
            // A body without fields has no opening brace yet.
            self.0.push(b'{');
        }
        self.0.push(b'}');
        self.0.into()
    }
}

fn not_json(error: serde_json::Error) -> ProviderError {
    ProviderError::new(ErrorCode::InvalidRequest, format!("the request cannot be written as JSON: {error}"))
}

/// Parses a body that [`RequestBody`] wrote.
///
/// # Errors
/// `invalid-request` if it is not a JSON object.
pub fn parse_body(body: &Bytes) -> Result<RawObject, ProviderError> {
    serde_json::from_slice(body).map_err(|error| {
        ProviderError::new(ErrorCode::InvalidRequest, format!("the request is not a JSON object: {error}"))
    })
}

/// Returns a body with only the named fields of `body`, byte for byte.
///
/// # Errors
/// `invalid-request` if they cannot be written.
pub fn pick_fields(body: &RawObject, names: &[&str]) -> Result<Bytes, ProviderError> {
    let mut picked = RequestBody::default();
    for (name, value) in body.fields().filter(|(name, _)| names.contains(name)) {
        if let Ok(value) = serde_json::from_str::<&RawValue>(value) {
            picked.put(name, value)?;
        }
    }
    Ok(picked.finish())
}
