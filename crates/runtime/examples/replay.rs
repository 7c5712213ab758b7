//! The log of a session, folded again: what the model was shown at any moment. A log is all that is stored, so a
//! program can answer this years later, without the agent.

#![expect(clippy::print_stdout, reason = "an example prints")]

mod support;

use longhaul::core::event::{Event, EventBody};
use longhaul::core::history::History;
use longhaul::core::strategy::TruncationStrategy;
use longhaul::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scripted = ScriptedProvider::new(ModelScript::always("The value is what it was before. ".repeat(20)));
    let agent =
        support::agent(scripted).window_tokens(6_000).strategy(TruncationStrategy::default()).build().await?;
    let session = agent.session().await?;
    for at in 0..40 {
        session.turn(format!("Question {at}: what is the value?")).await?.finish().await?;
    }
    let written = serde_json::to_string(&agent.log(session.id()).await?)?;

    let events: Vec<Event> = serde_json::from_str(&written)?;
    let mut history = History::fold([])?;
    for event in &events {
        let before = history.view().len();
        history.apply(event)?;
        if let EventBody::ViewEdited(edit) = &event.body {
            println!(
                "event {}: {}, {before} messages became {}",
                event.seq,
                edit.strategy,
                history.view().len()
            );
        }
    }
    println!("{} events; the model is shown {} messages", events.len(), history.view().len());
    assert_eq!(history.view_hash(), session.inspect_run(|run| run.history().view_hash()).await?);
    Ok(())
}
