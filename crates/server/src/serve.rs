//! The server's life from start to shutdown.

use std::io;
use std::time::Duration;

use tokio::net::TcpListener;

use crate::app::AppState;
use crate::maintenance::keep_up;
use crate::pre_auth_listener::{PreAuthListener, PreAuthPermit};
use crate::routes::router;

/// The time for requests in progress at the server's end.
const GRACE: Duration = Duration::from_secs(5);

/// Serves on `listener` until `shutdown` is done, then ends in order: event streams, requests, runs, store.
///
/// # Errors
/// The listener's. Errors of single connections are handled there.
pub async fn serve(
    listener: TcpListener,
    app: AppState,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let listener = PreAuthListener::new(listener, app.config().max_strangers, app.config().first_request);
    let closing = app.closing().clone();
    tracing::info!(
        max_unauthenticated = app.config().max_strangers,
        first_request = ?app.config().first_request,
        has_gateway = app.config().gateway.is_some(),
        is_cluster_node = app.runtime().nodes().is_some(),
        "the server accepts connections"
    );
    let asked = {
        let closing = closing.clone();
        async move {
            shutdown.await;
            tracing::info!("the server was told to end: event streams are closed");
            // Event streams do not end by themselves, and a graceful shutdown would wait for them for ever.
            closing.cancel();
        }
    };
    let service = router(app.clone()).into_make_service_with_connect_info::<PreAuthPermit>();
    let server = axum::serve(listener, service).with_graceful_shutdown(asked);
    // Recovery runs beside the server: a large store must not delay the first answer.
    let recovery = async {
        if let Err(error) = app.recover().await {
            tracing::error!(%error, "interrupted sessions were not recovered");
        }
        tokio::join!(app.runtime().run_node_duties(), Box::pin(keep_up(&app)));
        // Neither recovery nor upkeep may end the `select!` below, which would end the server.
        std::future::pending::<()>().await;
    };
    let late = async {
        closing.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    let served = tokio::select! {
        served = server => served,
        // This arm only drives the recovery. It never ends.
        () = recovery => Ok(()),
        () = late => {
            tracing::info!(grace = ?GRACE, "requests still in progress are cut off");
            Ok(())
        }
    };
    // The store closes last, because runs write to it until their end.
    app.close().await;
    served
}
