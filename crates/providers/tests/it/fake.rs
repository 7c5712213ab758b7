//! A fake server with a test's answers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Response, StatusCode};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A running server, stopped with the drop of the value.
pub(crate) struct Fake {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

impl Fake {
    pub(crate) async fn start<F>(answer: F) -> Self
    where
        F: Fn(&Asked) -> Response<Body> + Clone + Send + Sync + 'static,
    {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        let app = axum::Router::new().fallback(move |request: Request| {
            let (answer, log) = (answer.clone(), log.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
                let query = head.uri.query().unwrap_or_default().to_owned();
                let asked = Asked { path: head.uri.path().to_owned(), query, headers: head.headers, body };
                log.lock().unwrap().push(asked.clone());
                answer(&asked)
            }
        });
        // The task never ends by itself; `Drop` aborts it.
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, asked, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

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
