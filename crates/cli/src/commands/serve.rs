//! `longhaul serve`: the agent behind HTTP, until a signal ends it.

mod browser;
mod settings;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longhaul::agent::SummaryModel;
use longhaul::config::{AgentConfig, GatewayAuth, ModelConfig, ProviderKind};
use longhaul::config_agent::McpFailurePolicy;
use longhaul::io_error::io_error_text;
use longhaul::session::Runtime;
use longhaul_core::budget::ASSUMED_WINDOW;
use longhaul_gateway::{CompactionSetup, Gateway};
use longhaul_server::{
    AccessToken, AppState, BoxFuture, HttpServerConfig, MaintenanceConfig, ModelBackend, ServerEnvironment,
    ServerMetrics, serve,
};
use longhaul_store::SharedUpkeep;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::agent_file::{self, ResolvedConfig};
use crate::args::ServeArgs;
use crate::assemble::{self, ToolApprovalMode};
use crate::data::DRAINING;
use crate::data::shared::SharedStoreConfig;
use crate::environment::{AGENT_FILE, CliEnvironment};
use crate::failure::{CANCELLED, CommandError, DONE, Outcome};
use crate::model_discovery::ServerProbeResult;
use crate::server_address::RunningServer;
use crate::signals::InterruptSignals;
use crate::term::human::{self, grouped};
use crate::term::{out, text};
use crate::{data, demo, hosted_providers, model_discovery, trust};

/// The name of the token's file in the data folder.
pub(super) const TOKEN_FILE: &str = "token";

/// The limit of open files requested by the server. Tools inherit the limit, and some programs close every
/// possible file at their start, so it is not the largest possible one.
const OPEN_FILES: u64 = 65_536;

/// The number of ports tried for a free one.
const NEXT_PORTS: usize = 20;

/// A delay hardly noticed by a person.
const SOON: Duration = Duration::from_millis(100);

