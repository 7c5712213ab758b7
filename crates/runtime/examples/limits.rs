//! A hundred messages in a small window: a window and a target in tokens, a strategy with options, a counter of the
//! program's own, and a hook that holds compactions off at first. The conversation compacts by itself.

#![expect(clippy::print_stdout, reason = "an example prints")]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};

use longhaul::core::strategy::SummarizationStrategy;
use longhaul::prelude::*;

const MAX_TOKENS: u64 = 8_000;
const TARGET_TOKENS: u64 = 4_000;

static ASKED: AtomicUsize = AtomicUsize::new(0);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scripted = ScriptedProvider::new(ModelScript::always("The value is what it was before. ".repeat(8)));
    let words = counter_fn("words", |text| text.split_whitespace().count() as u64 * 4 / 3);
    let agent = support::agent(scripted)
        .window_tokens(MAX_TOKENS)
        .trigger(StrategyTrigger::Tokens(TARGET_TOKENS))
        .strategy(SummarizationStrategy { keep_recent: 6, summarize_chunk_size: 50, max_summary_tokens: 300 })
        .token_counter(words)
        .on_pre_compact(|request| async move {
            match ASKED.fetch_add(1, Ordering::Relaxed) {
                0 => {
                    println!("held off at {} tokens", request.current_tokens);
                    PreCompactDecision::cancel("the first time is too early")
                }
                _ => PreCompactDecision::Proceed,
            }
        })
        .build()
        .await?;
    let session = agent.session().await?;
    let mut largest_tokens = 0;
    for at in 0..100 {
        let question = format!("Question {at}: what is the value? {}", "Say it again. ".repeat(10));
        let mut turn = session.turn(question).await?;
        while let Some(event) = turn.next().await {
            match event? {
                SessionEvent::Compacted { strategy, original_tokens, compressed_tokens, .. } => {
                    println!("message {at}: {strategy}, {original_tokens} tokens became {compressed_tokens}");
                }
                SessionEvent::StepFinished { usage, .. } => {
                    largest_tokens = largest_tokens.max(usage.map_or(0, |usage| usage.total_tokens()));
                }
                _ => {}
            }
        }
    }
    println!("100 messages; the largest call had {largest_tokens} of {MAX_TOKENS} tokens");
    Ok(())
}
