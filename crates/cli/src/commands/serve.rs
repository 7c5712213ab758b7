//! `longhaul serve`: the agent behind HTTP, until a signal ends it.

mod browser;
mod listener;
mod settings;
mod start_notice;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use longhaul::agent::SummaryModel;
use longhaul::config::{AgentConfig, GatewayAuth, ModelConfig, ProviderKind};
use longhaul::config_agent::McpFailurePolicy;
use longhaul::session::Runtime;
use longhaul_gateway::{CompactionSetup, Gateway};
use longhaul_server::{
    AccessToken, AppState, BoxFuture, HttpServerConfig, MaintenanceConfig, ModelBackend, ServerEnvironment,
    ServerMetrics, serve,
};
use longhaul_store::SharedUpkeep;
use longhaul_store_sqlite::DataFolderGuard;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use self::listener::{listen, reachable};
use self::start_notice::StartNotice;
use crate::agent_file::{self, ResolvedConfig};
use crate::args::ServeArgs;
use crate::assemble::{self, ToolApprovalMode};
use crate::data::DRAINING;
use crate::data::shared::SharedStoreConfig;
use crate::environment::CliEnvironment;
use crate::failure::{CANCELLED, CommandError, DONE, Outcome};
use crate::model_discovery::ServerProbeResult;
use crate::server_address::{RunningServer, ServerRecordGuard};
use crate::signals::InterruptSignals;
use crate::term::{out, text};
use crate::{data, demo, hosted_providers, model_discovery, trust};

/// The name of the token's file in the data folder.
pub(super) const TOKEN_FILE: &str = "token";

/// The limit of open files requested by the server. Tools inherit the limit, and some programs close every
/// possible file at their start, so it is not the largest possible one.
const OPEN_FILES: u64 = 65_536;

/// A delay hardly noticed by a person.
const SOON: Duration = Duration::from_millis(100);

/// Runs the server until a signal ends it.
///
/// # Errors
/// The server cannot start, or it fails.
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
    let node = match &args.db {
        Some(db) => Some(begin_node(place, &args, db, addr, &token_path).await?),
        None => None,
    };
    let shared = node.as_ref().map(|node| &node.store);
    // This may wait for another server to end or for MCP servers to start, so a signal must end it.
    let opened = tokio::select! {
        opened = open(place, loaded.clone(), asking, &counters, shared) => opened,
        // Nothing was served yet, so there is nothing to drain.
        () = interrupts.next() => return Ok(ExitCode::from(CANCELLED)),
    };
    // A person who wants the page gets the page of the server that has the folder.
    if let (Err(_), true, Some(other)) = (&opened, args.open, RunningServer::find(&place.data_dir)) {
        browser::open(place, &other.page);
    }
    let resources = opened?;
    let (listener, token, folder_guard) = match node {
        Some(ClusterNodeStart { listener, token, folder_guard, .. }) => (listener, token, Some(folder_guard)),
        None => {
            let token = token(&token_path, place)?;
            // Bound after the folder is opened: a second server fails with the folder's reason and not with the
            // port's.
            (listen(place, &args, addr).await?, token, None)
        }
    };
    let address = listener.local_addr()?;
    let start = ServerStart { args: &args, place, loaded: &loaded, token_path: &token_path, address };
    let (app, record) = start.announce(resources, token, counters)?;
    serve_until_shutdown(listener, app, interrupts, record).await?;
    // The record and the folder are given up last, when nothing writes any more.
    drop(folder_guard);
    Ok(DONE)
}

/// A node of a cluster that listens, before it joins the database.
struct ClusterNodeStart {
    listener: TcpListener,
    token: AccessToken,
    store: SharedStoreConfig,
    /// The claim of the data folder, which has the node's settings and token.
    folder_guard: DataFolderGuard,
}

/// Binds the address of a node and claims its data folder. Other nodes are told where this one listens, and that it has
/// their token.
async fn begin_node(
    place: &CliEnvironment,
    args: &ServeArgs,
    db: &str,
    addr: SocketAddr,
    token_path: &Path,
) -> Outcome<ClusterNodeStart> {
    // Bound before the database is joined: a node that cannot listen must not be announced.
    let listener = listen(place, args, addr).await?;
    let near = reachable(listener.local_addr()?).to_string();
    // One node at a time may use the folder's settings and token.
    let folder_guard = data::lock_folder(place).await?;
    let token = token(token_path, place)?;
    if args.advertise.is_none() && addr.ip().is_unspecified() {
        tracing::warn!(address = %near, "other machines cannot reach this address: set --advertise");
    }
    let store = SharedStoreConfig {
        db: db.to_owned(),
        address: Some(args.advertise.clone().unwrap_or(near)),
        token_digest: Some(token.digest()),
        blobs: args.blobs.clone(),
    };
    Ok(ClusterNodeStart { listener, token, store, folder_guard })
}

