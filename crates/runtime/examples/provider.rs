//! A model of the program's own: whatever makes an answer from messages can be one. This one repeats what it is told.

#![expect(clippy::print_stdout, reason = "an example prints")]

use longhaul::core::message::{ModelAnswer, ModelOrigin, ModelStopReason};
use longhaul::prelude::*;
use longhaul::providers::{Limits, ModelEvent, ModelRequest, ModelStream, ProviderError, stream_events};
use longhaul::{Bytes, async_trait};

struct Parrot;

#[async_trait]
impl Provider for Parrot {
    fn origin(&self) -> ModelOrigin {
        ModelOrigin { provider: "parrot".to_owned(), api: "none".to_owned(), model: "parrot-1".to_owned() }
    }

    async fn limits(&self) -> Limits {
        Limits { window: Some(8_000), ..Limits::default() }
    }

    fn render(&self, request: &ModelRequest) -> Result<Bytes, ProviderError> {
        Ok(format!("{:?}", request.messages).into())
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ProviderError> {
        let said = request.messages.last().map(Message::text).unwrap_or_default();
        let text = format!("{said} {said}");
        let answer = ModelAnswer {
            parts: vec![Part::text(&text)],
            finish: ModelStopReason::Stop,
            usage: None,
            envelope: None,
        };
        Ok(stream_events([ModelEvent::Text(text), ModelEvent::Finished(answer)]))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let agent = Agent::builder().provider(Parrot).build().await?;
    let output = agent.session().await?.turn("Who is there?").await?.finish().await?;
    println!("{}", output.text);
    Ok(())
}
