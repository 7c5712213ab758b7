//! The form of requests that a server of this wire has demanded by its refusals.

use crate::{ProviderError, field_fault};

/// The demands of one server, each learned from a refusal. Refused parameters are learned elsewhere, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResponsesAdaptations {
    /// Reasoning items are not sent back. Servers that write them do not always take them.
    pub omits_reasoning: bool,
    /// Tools have no field `strict`.
    pub omits_strict: bool,
}

impl ResponsesAdaptations {
    /// Learns from an error. Returns what the next request has in another form because of it; `None` if nothing.
    pub fn learn(&mut self, error: &ProviderError) -> Option<&'static str> {
        let said = error.message.to_lowercase().replace(['`', '\'', '"'], "");
        let (demand, change) = if refuses_reasoning_items(&said) {
            (&mut self.omits_reasoning, "reasoning is not sent back")
        } else if refuses_strict(&said, error) {
            (&mut self.omits_strict, "tools have no field `strict`")
        } else {
            return None;
        };
        (!std::mem::replace(demand, true)).then_some(change)
    }
}

/// Words by which a server refuses a type or a field that it does not know.
const REFUSALS: &[&str] = &[
    "unknown",
    "unsupported",
    "not supported",
    "unrecognized",
    "invalid",
    "unexpected",
    "does not match any",
    "extra inputs",
    "extra_forbidden",
];

/// The type of reasoning items, as servers write it that do not know the type. OpenAI's "of type reasoning" stands in
/// errors about one item, and is not among them.
const REASONING_TYPES: &[&str] = &[
    "item type: reasoning",
    "item type reasoning",
    "input type: reasoning",
    "input type reasoning",
    "variant reasoning",
    "tag reasoning",
    "type value: reasoning",
    "type: reasoning",
];

fn refuses_reasoning_items(said: &str) -> bool {
    REFUSALS.iter().any(|words| said.contains(words))
        && REASONING_TYPES.iter().any(|words| said.contains(words))
}

/// Returns whether a fault is about the field `strict` of a tool.
fn is_extra_strict(fault: &field_fault::RequestFieldFault) -> bool {
    let place = (fault.place.first().map(String::as_str), fault.place.last().map(String::as_str));
    fault.is_extra() && place == (Some("tools"), Some("strict"))
}

fn refuses_strict(said: &str, error: &ProviderError) -> bool {
    let faults = field_fault::read(&error.message, error.body.as_deref().unwrap_or_default());
    // `tools[0].strict`, `tools.0.strict`, `tools.0.function.strict`
    let is_named = said.contains("tools") && said.contains(".strict");
    faults.iter().any(is_extra_strict) || is_named && REFUSALS.iter().any(|words| said.contains(words))
}

#[cfg(test)]
mod tests {
    use longhaul_core::error::ErrorCode;

    use super::*;
    use crate::server_error;

    fn learned(message: &str) -> ResponsesAdaptations {
        let mut adaptations = ResponsesAdaptations::default();
        adaptations.learn(&ProviderError::new(ErrorCode::InvalidRequest, message));
        adaptations
    }

    #[test]
    fn a_demand_is_learned_once() {
        for message in [
            "unknown input item type: reasoning",
            "Unsupported input item type 'reasoning'",
            "input[2]: unknown variant `reasoning`, expected one of `message`, `function_call`",
            "Input tag 'reasoning' found using 'type' does not match any of the expected tags",
        ] {
            assert!(learned(message).omits_reasoning, "{message}");
        }
        let mut adaptations = ResponsesAdaptations::default();
        let body = r#"{"detail":[{"type":"extra_forbidden","loc":["body","tools",0,"function","strict"],"msg":"Extra inputs are not permitted"}]}"#;
        let error = server_error::from_response(422, None, body.to_owned());
        assert!(adaptations.learn(&error).is_some() && adaptations.omits_strict);
        assert_eq!(adaptations.learn(&error), None, "the request had that form already");
        assert!(learned("Unknown parameter: 'tools[0].strict'.").omits_strict);
    }

    #[test]
    fn errors_about_one_item_or_about_a_schema_demand_nothing() {
        for message in [
            "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
            "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
            "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
            "Invalid schema for function 'x': in strict mode all fields are required",
        ] {
            assert_eq!(learned(message), ResponsesAdaptations::default(), "{message}");
        }
    }
}
