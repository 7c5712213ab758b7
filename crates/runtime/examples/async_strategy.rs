//! A strategy that writes the replacement of old messages itself, and takes time for it: here it asks a second model.

#![expect(clippy::print_stdout, reason = "an example prints")]

mod support;

use longhaul::async_trait;
use longhaul::prelude::*;

struct SecondModel(Runtime);

impl CompactionStrategy for SecondModel {
    fn name(&self) -> &str {
        "second-model"
    }
    fn trigger(&self) -> StrategyTrigger {
        StrategyTrigger::Share(0.6)
    }
    fn choose(&self, context: &PlanContext<'_>, _: ProtectionLevel) -> Option<CompactionSelection> {
        let cut = context.turn_start(2);
        (cut > 0).then(|| {
            CompactionSelection::new(context.before_cut(cut), UnitReplacement::Summary { tokens: 500 })
        })
    }
}

#[async_trait]
impl AsyncStrategy for SecondModel {
    async fn write_replacement(&self, request: ReplacementRequest) -> Result<String, ReplacementError> {
        let said: Vec<String> = request.messages.iter().map(Message::text).collect();
        let order = format!("Summarise in {} tokens:\n{}", request.limit_tokens, said.join("\n"));
        Ok(self.0.session().await?.turn(order).await?.finish().await?.text)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let second = support::agent(ScriptedProvider::new(ModelScript::always(
        "The user asks for the value again and again.",
    )));
    let strategy = SecondModel(second.build().await?);
    let scripted = ScriptedProvider::new(ModelScript::always("The value is what it was before. ".repeat(20)));
    let agent = support::agent(scripted).window_tokens(8_000).async_strategy(strategy).build().await?;
    let session = agent.session().await?;
    for at in 0..40 {
        let mut turn = session.turn(format!("Question {at}: what is the value?")).await?;
        while let Some(event) = turn.next().await {
            if let SessionEvent::Compacted { strategy, original_messages, compressed_messages, .. } = event? {
                println!("{strategy}: {original_messages} messages became {compressed_messages}");
            }
        }
    }
    let shown = session.inspect_run(|run| run.history().view()[0].message.text()).await?;
    println!("{}", shown.lines().find(|line| line.contains("again and again")).unwrap_or("nothing"));
    Ok(())
}
