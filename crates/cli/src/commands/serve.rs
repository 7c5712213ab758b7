//! `longhaul serve`: the agent behind HTTP, until it is told to end.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use longhaul_server::{App, ServerConfig, Token, serve};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;

use crate::agent_file::{self, Loaded};
use crate::args::ServeArgs;
use crate::assemble::Asking;
use crate::failure::{DONE, Failure, Outcome};
use crate::place::Place;
use crate::signals::Interrupts;
use crate::term::out;

use super::Need;

/// The token's name in the data folder.
const TOKEN_FILE: &str = "token";

/// Files that the server may have open. Not as many as there may be: tools inherit it, and some programs close
/// every file they might have.
const OPEN_FILES: u64 = 65_536;

pub(crate) async fn run(args: ServeArgs, place: &Place) -> Outcome {
    let loaded = agent_file::load(place)?;
    let addr = args.addr.unwrap_or(loaded.config.server.addr);
    let token_file = args.token_file.clone().or_else(|| token_file(&loaded));
    if !addr.ip().is_loopback() && token_file.is_none() {
        return Err(Failure::usage(format!(
            "{addr} can be reached from other machines: name the token they need with --token-file, or as server.tokenFile"
        )));
    }
    allow_many_connections();
    let mut interrupts = Interrupts::listen()?;
    let asking = if args.yes { Asking::Allowed } else { Asking::Person };
    let runtime = super::open(place, Need::Model(asking)).await?;
    let token_path = token_file.unwrap_or_else(|| place.data_dir.join(TOKEN_FILE));
    let token = token(&token_path, place)?;
    let listener = TcpListener::bind(addr).await;
    let listener = listener.map_err(|error| Failure::new(format!("{addr} cannot be used: {error}")))?;
    let address = listener.local_addr()?;
    let app = App::new(runtime, config(&loaded, token, address));
    out::line(&format!("http://{address}"))?;
    out::message(&format!("clients bring the token in {}\n", place.shown(&token_path)));
    serve(listener, app, async move { interrupts.next().await }).await?;
    Ok(DONE)
}

/// The token's file that the agent file names, seen from where that file lies.
fn token_file(loaded: &Loaded) -> Option<PathBuf> {
    let named = loaded.config.server.token_file.as_ref()?;
    let folder = loaded.file.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
    Some(folder.join(named))
}

/// Each watcher is a connection: the usual 1,024 files are few. What cannot be had is done without.
fn allow_many_connections() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(OPEN_FILES, |maximum| maximum.min(OPEN_FILES));
    if current.is_none_or(|current| current >= wanted) {
        return;
    }
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    if let Err(error) = raised {
        tracing::warn!(%error, "the number of connections stays limited");
    }
}

/// The token that was named, or the data folder's own.
fn token(path: &Path, place: &Place) -> Outcome<Token> {
    if path == place.data_dir.join(TOKEN_FILE) {
        return Ok(Token::load_or_create(path)?);
    }
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
fn config(loaded: &Loaded, token: Token, address: SocketAddr) -> ServerConfig {
    let server = &loaded.config.server;
    let mut config = ServerConfig::new(token);
    config.allowed_hosts.clone_from(&server.allowed_hosts);
    config.allowed_origins.clone_from(&server.allowed_origins);
    config.max_body_bytes = server.max_body_bytes;
    if !address.ip().is_loopback() && !address.ip().is_unspecified() {
        config.allowed_hosts.push(address.to_string());
    }
    config
}
