//! Anthropic's Messages API, as Anthropic and compatible servers speak it.
//!
//! A model's content is sent back to the same model unchanged: signatures, redacted reasoning, citations and the
//! argument bytes of tool calls. Content of another model is sent as text and tool calls.

mod adaptation;
mod block;
#[doc(hidden)]
pub mod edit;
pub mod request;
mod stream;
mod unfinished;

use longhaul_core::message::ModelOrigin;

use crate::ModelSettings;

pub use adaptation::MessagesAdaptations;
pub use request::{MAX_TOKENS, encode, encode_parts};
pub use stream::MessagesStreamDecoder;

/// The wire's name in [`ModelOrigin::api`].
pub const API: &str = "anthropic-messages";

/// The base URL of Anthropic's own API.
pub const BASE_URL: &str = "https://api.anthropic.com/v1";

/// The version of the API, the only version known to every compatible server. A header `anthropic-version` replaces
/// the version.
pub const VERSION: &str = "2023-06-01";

/// The settings of a model and the cache marks of the model's requests.
#[derive(Clone, Debug, Default)]
pub struct MessagesConfig {
    /// The model's names, extra fields and declared limits.
    pub settings: ModelSettings,
    /// The time for which the server is asked to keep the prefix cached.
    pub cache: PromptCacheTtl,
    /// The form that the server has demanded by its refusals.
    pub adaptations: MessagesAdaptations,
}

/// The time for which the server is asked to keep the prefix cached, by marks in the request.
///
/// Marks are put at the end of the tools, of the system prompt and of the last two user turns: the API takes no
/// more than four. The marks move with the conversation. The server matches the content before a mark, not the
/// mark itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PromptCacheTtl {
    /// No marks: the server's own rules decide about the cache.
    Off,
    /// One hour if the request's [`long_pauses`](crate::ModelRequest::long_pauses) call for it, else five minutes.
    #[default]
    Auto,
    /// Five minutes since the last use, the API's shortest time.
    FiveMinutes,
    /// One hour since the last use; writing costs more.
    OneHour,
}

impl PromptCacheTtl {
    /// Returns the value of a mark's `ttl` for a conversation with or without long pauses; `None` for the API's
    /// default, five minutes.
    pub fn field(self, has_long_pauses: bool) -> Option<&'static str> {
        match self {
            Self::OneHour => Some("1h"),
            Self::Auto if has_long_pauses => Some("1h"),
            Self::Off | Self::Auto | Self::FiveMinutes => None,
        }
    }
}

impl MessagesConfig {
    fn origin(&self) -> ModelOrigin {
        self.settings.origin(API)
    }
}

#[cfg(test)]
mod tests;
