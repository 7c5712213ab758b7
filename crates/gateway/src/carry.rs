//! The fields of a request beside its conversation, from the caller's dialect to an upstream of another: what both can
//! express is carried over, what would change the answer and cannot be said there is refused by name, and what else
//! cannot be said is named to the caller. Nothing goes in silence.
//!
//! The table is in `docs/guide/gateway.md`.

mod read;
mod server_tools;
#[cfg(test)]
mod tests;
mod write;

use longhaul_providers::ToolChoice;
use longhaul_providers::connect::Kind;
use serde_json::{Map, Value};

use crate::wire::{Bad, Dialect};

pub(crate) use server_tools::server_tools;

/// Where a request goes, as far as its fields depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct To<'a> {
    pub(crate) kind: Kind,
    /// The model, as the upstream calls it.
    pub(crate) model: &'a str,
    /// Whether the server is one that people run themselves: those take more than OpenAI's own fields.
    pub(crate) is_local: bool,
    pub(crate) has_tools: bool,
    pub(crate) tool_choice: &'a ToolChoice,
}

/// What becomes of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Carried {
    /// In the upstream's words.
    pub(crate) fields: Map<String, Value>,
    /// What is left out, by the caller's names.
    pub(crate) ignored: Vec<String>,
    /// What the upstream takes only with another value: `temperature=1`.
    pub(crate) changed: Vec<String>,
}

/// The fields of a request in the words of its upstream.
///
/// # Errors
/// [`Bad`] with the field that has no meaning there, or another form than its dialect says.
pub(crate) fn carry(dialect: Dialect, request: &str, to: &To<'_>) -> Result<Carried, Bad> {
    write::write(read::read(dialect, request)?, to)
}

/// Something that the caller wants, and how it is called in the request.
#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    param: String,
    want: Want,
}

#[derive(Clone, Debug, PartialEq)]
enum Want {
    Temperature(f64),
    TopP(f64),
    TopK(Value),
    Stop(Vec<String>),
    Seed(Value),
    FrequencyPenalty(Value),
    PresencePenalty(Value),
    /// Any JSON object.
    JsonObject,
    JsonSchema(Schema),
    /// At most one call in an answer; with `false` as many as the model likes.
    OneCall(bool),
    /// Whom the caller asks for.
    User(String),
    /// How hard to think: a word.
    Effort(String),
    /// Tokens to think with; 0: not to think.
    Budget(u64),
    Verbosity(String),
    /// Nobody but the caller's own maker knows it, and the answer means the same without.
    Ignored,
    /// The answer would not be what was asked for.
    Refused(&'static str),
}

/// The form of an answer.
#[derive(Clone, Debug, PartialEq)]
struct Schema {
    name: Option<String>,
    schema: Value,
    strict: Option<Value>,
}
