//! The gateway: whom it answers, and how.

use std::collections::BTreeMap;
use std::fmt;

use super::model::{FirstByteTimeout, ModelLimits, PromptCacheLife, ProviderKind, choices};

choices!(
    /// The condition for the use of the gateway.
    GatewayAuth {
        /// Whoever is on this machine; others need the token.
        OpenOnLoopback = "open-on-loopback",
        /// Clients that present the token.
        Token = "token",
    }
);

choices!(
    /// Whose key an upstream is shown.
    GatewayCredentials {
        /// The one of this file.
        Own = "own",
        /// The caller's.
        Forward = "forward",
    }
);

choices!(
    /// The treatment of an answer that outgrows its window.
    GatewayMidstream {
        /// The answer is stopped, room is made, and the answer resumes exactly, where its server supports this.
        Exact = "exact",
        /// Like `Exact`. Elsewhere the model is asked to continue, and text that it repeats is left out.
        BestEffort = "best-effort",
        /// The answer ends where its server ends it.
        Off = "off",
    }
);

choices!(
    /// The access of a model to messages that it is no longer shown.
    GatewayRecall {
        /// Models cannot look anything up: the tools are the client's.
        Off = "off",
        /// The tool `recall` is added, and answered without the client.
        Inject = "inject",
    }
);

choices!(
    /// The treatment of a client's tools that take much of the window.
    GatewayDeferTools {
        /// Tools are deferred above a quarter of the window: the model finds and calls them through two others.
        Auto = "auto",
        /// All tools are listed.
        Off = "off",
    }
);

choices!(
    /// The wire that clients speak.
    GatewayDialect {
        /// Chat Completions.
        Chat = "chat",
        /// OpenAI's Responses.
        Responses = "responses",
        /// Anthropic's Messages.
        Messages = "messages",
    }
);

/// HTTP headers by name. `Debug` hides their values, which may be keys.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UpstreamHeaders(pub BTreeMap<String, String>);

impl fmt::Debug for UpstreamHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Header names help in a log; their values may be keys.
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A server behind the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamConfig {
    /// The server's name, for people and in headers.
    pub name: String,
    /// The kind of server.
    pub provider: ProviderKind,
    /// The URL at which the server's API begins.
    pub base_url: String,
    /// The environment variable that holds its key.
    pub api_key_env: Option<String>,
    /// HTTP headers added to every request.
    pub headers: UpstreamHeaders,
    /// The life of Anthropic's prompt cache.
    pub cache: PromptCacheLife,
    /// The longest silence of the server, before an answer and within it.
    pub timeout: FirstByteTimeout,
    /// The dialects in which requests pass to it as they are; `None`: those that its kind speaks, and those that it is
    /// found to speak.
    pub dialects: Option<Vec<GatewayDialect>>,
    /// The window of those of its models that have no other, in tokens.
    pub window: Option<u64>,
    /// The server's models as clients know them; if empty, any name is passed on unchanged.
    pub models: Vec<UpstreamModel>,
}

/// A model of a server behind the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamModel {
    /// The model name that clients ask for.
    pub name: String,
    /// The model name that the server knows.
    pub model: String,
    /// The declared limits of the model; prices are ignored.
    pub limits: ModelLimits,
}

/// The gateway: whom it answers, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayConfig {
    /// Servers behind it, the preferred first, before that of the model.
    pub upstreams: Vec<UpstreamConfig>,
    /// The treatment of an answer that outgrows its window.
    pub midstream: GatewayMidstream,
    /// True if the answer's text reports changes made to it.
    pub notices_in_text: bool,
    /// The access of models to messages that were left out.
    pub recall: GatewayRecall,
    /// The treatment of a client's tools that take much of the window.
    pub defer_tools: GatewayDeferTools,
    /// The condition for the use of the gateway.
    pub auth: GatewayAuth,
    /// Whose key an upstream is shown.
    pub credentials: GatewayCredentials,
}
