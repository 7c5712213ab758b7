//! Calls in a whole answer. A call of `tool_call` without a tool of the client stays unchanged: the gateway answers
//! the call.

use longhaul_core::deferral::CALL;

use super::ToolDeferral;
use super::item::in_list;
use crate::edit::Dialect;
use crate::raw_json::{field, fields, quote, string, with_field};

/// Returns an answer with the client's own calls; `None` if the answer stays unchanged.
pub(super) fn unwrapped(deferral: &ToolDeferral, answer: &str) -> Option<String> {
    match deferral.dialect {
        Dialect::Chat => in_list(answer, "choices", CALL, |choice| {
            let message = field(&fields(choice)?, "message")?.to_owned();
            let message = in_list(&message, "tool_calls", CALL, |call| chat_call(deferral, call))?;
            with_field(choice, "message", &message)
        }),
        Dialect::Responses => in_list(answer, "output", CALL, |item| responses_call(deferral, item)),
        Dialect::Messages => in_list(answer, "content", CALL, |block| messages_call(deferral, block)),
    }
}

fn chat_call(deferral: &ToolDeferral, call: &str) -> Option<String> {
    let function = field(&fields(call)?, "function")?.to_owned();
    let said = fields(&function)?;
    let arguments = field(&said, "arguments").filter(|_| is_call(&said))?;
    // Some servers send the arguments' object itself instead of its text.
    let made = deferral.resolve(&string(arguments).unwrap_or_else(|| arguments.to_owned())).ok()?;
    let named = with_field(&function, "name", &quote(&made.name))?;
    with_field(call, "function", &with_field(&named, "arguments", &quote(&made.arguments))?)
}

/// Returns the client's call in place of a call of `tool_call`. `None` if the item is no such call, or names no
/// tool.
pub(super) fn responses_call(deferral: &ToolDeferral, item: &str) -> Option<String> {
    let said = fields(item)?;
    let is_function = field(&said, "type").and_then(string).as_deref() == Some("function_call");
    let arguments = field(&said, "arguments").filter(|_| is_function && is_call(&said))?;
    let made = deferral.resolve(&string(arguments).unwrap_or_else(|| arguments.to_owned())).ok()?;
    let called = with_field(item, "arguments", &quote(&made.arguments))?;
    match deferral.namespaced(&made.name) {
        Some(own) => {
            with_field(&with_field(&called, "name", &quote(&own.name))?, "namespace", &quote(&own.namespace))
        }
        None => with_field(&called, "name", &quote(&made.name)),
    }
}

fn messages_call(deferral: &ToolDeferral, block: &str) -> Option<String> {
    let said = fields(block)?;
    let input = field(&said, "input").filter(|_| is_call(&said))?;
    let made = deferral.resolve(input).ok()?;
    with_field(&with_field(block, "name", &quote(&made.name))?, "input", &made.arguments)
}

fn is_call(said: &[(std::borrow::Cow<'_, str>, &str)]) -> bool {
    field(said, "name").and_then(string).as_deref() == Some(CALL)
}
