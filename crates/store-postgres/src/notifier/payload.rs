//! The text of a notification: the sender, then `NO:SEQ` for each grown log, `NO` for each session with a changed
//! queue or signals, `NO!` for each deleted session.

use std::fmt;

use longhaul_core::ids::Seq;

/// The maximum size of a payload, in bytes. PostgreSQL takes fewer than 8,000.
const PAYLOAD_BYTES: usize = 7_900;

/// A notification about a session, by the session's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PostgresNotification {
    Grown(i64, Seq),
    Mailed(i64),
    Gone(i64),
}

impl fmt::Display for PostgresNotification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grown(no, last) => write!(f, "{no}:{last}"),
            Self::Mailed(no) => write!(f, "{no}"),
            Self::Gone(no) => write!(f, "{no}!"),
        }
    }
}

impl PostgresNotification {
    fn read(text: &str) -> Option<Self> {
        if let Some((no, last)) = text.split_once(':') {
            return Some(Self::Grown(no.parse().ok()?, last.parse().ok()?));
        }
        match text.strip_suffix('!') {
            // A notification of another version may have another form. It is ignored, and the poll finds the change.
            Some(no) => Some(Self::Gone(no.parse().ok()?)),
            None => Some(Self::Mailed(text.parse().ok()?)),
        }
    }
}

/// Packs the items into payloads, each short enough.
pub(super) fn pack(sender: &str, items: impl Iterator<Item = PostgresNotification>) -> Vec<String> {
    let mut payloads: Vec<String> = Vec::new();
    for item in items {
        let item = item.to_string();
        match payloads.last_mut().filter(|payload| payload.len() + 1 + item.len() <= PAYLOAD_BYTES) {
            Some(payload) => {
                payload.push(' ');
                payload.push_str(&item);
            }
            None => payloads.push(format!("{sender} {item}")),
        }
    }
    payloads
}

/// Returns the sender and the notifications of a payload. Unreadable notifications are left out: a newer
/// version may say more.
pub(super) fn unpack(payload: &str) -> (&str, impl Iterator<Item = PostgresNotification>) {
    let mut words = payload.split(' ');
    (words.next().unwrap_or_default(), words.filter_map(PostgresNotification::read))
}

#[cfg(test)]
mod tests {
    use super::{PAYLOAD_BYTES, PostgresNotification, pack, unpack};

    #[test]
    fn news_comes_as_it_was_sent_in_payloads_that_postgres_takes() {
        let items: Vec<PostgresNotification> = (0..2_000)
            .flat_map(|no| {
                [
                    PostgresNotification::Grown(no, 1 << 40),
                    PostgresNotification::Mailed(no),
                    PostgresNotification::Gone(i64::MAX - no),
                ]
            })
            .collect();
        let payloads = pack("somebody", items.iter().copied());
        assert!(payloads.len() > 5 && payloads.iter().all(|payload| payload.len() <= PAYLOAD_BYTES));
        let read: Vec<PostgresNotification> = payloads.iter().flat_map(|payload| unpack(payload).1).collect();
        assert_eq!(read, items);
        assert!(payloads.iter().all(|payload| unpack(payload).0 == "somebody"));
        assert!(pack("somebody", std::iter::empty()).is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let (sender, items) = unpack("other 1:2 x 3:y ~4 5!  6");
        assert_eq!(sender, "other");
        assert_eq!(
            items.collect::<Vec<_>>(),
            [
                PostgresNotification::Grown(1, 2),
                PostgresNotification::Gone(5),
                PostgresNotification::Mailed(6)
            ]
        );
    }
}
