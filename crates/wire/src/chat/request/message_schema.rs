//! The shape of a message in the request.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum ChatRequestMessage<'a> {
    System { content: &'a str },
    User { content: ChatRequestContent<'a> },
    Assistant(ChatAssistantMessage<'a>),
    Tool { tool_call_id: String, content: String },
}

/// The content of a message. Text alone is a string: every server takes strings.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum ChatRequestContent<'a> {
    Text(Cow<'a, str>),
    Items(Vec<ChatRequestPart<'a>>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ChatRequestPart<'a> {
    Text {
        text: Cow<'a, str>,
    },
    ImageUrl {
        image_url: ChatRequestImageUrl,
    },
    File {
        file: ChatRequestFile<'a>,
    },
    DocumentUrl {
        document_url: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        document_name: Option<&'a str>,
    },
    Thinking {
        thinking: [ChatRequestThinkingText<'a>; 1],
    },
    #[serde(untagged)]
    Native(&'a RawValue),
}

#[derive(Debug, Serialize)]
pub(super) struct ChatRequestImageUrl {
    pub(super) url: String,
}

#[derive(Debug, Serialize)]
pub(super) struct ChatRequestFile<'a> {
    pub(super) filename: &'a str,
    pub(super) file_data: String,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "text")]
pub(super) struct ChatRequestThinkingText<'a> {
    pub(super) text: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct ChatAssistantMessage<'a> {
    pub(super) content: Option<ChatRequestContent<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_details: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<ChatRequestToolCall<'a>>,
    // Other servers may refuse the field, so only Mistral's prefill writes it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) prefix: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct ChatRequestToolCall<'a> {
    pub(super) id: String,
    pub(super) r#type: &'static str,
    pub(super) function: ChatRequestFunctionCall<'a>,
    /// The server's additional fields of the call, to be sent back, for example a thought signature.
    #[serde(flatten)]
    pub(super) extra: BTreeMap<String, Box<RawValue>>,
}

#[derive(Debug, Serialize)]
pub(super) struct ChatRequestFunctionCall<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: Cow<'a, str>,
}

impl<'a> ChatAssistantMessage<'a> {
    /// Creates a short assistant message, to stand between two messages.
    pub(super) fn word(text: &'a str) -> Self {
        Self {
            content: Some(ChatRequestContent::Text(Cow::Borrowed(text))),
            reasoning_content: None,
            reasoning: None,
            reasoning_details: None,
            tool_calls: Vec::new(),
            prefix: false,
        }
    }
}