/// The start of a server whose address is bound.
struct ServerStart<'a> {
    args: &'a ServeArgs,
    place: &'a CliEnvironment,
    loaded: &'a ResolvedConfig,
    token_path: &'a Path,
    address: SocketAddr,
}

impl ServerStart<'_> {
    /// Makes the application, records its address for other commands, and tells people where the server is.
    fn announce(
        &self,
        resources: ServerResources,
        token: AccessToken,
        counters: ServerMetrics,
    ) -> Outcome<(AppState, io::Result<ServerRecordGuard>)> {
        let ServerResources { runtime, chosen, gateway, upkeep, silent_server } = resources;
        let (place, loaded, address) = (self.place, self.loaded, self.address);
        tracing::info!(%address, gateway = gateway.is_some(), model = ?chosen, "the server listens");
        let has_gateway = gateway.is_some();
        let is_demo = chosen == ServedModelChoice::Demo;
        let mut config = config(loaded, token, address, is_demo);
        config.counters = counters;
        config.gateway = gateway;
        config.gateway_is_open = loaded.config.gateway.auth == GatewayAuth::OpenOnLoopback;
        config.keeping =
            upkeep.map(|upkeep| MaintenanceConfig { upkeep, sessions: loaded.config.server.keep_sessions });
        // Other nodes send requests to this name, and a request under an unknown name is refused before anything else.
        config.allowed_hosts.extend(self.args.advertise.clone());
        let agent = runtime.agent();
        let sandbox = Arc::clone(&agent.sandbox);
        let unmeasured = agent.window().is_none().then(|| agent.provider.origin().model);
        let app = AppState::new(runtime, config);
        let page = format!("http://{}", reachable(address));
        let link = format!("{page}{}", app.opening_path()?);
        // The record is written once the port is bound, because others open the page by it.
        let record = RunningServer::here(page, self.token_path.to_owned()).write_record(&place.data_dir);
        if let Err(error) = &record {
            tracing::warn!(%error, "the server runs, but its address was not recorded for other commands");
        }
        let notice = StartNotice {
            address,
            link: &link,
            token_path: self.token_path,
            chosen: &chosen,
            has_gateway,
            unmeasured: unmeasured.as_deref(),
            silent_server: silent_server.as_deref(),
            patience: loaded.config.retry.patience,
        };
        notice.print_addresses(place)?;
        assemble::say_exposed(place, &sandbox);
        for unset in assemble::unset_keys(place, loaded) {
            out::print_message(&format!("note   {}\n", text::visible(&unset)));
        }
        notice.print_model();
        if self.args.open {
            browser::open(place, &link);
        }
        Ok((app, record))
    }
}

/// Serves requests until a signal comes and the running work has ended.
async fn serve_until_shutdown(
    listener: TcpListener,
    app: AppState,
    mut interrupts: InterruptSignals,
    mut record: io::Result<ServerRecordGuard>,
) -> Outcome<()> {
    let ending = app.clone();
    // The server still serves while it drains, so the signal is told on a channel of its own.
    let (asked, is_asked) = oneshot::channel();
    let served = serve(listener, app, async move { end(&ending, &mut interrupts, asked).await });
    tokio::pin!(served);
    tokio::select! {
        ended = &mut served => ended?,
        _ = is_asked => {
            // A second `serve` waits for this one to end.
            if let Ok(record) = &mut record
                && let Err(error) = record.ends()
            {
                tracing::warn!(%error, "the shutdown could not be recorded: a new server will not wait for \
                                        this one");
            }
            served.await?;
        }
    }
    Ok(())
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
    out::print_message(&withdrawn);
    // No note on the wait is needed if nothing runs.
    if tokio::time::timeout(SOON, &mut drained).await.is_ok() {
        return;
    }
    out::print_message(&stopping());
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
            let chosen =
                hosted_providers::describe_choice(&completed).map_or(ServedModelChoice::Named, by_key);
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
