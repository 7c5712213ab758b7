//! Connections without the token yet: limits for number and time. Anybody within reach of the port can open
//! connections, and each takes a file descriptor from the server's work.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// The kernel's send buffer of a connection, in bytes; Linux doubles the value. The default can be megabytes, all
/// written before a stuck client is noticed.
const SEND_BUFFER_BYTES: usize = 128 << 10;

/// A listener with a limited number of unauthenticated connections. Further ones wait in the kernel's queue, which
/// costs no descriptor, until a place is free.
pub(crate) struct PreAuthListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
    patience: Duration,
}

impl PreAuthListener {
    /// Creates a listener for at most `strangers` unauthenticated connections, and never more than half of the file
    /// limit. Each may last for `patience`.
    pub(crate) fn new(listener: TcpListener, strangers: usize, patience: Duration) -> Self {
        // Without a limit of files the configured number counts alone.
        let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
        // Half of the files stay free for known clients, stores and tools.
        let most = files.map_or(strangers, |files| strangers.min(files / 2));
        tracing::debug!(
            configured = strangers,
            file_limit = files,
            most,
            "unauthenticated connections are limited"
        );
        // Without a single place no client could ever show a token.
        let places = Arc::new(Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS)));
        Self { listener, places, patience }
    }
}

impl Listener for PreAuthListener {
    type Io = PreAuthConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (PreAuthConnection, SocketAddr) {
        // The semaphore is never closed, so a place becomes free in the end.
        if self.places.available_permits() == 0 {
            tracing::info!(
                patience = ?self.patience,
                "all places for unauthenticated connections are taken: new ones wait"
            );
        }
        // The place comes before the connection, so that an accepted one always has a permit.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;
        // Events are small and must not wait for Nagle's algorithm. Both options only tune the connection, so their
        // errors are ignored.
        let _ = stream.set_nodelay(true);
        let _ = set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES);
        let stay = Box::pin(tokio::time::sleep(self.patience));
        let pass = PreAuthPermit { place: Arc::new(Mutex::new(place)), address: address.ip() };
        (PreAuthConnection { stream, pass, stay: Some(stay) }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// The address and the authentication state of a connection.
#[derive(Clone, Debug)]
pub(crate) struct PreAuthPermit {
    /// The connection's permit until authentication.
    place: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
    address: IpAddr,
}

impl PreAuthPermit {
    /// Records a request with the token on the connection.
    pub(crate) fn let_in(&self) {
        // Dropping the permit lets the next connection in.
        drop(self.place.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    pub(crate) fn is_in(&self) -> bool {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl Connected<IncomingStream<'_, PreAuthListener>> for PreAuthPermit {
    fn connect_info(stream: IncomingStream<'_, PreAuthListener>) -> Self {
        // The permit is shared by the connection and its requests: one admitted request frees the place.
        stream.io().pass.clone()
    }
}

/// A connection with a deadline for authentication.
pub(crate) struct PreAuthConnection {
    stream: TcpStream,
    pass: PreAuthPermit,
    /// The deadline; `None` once the connection is authenticated.
    stay: Option<Pin<Box<Sleep>>>,
}

impl PreAuthConnection {
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Some(stay) = &mut self.stay else { return Ok(()) };
        // Known connections have no deadline, because event streams stay open.
        if self.pass.is_in() {
            self.stay = None;
        } else if stay.as_mut().poll(cx).is_ready() {
            tracing::debug!(client = %self.pass.address, "closed: the connection showed no token in time");
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }
}

impl AsyncRead for PreAuthConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Checked at reads and writes: a client may stall in its request or in reading the answer.
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for PreAuthConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Flush and shutdown are not checked: a connection past its deadline must still be closed properly.
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