pub(crate) async fn run(args: ServeArgs, place: &CliEnvironment) -> Outcome {
    let loaded = agent_file::load(place)?;
    // The command line wins over the file, as everywhere.
    let addr = args.addr.unwrap_or(loaded.config.server.addr);
    let token_file = args.token_file.clone().or_else(|| token_file(&loaded));
    if !addr.ip().is_loopback() && token_file.is_none() {
        return Err(CommandError::usage(format!(
            "{addr} can be reached from other machines: name the token they need with --token-file, or as server.tokenFile"
        )));
    }
    allow_many_connections();
    // Listened to before the folder is opened, so that a signal from here on ends the server properly.
    let mut interrupts = InterruptSignals::listen()?;
    let asking = if args.yes { ToolApprovalMode::Allowed } else { ToolApprovalMode::Person };
    let counters = ServerMetrics::default();
    let token_path = token_file.unwrap_or_else(|| place.data_dir.join(TOKEN_FILE));
    // Other nodes are told where this one listens, and that it has their token.
    let (mut early, mut hold) = (None, None);
    let shared = match &args.db {
        Some(db) => {
            // Bound before the database is joined: a node that cannot listen must not be announced.
            let listener = listen(place, &args, addr).await?;
            let near = reachable(listener.local_addr()?).to_string();
            // The folder has the node's settings and token, which one node at a time may use.
            hold = Some(data::hold(place).await?);
            let token = token(&token_path, place)?;
            let token_digest = Some(token.digest());
            early = Some((listener, token));
            if args.advertise.is_none() && addr.ip().is_unspecified() {
                tracing::warn!(address = %near, "other machines cannot reach this address: set --advertise");
            }
            let address = Some(args.advertise.clone().unwrap_or(near));
            Some(SharedStoreConfig { db: db.clone(), address, token_digest, blobs: args.blobs.clone() })
        }
        None => None,
    };
    // This may wait for another server to end or for MCP servers to start, so a signal must end it.
    let opened = tokio::select! {
        opened = open(place, loaded.clone(), asking, &counters, shared.as_ref()) => opened,
        // Nothing was served yet, so there is nothing to drain.
        () = interrupts.next() => return Ok(ExitCode::from(CANCELLED)),
    };
    // A person who wants the page gets the page of the server that has the folder.
    if let (Err(_), true, Some(other)) = (&opened, args.open, RunningServer::find(&place.data_dir)) {
        browser::open(place, &other.page);
    }
    let ServerResources { runtime, chosen, gateway, upkeep, silent_server } = opened?;
    let is_demo = chosen == ServedModelChoice::Demo;
    let (listener, token) = match early {
        Some(early) => early,
        None => {
            let token = token(&token_path, place)?;
            // Bound after the folder is opened: a second server fails with the folder's reason and not with the
            // port's.
            (listen(place, &args, addr).await?, token)
        }
    };
    let address = listener.local_addr()?;
    tracing::info!(%address, gateway = gateway.is_some(), model = ?chosen, "the server listens");
    let is_open = loaded.config.gateway.auth == GatewayAuth::OpenOnLoopback;
    let has_gateway = gateway.is_some();
    let mut config = config(&loaded, token, address, is_demo);
    config.counters = counters;
    config.gateway = gateway;
    config.gateway_is_open = is_open;
    config.keeping =
        upkeep.map(|upkeep| MaintenanceConfig { upkeep, sessions: loaded.config.server.keep_sessions });
    // Other nodes send requests to this name, and a request under an unknown name is refused before anything else.
    config.allowed_hosts.extend(args.advertise.clone());
    let agent = runtime.agent();
    let sandbox = Arc::clone(&agent.sandbox);
    let unmeasured = agent.window().is_none().then(|| agent.provider.origin().model);
    let app = AppState::new(runtime, config);
    let page = format!("http://{}", reachable(address));
    let link = format!("{page}{}", app.opening_path()?);
    // The record is written once the port is bound, because others open the page by it.
    let mut told = RunningServer::here(page, token_path.clone()).write_record(&place.data_dir);
    if let Err(error) = &told {
        tracing::warn!(%error, "the server runs, but its address was not recorded for other commands");
    }
    // The bare address is the only data on standard output, for scripts. What people read goes to standard error.
    out::line(&format!("http://{address}"))?;
    out::told(&format!(
        "open   {link}   (once, within ten minutes)\ntoken  {}, for other clients\n",
        place.shown(&token_path)
    ));
    assemble::say_exposed(place, &sandbox);
    for unset in assemble::unset_keys(place, &loaded) {
        out::told(&format!("note   {}\n", text::visible(&unset)));
    }
    if let Some(server) = silent_server {
        out::told(&server_is_silent(&server, loaded.config.retry.patience));
    }
    match chosen {
        ServedModelChoice::Named => {}
        ServedModelChoice::ByKey { model, terms } => out::told(&format!("model  {model}\n       {terms}\n")),
        ServedModelChoice::Demo => out::told("model  none was found: the demo's scripted one answers\n"),
    }
    if has_gateway {
        let root = reachable(address);
        out::told(&format!("v1     http://{root}/v1, a gateway for clients of OpenAI and Anthropic\n"));
        if let Some(model) = unmeasured {
            out::told(&assumed(&model));
        }
    }
    if args.open {
        browser::open(place, &link);
    }
    let ending = app.clone();
    // The server still serves while it drains, so the signal is told on a channel of its own.
    let (asked, is_asked) = oneshot::channel();
    let served = serve(listener, app, async move { end(&ending, &mut interrupts, asked).await });
    tokio::pin!(served);
    tokio::select! {
        ended = &mut served => ended?,
        _ = is_asked => {
            // A second `serve` waits for this one to end.
            if let Ok(told) = &mut told
                && let Err(error) = told.ends()
            {
                tracing::warn!(%error, "the shutdown could not be recorded: a new server will not wait for \
                                        this one");
            }
            served.await?;
        }
    }
    // The record and the folder are given up last, when nothing writes any more.
    drop((told, hold));
    Ok(DONE)
}

