//! The built-in tools as a model with a small window is told of them: in a few words, and only those that a shell does
//! not replace.

use longhaul_core::message::{RawJson, ToolSpec};

/// What a small window is told of one tool. What is not in the schema is still taken in a call.
struct ShortToolSpec {
    name: &'static str,
    description: &'static str,
    parameters: &'static str,
}

/// Those that are offered by themselves, then those that are offered where `tools.enabled` names them.
const BRIEFS: [ShortToolSpec; 7] = [
    ShortToolSpec {
        name: "read",
        description: "Read a file: `limit` lines from line `offset`, or all.",
        parameters: r#"{"type":"object","properties":{"path":{"type":"string"},"offset":{"type":"integer"},"limit":{"type":"integer"}},"required":["path"],"additionalProperties":false}"#,
    },
    ShortToolSpec {
        name: "bash",
        description: "Run a shell command.",
        parameters: r#"{"type":"object","properties":{"command":{"type":"string"}},"required":["command"],"additionalProperties":false}"#,
    },
    ShortToolSpec {
        name: "edit",
        description: "Replace `old`, which is in the file exactly once, with `new`.",
        parameters: r#"{"type":"object","properties":{"path":{"type":"string"},"old":{"type":"string"},"new":{"type":"string"}},"required":["path","old","new"],"additionalProperties":false}"#,
    },
    ShortToolSpec {
        name: "write",
        description: "Write a whole file.",
        parameters: r#"{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"],"additionalProperties":false}"#,
    },
    ShortToolSpec {
        name: "grep",
        description: "Search files for a regular expression.",
        parameters: r#"{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string"}},"required":["pattern"],"additionalProperties":false}"#,
    },
    ShortToolSpec {
        name: "glob",
        description: "Find files by name, such as src/**/*.rs.",
        parameters: r#"{"type":"object","properties":{"pattern":{"type":"string"}},"required":["pattern"],"additionalProperties":false}"#,
    },
    ShortToolSpec {
        name: "ls",
        description: "List a folder.",
        parameters: r#"{"type":"object","properties":{"path":{"type":"string"}},"additionalProperties":false}"#,
    },
];

/// Tools that `bash` replaces where every token counts.
const REPLACED_BY_BASH: [&str; 2] = ["glob", "ls"];

/// The spec of a tool for a small window; that of a tool that is not built in as it is.
pub(super) fn shorten(spec: &ToolSpec) -> ToolSpec {
    let is_own = spec.source == super::BUILTIN_SOURCE;
    match BRIEFS.iter().find(|brief| is_own && brief.name == spec.name) {
        Some(brief) => ToolSpec {
            description: brief.description.to_owned(),
            parameters: RawJson(brief.parameters.to_owned()),
            ..spec.clone()
        },
        None => spec.clone(),
    }
}

/// Returns whether a small window is told of a tool although nobody asked for it by name.
pub(super) fn is_essential(spec: &ToolSpec) -> bool {
    spec.source != super::BUILTIN_SOURCE || !REPLACED_BY_BASH.contains(&spec.name.as_str())
}
