//! Tools made of closures: the arguments are a type of the program, and their schema is derived from it.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use longhaul_core::message::{RawJson, ToolSpec};
use longhaul_core::run::ToolApproval;
use longhaul_core::tool_schema::{self, NormalizedSchema, PropertyNames};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Tool, ToolContext, ToolInput, ToolOutput};

/// The source of function tools in their specs.
const FUNCTION_SOURCE: &str = "function";

type Function = dyn Fn(ToolInput) -> BoxFuture<'static, ToolOutput> + Send + Sync;

/// A tool that is a closure of the program. [`tool_fn`] makes one.
///
/// The program wrote it, so it runs without approval unless [`FunctionTool::with_approval`] says otherwise.
#[derive(Clone)]
pub struct FunctionTool {
    spec: ToolSpec,
    approval: ToolApproval,
    function: Arc<Function>,
}

/// Makes a tool of an async closure. Its arguments are a struct that implements [`Deserialize`](serde::Deserialize)
/// and [`JsonSchema`]; doc comments of the fields reach the model as descriptions.
///
/// The closure returns anything that is [`IntoToolOutput`]: text, JSON, or a `Result` of one of them. The model reads
/// an error and continues. Arguments that do not fit the type are an error for the model, too, and the closure is not
/// called. A call that is cancelled drops the closure's future.
///
/// ```
/// use longhaul::prelude::*;
/// use schemars::JsonSchema;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Addition {
///     /// The numbers to add.
///     numbers: Vec<f64>,
/// }
///
/// let add = tool_fn("add", "Adds numbers", |args: Addition, _context| async move {
///     args.numbers.iter().sum::<f64>().to_string()
/// });
/// assert!(add.spec().parameters.as_str().contains("The numbers to add."));
/// ```
pub fn tool_fn<A, F, R>(name: impl Into<String>, description: impl Into<String>, function: F) -> FunctionTool
where
    A: DeserializeOwned + JsonSchema,
    F: Fn(A, ToolContext) -> R + Send + Sync + 'static,
    R: Future + Send + 'static,
    R::Output: IntoToolOutput,
{
    FunctionTool::new(name.into(), description.into(), schema_of::<A>(), function)
}

/// Makes a tool of an async closure with a JSON Schema that is given by hand. The arguments need not implement
/// [`JsonSchema`] and may be a [`Value`].
///
/// ```
/// use longhaul::prelude::*;
/// use serde_json::{Value, json};
///
/// let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
/// let weather = tool_fn_with_schema("weather", "Tells the weather", schema, |args: Value, _context| async move {
///     format!("It is sunny in {}.", args["city"])
/// });
/// assert_eq!(weather.spec().name, "weather");
/// ```
pub fn tool_fn_with_schema<A, F, R>(
    name: impl Into<String>,
    description: impl Into<String>,
    schema: Value,
    function: F,
) -> FunctionTool
where
    A: DeserializeOwned,
    F: Fn(A, ToolContext) -> R + Send + Sync + 'static,
    R: Future + Send + 'static,
    R::Output: IntoToolOutput,
{
    FunctionTool::new(name.into(), description.into(), schema, function)
}

impl FunctionTool {
    fn new<A, F, R>(name: String, description: String, schema: Value, function: F) -> Self
    where
        A: DeserializeOwned,
        F: Fn(A, ToolContext) -> R + Send + Sync + 'static,
        R: Future + Send + 'static,
        R::Output: IntoToolOutput,
    {
        let tool = name.clone();
        let NormalizedSchema { schema, names } = normalized(&name, &schema.to_string());
        let function = move |call: ToolInput| -> BoxFuture<'static, ToolOutput> {
            let ToolInput { arguments, written, context } = call;
            // Names that a provider refuses were replaced in the schema. The model uses the new names, and the type has
            // the old ones.
            let arguments = if names.is_empty() {
                serde_json::from_value::<A>(arguments)
            } else {
                serde_json::from_str::<A>(&names.restore(written.as_str()))
            };
            match arguments {
                Ok(arguments) => Box::pin(function(arguments, context).map(IntoToolOutput::into_tool_output)),
                Err(error) => {
                    let said = format!("Error: the arguments of `{tool}` do not fit its schema: {error}");
                    Box::pin(std::future::ready(ToolOutput::error(said)))
                }
            }
        };
        let spec = ToolSpec {
            name,
            description,
            parameters: schema,
            read_only: false,
            poll: false,
            source: FUNCTION_SOURCE.to_owned(),
        };
        Self { spec, approval: ToolApproval::Allow, function: Arc::new(function) }
    }

    /// Declares that the tool changes nothing. Such tools run in parallel.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.spec.read_only = true;
        self
    }

    /// Makes the tool run only after approval, by the handler of [`AgentBuilder::on_approval`] or by a person.
    ///
    /// [`AgentBuilder::on_approval`]: crate::agent::AgentBuilder::on_approval
    #[must_use]
    pub fn with_approval(mut self) -> Self {
        self.approval = ToolApproval::Ask;
        self
    }
}

#[async_trait]
impl Tool for FunctionTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    async fn run(&self, call: ToolInput) -> ToolOutput {
        let cancel = call.context.cancel.clone();
        // A closure may panic before it returns a future, or while the future runs.
        let running = AssertUnwindSafe(async { (self.function)(call).await });
        tokio::select! {
            output = running.catch_unwind() => output.unwrap_or_else(|_| {
                tracing::error!(tool = self.spec.name, "a tool panicked; the model is told that it failed");
                ToolOutput::error("Error: the tool failed unexpectedly.")
            }),
            () = cancel.cancelled() => ToolOutput::cancelled(),
        }
    }

    fn approval(&self) -> Option<ToolApproval> {
        Some(self.approval.clone())
    }
}

impl fmt::Debug for FunctionTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTool").field("name", &self.spec.name).finish_non_exhaustive()
    }
}

/// A value that a closure may return as the output of a tool.
pub trait IntoToolOutput {
    /// Converts the value to the output that the model reads.
    fn into_tool_output(self) -> ToolOutput;
}

impl IntoToolOutput for ToolOutput {
    fn into_tool_output(self) -> ToolOutput {
        self
    }
}

impl IntoToolOutput for String {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput::text(self)
    }
}

impl IntoToolOutput for &str {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput::text(self)
    }
}

impl IntoToolOutput for Value {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput::text(self.to_string())
    }
}

impl<T: IntoToolOutput, E: fmt::Display> IntoToolOutput for Result<T, E> {
    fn into_tool_output(self) -> ToolOutput {
        match self {
            Ok(output) => output.into_tool_output(),
            Err(error) => ToolOutput::error(format!("Error: {error}")),
        }
    }
}

/// Returns the schema in a form that every provider accepts. A schema without such a form is returned unchanged, so
/// that the provider reports the error.
fn normalized(tool: &str, schema: &str) -> NormalizedSchema {
    tool_schema::normalize(Some(schema)).unwrap_or_else(|error| {
        tracing::warn!(tool, %error, "the schema of a tool is sent as it is; providers may refuse it");
        NormalizedSchema { schema: RawJson(schema.to_owned()), names: PropertyNames::default() }
    })
}

/// Returns the schema of a type, without references unless the type is recursive.
fn schema_of<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        // Smaller servers resolve no `$ref`.
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    // The type's Rust name tells the model nothing.
    schema.remove("title");
    schema.to_value()
}