/// Returns the note about a named server without an answer.
fn server_is_silent(base_url: &str, patience: Option<Duration>) -> String {
    let wait = match patience {
        Some(patience) if patience.as_secs() == 0 => "requests fail until it answers".to_owned(),
        Some(patience) => {
            format!("requests wait for it, {} at most (retry.patience)", human::limit(patience))
        }
        None => "requests wait until it answers".to_owned(),
    };
    format!(
        "note   the model's server {} does not answer: {wait}; start it, or change model.base_url\n",
        text::visible(base_url)
    )
}

/// Returns the remedy for a model whose window no source states.
fn assumed(model: &str) -> String {
    let (model, tokens) = (text::one_line(model), grouped(ASSUMED_WINDOW));
    format!(
        "       the window of {model} is unknown: {tokens} tokens are assumed; set it in {AGENT_FILE}, \
         model: {{ context_window: N }}\n"
    )
}

/// Waits for the end: a signal and then no running work, enough time, or a second signal. Runs that wait for a person
/// are cancelled at once.
async fn end(app: &AppState, interrupts: &mut InterruptSignals, asked: oneshot::Sender<()>) {
    interrupts.next().await;
    tracing::info!("shutdown requested: no new work starts, and running work may finish");
    // The receiver is gone if the server failed meanwhile.
    let _ = asked.send(());
    let withdrawn = withdrawn(app.open_questions());
    let drained = app.drain(DRAINING);
    tokio::pin!(drained);
    out::told(&withdrawn);
    // No note on the wait is needed if nothing runs.
    if tokio::time::timeout(SOON, &mut drained).await.is_ok() {
        return;
    }
    out::told(&stopping());
    tokio::select! {
        () = drained => tracing::debug!("all runs have finished"),
        () = interrupts.next() => tracing::info!("second shutdown request: runs are interrupted, and go on \
                                                  with the next message"),
    }
}

/// Returns what a shutdown waits for, and how to end it at once.
fn stopping() -> String {
    let seconds = DRAINING.as_secs();
    format!("Stopping: running work may finish, for {seconds} s at most. Ctrl-C again stops at once.\n")
}

/// Returns the note about questions that nobody can answer any more; empty without such questions.
fn withdrawn(questions: usize) -> String {
    match questions {
        0 => String::new(),
        1 => "1 session waited for your answer. Its call was not run; send a message to go on.\n".to_owned(),
        many => {
            format!(
                "{many} sessions waited for your answer. Their calls were not run; send a message to go on.\n"
            )
        }
    }
}

/// The data folder, open.
struct ServerResources {
    runtime: Runtime,
    chosen: ServedModelChoice,
    /// The gateway; `None` if no server of models is known.
    gateway: Option<Gateway>,
    upkeep: Option<SharedUpkeep>,
    /// The address of the model's server if a person or file names it and it does not answer.
    silent_server: Option<String>,
}

/// The answering model.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ServedModelChoice {
    /// The named model, or a model of a server on this machine.
    Named,
    /// A model for a key of the environment: the model and the reason, and its price, in words.
    ByKey { model: String, terms: String },
    /// The demo's scripted model.
    Demo,
}

