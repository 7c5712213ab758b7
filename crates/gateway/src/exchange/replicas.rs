//! The order in which a model's upstreams are asked. Each conversation has a preferred replica, whose prompt cache
//! holds the conversation's beginning.
//!
//! Replicas are upstreams of one kind that list the model under one name with the same declarations. Rendezvous hashing
//! of the conversation orders them (Thaler and Ravishankar 1998). A new replica takes its share of conversations from
//! all others, and a lost one spreads its own over all others. A replica with more than its share of requests is passed
//! over (bounded loads, Mirrokni et al. 2016). Upstreams that are no replicas of each other keep the order of the file.
//! An upstream without room for a request is found in its preparation, and the exchange goes on with the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::ProxiedRequest;
use super::conversation::ItemNames;
use crate::upstream::UpstreamTarget;
use longhaul_wire::edit::ParseError;

/// The maximum number of items in the name before the first user message: system prompts and the like.
const MAX_LEADING_ITEMS: usize = 4;

/// The maximum load of a replica before it is passed over, in percent of the average.
const MAX_LOAD_PERCENT: usize = 125;

/// The number of requests below which a conversation stays at its replica: the cache is worth more than a short
/// wait.
const MIN_LOAD: usize = 4;

/// A request in flight at an upstream.
pub(crate) struct LoadGuard(Arc<AtomicUsize>);

