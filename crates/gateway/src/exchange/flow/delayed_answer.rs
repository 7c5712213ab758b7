//! A stream for a client whose upstream is slow to begin.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::unfold;
use tokio::time::timeout;

use super::super::UpstreamDisposition;
use super::super::send::kind_of;
use super::COMMENT;
use crate::gateway::ReplyStream;
use longhaul_wire::edit::{GatewayError, GatewayErrorKind, WireCodec};
use longhaul_wire::server_error;

/// Returns a stream that sends comments until the upstream begins. Errors then arrive inside the stream.
pub(in crate::exchange) fn delayed_stream(
    wire: &'static dyn WireCodec,
    keep_alive: Duration,
    opening: Pin<Box<dyn Future<Output = Result<UpstreamDisposition, GatewayError>> + Send>>,
) -> ReplyStream {
    let begun = DelayedAnswer { wire, keep_alive, state: DelayedAnswerState::Opening(opening) };
    // A first byte at once keeps proxies from closing the connection.
    let first = futures_util::stream::iter([Ok(Bytes::from_static(COMMENT))]);
    Box::pin(first.chain(unfold(begun, |mut late| async move { Some((Ok(late.next().await?), late)) })))
}

struct DelayedAnswer {
    wire: &'static dyn WireCodec,
    keep_alive: Duration,
    state: DelayedAnswerState,
}

enum DelayedAnswerState {
    Opening(Pin<Box<dyn Future<Output = Result<UpstreamDisposition, GatewayError>> + Send>>),
    Open(ReplyStream),
    Over,
}

impl DelayedAnswer {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let opened = match &mut self.state {
                DelayedAnswerState::Over => return None,
                DelayedAnswerState::Open(stream) => return stream.next().await?.ok(),
                DelayedAnswerState::Opening(opening) => match timeout(self.keep_alive, opening).await {
                    Ok(opened) => opened,
                    Err(_) => return Some(Bytes::from_static(COMMENT)),
                },
            };
            // A finished future must not be polled again.
            self.state = DelayedAnswerState::Over;
            match opened {
                Ok(
                    UpstreamDisposition::Stream(_, _, stream) | UpstreamDisposition::Failed(_, _, _, stream),
                ) => self.state = DelayedAnswerState::Open(stream),
                Ok(UpstreamDisposition::Whole(status, _, body)) => {
                    // The status line has gone out as success, so a refusal can only arrive as an event.
                    let body = String::from_utf8_lossy(&body);
                    // The client reads the upstream's words, and not its JSON inside another.
                    let said = server_error::from_response(status.as_u16(), None, body.clone().into_owned());
                    let fault = match GatewayError::from(&said) {
                        // A status alone is no sign of an overlong request.
                        fault if fault.kind == GatewayErrorKind::ContextOverflow => {
                            GatewayError { kind: kind_of(status, &body), ..fault }
                        }
                        fault => fault,
                    };
                    let fault = GatewayError { status, ..fault };
                    return Some(self.wire.error_event(&fault));
                }
                Err(fault) => return Some(self.wire.error_event(&fault)),
            }
        }
    }
}
