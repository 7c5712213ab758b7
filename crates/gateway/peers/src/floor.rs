//! The smallest possible proxy: hyper to hyper, and nothing is parsed.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

type Upstream = Rc<RefCell<Option<SendRequest<Incoming>>>>;

/// Serves until the process ends. Each connection of a client has its own connection to the upstream.
pub(crate) async fn serve(listener: TcpListener, to: SocketAddr) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let upstream = Upstream::default();
        let service = service_fn(move |request| pass(Rc::clone(&upstream), to, request));
        tokio::task::spawn_local(async move {
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn pass(
    upstream: Upstream,
    to: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<Incoming>, hyper::Error> {
    let kept = upstream.borrow_mut().take();
    let mut sender = match kept {
        Some(mut sender) => {
            sender.ready().await?;
            sender
        }
        None => connect(to).await?,
    };
    let response = sender.send_request(request).await?;
    *upstream.borrow_mut() = Some(sender);
    Ok(response)
}

async fn connect(to: SocketAddr) -> Result<SendRequest<Incoming>, hyper::Error> {
    let stream = TcpStream::connect(to).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::task::spawn_local(connection);
    Ok(sender)
}