impl LoadGuard {
    pub(crate) fn new(in_flight: &Arc<AtomicUsize>) -> Self {
        // The order of memory accesses does not matter: the load is a hint.
        in_flight.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(in_flight))
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An upstream with the properties for its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReplicaCandidate {
    /// The group number, shared by replicas of each other.
    group: usize,
    /// The rendezvous score of the conversation at this upstream.
    score: u64,
    /// The number of requests in flight.
    in_flight: usize,
    /// Set if the upstream was unreachable a moment ago.
    is_away: bool,
}

/// Returns the upstreams with the model, in the order of use.
pub(super) fn ordered_targets(request: &ProxiedRequest) -> Vec<Arc<UpstreamTarget>> {
    let all = &request.targets;
    if all.len() < 2 {
        // A single upstream needs no order, so the conversation need not be hashed.
        return all.clone();
    }
    let groups: Vec<usize> = all.iter().map(|target| replica_group(target, all)).collect();
    let has_replicas = groups.iter().enumerate().any(|(at, group)| at != *group);
    // A request that cannot be parsed fails at every upstream, so its order does not matter.
    let conversation =
        has_replicas.then(|| conversation_key(request)).and_then(Result::ok).unwrap_or_default();
    let candidates = all.iter().zip(groups).map(|(target, group)| ReplicaCandidate {
        group,
        score: score(&conversation, &target.server.upstream.name),
        in_flight: target.server.in_flight.load(Ordering::Relaxed),
        is_away: target.server.is_away(),
    });
    let order = order(&candidates.collect::<Vec<_>>());
    let ordered: Vec<_> = order.into_iter().filter_map(|at| all.get(at).cloned()).collect();
    if let Some(first) = ordered.first() {
        tracing::debug!(
            upstream = first.server.upstream.name,
            of = ordered.len(),
            has_replicas,
            in_flight = first.server.in_flight.load(Ordering::Relaxed),
            away = ordered.iter().filter(|target| target.server.is_away()).count(),
            "an upstream was chosen for a conversation"
        );
    }
    ordered
}

/// Returns the conversation's name: a hash up to the first user message, common to all requests.
pub(super) fn conversation_key(request: &ProxiedRequest) -> Result<[u8; 32], ParseError> {
    if let Some(known) = request.conversation_key.get() {
        return Ok(*known);
    }
    let mut names = ItemNames::new(request.wire, &request.envelope);
    let mut hasher = blake3::Hasher::new_derive_key("longhaul 2026 gateway replica");
    // Conversations of different callers are different ones, even with equal beginnings.
    hasher.update(&request.caller);
    for index in 0..names.len().min(MAX_LEADING_ITEMS) {
        hasher.update(&names.get(index)?);
        // Clients write JSON with or without blanks.
        let item: String = request.envelope.item(index).split_whitespace().collect();
        if item.contains("\"role\":\"user\"") {
            break;
        }
    }
    Ok(*request.conversation_key.get_or_init(|| *hasher.finalize().as_bytes()))
}

/// Returns the number of a target's group: the index of the group's first member.
fn replica_group(target: &Arc<UpstreamTarget>, all: &[Arc<UpstreamTarget>]) -> usize {
    all.iter().position(|other| target.is_replica_of(other)).unwrap_or_default()
}

fn score(conversation: &[u8; 32], upstream: &str) -> u64 {
    let hash = *blake3::keyed_hash(conversation, upstream.as_bytes()).as_bytes();
    // The first bytes of a hash are spread as evenly as the whole. A fixed byte order lets nodes of all machines
    // agree.
    u64::from_le_bytes([hash[0], hash[1], hash[2], hash[3], hash[4], hash[5], hash[6], hash[7]])
}

/// Returns the candidates' indices in the order of asking: reachable ones first, then by group. Within a group the
/// score decides, but the first one must have room.
fn order(candidates: &[ReplicaCandidate]) -> Vec<usize> {
    let mut all: Vec<(usize, ReplicaCandidate)> = candidates.iter().copied().enumerate().collect();
    // The sort is stable, so that equal candidates keep the order of the file.
    all.sort_by_key(|(_, one)| (one.is_away, one.group, std::cmp::Reverse(one.score)));
    let mut ordered = Vec::with_capacity(all.len());
    for group in all.chunk_by(|(_, a), (_, b)| (a.is_away, a.group) == (b.is_away, b.group)) {
        let in_flight: usize = group.iter().map(|(_, one)| one.in_flight).sum();
        // The request itself counts, so that an idle group has room.
        let share = ((in_flight + 1) * MAX_LOAD_PERCENT).div_ceil(100 * group.len());
        let most = share.max(MIN_LOAD);
        // The others keep their order by score. If all are busy, the preferred one stays first because of its
        // cache.
        let first = group.iter().position(|(_, one)| one.in_flight < most).unwrap_or_default();
        let others = group.iter().enumerate().filter(|(at, _)| *at != first).map(|(_, one)| one);
        ordered.extend(group.get(first).into_iter().chain(others).map(|(at, _)| *at));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation(number: u64) -> [u8; 32] {
        *blake3::hash(&number.to_le_bytes()).as_bytes()
    }

    fn replicas(names: &[&str], conversation: &[u8; 32]) -> Vec<ReplicaCandidate> {
        let idle = |name: &&str| ReplicaCandidate {
            group: 0,
            score: score(conversation, name),
            in_flight: 0,
            is_away: false,
        };
        names.iter().map(idle).collect()
    }

    #[test]
    fn conversations_spread_evenly_and_few_move_when_a_replica_comes() {
        const NAMES: [&str; 4] = ["a", "b", "c", "d"];
        let (mut shares, mut moved) = ([0; 3], 0);
        for number in 0..3_000 {
            let key = conversation(number);
            let of_three = order(&replicas(&NAMES[..3], &key))[0];
            let of_four = order(&replicas(&NAMES, &key))[0];
            shares[of_three] += 1;
            moved += usize::from(of_four != of_three);
            assert!(of_four == of_three || of_four == 3, "it moves to the new one only");
        }
        assert!(shares.iter().all(|share| (850..1_150).contains(share)), "{shares:?}");
        assert!((620..880).contains(&moved), "a quarter moves: {moved}");
    }

    #[test]
    fn a_replica_that_is_away_comes_last_and_gets_its_conversations_back() {
        let key = conversation(7);
        let mut all = replicas(&["a", "b", "c"], &key);
        let usual = order(&all);
        all[usual[0]].is_away = true;
        assert_eq!(order(&all), [usual[1], usual[2], usual[0]]);
        all[usual[0]].is_away = false;
        assert_eq!(order(&all), usual);
    }

    #[test]
    fn a_replica_with_more_than_its_share_is_passed_over() {
        let key = conversation(7);
        let mut all = replicas(&["a", "b", "c"], &key);
        let usual = order(&all);
        all[usual[0]].in_flight = 3;
        assert_eq!(order(&all), usual, "a few requests move nobody");
        all[usual[0]].in_flight = 8;
        assert_eq!(order(&all)[0], usual[1]);
        all[usual[1]].in_flight = 8;
        all[usual[2]].in_flight = 8;
        assert_eq!(order(&all), usual, "all are as busy");
    }

    #[test]
    fn upstreams_that_are_no_replicas_keep_their_order() {
        for number in 0..50 {
            let key = conversation(number);
            let mut all = replicas(&["a", "b", "c"], &key);
            (all[0].group, all[1].group, all[2].group) = (0, 1, 1);
            assert_eq!(order(&all)[0], 0, "the preferred first");
        }
    }
}
