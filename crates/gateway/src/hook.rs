//! The PreCompact hook as the gateway calls it.

use async_trait::async_trait;
use longhaul_core::run::{PreCompactInput, PreCompactOutput};

/// A hook that is asked before a client's conversation is compacted. The hook may cancel the compaction, give
/// instructions for the summary, or give the summary itself.
#[async_trait]
pub trait PreCompactHook: Send + Sync {
    /// Returns the hook's answer, or `None` if the hook failed or was late: the compaction continues then.
    /// `conversation` names the beginning of the conversation, so all requests of one conversation share one name.
    async fn answer(&self, conversation: &str, ask: PreCompactInput) -> Option<PreCompactOutput>;
}
