//! The commands that a shell would run for a command line, as far as its text tells.
//!
//! A rule that denies `rm *` must also fit `true; /bin/rm x` and `sh -c 'rm x'`. So each command is also read without
//! its quotes, without the path of its program, and behind programs that run others. The text cannot tell everything:
//! what an expansion gives is unknown, and a part that cannot be read makes the whole command doubtful.

#[cfg(test)]
mod tests;

use crate::shell::{ShellPart, ShellScript, ShellText, ShellWord};

/// The most bytes of all commands together. A longer command line is doubtful.
const MAX_BYTES: usize = 200_000;

/// The deepest nesting of shells and substitutions.
const MAX_DEPTH: usize = 16;

/// Programs that run the script in an argument, or their input.
const SHELLS: [&str; 9] = ["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash"];

/// Programs that run the command in their arguments. Their own options differ, so a command may begin at any argument.
const WRAPPERS: [&str; 29] = [
    "env", "command", "builtin", "exec", "sudo", "doas", "su", "runuser", "nice", "ionice", "chrt",
    "taskset", "time", "timeout", "nohup", "setsid", "stdbuf", "unbuffer", "xargs", "parallel", "chroot",
    "unshare", "nsenter", "flock", "watch", "strace", "busybox", "toybox", "trap",
];

/// The options of `find` that a command follows.
const FIND_ACTIONS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];

/// Words before a command that are no part of it.
const RESERVED: [&str; 12] =
    ["if", "then", "elif", "else", "while", "until", "do", "!", "{", "}", "coproc", "noglob"];

/// Programs that change what later words mean.
const REDEFINING: [&str; 2] = ["alias", "enable"];

/// A match of a pattern with a command line, by its certainty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PatternFit {
    /// No command fits.
    No,
    /// A command may fit, or a part of the line could not be read.
    Maybe,
    /// A command fits.
    Yes,
}

/// The commands of a command line.
#[derive(Debug, Default)]
pub(super) struct ShellCommands {
    /// The texts of the commands: words with one blank between them.
    commands: Vec<ShellText>,
    /// `true` if more may run than `commands` says.
    is_doubtful: bool,
    /// The bytes of all commands.
    bytes: usize,
}

impl ShellCommands {
    /// Reads a command line.
    pub(super) fn read(line: &str) -> Self {
        let mut commands = Self::default();
        commands.read_script(line, 0);
        commands
    }

    /// Returns how well a pattern fits. `fits` matches the pattern with a text.
    pub(super) fn fit(&self, pattern: &str, fits: impl Fn(&str, &str) -> bool) -> PatternFit {
        if self.commands.iter().any(|command| fits(pattern, command.as_str())) {
            return PatternFit::Yes;
        }
        let signs: Vec<char> = pattern.chars().collect();
        let may_fit = self.commands.iter().any(|command| may_fit(&signs, command));
        if self.is_doubtful || may_fit { PatternFit::Maybe } else { PatternFit::No }
    }

    fn read_script(&mut self, script: &str, depth: usize) {
        // The line itself may write a long file. A script in a script counts, because it may be read several times.
        self.bytes += if depth > 0 { script.len() } else { 0 };
        if depth > MAX_DEPTH || self.bytes > MAX_BYTES {
            self.is_doubtful = true;
            return;
        }
        let script = ShellScript::read(script);
        self.is_doubtful |= script.is_doubtful;
        for command in &script.commands {
            self.add(&command.words, depth);
            command.substitutions.iter().for_each(|script| self.read_script(script, depth + 1));
        }
    }

    /// Adds a command of these words, and the commands that its program runs.
    fn add(&mut self, words: &[ShellWord], depth: usize) {
        let mut words = words;
        while let [first, rest @ ..] = words {
            words = match first.text() {
                "function" => rest.get(1..).unwrap_or_default(),
                // These run nothing by themselves. Their bodies are commands of their own.
                "for" | "case" | "select" if !first.is_quoted => return,
                word if first.is_assignment() || (!first.is_quoted && RESERVED.contains(&word)) => rest,
                _ => break,
            };
        }
        let Some(first) = words.first() else { return };
        self.add_run(words, depth);
        if first.program() == "find" {
            for at in (1..words.len()).filter(|at| FIND_ACTIONS.contains(&words[at - 1].text())) {
                self.add_run(&words[at..], depth);
            }
        }
    }

