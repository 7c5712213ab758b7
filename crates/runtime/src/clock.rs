//! The wall clock: the one place that reads it.

use std::time::{SystemTime, UNIX_EPOCH};

use longhaul_core::ids::Millis;

/// Milliseconds since the Unix epoch; 0 on a machine whose clock is before it.
pub fn now_ms() -> Millis {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as Millis)
}
