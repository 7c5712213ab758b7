//! One tool call as an editor shows it: kind, title, places, changes, output.

use std::path::{Component, Path, PathBuf};

use agent_client_protocol::v1::schema::{
    ContentBlock, Diff, ToolCall, ToolCallContent, ToolCallLocation, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind,
};
use serde_json::Value;

use crate::term::exact::{exact, exact_lines};
use crate::term::text::{fit, one_line};

use super::prompt::text_block;

/// Columns of a title.
const TITLE: usize = 100;

/// The shown characters of a running tool's output, the newest.
const TAIL: usize = 4_000;

/// A running call.
#[derive(Clone, Debug)]
pub(super) struct EditorToolCall {
    id: String,
    tool: String,
    arguments: Value,
    root: PathBuf,
    before: PriorFileContent,
    output: String,
}

/// The content of a file before a call changed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum PriorFileContent {
    /// The file was not read, or could not be read.
    #[default]
    Unknown,
    /// There was none.
    Nothing,
    /// The file held this text.
    Text(String),
}

impl EditorToolCall {
    /// Arguments other than JSON are shown unchanged.
    pub(super) fn new(id: &str, tool: &str, arguments: &str, root: &Path, before: PriorFileContent) -> Self {
        let arguments = serde_json::from_str(arguments).unwrap_or_else(|_| Value::from(arguments));
        let (id, tool, root) = (id.to_owned(), tool.to_owned(), root.to_owned());
        Self { id, tool, arguments, root, before, output: String::new() }
    }

    /// Returns the file changed by a call, as named in the arguments.
    pub(super) fn changed_file<'a>(tool: &str, arguments: &'a Value) -> Option<&'a str> {
        matches!(tool, "edit" | "write").then(|| arguments["path"].as_str()).flatten()
    }

    /// Returns the call as the editor first shows it.
    pub(super) fn announced(&self) -> ToolCall {
        ToolCall::new(self.id.clone(), self.title())
            .name(self.tool.clone())
            .kind(self.kind())
            .status(ToolCallStatus::Pending)
            .content(self.changes())
            .locations(self.locations())
            .raw_input(self.arguments.clone())
    }

    /// Returns the call as the editor asks a person about it.
    pub(super) fn asked(&self) -> ToolCallUpdate {
        let fields = ToolCallUpdateFields::new()
            .title(self.title())
            .name(self.tool.clone())
            .kind(self.kind())
            .status(ToolCallStatus::Pending)
            .content(self.changes())
            .locations(self.locations())
            .raw_input(self.arguments.clone());
        ToolCallUpdate::new(self.id.clone(), fields)
    }

    pub(super) fn started(&self) -> ToolCallUpdate {
        self.update(ToolCallUpdateFields::new().status(ToolCallStatus::InProgress))
    }

    /// Adds output of the call. The update shows the newest part, since each update replaces the one before.
    pub(super) fn printed(&mut self, text: &str) -> ToolCallUpdate {
        self.output.push_str(text);
        // Counted in characters, so that the cut never splits one.
        let surplus = self.output.chars().count().saturating_sub(TAIL);
        if surplus > 0 {
            let at = self.output.char_indices().nth(surplus).map_or(0, |(at, _)| at);
            self.output.drain(..at);
        }
        let mut content = self.changes();
        content.push(ToolCallContent::from(text_block(&self.set(&self.output))));
        self.update(ToolCallUpdateFields::new().content(content))
    }

    /// Returns the end of the call: its status and its content.
    pub(super) fn ended(&self, done: bool, shown: Vec<ContentBlock>, raw: Value) -> ToolCallUpdate {
        let status = if done { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
        // A failed call has changed nothing, so no change is shown.
        let mut content = if done { self.changes() } else { Vec::new() };
        content.extend(shown.into_iter().map(|block| match block {
            ContentBlock::Text(text) => ToolCallContent::from(text_block(&self.set(&text.text))),
            other => ToolCallContent::from(other),
        }));
        self.update(ToolCallUpdateFields::new().status(status).content(content).raw_output(raw))
    }

    fn update(&self, fields: ToolCallUpdateFields) -> ToolCallUpdate {
        ToolCallUpdate::new(self.id.clone(), fields)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.arguments[key].as_str()
    }

    fn kind(&self) -> ToolKind {
        match self.tool.as_str() {
            "bash" => ToolKind::Execute,
            "read" => ToolKind::Read,
            "edit" | "write" => ToolKind::Edit,
            "grep" | "glob" | "ls" | "recall" => ToolKind::Search,
            _ => ToolKind::Other,
        }
    }

    /// Returns the title as a line of Markdown.
    fn title(&self) -> String {
        let path = self.text("path");
        let within = path.map(|path| format!(" in {}", quoted_title(path))).unwrap_or_default();
        match (self.tool.as_str(), path) {
            ("bash", _) => self.text("command").map(quoted_title).unwrap_or_else(|| "bash".to_owned()),
            ("read", Some(path)) => format!("Read {}", quoted_title(path)),
            ("edit", Some(path)) => format!("Edit {}", quoted_title(path)),
            ("write", Some(path)) => format!("Write {}", quoted_title(path)),
            ("ls", path) => format!("List {}", quoted_title(path.unwrap_or("."))),
            ("grep", _) => {
                format!("Search {}{within}", quoted_title(self.text("pattern").unwrap_or_default()))
            }
            ("glob", _) => format!("Find {}{within}", quoted_title(self.text("pattern").unwrap_or_default())),
            ("recall", _) => {
                let what = self.text("handle").or_else(|| self.text("query")).unwrap_or_default();
                format!("Recall {}", quoted_title(what))
            }
            (other, _) => one_line(other),
        }
    }

    /// Returns the paths of the call's work. A path out of the workspace is left out: the tool
    /// does not open such a path, and no editor should.
    fn locations(&self) -> Vec<ToolCallLocation> {
        let Some(path) = self.text("path").and_then(|path| inside(&self.root, path)) else {
            return Vec::new();
        };
        // The editor opens the file at the line that is replaced, or at which reading begins.
        let line = match (&self.before, self.text("old")) {
            (PriorFileContent::Text(before), Some(old)) => {
                before.find(old).map(|at| before[..at].matches('\n').count() + 1)
            }
            _ => self.arguments["offset"].as_u64().and_then(|line| usize::try_from(line).ok()),
        };
        let line = line.and_then(|line| u32::try_from(line).ok());
        vec![ToolCallLocation::new(path).line(line)]
    }

    /// Returns the call's changes, or the call's command. A replaced file is shown
    /// only if its earlier content is known.
    fn changes(&self) -> Vec<ToolCallContent> {
        if let Some(command) = self.text("command").filter(|_| self.tool == "bash") {
            return whole_command(command);
        }
        let path = Self::changed_file(&self.tool, &self.arguments).and_then(|path| inside(&self.root, path));
        let Some(path) = path else { return Vec::new() };
        let diff = match (self.text("old"), self.text("new"), self.text("content"), &self.before) {
            (Some(old), Some(new), _, _) => Diff::new(path, new).old_text(old.to_owned()),
            (_, _, Some(content), PriorFileContent::Text(before)) if before != content => {
                Diff::new(path, content).old_text(before.clone())
            }
            (_, _, Some(content), PriorFileContent::Nothing) => Diff::new(path, content),
            _ => return Vec::new(),
        };
        vec![ToolCallContent::from(diff)]
    }

    /// Sets the output of our own tools, which is no Markdown, as text.
    fn set(&self, text: &str) -> String {
        match self.kind() {
            ToolKind::Other => text.to_owned(),
            _ => fenced(text),
        }
    }
}

