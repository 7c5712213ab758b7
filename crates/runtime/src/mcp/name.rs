//! The names of servers' tools in the model's list.

/// The maximum length of a tool name that every provider accepts: `[a-zA-Z0-9_-]{1,64}`, for some with a letter first.
const LONGEST: usize = 64;

/// The number of hexadecimal digits that distinguish names which would otherwise be equal.
const HASH_CHARS: usize = 6;

/// Returns the name `SERVER__TOOL`. A tool name that is too long or has other characters is rewritten, and a hash of
/// the original is added. Two tools thus never share a name, whatever else the server offers.
pub(super) fn of_tool(server: &str, tool: &str) -> String {
    let plain: String = tool
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' })
        .collect();
    let name = format!("{server}__{plain}");
    // A rewritten name needs the hash even if it is short: `a.b` and `a/b` would both become `a_b`.
    if plain == tool && name.len() <= LONGEST {
        return name;
    }
    let hash = blake3::hash(tool.as_bytes()).to_hex();
    let kept: String = name.chars().take(LONGEST - HASH_CHARS - 1).collect();
    format!("{kept}_{}", &hash.as_str()[..HASH_CHARS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_stay_readable() {
        assert_eq!(of_tool("files", "read_file"), "files__read_file");
        assert_eq!(of_tool("a", "_x"), "a___x");
    }

    proptest::proptest! {
        #[test]
        fn every_tool_has_a_name_of_its_own_that_providers_accept(
            server in "[a-z][a-z0-9-]{0,31}", one in "\\PC{1,90}", two in "\\PC{1,90}"
        ) {
            for tool in [&one, &two] {
                let name = of_tool(&server, tool);
                proptest::prop_assert!(name.len() <= 64 && name.split_once("__").is_some_and(|(s, _)| s == server));
                let known = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
                proptest::prop_assert!(name.chars().all(known), "{}", name);
            }
            proptest::prop_assert_eq!(of_tool(&server, &one) == of_tool(&server, &two), one == two);
        }
    }
}
