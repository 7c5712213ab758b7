//! Which files a tool call touches, and how: judged by the tool's name and by what its arguments look like.

use serde_json::{Map, Value};

use super::shell::{self, ShellCommand, ShellWord};
use super::{line, tools};

/// A longer text is no path. In bytes.
const MOST_PATH_BYTES: usize = 300;

/// How a patch of whole-file operations begins.
const PATCH: &str = "*** Begin Patch";

/// The most files of one call.
const MOST_TOUCHES: usize = 64;

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileAction {
    /// Its content was looked at.
    Read,
    /// A part of it was changed, or it was written anew.
    Modified,
    /// It was not there before, as far as is known.
    Created,
    /// It is gone.
    Deleted,
}

impl FileAction {
    /// As a person says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Modified => "modified",
            Self::Created => "created",
            Self::Deleted => "deleted",
        }
    }

    /// What is known of a file after one more touch.
    pub(super) fn then(self, next: Self) -> Self {
        match (self, next) {
            (Self::Deleted, Self::Read) | (_, Self::Deleted) => Self::Deleted,
            (Self::Deleted, _) => Self::Created,
            // Who had seen it before cannot have created it now.
            (Self::Read | Self::Modified, Self::Created) => Self::Modified,
            (before, next) => before.max(next),
        }
    }
}

/// One file and what a call does to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileAccess {
    pub(super) verb: FileAction,
    pub(super) path: String,
}

/// What a call does to files, if it succeeds.
pub(super) fn touches(tool: &str, arguments: &Map<String, Value>) -> Vec<FileAccess> {
    let mut found = Vec::new();
    if let Some(command) = tools::command_line(tool, arguments) {
        of_shell(&command, &mut found);
        let patch = command.find(PATCH).and_then(|at| command.get(at..));
        patch.into_iter().for_each(|patch| of_patch(patch, &mut found));
        found.truncate(MOST_TOUCHES);
        return found;
    }
    // A file that is written may hold a patch without being one.
    let is_about_file = named(arguments).is_some();
    match arguments.values().filter_map(Value::as_str).find(|text| !is_about_file && is_patch(text)) {
        Some(patch) => of_patch(patch, &mut found),
        None => of_arguments(tool, arguments, &mut found),
    }
    found.truncate(MOST_TOUCHES);
    found
}

/// Adds a file, if what is named looks like one.
fn add(found: &mut Vec<FileAccess>, verb: FileAction, path: &str) {
    let path = path.strip_prefix("file://").unwrap_or(path);
    let path = path.strip_prefix("./").filter(|rest| !rest.is_empty()).unwrap_or(path);
    if looks_like_path(path) {
        found.push(FileAccess { verb, path: path.to_owned() });
    }
}

/// What cannot be shown letter for letter on one line, or reads like a handle, is no path.
fn looks_like_path(path: &str) -> bool {
    let is_odd = |char: char| "<>|\"*?`".contains(char);
    let in_words = path.split(' ').count();
    let fits = (1..=MOST_PATH_BYTES).contains(&path.len()) && in_words <= 8;
    let is_whole = fits && line::single_line(path, MOST_PATH_BYTES) == path;
    let has_name = path.chars().any(char::is_alphanumeric);
    let is_shaped = in_words == 1 || path.contains(['/', '\\']);
    is_whole
        && has_name
        && is_shaped
        && !path.contains(is_odd)
        && !path.contains("://")
        && !path.starts_with('-')
}

fn is_patch(text: &str) -> bool {
    text.contains(PATCH) || (text.contains("\n+++ ") && text.contains("--- "))
}

/// The `*** Update File:` form, or a unified diff.
fn of_patch(patch: &str, found: &mut Vec<FileAccess>) {
    let mut old = "";
    for line in patch.lines() {
        let of = |mark: &str| line.strip_prefix(mark).map(str::trim);
        if let Some(path) = of("*** Add File: ") {
            add(found, FileAction::Created, path);
        } else if let Some(path) = of("*** Update File: ") {
            old = path;
            add(found, FileAction::Modified, path);
        } else if let Some(path) = of("*** Delete File: ") {
            add(found, FileAction::Deleted, path);
        } else if let Some(path) = of("*** Move to: ") {
            add(found, FileAction::Deleted, old);
            add(found, FileAction::Created, path);
        } else if let Some(path) = of("--- ") {
            old = path;
        } else if let Some(path) = of("+++ ") {
            of_diff(old, path, found);
        }
    }
}

