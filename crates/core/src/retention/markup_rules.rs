//! Rules that the user typed as XML, JSON or YAML: `<rule>Never push.</rule>`, `"rules": ["Never push."]`.
//!
//! Markup looks like code, and pasted code sets no rules. So a key or a tag must name rules, and its value must be prose.
//! YAML's lists below a key are read as lists below a heading ([`rule_lists`](super::rule_lists)).

use super::mood::{ORDER_SCORE, order_score, order_score_in_rules};
use super::rule_lists::names_rules_in_markup;
use crate::retention_report::facts::is_unspaced;

/// The fewest words of a value that is prose.
const MIN_VALUE_WORDS: usize = 3;

/// The fewest characters of a value in a script without blanks.
const MIN_VALUE_CHARS: usize = 4;

/// A walk through the lines of a message that finds the values of rules in markup.
pub(super) struct MarkupRules<'t> {
    text: &'t str,
    /// The names of the open tags that name rules.
    tags: Vec<&'t str>,
    /// The number of open brackets behind a key that names rules; `None` outside of its value.
    depth: Option<usize>,
}

impl<'t> MarkupRules<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        Self { text, tags: Vec::new(), depth: None }
    }

    /// Reads the next line. Returns the highest score of the rules in the line; `None` if markup sets no rules there.
    pub(super) fn read_line(&mut self, line: &'t str) -> Option<i32> {
        let mut values = self.values_of_tags(line);
        values.extend(self.values_of_keys(line));
        let values = values.into_iter().filter(|value| is_prose(value));
        values.map(order_score_in_rules).filter(|score| *score >= ORDER_SCORE).max()
    }

    /// Returns the texts of a line that stand within tags that name rules.
    fn values_of_tags(&mut self, line: &'t str) -> Vec<&'t str> {
        let mut values = Vec::new();
        let mut rest = line;
        loop {
            let (before, tag) = match rest.split_once('<') {
                Some((before, tag)) => (before, Some(tag)),
                None => (rest, None),
            };
            if !self.tags.is_empty() {
                values.push(before.trim());
            }
            let Some((name, after)) = tag.and_then(|tag| tag.split_once('>')) else { break };
            self.read_tag(name);
            rest = after;
        }
        values
    }

    /// Reads the inside of a tag. A tag that is never closed encloses nothing.
    fn read_tag(&mut self, tag: &'t str) {
        if let Some(name) = tag.strip_prefix('/') {
            if let Some(at) = self.tags.iter().rposition(|open| *open == name.trim()) {
                self.tags.truncate(at);
            }
            return;
        }
        let name = tag.split(|char: char| char.is_whitespace() || char == '/').next().unwrap_or_default();
        let is_closed = !tag.ends_with('/') && self.text.contains(&format!("</{name}>"));
        if is_closed && names_rules_in_markup(name) {
            self.tags.push(name);
        }
    }

    /// Returns the quoted strings of a line that are values of a key that names rules.
    fn values_of_keys(&mut self, line: &'t str) -> Vec<&'t str> {
        let mut values = Vec::new();
        let mut rest = line;
        while let Some((before, quoted)) = rest.split_once('"') {
            self.read_brackets(before);
            let Some(end) = closing_quote(quoted) else { break };
            let (string, after) = (&quoted[..end], &quoted[end + 1..]);
            let is_key = after.trim_start().starts_with(':');
            match self.depth {
                // A key beside the rules' key ends its value. Keys within the value belong to it.
                None | Some(0) if is_key => self.depth = names_rules_in_markup(string).then_some(0),
                Some(_) if !is_key => values.push(string),
                _ => {}
            }
            rest = after;
        }
        self.read_brackets(rest);
        values
    }

    fn read_brackets(&mut self, text: &str) {
        for char in text.chars() {
            self.depth = match (char, self.depth) {
                ('[' | '{', Some(depth)) => Some(depth + 1),
                (']' | '}', Some(0)) => None,
                (']' | '}', Some(depth)) => Some(depth - 1),
                (_, depth) => depth,
            };
        }
    }
}

/// Returns the position of the quote that ends a string.
fn closing_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, char)| {
        let is_end = char == '"' && !is_escaped;
        is_escaped = char == '\\' && !is_escaped;
        is_end.then_some(at)
    })
}

/// Returns whether a value is prose, and no name or number of a configuration.
fn is_prose(value: &str) -> bool {
    value.split_whitespace().nth(MIN_VALUE_WORDS - 1).is_some()
        || value.chars().filter(|char| is_unspaced(*char)).nth(MIN_VALUE_CHARS - 1).is_some()
        || order_score(value) > ORDER_SCORE && value.split_whitespace().nth(1).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<&str> {
        let mut markup = MarkupRules::of(text);
        text.lines().filter(|line| markup.read_line(line).is_some()).map(str::trim).collect()
    }

    #[test]
    fn values_of_rules_are_found_in_xml_and_json() {
        for (text, found) in [
            ("<rule>Never push to main.</rule>", vec!["<rule>Never push to main.</rule>"]),
            (
                "<house_rules>\n  <item>answers in German, always</item>\n</house_rules>\n<p>a page of text</p>",
                vec!["<item>answers in German, always</item>"],
            ),
            (
                "{\"tone\": \"warm and kind\", \"rules\": [\"Never use tables.\"]}",
                vec!["{\"tone\": \"warm and kind\", \"rules\": [\"Never use tables.\"]}"],
            ),
            (
                "{\n  \"constraints\": [\n    \"no network access at all\"\n  ],\n  \"name\": \"a b c\"\n}",
                vec!["\"no network access at all\""],
            ),
            ("{\"规则\": \"不要使用表格\"}", vec!["{\"规则\": \"不要使用表格\"}"]),
        ] {
            assert_eq!(rules(text), found, "{text}");
        }
    }

    #[test]
    fn configurations_and_data_set_no_rules() {
        for text in [
            "{\"rules\": {\"no-console\": \"error\", \"semi\": [2, \"always\"]}}",
            "{\"description\": \"Always returns the newest page.\"}",
            "<p>Always use the newest version.</p>",
            "<rules>\nnever closed and so on",
            "{\"rules\": []}\n{\"text\": \"Never call this twice.\"}",
        ] {
            assert!(rules(text).is_empty(), "{text}: {:?}", rules(text));
        }
    }
}
