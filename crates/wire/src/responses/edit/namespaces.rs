//! Tools in a `namespace` (Codex has a namespace for each MCP server).
//!
//! Other dialects have single names only. Towards the upstream a tool's name contains the namespace; the client gets
//! the tool's own name and namespace again.

use std::collections::BTreeMap;

use crate::edit::RequestEnvelope;
use crate::raw_json::{elements, field, fields, string, text_field};

/// The longest name for every provider, in characters.
const MAX_NAME_CHARS: usize = 64;

/// The number of hexadecimal digits of a hash, in names that were cut.
const HASH_CHARS: usize = 8;

/// A tool within a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamespacedTool {
    /// The namespace.
    pub namespace: String,
    /// The name within the namespace.
    pub name: String,
}

/// Returns the name that a tool in a namespace has for the model.
pub(crate) fn flat_name(namespace: &str, name: &str) -> String {
    // Codex's own namespaces end with the separator already.
    let gap = if namespace.ends_with('_') { "" } else { "__" };
    let flat = format!("{namespace}{gap}{name}");
    if flat.chars().count() <= MAX_NAME_CHARS {
        return flat;
    }
    // Two long names may differ only behind the cut, so a hash of the whole name tells them apart.
    let hash = blake3::hash(flat.as_bytes()).to_hex();
    let kept: String = flat.chars().take(MAX_NAME_CHARS - HASH_CHARS - 1).collect();
    format!("{kept}_{}", &hash.as_str()[..HASH_CHARS])
}

/// Returns the namespace of a tool and the tools in it; `None` if it is no namespace.
pub(crate) fn members(tool: &str) -> Option<(String, Vec<&str>)> {
    let fields = fields(tool)?;
    (text_field(&fields, "type")? == "namespace").then_some(())?;
    Some((
        text_field(&fields, "name").unwrap_or_default(),
        field(&fields, "tools").and_then(elements).unwrap_or_default(),
    ))
}

/// Returns the tools in namespaces by the names that they have for the model.
pub fn namespaced_tools(envelope: &RequestEnvelope) -> BTreeMap<String, NamespacedTool> {
    let tools = envelope.tools_at.as_ref().and_then(|at| elements(envelope.text(at))).unwrap_or_default();
    let mut all = BTreeMap::new();
    for (namespace, inner) in tools.into_iter().filter_map(members) {
        let names = inner.into_iter().filter_map(|tool| field(&fields(tool)?, "name").and_then(string));
        all.extend(names.map(|name| {
            (flat_name(&namespace, &name), NamespacedTool { namespace: namespace.clone(), name })
        }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::flat_name;

    #[test]
    fn names_are_flat_short_and_different() {
        assert_eq!(flat_name("mcp__files__", "read"), "mcp__files__read");
        assert_eq!(flat_name("agents", "spawn"), "agents__spawn");
        let [one, other] =
            ["a", "b"].map(|end| flat_name("mcp__files__", &format!("{}{end}", "x".repeat(70))));
        assert!(one.len() == 64 && other.len() == 64 && one != other, "{one} {other}");
    }
}
