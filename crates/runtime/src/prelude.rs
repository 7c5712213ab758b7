//! Everything that a program with an agent usually names: `use longhaul::prelude::*;`.

pub use longhaul_core::budget::StrategyTrigger;
pub use longhaul_core::estimate::TextCounter;
pub use longhaul_core::event::RunEnd;
pub use longhaul_core::message::{Message, Part, Role};
pub use longhaul_core::plan::PlanContext;
pub use longhaul_core::strategy::{
    CompactionSelection, CompactionStrategy, ProtectionLevel, UnitReplacement,
};
pub use longhaul_providers::Provider;
pub use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider};
pub use longhaul_store::{BlobStore, MemoryStore, Store};

pub use crate::agent::{Agent, AgentBuilder, BuildError};
pub use crate::async_strategy::{AsyncStrategy, ReplacementError, ReplacementRequest};
pub use crate::counter::counter_fn;
pub use crate::hooks::{
    ApprovalDecision, ApprovalRequest, PostToolUseRequest, PreCompactDecision, PreCompactRequest,
    PreToolUseRequest, PromptDecision, ToolCallDecision, UserPromptSubmitRequest,
};
pub use crate::session::{Runtime, Session, SessionError, Turn, TurnError, TurnOutput};
pub use crate::session_event::SessionEvent;
pub use crate::tools::{Tool, ToolContext, ToolOutput, tool_fn, tool_fn_with_schema};
