//! The limited permissions that a person can give with "always": the first words of a command, a command, or a path.
//!
//! A permission covers a later call only if the call cannot do more than the permission shows. The page has the same
//! rules: `docs/approval-scope.json` has the cases of both.

use serde_json::{Map, Value};

use crate::term::exact::exact;

/// Arguments of `bash` that a permission may ignore: neither changes what runs.
const OTHER_ARGUMENTS: [&str; 2] = ["timeoutMs", "description"];

/// Programs whose second word names the work. For other programs the second word is an operand, and a permission for
/// `rm build` would cover `rm build /`.
const WITH_SUBCOMMANDS: &[&str] = &[
    "cargo",
    "git",
    "npm",
    "pnpm",
    "yarn",
    "bun",
    "deno",
    "go",
    "make",
    "just",
    "pip",
    "pip3",
    "uv",
    "poetry",
    "rustup",
    "dotnet",
    "gradle",
    "./gradlew",
    "mvn",
    "./mvnw",
    "bundle",
    "composer",
    "gh",
    "docker",
    "podman",
    "kubectl",
    "terraform",
    "mix",
    "rake",
    "swift",
    "zig",
];

/// Second words that say nothing without the third, such as `npm run`.
const NESTED_SUBCOMMANDS: &[&str] = &[
    "run",
    "exec",
    "x",
    "dlx",
    "tool",
    "shell",
    "run-script",
    "compose",
    "remote",
    "stash",
    "submodule",
    "worktree",
];

/// Programs that read or check, whatever their operands are.
const SIMPLE: &[&str] = &[
    "ls", "cat", "head", "tail", "wc", "grep", "stat", "du", "pwd", "pytest", "ruff", "mypy", "eslint", "tsc",
];

/// Signs with a meaning for the shell: what follows one of them may be another command.
const SHELL_SIGNS: [char; 15] =
    [';', '&', '|', '<', '>', '`', '$', '(', ')', '{', '}', '\\', '\n', '\r', '\0'];

/// The calls of one tool that need no further question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApprovalScope {
    tool: String,
    limit: ScopeLimit,
}

/// The limit of a permission.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ScopeLimit {
    /// Every call of the tool.
    None,
    /// Commands that begin with these words.
    CommandPrefix(Vec<String>),
    /// This command.
    Command(String),
    /// Changes of this file.
    Path(String),
}

impl ApprovalScope {
    /// Returns the permission for every call of a tool.
    pub(super) fn whole_tool(tool: &str) -> Self {
        Self { tool: tool.to_owned(), limit: ScopeLimit::None }
    }

    /// Returns the limited permission that a call suggests; `None` if only the whole tool can be allowed.
    pub(super) fn limited(tool: &str, arguments: &str) -> Option<Self> {
        let arguments = parse(arguments)?;
        let limit = match tool {
            "bash" => {
                let command = command_of(&arguments)?;
                match command_prefix(command) {
                    Some(words) => ScopeLimit::CommandPrefix(words),
                    None => ScopeLimit::Command(command.to_owned()),
                }
            }
            "edit" | "write" => ScopeLimit::Path(text(&arguments, "path")?.to_owned()),
            _ => return None,
        };
        Some(Self { tool: tool.to_owned(), limit })
    }

    /// Reports whether the permission covers a call.
    pub(super) fn covers(&self, tool: &str, arguments: &str) -> bool {
        if self.tool != tool {
            return false;
        }
        let parsed = parse(arguments);
        match &self.limit {
            ScopeLimit::None => true,
            ScopeLimit::CommandPrefix(prefix) => {
                parsed.as_ref().and_then(command_of).is_some_and(|command| {
                    is_plain(command)
                        && words(command).take(prefix.len()).eq(prefix.iter().map(String::as_str))
                })
            }
            ScopeLimit::Command(allowed) => parsed.as_ref().and_then(command_of) == Some(allowed),
            ScopeLimit::Path(allowed) => {
                parsed.as_ref().and_then(|arguments| text(arguments, "path")) == Some(allowed)
            }
        }
    }

    /// Returns what the permission covers, in words for a person.
    pub(super) fn in_words(&self) -> String {
        match &self.limit {
            ScopeLimit::None => exact(&self.tool),
            // Each word was checked to be plain.
            ScopeLimit::CommandPrefix(words) => format!("{} …", words.join(" ")),
            ScopeLimit::Command(_) => "exactly this command".to_owned(),
            ScopeLimit::Path(path) => exact(path),
        }
    }
}

