//! Open todos: from lists that the model keeps with a tool, and from checkboxes that the model or a person wrote.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::bounded_fact_map::BoundedFactMap;
use super::tools;
use crate::retention_report::facts::single_spaced;

/// The most todos kept, including finished ones.
const MAX_ITEMS: usize = 512;

/// The length after which a todo is cut, in bytes.
const MAX_BYTES: usize = 1_000;

/// Words in the names of tools and arguments that hold a list of todos.
const LIST_KEYS: &[&str] = &["todo", "task", "plan", "checklist", "items"];
/// The keys under which tools write the text of a todo, in order of precedence.
const TEXT_KEYS: &[&str] = &["content", "text", "title", "task", "step", "subject", "description", "name"];

/// The progress of a todo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TodoState {
    Open,
    /// The work has begun.
    Begun,
    /// The work is done, or was given up.
    Finished,
}

/// One todo.
#[derive(Clone, Debug, PartialEq)]
struct TodoItem {
    text: String,
    state: TodoState,
    /// The id that the tool gave the todo.
    id: Option<String>,
    /// `true` if the todo is from a list that a tool keeps.
    listed: bool,
}

/// The todos, in the order in which they came up.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TodoTracker {
    kept: BoundedFactMap<TodoItem>,
    finished: u64,
}

/// The change of a list that a call makes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TodoListUpdate {
    todos: Vec<TodoItem>,
    /// `true` if the call names only the changed todos, and not the whole list.
    merges: bool,
}

impl Default for TodoTracker {
    fn default() -> Self {
        Self { kept: BoundedFactMap::new(MAX_ITEMS), finished: 0 }
    }
}

impl TodoTracker {
    /// Returns the text of each unfinished todo, and whether the work has begun.
    pub(super) fn open(&self) -> impl Iterator<Item = (&str, bool)> {
        let open = self.kept.iter().filter(|(_, todo)| todo.state != TodoState::Finished);
        open.map(|(_, todo)| (todo.text.as_str(), todo.state == TodoState::Begun))
    }

    /// Returns the number of finished todos.
    pub(super) fn finished(&self) -> u64 {
        self.finished
    }

    /// Returns the number of todos that were removed because there were too many.
    pub(super) fn evicted(&self) -> u64 {
        self.kept.evicted()
    }

    /// Applies a call: the call's list replaces the tool's earlier list, unless the call names only changes.
    pub(super) fn apply(&mut self, call: TodoListUpdate) {
        if !call.merges {
            // Checkboxes stay, because no tool keeps them and no list repeats them.
            let keys: BTreeSet<String> = call.todos.iter().map(|todo| key(&todo.text)).collect();
            self.kept.retain(|key, todo| !todo.listed || keys.contains(key));
        }
        for todo in call.todos {
            // Ids count only in an update, because a whole new list may be numbered again.
            let same = todo.id.as_ref().filter(|_| call.merges).and_then(|id| self.by_id(id));
            if let Some(before) = same.filter(|before| todo.text.is_empty() || *before != key(&todo.text)) {
                let text = self.kept.take(&before).map(|before| before.text).unwrap_or_default();
                self.set(TodoItem { text: if todo.text.is_empty() { text } else { todo.text }, ..todo });
            } else if !todo.text.is_empty() {
                self.set(todo);
            }
        }
    }

    fn by_id(&self, id: &str) -> Option<String> {
        let same = self.kept.iter().find(|(_, todo)| todo.id.as_deref() == Some(id));
        same.map(|(key, _)| key.to_owned())
    }

    /// Stores a todo, and keeps the place and the count of one with the same words.
    fn set(&mut self, todo: TodoItem) {
        let key = key(&todo.text);
        let before = self.kept.get(&key).map(|before| before.state);
        match (before == Some(TodoState::Finished), todo.state == TodoState::Finished) {
            (false, true) => self.finished += 1,
            (true, false) => self.finished = self.finished.saturating_sub(1),
            _ => {}
        }
        match self.kept.get_mut(&key) {
            Some(known) => *known = todo,
            None => _ = self.kept.put(&key, todo),
        }
    }

