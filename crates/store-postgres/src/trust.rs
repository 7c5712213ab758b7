//! The trust in connections: only a trusted connection may still reach the database.
//!
//! A device between a node and its database may drop connections without a word to either end. A query over a
//! dropped connection is never answered. So a node back from an outage uses no earlier connection.

use std::future::pending;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// The opening time of the oldest trusted connection, after an outage. Clones share the time.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionTrust(watch::Sender<Option<Instant>>);

impl ConnectionTrust {
    /// Distrusts all connections from before `moment`.
    pub(crate) fn only_since(&self, moment: Instant) {
        self.0.send_replace(Some(moment));
    }

    /// Returns whether a connection of the given age may be used.
    pub(crate) fn covers(&self, age: Duration) -> bool {
        self.0.borrow().is_none_or(|since| since.elapsed() >= age)
    }

    /// Waits until the present connections are no longer trusted.
    pub(crate) async fn ends(&self) {
        if self.0.subscribe().changed().await.is_err() {
            pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::ConnectionTrust;

    #[test]
    fn only_what_was_opened_since_is_used() {
        let trust = ConnectionTrust::default();
        let (old, new) = (Duration::from_secs(60), Duration::ZERO);
        assert!(trust.covers(old) && trust.covers(new));
        trust.clone().only_since(Instant::now());
        assert!(!trust.covers(old) && trust.covers(new));
    }
}
