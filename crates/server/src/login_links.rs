//! The keys of opening links: each key opens the page once, within a short time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::token::{AccessTokenError, random};

/// The validity of a key.
// A link stays in terminals and logs, so it is good once and for a short time (decision 0021).
const LIFE: Duration = Duration::from_secs(10 * 60);

/// The maximum number of valid keys; a new one replaces the oldest.
const MOST: usize = 16;

/// The unused keys, as hashes.
#[derive(Debug, Default)]
pub(crate) struct LoginLinks(Mutex<Vec<(blake3::Hash, Instant)>>);

impl LoginLinks {
    /// Returns a new key.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn create_key(&self, now: Instant) -> Result<String, AccessTokenError> {
        let key = random()?;
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.retain(|(_, until)| *until > now);
        if keys.len() == MOST {
            keys.remove(0);
        }
        // Only a hash is kept, so that a memory dump opens no page.
        keys.push((blake3::hash(key.as_bytes()), now + LIFE));
        Ok(key)
    }

    /// Consumes a key. Returns whether the key was valid.
    pub(crate) fn take(&self, key: &str, now: Instant) -> bool {
        // Hashes are compared in constant time, so the time of an answer reveals nothing of a valid key.
        let wanted = blake3::hash(key.as_bytes());
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = keys.iter().position(|(hash, until)| *hash == wanted && *until > now);
        // Removed under the same lock, so that a key opens the page once even if two requests bring it at a time.
        found.map(|at| keys.remove(at)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_opens_once_and_not_for_long() {
        let (openings, now) = (LoginLinks::default(), Instant::now());
        let (first, second) = (openings.create_key(now).unwrap(), openings.create_key(now).unwrap());
        assert!(openings.take(&first, now) && !openings.take(&first, now), "once");
        assert!(!openings.take(&second, now + LIFE), "too late");
        assert!(!openings.take("", now) && !openings.take("unknown", now));
        assert!(openings.take(&second, now + LIFE - Duration::from_secs(1)), "others do not use it up");
    }

    #[test]
    fn there_are_never_many_keys() {
        let (openings, now) = (LoginLinks::default(), Instant::now());
        let keys: Vec<String> = (0..=MOST).map(|_| openings.create_key(now).unwrap()).collect();
        assert!(!openings.take(&keys[0], now), "the oldest went");
        assert!(keys[1..].iter().all(|key| openings.take(key, now)));
    }
}
