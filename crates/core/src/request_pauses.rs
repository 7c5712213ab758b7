//! The pauses between the requests of a conversation, and the life of a prompt cache that suits them.

use std::collections::VecDeque;

use crate::ids::Millis;

/// The maximum number of remembered pauses.
const MAX_PAUSES: usize = 32;

/// The shorter life of Anthropic's prompt cache. Each use restarts the life. Source of both lives and of all
/// prices below: Anthropic's page on prompt caching.
const SHORT_LIFE_MS: Millis = 5 * 60_000;

/// The longer life of Anthropic's prompt cache.
const LONG_LIFE_MS: Millis = 60 * 60_000;

/// The price of a cached token, in percent of the price of an input token.
const READ_PERCENT: u64 = 10;

/// The price of writing a token to the cache for the shorter life, in percent of the price of an input token.
const SHORT_WRITE_PERCENT: u64 = 125;

/// The price of writing a token to the cache for the longer life, in percent of the price of an input token.
const LONG_WRITE_PERCENT: u64 = 200;

/// The size of a request's known prefix, as the unit of [`NEW_TOKENS`].
const PREFIX_TOKENS: u64 = 100;

/// The new tokens of a request, in percent of the prefix: a guess, a conversation of twenty requests on average.
const NEW_TOKENS: u64 = 5;

/// The newest pauses between the requests of a conversation, from the start of one request to the start of the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestPauses {
    newest_at: Option<Millis>,
    pauses: VecDeque<Millis>,
}

impl RequestPauses {
    /// Adds a request that starts at `at`.
    pub fn add_request(&mut self, at: Millis) {
        if let Some(earlier) = self.newest_at.replace(at) {
            if self.pauses.len() == MAX_PAUSES {
                self.pauses.pop_front();
            }
            // Clocks can be set back.
            self.pauses.push_back(at.saturating_sub(earlier));
        }
    }

    /// Returns the start of the newest request.
    pub fn newest_at(&self) -> Option<Millis> {
        self.newest_at
    }

    /// Reports whether a prompt cache that lives for an hour costs less than one that lives for five minutes, if the
    /// conversation goes on as before.
    ///
    /// Both are charged for the remembered pauses: a prefix is read after a pause within the cache's life, and written
    /// again after a longer one. The first request writes the prefix in any case. One pause between five minutes and an
    /// hour decides for the hour among up to nine shorter ones, and two decide among thirty.
    pub fn is_long_cache_cheaper(&self) -> bool {
        self.cache_cost(LONG_LIFE_MS, LONG_WRITE_PERCENT)
            < self.cache_cost(SHORT_LIFE_MS, SHORT_WRITE_PERCENT)
    }

    fn cache_cost(&self, life_ms: Millis, write_percent: u64) -> u64 {
        let first = PREFIX_TOKENS * write_percent;
        let later = self.pauses.iter().map(|pause| {
            let prefix_percent = if *pause <= life_ms { READ_PERCENT } else { write_percent };
            PREFIX_TOKENS * prefix_percent + NEW_TOKENS * write_percent
        });
        first + later.sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Millis = 60_000;

    fn after(pauses: &[Millis]) -> RequestPauses {
        let mut all = RequestPauses::default();
        let mut now = 1_000_000;
        all.add_request(now);
        for pause in pauses {
            now += pause;
            all.add_request(now);
        }
        all
    }

    #[test]
    fn an_hour_pays_where_pauses_lie_between_five_minutes_and_an_hour() {
        for (pauses, pays) in [
            (&[][..], false),
            (&[MINUTE], false),
            (&[5 * MINUTE], false),
            (&[6 * MINUTE], true),
            (&[60 * MINUTE], true),
            (&[61 * MINUTE], false),
            (&[10 * MINUTE, 90 * MINUTE], false),
            (&[10 * MINUTE, 20 * MINUTE, 90 * MINUTE], true),
        ] {
            assert_eq!(after(pauses).is_long_cache_cheaper(), pays, "{pauses:?}");
        }
    }

    #[test]
    fn a_long_pause_counts_among_the_short_ones_of_a_run() {
        let mut pauses = vec![MINUTE / 6; 9];
        pauses.push(20 * MINUTE);
        assert!(after(&pauses).is_long_cache_cheaper());
        let mut rare = vec![MINUTE / 6; 31];
        rare.push(20 * MINUTE);
        assert!(!after(&rare).is_long_cache_cheaper(), "the new tokens cost more than the pause saves");
        rare[3] = 20 * MINUTE;
        assert!(after(&rare).is_long_cache_cheaper());
    }

    #[test]
    fn the_oldest_pauses_are_forgotten() {
        let mut pauses = vec![20 * MINUTE; 10];
        pauses.extend([MINUTE; MAX_PAUSES]);
        assert!(!after(&pauses).is_long_cache_cheaper());
    }

    #[test]
    fn a_clock_that_goes_back_makes_no_pause() {
        let mut all = after(&[20 * MINUTE]);
        all.add_request(5);
        assert_eq!(all.newest_at(), Some(5));
        assert_eq!(all.pauses, [20 * MINUTE, 0]);
    }
}
