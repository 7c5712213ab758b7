//! The real binary as a server: started in a place of its own, killed, started again.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Client;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::api::Api;
use super::shim::Shim;
use crate::bench::Bench;

/// A start, an end or an answer that takes longer is a hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A data folder, a workspace, an agent file, and what goes wrong with them.
pub(crate) struct Place {
    bench: Bench,
    pub(crate) shim: Option<Arc<Shim>>,
    http: Client,
    model_url: String,
    /// What it shares with other nodes.
    pub(crate) shared: Option<Arc<Shared>>,
}

/// What several nodes have in common, and how one of them comes to it.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) db: String,
    pub(crate) token: PathBuf,
    pub(crate) blobs: PathBuf,
    pub(crate) work: PathBuf,
    /// Where it listens, and where others reach it, if that is to be known before.
    pub(crate) addr: Option<String>,
    pub(crate) advertise: Option<String>,
    /// What its agent file says besides.
    pub(crate) more: String,
}

/// What an agent file says beyond the model.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    /// Goes on by itself after a crash.
    pub(crate) continues: bool,
    /// How long a run may take.
    pub(crate) run_timeout: Option<&'static str>,
}

impl Place {
    pub(crate) fn new(model_url: &str) -> Self {
        Self {
            bench: Bench::new(),
            shim: None,
            http: Client::builder().no_proxy().build().unwrap(),
            model_url: model_url.to_owned(),
            shared: None,
        }
    }

    /// A node beside others.
    pub(crate) fn node(model_url: &str, shared: &Arc<Shared>) -> Self {
        Self { shared: Some(Arc::clone(shared)), ..Self::new(model_url) }
    }

    /// The same with a shim between the binary and the data folder.
    pub(crate) fn shimmed(mut self, traces: bool) -> Self {
        self.shim = Some(Arc::new(Shim::new(&self.bench.data().with_file_name("home"), traces)));
        self
    }

    /// Another place with the same files.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self { http: self.http.clone(), ..Self::new(&self.model_url) };
        copy_folder(&self.bench.data(), &copy.data());
        copy_folder(&self.bench.work(), &copy.work());
        copy
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.bench.data()
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.bench.work()
    }

    pub(crate) fn shim(&self) -> &Arc<Shim> {
        self.shim.as_ref().unwrap()
    }

    /// Says how far the trace has come; 0 if there is none.
    pub(crate) fn position(&self) -> Arc<dyn Fn() -> u64 + Send + Sync> {
        match &self.shim {
            Some(shim) => Arc::new(shim.position()),
            None => Arc::new(|| 0),
        }
    }

    /// A small window and short outputs, so that little talk brings compactions and blobs.
    fn configure(&self, rules: Rules) -> PathBuf {
        let recovery = if rules.continues { "continue" } else { "rest" };
        let timeout = rules.run_timeout.unwrap_or("none");
        let more = self.shared.as_ref().map_or("", |shared| shared.more.as_str());
        let text = format!(
            "model: {{ name: fake-1, base_url: \"{}\", context_window: 9000, max_output_tokens: 700 }}\n\
             run: {{ recovery: {recovery}, timeout: {timeout} }}\n\
             context: {{ compression: {{ strategy: reactive-overflow, options: {{ pruneProtectTokens: 1500, pruneMinimumTokens: 400 }} }} }}\n\
             tools: {{ bash: {{ maxOutputChars: 1500, timeoutMs: 20000 }} }}\n\
             retry: {{ patience: 2s, maxDelay: 1s, streamAttempts: 1 }}\n{more}",
            self.model_url
        );
        self.bench.write("agent.yml", &text)
    }

    fn command(&self, rules: Rules) -> Command {
        let config = self.configure(rules);
        let config = config.to_str().unwrap();
        let addr = self.shared.as_ref().and_then(|shared| shared.addr.as_deref()).unwrap_or("127.0.0.1:0");
        let args = ["--config", config, "serve", "--addr", addr, "--yes"];
        let mut command = self.bench.command(args);
        if let Some(shared) = &self.shared {
            command.current_dir(&shared.work).args(["--db", &shared.db]);
            if let Some(advertise) = &shared.advertise {
                command.args(["--advertise", advertise]);
            }
            command.arg("--token-file").arg(&shared.token).arg("--blobs").arg(&shared.blobs);
        }
        if let Some(shim) = &self.shim {
            shim.prepare(&mut command, self.data().parent().unwrap());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut command = Command::from(command);
        command.kill_on_drop(true);
        command
    }

    /// Starts the server, or says how it ended instead.
    pub(crate) async fn try_start(&self, rules: Rules) -> Result<ServerProcess, Ended> {
        let mut child = self.command(rules).spawn().unwrap();
        let said = Said::default();
        // Standard error is read from the start: with a full pipe the server would stop at its next log line.
        let listens = tokio::spawn(said.clone().listen(child.stderr.take().unwrap()));
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let read = tokio::time::timeout(PATIENCE, out.read_line(&mut line)).await;
        read.unwrap_or_else(|_| panic!("the server did not start\n{}", said.text())).unwrap();
        // A server that ends before it listens leaves the line empty.
        let Some(base) = line.trim().strip_prefix("http://") else {
            let status = child.wait().await.unwrap();
            listens.await.unwrap();
            return Err(Ended { status, said: said.text() });
        };
        let own = self.data().join("token");
        let token = self.shared.as_ref().map_or(&own, |shared| &shared.token);
        let token = std::fs::read_to_string(token).unwrap();
        let api = Api::new(self.http.clone(), &format!("http://{base}"), token.trim());
        Ok(ServerProcess { child, api, said, listens })
    }

    #[track_caller]
    pub(crate) fn start(&self, rules: Rules) -> impl Future<Output = ServerProcess> {
        let caller = std::panic::Location::caller();
        async move {
            let started = self.try_start(rules).await;
            started.unwrap_or_else(|ended| panic!("no start at {caller}: {ended:?}"))
        }
    }
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    let mode = std::fs::metadata(from).unwrap().permissions();
    std::fs::set_permissions(to, mode).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// How a server ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) said: String,
}

/// A running server. It is killed when it is dropped.
pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) api: Api,
    said: Said,
    listens: JoinHandle<()>,
}

impl ServerProcess {
    /// `kill -9`.
    pub(crate) async fn kill(mut self) -> Ended {
        self.child.start_kill().unwrap();
        self.ended().await
    }

    /// Stops it where it stands, without its knowing.
    pub(crate) fn stop(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// Lets it go on.
    pub(crate) fn go_on(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Tells it to end, and waits.
    pub(crate) async fn terminate(self) -> Ended {
        self.tell_to_end();
        self.ended().await
    }

    /// Tells it to end.
    pub(crate) fn tell_to_end(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(mut self) -> Ended {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        let status = ended.unwrap_or_else(|_| panic!("the server does not end\n{}", self.said.text()));
        // Standard error is read to its end first, or the last words could be missing.
        self.listens.await.unwrap();
        Ended { status: status.unwrap(), said: self.said.text() }
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Waits until it has written that to standard error.
    pub(crate) async fn until_said(&self, words: &str) {
        let begun = std::time::Instant::now();
        while !self.said().contains(words) {
            assert!(begun.elapsed() < PATIENCE, "not said: {words}\n{}", self.said());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// What it wrote to standard error, as far as it has been read.
    pub(crate) fn said(&self) -> String {
        self.said.text()
    }
}

/// A process's standard error.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<String>>);

impl Said {
    async fn listen(self, mut err: impl AsyncRead + Unpin) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = err.read(&mut bytes).await {
            self.0.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}
