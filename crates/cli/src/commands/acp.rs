//! `longhaul acp`: the agent inside an editor that speaks the Agent Client Protocol.
//!
//! Standard input and output carry the protocol and nothing else. [`wire`] names its methods, [`editor`] answers
//! them, [`rooms`] has a runtime for each workspace, [`talk`] one session as the editor sees it, and [`updates`] what
//! the editor is told of what happens there.

mod call;
mod editor;
mod folders;
mod follower;
mod lent;
mod prompt;
mod rooms;
mod slash;
mod stop;
mod talk;
mod time;
mod updates;
mod wire;

use std::sync::Arc;

use crate::args::AcpArgs;
use crate::assemble::Asking;
use crate::failure::{CANCELLED, DONE, Failure, Outcome};
use crate::place::Place;
use crate::signals::Interrupts;

use self::editor::Editor;

/// Serves one editor until it leaves.
pub(crate) async fn run(args: AcpArgs, place: &Place) -> Outcome {
    let mut interrupts = Interrupts::listen()?;
    let asking = if args.yes { Asking::Allowed } else { Asking::Person };
    let editor = Arc::new(Editor::at(place, asking).await);
    let done = tokio::select! {
        served = wire::serve(&editor) => match served {
            Ok(()) => Ok(DONE),
            Err(error) => Err(Failure::new(format!("the editor's connection broke: {}", error.message))),
        },
        () = interrupts.next() => Ok(CANCELLED.into()),
    };
    editor.close().await;
    done
}
