//! The gateway: whom it answers, and how.

use super::model::choices;

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
        /// It ends as its server ends it.
        Off = "off",
    }
);

/// The gateway: whom it answers, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayConfig {
    /// What is done about an answer that outgrows its window.
    pub midstream: GatewayMidstream,
    /// Who may use it.
    pub auth: GatewayAuth,
    /// Whose key an upstream is shown.
    pub credentials: GatewayCredentials,
}
