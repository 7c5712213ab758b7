//! Names and arguments that the tools of many agents share.

use serde_json::{Map, Value};

/// Returns a name without case, separators and the prefix of its server: `mcp__fs__read_file` gives `readfile`.
pub(super) fn plain(name: &str) -> String {
    // Clients of MCP put the name of the server in front, each with a separator of its own.
    let last = name.rsplit("__").next().unwrap_or(name);
    let last = last.rsplit(['.', ':', '/']).next().unwrap_or(last);
    last.chars().filter(char::is_ascii_alphanumeric).map(|char| char.to_ascii_lowercase()).collect()
}

/// Returns the command line that a call gives to a shell; `None` if the tool is no shell.
///
/// A shell is told by the tool's name. A tool of another name, or with a file among the arguments, is a shell
/// if the command has several words.
pub(super) fn command_line(tool: &str, arguments: &Map<String, Value>) -> Option<String> {
    let value = ["command", "cmd", "commands", "script"].iter().find_map(|key| arguments.get(*key))?;
    let tool = plain(tool);
    let is_shell =
        ["bash", "shell", "exec", "terminal", "run", "command", "cmd"].iter().any(|name| tool.contains(name));
    // Editors such as `str_replace_editor` have an argument `command` too, with one word and a file beside it.
    let is_editor = super::files::named(arguments).is_some() || !is_shell;
    match value {
        Value::String(line) if !is_editor || is_line(line) => Some(line.clone()),
        Value::Array(words) if !is_editor => line_of(words),
        _ => None,
    }
}

/// Returns whether a text has several words, unlike the command of an editor.
fn is_line(text: &str) -> bool {
    text.trim().contains(char::is_whitespace)
}

/// Returns the command line of a list of words: `["bash", "-lc", "make"]` gives `make`.
fn line_of(words: &[Value]) -> Option<String> {
    let words: Vec<&str> = words.iter().map(Value::as_str).collect::<Option<_>>()?;
    match words.as_slice() {
        [shell, option, line] if shell.ends_with("sh") && option.starts_with('-') => Some((*line).to_owned()),
        [] => None,
        words => Some(words.join(" ")),
    }
}
