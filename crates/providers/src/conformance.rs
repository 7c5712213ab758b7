//! The promises of every provider, as tests for any provider.
//!
//! A test module writes `longhaul_providers::provider_conformance!(make);`. The function
//! `async fn make(case: ConformanceCase) -> Option<ConformanceUpstream>` gives a provider whose model server plays
//! `case`. `None` means that the provider's wire cannot express the case. Each promise becomes a test of its own name.
//!
//! ```
//! use std::sync::Arc;
//!
//! use longhaul_providers::conformance::{self, ConformanceCase, ConformanceUpstream};
//! use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider};
//!
//! async fn make(case: ConformanceCase) -> Option<ConformanceUpstream> {
//!     let script = match case {
//!         ConformanceCase::Text => ModelScript::turns([ScriptedAnswer::text(conformance::TEXT)]),
//!         _ => return None,
//!     };
//!     Some(ConformanceUpstream::new(Arc::new(ScriptedProvider::new(script))))
//! }
//!
//! longhaul_providers::provider_conformance!(make);
//! # fn main() {}
//! ```

#[doc(hidden)]
pub mod promises;
mod server;

use std::fmt;
use std::pin::Pin;

use crate::SharedProvider;

pub use self::server::{ConformanceServer, ResponseEnd, ScriptedResponse};

/// The text of the complete answer. Two characters take more than one byte, so a careless decoder splits them.
pub const TEXT: &str = "Hello, wörld 😀.";

/// The text before the end in [`ConformanceCase::Length`], [`Held`](ConformanceCase::Held),
/// [`Withheld`](ConformanceCase::Withheld) and [`Truncated`](ConformanceCase::Truncated).
pub const PARTIAL_TEXT: &str = "Hal";

/// The calls of [`ConformanceCase::ToolCalls`] in order: the tool's name and the arguments, byte for byte.
pub const TOOL_CALLS: [(&str, &str); 2] =
    [("read", r#"{"path":"notes.md"}"#), ("list", r#"{"folder":"docs","depth":1.50}"#)];

/// The input tokens in the report of [`ConformanceCase::Text`].
pub const INPUT_TOKENS: u64 = 11;

/// The output tokens in the report of [`ConformanceCase::Text`].
pub const OUTPUT_TOKENS: u64 = 7;

/// The behaviour of the model server in a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConformanceCase {
    /// The model answers with [`TEXT`] in several pieces. The server reports [`INPUT_TOKENS`] and [`OUTPUT_TOKENS`].
    Text,
    /// The model makes the calls [`TOOL_CALLS`] in one answer, and says nothing else.
    ToolCalls,
    /// The model says [`PARTIAL_TEXT`] and reaches the output limit.
    Length,
    /// The model says [`PARTIAL_TEXT`]. Then nothing more arrives, and the answer stays open.
    Held,
    /// The server refuses the request, because the request is larger than the model's window.
    Overflow,
    /// The server refuses the request, because too many requests arrived. It asks for a wait of two seconds.
    RateLimit,
    /// The model says [`PARTIAL_TEXT`]. Then the server withholds the rest because of its content.
    Withheld,
    /// The model says [`PARTIAL_TEXT`]. Then the answer ends without its closing event.
    Truncated,
}

/// A provider whose model server plays one case.
pub struct ConformanceUpstream {
    provider: SharedProvider,
    server: Option<ConformanceServer>,
    disconnect: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl ConformanceUpstream {
    /// Creates the upstream of `provider`, without knowledge of the server.
    pub fn new(provider: SharedProvider) -> Self {
        Self { provider, server: None, disconnect: None }
    }

    /// Sets the server that the provider asks. The suite then compares the received body with
    /// [`render`](crate::Provider::render), and sees a client that disconnects.
    #[must_use]
    pub fn server(mut self, server: ConformanceServer) -> Self {
        self.server = Some(server);
        self
    }

    /// Sets the signal of a provider without [`server`](Self::server): `signal` ends once the server side of a call
    /// is told that the client has gone.
    #[must_use]
    pub fn disconnect(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.disconnect = Some(Box::pin(signal));
        self
    }
}

impl fmt::Debug for ConformanceUpstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConformanceUpstream").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Makes one test of each promise. See [the module](mod@crate::conformance).
///
/// The calling crate needs `tokio` with the features `macros`, `net`, `rt` and `time`.
#[macro_export]
macro_rules! provider_conformance {
    ($make:ident) => {
        $crate::provider_conformance! { $make:
            a_text_arrives_whole_with_one_end,
            usage_counts_the_whole_input_and_output,
            tool_calls_keep_their_order_and_their_bytes,
            an_answer_at_the_output_limit_ends_with_length,
            text_arrives_before_the_answer_ends,
            a_dropped_stream_ends_the_call,
            an_overflow_is_named_and_not_retryable,
            a_rate_limit_is_named_and_retryable,
            a_withheld_answer_is_refused_and_keeps_its_text,
            a_broken_stream_is_an_error_and_keeps_its_text,
            rendering_is_repeatable_and_is_what_is_sent,
        }
    };
    ($make:ident: $($promise:ident),+ $(,)?) => {
        mod provider_conformance {
            $(
                #[tokio::test]
                async fn $promise() {
                    $crate::conformance::promises::$promise(super::$make).await;
                }
            )+
        }
    };
}
