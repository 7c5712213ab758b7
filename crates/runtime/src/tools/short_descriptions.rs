//! The built-in tools for a model with a small window: with short descriptions, and without those that a shell
//! replaces.

use longhaul_core::message::{RawJson, ToolSpec};

/// The short spec of one tool. Calls may still use arguments that are not in the short schema.
struct ShortToolSpec {
    name: &'static str,
    description: &'static str,
    parameters: &'static str,
}

/// The tools that are offered by default, then those that are offered if `tools.enabled` names them.
const BRIEFS: [ShortToolSpec; 7] = [
    ShortToolSpec {
        name: "read",
        // Small models fill in every argument that they see, such as `limit: 1`.
        description: "Read a file. Of a long file, the rest from line `offset` on.",
        parameters: r#"{"type":"object","properties":{"path":{"type":"string"},"offset":{"type":"integer"}},"required":["path"],"additionalProperties":false}"#,
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
        parameters: r#"{"type":"object","properties":{"pattern":{"type":"string"},"glob":{"type":"string"}},"required":["pattern"],"additionalProperties":false}"#,
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

/// The tools that `bash` replaces where every token counts.
const REPLACED_BY_BASH: [&str; 2] = ["glob", "ls"];

/// Returns the spec of a tool for a small window. A tool that is not built in keeps its spec.
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

/// Reports whether a small window includes a tool that was not enabled by name.
pub(super) fn is_essential(spec: &ToolSpec) -> bool {
    spec.source != super::BUILTIN_SOURCE || !REPLACED_BY_BASH.contains(&spec.name.as_str())
}
