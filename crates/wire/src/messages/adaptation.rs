//! The form of requests that a server of this wire has demanded by its refusals.

use crate::{ProviderError, field_fault};

/// The demands of one server, each learned from a refusal. Refused parameters are learned elsewhere, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessagesAdaptations {
    /// The system prompt, and content of nothing but text, are texts and no lists of blocks.
    pub has_plain_texts: bool,
}

impl MessagesAdaptations {
    /// Learns from an error. Returns what the next request has in another form because of it; `None` if nothing.
    pub fn learn(&mut self, error: &ProviderError) -> Option<&'static str> {
        if !demands_text(error) || std::mem::replace(&mut self.has_plain_texts, true) {
            return None;
        }
        Some("texts are sent as texts and not as lists of blocks")
    }
}

/// Words by which a server demands a text in the place of a list.
const TEXT_FOR_LIST: &[&str] = &[
    "valid string",
    "must be a string",
    "must be string",
    "expected a string",
    "expected string",
    "should be a string",
    "of type string",
    "str type expected",
];

fn demands_text(error: &ProviderError) -> bool {
    let faults = field_fault::read(&error.message, error.body.as_deref().unwrap_or_default());
    if faults.iter().any(|fault| fault.is_list_for_text() && has_texts(&fault.place)) {
        return true;
    }
    let said = error.message.to_lowercase().replace(['`', '\'', '"'], "");
    // A null or a number in the place of a text is another fault.
    let is_other = ["null", "none", "integer", "number"].iter().any(|word| said.contains(word));
    let names_field = said
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .any(|word| matches!(word, "system" | "content"));
    !is_other && names_field && TEXT_FOR_LIST.iter().any(|words| said.contains(words))
}

/// Reports whether requests of this wire write a list of text blocks at a place.
fn has_texts(place: &[String]) -> bool {
    let is_system = place.first().is_some_and(|field| field == "system");
    // Names of types may follow behind the field's name.
    is_system || place.iter().any(|step| step == "content")
}

#[cfg(test)]
mod tests {
    use longhaul_core::error::ErrorCode;

    use super::*;
    use crate::server_error;

    #[test]
    fn a_demand_for_plain_texts_is_learned_once() {
        for body in [
            r#"{"detail":[{"type":"string_type","loc":["body","system"],"msg":"Input should be a valid string","input":[{"type":"text"}]}]}"#,
            r#"{"detail":[{"type":"string_type","loc":["body","messages",0,"content","str"],"msg":"Input should be a valid string","input":[{}]}]}"#,
            r#"{"error":{"type":"invalid_request_error","message":"system: Input should be a valid string"}}"#,
            r#"{"error":{"message":"json: cannot unmarshal array into Go struct field MessagesRequest.system of type string"}}"#,
            r#"{"error":{"message":"messages[0].content: invalid type: sequence, expected a string"}}"#,
        ] {
            let error = server_error::from_response(400, None, body.to_owned());
            let mut adaptations = MessagesAdaptations::default();
            assert!(adaptations.learn(&error).is_some() && adaptations.has_plain_texts, "{body}");
            assert_eq!(adaptations.learn(&error), None, "the request had that form already");
        }
    }

    #[test]
    fn other_errors_demand_nothing() {
        for message in [
            "messages.0.content.0.text.text: Field required",
            "messages.1.content: invalid type: null, expected a string",
            "metadata.user_id: Input should be a valid string",
            "messages: text content blocks must be non-empty",
        ] {
            let error = ProviderError::new(ErrorCode::InvalidRequest, message);
            assert_eq!(MessagesAdaptations::default().learn(&error), None, "{message}");
        }
    }
}
