//! Recognition of whole answers without content: `choices: []`, `candidates: []`, `content: []`, `output: []`, or none
//! of these fields.
//!
//! Such a body came to its end. An answer that a stream left unfinished is another matter.

use longhaul_core::error::ErrorCode;
use longhaul_core::message::{ModelAnswer, ModelStopReason};
use serde_json::{Map, Value};

use crate::ProviderError;

/// The fields of an answer that hold its content, on any wire.
const CONTENT_FIELDS: &[&str] = &["choices", "candidates", "content", "output", "message"];

/// Fields that only answers of models have, beside those with content.
const ANSWER_FIELDS: &[&str] =
    &["usage", "usageMetadata", "model", "modelVersion", "object", "system_fingerprint", "responseId"];

/// The number of characters of a foreign body in an error.
const MAX_QUOTE_CHARS: usize = 200;

/// Returns the answer of a body that came whole. `finished` is what its decoder made of it.
///
/// A decoder calls a body without a stop reason cut off. A whole body without content is an empty answer, and a body of
/// something else is told with its beginning.
pub(crate) fn settle(
    body: &str,
    finished: Result<ModelAnswer, ProviderError>,
) -> Result<ModelAnswer, ProviderError> {
    let broken = match finished {
        Err(error) if error.code == ErrorCode::TruncatedStream => error,
        settled => return settled,
    };
    // JSON that stops in the middle was cut by the connection.
    let Ok(value) = serde_json::from_str::<Value>(body) else { return Err(broken) };
    match content_of(&value) {
        BodyContent::Nothing => Ok(ModelAnswer {
            parts: Vec::new(),
            finish: ModelStopReason::Other,
            usage: broken.usage,
            envelope: None,
        }),
        BodyContent::Something => Err(ProviderError {
            message: "the answer has no stop reason, so a part of it may be missing".to_owned(),
            ..broken
        }),
        BodyContent::Foreign => {
            let quote: String = body.trim().chars().take(MAX_QUOTE_CHARS).collect();
            let message = format!("the answer held nothing that a model writes: {quote}");
            let error = ProviderError::new(ErrorCode::ThirdParty, message);
            Err(ProviderError { body: Some(body.to_owned()), broke_off: true, usage: broken.usage, ..error })
        }
    }
}

/// The content of a whole body.
enum BodyContent {
    /// The body is an answer without content.
    Nothing,
    /// The body has content.
    Something,
    /// The body is no answer of a model.
    Foreign,
}

fn content_of(value: &Value) -> BodyContent {
    match value {
        // Gemini's answers may come as a list of chunks.
        Value::Array(items) if items.iter().all(|item| matches!(content_of(item), BodyContent::Nothing)) => {
            BodyContent::Nothing
        }
        Value::Array(items)
            if items.iter().any(|item| matches!(content_of(item), BodyContent::Something)) =>
        {
            BodyContent::Something
        }
        Value::Object(fields) => content_of_object(fields),
        _ => BodyContent::Foreign,
    }
}

fn content_of_object(fields: &Map<String, Value>) -> BodyContent {
    let is_filled = CONTENT_FIELDS.iter().filter_map(|name| fields.get(*name)).any(has_content);
    if is_filled && !is_sentence(fields) {
        BodyContent::Something
    } else if fields.is_empty()
        || has_any(fields, ANSWER_FIELDS)
        || has_any(fields, CONTENT_FIELDS) && !is_sentence(fields)
    {
        BodyContent::Nothing
    } else {
        BodyContent::Foreign
    }
}

/// Returns whether an object has one of some fields.
fn has_any(fields: &Map<String, Value>, names: &[&str]) -> bool {
    names.iter().any(|name| fields.contains_key(*name))
}

/// Returns whether a value of a field for content has content.
fn has_content(value: &Value) -> bool {
    match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => false,
    }
}

