//! Splits a script into its simple commands, as a POSIX shell and bash do.

use std::iter::Peekable;
use std::str::Chars;

use super::{ShellCommand, ShellOutputFile, ShellScript, ShellWord};

/// The deepest nesting of brackets and quotes in a substitution.
const MAX_BRACKETS: usize = 64;

/// The role of the next word of a shell line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum NextWord {
    /// The word is part of the command.
    #[default]
    Argument,
    /// The word is where input comes from.
    Input,
    /// The word is the file that output goes to; `true` if it is appended.
    Output(bool),
    /// The word is the number of a stream that another one is joined with, or a file that output goes to.
    StreamOrOutput,
    /// The word ends a here-document; `true` if tabs before it do not count.
    Delimiter(bool),
}

/// A here-document whose text begins at the next line.
struct HereDocument {
    delimiter: String,
    is_literal: bool,
    strips_tabs: bool,
}

/// A reader of one script.
pub(super) struct ShellReader<'s> {
    rest: Peekable<Chars<'s>>,
    script: ShellScript,
    command: ShellCommand,
    word: Option<ShellWord>,
    next_word: NextWord,
    documents: Vec<HereDocument>,
}

impl<'s> ShellReader<'s> {
    pub(super) fn new(script: &'s str) -> Self {
        Self {
            rest: script.chars().peekable(),
            script: ShellScript::default(),
            command: ShellCommand::default(),
            word: None,
            next_word: NextWord::default(),
            documents: Vec::new(),
        }
    }

    /// Reads the whole script.
    pub(super) fn read(mut self) -> ShellScript {
        while let Some(c) = self.rest.next() {
            match c {
                ' ' | '\t' => self.end_word(),
                // Lines of a script that was written under Windows.
                '\r' if self.rest.peek().is_none_or(|c| *c == '\n') => self.end_word(),
                '\n' => {
                    self.end_command();
                    self.skip_documents();
                }
                ';' | '&' | '|' | '(' | ')' => self.end_command(),
                '<' | '>' => self.redirect(c),
                '#' if self.word.is_none() => while self.rest.next_if(|c| *c != '\n').is_some() {},
                '\\' => self.escaped(),
                '\'' => self.single_quoted(),
                '"' => self.double_quoted(Some('"')),
                '$' => self.dollar(false),
                '`' => self.backquoted(),
                '*' | '?' | '[' | '{' => self.push_unknown(c.encode_utf8(&mut [0; 4])),
                '\0' => self.doubt(),
                c => self.push(c),
            }
        }
        self.end_command();
        self.script
    }

    fn word(&mut self) -> &mut ShellWord {
        self.word.get_or_insert_default()
    }

    fn push(&mut self, c: char) {
        self.word().value.push(c);
    }

    fn push_unknown(&mut self, source: &str) {
        self.word().value.push_unknown(source);
    }

    fn doubt(&mut self) {
        self.script.is_doubtful = true;
    }

    fn end_word(&mut self) {
        let Some(mut word) = self.word.take() else { return };
        read_brackets(&mut word);
        match std::mem::take(&mut self.next_word) {
            NextWord::Argument => self.command.words.push(word),
            NextWord::Input => {}
            NextWord::Output(appends) => self.command.outputs.push(ShellOutputFile { file: word, appends }),
            NextWord::StreamOrOutput => {
                // `2>&1` joins two streams, and `>&-` closes one.
                if !word.text().bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
                    self.command.outputs.push(ShellOutputFile { file: word, appends: false });
                }
            }
            NextWord::Delimiter(strips_tabs) => {
                let (delimiter, is_literal) = (word.text().to_owned(), word.is_quoted);
                self.documents.push(HereDocument { delimiter, is_literal, strips_tabs });
            }
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.next_word = NextWord::Argument;
        let command = std::mem::take(&mut self.command);
        if command != ShellCommand::default() {
            self.script.commands.push(command);
        }
    }

