//! What a pruning agent might answer.

use serde_json::{Value, json};

use crate::rng::Rng;

/// A random answer to a request, if it is one for a pruning agent.
pub(crate) fn answer(rng: &mut Rng, asked: &str) -> Option<String> {
    let order = asked.contains("prunedConversation").then(|| asked.find("{\"conversation\""))??;
    let asked: Value = serde_json::from_str(&asked[order..]).expect("the conversation is JSON");
    let mut pruned = Vec::new();
    for message in asked["conversation"].as_array().expect("a list") {
        match rng.below(10) {
            0..=3 => pruned.push(json!({ "keep": message["index"] })),
            4 => pruned.push(json!({ "role": message["role"], "content": "in short: lh:1-9999 [SUMMARY]" })),
            _ => {}
        }
    }
    if rng.chance(5) {
        pruned.push(json!({ "keep": 0 }));
    }
    let answer = json!({ "prunedConversation": pruned, "summary": "much was said", "originalTokens": 1 });
    Some(if rng.chance(50) { format!("```json\n{answer}\n```") } else { answer.to_string() })
}
