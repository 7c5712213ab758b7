//! OpenAI Chat Completions, as OpenAI and compatible servers speak it (LM Studio, llama.cpp, vLLM, OpenRouter,
//! DeepSeek, Mistral, Groq …). Differences between servers are data in [`family`].

mod adaptation;
#[doc(hidden)]
pub mod edit;
pub mod family;
pub mod request;
mod response;
pub mod stream;

pub use adaptation::RequestAdaptations;
pub use family::ServerFamily;

/// The wire's name in [`ModelOrigin::api`](longhaul_core::message::ModelOrigin::api).
pub const API: &str = "openai-chat";
