//! A benchmark of the gateway and other gateways, in turns on the same data: the time that each adds to a request.
//! Everything stays on this machine, and the model is a mock.
//!
//! `just gateway-peers` installs the other gateways and runs the benchmark. `--rounds N`, `--only NAME,NAME`, `--rows ROW,ROW` (the
//! beginnings of their names), `--binary PATH`, `--fixtures FOLDER`.

mod bodies;
mod client;
mod floor;
mod forwarded;
mod gateways;
mod measure;
mod mock;
mod process;
mod report;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;

use bodies::{Request, Session};
use gateways::{ALL, DIRECT, Gateway, Places};
use measure::Cell;
use process::{Process, free};
use report::Report;
use tokio::net::TcpListener;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../shared/fixtures/trajectories");

const TARGET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../target");

/// The gateways that are too slow for the longest measurements. They take part in the first round only.
const SLOW: [&str; 2] = ["portkey", "litellm"];

struct Options {
    rounds: usize,
    only: Option<Vec<String>>,
    rows: Option<Vec<String>>,
    binary: PathBuf,
    fixtures: PathBuf,
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Self {
        let mut options = Self {
            rounds: 5,
            only: None,
            rows: None,
            binary: PathBuf::from(TARGET).join("release/longhaul"),
            fixtures: PathBuf::from(FIXTURES),
        };
        let list = |value: String| Some(value.split(',').map(str::to_owned).collect());
        while let Some(name) = arguments.next() {
            let value = arguments.next().unwrap_or_else(|| panic!("{name} needs a value"));
            match name.as_str() {
                "--rounds" => options.rounds = value.parse().unwrap(),
                "--only" => options.only = list(value),
                "--rows" => options.rows = list(value),
                "--binary" => options.binary = std::path::absolute(value).unwrap(),
                "--fixtures" => options.fixtures = value.into(),
                other => panic!("{other} is no option"),
            }
        }
        options
    }

    fn has_row(&self, row: &str) -> bool {
        self.rows.as_ref().is_none_or(|rows| rows.iter().any(|wanted| row.starts_with(wanted.as_str())))
    }
}

/// The requests of three sizes, in tokens of four bytes.
struct Sizes {
    small: Rc<Request>,
    middle: Rc<Request>,
    large: Rc<Request>,
}

impl Sizes {
    fn new(session: &Session) -> Self {
        let request = |tokens: usize, most_text_bytes| Rc::new(session.request(tokens * 4, most_text_bytes));
        Self { small: request(1_000, 300), middle: request(32_000, 1_200), large: request(100_000, 1_200) }
    }

    fn named(&self) -> [(&'static str, &Rc<Request>); 3] {
        [("1K", &self.small), ("32K", &self.middle), ("100K", &self.large)]
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    match arguments.peek().map(String::as_str) {
        Some(role @ ("mock" | "floor")) => {
            let role = role.to_owned();
            let rest: Vec<String> = arguments.skip(1).collect();
            local.block_on(&runtime, async {
                let port: u16 = rest[0].parse().unwrap();
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.unwrap();
                match role.as_str() {
                    "mock" => mock::serve(listener).await,
                    _ => floor::serve(listener, rest[1].parse::<SocketAddr>().unwrap()).await,
                }
            });
        }
        _ => local.block_on(&runtime, run(Options::read(arguments))),
    }
}

async fn run(options: Options) {
    let Some(session) = Session::read(&options.fixtures) else {
        eprintln!("no recorded session in {}: nothing is measured", options.fixtures.display());
        std::process::exit(1);
    };
    let sizes = Sizes::new(&session);
    let body = sizes.small.body(0, false);
    let installed = PathBuf::from(TARGET).canonicalize().unwrap().join("gateway-peers");
    let work = installed.join("work");
    let _ = std::fs::remove_dir_all(&work);
    std::fs::create_dir_all(&work).unwrap();
    let at = free();
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["mock", &at.port().to_string()]);
    let log = work.join("mock.log");
    let (_mock, _) = Process::ready(command, &log, at, &Vec::new(), &body).await;
    let places = Places { installed, work, binary: options.binary.clone(), mock: at };
    let is_wanted = |name: &str| {
        let only = options.only.as_ref();
        name == DIRECT || only.is_none_or(|only| only.iter().any(|wanted| wanted == name))
    };
    let mut gateways = Vec::new();
    for name in ALL.into_iter().filter(|name| is_wanted(name)) {
        eprintln!("starting {name}");
        gateways.push(Gateway::start(name, &places, &body).await);
    }
    let mut report = Report::new(&sizes.named().map(|(name, request)| (name, &**request)), load());
    for gateway in &gateways {
        let is = forwarded::forwarded(gateway, &gateways[0], &sizes.large).await;
        report.forwarded(gateway.name, is);
    }
    for round in 0..options.rounds {
        eprintln!("round {} of {}", round + 1, options.rounds);
        let is_wanted = |row: &str| options.has_row(row);
        one_round(round, &gateways, &sizes, is_wanted, &mut report).await;
    }
    for gateway in &gateways {
        report.gateway(gateway);
    }
    report.ends(load());
    let file = places.installed.join("result.json");
    std::fs::write(&file, report.json()).unwrap();
    print!("{}", report.markdown());
    eprintln!("{}", file.display());
}

/// Returns the load of the machine: running and ready processes, averaged over a minute.
fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or_default()
}

async fn one_round(
    round: usize,
    gateways: &[Gateway],
    sizes: &Sizes,
    is_wanted: impl Fn(&str) -> bool,
    report: &mut Report,
) {
    let mut order: Vec<&Gateway> = gateways.iter().collect();
    if round % 2 == 1 {
        order.reverse();
    }
    let quick: Vec<&Gateway> =
        order.iter().copied().filter(|gateway| round == 0 || !SLOW.contains(&gateway.name)).collect();
    let mock = &gateways[0];
    let mut put = |row: &str, gateway: &Gateway, cell: Result<Cell, String>| {
        report.put(row, gateway.name, round, cell);
    };
    for (size, request) in sizes.named() {
        let requests = if size == "1K" { 400 } else { 150 };
        for (heat, cold) in [("cold", true), ("warm", false)] {
            let row = format!("latency {size} {heat}");
            for gateway in order.iter().filter(|_| is_wanted(&row)) {
                put(&row, gateway, measure::latency(gateway, request, requests, cold).await);
            }
        }
    }
    for (size, request, clients) in [("1K", &sizes.small, 16), ("100K", &sizes.large, 8)] {
        let row = format!("saturation {size}");
        for gateway in order.iter().filter(|_| is_wanted(&row)) {
            put(&row, gateway, measure::saturation(gateway, request, clients).await);
        }
    }
    for (kind, load, pace) in [("1 stream", (1, 5), (10, 20)), ("20 streams", (20, 2), (20, 25))] {
        for gateway in order.iter().filter(|_| is_wanted(kind)) {
            put(kind, gateway, measure::streams(gateway, mock, &sizes.middle, load, pace).await);
        }
    }
    for gateway in quick.iter().filter(|_| is_wanted("flat out")) {
        put("flat out", gateway, measure::streams(gateway, mock, &sizes.middle, (4, 2), (0, 1_000)).await);
    }
    for gateway in quick.iter().filter(|_| is_wanted("growing")) {
        put("growing", gateway, measure::growing(gateway, &sizes.large).await);
    }
}
