//! Functions without a schema of their parameters. Clients leave the schema out for a function without arguments, and
//! many servers refuse such a tool, Anthropic's API among them.

use super::{Dialect, RequestEnvelope};
use crate::raw_json::{elements, field, fields, place, string, with_field};

/// The schema of a function without arguments, as in translated requests.
const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;

/// The empty schema for a function in strict mode, which demands the two other keywords.
const NO_STRICT_PARAMETERS: &str =
    r#"{"type":"object","properties":{},"required":[],"additionalProperties":false}"#;

/// Returns the request with a schema for every function without one; `None` if there is no such function. All other
/// bytes stay the client's.
pub fn add_missing_parameters(dialect: Dialect, envelope: &RequestEnvelope) -> Option<String> {
    let at = envelope.tools_at.as_ref()?;
    let tools = completed_list(dialect, envelope.text(at))?;
    let request = envelope.text(&(0..envelope.bytes.len()));
    Some([&request[..at.start], &tools, &request[at.end..]].concat())
}

/// Returns a list of tools with the missing schemas; `None` if none is missing.
fn completed_list(dialect: Dialect, list: &str) -> Option<String> {
    let (mut out, mut written) = (String::new(), 0);
    for tool in elements(list)? {
        let Some(completed) = completed_tool(dialect, tool) else { continue };
        let at = place(list, tool);
        out.push_str(&list[written..at.start]);
        out.push_str(&completed);
        written = at.end;
    }
    if out.is_empty() {
        return None;
    }
    out.push_str(&list[written..]);
    Some(out)
}

fn completed_tool(dialect: Dialect, tool: &str) -> Option<String> {
    let said = fields(tool)?;
    let kind = field(&said, "type").filter(|kind| *kind != "null").and_then(string);
    match (dialect, kind.as_deref()) {
        (Dialect::Chat, Some("function")) => {
            let function = completed(field(&said, "function")?, "parameters")?;
            with_field(tool, "function", &function)
        }
        (Dialect::Responses, Some("function")) => completed(tool, "parameters"),
        (Dialect::Responses, Some("namespace")) => {
            let members = completed_list(dialect, field(&said, "tools")?)?;
            with_field(tool, "tools", &members)
        }
        // The tools that Anthropic runs have a versioned type and no schema.
        (Dialect::Messages, None | Some("custom")) => completed(tool, "input_schema"),
        _ => None,
    }
}

/// Returns a function with a schema under `key`; `None` if it has one.
fn completed(function: &str, key: &str) -> Option<String> {
    let said = fields(function)?;
    // PHP writes an empty object as a list.
    let is_missing = match field(&said, key) {
        None => true,
        Some(schema) => {
            matches!(schema, "null" | "{}") || elements(schema).is_some_and(|items| items.is_empty())
        }
    };
    let is_strict = field(&said, "strict") == Some("true");
    let schema = if is_strict { NO_STRICT_PARAMETERS } else { NO_PARAMETERS };
    if is_missing { with_field(function, key, schema) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_without_a_schema_are_changed() {
        let whole = |dialect, list: &str| completed_list(dialect, list);
        let none = NO_PARAMETERS;
        assert_eq!(
            whole(
                Dialect::Chat,
                r#"[ {"type":"function","function":{"name":"a" }} ,{"type":"function","function":{"name":"b","parameters":{"type":"object"}}}]"#
            )
            .unwrap(),
            format!(
                r#"[ {{"type":"function","function":{{"name":"a","parameters":{none}}}}} ,{{"type":"function","function":{{"name":"b","parameters":{{"type":"object"}}}}}}]"#
            )
        );
        for empty in ["null", "[]", "{}"] {
            let tool = format!(r#"[{{"name":"a","input_schema":{empty}}}]"#);
            assert_eq!(
                whole(Dialect::Messages, &tool).unwrap(),
                format!(r#"[{{"name":"a","input_schema":{none}}}]"#)
            );
        }
        let strict = whole(Dialect::Responses, r#"[{"type":"function","name":"a","strict":true}]"#).unwrap();
        assert!(strict.contains(r#""required":[]"#), "{strict}");
        let group = r#"[{"type":"namespace","name":"n","tools":[{"type":"function","name":"a"}]}]"#;
        assert!(whole(Dialect::Responses, group).unwrap().contains(none));
        for (dialect, whole_list) in [
            (Dialect::Messages, r#"[{"type":"web_search_20250305","name":"web_search"}]"#),
            (Dialect::Responses, r#"[{"type":"web_search"},{"type":"custom","name":"patch"}]"#),
            (Dialect::Chat, r#"[{"type":"custom","custom":{"name":"x"}}]"#),
            (Dialect::Chat, "[]"),
            (Dialect::Chat, "7"),
        ] {
            assert_eq!(whole(dialect, whole_list), None, "{whole_list}");
        }
    }
}
