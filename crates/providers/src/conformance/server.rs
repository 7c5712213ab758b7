//! A model server with one scripted response, for providers that speak HTTP.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// A response of a [`ConformanceServer`], the same for every request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScriptedResponse {
    /// The HTTP status.
    pub status: u16,
    /// The response's own headers, for example `content-type`.
    pub headers: Vec<(String, String)>,
    /// The body, written piece by piece.
    pub pieces: Vec<Bytes>,
    /// The behaviour after the last piece.
    pub end: ResponseEnd,
}

/// The behaviour of a response after its last piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseEnd {
    /// The body is complete.
    Complete,
    /// The connection breaks within the body.
    Broken,
    /// Nothing more is written, and the connection stays open until the client goes.
    Held,
}

impl ScriptedResponse {
    /// Creates a complete response with a JSON body and the status `status`.
    pub fn json(status: u16, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            pieces: vec![body.into()],
            end: ResponseEnd::Complete,
        }
    }

    /// Creates a stream of server-sent events with status 200.
    pub fn stream<P: Into<Bytes>>(pieces: impl IntoIterator<Item = P>, end: ResponseEnd) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
            pieces: pieces.into_iter().map(Into::into).collect(),
            end,
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    fn head(&self) -> String {
        let headers: String =
            self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!(
            "HTTP/1.1 {} -\r\n{headers}transfer-encoding: chunked\r\nconnection: close\r\n\r\n",
            self.status
        )
    }
}

/// A model server on the local machine, stopped with the drop of the value.
pub struct ConformanceServer {
    address: SocketAddr,
    shared: Arc<ReceivedRequests>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct ReceivedRequests {
    bodies: Mutex<Vec<Bytes>>,
    gone: Notify,
}

impl ReceivedRequests {
    fn bodies(&self) -> MutexGuard<'_, Vec<Bytes>> {
        // A failed assertion elsewhere must not hide the requests.
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConformanceServer {
    /// Starts a server on a free port. Every request gets `response`.
    ///
    /// # Errors
    /// The system's error if no local port can be used.
    pub async fn start(response: ScriptedResponse) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ReceivedRequests::default());
        let record = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            // One connection after the other: a promise makes a single call.
            while let Ok((connection, _)) = listener.accept().await {
                // An error means that the client has gone, which the end of the function tells anyway.
                let _ = respond(connection, &response, &record).await;
                record.gone.notify_one();
            }
        });
        Ok(Self { address, shared, task })
    }

    /// Returns the address of the path `path`, which begins with `/`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the bodies of all requests so far.
    pub fn bodies(&self) -> Vec<Bytes> {
        self.shared.bodies().clone()
    }

    /// Waits until a connection has ended. A response with [`ResponseEnd::Held`] ends only with its client.
    pub async fn disconnected(&self) {
        self.shared.gone.notified().await;
    }
}

impl Drop for ConformanceServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for ConformanceServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConformanceServer").field(&self.address).finish()
    }
}

async fn respond(
    mut connection: TcpStream,
    response: &ScriptedResponse,
    record: &ReceivedRequests,
) -> io::Result<()> {
    let body = read_request(&mut connection).await?;
    record.bodies().push(body);
    connection.write_all(response.head().as_bytes()).await?;
    for piece in &response.pieces {
        connection.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
        connection.write_all(piece).await?;
        connection.write_all(b"\r\n").await?;
        connection.flush().await?;
    }
    match response.end {
        ResponseEnd::Complete => connection.write_all(b"0\r\n\r\n").await?,
        // The chunked body lacks its last chunk: the client sees a broken body, not a short one.
        ResponseEnd::Broken => {}
        ResponseEnd::Held => while connection.read(&mut [0; 256]).await? > 0 {},
    }
    connection.shutdown().await
}

/// Reads a request and returns its body.
async fn read_request(connection: &mut TcpStream) -> io::Result<Bytes> {
    let mut read = Vec::new();
    let head = loop {
        if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        read_more(connection, &mut read).await?;
    };
    let length = content_length(&read[..head]);
    while read.len() < head + length {
        read_more(connection, &mut read).await?;
    }
    Ok(Bytes::from(read).slice(head..head + length))
}

async fn read_more(connection: &mut TcpStream, read: &mut Vec<u8>) -> io::Result<()> {
    match connection.read_buf(read).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

fn content_length(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head);
    let value = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    value.unwrap_or(0)
}