/// Returns the first line of a text for a title. Invisible characters are spelled out: a title must not look like that of
/// another call.
fn quoted_title(text: &str) -> String {
    code(&fit(&exact(&one_line(text)), TITLE))
}

/// Shows a command that its title does not hold: a person who allows the command must see all of it.
fn whole_command(command: &str) -> Vec<ToolCallContent> {
    let shown = exact_lines(command).join("\n");
    let is_title = shown == command && fit(&one_line(command), TITLE) == command;
    // A short command is its own title, and showing it twice would only take room.
    (!is_title).then(|| ToolCallContent::from(text_block(&fenced(&shown)))).into_iter().collect()
}

/// Returns a path of the workspace, without a look at the disk.
fn inside(root: &Path, path: &str) -> Option<PathBuf> {
    let mut whole = PathBuf::new();
    // Resolved by name alone, because a file that a call will create does not exist yet.
    for component in root.join(path).components() {
        match component {
            Component::ParentDir => {
                // `..` above the root leads out of the workspace, and `starts_with` below refuses the result.
                whole.pop();
            }
            Component::CurDir => {}
            other => whole.push(other),
        }
    }
    whole.starts_with(root).then_some(whole)
}

/// Puts text in a fence longer than any that is in it.
pub(super) fn fenced(text: &str) -> String {
    // Markdown wants at least three.
    let fence = "`".repeat(longest_run(text).max(2) + 1);
    format!("{fence}\n{}\n{fence}", text.trim_end_matches('\n'))
}

fn code(text: &str) -> String {
    // Markdown closes a code span at the first run of as many backticks, so the mark must be longer than any run
    // inside.
    let mark = "`".repeat(longest_run(text) + 1);
    // A backtick next to the mark would count as a part of it.
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{mark}{pad}{text}{pad}{mark}")
}

