//! What a shell command line says: its simple commands, their words and where they write.
//!
//! Read for what it shows at first sight. What is only known when it runs (variables, patterns, substitutions) is
//! marked and counts for nothing.

/// The most of a command line that is read, in bytes.
const MOST_BYTES: usize = 16 << 10;

/// One command with its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShellCommand {
    /// The program and its arguments, quotes removed.
    pub(super) words: Vec<ShellWord>,
    /// Files that its output goes to.
    pub(super) writes: Vec<ShellOutputFile>,
}

/// A word of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShellWord {
    pub(super) text: String,
    /// Whether it stands for itself.
    pub(super) literal: bool,
}

/// A file that output goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShellOutputFile {
    pub(super) file: ShellWord,
    /// Whether it is added to what is there.
    pub(super) append: bool,
}

impl ShellCommand {
    /// The program, without its folder, and what stands after it: assignments and wrappers left out.
    pub(super) fn program(&self) -> Option<(&str, &[ShellWord])> {
        let mut rest = self.words.as_slice();
        loop {
            let (first, after) = rest.split_first()?;
            let is_number = |word: &ShellWord| word.text.starts_with(|char: char| char.is_ascii_digit());
            let skipped = match first.text.as_str() {
                "sudo" | "time" | "env" | "nohup" | "command" | "exec" | "do" | "then" | "else" | "!"
                | "{" => 1,
                "timeout" if after.first().is_some_and(is_number) => 2,
                text if text.contains('=') && !text.starts_with(['-', '=']) => 1,
                text => return Some((text.rsplit('/').next().unwrap_or(text), after)),
            };
            rest = rest.get(skipped..)?;
        }
    }
}

/// The simple commands of a command line, in order.
pub(super) fn commands(line: &str) -> Vec<ShellCommand> {
    let mut reader = ShellParser { rest: super::line::head(line, MOST_BYTES), ..ShellParser::default() };
    while reader.step() {}
    reader.end_command();
    reader.done
}

#[derive(Default)]
struct ShellParser<'a> {
    rest: &'a str,
    done: Vec<ShellCommand>,
    now: ShellCommand,
    word: Option<ShellWord>,
    /// The redirection whose file is the next word.
    redirects: Option<ShellRedirectKind>,
    /// Words that end the here-documents opened on this line.
    here: Vec<String>,
}

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
            '\\' => match self.next() {
                Some('\n') | None => {}
                Some(next) => self.push(next, true),
            },
            '#' if self.word.is_none() => {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.rest = &self.rest[end..];
            }
            '>' => self.output(),
            '<' => self.input(),
            '&' if self.eat(">") => self.output(),
            '\n' => {
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

    fn quote(&mut self, mark: char) {
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

    fn output(&mut self) {
        // The number of the stream is no word.
        let is_stream = |word: &ShellWord| word.text.bytes().all(|byte| byte.is_ascii_digit());
        if self.word.as_ref().is_some_and(is_stream) {
            self.word = None;
        }
        self.end_word();
        if self.eat("&") {
            let end = self.rest.find(|char: char| !char.is_ascii_digit() && char != '-');
            self.rest = &self.rest[end.unwrap_or(self.rest.len())..];
            return;
        }
        let append = self.eat(">");
        self.eat("|");
        self.redirects = Some(if append { ShellRedirectKind::Append } else { ShellRedirectKind::Over });
    }

    fn input(&mut self) {
        self.end_word();
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

    /// The bodies of here-documents are data.
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
