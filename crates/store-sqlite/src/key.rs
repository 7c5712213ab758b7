//! Numbers for SQLite: signed 64-bit, and the packed key of an event.

use longhaul_core::ids::Seq;

use crate::error::SqliteWriteError;

// A key is `session << 32 | position`. One session's events lie together and in order, without a second index.
const SEQ_BITS: u32 = 32;

/// The greatest position a log can have.
const MAX_SEQ: Seq = u32::MAX as Seq;

/// Returns the key of event `seq` in the log of session `no`. A position above [`MAX_SEQ`] becomes `MAX_SEQ`.
pub(crate) fn event_id(no: i64, seq: Seq) -> i64 {
    // A CHECK of the table holds `no` below 2^31, so the shift never reaches the sign bit.
    (no << SEQ_BITS) | to_db(seq.min(MAX_SEQ))
}

/// Returns the greatest key of the log of session `no`.
pub(crate) fn last_event_id(no: i64) -> i64 {
    event_id(no, MAX_SEQ)
}

/// Returns the position in a key.
pub(crate) fn seq_of(event_id: i64) -> Seq {
    from_db(event_id) & MAX_SEQ
}

/// Returns the position `count` after `last`.
///
/// # Errors
/// [`SqliteWriteError::Refused`] if the log would be longer than [`MAX_SEQ`].
pub(crate) fn advance(last: Seq, count: usize) -> Result<Seq, SqliteWriteError> {
    let next = last.saturating_add(count as u64);
    if next > MAX_SEQ { Err(SqliteWriteError::storage("the log of this session is full")) } else { Ok(next) }
}

/// Converts a count, a time or an index for the database, capped at the greatest number of the database.
pub(crate) fn to_db(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a limit for the database.
pub(crate) fn limit_to_db(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Converts a number from [`to_db`] back.
pub(crate) fn from_db(number: i64) -> u64 {
    // Only a damaged database holds a negative number. A reader must not panic because of it.
    u64::try_from(number).unwrap_or(0)
}

/// Converts a count from the database.
pub(crate) fn count_from_db(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{advance, event_id, from_db, last_event_id, seq_of, to_db};

    #[test]
    fn keys_of_one_session_lie_between_those_of_its_neighbours() {
        let newest = i64::from(i32::MAX);
        for no in [1, 2, newest] {
            assert!(event_id(no, 0) < event_id(no, 1));
            assert!(event_id(no, 1) < last_event_id(no));
            assert_eq!(event_id(no, u64::MAX), last_event_id(no));
            assert_eq!(seq_of(event_id(no, 77)), 77);
        }
        assert!(last_event_id(1) < event_id(2, 0));
        assert!(last_event_id(newest) > 0);
    }

    #[test]
    fn a_log_ends_at_its_greatest_position() {
        let greatest = u64::from(u32::MAX);
        assert_eq!(advance(greatest - 1, 1).ok(), Some(greatest));
        assert!(advance(greatest, 1).is_err());
    }

    #[test]
    fn times_survive_and_absurd_ones_do_not_wrap() {
        assert_eq!(from_db(to_db(1_700_000_000_000)), 1_700_000_000_000);
        assert_eq!(to_db(u64::MAX), i64::MAX);
        assert_eq!(from_db(-1), 0);
    }
}