    /// Reads a redirection: neither its sign nor its target is part of the command.
    fn redirect(&mut self, sign: char) {
        let is_number = self.word.as_ref().is_some_and(|word| !word.is_quoted && word.is_number());
        if is_number {
            self.word = None;
        }
        self.end_word();
        match (sign, self.rest.peek()) {
            // A process substitution: the bracket begins a command.
            (_, Some('(')) => {}
            ('<', Some('<')) => {
                self.rest.next();
                self.next_word = match self.rest.next_if(|c| matches!(c, '<' | '-')) {
                    Some('<') => NextWord::Input,
                    strips_tabs => NextWord::Delimiter(strips_tabs.is_some()),
                };
            }
            _ => {
                let second =
                    self.rest.next_if(|c| matches!((sign, *c), ('<', '>' | '&') | ('>', '>' | '&' | '|')));
                self.next_word = match (sign, second) {
                    ('<', _) => NextWord::Input,
                    (_, Some('&')) => NextWord::StreamOrOutput,
                    (_, second) => NextWord::Output(second == Some('>')),
                };
            }
        }
    }

    /// Skips the texts of here-documents. What they expand is run.
    fn skip_documents(&mut self) {
        for HereDocument { delimiter, is_literal, strips_tabs } in std::mem::take(&mut self.documents) {
            let mut text = String::new();
            while self.rest.peek().is_some() {
                let mut line = String::new();
                while let Some(c) = self.rest.next_if(|c| *c != '\n') {
                    line.push(c);
                }
                self.rest.next();
                let line = if strips_tabs { line.trim_start_matches('\t') } else { line.as_str() };
                if line == delimiter {
                    break;
                }
                text.push_str(line);
                text.push('\n');
            }
            if !is_literal {
                self.expand_document(&text);
            }
        }
    }

    /// Adds what a here-document expands to its command, which was the last one.
    fn expand_document(&mut self, text: &str) {
        let mut reader = ShellReader::new(text);
        reader.double_quoted(None);
        self.script.is_doubtful |= reader.script.is_doubtful;
        match self.script.commands.last_mut() {
            Some(command) => command.substitutions.append(&mut reader.command.substitutions),
            None => self.script.commands.push(ShellCommand {
                substitutions: reader.command.substitutions,
                ..ShellCommand::default()
            }),
        }
    }

    fn escaped(&mut self) {
        match self.rest.next() {
            // The line goes on.
            Some('\n') => {}
            Some(c) => {
                self.push(c);
                self.word().is_quoted = true;
            }
            None => self.doubt(),
        }
    }

    fn single_quoted(&mut self) {
        self.word().is_quoted = true;
        loop {
            match self.rest.next() {
                Some('\'') => return,
                Some(c) => self.push(c),
                None => return self.doubt(),
            }
        }
    }

    /// Reads text between double quotes, or up to the end without an `end`.
    fn double_quoted(&mut self, end: Option<char>) {
        self.word().is_quoted = true;
        loop {
            match self.rest.next() {
                Some(c) if Some(c) == end => return,
                Some('\\') => match self.rest.next() {
                    Some('\n') => {}
                    Some(c @ ('$' | '`' | '"' | '\\')) => self.push(c),
                    Some(c) => {
                        self.push('\\');
                        self.push(c);
                    }
                    None => self.push('\\'),
                },
                Some('$') => self.dollar(true),
                Some('`') => self.backquoted(),
                Some(c) => self.push(c),
                None if end.is_none() => return,
                None => return self.doubt(),
            }
        }
    }

