//! Anthropic's Messages API, as Anthropic and compatible servers speak it.
//!
//! Content that a model wrote goes back to it as it came: signatures, redacted reasoning, citations and the argument
//! bytes of tool calls are not touched. Content of another model goes as text and tool calls.

mod block;
pub mod edit;
pub mod request;
mod stream;
mod unfinished;

use longhaul_core::message::ModelOrigin;

use crate::ModelSettings;

pub use request::{MAX_TOKENS, encode, encode_parts};
pub use stream::MessagesStreamDecoder;

/// The name of this wire in [`ModelOrigin::api`].
pub const API: &str = "anthropic-messages";

/// The base URL of Anthropic's own API.
pub const BASE_URL: &str = "https://api.anthropic.com/v1";

/// The version of the API that is spoken, and the only one that every compatible server knows. A header
/// `anthropic-version` replaces it.
pub const VERSION: &str = "2023-06-01";

/// The settings of one model and the cache marks of its requests.
#[derive(Clone, Debug, Default)]
pub struct MessagesConfig {
    /// The model's names, extra fields and declared limits.
    pub settings: ModelSettings,
    /// How long the server is asked to keep the prefix it has read.
    pub cache: PromptCacheTtl,
}

/// How long the server is asked to keep the prefix it has read, by marks in the request.
///
/// Marks stand at the end of the tools, of the system prompt and of the last two user turns, the most the API
/// takes. They move on with the conversation; what they enclose is matched by its content, not by its marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromptCacheTtl {
    /// There are no marks: the server does as it likes.
    Off,
    /// Five minutes since the last use, the shortest there is.
    #[default]
    FiveMinutes,
    /// One hour since the last use; writing costs more.
    OneHour,
}

impl MessagesConfig {
    fn origin(&self) -> ModelOrigin {
        self.settings.origin(API)
    }
}

#[cfg(test)]
mod tests;
