//! Outcomes of calls: commands with their exit codes, and errors that no later success has resolved.

use serde_json::{Map, Value};

use super::bounded_fact_map::BoundedFactMap;
use super::{files, line, shell, tools};
use crate::message::{Part, ToolResult, ToolStatus};
use crate::retention_report::facts::ERROR_WORDS;

/// The most commands kept.
const MAX_COMMANDS: usize = 256;

/// The most errors kept.
const MAX_ERRORS: usize = 128;

/// The length after which a shown command is cut, in characters.
const MAX_COMMAND_CHARS: usize = 200;

/// The length after which a line of an error is cut, in characters.
const MAX_ERROR_CHARS: usize = 300;

/// The most lines kept of one error.
const MAX_ERROR_LINES: usize = 3;

/// The part of a result that is searched for error lines, in bytes: half at the start, half at the end.
const MAX_READ_BYTES: usize = 64 << 10;

/// The length of the start and of the end of a result in which an exit code is looked for, in bytes each.
const CODE_BYTES: usize = 160;

/// The longest key of a call that is stored unchanged, in bytes. Longer keys are hashed.
const MAX_KEY_BYTES: usize = 400;

/// The properties of a call for the judgement of its outcome.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TrackedCall {
    /// The identity of the call: a success resolves an earlier error with the same key.
    key: String,
    /// The command, or the tool with the file or arguments.
    title: String,
    is_command: bool,
    /// `true` if the command only reads. Such a command is not listed.
    looks: bool,
    /// `true` if the exit code may hide a failure, because the command has a pipe or a semicolon.
    masked: bool,
}

/// The ending of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallExitStatus {
    Succeeded,
    Exited(i64),
    Failed,
    Cancelled,
    Interrupted,
}

/// A command and the newest ending.
#[derive(Clone, Debug, PartialEq)]
struct CommandRecord {
    title: String,
    ending: CallExitStatus,
}

/// A failed call and the lines that describe the error.
#[derive(Clone, Debug, PartialEq)]
struct CallErrorRecord {
    title: String,
    lines: Vec<String>,
}

/// The commands and the unresolved errors, with the number of resolved errors.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OutcomeTracker {
    commands: BoundedFactMap<CommandRecord>,
    errors: BoundedFactMap<CallErrorRecord>,
    resolved: u64,
}

impl Default for OutcomeTracker {
    fn default() -> Self {
        Self {
            commands: BoundedFactMap::new(MAX_COMMANDS),
            errors: BoundedFactMap::new(MAX_ERRORS),
            resolved: 0,
        }
    }
}

impl TrackedCall {
    pub(super) fn new(tool: &str, arguments: &Map<String, Value>, raw: &str) -> Self {
        if let Some(command) = tools::command_line(tool, arguments) {
            return Self {
                key: short_key(&["$ ", &without_shortening(&command)].concat()),
                looks: only_looks(&command),
                masked: command.contains(['|', ';']),
                title: line::quoted(&command, MAX_COMMAND_CHARS),
                is_command: true,
            };
        }
        let tool = line::single_line(tool, 64);
        let (key, title) = match files::named(arguments) {
            Some(path) => (format!("{tool} {path}"), format!("{tool} {}", line::name(path, 300))),
            None if arguments.is_empty() => (tool.clone(), line::name(&tool, 64)),
            None => (format!("{tool} {raw}"), format!("{tool} {}", line::quoted(raw, MAX_COMMAND_CHARS))),
        };
        Self { key: short_key(&key), title, is_command: false, looks: false, masked: false }
    }
}

impl OutcomeTracker {
    /// Records an outcome. Returns whether the call took effect, as far as is known.
    pub(super) fn read(&mut self, asked: &TrackedCall, result: &ToolResult) -> bool {
        let ending = ending(asked, result);
        if asked.is_command && !asked.looks {
            self.commands.put(&asked.key, CommandRecord { title: asked.title.clone(), ending });
        }
        match ending {
            CallExitStatus::Succeeded | CallExitStatus::Exited(0) => {
                let has_failed = self.errors.get(&asked.key).is_some();
                // `make | tail` exits with 0 even if `make` fails: error lines in its output keep the error open.
                if has_failed && (!asked.masked || error_lines(result).is_empty()) {
                    self.errors.take(&asked.key);
                    self.resolved += 1;
                }
                true
            }
            CallExitStatus::Cancelled => false,
            // An interrupted call may have done its work.
            CallExitStatus::Interrupted => true,
            CallExitStatus::Failed | CallExitStatus::Exited(_) => {
                let lines = told_lines(result);
                self.errors.put(&asked.key, CallErrorRecord { title: asked.title.clone(), lines });
                // A failed command line may have done a part of its work; other tools do all of it or nothing.
                asked.is_command
            }
        }
    }

