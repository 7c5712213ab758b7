//! The names that MCP servers can have.

/// The maximum length of a server's name, which leaves half of the tool name to the tool.
const LONGEST_SERVER: usize = 32;

/// Reports whether a server can have a name: a letter, then letters, digits, `-` and single `_` in between, at most 32
/// characters, and not `builtin`. The first `__` in a tool's name therefore always ends the server's name.
pub fn is_server_name(name: &str) -> bool {
    name.len() <= LONGEST_SERVER
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        && !name.contains("__")
        && !name.ends_with('_')
        && name != "builtin"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        for name in ["files", "git-2", "my_server", "A", &"x".repeat(32)] {
            assert!(is_server_name(name), "{name}");
        }
        for name in ["", "2git", "-a", "_a", "a_", "a__b", "a b", "a.b", "ä", "builtin", &"x".repeat(33)] {
            assert!(!is_server_name(name), "{name}");
        }
    }
}
