//! A strategy of the program's own: the newest two turns stay, and a note stands for the rest.

#![expect(clippy::print_stdout, reason = "an example prints")]

mod support;

use longhaul::prelude::*;

struct NewestTurns(usize);

impl CompactionStrategy for NewestTurns {
    fn name(&self) -> &str {
        "newest-turns"
    }
    fn trigger(&self) -> StrategyTrigger {
        StrategyTrigger::Share(0.7)
    }
    fn choose(&self, context: &PlanContext<'_>, _: ProtectionLevel) -> Option<CompactionSelection> {
        let cut = context.turn_start(self.0);
        (cut > 0).then(|| CompactionSelection::new(context.before_cut(cut), UnitReplacement::Note))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scripted = ScriptedProvider::new(ModelScript::always("The value is what it was before. ".repeat(20)));
    let builder = support::agent(scripted).window_tokens(6_000);
    let agent = builder.strategy(NewestTurns(2)).build().await?;
    let session = agent.session().await?;
    for at in 0..80 {
        let mut turn = session.turn(format!("Question {at}: what is the value?")).await?;
        while let Some(event) = turn.next().await {
            if let SessionEvent::Compacted { strategy, original_messages, compressed_messages, .. } = event? {
                println!("{strategy}: {original_messages} messages became {compressed_messages}");
            }
        }
    }
    Ok(())
}
