//! The commented file with every key and its default.

use super::keys::{self, ConfigKey};

const HEAD: &str = "# longhaul.yml: one agent. Every key with its default; unknown keys are errors.\n";

pub(super) fn render() -> String {
    let mut out = HEAD.to_owned();
    section(&mut out, "", 0);
    out
}

fn section(out: &mut String, path: &str, depth: usize) {
    let indent = "  ".repeat(depth);
    for name in keys::children(path) {
        let inner = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        match keys::at(&inner) {
            Some(key) => leaf(out, key, name, &indent),
            None => {
                out.push_str(&format!("{}{indent}{name}:\n", if depth == 0 { "\n" } else { "" }));
                section(out, &inner, depth + 1);
            }
        }
    }
}

fn leaf(out: &mut String, key: &ConfigKey, name: &str, indent: &str) {
    let blank = if indent.is_empty() { "\n" } else { "" };
    let later = if matches!(key.kind, keys::ConfigKeyKind::Later) { " (Not available yet.)" } else { "" };
    out.push_str(&format!("{blank}{indent}# {}{later}\n", key.doc));
    match key.default {
        Some(default) => out.push_str(&format!("{indent}{name}: {default}\n")),
        None => out.push_str(&format!("{indent}# {name}:\n")),
    }
}