    /// Records the checkboxes of a message. Checkboxes in a block of code are examples and do not count.
    pub(super) fn read_checkboxes(&mut self, text: &str) {
        let mut in_code = false;
        for line in text.lines().map(str::trim_start) {
            if line.starts_with("```") || line.starts_with("~~~") {
                in_code = !in_code;
            }
            if let Some((state, text)) = checkbox(line).filter(|_| !in_code) {
                // A checkbox with the words of a listed todo updates it, and the next list may still remove it.
                let listed = self.kept.get(&key(text)).is_some_and(|known| known.listed);
                self.set(TodoItem { text: cut(text), state, id: None, listed });
            }
        }
    }
}

/// Returns the state and the text of a checkbox: `- [ ] text`, `* [x] text`, `1. [ ] text`.
fn checkbox(line: &str) -> Option<(TodoState, &str)> {
    let mark = line.find('[')?;
    let (bullet, rest) = line.split_at_checked(mark)?;
    let bullet = bullet.strip_suffix(' ')?;
    let is_bullet = matches!(bullet, "-" | "*" | "+")
        || bullet
            .strip_suffix(['.', ')'])
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    let (state, text) =
        [("[ ] ", TodoState::Open), ("[x] ", TodoState::Finished), ("[X] ", TodoState::Finished)]
            .iter()
            .find_map(|(box_, state)| rest.strip_prefix(box_).map(|text| (*state, text.trim())))?;
    (is_bullet && !text.is_empty()).then_some((state, text))
}

/// Returns the list of todos in the arguments of a call; `None` if there is no such list.
pub(super) fn list(tool: &str, arguments: &Map<String, Value>) -> Option<TodoListUpdate> {
    let lists = arguments.iter().filter(|(key, _)| names_todos(key) || names_todos(tool));
    // Every item must have a text or id and a known state: an order's `items`, for example, are no todos.
    let todos = lists
        .filter_map(|(_, value)| value.as_array())
        .find_map(|items| items.iter().take(MAX_ITEMS).map(todo).collect::<Option<Vec<TodoItem>>>())?;
    // Some agents' tool sends only the changed todos, with `merge: true`; others send the whole list each time.
    let merges = arguments.get("merge").and_then(Value::as_bool).unwrap_or(false);
    Some(TodoListUpdate { todos, merges })
}

/// Returns whether a tool or an argument of this name holds a list of todos.
fn names_todos(name: &str) -> bool {
    let name = tools::plain(name);
    LIST_KEYS.iter().any(|key| name.contains(key))
}

fn todo(item: &Value) -> Option<TodoItem> {
    let item = item.as_object()?;
    let text = TEXT_KEYS.iter().find_map(|key| item.get(*key)?.as_str());
    let id = item.get("id").map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_owned));
    if text.is_none() && id.is_none() {
        return None;
    }
    let state = match item.get("status").or_else(|| item.get("state")) {
        Some(status) => state(status.as_str()?)?,
        None => {
            let is_done = ["done", "completed"].iter().find_map(|key| item.get(*key)?.as_bool())?;
            if is_done { TodoState::Finished } else { TodoState::Open }
        }
    };
    Some(TodoItem { text: cut(text.unwrap_or_default()), state, id, listed: true })
}

fn state(status: &str) -> Option<TodoState> {
    match tools::plain(status).as_str() {
        "pending" | "todo" | "open" | "notstarted" | "blocked" | "new" => Some(TodoState::Open),
        "inprogress" | "doing" | "active" | "started" => Some(TodoState::Begun),
        "completed" | "complete" | "done" | "finished" | "cancelled" | "canceled" | "skipped" | "deleted" => {
            Some(TodoState::Finished)
        }
        _ => None,
    }
}

fn cut(text: &str) -> String {
    super::line::head(&single_spaced(text), MAX_BYTES).to_owned()
}

/// Returns the key of a todo: the words without case, spacing, emphasis and final full stops.
fn key(text: &str) -> String {
    // Models repeat a todo with other emphasis: `**Add tests**` becomes "Add tests."
    let words = single_spaced(text).to_lowercase();
    words.chars().filter(|char| !"*`_".contains(*char)).collect::<String>().trim_end_matches('.').to_owned()
}
