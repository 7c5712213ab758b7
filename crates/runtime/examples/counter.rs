//! A token counter of the program's own: here a tokenizer whose tokens are words.

#![expect(clippy::print_stdout, reason = "an example prints")]

mod support;

use longhaul::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words = counter_fn("words", |text| text.split_whitespace().count() as u64);
    let scripted = ScriptedProvider::new(ModelScript::always("So it is."));
    let agent = support::agent(scripted).token_counter(words.exact()).build().await?;
    let session = agent.session().await?;
    let output = session.turn("one two three four five").await?.finish().await?;
    let tokens = session.inspect_run(|run| run.history().view()[0].tokens).await?;
    println!("{}\nthe question: {tokens} tokens, 5 words and the marks around a message", output.text);
    Ok(())
}
