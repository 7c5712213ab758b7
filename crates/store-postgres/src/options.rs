//! The options of a store.

use std::time::Duration;

/// The options of a node for the opening of the store. The defaults are right for servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresOptions {
    /// The address for other nodes, as `HOST:PORT`.
    pub address: Option<String>,
    /// The digest of the common token of all nodes, if known. A node with another token than the living nodes is
    /// refused.
    pub token_digest: Option<String>,
    /// The maximum number of connections for reading and writing. Two more claim sessions, and four serve the lease
    /// and the news.
    pub connections: u32,
    /// The duration of the node's lease after a renewal. Others may take the node's sessions only afterwards.
    pub ttl: Duration,
    /// The interval between renewals of the lease.
    pub renew_every: Duration,
    /// The time from the last renewal until the node stops writing by itself. Shorter than `ttl`, to leave time
    /// for the end of tools and calls.
    pub fence_after: Duration,
    /// The interval between looks for missed news.
    pub poll_every: Duration,
    /// The least time between two notifications of the node.
    pub notify_every: Duration,
    /// The maximum wait of a call for an unreachable database. The fencing of the node ends the wait of an append
    /// earlier.
    pub patience: Duration,
    /// The maximum wait of one attempt for an answer.
    pub answer_within: Duration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            address: None,
            token_digest: None,
            connections: 8,
            ttl: Duration::from_secs(10),
            renew_every: Duration::from_secs(3),
            fence_after: Duration::from_secs(7),
            poll_every: Duration::from_secs(1),
            notify_every: Duration::from_millis(10),
            patience: Duration::from_secs(10),
            answer_within: Duration::from_secs(30),
        }
    }
}

impl PostgresOptions {
    /// Returns the defaults, with an address for other nodes.
    pub fn at(address: impl Into<String>) -> Self {
        Self { address: Some(address.into()), ..Self::default() }
    }

    /// Returns a description of the first invalid option.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        if self.connections == 0 {
            return Some("at least one connection is needed");
        }
        if self.renew_every >= self.fence_after || self.fence_after >= self.ttl {
            return Some(
                "a lease must be renewed before the node is fenced, and the node fenced before it ends",
            );
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::PostgresOptions;

    #[test]
    fn a_node_is_fenced_before_its_lease_ends() {
        let options = PostgresOptions::default();
        assert_eq!(options.problem(), None);
        assert!(PostgresOptions { fence_after: options.ttl, ..options.clone() }.problem().is_some());
        assert!(
            PostgresOptions { renew_every: Duration::from_secs(8), ..options.clone() }.problem().is_some()
        );
        assert!(PostgresOptions { connections: 0, ..options }.problem().is_some());
    }
}
