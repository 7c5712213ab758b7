//! What the tools of many agents have in common.

use serde_json::{Map, Value};

/// A name without case, separators and the server it comes from: `mcp__fs__read_file` is `readfile`.
pub(super) fn plain(name: &str) -> String {
    let last = name.rsplit("__").next().unwrap_or(name);
    let last = last.rsplit(['.', ':', '/']).next().unwrap_or(last);
    last.chars().filter(char::is_ascii_alphanumeric).map(|char| char.to_ascii_lowercase()).collect()
}

/// The command line of a call to a shell: by the tool's name, or because its arguments hold a command and no file.
pub(super) fn command_line(tool: &str, arguments: &Map<String, Value>) -> Option<String> {
    let value = ["command", "cmd", "commands", "script"].iter().find_map(|key| arguments.get(*key))?;
    let tool = plain(tool);
    let is_shell =
        ["bash", "shell", "exec", "terminal", "run", "command", "cmd"].iter().any(|name| tool.contains(name));
    let is_editor = super::files::named(arguments).is_some() || !is_shell;
    match value {
        Value::String(line) if !is_editor || is_line(line) => Some(line.clone()),
        Value::Array(words) if !is_editor => line_of(words),
        _ => None,
    }
}

/// More than the one word that an editor's command is.
fn is_line(text: &str) -> bool {
    text.trim().contains(char::is_whitespace)
}

/// `["bash", "-lc", "make"]` is `make`.
fn line_of(words: &[Value]) -> Option<String> {
    let words: Vec<&str> = words.iter().map(Value::as_str).collect::<Option<_>>()?;
    match words.as_slice() {
        [shell, option, line] if shell.ends_with("sh") && option.starts_with('-') => Some((*line).to_owned()),
        [] => None,
        words => Some(words.join(" ")),
    }
}
