//! A turn whose answer is printed while it comes. `cargo run --example chat -- http://localhost:1234/v1 qwen3-8b` asks a
//! model server; without arguments a script answers.

#![expect(clippy::print_stdout, reason = "an example prints")]

mod support;

use std::io::Write;

use longhaul::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scripted = ScriptedProvider::new(ModelScript::always("It is what a model can read at once."));
    let agent = support::agent(scripted).system("Answer in one sentence.").build().await?;
    let session = agent.session().await?;
    let mut turn = session.turn("What is a context window?").await?;
    while let Some(event) = turn.next().await {
        if let SessionEvent::TextDelta { text, .. } = event? {
            print!("{text}");
            std::io::stdout().flush()?;
        }
    }
    println!("\n{} tokens", turn.finish().await?.usage.total_tokens());
    Ok(())
}
