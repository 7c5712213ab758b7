//! Parser of shell command lines: the simple commands with their words and output files.
//!
//! The parser reads the text and runs nothing. Words with variables, patterns or substitutions have no value before the
//! command runs. The parser marks such words, and no file is taken from them.

/// The part of a command line that is read, in bytes.
const MAX_BYTES: usize = 16 << 10;

/// One command, split into words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShellCommand {
    /// The program and the arguments, quotes removed.
    pub(super) words: Vec<ShellWord>,
    /// The files that the output goes to.
    pub(super) writes: Vec<ShellOutputFile>,
}

/// A word of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShellWord {
    pub(super) text: String,
    /// `true` if the text is the value: the word has no variable, pattern or substitution.
    pub(super) literal: bool,
}

/// A file that output goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShellOutputFile {
    pub(super) file: ShellWord,
    /// `true` if the output is appended to the file.
    pub(super) append: bool,
}

impl ShellCommand {
    /// Returns the program without a folder, and the arguments. Assignments and wrappers in front are skipped.
    pub(super) fn program(&self) -> Option<(&str, &[ShellWord])> {
        let mut rest = self.words.as_slice();
        loop {
            let (first, after) = rest.split_first()?;
            let skipped = match first.text.as_str() {
                // Words of the shell's own grammar (`do`, `then`) stand in front of a command in this simple parse.
                "sudo" | "time" | "env" | "nohup" | "command" | "exec" | "do" | "then" | "else" | "!"
                | "{" => 1,
                "timeout" if after.first().is_some_and(ShellWord::starts_with_digit) => 2,
                text if text.contains('=') && !text.starts_with(['-', '=']) => 1,
                text => return Some((text.rsplit('/').next().unwrap_or(text), after)),
            };
            rest = rest.get(skipped..)?;
        }
    }
}

impl ShellWord {
    /// Returns whether the word has digits only.
    pub(super) fn is_number(&self) -> bool {
        self.text.bytes().all(|byte| byte.is_ascii_digit())
    }

    fn starts_with_digit(&self) -> bool {
        self.text.starts_with(|char: char| char.is_ascii_digit())
    }
}

/// Returns whether a word begins with one of `options`.
pub(super) fn has_option(words: &[ShellWord], options: &[&str]) -> bool {
    // A prefix is enough: `-i.bak` is `-i` with a value, and `-rf` is `-r` with another letter.
    words.iter().any(|word| options.iter().any(|option| word.text.starts_with(option)))
}

/// Returns the simple commands of a command line, in order.
pub(super) fn commands(line: &str) -> Vec<ShellCommand> {
    let mut reader = ShellParser { rest: super::line::head(line, MAX_BYTES), ..ShellParser::default() };
    while reader.step() {}
    reader.end_command();
    reader.done
}

/// The state of a parse.
#[derive(Default)]
struct ShellParser<'a> {
    /// The text that is still to be read.
    rest: &'a str,
    done: Vec<ShellCommand>,
    /// The command that is being read.
    now: ShellCommand,
    /// The word that is being read.
    word: Option<ShellWord>,
    /// The redirection whose file is the next word.
    redirects: Option<ShellRedirectKind>,
    /// The end marks of the here-documents that the line opens.
    here: Vec<String>,
}

/// A kind of redirection: `>`, `>>`, `<` or `<<`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ShellRedirectKind {
    Over,
    Append,
    Input,
    Here,
}

impl ShellParser<'_> {
    fn next(&mut self) -> Option<char> {
        let char = self.rest.chars().next()?;
        self.rest = &self.rest[char.len_utf8()..];
        Some(char)
    }

    fn eat(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn step(&mut self) -> bool {
        let Some(char) = self.next() else { return false };
        match char {
            '\'' => self.quote('\''),
            '"' => self.quote('"'),
            // A backslash at the end of a line joins the next line.
            '\\' => match self.next() {
                Some('\n') | None => {}
                Some(next) => self.push(next, true),
            },
            // Within a word, as in `a#b`, the mark begins no comment.
            '#' if self.word.is_none() => {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.rest = &self.rest[end..];
            }
            '>' => self.output(),
            '<' => self.input(),
            '&' if self.eat(">") => self.output(),
            '\n' => {
                // The body of a here-document begins only after the whole line, not at its operator.
                self.end_command();
                self.skip_here();
            }
            ';' | '&' | '|' | '(' | ')' => self.end_command(),
            ' ' | '\t' | '\r' => self.end_word(),
            _ => self.push(char, !"$`*?[]{}".contains(char)),
        }
        true
    }

    fn push(&mut self, char: char, literal: bool) {
        let word = self.word.get_or_insert_with(|| ShellWord { text: String::new(), literal: true });
        word.text.push(char);
        word.literal &= literal;
    }

    /// Reads a quoted text to the end mark.
    fn quote(&mut self, mark: char) {
        // Even empty quotes make a word.
        self.word.get_or_insert_with(|| ShellWord { text: String::new(), literal: true });
        while let Some(char) = self.next() {
            match char {
                '\\' if mark == '"' => {
                    if let Some(next) = self.next() {
                        self.push(next, true);
                    }
                }
                _ if char == mark => return,
                _ => self.push(char, mark == '\'' || !"$`".contains(char)),
            }
        }
    }

    /// Reads a redirection of output, whose `>` was read.
    fn output(&mut self) {
        // In `2>file` the number names the stream and is no argument.
        if self.word.as_ref().is_some_and(ShellWord::is_number) {
            self.word = None;
        }
        self.end_word();
        if self.eat("&") {
            let end = self.rest.find(|char: char| !char.is_ascii_digit() && char != '-');
            self.rest = &self.rest[end.unwrap_or(self.rest.len())..];
            return;
        }
        let append = self.eat(">");
        // `>|` overwrites a file even where the shell forbids it.
        self.eat("|");
        self.redirects = Some(if append { ShellRedirectKind::Append } else { ShellRedirectKind::Over });
    }

    /// Reads a redirection of input, whose `<` was read.
    fn input(&mut self) {
        self.end_word();
        // `<<<` takes its text from the same line: it opens no here-document.
        let here = !self.rest.starts_with("<<") && self.eat("<");
        if here {
            self.eat("-");
        } else {
            self.eat("<<");
        }
        self.redirects = Some(if here { ShellRedirectKind::Here } else { ShellRedirectKind::Input });
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match self.redirects.take() {
            Some(ShellRedirectKind::Over) => {
                self.now.writes.push(ShellOutputFile { file: word, append: false })
            }
            Some(ShellRedirectKind::Append) => {
                self.now.writes.push(ShellOutputFile { file: word, append: true })
            }
            Some(ShellRedirectKind::Here) => self.here.push(word.text),
            Some(ShellRedirectKind::Input) => {}
            None => self.now.words.push(word),
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.redirects = None;
        let command = std::mem::take(&mut self.now);
        if command != ShellCommand::default() {
            self.done.push(command);
        }
    }

    /// Skips the bodies of here-documents, which are data and no commands.
    fn skip_here(&mut self) {
        for end in std::mem::take(&mut self.here) {
            while !self.rest.is_empty() {
                let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
                self.rest = rest;
                if line.trim() == end {
                    break;
                }
            }
        }
    }
}
