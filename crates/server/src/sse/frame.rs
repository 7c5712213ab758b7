//! An announcement as it goes over the wire.

use bytes::Bytes;
use longhaul::announce::Announcement;
use longhaul_core::ids::Seq;
use serde_json::Value;

/// What a silent stream says.
pub(super) const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");

/// A frame. Its id is the position that who has it is at.
pub(super) fn frame(announcement: &Announcement) -> Bytes {
    at(announcement, announcement.seq.filter(|_| announcement.ends_event))
}

/// A frame of that position.
pub(super) fn at(announcement: &Announcement, position: Option<Seq>) -> Bytes {
    // What is made of strings and numbers can be written, and has no line breaks then.
    let data = serde_json::to_string(announcement).unwrap_or_default();
    let id = position.map(|seq| format!("id: {seq}\n")).unwrap_or_default();
    ["event: ", announcement.name, "\ndata: ", &data, "\n", &id, "\n"].concat().into()
}

/// The event that a frame brings.
pub(crate) fn event(frame: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(frame).ok()?;
    let data = text.lines().find_map(|line| line.strip_prefix("data: "))?;
    serde_json::from_str(data).ok()
}
