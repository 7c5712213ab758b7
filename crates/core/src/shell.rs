//! The simple commands of a shell script, as a POSIX shell and bash split it.
//!
//! The text is read and nothing is run. What a variable, a substitution or a pattern of file names gives is unknown
//! until the script runs, so [`ShellText`] keeps the source of such parts and marks them.

mod reader;
#[cfg(test)]
mod tests;

use std::ops::Range;

use self::reader::ShellReader;

/// A script, split into its commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShellScript {
    /// The commands in the order of the text.
    pub(crate) commands: Vec<ShellCommand>,
    /// `true` if a part could not be read, so that more may run than `commands` says.
    pub(crate) is_doubtful: bool,
}

impl ShellScript {
    /// Reads a script. The scripts of substitutions are found, not read.
    pub(crate) fn read(script: &str) -> Self {
        ShellReader::new(script).read()
    }
}

/// A simple command: a program with its arguments, redirections and substitutions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShellCommand {
    /// The words. Assignments and words of the shell's grammar, such as `then`, are among them.
    pub(crate) words: Vec<ShellWord>,
    /// The files that output goes to.
    pub(crate) outputs: Vec<ShellOutputFile>,
    /// The scripts that run for `$(…)`, backquotes and here-documents of the command.
    pub(crate) substitutions: Vec<String>,
}

/// A file that output goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShellOutputFile {
    /// The path.
    pub(crate) file: ShellWord,
    /// `true` if the output is appended to the file.
    pub(crate) appends: bool,
}

/// A word of a command, without its quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShellWord {
    /// The text behind quotes and escapes.
    pub(crate) value: ShellText,
    /// `true` if a part of the word was quoted or escaped.
    pub(crate) is_quoted: bool,
}

impl ShellWord {
    /// Returns the text, with the source of unknown parts.
    pub(crate) fn text(&self) -> &str {
        &self.value.text
    }

    /// Returns whether the text is what the command gets.
    pub(crate) fn is_known(&self) -> bool {
        self.value.is_known()
    }

    /// Returns whether the word has digits only.
    pub(crate) fn is_number(&self) -> bool {
        self.is_known() && self.text().bytes().all(|byte| byte.is_ascii_digit())
    }

    /// Returns the part behind the last slash.
    pub(crate) fn last_component(&self) -> ShellText {
        let slashes = self.text().rmatch_indices('/').map(|(at, _)| at);
        let last = slashes.into_iter().find(|at| !self.value.is_unknown_at(*at));
        self.value.starting_at(last.map_or(0, |slash| slash + 1))
    }

    /// Returns the name of the program that the word names.
    pub(crate) fn program(&self) -> String {
        self.last_component().text
    }

    /// Returns whether the word sets a variable for the command behind it.
    pub(crate) fn is_assignment(&self) -> bool {
        let name = self.text().split_once('=').map(|(name, _)| name.strip_suffix('+').unwrap_or(name));
        name.is_some_and(|name| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    }
}

/// Text with parts that are unknown before a script runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShellText {
    /// The text, with the source of unknown parts.
    text: String,
    /// The bytes of the unknown parts in `text`, in order.
    unknown: Vec<Range<usize>>,
}

/// A part of a [`ShellText`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShellPart {
    /// The character itself.
    Literal(char),
    /// Any text.
    Unknown,
}

impl ShellText {
    /// Returns the text, with the source of unknown parts.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the text has no unknown part.
    pub(crate) fn is_known(&self) -> bool {
        self.unknown.is_empty()
    }

    /// Adds a character that stands for itself.
    pub(crate) fn push(&mut self, char: char) {
        self.text.push(char);
    }

    /// Adds another text.
    pub(crate) fn push_text(&mut self, other: &Self) {
        let offset = self.text.len();
        self.text.push_str(&other.text);
        self.unknown.extend(other.unknown.iter().map(|part| part.start + offset..part.end + offset));
    }

    /// Returns the known characters and the unknown parts, in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = ShellPart> + '_ {
        let mut unknown = self.unknown.iter().peekable();
        let mut end = 0;
        self.text.char_indices().filter_map(move |(at, char)| {
            if at < end {
                return None;
            }
            match unknown.next_if(|part| part.start == at) {
                Some(part) => {
                    end = part.end;
                    Some(ShellPart::Unknown)
                }
                None => Some(ShellPart::Literal(char)),
            }
        })
    }

    /// Adds a part that is unknown before the script runs, such as `$HOME`. `source` must not be empty.
    fn push_unknown(&mut self, source: &str) {
        let start = self.text.len();
        self.text.push_str(source);
        self.unknown.push(start..self.text.len());
    }

    /// Returns whether an unknown part has this source.
    fn has_unknown(&self, source: &str) -> bool {
        self.unknown.iter().any(|part| &self.text[part.clone()] == source)
    }

    /// Makes the whole text unknown.
    fn set_unknown(&mut self) {
        self.unknown = std::iter::once(0..self.text.len()).collect();
    }

    /// Lets the unknown parts whose source is given stand for themselves.
    fn set_known(&mut self, source: &str) {
        let Self { text, unknown } = self;
        unknown.retain(|part| &text[part.clone()] != source);
    }

    fn is_unknown_at(&self, byte: usize) -> bool {
        self.unknown.iter().any(|part| part.contains(&byte))
    }

    /// Returns the text from a byte on, which begins a known part.
    fn starting_at(&self, byte: usize) -> Self {
        let parts = self.unknown.iter().filter(|part| part.start >= byte);
        Self {
            text: self.text[byte..].to_owned(),
            unknown: parts.map(|part| part.start - byte..part.end - byte).collect(),
        }
    }
}
