//! `longhaul mcp`: the contents of the data folder's sessions, as tools for any client of the Model Context
//! Protocol.
//!
//! Standard input and output carry the protocol and nothing else. [`asked`] lists the tools and reads their
//! arguments, [`answer`] performs them, [`history`] searches all sessions.

mod answer;
mod history;
mod tool_request;
mod wire;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use rmcp::ServiceExt as _;
use rmcp::transport::stdio;

use crate::environment::CliEnvironment;
use crate::failure::{CANCELLED, CommandError, DONE, Outcome};
use crate::signals::InterruptSignals;

use self::wire::{McpJob, McpToolServer};

/// Serves one client until it leaves.
pub(crate) async fn run(place: &CliEnvironment) -> Outcome {
    if place.terminal.input {
        // The protocol would wait for JSON that nobody types.
        return Err(CommandError::usage(
            "an MCP client starts this command and talks to it through pipes; nothing was started. Name the command \
             in the client's settings: `longhaul mcp`",
        ));
    }
    let mut interrupts = InterruptSignals::listen()?;
    let (server, mut jobs) = McpToolServer::new();
    let served = server.serve(stdio()).await;
    let served = served.map_err(|error| {
        CommandError::new(format!("the MCP client sent no valid `initialize` request: {error}"))
    })?;
    let mut ended = std::pin::pin!(served.waiting());
    // A call runs to its end even if its client has given up: its change is then done or not done, never half
    // done.
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(McpJob { asked, reply }) = jobs.recv() => running.push(async move {
                // The client may have stopped waiting.
                let _ = reply.send(answer::answer(place, asked).await);
            }),
            Some(()) = running.next(), if !running.is_empty() => {}
            _ = &mut ended => break,
            () = interrupts.next() => return Ok(CANCELLED.into()),
        }
    }
    // The client has left. What runs is finished, and nothing new is taken.
    loop {
        tokio::select! {
            done = running.next() => if done.is_none() { return Ok(DONE) },
            () = interrupts.next() => return Ok(CANCELLED.into()),
        }
    }
}
