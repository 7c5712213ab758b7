//! The text form of events in the stream.

use bytes::Bytes;
use longhaul::api_events::ApiEvent;

/// The comment of a silent stream.
pub(super) const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");

/// Returns the frame of an event. The id is the [`SsePosition`](super::SsePosition) of a client after the
/// event.
pub(super) fn frame(announcement: &ApiEvent) -> Bytes {
    let id = announcement.seq.map(|seq| {
        if announcement.ends_event { seq.to_string() } else { format!("{seq}.{}", announcement.nth) }
    });
    with_id(announcement, id)
}

/// Returns the frame of an event with the id.
pub(super) fn with_id(announcement: &ApiEvent, id: Option<String>) -> Bytes {
    // The API's names and fields are a contract, so the data is the `ApiEvent`: `SessionEvent` has other names, and not
    // all of the fields. Strings and numbers can always be serialised, and their JSON has no line breaks.
    let data = serde_json::to_string(announcement).unwrap_or_default();
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    ["event: ", announcement.name, "\ndata: ", &data, "\n", &id, "\n"].concat().into()
}