/// Returns whether the only content of an object is a sentence in `message`, as of a web server: `{"message": "Hello"}`.
fn is_sentence(fields: &Map<String, Value>) -> bool {
    let others = CONTENT_FIELDS.iter().filter(|name| **name != "message");
    fields.get("message").is_some_and(Value::is_string)
        && !others.into_iter().any(|name| fields.contains_key(*name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StreamDecoder;
    use crate::chat::stream::ChatStreamDecoder;
    use crate::gemini::GeminiStreamDecoder;
    use crate::messages::MessagesStreamDecoder;
    use crate::responses::ResponsesStreamDecoder;

    fn whole<D: StreamDecoder>(body: &str) -> Result<ModelAnswer, ProviderError> {
        let mut decoder = D::default();
        decoder.push(body)?;
        decoder.finish_whole(body)
    }

    #[test]
    fn an_answer_without_content_is_empty_and_not_cut_off() {
        for body in [
            r#"{"id":"a","object":"chat.completion","model":"m","choices":[]}"#,
            r#"{"id":"a","object":"chat.completion","model":"m","choices":null,"usage":null}"#,
            r#"{"id":"a","object":"chat.completion","model":"m","created":1}"#,
            r#"{"choices":[]}"#,
            "{}",
        ] {
            let answer = whole::<ChatStreamDecoder>(body).unwrap_or_else(|error| panic!("{body}: {error}"));
            assert_eq!((answer.parts.len(), answer.finish), (0, ModelStopReason::Other), "{body}");
        }
        let counted = r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":0,"total_tokens":7}}"#;
        let usage = whole::<ChatStreamDecoder>(counted).unwrap().usage;
        assert_eq!(usage.map(|usage| usage.input_tokens), Some(7));
        for body in [
            r#"{"candidates":[],"modelVersion":"gemini-2.5-pro","responseId":"x"}"#,
            r#"{"usageMetadata":{"promptTokenCount":7,"totalTokenCount":7},"modelVersion":"gemini-2.5-pro"}"#,
            "[]",
            r#"[{"candidates":[]}]"#,
            "{}",
        ] {
            let answer = whole::<GeminiStreamDecoder>(body).unwrap_or_else(|error| panic!("{body}: {error}"));
            assert!(answer.parts.is_empty(), "{body}");
        }
        for body in [
            r#"{"id":"m","type":"message","role":"assistant","content":[],"stop_reason":null}"#,
            r#"{"id":"m","role":"assistant","model":"claude","content":[]}"#,
            r#"{"id":"m","role":"assistant","model":"claude"}"#,
            "{}",
        ] {
            let answer =
                whole::<MessagesStreamDecoder>(body).unwrap_or_else(|error| panic!("{body}: {error}"));
            assert!(answer.parts.is_empty(), "{body}");
        }
        for body in [
            r#"{"id":"r","object":"response","status":"completed","output":[]}"#,
            r#"{"id":"r","object":"response","output":null}"#,
            r#"{"id":"r","model":"gpt","output":[]}"#,
            "{}",
        ] {
            let answer =
                whole::<ResponsesStreamDecoder>(body).unwrap_or_else(|error| panic!("{body}: {error}"));
            assert!(answer.parts.is_empty(), "{body}");
        }
    }

    #[test]
    fn a_body_that_no_model_wrote_is_told_with_its_beginning() {
        for body in [r#"{"status":"ok"}"#, r#"{"message":"Hello World"}"#, r#"{"version":"0.9.1"}"#] {
            let error = whole::<ChatStreamDecoder>(body).unwrap_err();
            let told = format!("the answer held nothing that a model writes: {body}");
            assert_eq!((error.code, error.message), (ErrorCode::ThirdParty, told), "{body}");
            assert!(error.broke_off && error.retryable, "it is asked for a few times, as an empty answer is");
        }
    }

    #[test]
    fn content_without_a_stop_reason_and_half_a_body_stay_cut() {
        let half = whole::<ChatStreamDecoder>(r#"{"choices":[{"index":0,"message":{"content":"half"}}]}"#);
        let error = half.unwrap_err();
        assert_eq!(error.code, ErrorCode::TruncatedStream);
        assert!(error.message.contains("no stop reason"), "{error}");
        let error = whole::<ChatStreamDecoder>(r#"{"choices":[{"index":0,"#).unwrap_err();
        assert_eq!(error.code, ErrorCode::TruncatedStream);
    }
}
