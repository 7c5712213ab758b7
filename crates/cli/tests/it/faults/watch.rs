//! Watchers: server-sent events as they arrive.

use futures_util::StreamExt;

use super::api::Api;
use super::ledger::Account;

/// One event of the stream.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub(crate) id: Option<u64>,
    pub(crate) data: String,
}

/// Enters into the account whatever the server tells of the session, from where the account ends, until the
/// connection does. `position` says how far the trace has come.
pub(crate) async fn watch(
    api: Api,
    session: String,
    account: Account,
    position: &(dyn Fn() -> u64 + Send + Sync),
) {
    let after = account.connect();
    let Ok(response) = api.events(&session, after).await else { return };
    let mut pieces = response.bytes_stream();
    let mut buffer = Vec::new();
    while let Some(Ok(piece)) = pieces.next().await {
        // Noted when the piece has arrived: whatever it tells was written before this place of the trace.
        let position = position();
        buffer.extend_from_slice(&piece);
        while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
            let lines: Vec<u8> = buffer.drain(..end + 2).collect();
            if let Some(frame) = parse(&String::from_utf8(lines).unwrap()) {
                account.hear(frame, position);
            }
        }
    }
}

fn parse(lines: &str) -> Option<Frame> {
    let mut frame = Frame::default();
    for line in lines.lines() {
        match line.split_once(": ") {
            Some(("data", data)) => frame.data.push_str(data),
            Some(("id", id)) => frame.id = id.parse().ok(),
            _ => {}
        }
    }
    (!frame.data.is_empty()).then_some(frame)
}
