//! An announcement as it goes over the wire.

use bytes::Bytes;
use longhaul::api_events::ApiEvent;
use serde_json::Value;

/// What a silent stream says.
pub(super) const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");

/// A frame. Its id is the [`SsePosition`](super::SsePosition) that who has it is at.
pub(super) fn frame(announcement: &ApiEvent) -> Bytes {
    let id = announcement.seq.map(|seq| match announcement.ends_event {
        true => seq.to_string(),
        false => format!("{seq}.{}", announcement.nth),
    });
    with_id(announcement, id)
}

/// A frame with that id.
pub(super) fn with_id(announcement: &ApiEvent, id: Option<String>) -> Bytes {
    // What is made of strings and numbers can be written, and has no line breaks then.
    let data = serde_json::to_string(announcement).unwrap_or_default();
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    ["event: ", announcement.name, "\ndata: ", &data, "\n", &id, "\n"].concat().into()
}

/// The event that a frame brings.
pub(crate) fn event(frame: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(frame).ok()?;
    let data = text.lines().find_map(|line| line.strip_prefix("data: "))?;
    serde_json::from_str(data).ok()
}
