//! The files of a tool call, by the tool's name and the form of the arguments.

use serde_json::{Map, Value};

use super::shell::has_option;
use super::{line, shell, tools};
use crate::shell::{ShellCommand, ShellWord};

/// The longest text that counts as a path, in bytes.
const MAX_PATH_BYTES: usize = 300;

/// The first line of a patch in the format of `apply_patch`, which OpenAI's models write.
const PATCH: &str = "*** Begin Patch";

/// The most file accesses recorded for one call.
const MAX_TOUCHES: usize = 64;

/// The action that a file went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileAction {
    /// The content was read.
    Read,
    /// The file existed before and was changed or overwritten.
    Modified,
    /// The file was written and is not known to have existed before.
    Created,
    /// The file was deleted or moved away.
    Deleted,
}

impl FileAction {
    /// Returns the action as an English participle: `read`, `modified`, `created` or `deleted`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Modified => "modified",
            Self::Created => "created",
            Self::Deleted => "deleted",
        }
    }

    /// Returns the action that sums up this one and a later one.
    pub(super) fn then(self, next: Self) -> Self {
        match (self, next) {
            (Self::Deleted, Self::Read) | (_, Self::Deleted) => Self::Deleted,
            (Self::Deleted, _) => Self::Created,
            // A file that was read or modified existed already, so this write has replaced it.
            (Self::Read | Self::Modified, Self::Created) => Self::Modified,
            (before, next) => before.max(next),
        }
    }
}

/// One file and the action of a call on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileAccess {
    pub(super) verb: FileAction,
    pub(super) path: String,
}

/// Returns the files of a successful call.
pub(super) fn touches(tool: &str, arguments: &Map<String, Value>) -> Vec<FileAccess> {
    let mut found = Vec::new();
    if let Some(command) = tools::command_line(tool, arguments) {
        of_shell(&command, &mut found);
        // Some agents apply patches through the shell: `apply_patch <<EOF`.
        let patch = command.find(PATCH).and_then(|at| command.get(at..));
        patch.into_iter().for_each(|patch| of_patch(patch, &mut found));
        found.truncate(MAX_TOUCHES);
        return found;
    }
    // With a path among the arguments, a patch in another argument is the content of that file.
    let is_about_file = named(arguments).is_some();
    match arguments.values().filter_map(Value::as_str).find(|text| !is_about_file && is_patch(text)) {
        Some(patch) => of_patch(patch, &mut found),
        None => of_arguments(tool, arguments, &mut found),
    }
    found.truncate(MAX_TOUCHES);
    found
}

/// Adds a file if `path` looks like one.
fn add(found: &mut Vec<FileAccess>, verb: FileAction, path: &str) {
    let path = path.strip_prefix("file://").unwrap_or(path);
    let path = path.strip_prefix("./").filter(|rest| !rest.is_empty()).unwrap_or(path);
    if looks_like_path(path) {
        found.push(FileAccess { verb, path: path.to_owned() });
    }
}

/// Returns whether a text looks like a path that one line can show unchanged.
fn looks_like_path(path: &str) -> bool {
    let in_words = path.split(' ').count();
    let fits = (1..=MAX_PATH_BYTES).contains(&path.len()) && in_words <= 8;
    let is_whole = fits && line::single_line(path, MAX_PATH_BYTES) == path;
    let has_name = path.chars().any(char::is_alphanumeric);
    // Blanks are rare in paths and common in prose: a text with blanks needs a separator of folders to count.
    let is_shaped = in_words == 1 || path.contains(['/', '\\']);
    is_whole
        && has_name
        && is_shaped
        && !path.contains(['<', '>', '|', '"', '*', '?', '`'])
        && !path.contains("://")
        && !path.starts_with('-')
}

fn is_patch(text: &str) -> bool {
    text.contains(PATCH) || (text.contains("\n+++ ") && text.contains("--- "))
}

/// Adds the files of a patch: the `apply_patch` format, or a unified diff.
fn of_patch(patch: &str, found: &mut Vec<FileAccess>) {
    let mut old = "";
    for line in patch.lines() {
        if let Some(path) = path_after("*** Add File: ", line) {
            add(found, FileAction::Created, path);
        } else if let Some(path) = path_after("*** Update File: ", line) {
            old = path;
            add(found, FileAction::Modified, path);
        } else if let Some(path) = path_after("*** Delete File: ", line) {
            add(found, FileAction::Deleted, path);
        } else if let Some(path) = path_after("*** Move to: ", line) {
            add(found, FileAction::Deleted, old);
            add(found, FileAction::Created, path);
        } else if let Some(path) = path_after("--- ", line) {
            old = path;
        } else if let Some(path) = path_after("+++ ", line) {
            of_diff(old, path, found);
        }
    }
}