/// Returns the length of the longest run of backticks in the text.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(tool: &str, arguments: Value, before: PriorFileContent) -> EditorToolCall {
        EditorToolCall::new("c1", tool, &arguments.to_string(), Path::new("/work"), before)
    }

    fn announced(tool: &str, arguments: Value, before: PriorFileContent) -> Value {
        serde_json::to_value(call(tool, arguments, before).announced()).unwrap()
    }

    #[test]
    fn titles_say_what_is_done() {
        for (tool, arguments, title, kind) in [
            ("bash", json!({ "command": "ls -la `x`" }), "`` ls -la `x` ``", "execute"),
            ("bash", json!({ "command": "ls\nrm x" }), "`ls …`", "execute"),
            ("read", json!({ "path": "a.rs" }), "Read `a.rs`", "read"),
            ("grep", json!({ "pattern": "x", "path": "src" }), "Search `x` in `src`", "search"),
            ("ls", json!({}), "List `.`", "search"),
            ("recall", json!({ "handle": "lh:4" }), "Recall `lh:4`", "search"),
            ("t__look", json!({ "path": "a.rs" }), "t__look", "other"),
        ] {
            let shown = announced(tool, arguments.clone(), PriorFileContent::Unknown);
            assert_eq!(shown["title"], title);
            // The default is left out.
            assert_eq!(shown["kind"].as_str().unwrap_or("other"), kind);
            assert_eq!(shown["rawInput"], arguments);
        }
    }

    #[test]
    fn a_command_is_shown_whole_wherever_it_is_asked_about() {
        assert_eq!(asked_text("ls"), Value::Null, "the title holds it");
        assert_eq!(asked_text("ls\nrm -rf x"), fenced("ls\nrm -rf x"));
        assert_eq!(asked_text("ls \u{1b}[8m; rm x"), fenced("ls \\u{1b}[8m; rm x"));
        // Zero-width and invisible characters, and blanks that push the rest out of sight.
        for hidden in
            ["ls\u{200b} x", "ls \u{2060}x", "ls \u{e0061}x", &format!("ls{}; rm x", " ".repeat(80))]
        {
            let shown = asked_text(hidden);
            let shown = shown.as_str().expect("a command whose title differs is shown whole");
            assert!(shown.contains("\\u{") || shown.contains("␣×80"), "{shown}");
        }
        let long = format!("echo {} && rm x", "y".repeat(200));
        assert_eq!(asked_text(&long), fenced(&long));
    }

    fn asked_text(command: &str) -> Value {
        let call = call("bash", json!({ "command": command }), PriorFileContent::Unknown);
        serde_json::to_value(call.asked()).unwrap()["content"][0]["content"]["text"].clone()
    }

    #[test]
    fn an_edit_is_a_change_at_its_line() {
        let before = PriorFileContent::Text("one\ntwo\nthree\n".into());
        let shown = announced("edit", json!({ "path": "src/../a.rs", "old": "two", "new": "2" }), before);
        assert_eq!(shown["locations"], json!([{ "path": "/work/a.rs", "line": 2 }]));
        let change = json!([{ "type": "diff", "path": "/work/a.rs", "oldText": "two", "newText": "2" }]);
        assert_eq!(shown["content"], change);
    }

    fn written_content(before: PriorFileContent) -> Value {
        announced("write", json!({ "path": "a.txt", "content": "new" }), before)["content"][0].clone()
    }

    #[test]
    fn a_write_is_a_change_only_where_the_old_text_is_known() {
        assert_eq!(written_content(PriorFileContent::Text("old".into()))["oldText"], "old");
        assert_eq!(written_content(PriorFileContent::Nothing)["oldText"], Value::Null);
        assert_eq!(written_content(PriorFileContent::Nothing)["newText"], "new");
        for before in [PriorFileContent::Unknown, PriorFileContent::Text("new".into())] {
            assert_eq!(written_content(before), Value::Null);
        }
    }

    #[test]
    fn a_path_out_of_the_workspace_is_no_place() {
        for path in ["../x", "/etc/passwd", "a/../../x"] {
            let shown =
                announced("edit", json!({ "path": path, "old": "a", "new": "b" }), PriorFileContent::Unknown);
            assert_eq!((&shown["locations"], &shown["content"]), (&Value::Null, &Value::Null), "{path}");
        }
    }

    #[test]
    fn output_replaces_what_was_shown_and_keeps_its_newest_part() {
        let mut bash = call("bash", json!({ "command": "x" }), PriorFileContent::Unknown);
        bash.printed("first\n");
        let long = "y".repeat(TAIL);
        let shown = serde_json::to_value(bash.printed(&long)).unwrap();
        assert_eq!(shown["content"][0]["content"]["text"], fenced(&long));
        assert_eq!(shown["content"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        assert_eq!(fenced("a ``` b\n"), "````\na ``` b\n````");
        assert_eq!(code("a"), "`a`");
        assert_eq!(code("`a"), "`` `a ``");
    }

    #[test]
    fn a_failed_edit_shows_why_and_no_change() {
        let edit = call("edit", json!({ "path": "a", "old": "x", "new": "y" }), PriorFileContent::Unknown);
        let why = || vec![text_block("no such text")];
        let shown = |done| serde_json::to_value(edit.ended(done, why(), json!({}))).unwrap();
        assert_eq!(shown(false)["status"], "failed");
        assert_eq!(shown(false)["content"].as_array().unwrap().len(), 1);
        assert_eq!(shown(true)["content"][0]["type"], "diff");
        assert_eq!(shown(true)["status"], "completed");
    }
}