/// Opens the data folder under the configured agent. If no model is named or found, the demo's model is used.
async fn open(
    place: &CliEnvironment,
    loaded: ResolvedConfig,
    asking: ToolApprovalMode,
    counters: &ServerMetrics,
    shared: Option<&SharedStoreConfig>,
) -> Outcome<ServerResources> {
    let (is_named, names_model) = (loaded.names_a_server, loaded.names_a_model);
    let loaded_file = loaded.file.clone();
    let (mut config, chosen) = match model_discovery::complete(place, loaded.clone()).await {
        Ok(completed) => {
            let by_key =
                |model| ServedModelChoice::ByKey { model, terms: hosted_providers::terms(&completed) };
            let chosen = hosted_providers::said(&completed).map_or(ServedModelChoice::Named, by_key);
            (completed.config, chosen)
        }
        // A first start must show something, so a missing model is no error unless one was named.
        Err(_) if !is_named => (loaded.config, ServedModelChoice::Demo),
        Err(failure) => return Err(failure),
    };
    if chosen == ServedModelChoice::Demo {
        config.model = ModelConfig { provider: ProviderKind::Scripted, ..AgentConfig::default().model };
    }
    // Checked before the folder is opened: a missing key need not wait for another server to end.
    assemble::check_key(place, &config.model)?;
    let data = match shared {
        Some(shared) => Box::pin(data::shared::open(place, shared, config.blobs.max_bytes)).await?,
        None => data::open_or_read(place, config.blobs.max_bytes).await?,
    };
    let is_asked = is_named && config.model.provider != ProviderKind::Scripted;
    // Both ask the model's server, so a silent one costs one wait.
    let (agent, is_silent) = tokio::join!(
        // Boxed: both are deep, and the future of `open` holds them.
        Box::pin(assemble::agent(place, &config, asking, McpFailurePolicy::Refuse)),
        Box::pin(async {
            is_asked && model_discovery::ask(place, &config.model).await == ServerProbeResult::Silent
        }),
    );
    let mut agent = agent?;
    let silent_server = is_silent.then(|| config.model.base_url.clone());
    if silent_server.is_some() {
        let server = trust::server_of(&config.model.base_url);
        tracing::info!(%server, "the model's server does not answer; requests wait for it");
    }
    let gateway = assemble::gateway(place, &config, names_model, data.memo, &agent).await?;
    agent.telemetry = assemble::telemetry(&config)?;
    if chosen == ServedModelChoice::Demo {
        // The scripted provider made above is the echo for trials, not the demo's model.
        agent.provider = Arc::new(demo::served_model(&place.workspace));
        agent.limits = agent.provider.limits().await;
        demo::act_early(&mut agent.rules.policy);
    }
    let agents = assemble::agents(place, &config, agent, asking).await;
    let runtime = Runtime::of(agents, counters.watching(data.store), data.blobs);
    if let Some(nodes) = data.nodes {
        runtime.join(nodes);
    }
    // The page's settings come after the file's, because they take precedence.
    settings::apply(place, loaded_file.as_deref(), &runtime).await;
    if let Some(gateway) = &gateway {
        let now = runtime.policies();
        // The page can change the strategy while the server runs, and the gateway must compact by the same one.
        gateway.follow(move |configured| {
            let summariser = configured.summariser.clone().map(SummaryModel);
            let (policy, summariser) = now(&configured.policy, summariser.as_ref());
            CompactionSetup { policy, summariser: summariser.map(|it| it.0) }
        });
    }
    Ok(ServerResources { runtime, chosen, gateway, upkeep: data.upkeep, silent_server })
}

/// Listens at an address.
///
/// # Errors
/// The address is in use.
async fn listen(place: &CliEnvironment, args: &ServeArgs, addr: SocketAddr) -> Outcome<TcpListener> {
    match bound(addr).await {
        Ok(listener) => Ok(listener),
        Err(error) => Err(unusable(place, args, addr, &error).await),
    }
}

/// Listens. Tries again for a moment: a server that has just ended may close its connections after its data
/// folder.
async fn bound(addr: SocketAddr) -> io::Result<TcpListener> {
    let until = Instant::now() + SOON;
    loop {
        match TcpListener::bind(addr).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                tracing::debug!(%addr, "the address is still in use: it is tried again for a moment");
                tokio::time::sleep(SOON / 5).await;
            }
            done => return done,
        }
    }
}

