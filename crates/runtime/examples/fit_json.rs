//! The planner as one function, for the JSON of requests: messages in the formats of OpenAI and of Anthropic, and a type
//! of the program's own.

#![expect(clippy::print_stdout, reason = "an example prints")]

use longhaul::core::{FittableContent, FittableMessage, Window, fit, fit_anthropic, fit_openai};
use longhaul::prelude::*;
use serde_json::json;

#[derive(Clone)]
struct ChatLine {
    author: &'static str,
    text: String,
}

impl FittableMessage for ChatLine {
    fn to_content(&self) -> FittableContent {
        FittableContent::Messages(vec![Message::user("", vec![Part::text(&self.text)])])
    }

    fn from_messages(shown: &[Message], original: Option<&Self>) -> Self {
        Self {
            author: original.map_or("longhaul", |line| line.author),
            text: shown.iter().map(Message::text).collect(),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let window = Window::tokens(16_000);
    let output = "a line of a log that nobody reads again\n".repeat(100);

    let mut messages = vec![json!({"role": "system", "content": "Be brief."})];
    for at in 0..60 {
        let call =
            json!({"id": "call_0", "type": "function", "function": {"name": "read", "arguments": "{}"}});
        messages.push(json!({"role": "user", "content": format!("What is in log {at}?"), "name": "ada"}));
        messages.push(json!({"role": "assistant", "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": "call_0", "content": output}));
        messages.push(json!({"role": "assistant", "content": "Nothing of interest."}));
    }
    let fitted = fit_openai(&messages, &window)?;
    let (sent, cleared) = (fitted.messages.len(), fitted.shortened.len());
    println!(
        "OpenAI: {} messages became {sent} of {} tokens; {cleared} outputs are cleared",
        messages.len(),
        fitted.tokens
    );

    let mut messages = vec![json!({"role": "user", "content": "Read the logs."})];
    for at in 0..60 {
        let id = format!("toolu_{at}");
        messages.push(json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": id, "name": "read", "input": {"log": at}},
        ]}));
        messages.push(json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": output},
        ]}));
    }
    let fitted = fit_anthropic(&messages, &window)?;
    let (sent, cleared) = (fitted.messages.len(), fitted.shortened.len());
    println!(
        "Anthropic: {} messages became {sent} of {} tokens; {cleared} outputs are cleared",
        messages.len(),
        fitted.tokens
    );

    let text = |at: usize| format!("Message {at}: {}", "so it is. ".repeat(100));
    let lines: Vec<_> = (0..100).map(|at| ChatLine { author: "ada", text: text(at) }).collect();
    let fitted = fit(&lines, &window)?;
    let authors: Vec<_> = fitted.messages.iter().map(|line| line.author).take(2).collect();
    println!("own type: {} of 100 are left out; the first are by {authors:?}", fitted.left_out.len());
    Ok(())
}
