//! What the agent's commands and MCP programs are confined to.

use crate::sandbox::{ChildLimits, NetworkAccess};

/// What the agent's commands and MCP programs are confined to, besides what always holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SandboxConfig {
    /// Whether they reach the network.
    pub network: NetworkAccess,
    /// How much of the machine each may use.
    pub limits: ChildLimits,
}

impl NetworkAccess {
    /// As the file writes them.
    pub(super) const NAMES: &'static [&'static str] = &["allow", "deny"];

    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "allow" => Some(Self::Open),
            "deny" => Some(Self::Denied),
            _ => None,
        }
    }
}