fn of_diff(old: &str, new: &str, found: &mut Vec<FileAccess>) {
    let bare = |path: &str| {
        let path = path.split('\t').next().unwrap_or_default();
        path.strip_prefix("a/").or(path.strip_prefix("b/")).unwrap_or(path).to_owned()
    };
    match (bare(old).as_str(), bare(new).as_str()) {
        ("/dev/null", new) => add(found, FileAction::Created, new),
        (old, "/dev/null") => add(found, FileAction::Deleted, old),
        (_, new) => add(found, FileAction::Modified, new),
    }
}

/// What arguments of tools that work on files are called, in [`tools::plain`] form.
const PATH_KEYS: &[&str] = &[
    "path",
    "filepath",
    "file",
    "filename",
    "targetfile",
    "absolutepath",
    "relativepath",
    "relativeworkspacepath",
    "notebookpath",
];
const PATHS_KEYS: &[&str] = &["paths", "files", "filepaths", "filenames", "edits"];
const OLD_KEYS: &[&str] = &["source", "oldpath", "from", "src", "sourcepath"];
const NEW_KEYS: &[&str] = &["destination", "newpath", "to", "dst", "destinationpath", "target"];

fn text_of<'a>(arguments: &'a Map<String, Value>, keys: &[&str]) -> Option<&'a str> {
    let found =
        arguments.iter().find(|(key, value)| value.is_string() && keys.contains(&tools::plain(key).as_str()));
    found.and_then(|(_, value)| value.as_str())
}

/// The file that a call names in an argument of its own.
pub(super) fn named(arguments: &Map<String, Value>) -> Option<&str> {
    text_of(arguments, PATH_KEYS)
}

fn of_arguments(tool: &str, arguments: &Map<String, Value>, found: &mut Vec<FileAccess>) {
    let tool = tools::plain(tool);
    if has_any(&tool, &["move", "rename"]) || text_of(arguments, &["command"]) == Some("rename") {
        let paths = (text_of(arguments, OLD_KEYS), text_of(arguments, NEW_KEYS));
        if let (Some(old), Some(new)) = paths {
            add(found, FileAction::Deleted, old);
            add(found, FileAction::Created, new);
        }
        return;
    }
    let Some(verb) = verb(&tool, arguments) else { return };
    if let Some(path) = named(arguments) {
        add(found, verb, path);
    }
    let lists = arguments.iter().filter(|(key, _)| PATHS_KEYS.contains(&tools::plain(key).as_str()));
    for item in lists.filter_map(|(_, value)| value.as_array()).flatten().take(MOST_TOUCHES) {
        let path = item.as_str().or_else(|| item.as_object().and_then(named));
        path.into_iter().for_each(|path| add(found, verb, path));
    }
}

/// `None` for tools that work on folders, or on nothing we know.
fn verb(tool: &str, arguments: &Map<String, Value>) -> Option<FileAction> {
    // An editor of many commands says which one in an argument.
    match text_of(arguments, &["command", "action", "operation", "mode"]) {
        Some("view" | "read" | "open") => return Some(FileAction::Read),
        Some("create" | "write") => return Some(FileAction::Created),
        Some("delete" | "remove") => return Some(FileAction::Deleted),
        Some("str_replace" | "insert" | "undo_edit" | "edit" | "replace" | "append" | "update") => {
            return Some(FileAction::Modified);
        }
        _ => {}
    }
    let has = |keys: &[&str]| arguments.keys().any(|key| keys.contains(&tools::plain(key).as_str()));
    if has_any(tool, &["grep", "glob", "search", "find", "list", "tree", "mkdir", "directory"])
        || matches!(tool, "ls" | "dir")
    {
        return None;
    }
    if has_any(tool, &["delete", "remove", "unlink"]) {
        return Some(FileAction::Deleted);
    }
    if has_any(tool, &["edit", "replace", "update", "append", "patch", "modify", "insert", "apply"])
        || has(&["oldstring", "oldtext", "oldstr", "replacements"])
    {
        return Some(FileAction::Modified);
    }
    if has_any(tool, &["write", "create", "save", "newfile"])
        || has(&["content", "contents", "filetext", "codecontent"])
    {
        return Some(FileAction::Created);
    }
    has_any(tool, &["read", "view", "open", "cat", "file", "show", "load", "goto", "scroll"])
        .then_some(FileAction::Read)
}