fn path_after<'l>(mark: &str, line: &'l str) -> Option<&'l str> {
    line.strip_prefix(mark).map(str::trim)
}

/// Adds the file of one part of a unified diff, by its lines `---` and `+++`.
fn of_diff(old: &str, new: &str, found: &mut Vec<FileAccess>) {
    match (diff_path(old), diff_path(new)) {
        ("/dev/null", new) => add(found, FileAction::Created, new),
        (old, "/dev/null") => add(found, FileAction::Deleted, old),
        (_, new) => add(found, FileAction::Modified, new),
    }
}

fn diff_path(path: &str) -> &str {
    // A tab separates the path from a time stamp, and `git diff` puts `a/` and `b/` in front of paths.
    let path = path.split('\t').next().unwrap_or_default();
    path.strip_prefix("a/").or(path.strip_prefix("b/")).unwrap_or(path)
}

/// The names of arguments that hold a path, in [`tools::plain`] form.
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
/// The names of arguments that hold a list of paths.
const PATHS_KEYS: &[&str] = &["paths", "files", "filepaths", "filenames", "edits"];
/// The names of arguments that hold the old path of a move.
const OLD_KEYS: &[&str] = &["source", "oldpath", "from", "src", "sourcepath"];
/// The names of arguments that hold the new path of a move.
const NEW_KEYS: &[&str] = &["destination", "newpath", "to", "dst", "destinationpath", "target"];

fn text_of<'a>(arguments: &'a Map<String, Value>, keys: &[&str]) -> Option<&'a str> {
    let found =
        arguments.iter().find(|(key, value)| value.is_string() && keys.contains(&tools::plain(key).as_str()));
    found.and_then(|(_, value)| value.as_str())
}

/// Returns the path that a call has as an argument.
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
    for item in lists.filter_map(|(_, value)| value.as_array()).flatten().take(MAX_TOUCHES) {
        let path = item.as_str().or_else(|| item.as_object().and_then(named));
        path.into_iter().for_each(|path| add(found, verb, path));
    }
}

/// Returns the action of a tool on the files in its arguments. `None` for tools that work on folders, and for unknown
/// tools.
fn verb(tool: &str, arguments: &Map<String, Value>) -> Option<FileAction> {
    // Editors with several commands, such as `str_replace_editor`, name the command in an argument.
    match text_of(arguments, &["command", "action", "operation", "mode"]) {
        Some("view" | "read" | "open") => return Some(FileAction::Read),
        Some("create" | "write") => return Some(FileAction::Created),
        Some("delete" | "remove") => return Some(FileAction::Deleted),
        Some("str_replace" | "insert" | "undo_edit" | "edit" | "replace" | "append" | "update") => {
            return Some(FileAction::Modified);
        }
        _ => {}
    }
    // The order matters: searching tools such as `find_file` have words of the later lists in their names.
    if has_any(tool, &["grep", "glob", "search", "find", "list", "tree", "mkdir", "directory"])
        || matches!(tool, "ls" | "dir")
    {
        return None;
    }
    if has_any(tool, &["delete", "remove", "unlink"]) {
        return Some(FileAction::Deleted);
    }
    if has_any(tool, &["edit", "replace", "update", "append", "patch", "modify", "insert", "apply"])
        || has_key(arguments, &["oldstring", "oldtext", "oldstr", "replacements"])
    {
        return Some(FileAction::Modified);
    }
    if has_any(tool, &["write", "create", "save", "newfile"])
        || has_key(arguments, &["content", "contents", "filetext", "codecontent"])
    {
        return Some(FileAction::Created);
    }
    has_any(tool, &["read", "view", "open", "cat", "file", "show", "load", "goto", "scroll"])
        .then_some(FileAction::Read)
}

fn has_key(arguments: &Map<String, Value>, keys: &[&str]) -> bool {
    arguments.keys().any(|key| keys.contains(&tools::plain(key).as_str()))
}

fn has_any(tool: &str, words: &[&str]) -> bool {
    words.iter().any(|word| tool.contains(word))
}

