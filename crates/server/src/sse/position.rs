//! The position of a client in a session's log, as in the `id` of an event.

use std::str::FromStr;

use longhaul_core::ids::Seq;

/// A watcher's position. As text, `3` stands for all of event 3, and `3.1` only for the event's first
/// announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SsePosition {
    /// The newest completely received event.
    pub(super) after: Seq,
    /// The next event, with the number of received announcements.
    pub(super) begun: (Seq, usize),
}

/// A text without a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SsePositionError;

impl From<Seq> for SsePosition {
    fn from(after: Seq) -> Self {
        Self { after, begun: (0, 0) }
    }
}

impl FromStr for SsePosition {
    type Err = SsePositionError;

    fn from_str(text: &str) -> Result<Self, SsePositionError> {
        let Some((seq, told)) = text.split_once('.') else {
            return text.parse().map(Seq::into).map_err(|_| SsePositionError);
        };
        let (seq, told): (Seq, usize) =
            (seq.parse().map_err(|_| SsePositionError)?, told.parse().map_err(|_| SsePositionError)?);
        // Position 0 has no event, and an event without a received announcement is the position before it.
        let before = seq.checked_sub(1).filter(|_| told > 0).ok_or(SsePositionError)?;
        Ok(Self { after: before, begun: (seq, told) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_events_and_parts_of_them() {
        let read = |text: &str| text.parse::<SsePosition>();
        assert_eq!(read("7"), Ok(SsePosition { after: 7, begun: (0, 0) }));
        assert_eq!(read("7.10"), Ok(SsePosition { after: 6, begun: (7, 10) }));
        for text in
            ["", "x", "-1", "7.", ".1", "7.0", "0.1", "7.1.1", "7.x", "7. 1", "1e3", "99999999999999999999"]
        {
            assert_eq!(read(text), Err(SsePositionError), "{text}");
        }
    }
}