/// Returns the address under which a browser on this machine finds the server.
fn reachable(address: SocketAddr) -> SocketAddr {
    let mut near = address;
    // 0.0.0.0 and [::] are addresses to listen at, not to connect to.
    if address.ip().is_unspecified() {
        near.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    near
}

/// Returns the error for an unusable address, with a usable address.
async fn unusable(
    place: &CliEnvironment,
    args: &ServeArgs,
    addr: SocketAddr,
    error: &io::Error,
) -> CommandError {
    if error.kind() != io::ErrorKind::AddrInUse {
        return CommandError::new(format!("{addr} cannot be used: {}", io_error_text(error)));
    }
    let near = reachable(addr);
    let by = if model_discovery::is_longhaul(near).await {
        format!("another longhaul, whose page is http://{near}")
    } else {
        "another program".to_owned()
    };
    let next = format!("--addr {}", SocketAddr::new(addr.ip(), free_port(addr).await));
    let other = if *args == (ServeArgs { addr: args.addr, open: args.open, ..ServeArgs::default() }) {
        place.command_with_model(&format!("serve {next}"))
    } else {
        // The rest of the line stays as it is; an address of a database may hold a password.
        next
    };
    CommandError::new(format!(
        "{addr} is in use by {by}: take another port with `{other}`, or as server.addr in {AGENT_FILE}"
    ))
}

/// Returns the next free port after an address's own. Returns 0, which means any port, if all of them are in use.
async fn free_port(addr: SocketAddr) -> u16 {
    for port in (addr.port()..).skip(1).take(NEXT_PORTS) {
        // The listener is dropped at once. Another program may take the port meanwhile: it is only a proposal.
        if TcpListener::bind((addr.ip(), port)).await.is_ok() {
            return port;
        }
    }
    0
}

/// The facts about this machine for the server.
#[derive(Debug)]
struct LocalServerEnvironment {
    is_demo: bool,
}

impl ServerEnvironment for LocalServerEnvironment {
    fn backends(&self) -> BoxFuture<'_, Vec<ModelBackend>> {
        Box::pin(async {
            let found = model_discovery::probe().await.into_iter();
            let told = found.map(|found| ModelBackend {
                name: found.usual_owner.to_owned(),
                base_url: found.base_url,
                models: found.models,
            });
            told.collect()
        })
    }

    fn is_demo(&self) -> bool {
        self.is_demo
    }
}

/// Returns the token's file as named in the agent file, relative to the agent file.
pub(super) fn token_file(loaded: &ResolvedConfig) -> Option<PathBuf> {
    let named = loaded.config.server.token_file.as_ref()?;
    let folder = loaded.file.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
    Some(folder.join(named))
}

/// Raises the limit of open files to [`OPEN_FILES`], if possible. Each watcher of a session is a connection, so
/// the usual 1,024 files are few.
fn allow_many_connections() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // The hard limit stays as it is: only a privileged process may raise it.
    let wanted = maximum.map_or(OPEN_FILES, |maximum| maximum.min(OPEN_FILES));
    if current.is_none_or(|current| current >= wanted) {
        return;
    }
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    match raised {
        Ok(()) => tracing::debug!(from = current, to = wanted, "the limit of open files was raised"),
        Err(error) => tracing::warn!(%error, "the number of connections stays limited"),
    }
}

/// Reads the token from the named file, or from the data folder.
fn token(path: &Path, place: &CliEnvironment) -> Outcome<AccessToken> {
    // Only the token in the data folder is made if missing. A named file that is missing is a mistake.
    if path == place.data_dir.join(TOKEN_FILE) {
        return Ok(AccessToken::load_or_create(path)?);
    }
    if lies_in(path, &place.workspace) && !lies_in(path, &place.data_dir) {
        return Err(CommandError::usage(
            "the token file lies in the workspace, where the agent's tools read it",
        ));
    }
    Ok(AccessToken::load(path)?)
}

fn lies_in(path: &Path, folder: &Path) -> bool {
    // Links are resolved, because a link in the workspace would be read by tools all the same.
    match (path.canonicalize(), folder.canonicalize()) {
        (Ok(path), Ok(folder)) => path.starts_with(folder),
        _ => false,
    }
}

/// Returns the server's configuration. A server that listens on an address has that address as its own name:
/// an address cannot be made to point elsewhere.
fn config(
    loaded: &ResolvedConfig,
    token: AccessToken,
    address: SocketAddr,
    is_demo: bool,
) -> HttpServerConfig {
    let server = &loaded.config.server;
    let mut config = HttpServerConfig::new(token);
    config.surroundings = Arc::new(LocalServerEnvironment { is_demo });
    config.allowed_hosts.clone_from(&server.allowed_hosts);
    config.allowed_origins.clone_from(&server.allowed_origins);
    config.max_body_bytes = server.max_body_bytes;
    config.rate_limit = server.rate_limit;
    if !address.ip().is_loopback() && !address.ip().is_unspecified() {
        config.allowed_hosts.push(address.to_string());
    }
    config
}
