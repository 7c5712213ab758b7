//! Longhaul as a library: agents whose conversations outgrow the model's window and lose no message.
//!
//! A chat whose answer is printed while it comes:
//!
//! ```no_run
//! use std::io::Write;
//!
//! use longhaul::prelude::*;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let agent = Agent::builder().openai_compatible("http://localhost:1234/v1", "qwen3-8b").build().await?;
//!     let session = agent.session().await?;
//!     let mut turn = session.turn("Why is the sky blue?").await?;
//!     while let Some(event) = turn.next().await {
//!         if let SessionEvent::TextDelta { text, .. } = event? {
//!             print!("{text}");
//!             std::io::stdout().flush()?;
//!         }
//!     }
//!     Ok(())
//! }
//! ```
//!
//! ```toml
//! [dependencies]
//! longhaul = "0.2"
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! # For the arguments of tools:
//! schemars = "1"
//! serde = { version = "1", features = ["derive"] }
//! ```
//!
//! [`Agent::builder`] takes a model and has defaults for everything else. [`AgentBuilder::build`] gives a [`Runtime`]:
//! the agent, its store and its open sessions. A [`Session`] is one conversation. [`Session::turn`] sends a message and
//! returns the [`Turn`], a stream of [`SessionEvent`]s; [`Turn::finish`] returns the final answer and the usage. When
//! the runtime is dropped its sessions stop; their messages are in the store.
//!
//! A turn without printing:
//!
//! ```
//! # use longhaul::prelude::*;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = ScriptedProvider::new(ModelScript::always("Because of Rayleigh scattering."));
//! let agent = Agent::builder().provider(model).system("Be brief.").build().await?;
//! let output = agent.session().await?.turn("Why is the sky blue?").await?.finish().await?;
//! assert_eq!(output.text, "Because of Rayleigh scattering.");
//! # Ok(()) }
//! ```
//!
//! [`ScriptedProvider`](providers::scripted::ScriptedProvider) is a model that follows a script: for tests, and for the
//! examples below.
//!
//! # A tool
//!
//! A tool is an async closure. The schema of its arguments is derived from their type ([`tool_fn`](tools::tool_fn)):
//!
//! ```
//! # use longhaul::prelude::*;
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct City {
//!     name: String,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let model = ScriptedProvider::new(ModelScript::turns([
//! #     ScriptedAnswer::calling("weather", r#"{"name":"Bern"}"#),
//! #     ScriptedAnswer::text("It is sunny."),
//! # ]));
//! let weather = tool_fn("weather", "Tells the weather of a city", |city: City, _context| async move {
//!     format!("It is sunny in {}.", city.name)
//! });
//! let agent = Agent::builder().provider(model).tool(weather).build().await?;
//! # let output = agent.session().await?.turn("What is the weather in Bern?").await?.finish().await?;
//! # assert_eq!((output.text.as_str(), output.steps), ("It is sunny.", 2));
//! # Ok(()) }
//! ```
//!
//! Tools that change something may need approval: [`FunctionTool::with_approval`](tools::FunctionTool::with_approval),
//! decided by [`AgentBuilder::on_approval`]. Without a handler such calls are denied, so that nothing waits for ever.
//!
//! # A hook
//!
//! A closure decides about each compaction before it begins ([`PreCompactDecision`](hooks::PreCompactDecision)). Others
//! decide about tool calls and messages ([`hooks`]):
//!
//! ```
//! # use longhaul::prelude::*;
//! # async fn example(builder: AgentBuilder) -> Result<(), BuildError> {
//! let agent = builder
//!     .on_pre_compact(|request| async move {
//!         PreCompactDecision::cancel_if(request.what_goes.messages < 10, "too little would go")
//!     })
//!     .on_pre_tool_use(|request| async move {
//!         ToolCallDecision::deny_if(request.tool_name == "bash", "no commands today")
//!     })
//!     .build()
//!     .await?;
//! # Ok(()) }
//! ```
//!
//! # A strategy
//!
//! A [`CompactionStrategy`](core::strategy::CompactionStrategy) chooses which messages make room, and when. `choose` flags
//! the units of the view to drop; a unit is one message, or an answer with the results of its tools. The planner keeps tool
//! calls with their results and the newest message, and checks that the request becomes smaller:
//!
//! ```
//! use longhaul::prelude::*;
//!
//! /// Keeps the newest two turns.
//! struct NewestTurns;
//!
//! impl CompactionStrategy for NewestTurns {
//!     fn name(&self) -> &str {
//!         "newest-turns"
//!     }
//!     fn trigger(&self) -> StrategyTrigger {
//!         StrategyTrigger::Share(0.7)
//!     }
//!     fn choose(&self, context: &PlanContext<'_>, _: ProtectionLevel) -> Option<CompactionSelection> {
//!         let cut = context.turn_start(2);
//!         (cut > 0).then(|| CompactionSelection::new(context.before_cut(cut), UnitReplacement::Note))
//!     }
//! }
//!
//! let builder = Agent::builder().strategy(NewestTurns);
//! ```
//!
//! # A token counter
//!
//! ```
//! use longhaul::prelude::*;
//!
//! let words = counter_fn("words", |text| text.split_whitespace().count() as u64);
//! let builder = Agent::builder().token_counter(words.exact());
//! ```
//!
//! # Only the planner
//!
//! A program that keeps its conversations itself needs neither a session nor a store: [`core::fit()`] is a pure
//! function.
//!
//! ```
//! use longhaul::core::{Window, fit};
//! use longhaul::prelude::*;
//!
//! let messages = vec![Message::user("m1", vec![Part::text("Hi")])];
//! let fitted = fit(&messages, &Window::tokens(16_000))?;
//! assert_eq!(fitted.messages, messages);
//! # Ok::<(), longhaul::core::plan::ContextOverflow>(())
//! ```
//!
//! # Features
//!
//! A feature adds and changes no interface. `default-features = false` leaves an agent with chat, tools, files,
//! commands, hooks, strategies and a store in memory.
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `compression` | yes | answers that a server compresses unasked are read |
//! | `http2` | yes | HTTP/2, where a server offers it |
//! | `images` | yes | pictures are decoded, checked and made smaller for the model's server. Without it, a picture within the server's limits is sent as it is, and a larger one is left out with a note |
//! | `mcp` | yes | the module `mcp`: the tools of MCP servers |
//! | `sqlite` | yes | `AgentBuilder::sqlite` keeps sessions in a folder; the crate `store_sqlite` |
//! | `yaml` | yes | agent files in YAML; without it they are JSON |
//! | `import` | no | the module `import`: sessions from the files of other programs |
//! | `telemetry` | no | spans and metrics for OpenTelemetry ([`telemetry`]) |
//! | `tokenizers` | no | the key `context.tokenCounter` of an agent file: the vocabularies of OpenAI's models, and any `tokenizer.json` |
//!
//! Commands are confined whatever the features are.
//!
//! # Names
//!
//! [`prelude`] has the names of all examples. [`core`], [`providers`] and [`store`] are the crates below this one.
//!
//! The library prints nothing, reads no variable of the environment and no home folder; everything is handed in. The
//! builder alone chooses a place itself: the system's folder for temporary files.

#![cfg_attr(docsrs, feature(doc_cfg))]

// Modules that are hidden in the documentation are for the server and the command line.
pub mod agent;
#[doc(hidden)]
pub mod agents;
#[doc(hidden)]
pub mod api_events;
pub mod async_strategy;
#[doc(hidden)]
pub mod calibration;
#[doc(hidden)]
pub mod clock;
#[doc(hidden)]
pub mod compaction;
#[doc(hidden)]
pub mod config;
#[doc(hidden)]
pub mod config_agent;
pub mod context;
pub mod counter;
mod driver;
#[doc(hidden)]
pub mod event_bus;
pub mod export;
pub mod hooks;
#[cfg(feature = "import")]
pub mod import;
#[doc(hidden)]
pub mod io_error;
#[cfg(feature = "mcp")]
pub mod mcp;
#[doc(hidden)]
pub mod picture;
pub mod prelude;
#[doc(hidden)]
pub mod recall;
pub mod sandbox;
pub mod session;
pub mod session_event;
pub mod settings;
mod ssrf_guard;
pub mod telemetry;
#[doc(hidden)]
pub mod testing;
#[doc(hidden)]
pub mod text_encoding;
pub mod tools;
pub mod workspace;

pub use async_trait::async_trait;
pub use bytes::Bytes;
pub use longhaul_core as core;
pub use longhaul_core::{
    FittableContent, FittableMessage, FittedMessages, Window, fit, fit_anthropic, fit_openai, fit_with,
};
pub use longhaul_providers as providers;
pub use longhaul_store as store;
#[cfg(feature = "sqlite")]
pub use longhaul_store_sqlite as store_sqlite;
pub use schemars;

pub use self::agent::{Agent, AgentBuilder, BuildError};
pub use self::session::{Runtime, Session, SessionError, Turn, TurnError, TurnOutput};
pub use self::session_event::SessionEvent;
