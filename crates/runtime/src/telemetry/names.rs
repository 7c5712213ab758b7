//! Names of attributes. Those of `gen_ai.*` come from open-telemetry/semantic-conventions-genai (status Development),
//! read November 2026. Where a name has replaced one of v1.41.0 that is still in use, both are sent. Those of
//! `longhaul.*` are our own.

pub(super) const OPERATION: &str = "gen_ai.operation.name";
pub(super) const PROVIDER: &str = "gen_ai.provider.name";
/// Replaced by [`PROVIDER`].
pub(super) const SYSTEM: &str = "gen_ai.system";
pub(super) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(super) const REQUEST_STREAM: &str = "gen_ai.request.stream";
pub(super) const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
pub(super) const RESPONSE_ID: &str = "gen_ai.response.id";
pub(super) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(super) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(super) const TIME_TO_FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
pub(super) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(super) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(super) const REASONING_TOKENS: &str = "gen_ai.usage.reasoning.output_tokens";
pub(super) const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(super) const CACHE_WRITE_TOKENS: &str = "gen_ai.usage.cache_write.input_tokens";
/// Replaced by [`CACHE_WRITE_TOKENS`].
pub(super) const CACHE_CREATION_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
pub(super) const CONVERSATION: &str = "gen_ai.conversation.id";
pub(super) const COMPACTED: &str = "gen_ai.conversation.compacted";
pub(super) const AGENT_NAME: &str = "gen_ai.agent.name";
pub(super) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(super) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(super) const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
pub(super) const ERROR_TYPE: &str = "error.type";
pub(super) const SESSION: &str = "session.id";

pub(super) const SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
pub(super) const INPUT_MESSAGES: &str = "gen_ai.input.messages";
pub(super) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub(super) const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(super) const TOOL_RESULT: &str = "gen_ai.tool.call.result";

/// The provider's name in the agent file.
pub(super) const LLM_PROVIDER: &str = "llm.provider";
pub(super) const LLM_MODEL: &str = "llm.model";
/// The purpose of a model call: `main`, `recovery`, `summary` or `count`.
pub(super) const PURPOSE: &str = "longhaul.purpose";
/// The number of times that a call was repeated within its span.
pub(super) const RETRIES: &str = "longhaul.retries";
pub(super) const RUN: &str = "longhaul.run.id";
/// The reason that a run ended, as in `run:complete`.
pub(super) const RUN_END: &str = "longhaul.run.end";
/// True if another process had begun the run.
pub(super) const RUN_RECOVERED: &str = "longhaul.run.recovered";
pub(super) const COMPACTION: &str = "longhaul.compaction.id";
pub(super) const COMPACTION_KIND: &str = "longhaul.compaction.kind";
pub(super) const STRATEGY: &str = "longhaul.compaction.strategy";
pub(super) const REASON: &str = "longhaul.compaction.reason";
pub(super) const TRIGGER_TOKENS: &str = "longhaul.compaction.trigger_tokens";
pub(super) const TOKENS_BEFORE: &str = "longhaul.compaction.tokens_before";
pub(super) const TOKENS_AFTER: &str = "longhaul.compaction.tokens_after";
/// The reason that there was no summary, if the compaction had to do without one.
pub(super) const SUMMARY_FAILURE: &str = "longhaul.compaction.summary_failure";

/// The substitute for a value without a known name: a tool that does not exist, an error without a class.
pub(super) const OTHER: &str = "_OTHER";

/// Returns the conventions' name for a provider. Servers that only speak a provider's protocol keep their name from the
/// agent file.
pub(super) fn provider(configured: &str) -> &str {
    match configured {
        "gemini" => "gcp.gemini",
        other => other,
    }
}