fn has_any(tool: &str, words: &[&str]) -> bool {
    words.iter().any(|word| tool.contains(word))
}

/// What a command line does to files, each relative path seen from where `cd` had led.
fn of_shell(line: &str, found: &mut Vec<FileAccess>) {
    let mut folder = String::new();
    for command in shell::commands(line) {
        let Some((program, arguments)) = command.program() else {
            of_writes(&command, &folder, found);
            continue;
        };
        if program == "cd" {
            folder = arguments
                .first()
                .filter(|to| to.literal)
                .map_or(String::new(), |to| below(&folder, &to.text));
            continue;
        }
        of_program(program, arguments, &folder, found);
        of_writes(&command, &folder, found);
    }
}

fn of_writes(command: &ShellCommand, folder: &str, found: &mut Vec<FileAccess>) {
    for write in command.writes.iter().filter(|write| !write.file.text.starts_with("/dev/")) {
        let verb = if write.append { FileAction::Modified } else { FileAction::Created };
        add_word(found, verb, folder, &write.file);
    }
}

fn of_program(program: &str, arguments: &[ShellWord], folder: &str, found: &mut Vec<FileAccess>) {
    let has = |options: &[&str]| {
        arguments.iter().any(|word| options.iter().any(|option| word.text.starts_with(option)))
    };
    let plain: Vec<&ShellWord> =
        arguments.iter().filter(|word| !word.text.is_empty() && !word.text.starts_with(['-', '+'])).collect();
    let mut all =
        |verb, words: &[&ShellWord]| words.iter().for_each(|word| add_word(found, verb, folder, word));
    match (program, plain.as_slice()) {
        ("cat" | "head" | "tail" | "less" | "more" | "nl" | "bat", files) => all(FileAction::Read, files),
        ("rm" | "unlink" | "rmdir", files) => all(FileAction::Deleted, files),
        ("touch", files) => all(FileAction::Created, files),
        ("tee", files) => all(if has(&["-a"]) { FileAction::Modified } else { FileAction::Created }, files),
        ("sed", [first, rest @ ..]) => {
            let verb = if has(&["-i", "--in-place"]) { FileAction::Modified } else { FileAction::Read };
            if has(&["-e", "-f"]) && looks_like_path(&first.text) && !first.text.starts_with("s/") {
                all(verb, &[first]);
            }
            all(verb, rest);
        }
        ("perl" | "ruby", [_, files @ ..]) if has(&["-i", "-pi"]) => all(FileAction::Modified, files),
        ("mv", [from @ .., to]) => of_move(from, to, folder, true, found),
        ("cp", [from @ .., to]) => of_move(from, to, folder, false, found),
        ("git", [sub, rest @ ..]) => match (sub.text.as_str(), rest) {
            ("rm", files) => all(FileAction::Deleted, files),
            ("mv", [from @ .., to]) => of_move(from, to, folder, true, found),
            _ => {}
        },
        _ => {}
    }
}

/// Several files, or one into a folder that is written as such, keep their names.
fn of_move(from: &[&ShellWord], to: &ShellWord, folder: &str, gone: bool, found: &mut Vec<FileAccess>) {
    for old in from {
        add_word(found, if gone { FileAction::Deleted } else { FileAction::Read }, folder, old);
        let into = from.len() > 1 || to.text.ends_with('/') || to.text == ".";
        let name = old.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let text = if into { below(&to.text, name) } else { to.text.clone() };
        add_word(found, FileAction::Created, folder, &ShellWord { text, literal: old.literal && to.literal });
    }
}

fn add_word(found: &mut Vec<FileAccess>, verb: FileAction, folder: &str, word: &ShellWord) {
    let is_number = word.text.bytes().all(|byte| byte.is_ascii_digit());
    if word.literal && !is_number {
        add(found, verb, &below(folder, &word.text));
    }
}

/// The path seen from `folder`, with `.` and `..` resolved as far as the text goes.
fn below(folder: &str, path: &str) -> String {
    if folder.is_empty() || path.starts_with(['/', '~']) {
        return path.to_owned();
    }
    let mut steps: Vec<&str> = folder.trim_end_matches('/').split('/').collect();
    for step in path.split('/') {
        match step {
            "." | "" => {}
            ".." if steps.last().is_some_and(|last| !matches!(*last, "" | ".." | "." | "~")) => {
                steps.pop();
            }
            _ => steps.push(step),
        }
    }
    steps.join("/")
}
