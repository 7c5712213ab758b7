//! Detection of pasted code among the lines that a person typed.

/// The number of lines on each side that decide about a line whose own words do not.
const NEIGHBOURS: usize = 2;

/// Language tags of fences that contain prose.
const PROSE_FENCES: &[&str] = &["", "text", "txt", "plain", "md", "markdown"];

/// Words that begin statements in common programming languages.
const KEYWORDS: &[&str] = &[
    "assert",
    "async",
    "await",
    "class",
    "const",
    "def",
    "elif",
    "else",
    "enum",
    "export",
    "extern",
    "final",
    "fn",
    "for",
    "func",
    "function",
    "if",
    "impl",
    "import",
    "int",
    "let",
    "package",
    "private",
    "protected",
    "pub",
    "public",
    "raise",
    "return",
    "static",
    "struct",
    "switch",
    "throw",
    "typedef",
    "var",
    "void",
    "while",
    "yield",
];

/// Words that begin a person's rule, but no line of a program.
const OPENERS: &[&str] =
    &["never", "always", "avoid", "don't", "don’t", "dont", "no", "please", "nie", "niemals"];

/// The lines of a text, each with a mark whether a fence with code encloses it.
pub(crate) struct CodeFenceLines<'a> {
    lines: Vec<&'a str>,
    fenced: Vec<bool>,
}

impl<'a> CodeFenceLines<'a> {
    /// Finds the fences of a text. A fence that is never closed encloses nothing.
    pub(crate) fn of(text: &'a str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let mut fenced = vec![false; lines.len()];
        let mut open: Option<(usize, &str)> = None;
        for (at, line) in lines.iter().enumerate() {
            let Some(tag) = fence(line) else { continue };
            match open.take() {
                None => open = Some((at, tag)),
                Some((from, tag)) => {
                    let inside = &lines[from + 1..at];
                    // Prose and code are both fenced without a tag, so the lines within decide.
                    let is_code = !PROSE_FENCES.contains(&tag) || inside.iter().any(|line| is_program(line));
                    fenced[from..=at].fill(is_code);
                }
            }
        }
        Self { lines, fenced }
    }

    /// Returns the lines with their numbers, from 0.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &'a str)> + '_ {
        self.lines.iter().copied().enumerate()
    }

    /// Returns whether a line is code: by the fence, by the line's own words, or in doubt by the lines around.
    pub(crate) fn is_code(&self, at: usize) -> bool {
        self.fenced[at] || {
            let line = self.lines[at];
            is_program(line) || (signs(line) > 0 && self.stands_in_code(at))
        }
    }

    /// Returns whether most of the non-blank lines around a line are code.
    fn stands_in_code(&self, at: usize) -> bool {
        let (before, after) = (self.lines[..at].iter().rev(), self.lines[at + 1..].iter());
        let before = before.filter(|line| !line.trim().is_empty()).take(NEIGHBOURS);
        let after = after.filter(|line| !line.trim().is_empty()).take(NEIGHBOURS);
        let around: Vec<bool> = before.chain(after).map(|line| is_program(line)).collect();
        around.iter().filter(|is_code| **is_code).count() * 2 > around.len()
    }
}

/// Returns the language tag of a fence, which may be empty; `None` if the line is no fence.
fn fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let tag = line.strip_prefix("```").or_else(|| line.strip_prefix("~~~"))?;
    Some(tag.trim_start_matches(['`', '~']).split_whitespace().next().unwrap_or_default())
}

/// Returns whether a line is code without regard to the lines around it. In a sentence of several words, signs of code
/// count little.
fn is_program(line: &str) -> bool {
    let (signs, prose) = (signs(line), longest_prose(line));
    // A sentence may quote one operator or call, so prose of some words needs more signs to be code.
    is_comment(line) || (signs > 0 && prose < 2) || (signs > 2 && prose < 3)
}

fn is_comment(line: &str) -> bool {
    let text = without_place(line);
    ["//", "/*", "*/", "<!--", "#!", "#include"].iter().any(|mark| text.starts_with(mark))
}