    /// Adds the command of a program with its arguments, and the commands that the program runs.
    fn add_run(&mut self, words: &[ShellWord], depth: usize) {
        let [first, arguments @ ..] = words else { return };
        let program = first.program();
        self.add_text(words);
        self.is_doubtful |= REDEFINING.contains(&program.as_str());
        self.add_script(&program, words, depth);
        if WRAPPERS.contains(&program.as_str()) {
            self.add_wrapped(&program, arguments, depth);
        }
    }

    /// Adds the commands that may begin at any argument of a wrapper, and scripts among the arguments.
    fn add_wrapped(&mut self, wrapper: &str, arguments: &[ShellWord], depth: usize) {
        for (at, argument) in arguments.iter().enumerate() {
            if self.bytes > MAX_BYTES {
                self.is_doubtful = true;
                return;
            }
            let text = argument.text();
            // `env -S 'rm x'` splits its argument into words, and the text may be part of the option.
            self.is_doubtful |= wrapper == "env"
                && (text.starts_with("--split") || (text.starts_with("-S") && text.len() > 2));
            let rest = &arguments[at..];
            self.add_text(rest);
            self.add_script(&argument.program(), rest, depth);
            // Some wrappers give their argument to a shell.
            if text.contains(|c: char| c.is_whitespace() || ";&|<>()$`".contains(c)) {
                self.read_script(text, depth + 1);
            }
        }
    }

    /// Adds the commands of the script that a shell gets.
    fn add_script(&mut self, program: &str, words: &[ShellWord], depth: usize) {
        let arguments = words.get(1..).unwrap_or_default();
        if program == "eval" {
            self.is_doubtful |= !arguments.iter().all(ShellWord::is_known);
            let script: Vec<&str> = arguments.iter().map(ShellWord::text).collect();
            self.read_script(&script.join(" "), depth + 1);
        }
        if !SHELLS.contains(&program) {
            return;
        }
        let is_option = |word: &&ShellWord| word.text().starts_with(['-', '+']);
        let has_option = |letter: char| {
            let mut options = arguments.iter().filter(is_option).map(ShellWord::text);
            options.any(|option| !option.starts_with("--") && option.contains(letter))
        };
        let mut operands = arguments.iter().filter(|word| !is_option(word)).peekable();
        if has_option('c') {
            // Options may have values, so any operand may be the script.
            for operand in operands {
                self.is_doubtful |= !operand.is_known();
                self.read_script(operand.text(), depth + 1);
            }
        } else if operands.peek().is_none() || has_option('s') {
            // The script is the input, which this text does not tell.
            self.is_doubtful |= !arguments.iter().any(|word| matches!(word.text(), "--version" | "--help"));
        }
    }

    fn add_text(&mut self, words: &[ShellWord]) {
        let [first, arguments @ ..] = words else { return };
        let name = first.last_component();
        if self.bytes > MAX_BYTES {
            self.is_doubtful = true;
            return;
        }
        let has_folder = name.as_str().len() < first.text().len();
        for form in std::iter::once(&name).chain(has_folder.then_some(&first.value)) {
            let mut command = form.clone();
            for argument in arguments {
                command.push(' ');
                command.push_text(&argument.value);
            }
            self.bytes += command.as_str().len();
            if self.bytes > MAX_BYTES {
                self.is_doubtful = true;
                return;
            }
            self.commands.push(command);
        }
    }
}

/// Returns whether a pattern fits a text for some value of its unknown parts.
fn may_fit(pattern: &[char], text: &ShellText) -> bool {
    if text.is_known() {
        return false;
    }
    // The beginnings of the pattern that fit the text so far, by their length.
    let mut fitting = vec![false; pattern.len() + 1];
    fitting[0] = true;
    skip_stars(pattern, &mut fitting);
    for part in text.parts() {
        let mut next = vec![false; pattern.len() + 1];
        for at in (0..=pattern.len()).filter(|at| fitting[*at]) {
            match (part, pattern.get(at)) {
                // An unknown text may be whatever the pattern has next.
                (ShellPart::Unknown, _) => next[at..].fill(true),
                (ShellPart::Literal(_), Some('*')) => next[at] = true,
                (ShellPart::Literal(c), Some(sign)) if *sign == '?' || *sign == c => next[at + 1] = true,
                (ShellPart::Literal(_), _) => {}
            }
        }
        fitting = next;
        skip_stars(pattern, &mut fitting);
    }
    fitting[pattern.len()]
}

/// Lets stars be empty.
fn skip_stars(pattern: &[char], fitting: &mut [bool]) {
    for (at, sign) in pattern.iter().enumerate() {
        if *sign == '*' && fitting[at] {
            fitting[at + 1] = true;
        }
    }
}
