//! A PostgreSQL server of a test's own: it may be killed.

use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection};
use tempfile::TempDir;

/// Says that a test is skipped, or fails it if the environment insists.
pub(crate) fn skip(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    assert!(std::env::var_os("LONGHAUL_REQUIRE_POSTGRES").is_none(), "{test} needs PostgreSQL: {why}");
    eprintln!("SKIPPED {test}: {why}");
}

/// A running server, or one that was killed.
pub(crate) struct Cluster {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
    server: Option<Child>,
}

impl Cluster {
    /// A new server; `None`, and a word about it, if PostgreSQL is not installed here.
    pub(crate) async fn new() -> Option<Self> {
        let Some(programs) = programs() else {
            skip("no /usr/lib/postgresql/*/bin/initdb");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        if let Some(user) = user() {
            chown(folder.path(), Some(user), Some(user)).unwrap();
        }
        let mut cluster = Self { folder, programs, port: 0, server: None };
        let data = cluster.data();
        let made = cluster
            .command("initdb")
            // The files need not survive this test, so `initdb` does not flush them.
            .args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(&data)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(made.success());
        // PostgreSQL takes no port 0, so a free one is looked for and given back a moment before the start.
        cluster.port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        cluster.start().await;
        Some(cluster)
    }

    pub(crate) fn url(&self) -> String {
        self.url_through(self.port)
    }

    pub(crate) fn url_through(&self, port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/postgres")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Starts the server, and waits until it answers.
    pub(crate) async fn start(&mut self) {
        let (port, data) = (self.port.to_string(), self.data());
        let server = self
            .command("postgres")
            .args(["-p", &port, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300"])
            // A killed process must not bring the server back by itself. The socket lies in the test's folder,
            // because the usual one may not be writable.
            .args(["-c", "restart_after_crash=off", "-k"])
            .arg(self.folder.path())
            .arg("-D")
            .arg(data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.server = Some(server);
        let patience = Instant::now() + Duration::from_secs(30);
        while PgConnection::connect(&self.url()).await.is_err() {
            assert!(Instant::now() < patience, "the server does not answer");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills all its processes, as a power failure of the machine's memory would.
    pub(crate) fn kill(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        let mut all = children(server.id());
        all.push(server.id());
        send("-9", &all);
        server.wait().unwrap();
        // Until the last one is gone, no other server can start on its files.
        while all.iter().any(|id| is_alive(*id)) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it in order, without waiting for its clients.
    pub(crate) fn end(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        // SIGINT ends PostgreSQL at once with its clients. SIGTERM would wait until they have left.
        send("-INT", &[server.id()]);
        server.wait().unwrap();
    }

    /// Stops all its processes where they stand: connections stay, and nothing is answered.
    pub(crate) fn freeze(&self) {
        let Some(server) = &self.server else { return };
        // It first, so that it makes no more.
        send("-STOP", &[server.id()]);
        send("-STOP", &children(server.id()));
    }

    /// Lets them go on.
    pub(crate) fn thaw(&self) {
        let Some(server) = &self.server else { return };
        let mut all = children(server.id());
        all.push(server.id());
        send("-CONT", &all);
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(self.folder.path());
        // The server refuses to run as root.
        if let Some(user) = user() {
            command.uid(user).gid(user);
        }
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill();
    }
}

fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions.flatten().map(|version| version.path().join("bin")).collect();
    found.retain(|programs| programs.join("initdb").exists());
    found.sort();
    found.pop()
}

/// Whom to be instead of root.
fn user() -> Option<u32> {
    if id(&["-u"]) != Some(0) {
        return None;
    }
    id(&["-u", "postgres"])
}

/// Some may be gone by now.
fn send(signal: &str, processes: &[u32]) {
    let ids = processes.iter().map(u32::to_string);
    let _ = Command::new("kill").arg(signal).args(ids).stderr(Stdio::null()).status();
}

fn id(args: &[&str]) -> Option<u32> {
    let said = Command::new("id").args(args).output().ok()?;
    String::from_utf8(said.stdout).ok()?.trim().parse().ok()
}

/// The processes that it has started and that are there.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id| parent_of(*id) == Some(parent)).collect()
}

fn parent_of(process: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

fn is_alive(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
        && std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}
