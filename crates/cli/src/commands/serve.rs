//! `longhaul serve`: the agent behind HTTP, until it is told to end.

use std::net::SocketAddr;
use std::path::Path;

use longhaul_server::{App, ServerConfig, Token, serve};
use tokio::net::TcpListener;

use crate::args::ServeArgs;
use crate::assemble::Asking;
use crate::failure::{DONE, Failure, Outcome};
use crate::place::Place;
use crate::signals::Interrupts;
use crate::term::out;

use super::Need;

/// The token's name in the data folder.
const TOKEN_FILE: &str = "token";

pub(crate) async fn run(args: ServeArgs, place: &Place) -> Outcome {
    let loopback = args.addr.ip().is_loopback();
    if !loopback && args.token_file.is_none() {
        return Err(Failure::usage(format!(
            "{} can be reached from other machines: name the token they need with --token-file",
            args.addr
        )));
    }
    let mut interrupts = Interrupts::listen()?;
    let asking = if args.yes { Asking::Allowed } else { Asking::Person };
    let runtime = super::open(place, Need::Model(asking)).await?;
    let token = token(args.token_file.as_deref(), place)?;
    let listener = TcpListener::bind(args.addr).await;
    let listener =
        listener.map_err(|error| Failure::new(format!("{} cannot be used: {error}", args.addr)))?;
    let address = listener.local_addr()?;
    let app = App::new(runtime, config(token, address));
    out::line(&format!("http://{address}"))?;
    serve(listener, app, async move { interrupts.next().await }).await?;
    Ok(DONE)
}

/// The token that was named, or the data folder's own.
fn token(named: Option<&Path>, place: &Place) -> Outcome<Token> {
    let Some(path) = named else { return Ok(Token::load_or_create(&place.data_dir.join(TOKEN_FILE))?) };
    let inside = |folder: &Path| match (path.canonicalize(), folder.canonicalize()) {
        (Ok(path), Ok(folder)) => path.starts_with(folder),
        _ => false,
    };
    if inside(&place.workspace) && !inside(&place.data_dir) {
        return Err(Failure::usage("the token file lies in the workspace, where the agent's tools read it"));
    }
    Ok(Token::load(path)?)
}

/// A name cannot be made to point elsewhere if it is an address: the one it listens on is its own.
fn config(token: Token, address: SocketAddr) -> ServerConfig {
    let mut config = ServerConfig::new(token);
    if !address.ip().is_loopback() && !address.ip().is_unspecified() {
        config.allowed_hosts.push(address.to_string());
    }
    config
}
