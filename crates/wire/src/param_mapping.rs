//! The parameters of a request, mapped from the caller's wire to the upstream's.
//!
//! A parameter that both wires can express is translated. One that would change the answer and cannot be expressed is
//! refused by name; any other is left out and named to the caller.
//!
//! The table is in `docs/guide/gateway.md`.

mod read;
mod server_tools;
#[cfg(test)]
mod tests;
mod write;

use crate::ProviderKind;
use crate::ToolChoice;
use serde_json::{Map, Value};

use crate::edit::{Dialect, ParseError};

pub use server_tools::server_tools;

/// The upstream of a request, as far as its parameters depend on it.
#[derive(Clone, Copy, Debug)]
pub struct MappingTarget<'a> {
    /// The kind of provider.
    pub kind: ProviderKind,
    /// The model, as the upstream calls it.
    pub model: &'a str,
    /// Whether the server is one that people run themselves: those take more than OpenAI's own fields.
    pub is_local: bool,
    /// Whether the request lists tools.
    pub has_tools: bool,
    /// Whether the model may, must or must not call one.
    pub tool_choice: &'a ToolChoice,
}

/// The parameters of a request in the words of its upstream, and the names of those that did not go over unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MappedParams {
    /// The fields of the upstream's request.
    pub fields: Map<String, Value>,
    /// The names of the caller's fields that are left out.
    pub ignored: Vec<String>,
    /// The fields that the upstream takes only with another value: `temperature=1`.
    pub changed: Vec<String>,
}

/// Maps the parameters of a request to the words of its upstream.
///
/// # Errors
/// [`ParseError`] with the field that has no meaning there, or another form than its dialect says.
pub fn map_params(
    dialect: Dialect,
    request: &str,
    to: &MappingTarget<'_>,
) -> Result<MappedParams, ParseError> {
    write::write(read::read(dialect, request)?, to)
}

/// A parameter of the caller, with its name in the request.
#[derive(Clone, Debug, PartialEq)]
struct RequestParam {
    param: String,
    want: RequestParamValue,
}

#[derive(Clone, Debug, PartialEq)]
enum RequestParamValue {
    Temperature(f64),
    TopP(f64),
    TopK(Value),
    Stop(Vec<String>),
    Seed(Value),
    FrequencyPenalty(Value),
    PresencePenalty(Value),
    /// Any JSON object.
    JsonObject,
    JsonSchema(ResponseSchema),
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
struct ResponseSchema {
    name: Option<String>,
    schema: Value,
    strict: Option<Value>,
}
