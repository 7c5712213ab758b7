//! MCP servers: real programs, and a real HTTP server on loopback.

mod deferred;
mod fake;
mod http;
mod stdio;
mod together;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longhaul::agent::Agent;
use longhaul::config::{McpCommand, McpServerConfig, McpToolFilter, McpTransport};
use longhaul::mcp::{McpError, McpLaunchOptions, McpServers};
use longhaul::sandbox::{Sandbox, SandboxPolicy};
use longhaul::tools::{Tool, ToolContext, ToolInput, ToolLimits, ToolOutput, ToolProgress};
use longhaul::workspace::Workspace;
use longhaul_core::message::{Part, RawJson, ToolResult};
use longhaul_providers::scripted::ScriptedProvider;
use longhaul_testkit::TestSession;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The schema of the script's `echo`, which nothing survives that reads and writes it again.
const SCHEMA: &str = r#"{ "type":"object",  "properties":{"n":{"type":"number","maximum":1.0e3,"minimum":-0.10},"big":{"const":12345678901234567890123}, "text":{"type":"string","pattern":"\u00e9\/"}},"a":1,"a":2 }"#;

/// A machine that runs many tests at once is slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where servers run: `base/ws` is the workspace, `base/data` the data folder.
struct Place {
    _dir: tempfile::TempDir,
    base: PathBuf,
    policy: SandboxPolicy,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["ws", "data", "scratch"] {
            fs::create_dir(base.join(folder)).unwrap();
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp_server.py");
        fs::copy(script, base.join("ws/server.py")).unwrap();
        fs::write(base.join("data/secret"), "hidden-content").unwrap();
        let mut policy = SandboxPolicy::new(base.join("ws"), base.join("scratch"));
        policy.protected = vec![base.join("data")];
        Self { _dir: dir, base, policy }
    }

    fn path(&self, below: &str) -> String {
        self.base.join(below).display().to_string()
    }

    fn sandbox(&self) -> Arc<Sandbox> {
        Arc::new(Sandbox::new(self.policy.clone()).unwrap())
    }

    /// Starts one server named `t`.
    async fn start(&self, config: McpServerConfig) -> Result<Running, McpError> {
        let sandbox = self.sandbox();
        let mut place = McpLaunchOptions::new(self.base.join("ws"), Arc::clone(&sandbox));
        place.start_timeout = PATIENCE;
        self.start_at(config, place).await
    }

    async fn start_at(&self, config: McpServerConfig, place: McpLaunchOptions) -> Result<Running, McpError> {
        let configs = BTreeMap::from([("t".to_owned(), config)]);
        let (servers, mut errors) = McpServers::start(&configs, &place).await;
        match errors.pop() {
            Some(error) => Err(error),
            None => {
                let workspace = Arc::new(Workspace::new(&self.base.join("ws"), &[]).unwrap());
                Ok(Running { servers, workspace, sandbox: place.sandbox })
            }
        }
    }
}

struct Running {
    servers: McpServers,
    workspace: Arc<Workspace>,
    sandbox: Arc<Sandbox>,
}

impl Running {
    fn tool(&self, name: &str) -> Arc<dyn Tool> {
        let full = format!("t__{name}");
        let found = self.servers.tools().into_iter().find(|tool| tool.spec().name == full);
        found.unwrap_or_else(|| panic!("no tool {full}"))
    }

    fn context(&self, cancel: &CancellationToken) -> (ToolContext, mpsc::Receiver<ToolProgress>) {
        let (progress, received) = mpsc::channel(1000);
        let context = ToolContext {
            workspace: Arc::clone(&self.workspace),
            sandbox: Arc::clone(&self.sandbox),
            cancel: cancel.clone(),
            progress,
            limits: ToolLimits::default(),
        };
        (context, received)
    }

    /// Makes a call with arguments as a model wrote them.
    async fn call(&self, tool: &str, written: &str) -> ToolOutput {
        let (context, _watching) = self.context(&CancellationToken::new());
        let arguments: Value = serde_json::from_str(written).unwrap();
        let input = ToolInput { arguments, written: RawJson(written.to_owned()), context };
        self.tool(tool).run(input).await
    }

    async fn ok(&self, tool: &str, written: &str) -> String {
        let output = self.call(tool, written).await;
        assert!(!output.is_error, "{tool} {written}: {}", output.as_text());
        output.as_text()
    }

    async fn fails(&self, tool: &str, written: &str) -> String {
        let output = self.call(tool, written).await;
        assert!(output.is_error && !output.cancelled, "{tool} {written}: {}", output.as_text());
        output.as_text()
    }
}

/// A session whose agent has the tools of a server beside the built-in ones.
struct McpSession {
    test: TestSession,
    tools: Vec<Arc<dyn Tool>>,
    _place: Place,
}

impl McpSession {
    async fn start(
        place: Place,
        server: McpServerConfig,
        model: ScriptedProvider,
        change: impl FnOnce(&mut Agent),
    ) -> Self {
        let tools = place.start(server).await.unwrap().servers.tools();
        let prepare = |agent: &mut Agent, _: &_| {
            add_tools(agent, &tools);
            change(agent);
        };
        Self { test: TestSession::with_agent(model, prepare).await, tools, _place: place }
    }

    /// Opens the session again with another model, as after a restart of the process.
    async fn restart(self, model: ScriptedProvider) -> Self {
        let Self { test, tools, _place } = self;
        let test = test.restart(model, |agent, _| add_tools(agent, &tools)).await;
        Self { test, tools, _place }
    }
}

fn add_tools(agent: &mut Agent, tools: &[Arc<dyn Tool>]) {
    for tool in tools {
        agent.tools.add(Arc::clone(tool)).unwrap();
    }
}

fn result_text(result: &ToolResult) -> String {
    result.content.iter().filter_map(Part::as_text).collect()
}

/// A Python that confined programs can run. A test that needs it and finds none says so, and fails if the
/// environment insists.
pub(crate) fn python(test: &str) -> Option<&'static str> {
    let found =
        ["/usr/bin/python3", "/usr/local/bin/python3"].into_iter().find(|path| Path::new(path).exists());
    if found.is_none() {
        eprintln!("SKIPPED {test}: there is no python3 in /usr");
        assert!(std::env::var_os("LONGHAUL_REQUIRE_PYTHON").is_none(), "{test} needs python3 in /usr");
    }
    found
}

/// The script in a mode.
fn script(python: &str, mode: &[&str]) -> McpServerConfig {
    let args = ["server.py"].iter().chain(mode).map(|arg| (*arg).to_owned()).collect();
    let command = McpCommand { program: python.to_owned(), args, env: BTreeMap::new(), network: None };
    server(McpTransport::Command(command))
}

fn server(transport: McpTransport) -> McpServerConfig {
    McpServerConfig { transport, timeout: PATIENCE, optional: false, tools: McpToolFilter::default() }
}

/// The runtime's time stands still while this lives, for no longer than [`PATIENCE`].
struct StoppedClock(std::sync::mpsc::Sender<()>);

impl StoppedClock {
    fn new() -> Self {
        let (running, stopped) = std::sync::mpsc::channel();
        // Paused time does not go on by itself while a blocking task runs.
        tokio::task::spawn_blocking(move || stopped.recv_timeout(PATIENCE));
        tokio::time::pause();
        Self(running)
    }
}

impl Drop for StoppedClock {
    fn drop(&mut self) {
        let _ = self.0.send(());
        tokio::time::resume();
    }
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let waiting = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "waited too long for: {what}");
}

fn alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
