//! `longhaul acp`: the agent inside an editor that speaks the Agent Client Protocol.
//!
//! Standard input and output carry the protocol and nothing else. [`wire`] names its methods, and [`editor`]
//! answers them. [`workspace_runtimes`] has a runtime for each workspace, and [`editor_session`] one session
//! as the editor sees it. [`updates`] translates the session's events for the editor.

mod call;
mod editor;
mod editor_session;
mod folders;
mod follower;
mod prompt;
mod shared_store;
mod slash;
mod stop;
mod time;
mod updates;
mod wire;
mod workspace_runtimes;

use std::sync::Arc;

use crate::args::AcpArgs;
use crate::assemble::ToolApprovalMode;
use crate::environment::CliEnvironment;
use crate::failure::{CANCELLED, CommandError, DONE, Outcome};
use crate::signals::InterruptSignals;

use self::editor::EditorConnection;

/// Serves one editor until it leaves.
pub(crate) async fn run(args: AcpArgs, place: &CliEnvironment) -> Outcome {
    let mut interrupts = InterruptSignals::listen()?;
    let asking = if args.yes { ToolApprovalMode::Allowed } else { ToolApprovalMode::Person };
    let editor = Arc::new(EditorConnection::at(place, asking).await);
    let done = tokio::select! {
        served = wire::serve(&editor) => match served {
            Ok(()) => Ok(DONE),
            Err(error) => Err(CommandError::new(format!("the editor's connection broke: {}", error.message))),
        },
        () = interrupts.next() => Ok(CANCELLED.into()),
    };
    // Closed in every case: a broken connection must not leave runs without a reader.
    editor.close().await;
    done
}
