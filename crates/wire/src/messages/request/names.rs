//! The ids of tool calls in the Messages API.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_core::ids::CallId;
use longhaul_core::message::ToolCall;

/// The ids of the calls so far.
#[derive(Debug, Default)]
pub(super) struct MessagesCallIdMap<'a> {
    of: BTreeMap<&'a CallId, String>,
    used: BTreeSet<String>,
}

impl<'a> MessagesCallIdMap<'a> {
    /// Gives a call an id: the model's own id, else ours, in legal letters, and different from all earlier ids.
    pub(super) fn assign_id(&mut self, call: &'a ToolCall, own: bool) -> String {
        let given = call.provider_id.as_deref().filter(|id| own && is_legal(id) && !self.used.contains(*id));
        let name = given.map_or_else(|| self.free(&legal(call.call_id.as_str())), str::to_owned);
        self.used.insert(name.clone());
        self.of.insert(&call.call_id, name.clone());
        name
    }

    /// Returns the assigned id of a call.
    pub(super) fn of(&self, call_id: &CallId) -> Option<&str> {
        self.of.get(call_id).map(String::as_str)
    }

    fn free(&self, wish: &str) -> String {
        let numbered = (2_usize..).map(|number| format!("{wish}_{number}"));
        let mut wishes = std::iter::once(wish.to_owned()).chain(numbered);
        wishes.find(|name| !self.used.contains(name)).unwrap_or_default()
    }
}

/// Reports whether the API takes a letter in an id (`^[a-zA-Z0-9_-]+$`).
fn is_legal_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')
}

fn is_legal(id: &str) -> bool {
    !id.is_empty() && id.chars().all(is_legal_letter)
}

fn legal(id: &str) -> String {
    match id {
        "" => "call".to_owned(),
        id => id.chars().map(|letter| if is_legal_letter(letter) { letter } else { '_' }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(call_id: &str, provider_id: Option<&str>) -> ToolCall {
        ToolCall {
            call_id: call_id.into(),
            name: "read".into(),
            arguments: "{}".into(),
            provider_id: provider_id.map(str::to_owned),
            native: None,
        }
    }

    #[test]
    fn a_call_keeps_its_own_name_unless_it_is_taken_foreign_or_illegal() {
        let calls = [
            call("c1", Some("toolu_1")),
            call("c2", Some("toolu_1")),
            call("functions.read:0", None),
            call("functions_read_0", None),
            call("c3", Some("über")),
            call("", Some("")),
        ];
        let mut names = MessagesCallIdMap::default();
        let given: Vec<String> = calls.iter().map(|call| names.assign_id(call, true)).collect();
        assert_eq!(given, ["toolu_1", "c2", "functions_read_0", "functions_read_0_2", "c3", "call"]);
        assert_eq!(names.of(&"functions_read_0".into()), Some("functions_read_0_2"));
        assert_eq!(names.of(&"c9".into()), None);
        assert_eq!(MessagesCallIdMap::default().assign_id(&call("ours", Some("theirs")), false), "ours");
    }
}
