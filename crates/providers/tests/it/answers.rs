//! Answers of a scripted model server, byte by byte.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::oneshot;

/// A whole body.
pub(crate) fn answer(status: u16, content_type: &str, body: impl Into<Body>) -> Response<Body> {
    let builder = Response::builder().status(StatusCode::from_u16(status).unwrap());
    builder.header("content-type", content_type).body(body.into()).unwrap()
}

/// The behaviour after the last piece of a stream.
pub(crate) enum End {
    /// The body is over.
    Whole,
    /// The connection breaks.
    Broken,
    /// Nothing, until the client goes; the sender then goes too.
    Silence(oneshot::Sender<()>),
}

/// A stream in a single piece, and silence after it. Between several pieces a busy machine may pause for longer than a
/// short limit on silence.
pub(crate) fn whole_then_silence(pieces: &[&str], open: oneshot::Sender<()>) -> Response<Body> {
    stream(&[pieces.concat().as_str()], End::Silence(open))
}

/// A stream, piece by piece.
pub(crate) fn stream(pieces: &[&str], end: End) -> Response<Body> {
    let pieces: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::from((*piece).to_owned()))).collect();
    let pieces = futures_util::stream::iter(pieces).then(|piece: Result<Bytes, std::io::Error>| async {
        // Written one by one, so that the client reads them one by one.
        tokio::time::sleep(Duration::from_millis(2)).await;
        piece
    });
    let body = match end {
        End::Whole => Body::from_stream(pieces),
        End::Broken => {
            let broken = futures_util::stream::once(async {
                // What was written before must have left the server.
                tokio::time::sleep(Duration::from_millis(50)).await;
                Err(std::io::Error::other("broken on purpose"))
            });
            Body::from_stream(pieces.chain(broken))
        }
        End::Silence(open) => {
            let silence = futures_util::stream::once(async move {
                // Dropping the sender tells the test that the client has gone.
                let _open = open;
                std::future::pending::<Result<Bytes, Infallible>>().await
            });
            Body::from_stream(pieces.chain(silence.map(|piece| piece.map_err(|never| match never {}))))
        }
    };
    answer(200, "text/event-stream", body)
}
