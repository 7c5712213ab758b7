//! The rate limit of each client: a burst of requests, refilled over a span of time.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use longhaul::config::RateLimit;

/// The maximum number of remembered clients. Clients without a recent request are forgotten.
// A forgotten client starts with its full allowance again.
const CLIENTS: usize = 4_096;

/// A client: address, and possession of the token or the cookie.
pub(crate) type RateLimitClient = (Option<IpAddr>, bool);

/// The remaining requests of each client.
#[derive(Debug, Default)]
pub(crate) struct ClientRateLimiter(Mutex<BTreeMap<RateLimitClient, RateLimitBucket>>);

#[derive(Clone, Copy, Debug)]
struct RateLimitBucket {
    requests: f64,
    at: Instant,
}

impl ClientRateLimiter {
    /// Takes one request of a client's allowance.
    ///
    /// # Errors
    /// The time until a request is allowed.
    pub(crate) fn take(
        &self,
        limit: RateLimit,
        client: RateLimitClient,
        now: Instant,
    ) -> Result<(), Duration> {
        // The division below needs at least one request.
        let most = f64::from(limit.requests.max(1));
        let each = limit.per.as_secs_f64() / most;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Old clients are swept only when the map is full, so most requests pay nothing for it.
        if all.len() >= CLIENTS && !all.contains_key(&client) {
            all.retain(|_, left| now.saturating_duration_since(left.at) < limit.per);
            // New clients are refused rather than old buckets dropped: a flood of addresses must not reset anybody's
            // limit.
            if all.len() >= CLIENTS {
                return Err(limit.per);
            }
        }
        let left = all.entry(client).or_insert(RateLimitBucket { requests: most, at: now });
        // The clock is monotonic, but two threads may take their times in another order than the lock.
        let since = now.saturating_duration_since(left.at).as_secs_f64();
        // A token bucket: a pause gives back at most one full burst.
        left.requests = (left.requests + since / each).min(most);
        left.at = now;
        if left.requests < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - left.requests) * each));
        }
        left.requests -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: RateLimit = RateLimit { requests: 3, per: Duration::from_secs(60) };

    #[test]
    fn so_many_at_once_and_then_one_after_another() {
        let (allowances, now) = (ClientRateLimiter::default(), Instant::now());
        let (one, other): (RateLimitClient, RateLimitClient) = ((None, true), (None, false));
        for _ in 0..3 {
            allowances.take(LIMIT, one, now).unwrap();
        }
        let wait = allowances.take(LIMIT, one, now).unwrap_err();
        assert!(wait > Duration::from_secs(19) && wait <= Duration::from_secs(20), "{wait:?}");
        allowances.take(LIMIT, other, now).unwrap();
        assert!(allowances.take(LIMIT, one, now + Duration::from_secs(19)).is_err());
        allowances.take(LIMIT, one, now + Duration::from_secs(21)).unwrap();
        for _ in 0..3 {
            allowances.take(LIMIT, one, now + Duration::from_secs(1_000)).unwrap();
        }
        assert!(
            allowances.take(LIMIT, one, now + Duration::from_secs(1_000)).is_err(),
            "no more than at first"
        );
    }

    #[test]
    fn the_clients_that_are_remembered_are_bounded() {
        let (allowances, now) = (ClientRateLimiter::default(), Instant::now());
        let from = |at: u32| (Some(IpAddr::from(at.to_be_bytes())), false);
        (0..CLIENTS as u32).for_each(|at| allowances.take(LIMIT, from(at), now).unwrap());
        assert!(allowances.take(LIMIT, from(u32::MAX), now).is_err());
        allowances.take(LIMIT, from(u32::MAX), now + LIMIT.per).unwrap();
    }
}
