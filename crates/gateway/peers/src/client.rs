//! A client with one connection that stays open.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::net::TcpStream;

/// A limit that is longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The beginning of each piece of text. The mock says `wN `, and nothing else begins so.
const PIECE: &[u8] = b"\"content\":\"w";

pub(crate) type Headers = Vec<(&'static str, String)>;

pub(crate) struct Client {
    to: SocketAddr,
    headers: Headers,
    sender: Option<SendRequest<Full<Bytes>>>,
}

/// The measured arrival of a stream.
pub(crate) struct Streamed {
    pub(crate) first: Duration,
    /// The times between two pieces.
    pub(crate) gaps: Vec<Duration>,
    pub(crate) pieces: usize,
    pub(crate) has_usage: bool,
    pub(crate) is_done: bool,
}

impl Client {
    pub(crate) fn new(to: SocketAddr, headers: Headers) -> Self {
        Self { to, headers, sender: None }
    }

    /// Posts a request of Chat Completions and reads the answer.
    ///
    /// # Errors
    /// The response or the fault in place of an answer.
    pub(crate) async fn ask(&mut self, body: Bytes) -> Result<Duration, String> {
        let begun = Instant::now();
        let response = self.post("/v1/chat/completions", body).await?;
        let status = response.status();
        let answer = self.read(response).await?;
        let took = begun.elapsed();
        if status != StatusCode::OK {
            let text: String = String::from_utf8_lossy(&answer).chars().take(300).collect();
            return Err(format!("{status}: {text}"));
        }
        memmem::find(&answer, b"The renderer knows too much").map(|_| took).ok_or("another answer".to_owned())
    }

    /// Returns the answer of a path to an empty body.
    ///
    /// # Errors
    /// The response or the fault in place of an answer.
    pub(crate) async fn fetch(&mut self, path: &str) -> Result<Bytes, String> {
        let response = self.post(path, Bytes::new()).await?;
        self.read(response).await
    }

    /// Posts a request that asks for a stream, and reads it.
    ///
    /// # Errors
    /// The response or the fault in place of an answer.
    pub(crate) async fn stream(&mut self, body: Bytes) -> Result<Streamed, String> {
        let begun = Instant::now();
        let mut response = self.post("/v1/chat/completions", body).await?;
        if response.status() != StatusCode::OK {
            let status = response.status();
            let text = self.read(response).await?;
            return Err(format!("{status}: {}", String::from_utf8_lossy(&text)));
        }
        let mut streamed =
            Streamed { first: Duration::ZERO, gaps: Vec::new(), pieces: 0, has_usage: false, is_done: false };
        let mut newest = None;
        // The end of a frame, where a mark may have begun.
        let mut held = Vec::new();
        while let Some(frame) = within(response.body_mut().frame()).await? {
            let frame = frame.map_err(|error| error.to_string())?;
            let Some(frame) = frame.data_ref() else { continue };
            let now = Instant::now();
            let data = [&held[..], frame].concat();
            let data = &data[..];
            streamed.has_usage |= memmem::find(data, b"_tokens\":").is_some();
            streamed.is_done |= memmem::find(data, b"[DONE]").is_some();
            for _ in memmem::find_iter(data, PIECE) {
                match newest {
                    None => streamed.first = begun.elapsed(),
                    Some(newest) => streamed.gaps.push(now - newest),
                }
                newest = Some(now);
                streamed.pieces += 1;
            }
            held = data[data.len().saturating_sub(PIECE.len() - 1)..].to_vec();
        }
        Ok(streamed)
    }

    async fn post(&mut self, path: &str, body: Bytes) -> Result<Response<Incoming>, String> {
        if let Some(kept) = &mut self.sender
            && kept.ready().await.is_err()
        {
            self.sender = None;
        }
        let mut sender = match self.sender.take() {
            Some(kept) => kept,
            None => connect(self.to).await?,
        };
        let mut request = Request::post(path)
            .header(header::HOST, self.to.to_string())
            .header(header::CONTENT_TYPE, "application/json");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        let response = within(sender.send_request(request)).await?.map_err(|error| format!("{error:?}"))?;
        self.sender = Some(sender);
        Ok(response)
    }

    async fn read(&mut self, response: Response<Incoming>) -> Result<Bytes, String> {
        let body = within(response.into_body().collect()).await?.map_err(|error| error.to_string())?;
        Ok(body.to_bytes())
    }
}

async fn within<T>(work: impl Future<Output = T>) -> Result<T, String> {
    tokio::time::timeout(PATIENCE, work).await.map_err(|_| format!("nothing within {PATIENCE:?}"))
}

async fn connect(to: SocketAddr) -> Result<SendRequest<Full<Bytes>>, String> {
    let stream = TcpStream::connect(to).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = handshake.map_err(|error| error.to_string())?;
    tokio::task::spawn_local(connection);
    Ok(sender)
}
