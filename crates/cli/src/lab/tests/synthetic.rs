//! Sessions made by a program.

use crate::lab::recording::SessionRecording;
use crate::lab::synthetic::{self, GROUP};

#[test]
fn equal_seeds_give_equal_sessions() {
    for make in [synthetic::coding, synthetic::support] {
        let (one, again, other) = (make(5, 60).unwrap(), make(5, 60).unwrap(), make(6, 60).unwrap());
        assert_eq!(one.events, again.events);
        assert_ne!(one.events, other.events);
        assert!(one.synthetic && one.group == GROUP, "labelled");
    }
}

#[test]
fn they_are_as_long_as_asked_and_have_times() {
    let coding = synthetic::coding(2, 80).unwrap();
    assert_eq!(coding.answers().count(), 80);
    let longer = synthetic::coding(2, 400).unwrap();
    assert!(longer.peak_tokens() > 200_000, "{}", longer.peak_tokens());
    assert!(long_pauses(&longer) > 3, "some pauses are longer than a cache lives");
    assert!(synthetic::support(2, 100).unwrap().answers().count() == 300);
}

fn long_pauses(recording: &SessionRecording) -> usize {
    let times: Vec<u64> = recording.entries.iter().filter_map(|entry| entry.at).collect();
    assert_eq!(times.len(), recording.entries.len());
    assert!(times.is_sorted());
    times.windows(2).filter(|pair| pair[1] - pair[0] > 300_000).count()
}
