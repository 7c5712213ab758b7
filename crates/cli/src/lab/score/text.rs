//! Comparisons of texts without regard to line breaks.

/// Returns the text with one space for each run of white space.
pub(crate) fn single_spaced(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// Returns the text in lower case with one space for each run of white space.
pub(crate) fn normalised(text: &str) -> String {
    single_spaced(text).to_lowercase()
}

/// Returns whether `text` has the words of `statement` in their order and spelling, however both are wrapped. A full
/// stop at the end of the statement may be missing.
pub(crate) fn contains_statement(text: &str, statement: &str) -> bool {
    single_spaced(text).contains(bare_statement(&single_spaced(statement)))
}

/// Returns a statement without the full stop at its end.
pub(crate) fn bare_statement(statement: &str) -> &str {
    statement.trim_end_matches(['.', '。', '!', '！'])
}

/// Returns the lines listed under titles that have one of `words`, without their bullets.
///
/// A title is a line that begins with `#` or ends with a colon. Its list ends at the first line without a bullet.
pub(crate) fn lines_under_titles<'t>(text: &'t str, words: &[&str]) -> Vec<&'t str> {
    let mut is_listed = false;
    let mut listed = Vec::new();
    for line in text.lines() {
        let bare = line.trim().trim_matches('*');
        match bare.strip_prefix("- ") {
            Some(item) if is_listed => listed.push(item),
            Some(_) => {}
            // A blank line between a title and its list does not end the list.
            None if bare.is_empty() => {}
            None => {
                let is_title = bare.starts_with('#') || bare.ends_with(':');
                is_listed = is_title && words.iter().any(|word| bare.contains(word));
            }
        }
    }
    listed
}

/// Returns `part` as a share of `whole` in percent; 100 if there is nothing.
pub(crate) fn percent(part: usize, whole: usize) -> f64 {
    // With nothing to find, nothing is missing; 0 would look like a total loss in a table.
    if whole == 0 { 100.0 } else { part as f64 * 100.0 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_belongs_to_the_title_above_it() {
        let text = "Rules set by the user:\n- one\n- two\nFiles:\n- three\n## Standing orders\n\n- four\nplain\n- five";
        assert_eq!(lines_under_titles(text, &["Rules", "Standing orders"]), ["one", "two", "four"]);
        assert!(lines_under_titles(text, &["Names"]).is_empty());
    }
}