    /// Returns the commands with their endings as items of a list, the newest first.
    pub(super) fn commands(&self) -> impl Iterator<Item = String> {
        self.commands.iter().rev().map(|(_, command)| {
            let ending = match command.ending {
                CallExitStatus::Succeeded => "succeeded".to_owned(),
                CallExitStatus::Exited(code) => format!("exit code {code}"),
                CallExitStatus::Failed => "failed".to_owned(),
                CallExitStatus::Cancelled => "cancelled".to_owned(),
                CallExitStatus::Interrupted => "interrupted, effect unknown".to_owned(),
            };
            format!("{}: {ending}", command.title)
        })
    }

    /// Returns the unresolved errors as items of a list, the newest first.
    pub(super) fn errors(&self) -> impl Iterator<Item = String> {
        self.errors.iter().rev().map(|(_, failure)| {
            if failure.lines.is_empty() {
                format!("{}: failed without a word", failure.title)
            } else {
                format!("{}: {}", failure.title, failure.lines.join(" / "))
            }
        })
    }

    /// Returns the number of errors that a later success of the same call resolved.
    pub(super) fn resolved(&self) -> u64 {
        self.resolved
    }

    /// Returns the numbers of commands and of errors that were removed because there were too many.
    pub(super) fn evicted(&self) -> (u64, u64) {
        (self.commands.evicted(), self.errors.evicted())
    }
}

fn short_key(key: &str) -> String {
    if key.len() <= MAX_KEY_BYTES {
        key.to_owned()
    } else {
        blake3::hash(key.as_bytes()).to_hex().to_string()
    }
}

