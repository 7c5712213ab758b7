//! The measured ways to the model: direct, through the smallest possible proxy, our gateway, and other gateways.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;

use crate::bodies::MODEL;
use crate::client::{Client, Headers};
use crate::process::{Memory, Process, free};

pub(crate) const DIRECT: &str = "direct";
pub(crate) const OURS: &str = "longhaul";

pub(crate) const ALL: [&str; 6] = [DIRECT, "floor", OURS, "sglang-router", "portkey", "litellm"];

/// A window that is larger than the longest request.
const WINDOW_TOKENS: u64 = 1_000_000;

/// A running gateway, or the mock itself.
pub(crate) struct Gateway {
    pub(crate) name: &'static str,
    to: SocketAddr,
    headers: Headers,
    process: Option<Process>,
    /// The times from the start of the process to its first answer, with new folders.
    pub(crate) starts: Vec<Duration>,
    /// The times from the start to the first answer, with the folders of an earlier start.
    pub(crate) restarts: Vec<Duration>,
    pub(crate) idle: Memory,
}

/// The addresses and folders of a run.
pub(crate) struct Places {
    /// The folder of the installed gateways.
    pub(crate) installed: PathBuf,
    /// The folder for configurations, logs and data, new in every run.
    pub(crate) work: PathBuf,
    /// Our own binary.
    pub(crate) binary: PathBuf,
    pub(crate) mock: SocketAddr,
}

impl Gateway {
    /// Starts a gateway several times, to measure the start. The newest process stays.
    pub(crate) async fn start(name: &'static str, places: &Places, body: &Bytes) -> Self {
        let mut gateway = Self {
            name,
            to: places.mock,
            headers: Headers::new(),
            process: None,
            starts: Vec::new(),
            restarts: Vec::new(),
            idle: Memory::default(),
        };
        let (starts, restarts) = match name {
            DIRECT => return gateway,
            OURS => (5, 5),
            "floor" => (5, 0),
            "litellm" => (1, 0),
            _ => (2, 0),
        };
        for at in 0..starts + restarts {
            drop(gateway.process.take());
            let is_new = at < starts;
            let folder = places.work.join(format!("{name}-{}", if is_new { at } else { starts - 1 }));
            std::fs::create_dir_all(folder.join("home")).unwrap();
            gateway.to = free();
            let (command, headers) = command(name, gateway.to, places, &folder);
            gateway.headers = headers;
            let log = folder.join("log");
            let (process, took) = Process::ready(command, &log, gateway.to, &gateway.headers, body).await;
            gateway.process = Some(process);
            if is_new { &mut gateway.starts } else { &mut gateway.restarts }.push(took);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        gateway.idle = gateway.memory();
        gateway
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.to, self.headers.clone())
    }

    pub(crate) fn cpu(&self) -> Duration {
        self.process.as_ref().map(Process::cpu).unwrap_or_default()
    }

    pub(crate) fn memory(&self) -> Memory {
        self.process.as_ref().map(Process::memory).unwrap_or_default()
    }
}

/// Returns the command that starts a gateway, and the headers that its clients send.
fn command(name: &str, to: SocketAddr, places: &Places, folder: &Path) -> (Command, Headers) {
    let upstream = format!("http://{}", places.mock);
    let port = to.port().to_string();
    let bin = places.installed.join("venv/bin");
    let headers = |list: &[(&'static str, &str)]| {
        list.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
    };
    let (mut command, headers): (Command, Headers) = match name {
        "floor" => {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["floor", &port, &places.mock.to_string()]);
            (command, Headers::new())
        }
        OURS => {
            let config = folder.join("longhaul.yml");
            let model = format!(
                r#"model: {{ name: {MODEL}, base_url: "{upstream}/v1", context_window: {WINDOW_TOKENS} }}"#
            );
            std::fs::write(&config, model).unwrap();
            let mut command = Command::new(&places.binary);
            command.arg("--config").arg(config).arg("--data-dir").arg(folder.join("data"));
            command.args(["serve", "--addr", &to.to_string()]);
            (command, Headers::new())
        }
        "sglang-router" => {
            let mut command = Command::new(bin.join("python"));
            command.args(["-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", &port]);
            command.args(["--worker-urls", &upstream, "--policy", "round_robin"]);
            command.args(["--prometheus-host", "127.0.0.1", "--prometheus-port", &free().port().to_string()]);
            (command, Headers::new())
        }
        "portkey" => {
            let mut command = Command::new("node");
            command.arg("--require").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/portkey_streams.cjs"));
            command.arg(places.installed.join("node/node_modules/@portkey-ai/gateway/build/start-server.js"));
            command.args([&format!("--port={port}"), "--headless"]);
            let host = format!("{upstream}/v1");
            let with = [
                ("authorization", "Bearer none"),
                ("x-portkey-provider", "openai"),
                ("x-portkey-custom-host", &host),
            ];
            (command, headers(&with))
        }
        "litellm" => {
            let config = folder.join("config.yaml");
            let key = "sk-of-this-run-only";
            let text = format!(
                "model_list:\n  - model_name: {MODEL}\n    litellm_params: {{ model: openai/{MODEL}, api_base: \"{upstream}/v1\", api_key: none }}\n\
                 general_settings: {{ master_key: {key} }}\nlitellm_settings: {{ telemetry: false }}\n"
            );
            std::fs::write(&config, text).unwrap();
            let mut command = Command::new(bin.join("litellm"));
            command.arg("--config").arg(config);
            command.args([
                "--host",
                "127.0.0.1",
                "--port",
                &port,
                "--num_workers",
                "1",
                "--telemetry",
                "False",
            ]);
            // Its own copy of the price list, not one from the network.
            command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
            (command, headers(&[("authorization", &format!("Bearer {key}"))]))
        }
        other => panic!("no gateway is called {other}"),
    };
    command.current_dir(folder).env("HOME", folder.join("home"));
    (command, headers)
}
