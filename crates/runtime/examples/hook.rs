//! A hook that looks in before each compaction: it cancels the first one, and writes the summary of the next itself.

#![expect(clippy::print_stdout, reason = "an example prints")]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};

use longhaul::core::strategy::ReactiveOverflowStrategy;
use longhaul::prelude::*;

static WAS_ASKED: AtomicBool = AtomicBool::new(false);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scripted = ScriptedProvider::new(ModelScript::always("The value is what it was before. ".repeat(20)));
    let agent = support::agent(scripted)
        .window_tokens(6_000)
        .strategy(ReactiveOverflowStrategy::default())
        .trigger(StrategyTrigger::Share(0.5))
        .on_pre_compact(|request| async move {
            println!("{} tokens, {} messages would go", request.current_tokens, request.what_goes.messages);
            match WAS_ASKED.swap(true, Ordering::Relaxed) {
                false => PreCompactDecision::cancel("not now"),
                true => PreCompactDecision::summarize("The user asks for the value again and again."),
            }
        })
        .build()
        .await?;
    let session = agent.session().await?;
    for at in 0..30 {
        let mut turn = session.turn(format!("Question {at}: what is the value?")).await?;
        while let Some(event) = turn.next().await {
            match event? {
                SessionEvent::CompactionFailed { error, .. } => println!("not compacted: {}", error.message),
                SessionEvent::Compacted { original_tokens, compressed_tokens, .. } => {
                    println!("compacted: {original_tokens} tokens became {compressed_tokens}");
                }
                _ => {}
            }
        }
    }
    Ok(())
}