/// Returns a command without the pipes that only shorten its output. Such commands have the same outcome.
fn without_shortening(command: &str) -> String {
    let mut command = command.trim();
    while let Some((before, last)) = command.rsplit_once('|') {
        let mut words = last.split_whitespace();
        // Such a pipe only shortens the output: the command before it is the one whose outcome counts.
        let shortens = matches!(words.next(), Some("tail" | "head" | "cat"));
        if !shortens
            || !words.all(|word| word.starts_with('-') || word.bytes().all(|byte| byte.is_ascii_digit()))
        {
            break;
        }
        command = before.trim_end_matches('|').trim_end();
    }
    command.strip_suffix("2>&1").unwrap_or(command).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Programs that change nothing. The list of commands omits these programs, whose commands say nothing without
/// the output.
const LOOKING: &[&str] = &[
    "[", "awk", "basename", "bat", "cat", "cd", "cut", "diff", "dirname", "du", "echo", "egrep", "fd",
    "file", "find", "grep", "head", "jq", "less", "ls", "mkdir", "nl", "printf", "pwd", "rg", "sleep",
    "sort", "stat", "tail", "tr", "tree", "true", "type", "uniq", "wc", "which", "xargs",
];
/// Subcommands of `git` that change nothing.
const GIT_LOOKING: &[&str] = &["blame", "diff", "grep", "log", "ls-files", "rev-parse", "show", "status"];

/// Returns whether every command of a line only reads.
fn only_looks(line: &str) -> bool {
    let commands = shell::commands(line);
    commands.iter().all(|command| {
        let writes = command.outputs.iter().any(|output| !output.file.text().starts_with("/dev/"));
        let Some((program, arguments)) = shell::program(command) else { return !writes };
        let looks = match program {
            "git" => arguments.first().is_some_and(|sub| GIT_LOOKING.contains(&sub.text())),
            "sed" => !shell::has_option(&command.words, &["-i", "--in-place"]),
            "find" => !shell::has_option(&command.words, &["-delete", "-exec"]),
            "xargs" => arguments.iter().any(|word| LOOKING.contains(&word.text())),
            _ => LOOKING.contains(&program),
        };
        looks && !writes
    })
}

/// Returns the ending of a call. The ending follows from the status of the result, the exit code that a command
/// names, or the word "error" at the beginning of the output.
fn ending(asked: &TrackedCall, result: &ToolResult) -> CallExitStatus {
    let code = asked.is_command.then(|| exit_code(result)).flatten();
    match (result.status, code) {
        (ToolStatus::Cancelled, _) => CallExitStatus::Cancelled,
        (ToolStatus::Interrupted, _) => CallExitStatus::Interrupted,
        (ToolStatus::Completed, Some(0)) => CallExitStatus::Exited(0),
        // `grep` and `diff` exit with 1 if they find nothing, or a difference: that is no failure.
        (_, Some(1)) if asked.looks => CallExitStatus::Exited(0),
        (_, Some(code)) if code != 0 => CallExitStatus::Exited(code),
        (ToolStatus::Error, _) => CallExitStatus::Failed,
        // Some tools report an error as a normal result. The output of a command, however, may begin with any word.
        (ToolStatus::Completed, _) if !asked.is_command && begins_with_error(result) => {
            CallExitStatus::Failed
        }
        (ToolStatus::Completed, _) => CallExitStatus::Succeeded,
    }
}

/// Returns whether an output begins with the word "error".
fn begins_with_error(result: &ToolResult) -> bool {
    let first = texts(result).next().map(|text| line::head(text.trim_start(), 16).to_ascii_lowercase());
    let rest = first.as_deref().and_then(|text| text.strip_prefix("error").map(str::to_owned));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', ' ', '\n']))
}

fn texts(result: &ToolResult) -> impl DoubleEndedIterator<Item = &str> {
    result.content.iter().filter_map(Part::as_text)
}

/// Returns the exit code at the end or at the start of a shell's result.
fn exit_code(result: &ToolResult) -> Option<i64> {
    // Agents differ: some put the code in a last line, others in a header or in JSON around the output. The middle is
    // not searched, because the program's own output may mention exit codes.
    let last = texts(result).next_back().map(|text| line::tail(text.trim_end(), CODE_BYTES));
    let first = texts(result).next().map(|text| line::head(text, CODE_BYTES));
    last.and_then(code_in).or_else(|| first.and_then(code_in))
}

fn code_in(text: &str) -> Option<i64> {
    const MARKS: &[&str] =
        &["exit code", "exit_code", "exitcode", "exited with code", "exit status", "returncode"];
    let lower = text.to_ascii_lowercase();
    let after = MARKS.iter().filter_map(|mark| lower.rfind(mark).map(|at| at + mark.len())).max()?;
    let rest = lower.get(after..)?.trim_start_matches([' ', ':', '=', '"', '\'', '>', '`', '(']);
    let end = rest.find(|char: char| !char.is_ascii_digit() && char != '-').unwrap_or(rest.len());
    rest.get(..end)?.parse().ok()
}

/// Returns the first few lines of a result that describe an error.
fn error_lines(result: &ToolResult) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for text in texts(result).flat_map(ends) {
        for line in text.lines().filter(|line| tells_error(line)) {
            let line = line::quoted(&line::without_colours(line), MAX_ERROR_CHARS);
            if found.len() == MAX_ERROR_LINES {
                return found;
            }
            if !found.contains(&line) {
                found.push(line);
            }
        }
    }
    found
}

/// Returns whether a line describes an error.
fn tells_error(line: &str) -> bool {
    let lower = line::head(line, 2_000).to_ascii_lowercase();
    // Test runners and compilers report success with these words too: `0 failed`, `no errors`.
    const SUCCESS: &[&str] = &["0 failed", "0 errors", "no errors", "exited with code"];
    ERROR_WORDS.iter().any(|word| lower.contains(word)) && !SUCCESS.iter().any(|words| lower.contains(words))
}

/// Returns the lines that describe a failure: the error lines of a result, or else its first line.
fn told_lines(result: &ToolResult) -> Vec<String> {
    let lines = error_lines(result);
    if !lines.is_empty() {
        return lines;
    }
    let first = texts(result).flat_map(|text| line::head(text, MAX_READ_BYTES).lines()).find(|line| {
        // A package manager echoes the script that it runs (`> name`), which does not describe the failure.
        line.chars().any(char::is_alphanumeric) && code_in(line).is_none() && !line.starts_with("> ")
    });
    first.map(|line| line::quoted(&line::without_colours(line), MAX_ERROR_CHARS)).into_iter().collect()
}

/// Returns the start and the end of a long text, or a whole short one.
fn ends(text: &str) -> impl Iterator<Item = &str> {
    let half = MAX_READ_BYTES / 2;
    let (first, last) = if text.len() <= MAX_READ_BYTES {
        (text, "")
    } else {
        (line::head(text, half), line::tail(text, half))
    };
    [first, last].into_iter()
}
