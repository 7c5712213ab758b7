//! The form of requests that a server of this wire has demanded by its refusals.
//!
//! Families of servers are known by host or by their answers ([`ServerFamily`]). Behind an unknown host any model may be
//! served, and its demands show only when it refuses a request. The client then sends the next request in the form that
//! was asked for.

use super::family::{ReasoningReplay, ServerFamily};
use crate::{ProviderError, field_fault, gemini};

/// The demands of one server, each learned from a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestAdaptations {
    /// Calls are sent with the reasoning of their turn (anomalyco/opencode#10996, continuedev/continue#11711).
    pub replays_tool_turns: bool,
    /// The system prompt stands at the beginning of the first user message.
    pub system_in_user: bool,
    /// Content beside calls is an empty text and never null.
    pub content_is_text: bool,
    /// The answer is asked for in one piece.
    pub answers_whole: bool,
    /// Calls without a thought signature have Google's placeholder for it.
    pub signs_calls: bool,
}

impl RequestAdaptations {
    /// Learns from an error. Returns what the next request has in another form because of it; `None` if nothing.
    pub fn learn(&mut self, error: &ProviderError) -> Option<&'static str> {
        // A server may describe the refused field in the body only.
        let said = format!("{} {}", error.message, error.body.as_deref().unwrap_or_default()).to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
        let is_demanded = has(&["missing", "must be", "required", "passed back", "must provide"]);
        let faults = field_fault::read(&error.message, error.body.as_deref().unwrap_or_default());
        let lacks_content =
            || faults.iter().any(|fault| fault.is_message_field("content") && fault.is_missing_text());
        let lacks_system_role = || faults.iter().any(|fault| fault.is_first_role_besides("system"));
        let (demand, change) = if said.contains("reasoning_content") && is_demanded {
            (&mut self.replays_tool_turns, "calls are sent with the reasoning before them")
        } else if gemini::demands_signatures(error) {
            (
                &mut self.signs_calls,
                "calls without a thought signature are sent with Google's placeholder for it",
            )
        } else if says_no_system_role(&said) || lacks_system_role() {
            (&mut self.system_in_user, "the system prompt stands in the first message")
        } else if says_no_stream(&said) {
            (&mut self.answers_whole, "answers are asked for in one piece")
        } else if lacks_content() || said.contains("content") && says_no_null(&said) {
            (&mut self.content_is_text, "calls are sent with an empty text beside them")
        } else {
            return None;
        };
        (!std::mem::replace(demand, true)).then_some(change)
    }

    /// Returns the family with the demands of this server.
    pub fn apply(self, family: ServerFamily) -> ServerFamily {
        ServerFamily {
            replay: if self.replays_tool_turns { ReasoningReplay::ToolTurns } else { family.replay },
            system_in_user: self.system_in_user || family.system_in_user,
            content_is_text: self.content_is_text || family.content_is_text,
            streams: family.streams && !self.answers_whole,
            signs_calls: self.signs_calls || family.signs_calls,
            ..family
        }
    }
}

fn says_no_system_role(said: &str) -> bool {
    let names_role = ["system role", "'system'", "\"system\"", "`system`", "system message"].iter();
    let is_refused = ["not supported", "unsupported", "not support", "not allowed"]
        .iter()
        .any(|words| said.contains(words));
    is_refused && names_role.into_iter().any(|words| said.contains(words))
}

fn says_no_stream(said: &str) -> bool {
    // `stream_options` is a parameter of its own, which is left out by its name.
    let names_stream = said.contains("stream") && !said.contains("stream_options");
    let is_refused = ["not supported", "not support", "unsupported", "must be verified to stream"];
    names_stream
        && is_refused.iter().any(|words| said.contains(words))
        && ["streaming", "to stream", "'stream'", "\"stream\"", "`stream`"]
            .iter()
            .any(|words| said.contains(words))
}

fn says_no_null(said: &str) -> bool {
    [
        "got null",
        "null value",
        "none is not an allowed value",
        "cannot be null",
        "must not be null",
        "non-null",
        "got none",
        "received null",
        "type: null",
        "missing field `content`",
    ]
    .iter()
    .any(|words| said.contains(words))
}

