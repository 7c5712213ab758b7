//! Tools made of closures: one with a derived schema, and one that runs only after approval.

#![expect(clippy::print_stdout, reason = "an example prints")]

mod support;

use longhaul::prelude::*;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Sum {
    /// The numbers to add.
    numbers: Vec<f64>,
}

#[derive(Deserialize, JsonSchema)]
struct Mail {
    /// The address of the recipient.
    to: String,
    text: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scripted = ScriptedProvider::new(ModelScript::turns([
        ScriptedAnswer::calling("add", r#"{"numbers":[1,2,39]}"#),
        ScriptedAnswer::calling("send_mail", r#"{"to":"ada@example.com","text":"42"}"#),
        ScriptedAnswer::calling("send_mail", r#"{"to":"everybody@example.com","text":"42"}"#),
        ScriptedAnswer::text("Ada knows that it is 42."),
    ]));
    let add = tool_fn("add", "Adds numbers", |args: Sum, _context| async move {
        args.numbers.iter().sum::<f64>().to_string()
    });
    let send_mail = tool_fn("send_mail", "Sends a mail", |mail: Mail, _context| async move {
        format!("{} bytes were sent to {}", mail.text.len(), mail.to)
    });
    let agent = support::agent(scripted)
        .tool(add.read_only())
        .tool(send_mail.with_approval())
        .on_approval(|request: ApprovalRequest| async move {
            match request.arguments["to"] == "ada@example.com" {
                true => ApprovalDecision::Allow,
                false => ApprovalDecision::deny("mail goes to Ada only"),
            }
        })
        .build()
        .await?;
    let mut turn = agent.session().await?.turn("Add 1, 2 and 39, and mail the sum to Ada.").await?;
    while let Some(event) = turn.next().await {
        match event? {
            SessionEvent::ToolCall { tool_name, arguments, .. } => println!("{tool_name} {arguments}"),
            SessionEvent::ToolResult { content, .. } => {
                println!("  {}", content.iter().filter_map(Part::as_text).collect::<String>());
            }
            _ => {}
        }
    }
    println!("{}", turn.finish().await?.text);
    Ok(())
}