/// Returns the number of signs of a program in a line, from 0 to 8.
fn signs(line: &str) -> usize {
    let text = without_place(line);
    // Listings of files have the number of each line in front.
    let is_numbered = text.len() < without_bullet(line).len();
    let ends = text.ends_with(['{', '}', ';']);
    let first = text.split(|char: char| !char.is_alphanumeric()).next().unwrap_or_default();
    // People begin sentences with "if", "for" and "while" as well, but end them otherwise.
    let is_statement = KEYWORDS.contains(&first) && text.ends_with(['{', ';', ':', ')', ',']);
    let is_field = text.starts_with(['"', '\'']) && (text.contains("\":") || text.contains("':"));
    let is_tag = text.starts_with('<') && text.ends_with('>');
    let operators = ["==", "!=", "->", "=>", "::", "&&", "||", "</", "/>", "+="];
    let has_operator = operators.iter().any(|operator| text.contains(operator));
    let all = [
        is_numbered,
        ends,
        is_statement,
        is_field,
        is_tag,
        has_operator,
        has_call(text),
        is_assignment(text),
    ];
    all.into_iter().filter(|sign| *sign).count()
}

fn has_call(text: &str) -> bool {
    let mut brackets = text.match_indices('(');
    brackets.any(|(at, _)| text[..at].ends_with(|char: char| char.is_alphanumeric() || char == '_'))
}

fn is_assignment(text: &str) -> bool {
    let place = [" = ", " := ", " += ", " -= "].iter().filter_map(|sign| text.find(sign)).min();
    place.is_some_and(|at| longest_prose(&text[..at]) < 3)
}

/// Returns the length of the longest row of plain words in a line, in words. Names and numbers neither count nor end a
/// row; a quotation ends it.
fn longest_prose(line: &str) -> usize {
    let text = without_place(line);
    let (mut longest, mut row) = (0, 0);
    for (at, word) in without_literals(text).split_whitespace().enumerate() {
        let bare = word.trim_matches(|char: char| ",.;:!?()\"'*".contains(char));
        let is_plain = bare.chars().any(char::is_alphabetic)
            && bare.chars().all(|char| char.is_alphabetic() || "-'’".contains(char));
        let is_name = bare.chars().all(|char| char.is_alphanumeric() || "_-./:@#%+~".contains(char));
        // The first condition that holds decides.
        row = match () {
            () if at == 0 && KEYWORDS.contains(&bare) => 0,
            () if at == 0 && OPENERS.contains(&bare.to_lowercase().as_str()) => 2,
            // In a script without blanks a whole sentence is one word here.
            () if bare.chars().any(is_unspaced) => row + 3,
            () if is_plain => row + 1,
            () if is_name && !bare.is_empty() && !word.contains('(') => row,
            () => 0,
        };
        longest = longest.max(row);
    }
    longest
}

/// Returns whether a character is of a script that is written without blanks, or with suffixed particles: Chinese,
/// Japanese, Korean.
pub(crate) fn is_unspaced(char: char) -> bool {
    matches!(char, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

/// Returns a line without the bullet of a list or the mark of a quotation.
fn without_bullet(line: &str) -> &str {
    line.trim().trim_start_matches(['-', '*', '+', '>', '•', ' '])
}

/// Returns a line without bullet and without the line number that a listing puts in front.
fn without_place(line: &str) -> &str {
    let text = without_bullet(line);
    let after = text.trim_start_matches(|char: char| char.is_ascii_digit());
    let rest = after.strip_prefix([':', '|', '\t', '→']).filter(|_| after.len() < text.len());
    rest.map_or(text, str::trim)
}

/// Returns a text with a mark in the place of each quotation, except for a quotation at the beginning.
fn without_literals(text: &str) -> String {
    // Prose within a string of a program must not make the line prose. An apostrophe within a word opens no quotation.
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = None;
    while let Some(quote) = rest.chars().next() {
        let opens = matches!(quote, '"' | '\'' | '`') && !before.is_none_or(char::is_alphanumeric);
        let inside = &rest[quote.len_utf8()..];
        match inside.find(quote).filter(|_| opens) {
            Some(end) => {
                plain.push_str(" § ");
                rest = &inside[end + quote.len_utf8()..];
            }
            None => {
                plain.push(quote);
                rest = inside;
            }
        }
        before = Some(quote);
    }
    plain
}
