//! The parameters of a request, mapped from the caller's wire to the upstream's.
//!
//! A parameter of both wires is translated. A parameter that changes the answer and that the upstream's wire cannot
//! express is refused by name. Any other parameter is left out, and the caller is told the name.
//!
//! The table is in `docs/guide/gateway-reference.md`.

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
    /// The upstream's name of the model.
    pub model: &'a str,
    /// `true` for a self-hosted server: such servers take more than OpenAI's own fields.
    pub is_local: bool,
    /// `true` if the request lists tools.
    pub has_tools: bool,
    /// The request's choice of tools: whether the model may, must or must not call one.
    pub tool_choice: &'a ToolChoice,
}

/// The parameters of a request in the fields of its upstream, and the names of those that were not mapped
/// unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MappedParams {
    /// The fields of the upstream's request.
    pub fields: Map<String, Value>,
    /// The names of the caller's fields that are left out.
    pub ignored: Vec<String>,
    /// The fields that the upstream takes only with another value: `temperature=1`.
    pub changed: Vec<String>,
}

/// Maps the parameters of a request to the fields of its upstream.
///
/// # Errors
/// [`ParseError`] with the field without a meaning there, or of another form than the dialect allows.
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
    /// At most one call per answer; with `false` as many as the model likes.
    OneCall(bool),
    /// The user on whose behalf the caller asks.
    User(String),
    /// The reasoning effort, as a word.
    Effort(String),
    /// The reasoning budget in tokens; 0: no reasoning.
    Budget(u64),
    Verbosity(String),
    /// A field of the caller's own provider alone, without an influence on the answer's meaning.
    Ignored,
    /// A field with a decisive influence on the answer.
    Refused(&'static str),
}

/// The required form of an answer.
#[derive(Clone, Debug, PartialEq)]
struct ResponseSchema {
    name: Option<String>,
    schema: Value,
    strict: Option<Value>,
}