#[cfg(test)]
mod tests {
    use longhaul_core::error::ErrorCode;

    use super::*;

    fn learned(message: &str) -> RequestAdaptations {
        let mut adaptations = RequestAdaptations::default();
        adaptations.learn(&ProviderError::new(ErrorCode::InvalidRequest, message));
        adaptations
    }

    /// Returns the adaptations that a list of faults teaches, in the form that FastAPI sends with status 422.
    fn learned_from_fault(fault: &str) -> RequestAdaptations {
        let mut adaptations = RequestAdaptations::default();
        let body = format!(r#"{{"detail":[{fault}]}}"#);
        adaptations.learn(&crate::server_error::from_response(422, None, body));
        adaptations
    }

    #[test]
    fn a_demand_is_read_from_the_faults_of_fields() {
        for fault in [
            r#"{"type":"missing","loc":["body","messages",3,"content"],"msg":"Field required","input":{}}"#,
            r#"{"type":"string_type","loc":["body","messages",3,"content","str"],"msg":"Input should be a valid string","input":null}"#,
            r#"{"type":"value_error.missing","loc":["body","messages",3,"content"],"msg":"field required"}"#,
        ] {
            assert!(learned_from_fault(fault).content_is_text, "{fault}");
        }
        let role = r#"{"type":"literal_error","loc":["body","messages",0,"role"],"msg":"Input should be 'user' or 'assistant'"}"#;
        assert!(learned_from_fault(role).system_in_user);
        let missing =
            r#"{"type":"missing","loc":["body","messages",2,"reasoning_content"],"msg":"Field required"}"#;
        assert!(learned_from_fault(missing).replays_tool_turns);
        for fault in [
            // A list has pictures in it, and the picture is left out.
            r#"{"type":"string_type","loc":["body","messages",3,"content"],"msg":"Input should be a valid string","input":[{}]}"#,
            r#"{"type":"missing","loc":["body","messages",3,"tool_call_id"],"msg":"Field required"}"#,
            r#"{"type":"missing","loc":["body","messages",3,"content",0,"text"],"msg":"Field required"}"#,
        ] {
            assert_eq!(learned_from_fault(fault), RequestAdaptations::default(), "{fault}");
        }
    }

    #[test]
    fn a_demand_is_read_from_a_refusal_once() {
        let mut adaptations = RequestAdaptations::default();
        let message =
            "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2";
        let error = ProviderError::new(ErrorCode::InvalidRequest, message);
        assert!(adaptations.learn(&error).is_some() && adaptations.replays_tool_turns);
        assert_eq!(adaptations.learn(&error), None, "the request had that form already");
        assert_eq!(adaptations.apply(ServerFamily::COMPATIBLE).replay, ReasoningReplay::ToolTurns);
        assert!(learned("Function call is missing a thought_signature in functionCall parts.").signs_calls);
        for message in [
            "System role not supported",
            "Error rendering prompt with jinja template: \"System role not supported\".",
            "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        ] {
            assert!(learned(message).system_in_user, "{message}");
        }
        for message in [
            "Your organization must be verified to stream this model.",
            "Streaming is not supported for this model",
            "Unsupported value: 'stream' does not support true with this model.",
        ] {
            assert!(learned(message).answers_whole, "{message}");
        }
        for message in [
            "Invalid value for 'content': expected a string, got null.",
            "messages.2.content: none is not an allowed value",
            "Failed to deserialize the JSON body: messages[2].content: invalid type: null, expected a string",
            "messages[2]: missing field `content` at line 1 column 90",
        ] {
            assert!(learned(message).content_is_text, "{message}");
        }
    }

    #[test]
    fn other_errors_demand_nothing() {
        for message in [
            "property 'reasoning_content' is unsupported",
            "Unrecognized request argument supplied: stream_options",
            "`stream_options` is not supported with streaming",
            "image input is not supported",
            "the system is overloaded",
            "the upstream connect stream was reset",
        ] {
            assert_eq!(learned(message), RequestAdaptations::default(), "{message}");
        }
    }
}
