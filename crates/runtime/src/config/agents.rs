//! The agents besides the file's own.

use super::AgentConfig;

/// The source of an agent beside the file's own.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentSource {
    /// In a file of its own, whose path is seen from the one that names it.
    File(String),
    /// In the same file.
    Here(Box<AgentConfig>),
}
