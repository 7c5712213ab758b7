//! The model of the examples: the one that is named on the command line (`URL MODEL`), or one that follows a script.

use longhaul::prelude::*;

/// Returns a builder of an agent with that model.
pub(crate) fn agent(scripted: ScriptedProvider) -> AgentBuilder {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next(), arguments.next()) {
        (Some(url), Some(model)) => Agent::builder().openai_compatible(url, model),
        _ => Agent::builder().provider(scripted),
    }
}
