//! `longhaul serve` under the front ends of other makers: the AI SDK's chat and AG-UI's client.

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::fake::{Fake, Say};
use crate::node::{check, node};

/// An answer that takes a while.
const SLOW: &str = "It takes a while to say all of this, because there are many words in it, one after the other, \
                    and each of them comes when its time has come, so that one may well leave before the end and \
                    come back to hear the rest of what was to be said.";

fn served(test: &str, script: &str, says: impl IntoIterator<Item = Say>) {
    let Some(node) = node(test) else { return };
    let bench = Bench::new();
    bench.write("notes.md", "hello");
    let fake = Fake::start(says);
    let more = json!({ "token": bench.data().join("token"), "slow": SLOW });
    check(&node, &[script], &bench.with(&fake, &["serve", "--addr", "127.0.0.1:0"]), more);
}

/// Two turns, the first one with a tool and with reasoning.
fn two_turns() -> Vec<Say> {
    vec![
        Say::Call("ls", json!({ "path": "." })),
        Say::Think("One file, then.", "There is one file."),
        Say::Text("The second answer."),
    ]
}

fn writing() -> Value {
    json!({ "path": "a.txt", "content": "written" })
}

#[test]
fn the_ai_sdk_talks_to_it() {
    let mut says = two_turns();
    says.extend([
        Say::Call("write", writing()),
        Say::Text("It is written."),
        Say::Call("write", writing()),
        Say::Text("Then not."),
        Say::Slow(SLOW),
        Say::Slow(SLOW),
        Say::Refuse(400, "broken on purpose: the temperature is too high"),
        Say::Text("Better."),
        Say::Text("By hand."),
    ]);
    served("the_ai_sdk_talks_to_it", "ai-sdk.mjs", says);
}

#[test]
fn ag_ui_talks_to_it() {
    let mut says = two_turns();
    says.extend([
        Say::Call("write", writing()),
        Say::Text("It is written."),
        Say::Slow(SLOW),
        Say::Refuse(400, "broken on purpose: the temperature is too high"),
        Say::Text("By hand."),
    ]);
    served("ag_ui_talks_to_it", "ag-ui.mjs", says);
}