fn parse(arguments: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(arguments).ok()
}

fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Returns the command of a call of `bash`; `None` if other arguments change what it does.
fn command_of(arguments: &Map<String, Value>) -> Option<&str> {
    let is_known = |name: &String| name == "command" || OTHER_ARGUMENTS.contains(&name.as_str());
    text(arguments, "command").filter(|_| arguments.keys().all(is_known))
}

/// Returns the first words of a command that say what it does; `None` if no prefix of the command does.
fn command_prefix(command: &str) -> Option<Vec<String>> {
    if !is_plain(command) {
        return None;
    }
    let mut words = words(command);
    let program = words.next()?;
    let prefix = if SIMPLE.contains(&program) {
        vec![program]
    } else if WITH_SUBCOMMANDS.contains(&program) {
        let work = words.next().filter(|word| is_name(word))?;
        match NESTED_SUBCOMMANDS.contains(&work) {
            true => vec![program, work, words.next().filter(|word| is_name(word))?],
            false => vec![program, work],
        }
    } else {
        return None;
    };
    Some(prefix.into_iter().map(str::to_owned).collect())
}

/// Reports whether a command is one command that hides nothing and whose paths do not lead upwards.
fn is_plain(command: &str) -> bool {
    let goes_up = |word: &str| word.split(['/', '=', ':', ',', '\'', '"']).any(|part| part == "..");
    !command.contains(SHELL_SIGNS) && exact(command) == command && !words(command).any(goes_up)
}

fn words(command: &str) -> impl Iterator<Item = &str> {
    // Only these two divide words of a shell's line; other blanks are a part of a word.
    command.split([' ', '\t']).filter(|word| !word.is_empty())
}

/// Reports whether a word can be a name: no option, no assignment, nothing quoted.
fn is_name(word: &str) -> bool {
    let is_inner =
        |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '_' | '.' | '/' | ':' | '@' | '-');
    word.starts_with(|sign: char| sign.is_ascii_alphanumeric() || sign == '_') && word.chars().all(is_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> Value {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/approval-scope.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    /// Returns the scope of the description.
    fn described(tool: &str, scope: &Value) -> ApprovalScope {
        let text = |name: &str| scope[name].as_str().map(str::to_owned);
        let limit = match scope["words"].as_array() {
            Some(words) => ScopeLimit::CommandPrefix(
                words.iter().map(|word| word.as_str().unwrap().to_owned()).collect(),
            ),
            None => text("command")
                .map(ScopeLimit::Command)
                .or_else(|| text("path").map(ScopeLimit::Path))
                .unwrap_or(ScopeLimit::None),
        };
        ApprovalScope { tool: tool.to_owned(), limit }
    }

    #[test]
    fn a_call_suggests_the_permission_of_the_description() {
        for case in description()["scopes"].as_array().unwrap() {
            let tool = case["tool"].as_str().unwrap();
            let expected = (!case["scope"].is_null()).then(|| described(tool, &case["scope"]));
            let suggested = ApprovalScope::limited(tool, &case["args"].to_string());
            assert_eq!(suggested, expected, "{case}");
            assert_eq!(suggested.map(|scope| scope.in_words()).as_deref(), case["label"].as_str(), "{case}");
        }
    }

    #[test]
    fn a_permission_covers_what_the_description_says() {
        for case in description()["allows"].as_array().unwrap() {
            let scope = described(case["scopeTool"].as_str().unwrap(), &case["scope"]);
            let covers = scope.covers(case["tool"].as_str().unwrap(), &case["args"].to_string());
            assert_eq!(covers, case["allowed"].as_bool().unwrap(), "{case}");
        }
    }

    #[test]
    fn the_lists_are_those_of_the_description() {
        let description = description();
        for (name, list) in [
            ("otherArguments", &OTHER_ARGUMENTS[..]),
            ("withSubcommands", WITH_SUBCOMMANDS),
            ("nestedSubcommands", NESTED_SUBCOMMANDS),
            ("simple", SIMPLE),
        ] {
            assert_eq!(description[name], serde_json::json!(list), "{name}");
        }
        assert!(!ApprovalScope::whole_tool("edit").covers("bash", "{}"));
        assert!(ApprovalScope::whole_tool("edit").covers("edit", "no JSON"));
    }
}
