//! Between any client and any model server, so that conversations never run out of room.
//!
//! A client that speaks Chat Completions, Responses or Messages sends its whole history with every request. What fits
//! goes through byte for byte. What does not is shortened as in a session (the same history, meter and planner), and
//! what was once decided for a prefix is remembered. An answer that outgrows its window is stopped, room is made, and
//! it goes on in the same stream.
//!
//! The formats of requests, streams and errors are in [`longhaul_wire`]: clients in its `edit` modules, answers in the wire of
//! another client in its `response_writer`.

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
pub use longhaul_wire::edit::Dialect;
pub use relay::RelayEndpoint;
pub use upstream::{UpstreamModelEntry, UpstreamOptions};
pub use window::{KnownWindow, NoSharedWindowStore, SharedWindowStore};
