//! One module for each command. Only this module prints the reason for a command's early end.

pub(crate) mod acp;
pub(crate) mod chat;
pub(crate) mod compact;
pub(crate) mod compactions;
pub(crate) mod context;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod lab;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod orders;
mod reading;
pub(crate) mod recall;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod tokens;
pub(crate) mod transfer;
pub(crate) mod undo;
pub(crate) mod wrap;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use longhaul::config_agent::McpFailurePolicy;
use longhaul::session::{Runtime, Session};
use longhaul_core::budget::ASSUMED_WINDOW;
use longhaul_core::run::Run;
use longhaul_providers::http::{operation_hint, warn_of_base_url};
use longhaul_wire::base_url::without_operation;
use tracing_subscriber::EnvFilter;

use crate::agent_file::ResolvedConfig;
use crate::args::{CliArgs, CliCommand, ServeArgs};
use crate::assemble::{self, ToolApprovalMode};
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, Outcome};
use crate::term::human::grouped;
use crate::term::log::{LogLineWriter, NoticeFormat};
use crate::term::style::TextPainter;
use crate::term::{out, text};
use crate::{agent_file, data, hosted_providers, model_discovery};

/// The maximum time an abandoned read from the terminal may delay the exit.
const LEAVE_AFTER: Duration = Duration::from_millis(100);

/// The environment variable with the filter of log lines.
const LOG_VARIABLE: &str = "LONGHAUL_LOG";

/// The default filter of log lines. The warnings of these libraries are already in an answer to the other
/// side.
const QUIETLY: &str = "warn,rmcp=off,agent_client_protocol=off";

/// A filter for sqlx's `info` lines at every start, which tell an operator nothing.
const ALWAYS_QUIETLY: &str = "sqlx::postgres::notice=warn";

/// The warning about a model without tools.
pub(crate) const NO_TOOLS: &str =
    "the server says that this model takes no tools: it can talk, but not read, write or run anything";

/// Runs the command of the command line.
pub(crate) fn start(args: CliArgs, hidden: io::Result<()>, heap: io::Result<()>) -> ExitCode {
    let done = CliEnvironment::look_around(&args.globals).and_then(|mut place| {
        // The log is set up before anything else, so that the first warnings are seen.
        log_to_stderr(&place, matches!(args.command, Some(CliCommand::Run(_))));
        // The process hides itself before the log exists, so the failure is reported here.
        if let Err(error) = hidden {
            tracing::warn!(
                "other processes of this user may read this process's memory, because it cannot be hidden \
                 from them: {error}"
            );
        }
        if let Err(error) = heap {
            tracing::warn!(
                "memory use may stay high, because this process cannot restart itself with other malloc \
                 thresholds: {error}. To set them, put MALLOC_MMAP_THRESHOLD_=1048576 and \
                 MALLOC_TRIM_THRESHOLD_=1048576 into the environment"
            );
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let command = resolve_command(args.command, args.bare)?;
        place.command_name = name_of(&command);
        tracing::debug!(
            workspace = %place.workspace.display(),
            data = %place.data_dir.display(),
            version = env!("CARGO_PKG_VERSION"),
            "the command begins"
        );
        // The future holds the state of every command, so it lives on the heap and not on the main thread's stack.
        let done = runtime.block_on(Box::pin(dispatch(command, &place)));
        // A blocked read of the terminal cannot be cancelled, and a dropped runtime would wait for its end.
        runtime.shutdown_timeout(LEAVE_AFTER);
        done
    });
    done.unwrap_or_else(|failure| explain(&failure))
}

/// Returns the command; without a command the server.
///
/// # Errors
/// Usage: options of the server before a command.
fn resolve_command(command: Option<CliCommand>, bare: ServeArgs) -> Outcome<CliCommand> {
    match command {
        None => Ok(CliCommand::Serve(ServeArgs { open: true, ..bare })),
        Some(command) if bare == ServeArgs::default() => Ok(command),
        Some(_) => Err(CommandError::usage(
            "--addr, --token-file, --db, --advertise, --blobs, --yes and --open must follow the command, \
             for example `longhaul serve --addr 127.0.0.1:4401`; all but --yes are options of `serve` alone",
        )),
    }
}

/// Returns the name of a command that also works in another data folder. Empty for the others.
fn name_of(command: &CliCommand) -> &'static str {
    match command {
        CliCommand::Chat(_) => "chat",
        CliCommand::Run(_) => "run …",
        CliCommand::Demo(_) => "demo",
        CliCommand::Serve(_) => "serve",
        _ => "",
    }
}

async fn dispatch(command: CliCommand, place: &CliEnvironment) -> Outcome {
    match command {
        CliCommand::Chat(args) => chat::run(args, place).await,
        CliCommand::Run(args) => run::run(args, place).await,
        CliCommand::Demo(args) => demo::run(args, place).await,
        CliCommand::Sessions(command) => sessions::run(command, place).await,
        CliCommand::Context(args) => context::run(args, place).await,
        CliCommand::Compact(args) => compact::run(args, place).await,
        CliCommand::Compactions(args) => compactions::run(args, place).await,
        CliCommand::Orders(args) => orders::run(args, place).await,
        CliCommand::Undo(args) => undo::run(args, place).await,
        CliCommand::Recall(args) => recall::run(args, place).await,
        CliCommand::Tokens(args) => tokens::run(&args, place).await,
        CliCommand::Models(args) => models::run(&args, place).await,
        CliCommand::Serve(args) => Box::pin(serve::run(args, place)).await,
        CliCommand::Acp(args) => acp::run(args, place).await,
        CliCommand::Mcp => mcp::run(place).await,
        CliCommand::Lab(command) => lab::run(command, place).await,
        CliCommand::Wrap(args) => wrap::run(&args, place).await,
        CliCommand::Migrate(args) => transfer::migrate(args, place).await,
        CliCommand::Backup(args) => transfer::backup(args, place).await,
        CliCommand::Restore(args) => transfer::restore(args, place).await,
        CliCommand::Doctor => doctor::run(place).await,
    }
}

