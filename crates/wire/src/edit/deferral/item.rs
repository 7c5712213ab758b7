//! Calls in the items of a request. A call of a tool that the upstream's list lacks is sent as `tool_call`: some
//! servers refuse calls of unlisted tools.

use longhaul_core::deferral::{CALL, wrapped_arguments};

use super::ToolDeferral;
use super::list::without_field;
use crate::edit::Dialect;
use crate::raw_json::{elements, field, fields, quote, string, with_field};
use crate::responses::edit as responses;

/// Returns an item with its calls in terms of the upstream's list; `None` if the item stays unchanged.
pub(super) fn wrapped(deferral: &ToolDeferral, item: &str) -> Option<String> {
    match deferral.dialect {
        Dialect::Chat => in_list(item, "tool_calls", "tool_calls", |call| chat_call(deferral, call)),
        // Most items are no calls, and a search in the text is cheaper than a parse.
        Dialect::Responses if item.contains("function_call") => responses_call(deferral, item),
        Dialect::Responses => None,
        Dialect::Messages => in_list(item, "content", "tool_use", |block| messages_call(deferral, block)),
    }
}

/// Returns an object with changed elements in one of its lists; `None` if no element changes.
pub(super) fn in_list(
    object: &str,
    list: &str,
    hint: &str,
    change: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    if !object.contains(hint) {
        return None;
    }
    let old = elements(field(&fields(object)?, list)?)?;
    let mut is_changed = false;
    let changed = old.into_iter().map(|element| match change(element) {
        Some(changed) => {
            is_changed = true;
            changed
        }
        None => element.to_owned(),
    });
    let all = changed.collect::<Vec<_>>().join(",");
    // Unchanged lists keep the client's bytes, spaces included.
    if is_changed { with_field(object, list, &format!("[{all}]")) } else { None }
}

fn chat_call(deferral: &ToolDeferral, call: &str) -> Option<String> {
    let function = field(&fields(call)?, "function")?.to_owned();
    let said = fields(&function)?;
    let name = field(&said, "name").and_then(string).filter(|name| !deferral.is_listed(name))?;
    let arguments = field(&said, "arguments").map(|raw| string(raw).unwrap_or_else(|| raw.to_owned()));
    let arguments = wrapped_arguments(&name, &arguments.unwrap_or_default());
    let named = with_field(&function, "name", &quote(CALL))?;
    with_field(call, "function", &with_field(&named, "arguments", &quote(&arguments))?)
}

fn responses_call(deferral: &ToolDeferral, item: &str) -> Option<String> {
    let said = fields(item)?;
    if field(&said, "type").and_then(string).as_deref() != Some("function_call") {
        return None;
    }
    let own = field(&said, "name").and_then(string)?;
    let namespace = field(&said, "namespace").and_then(string);
    let name = namespace.as_deref().map_or(own.clone(), |namespace| responses::flat_name(namespace, &own));
    if deferral.is_listed(&name) {
        return None;
    }
    let arguments = field(&said, "arguments").map(|raw| string(raw).unwrap_or_else(|| raw.to_owned()));
    let arguments = wrapped_arguments(&name, &arguments.unwrap_or_default());
    let named = with_field(item, "name", &quote(CALL))?;
    let called = with_field(&named, "arguments", &quote(&arguments))?;
    // `tool_call` itself is in no namespace.
    if namespace.is_some() { without_field(&called, "namespace") } else { Some(called) }
}

fn messages_call(deferral: &ToolDeferral, block: &str) -> Option<String> {
    let said = fields(block)?;
    if field(&said, "type").and_then(string).as_deref() != Some("tool_use") {
        return None;
    }
    let name = field(&said, "name").and_then(string).filter(|name| !deferral.is_listed(name))?;
    let arguments = wrapped_arguments(&name, field(&said, "input").unwrap_or_default());
    with_field(&with_field(block, "name", &quote(CALL))?, "input", &arguments)
}
