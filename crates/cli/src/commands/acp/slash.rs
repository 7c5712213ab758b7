//! The slash commands of an editor.

use agent_client_protocol::v1::schema::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, SessionUpdate, UnstructuredCommandInput,
};
use longhaul::session::{Runtime, Session};
use longhaul_core::run::CompactionOutcome;

use crate::commands::compact::{check_length, compact_session};
use crate::commands::compactions;
use crate::commands::orders::OrderCommand;
use crate::commands::undo::undo;
use crate::failure::{CommandError, Outcome};
use crate::term::human::short;
use crate::term::table::{PlannerSummary, table};

use super::call::fenced;
use super::prompt::PromptPart;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EditorCommand {
    Context,
    Compact(Option<String>),
    Compactions,
    Undo(Option<String>),
    Orders(OrderCommand),
}

impl EditorCommand {
    /// Reads a prompt; `None` for a message to the model. Any text but our own commands is a message.
    pub(super) fn of(given: &[PromptPart]) -> Option<Self> {
        // A command is a single text. A prompt with a file beside it is meant for the model.
        let [PromptPart::Text(text)] = given else { return None };
        let text = text.trim();
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let argument = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
        match name {
            "/context" => Some(Self::Context),
            "/compactions" if argument.is_none() => Some(Self::Compactions),
            "/compact" => Some(Self::Compact(argument)),
            "/undo" => Some(Self::Undo(argument)),
            "/pin" => Some(Self::Orders(OrderCommand::of_pin(argument))),
            "/orders" if argument.is_none() => Some(Self::Orders(OrderCommand::List)),
            // An argument that is no number may be the beginning of a message, so it goes to the model.
            "/unpin" => OrderCommand::of_unpin(argument.as_deref()).ok().map(Self::Orders),
            _ => None,
        }
    }

    /// Performs the command, and returns the result in Markdown.
    ///
    /// # Errors
    /// The reason for the command's failure.
    pub(super) async fn perform(self, runtime: &Runtime, session: &Session, model: &str) -> Outcome<String> {
        match self {
            Self::Context => {
                let report = session.context().await?;
                let beside = session.inspect_run(PlannerSummary::of).await?;
                Ok(fenced(&table(&report, &beside, model)))
            }
            Self::Compactions => {
                let events = runtime.log(session.id()).await?;
                Ok(fenced(&session.inspect_run(move |run| compactions::listed(run, &events, "/undo")).await?))
            }
            Self::Undo(edit) => Ok(undo(session, edit, "/compactions").await?.words()),
            Self::Orders(work) => Ok(fenced(&work.perform(session).await?)),
            Self::Compact(instructions) => compact(session, instructions).await,
        }
    }
}

async fn compact(session: &Session, instructions: Option<String>) -> Outcome<String> {
    check_length(instructions.as_deref())?;
    let is_instructed = instructions.is_some();
    let before = session.inspect_run(|run| run.meter().total).await?;
    let made = Box::pin(compact_session(session, None, instructions, |_| ())).await?;
    let unheard = made.unheard();
    match made.outcome {
        CompactionOutcome::Committed(edit) => {
            let after = session.inspect_run(|run| run.meter().total).await?;
            let unheard =
                unheard.filter(|_| is_instructed).map(|why| format!("\n\n{why}")).unwrap_or_default();
            let (before, after, id) = (short(before), short(after), &edit.id);
            Ok(format!(
                "Compacted: {before} → {after} tokens. {}\n\n`/undo {id}` brings it back, if the window has room.{unheard}",
                edit.why
            ))
        }
        CompactionOutcome::Refused(why) => {
            Err(CommandError::new(format!("not compacted, nothing changed: {why}")))
        }
        _ => Ok("Nothing to compact: the conversation stays as it is.".to_owned()),
    }
}

/// Returns the list of slash commands for the editor.
pub(super) fn offered() -> SessionUpdate {
    SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(vec![
        AvailableCommand::new("compact", "Make room now; words say what the summary should mind")
            .input(input_hint("what the summary should mind")),
        AvailableCommand::new("undo", "Undo the newest compaction, or the one named")
            .input(input_hint("e42")),
        AvailableCommand::new(
            "pin",
            "Pin a standing order: the model keeps to it from here on; alone: list them",
        )
        .input(input_hint("an order; or a number and other words for that order")),
        AvailableCommand::new("unpin", "Remove the standing order of that number").input(input_hint("2")),
        AvailableCommand::new("compactions", "List what was compacted or pruned, why, and how it is undone"),
        AvailableCommand::new("context", "Show what fills the context window"),
    ]))
}

fn input_hint(hint: &str) -> AvailableCommandInput {
    AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<EditorCommand> {
        EditorCommand::of(&[PromptPart::Text(text.to_owned())])
    }

    #[test]
    fn commands_are_told_from_messages() {
        assert_eq!(of("/context"), Some(EditorCommand::Context));
        assert_eq!(
            of(" /compact mind the\nports "),
            Some(EditorCommand::Compact(Some("mind the\nports".into())))
        );
        assert_eq!(of("/compactions"), Some(EditorCommand::Compactions));
        assert_eq!(of("/orders"), Some(EditorCommand::Orders(OrderCommand::List)));
        assert_eq!(of("/undo e42"), Some(EditorCommand::Undo(Some("e42".into()))));
        for message in ["/etc/hosts is wrong", "/compactor", "do /compact", "/review"] {
            assert_eq!(of(message), None, "{message}");
        }
        let file = PromptPart::Media { bytes: Vec::new(), media_type: "text/plain".into(), name: None };
        assert_eq!(EditorCommand::of(&[PromptPart::Text("/undo".into()), file]), None);
    }

    #[test]
    fn all_that_is_offered_is_understood() {
        let SessionUpdate::AvailableCommandsUpdate(offered) = offered() else { panic!("no commands") };
        for command in offered.available_commands {
            // Some take an argument, some take none.
            let typed = [format!("/{}", command.name), format!("/{} 2", command.name)];
            assert!(typed.iter().any(|text| of(text).is_some()), "{}", command.name);
        }
    }
}
