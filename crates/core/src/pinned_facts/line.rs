//! Quoting of foreign text: a quoted text is part of one line, and nothing in it reads as markup of the view.

use std::borrow::Cow;

/// Returns a text as one line of at most `limit` characters.
///
/// Runs of blanks and control characters become one space. Invisible characters and those that reverse the reading
/// direction are removed. `lh:12` becomes `lh\:12`, which `recall` does not take for a handle.
pub(super) fn single_line(text: &str, limit: usize) -> String {
    // Invisible characters go first: within `lh:12` they would hide the handle from `without_handles`.
    let mut line = String::new();
    let mut chars = 0;
    for char in text.trim_start().chars().filter(|char| !is_unseen(*char)) {
        let char = if char.is_whitespace() || char.is_control() { ' ' } else { char };
        if char == ' ' && (line.is_empty() || line.ends_with(' ')) {
            continue;
        }
        if chars == limit {
            line.truncate(line.trim_end().len());
            line.push('…');
            break;
        }
        line.push(char);
        chars += 1;
    }
    line.truncate(line.trim_end().len());
    without_handles(line)
}

/// Returns a text of the user or the model as one line. Text that begins like markup of the view is put in quotation
/// marks.
pub(super) fn quoted_line(text: &str, limit: usize) -> String {
    let line = single_line(text, limit);
    // These characters begin the view's own lines: `[SUMMARY]`, headings, tags, list items, omissions.
    if line.starts_with(|first: char| "[#<>-*=_|…{".contains(first)) { format!("\"{line}\"") } else { line }
}

/// Returns a text of a program between backticks. The fence is longer than any run of backticks in the text, which thus
/// cannot end its own quotation.
pub(super) fn quoted(text: &str, limit: usize) -> String {
    let line = single_line(text, limit);
    let longest = line.split(|char| char != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let gap = if line.starts_with('`') || line.ends_with('`') { " " } else { "" };
    [&fence, gap, &line, gap, &fence].concat()
}

/// Returns a path or an id: bare if it has only the characters of such names, else [`quoted`].
pub(super) fn name(text: &str, limit: usize) -> String {
    let is_plain = text.chars().all(|char| char.is_alphanumeric() || "_-./~@+#".contains(char));
    // At the beginning of an item, `#` and `-` would read as a heading and as another item.
    let is_bare = text.len() <= limit && is_plain && !text.starts_with(['#', '-']);
    if is_bare { text.to_owned() } else { quoted(text, limit) }
}

/// Returns a line in which a backslash separates the prefix `lh` of a handle from its colon.
fn without_handles(line: String) -> String {
    let mut safe = String::new();
    let mut start = 0;
    for (at, mark) in line.match_indices(':') {
        // Any case counts, because a model may read `LH:12` as a handle too.
        let before = line.get(at.saturating_sub(2)..at).unwrap_or_default();
        if before.eq_ignore_ascii_case("lh") {
            safe.push_str(&line[start..at]);
            safe.push('\\');
            safe.push_str(mark);
            start = at + 1;
        }
    }
    if start == 0 {
        return line;
    }
    safe.push_str(&line[start..]);
    safe
}

/// Returns whether a character has no width or changes the reading direction.
fn is_unseen(char: char) -> bool {
    matches!(char, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns a text without the escape sequences that colour a terminal.
pub(super) fn without_colours(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut pieces = text.split("\u{1b}[");
    plain.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let end = piece.find(|char: char| char.is_ascii_alphabetic()).map_or(piece.len(), |at| at + 1);
        plain.push_str(&piece[end..]);
    }
    Cow::Owned(plain)
}

/// Returns the start of a text: at most `most` bytes, cut between characters.
pub(super) fn head(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Returns the end of a text: at most `most` bytes, cut between characters.
pub(super) fn tail(text: &str, most: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(most))..]
}
