//! Cuts of a body by the network, at every place.

use bytes::Bytes;

/// A body in pieces.
pub(crate) fn cut(body: &[u8], mut places: Vec<usize>) -> Vec<Bytes> {
    places.extend([0, body.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| Bytes::copy_from_slice(&body[pair[0]..pair[1]])).collect()
}

/// Cuts a body at every place, and into single bytes, and checks for the same payloads. Earlier events do not change
/// the cut of an event, so every two neighbours are tried alone.
pub(crate) fn check_every_cut(file: &str, body: &[u8], end: &[u8], payloads: fn(Vec<Bytes>) -> Vec<String>) {
    let whole = payloads(vec![Bytes::copy_from_slice(body)]);
    assert_eq!(
        payloads(body.chunks(1).map(Bytes::copy_from_slice).collect()),
        whole,
        "{file} in single bytes"
    );
    let mut ends: Vec<usize> = body
        .windows(end.len())
        .enumerate()
        .filter(|(_, found)| *found == end)
        .map(|(at, _)| at + end.len())
        .collect();
    ends.extend([0, body.len()]);
    ends.sort_unstable();
    ends.dedup();
    for two in ends.windows(3) {
        let two = &body[two[0]..two[2]];
        let expected = payloads(vec![Bytes::copy_from_slice(two)]);
        for place in 0..=two.len() {
            assert_eq!(payloads(cut(two, vec![place])), expected, "{file} cut at {place}");
        }
    }
}
