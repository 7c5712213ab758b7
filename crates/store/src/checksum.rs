//! Checksums of stored events. A checksum shows a flipped bit.

use longhaul_core::ids::Millis;

/// Returns the checksum for a back-end to store beside an event: the first eight bytes of a BLAKE3 hash over the
/// event's format, time and body. A back-end checks the position and the session as keys.
#[doc(hidden)]
pub fn event_checksum(format: i64, at: Millis, body: &[u8]) -> i64 {
    let mut hash = blake3::Hasher::new();
    hash.update(&format.to_le_bytes()).update(&at.to_le_bytes()).update(body);
    let mut first = [0; 8];
    hash.finalize_xof().fill(&mut first);
    i64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::event_checksum;

    #[test]
    fn every_flipped_bit_of_an_event_changes_its_checksum() {
        let body = br#"{"kind":"title-set","title":"a"}"#;
        let whole = event_checksum(1, 1_700_000_000_000, body);
        assert_ne!(whole, event_checksum(0, 1_700_000_000_000, body));
        assert_ne!(whole, event_checksum(1, 1_700_000_000_001, body));
        for bit in 0..body.len() * 8 {
            let mut flipped = *body;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(whole, event_checksum(1, 1_700_000_000_000, &flipped), "bit {bit}");
        }
    }

    /// Checksums are stored: with another function, every old event would be taken for damaged.
    #[test]
    fn checksums_stay_what_they_were() {
        let hash = blake3::hash(b"\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0{}");
        let first = i64::from_le_bytes(hash.as_bytes()[..8].try_into().unwrap());
        assert_eq!(event_checksum(1, 2, b"{}"), first);
    }
}
