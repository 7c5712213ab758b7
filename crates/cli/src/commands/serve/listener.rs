//! The address of the server: binding it, and naming it for people, browsers and other nodes.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;

use longhaul::io_error::io_error_text;
use tokio::net::TcpListener;

use super::SOON;
use crate::args::ServeArgs;
use crate::environment::{AGENT_FILE, CliEnvironment};
use crate::failure::{CommandError, Outcome};
use crate::model_discovery;

/// The number of ports tried for a free one.
const NEXT_PORTS: usize = 20;

/// Listens at an address.
///
/// # Errors
/// The address is in use.
pub(super) async fn listen(
    place: &CliEnvironment,
    args: &ServeArgs,
    addr: SocketAddr,
) -> Outcome<TcpListener> {
    match bound(addr).await {
        Ok(listener) => Ok(listener),
        Err(error) => Err(unusable(place, args, addr, &error).await),
    }
}

/// Listens. Tries again for a moment: a server that has just ended may close its connections after its data
/// folder.
async fn bound(addr: SocketAddr) -> io::Result<TcpListener> {
    let until = Instant::now() + SOON;
    loop {
        match TcpListener::bind(addr).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                tracing::debug!(%addr, "the address is still in use: it is tried again for a moment");
                tokio::time::sleep(SOON / 5).await;
            }
            done => return done,
        }
    }
}

/// Returns the address under which a browser on this machine finds the server.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    let mut near = address;
    // 0.0.0.0 and [::] are addresses to listen at, not to connect to.
    if address.ip().is_unspecified() {
        near.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    near
}

/// Returns the error for an unusable address, with a usable address.
async fn unusable(
    place: &CliEnvironment,
    args: &ServeArgs,
    addr: SocketAddr,
    error: &io::Error,
) -> CommandError {
    if error.kind() != io::ErrorKind::AddrInUse {
        return CommandError::new(format!("{addr} cannot be used: {}", io_error_text(error)));
    }
    let near = reachable(addr);
    let by = if model_discovery::is_longhaul(near).await {
        format!("another longhaul, whose page is http://{near}")
    } else {
        "another program".to_owned()
    };
    let next = format!("--addr {}", SocketAddr::new(addr.ip(), free_port(addr).await));
    let other = if *args == (ServeArgs { addr: args.addr, open: args.open, ..ServeArgs::default() }) {
        place.command_with_model(&format!("serve {next}"))
    } else {
        // The rest of the line stays as it is; an address of a database may hold a password.
        next
    };
    CommandError::new(format!(
        "{addr} is in use by {by}: take another port with `{other}`, or as server.addr in {AGENT_FILE}"
    ))
}

/// Returns the next free port after an address's own. Returns 0, which means any port, if all of them are in use.
async fn free_port(addr: SocketAddr) -> u16 {
    for port in (addr.port()..).skip(1).take(NEXT_PORTS) {
        // The listener is dropped at once. Another program may take the port meanwhile: it is only a proposal.
        if TcpListener::bind((addr.ip(), port)).await.is_ok() {
            return port;
        }
    }
    0
}
