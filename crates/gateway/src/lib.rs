//! A proxy between clients and model servers. Conversations stay inside the model's context window.
//!
//! A client that speaks Chat Completions, Responses or Messages sends its whole history with every request. A request
//! that fits passes byte for byte. A longer one is shortened with the session's history, meter and planner. The
//! decision for a prefix is remembered and applied again. An answer that outgrows its window is stopped, room is made,
//! and the answer continues in the same stream.
//!
//! A client sends no name for its conversation. The gateway knows a conversation by its *items*, the elements of the
//! client's list of messages. A hash names each item, and a chain of hashes names each prefix of the list. Four things
//! are kept for a conversation:
//!
//! - the *log* (`exchange::log`), built from the items in memory, with the view and the meter of a session,
//! - the *memo*, the stored edits of each prefix ([`longhaul_store::prefix_cache`]), which survive a restart,
//! - the *journal* (`exchange::journal`), the counts and refusals that have shaped the log, stored in the memo,
//! - the entry in the cache (`exchange::cache`), which spares the parsing of items that are known.
//!
//! One request passes four types: [`ClientRequest`] as it came, `ProxiedRequest` with its upstreams, `TargetedRequest`
//! for one upstream, and `OutboundRequest` as it is sent. `longhaul_core::exchange` decides what follows each attempt,
//! and `exchange::driver` performs it.
//!
//! The crate [`longhaul_wire`] holds the formats of requests, streams and errors. Its `edit` modules edit the client's
//! requests. Its `response_writer` writes an answer in the wire of another client.

mod exchange;
mod gateway;
mod headers;
mod hook;
mod relay;
mod response_store;
mod upstream;
mod window;

pub use gateway::{
    BrokenAnswerError, ClientRequest, CompactionSetup, CredentialSource, Gateway, GatewayDependencies,
    GatewayOptions, GatewayReply, GatewayRequest, ListedModel, MidstreamMode, RecallMode, ReplyBody,
    ReplyStream, SetupError, ToolDeferralMode, refusal_in,
};
pub use hook::PreCompactHook;
pub use longhaul_providers::connect::Kind;
pub use longhaul_wire::edit::{Dialect, GatewayError, GatewayErrorKind};
pub use relay::RelayEndpoint;
pub use upstream::{UpstreamModelEntry, UpstreamOptions};
pub use window::{KnownWindow, NoSharedWindowStore, SharedWindowStore};
