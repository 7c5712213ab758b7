//! The server from its start to its end.

use std::io;
use std::time::Duration;

use axum::serve::ListenerExt;
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::net::TcpListener;

use crate::app::App;
use crate::routes::router;

/// How long requests that are being answered may take when the server ends.
const GRACE: Duration = Duration::from_secs(5);

/// What the system keeps for a client that does not read, in bytes; Linux takes it twice. By itself it would
/// be megabytes, all of them written before the client is seen to be stuck.
const SEND_BUFFER_BYTES: usize = 128 << 10;

/// Serves on `listener` until `shutdown` is done, then ends in order: event streams, requests, runs, store.
///
/// # Errors
/// The listener's. One connection's errors are its own.
pub async fn serve(
    listener: TcpListener,
    app: App,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    // Events are small and are wanted at once.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
        let _ = set_socket_send_buffer_size(&*stream, SEND_BUFFER_BYTES);
    });
    let closing = app.closing().clone();
    let asked = {
        let closing = closing.clone();
        async move {
            shutdown.await;
            closing.cancel();
        }
    };
    let server = axum::serve(listener, router(app.clone())).with_graceful_shutdown(asked);
    let recovery = async {
        if let Err(error) = app.recover().await {
            tracing::error!(%error, "interrupted sessions were not recovered");
        }
        std::future::pending::<()>().await;
    };
    let late = async {
        closing.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    let served = tokio::select! {
        served = server => served,
        () = recovery => Ok(()),
        () = late => Ok(()),
    };
    app.close().await;
    served
}