/// Adds the files that a command line works on. Relative paths are resolved against the folder of the last `cd`.
fn of_shell(line: &str, found: &mut Vec<FileAccess>) {
    let mut folder = String::new();
    for command in shell::commands(line) {
        let Some((program, arguments)) = shell::program(&command) else {
            // A redirection without a program, such as `> file`, empties a file.
            of_writes(&command, &folder, found);
            continue;
        };
        if program == "cd" {
            // The target of `cd $DIR` is unknown, so later paths stay as they are written.
            folder = arguments
                .first()
                .filter(|to| to.is_known())
                .map_or(String::new(), |to| below(&folder, to.text()));
            continue;
        }
        of_program(program, arguments, &folder, found);
        of_writes(&command, &folder, found);
    }
}

/// Adds the files of a command's redirections.
fn of_writes(command: &ShellCommand, folder: &str, found: &mut Vec<FileAccess>) {
    for output in command.outputs.iter().filter(|output| !output.file.text().starts_with("/dev/")) {
        let verb = if output.appends { FileAction::Modified } else { FileAction::Created };
        add_word(found, verb, folder, &output.file);
    }
}

/// Adds the files that a known program works on.
fn of_program(program: &str, arguments: &[ShellWord], folder: &str, found: &mut Vec<FileAccess>) {
    let plain: Vec<&ShellWord> = arguments
        .iter()
        .filter(|word| !word.text().is_empty() && !word.text().starts_with(['-', '+']))
        .collect();
    match (program, plain.as_slice()) {
        ("cat" | "head" | "tail" | "less" | "more" | "nl" | "bat", files) => {
            add_words(found, FileAction::Read, folder, files);
        }
        ("rm" | "unlink" | "rmdir", files) => add_words(found, FileAction::Deleted, folder, files),
        ("touch", files) => add_words(found, FileAction::Created, folder, files),
        ("tee", files) => {
            let appends = has_option(arguments, &["-a"]);
            let verb = if appends { FileAction::Modified } else { FileAction::Created };
            add_words(found, verb, folder, files);
        }
        ("sed", [first, rest @ ..]) => {
            let in_place = has_option(arguments, &["-i", "--in-place"]);
            let verb = if in_place { FileAction::Modified } else { FileAction::Read };
            // The first word is the script, unless an option has named the script already.
            if has_option(arguments, &["-e", "-f"])
                && looks_like_path(first.text())
                && !first.text().starts_with("s/")
            {
                add_word(found, verb, folder, first);
            }
            add_words(found, verb, folder, rest);
        }
        ("perl" | "ruby", [_, files @ ..]) if has_option(arguments, &["-i", "-pi"]) => {
            add_words(found, FileAction::Modified, folder, files);
        }
        ("mv", [from @ .., to]) => of_move(from, to, folder, true, found),
        ("cp", [from @ .., to]) => of_move(from, to, folder, false, found),
        ("git", [sub, rest @ ..]) => match (sub.text(), rest) {
            ("rm", files) => add_words(found, FileAction::Deleted, folder, files),
            ("mv", [from @ .., to]) => of_move(from, to, folder, true, found),
            _ => {}
        },
        _ => {}
    }
}

/// Adds the files that are moved or copied. They keep their names if there are several, or if `to` is written as a
/// folder. `gone` is `true` for a move.
fn of_move(from: &[&ShellWord], to: &ShellWord, folder: &str, gone: bool, found: &mut Vec<FileAccess>) {
    for old in from {
        add_word(found, if gone { FileAction::Deleted } else { FileAction::Read }, folder, old);
        let into = from.len() > 1 || to.text().ends_with('/') || to.text() == ".";
        let name = old.text().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let path = if into { below(to.text(), name) } else { to.text().to_owned() };
        if old.is_known() && to.is_known() {
            add_path(found, FileAction::Created, folder, &path);
        }
    }
}

fn add_words(found: &mut Vec<FileAccess>, verb: FileAction, folder: &str, words: &[&ShellWord]) {
    words.iter().for_each(|word| add_word(found, verb, folder, word));
}

/// Adds the file that a word names. Words with variables or patterns name none.
fn add_word(found: &mut Vec<FileAccess>, verb: FileAction, folder: &str, word: &ShellWord) {
    if word.is_known() {
        add_path(found, verb, folder, word.text());
    }
}

/// Adds the file of a path relative to `folder`.
fn add_path(found: &mut Vec<FileAccess>, verb: FileAction, folder: &str, path: &str) {
    // A bare number is the value of an option, as in `head -n 20`.
    if !path.bytes().all(|byte| byte.is_ascii_digit()) {
        add(found, verb, &below(folder, path));
    }
}

/// Returns a path relative to `folder`, with `.` and `..` resolved as far as the text allows.
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
