//! The problems of an agent file, and their places.

use std::fmt;

/// A file that was refused, with every problem found in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file's name, as it was given.
    pub file: String,
    /// The problems, in the order of the file; never empty.
    pub problems: Vec<ConfigProblem>,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// Line, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
    /// The key, for example `context.compression.strategy`; empty for the whole file.
    pub path: String,
    /// The kind of problem.
    pub kind: ConfigProblemKind,
}

/// A kind of problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigProblemKind {
    /// The file is not YAML, or not one document with unique keys.
    Syntax(String),
    /// No such key.
    UnknownKey {
        /// The key as written.
        key: String,
        /// The section it stands in; empty at the top.
        section: String,
        /// The nearest valid key: of this section, or the whole path of one elsewhere.
        nearest: Option<String>,
        /// The valid keys of the section.
        valid: Vec<String>,
    },
    /// A key of an earlier version.
    RemovedKey {
        /// The key's replacement, as a part of a sentence.
        instead: String,
    },
    /// A value of the wrong kind or outside its range.
    BadValue {
        /// The expected form of the value.
        expected: String,
        /// The value that was found, shortened; a secret is never quoted.
        found: String,
    },
    /// A word that is not one of the choices.
    NotAChoice {
        /// The word as written.
        value: String,
        /// The nearest choice.
        nearest: Option<String>,
        /// All choices of this version.
        valid: Vec<String>,
    },
    /// A known key or value of a capability that this version does not have.
    NotYet {
        /// The name of the thing that was asked for.
        what: String,
    },
    /// The value is right by itself and wrong beside another key.
    Conflict(String),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}{}:{}:{}: {problem}", self.file, problem.line, problem.column)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match &self.kind {
            ConfigProblemKind::Syntax(message) => f.write_str(message),
            ConfigProblemKind::UnknownKey { key, section, nearest, valid } => {
                write!(f, "unknown key `{key}`")?;
                if !section.is_empty() {
                    write!(f, " in `{section}`")?;
                }
                suggest(f, nearest.as_deref(), valid, "the keys here are")
            }
            ConfigProblemKind::RemovedKey { instead } => {
                write!(f, "`{path}` was removed: set {instead} instead")
            }
            ConfigProblemKind::BadValue { expected, found } => {
                write!(f, "`{path}` must be {expected}, not {found}")
            }
            ConfigProblemKind::NotAChoice { value, nearest, valid } => {
                write!(f, "`{path}` cannot be `{value}`")?;
                suggest(f, nearest.as_deref(), valid, "the choices are")
            }
            ConfigProblemKind::NotYet { what } => write!(f, "{what} is not available yet in this version"),
            ConfigProblemKind::Conflict(message) => write!(f, "`{path}` {message}"),
        }
    }
}

fn suggest(f: &mut fmt::Formatter<'_>, nearest: Option<&str>, valid: &[String], lead: &str) -> fmt::Result {
    match nearest {
        // A list of all keys beside a likely correction would only hide it.
        Some(nearest) => write!(f, ": did you mean `{nearest}`?"),
        None => write!(f, ": {lead} {}", valid.join(", ")),
    }
}