    /// Reads what follows a `$`.
    fn dollar(&mut self, is_in_quotes: bool) {
        match self.rest.peek().copied() {
            Some('(') => {
                self.rest.next();
                let inner = self.enclosed(')');
                self.substitute(&inner);
                self.push_unknown(&format!("$({inner})"));
            }
            Some('{') => {
                self.rest.next();
                let inner = self.enclosed('}');
                // A value may be given by a command.
                if inner.contains("$(") || inner.contains('`') {
                    self.doubt();
                }
                self.push_unknown(&format!("${{{inner}}}"));
            }
            Some('\'') if !is_in_quotes => self.ansi_quoted(),
            // The quote begins a translated text, which is read like any other.
            Some('"') if !is_in_quotes => {}
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let mut source = "$".to_owned();
                while let Some(c) = self.rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    source.push(c);
                }
                self.push_unknown(&source);
            }
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => {
                self.rest.next();
                self.push_unknown(&format!("${c}"));
            }
            _ => self.push('$'),
        }
    }

    /// Reads `$'…'`, in which escapes stand for any character.
    fn ansi_quoted(&mut self) {
        self.rest.next();
        self.word().is_quoted = true;
        let mut text = String::new();
        loop {
            match self.rest.next() {
                Some('\'') => break,
                Some('\\') => {
                    text.push('\\');
                    text.extend(self.rest.next());
                }
                Some(c) => text.push(c),
                None => return self.doubt(),
            }
        }
        if text.contains('\\') {
            self.push_unknown(&text);
        } else {
            text.chars().for_each(|c| self.push(c));
        }
    }

    fn backquoted(&mut self) {
        let mut inner = String::new();
        loop {
            match self.rest.next() {
                Some('`') => break,
                Some('\\') => match self.rest.next() {
                    Some(c @ ('`' | '\\' | '$')) => inner.push(c),
                    other => {
                        inner.push('\\');
                        inner.extend(other);
                    }
                },
                Some(c) => inner.push(c),
                None => return self.doubt(),
            }
        }
        self.substitute(&inner);
        self.push_unknown(&format!("`{inner}`"));
    }

    fn substitute(&mut self, script: &str) {
        // The brackets of `case` have no partner, so the end of the script is not certain.
        if script.contains("case") {
            self.doubt();
        }
        self.command.substitutions.push(script.to_owned());
    }

    /// Returns the text up to the end of a bracket.
    fn enclosed(&mut self, end: char) -> String {
        let mut text = String::new();
        if !self.copy_until(end, 0, &mut text) {
            self.doubt();
        }
        text
    }

    /// Copies the text before `end`, with quotes and brackets in it. Returns `false` if there is no end.
    fn copy_until(&mut self, end: char, brackets: usize, text: &mut String) -> bool {
        if brackets > MAX_BRACKETS {
            return false;
        }
        let is_quoted = end == '"';
        while let Some(c) = self.rest.next() {
            if c == end {
                return true;
            }
            text.push(c);
            let inner_end = match c {
                '\\' => {
                    text.extend(self.rest.next());
                    continue;
                }
                '\'' if !is_quoted => {
                    while let Some(c) = self.rest.next_if(|c| *c != '\'') {
                        text.push(c);
                    }
                    text.extend(self.rest.next());
                    continue;
                }
                '"' | '`' => c,
                '(' if !is_quoted => ')',
                '$' => match self.rest.next_if(|c| matches!(c, '(' | '{')) {
                    Some(bracket) => {
                        text.push(bracket);
                        if bracket == '(' { ')' } else { '}' }
                    }
                    None => continue,
                },
                _ => continue,
            };
            if !self.copy_until(inner_end, brackets + 1, text) {
                return false;
            }
            text.push(inner_end);
        }
        false
    }
}

/// Decides on the brackets of a word: a pattern or list makes the whole word unknown. Others stand for themselves, such
/// as `[` as a command and `{}` of `find`.
fn read_brackets(word: &mut ShellWord) {
    let value = &mut word.value;
    let text = value.as_str();
    let is_list = value.has_unknown("{") && text.contains('}') && (text.contains(',') || text.contains(".."));
    if is_list || value.has_unknown("[") && text.contains(']') {
        value.set_unknown();
    } else {
        value.set_known("[");
        value.set_known("{");
    }
}
