//! A proxy between clients and model servers. Conversations stay inside the model's context window.
//!
//! A client that speaks Chat Completions, Responses or Messages sends its whole history with every request. A request
//! that fits passes byte for byte. A longer one is shortened with the session's history, meter and planner. The
//! decision for a prefix is remembered and applied again. An answer that outgrows its window is stopped, room is made,
//! and the answer continues in the same stream.
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
