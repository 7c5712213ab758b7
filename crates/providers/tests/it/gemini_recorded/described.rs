//! Answers, short enough to be reviewed.

use longhaul_core::message::{ModelAnswer, Part, RawJson};

use super::Recorded;

/// An answer in a form for a person to check against the file.
pub(crate) fn described(recorded: &Recorded, answer: &ModelAnswer) -> String {
    let usage = answer.usage.as_ref().map_or("no usage".to_owned(), |usage| {
        format!(
            "in {} (cached {}) out {} (reasoning {})",
            usage.input_tokens, usage.cache_read_tokens, usage.output_tokens, usage.reasoning_tokens
        )
    });
    let mut lines = vec![recorded.file.clone(), format!("  {:?}, {usage}", answer.finish)];
    lines.extend(answer.parts.iter().map(|part| format!("  {}", described_part(part))));
    let envelope =
        answer.envelope.as_ref().map_or("none".to_owned(), |envelope| shortened(envelope.as_str()));
    lines.push(format!("  envelope {envelope}\n"));
    lines.join("\n")
}

fn described_part(part: &Part) -> String {
    let native = |native: &Option<RawJson>| {
        native.as_ref().map_or(String::new(), |native| format!(", native of {} bytes", native.as_str().len()))
    };
    match part {
        Part::Text(text) => format!("text {}{}", shortened(&text.text), native(&text.native)),
        Part::Reasoning(thought) => {
            format!("reasoning {}{}", shortened(&thought.text), native(&thought.native))
        }
        Part::ToolCall(call) => {
            let (id, given) = (&call.call_id, call.provider_id.as_deref().unwrap_or("no id"));
            format!(
                "call {id} ({given}) {}({}){}",
                call.name,
                shortened(&call.arguments),
                native(&call.native)
            )
        }
        Part::Opaque(opaque) => format!("opaque {} {}", opaque.kind, shortened(opaque.native.as_str())),
        other => format!("{other:?}"),
    }
}

/// The start of a text, and the length of the whole.
fn shortened(text: &str) -> String {
    let chars = text.chars().count();
    if chars <= 100 {
        return format!("{text:?}");
    }
    format!("{:?}… of {chars}", text.chars().take(80).collect::<String>())
}
