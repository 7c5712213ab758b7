//! A model's server that answers at once, or piece by piece at a steady pace. It keeps the newest request.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::bodies::MODEL;

struct Mock {
    pace: Cell<Duration>,
    pieces: Cell<usize>,
    newest: RefCell<Vec<Bytes>>,
}

type Answer = Either<Full<Bytes>, Streamed>;

/// Serves until the process ends.
pub(crate) async fn serve(listener: TcpListener) {
    let mock = Rc::new(Mock { pace: Cell::default(), pieces: Cell::new(20), newest: RefCell::default() });
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mock = Rc::clone(&mock);
        let service = service_fn(move |request| answer(Rc::clone(&mock), request));
        tokio::task::spawn_local(async move {
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(mock: Rc<Mock>, mut request: Request<Incoming>) -> Result<Response<Answer>, Infallible> {
    let mut frames = Vec::new();
    let mut bytes = 0;
    while let Some(Ok(frame)) = request.body_mut().frame().await {
        if let Ok(data) = frame.into_data() {
            bytes += data.len();
            frames.push(data);
        }
    }
    let path = request.uri().path();
    let json = |text: String| whole(StatusCode::OK, text.into());
    Ok(match path {
        "/v1/chat/completions" => {
            let is_stream = asks_for_stream(&frames);
            *mock.newest.borrow_mut() = frames;
            if is_stream { stream(&mock, bytes / 4) } else { json(completion(bytes / 4)) }
        }
        // How fast, and how many pieces: /pace/MILLISECONDS/PIECES.
        path if path.starts_with("/pace/") => {
            let mut numbers = path.split('/').filter_map(|number| number.parse::<usize>().ok());
            mock.pace.set(Duration::from_millis(numbers.next().unwrap_or_default() as u64));
            mock.pieces.set(numbers.next().unwrap_or_default());
            json("{}".to_owned())
        }
        "/newest" => whole(StatusCode::OK, mock.newest.borrow().concat().into()),
        "/v1/models" => json(format!(r#"{{"object":"list","data":[{{"id":"{MODEL}","object":"model"}}]}}"#)),
        "/health" => json("{}".to_owned()),
        // What a server of SGLang's says of itself.
        "/get_server_info" | "/server_info" | "/get_model_info" | "/model_info" => json(format!(
            r#"{{"model_path":"{MODEL}","served_model_name":"{MODEL}","tp_size":1,"dp_size":1}}"#
        )),
        _ => whole(StatusCode::NOT_FOUND, Bytes::from_static(br#"{"error":{"message":"no such path"}}"#)),
    })
}

/// Returns whether the request asks for a stream.
fn asks_for_stream(frames: &[Bytes]) -> bool {
    // In a JSON text these bytes can only be the field: quotes inside a string have escapes.
    let said = |bytes: &[u8]| {
        let at = memmem::rfind(bytes, br#""stream":"#)?;
        let value = bytes[at + 9..].trim_ascii_start();
        (value.len() >= 4).then(|| value.starts_with(b"true"))
    };
    let found = frames.iter().rev().find_map(|frame| said(frame));
    found.or_else(|| said(&frames.concat())).unwrap_or(false)
}

fn whole(status: StatusCode, body: Bytes) -> Response<Answer> {
    let response = Response::builder().status(status).header(header::CONTENT_TYPE, "application/json");
    response.body(Either::Left(Full::new(body))).unwrap()
}

fn completion(input: usize) -> String {
    format!(
        r#"{{"id":"chatcmpl-mock","object":"chat.completion","created":1760000000,"model":"{MODEL}","choices":[{{"index":0,"message":{{"role":"assistant","content":"The renderer knows too much: let the modes share one session and keep what is drawn apart."}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":{input},"completion_tokens":20,"total_tokens":{}}}}}"#,
        input + 20
    )
}

fn stream(mock: &Mock, input: usize) -> Response<Answer> {
    let script = Script { pieces: mock.pieces.get(), input, sent: 0 };
    let pace = mock.pace.get();
    let body = if pace.is_zero() { Streamed::AtOnce(script) } else { Streamed::Timed(timed(script, pace)) };
    let response = Response::builder().header(header::CONTENT_TYPE, "text/event-stream");
    response.body(Either::Right(body)).unwrap()
}

/// One piece after each pace. A thread sleeps to the microsecond, the runtime's timers to the millisecond only.
fn timed(script: Script, pace: Duration) -> UnboundedReceiver<Bytes> {
    let begun = Instant::now();
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        for (at, piece) in (1..).zip(script) {
            std::thread::sleep((begun + pace * at).saturating_duration_since(Instant::now()));
            if sender.send(piece).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The events of a stream: its pieces, then finish, usage and `[DONE]`.
struct Script {
    pieces: usize,
    input: usize,
    sent: usize,
}

impl Iterator for Script {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let head = format!(
            r#"data: {{"id":"chatcmpl-mock","object":"chat.completion.chunk","created":1760000000,"model":"{MODEL}""#
        );
        let piece = match self.sent.checked_sub(self.pieces) {
            None => {
                let role = if self.sent == 0 { r#""role":"assistant","# } else { "" };
                let delta = format!(r#"{{{role}"content":"w{} "}}"#, self.sent);
                format!("{head},\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\n")
            }
            Some(0) => {
                let (input, output) = (self.input, self.pieces);
                let choice = r#"{"index":0,"delta":{},"finish_reason":"stop"}"#;
                let total = input + output;
                let usage = format!(
                    r#"{{"prompt_tokens":{input},"completion_tokens":{output},"total_tokens":{total}}}"#
                );
                format!(
                    "{head},\"choices\":[{choice}]}}\n\n{head},\"choices\":[],\"usage\":{usage}}}\n\ndata: [DONE]\n\n"
                )
            }
            Some(_) => return None,
        };
        self.sent += 1;
        Some(piece.into())
    }
}

enum Streamed {
    AtOnce(Script),
    Timed(UnboundedReceiver<Bytes>),
}

impl Body for Streamed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut *self {
            Self::AtOnce(script) => script.next(),
            Self::Timed(pieces) => ready!(pieces.poll_recv(context)),
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }
}
