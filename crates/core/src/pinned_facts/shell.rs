//! Shell command lines as the state of the work reads them: commands in the order in which they run, and their programs.

use crate::shell::{ShellCommand, ShellScript, ShellWord};

/// The part of a command line that is read, in bytes.
const MAX_BYTES: usize = 16 << 10;

/// The deepest nesting of substitutions that is read.
const MAX_DEPTH: usize = 4;

/// Returns the commands of a command line. Those of a substitution stand before the command that it belongs to.
pub(super) fn commands(line: &str) -> Vec<ShellCommand> {
    let mut found = Vec::new();
    add_commands(super::line::head(line, MAX_BYTES), 0, &mut found);
    found
}

fn add_commands(script: &str, depth: usize, found: &mut Vec<ShellCommand>) {
    for command in ShellScript::read(script).commands {
        if depth < MAX_DEPTH {
            command.substitutions.iter().for_each(|script| add_commands(script, depth + 1, found));
        }
        found.push(command);
    }
}

/// Returns the program without a folder, and the arguments. Assignments and wrappers in front are skipped.
pub(super) fn program(command: &ShellCommand) -> Option<(&str, &[ShellWord])> {
    let mut rest = command.words.as_slice();
    loop {
        let (first, after) = rest.split_first()?;
        let skipped = match first.text() {
            // Words of the shell's own grammar (`do`, `then`) stand in front of a command.
            "sudo" | "time" | "env" | "nohup" | "command" | "exec" | "do" | "then" | "else" | "!" | "{" => 1,
            "timeout" if after.first().is_some_and(starts_with_digit) => 2,
            _ if first.is_assignment() => 1,
            text => return Some((text.rsplit('/').next().unwrap_or(text), after)),
        };
        rest = rest.get(skipped..)?;
    }
}

/// Returns whether a word begins with one of `options`.
pub(super) fn has_option(words: &[ShellWord], options: &[&str]) -> bool {
    // A prefix is enough: `-i.bak` is `-i` with a value, and `-rf` is `-r` with another letter.
    words.iter().any(|word| options.iter().any(|option| word.text().starts_with(option)))
}

fn starts_with_digit(word: &ShellWord) -> bool {
    word.text().starts_with(|char: char| char.is_ascii_digit())
}
