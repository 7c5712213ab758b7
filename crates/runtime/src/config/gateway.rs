//! The gateway: whom it answers, and how.

use std::collections::BTreeMap;
use std::fmt;

use super::model::{FirstByteTimeout, ModelLimits, ProviderKind, choices};

choices!(
    /// Who may use the gateway.
    GatewayAuth {
        /// Whoever is on this machine; others need the token.
        OpenOnLoopback = "open-on-loopback",
        /// Who shows the token.
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
    /// What is done about an answer that outgrows its window.
    GatewayMidstream {
        /// It is stopped, room is made, and it goes on exactly, where its server can do that.
        Exact = "exact",
        /// The same; elsewhere the model is asked to go on, and what it repeats is left out.
        BestEffort = "best-effort",
        /// It ends as its server ends it.
        Off = "off",
    }
);

choices!(
    /// What is done about what a model is no longer shown.
    GatewayRecall {
        /// Nothing: the tools are the client's.
        Off = "off",
        /// The tool `recall` is added, and answered without the client.
        Inject = "inject",
    }
);

choices!(
    /// What is done about a client's tools that take much of the window.
    GatewayDeferTools {
        /// Those that take more than a quarter of the window are deferred: the model finds and calls them through two others.
        Auto = "auto",
        /// Nothing.
        Off = "off",
    }
);

choices!(
    /// How clients speak.
    GatewayDialect {
        /// Chat Completions.
        Chat = "chat",
        /// OpenAI's Responses.
        Responses = "responses",
        /// Anthropic's Messages.
        Messages = "messages",
    }
);

/// HTTP headers by name. What they say does not show: keys stand in them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UpstreamHeaders(pub BTreeMap<String, String>);

impl fmt::Debug for UpstreamHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A server behind the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamConfig {
    /// Its name, for people and in headers.
    pub name: String,
    /// What it is.
    pub provider: ProviderKind,
    /// Where its API begins.
    pub base_url: String,
    /// The environment variable that holds its key.
    pub api_key_env: Option<String>,
    /// HTTP headers added to every request.
    pub headers: UpstreamHeaders,
    /// How long it may be silent, before an answer and within it.
    pub timeout: FirstByteTimeout,
    /// The dialects in which requests pass to it as they are; `None`: those that its kind speaks, and those that it is
    /// found to speak.
    pub dialects: Option<Vec<GatewayDialect>>,
    /// The window of those of its models that have no other, in tokens.
    pub window: Option<u64>,
    /// Its models as clients know them; empty: any name is passed on as it is.
    pub models: Vec<UpstreamModel>,
}

/// A model of a server behind the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamModel {
    /// What clients ask for.
    pub name: String,
    /// What the server calls it.
    pub model: String,
    /// What is declared of it; prices are not looked at.
    pub limits: ModelLimits,
}

/// The gateway: whom it answers, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayConfig {
    /// Servers behind it, the preferred first, before that of the model.
    pub upstreams: Vec<UpstreamConfig>,
    /// What is done about an answer that outgrows its window.
    pub midstream: GatewayMidstream,
    /// Whether the answer's text says what is done to it.
    pub notices_in_text: bool,
    /// Whether models can look up what was left out.
    pub recall: GatewayRecall,
    /// Whether a client's tools are deferred that take much of the window.
    pub defer_tools: GatewayDeferTools,
    /// Who may use it.
    pub auth: GatewayAuth,
    /// Whose key an upstream is shown.
    pub credentials: GatewayCredentials,
}
