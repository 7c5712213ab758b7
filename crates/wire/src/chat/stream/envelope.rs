//! The fields of an answer as a whole: id, model, the server's finish reason, timings.

use longhaul_core::message::RawJson;
use serde_json::value::RawValue;

use crate::raw_json::{self, RawObject};

/// Fields of a chunk with a place elsewhere or without a meaning for the answer: `obfuscation` and `p` are padding.
const LEFT_OUT: &[&str] =
    &["choices", "usage", "object", "error", "obfuscation", "p", "prompt_progress", "__verbose"];

/// Fields of a choice, taken beside the chunk's fields.
const OF_CHOICE: &[&str] = &["finish_reason", "native_finish_reason", "stop_reason"];

/// The fields so far, byte for byte.
#[derive(Debug, Default)]
pub(super) struct ChatResponseEnvelope {
    fields: RawObject,
    begun: bool,
}

impl ChatResponseEnvelope {
    /// Takes the first chunk, and the last chunks: both have more fields than a delta.
    pub(super) fn add(&mut self, chunk: &str, choices: &[&RawValue]) {
        let choice = choices.first().and_then(|choice| RawObject::parse(choice.get()));
        // A chunk without choices is OpenAI's report of usage, the last chunk of a stream.
        let ends = choice.as_ref().is_none_or(|choice| given(choice, OF_CHOICE[0]));
        // Every chunk repeats the same fields, and reading them each time would cost more than the text.
        if self.begun && !ends {
            return;
        }
        self.begun = true;
        let chunk = RawObject::parse(chunk).unwrap_or_default();
        self.take(&chunk, |name| !LEFT_OUT.contains(&name));
        if let Some(choice) = choice {
            self.take(&choice, |name| OF_CHOICE.contains(&name));
        }
    }

    /// Returns the fields by name.
    pub(super) fn fields(&self) -> &RawObject {
        &self.fields
    }

    /// Returns the fields as a JSON object, if there are any.
    pub(super) fn to_json(&self) -> Option<RawJson> {
        self.fields.fields().next().map(|_| self.fields.to_json())
    }

    fn take(&mut self, from: &RawObject, wanted: impl Fn(&str) -> bool) {
        // A later `null` must not take away what an earlier chunk has said.
        for (name, value) in from.fields().filter(|(name, value)| wanted(name) && *value != "null") {
            if let Some(value) = raw_json::value(value) {
                self.fields.set(name, value);
            }
        }
    }
}

fn given(object: &RawObject, name: &str) -> bool {
    object.get(name).is_some_and(|value| value != "null" && value != "\"\"")
}