/// Logs warnings to standard error, unless `LONGHAUL_LOG` names other lines (like `RUST_LOG` elsewhere). The
/// warnings of rmcp reach people as errors of our own. `as_notices` makes the warnings look like the command's own.
fn log_to_stderr(place: &CliEnvironment, as_notices: bool) {
    let asked =
        // The person's own words come last and can turn the hidden lines on again.
        place.variable(LOG_VARIABLE).map(|text| EnvFilter::try_new(format!("{ALWAYS_QUIETLY},{text}")));
    let (filter, misread) = match asked {
        Some(Ok(filter)) => (filter, None),
        Some(Err(error)) => (EnvFilter::new(QUIETLY), Some(error)),
        None => (EnvFilter::new(QUIETLY), None),
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(LogLineWriter::default)
        .with_ansi(place.terminal.colour_messages())
        .with_target(false)
        .without_time()
        // Errors of the log would go to standard error, which may be closed. A closed log is no reason to fail.
        .log_internal_errors(false);
    // Set once; a second time would change nothing. A person who asked for a log gets the levels, too.
    let _ = if as_notices && !wants_log(place) {
        subscriber.event_format(NoticeFormat).try_init()
    } else {
        subscriber.try_init()
    };
    if let Some(error) = misread {
        tracing::warn!("{LOG_VARIABLE} is not understood ({error}): warnings are shown, as without it");
    }
}

/// Reports whether the person asked for log lines.
fn wants_log(place: &CliEnvironment) -> bool {
    place.variable(LOG_VARIABLE).is_some()
}

fn explain(failure: &CommandError) -> ExitCode {
    tracing::debug!("the command failed");
    // The message is empty if it has no reader any more, for example after a closed pipe.
    if !failure.message().is_empty() {
        out::complaint(&format!("longhaul: {}\n", failure.message()));
    }
    failure.status()
}

/// The reason that a command needs the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AgentRequirement {
    /// The command calls the model: there must be one.
    Model(ToolApprovalMode),
    /// The command looks at a session as the model would see it. An unreachable server is no obstacle.
    View,
}

/// Opens the data folder under the configured agent.
async fn open(place: &CliEnvironment, need: AgentRequirement) -> Outcome<Runtime> {
    let mut loaded = agent_file::load(place)?;
    let (asking, missing) = match need {
        AgentRequirement::Model(asking) => {
            leave_out_operation(place, &mut loaded);
            loaded = model_discovery::complete(place, loaded).await?;
            // Checked before the data folder is opened, so a missing key does not lock the sessions for a moment.
            assemble::check_key(place, &loaded.config.model)?;
            hosted_providers::log_choice(&loaded);
            if let Some(unset) = assemble::unset_model_key(place, &loaded) {
                tracing::warn!("{}", text::visible(&unset));
            }
            (asking, McpFailurePolicy::Refuse)
        }
        AgentRequirement::View => (ToolApprovalMode::Nobody, McpFailurePolicy::Warn),
    };
    // The folder is opened first: "another process has it" is a more useful answer than a model's error.
    let data = data::open(place, loaded.config.blobs.max_bytes).await?;
    let mut agent = assemble::agent(place, &loaded.config, asking, missing).await?;
    // A command that only looks makes no run, so it has no spans and no trigger to warn of.
    if let AgentRequirement::Model(_) = need {
        agent.telemetry = assemble::telemetry(&loaded.config)?;
        let fixed = agent.fixed_share();
        let fixed_tokens = fixed.system + fixed.tools.iter().map(|share| share.tokens).sum::<u64>();
        if let Some(problem) = agent_file::misplaced_trigger(&loaded, fixed_tokens) {
            tracing::warn!("{problem}");
        }
    }
    Ok(Runtime::new(agent, data.store, data.blobs))
}

/// Leaves out the path of an operation at the end of `--base-url`, with a warning. The library's own warning names the
/// key of the agent file, and a flag was used.
fn leave_out_operation(place: &CliEnvironment, loaded: &mut ResolvedConfig) {
    let named = place.overrides.base_url.as_deref();
    if let Some((url, base)) = named.and_then(|url| Some((url, without_operation(url)?))) {
        let hint = operation_hint(url, &base);
        warn_of_base_url(&hint.replace("set `base_url` to it", "give it as --base-url"));
        loaded.config.model.base_url = base;
    }
}

/// Returns a one-line note if no source states the size of the model's window.
async fn assumed_window(session: &Session, runtime: &Runtime) -> Outcome<Option<String>> {
    let agent = runtime.agent();
    if agent.limits.window.is_some() {
        return Ok(None);
    }
    let model = text::one_line(&agent.provider.origin().model);
    Ok(session
        .inspect_run(|run: &Run| run.history().window().is_none() && run.budget().window == ASSUMED_WINDOW)
        .await?
        .then(|| {
            let tokens = grouped(ASSUMED_WINDOW);
            format!("the window of {model} is unknown: {tokens} tokens are assumed; set model.context_window")
        }))
}

/// Opens the requested session.
async fn find(place: &CliEnvironment, runtime: &Runtime, meant: &str) -> Outcome<Session> {
    let record = crate::session_lookup::session(place, runtime.store(), meant).await?;
    Ok(runtime.open(&record.id).await?)
}

/// Returns the style of standard output.
fn style(place: &CliEnvironment) -> TextPainter {
    TextPainter::new(place.terminal.colour_output())
}
