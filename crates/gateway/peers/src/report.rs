//! The report of the benchmark: tables and goals.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bodies::Request;
use crate::gateways::{DIRECT, Gateway, OURS};
use crate::measure::Cell;
use crate::process::Memory;

const MIB: f64 = (1 << 20) as f64;

#[derive(Default)]
pub(crate) struct Report {
    sizes: Vec<Value>,
    /// The load of the machine before the first and after the last measurement.
    load: [f64; 2],
    gateways: Vec<Facts>,
    forwarded: BTreeMap<&'static str, String>,
    /// The cells by row and gateway, one for each successful round.
    rows: BTreeMap<(String, &'static str), BTreeMap<usize, Cell>>,
    faults: Vec<String>,
}

struct Facts {
    name: &'static str,
    starts: Vec<f64>,
    restarts: Vec<f64>,
    idle: Memory,
    after: Memory,
}

/// A figure of the best round, and the median of all rounds.
#[derive(Clone, Copy)]
struct Figure {
    best: f64,
    median: f64,
}

/// The direction in which a figure improves.
#[derive(Clone, Copy)]
enum Better {
    Less,
    More,
}

impl Figure {
    fn of(mut values: Vec<f64>, better: Better) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let best = match better {
            Better::Less => values.first(),
            Better::More => values.last(),
        };
        let median = match values.len() {
            0 => return None,
            odd if odd % 2 == 1 => values[odd / 2],
            even => (values[even / 2 - 1] + values[even / 2]) / 2.0,
        };
        Some(Self { best: *best?, median })
    }
}

impl Report {
    pub(crate) fn new(sizes: &[(&'static str, &Request)], load: f64) -> Self {
        let size = |(name, request): &(&str, &Request)| {
            json!({
                "name": name, "bytes": request.body(0, false).len(), "messages": request.messages(), "calls": request.calls,
                "steps": request.steps().len(),
            })
        };
        Self { sizes: sizes.iter().map(size).collect(), load: [load; 2], ..Self::default() }
    }

    pub(crate) fn put(&mut self, row: &str, gateway: &'static str, round: usize, cell: Result<Cell, String>) {
        match cell {
            Ok(cell) => drop(self.rows.entry((row.to_owned(), gateway)).or_default().insert(round, cell)),
            Err(why) => {
                let why: String = why.chars().take(300).collect();
                let fault = format!("{gateway}, {row}, round {}: {why}", round + 1);
                eprintln!("{fault}");
                self.faults.push(fault);
            }
        }
    }

    pub(crate) fn ends(&mut self, load: f64) {
        self.load[1] = load;
    }

    pub(crate) fn forwarded(&mut self, gateway: &'static str, is: String) {
        self.forwarded.insert(gateway, is);
    }

    pub(crate) fn gateway(&mut self, gateway: &Gateway) {
        let ms = |times: &[Duration]| times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        self.gateways.push(Facts {
            name: gateway.name,
            starts: ms(&gateway.starts),
            restarts: ms(&gateway.restarts),
            idle: gateway.idle,
            after: gateway.memory(),
        });
    }

    /// Returns one value of a row, by rounds.
    fn values(&self, row: &str, gateway: &'static str, name: &str) -> BTreeMap<usize, f64> {
        let cells = self.rows.get(&(row.to_owned(), gateway)).into_iter().flatten();
        cells.filter_map(|(round, cell)| Some((*round, *cell.get(name)?))).collect()
    }

    fn figure(&self, row: &str, gateway: &'static str, name: &str, better: Better) -> Option<Figure> {
        Figure::of(self.values(row, gateway, name).into_values().collect(), better)
    }

    /// Returns the time that a gateway adds to a direct request, or the direct time itself.
    fn added(&self, row: &str, gateway: &'static str, name: &str) -> Option<Figure> {
        match gateway {
            DIRECT => self.figure(row, DIRECT, name, Better::Less),
            _ => self.beside_direct(row, gateway, name, |own, direct| own - direct),
        }
    }

    fn times(&self, row: &str, gateway: &'static str, name: &str) -> Option<Figure> {
        self.beside_direct(row, gateway, name, |own, direct| own / direct)
    }

    /// Returns a comparison with direct requests: of the best rounds of both, and the median over rounds.
    fn beside_direct(
        &self,
        row: &str,
        gateway: &'static str,
        name: &str,
        pair: impl Fn(f64, f64) -> f64,
    ) -> Option<Figure> {
        let (own, direct) = (self.values(row, gateway, name), self.values(row, DIRECT, name));
        let paired = own.iter().filter_map(|(round, own)| Some(pair(*own, *direct.get(round)?)));
        let median = Figure::of(paired.collect(), Better::Less)?.median;
        // The best rounds need not be the same: a round that disturbed the direct requests alone would flatter.
        let best = |values: &BTreeMap<usize, f64>| values.values().copied().fold(f64::INFINITY, f64::min);
        Some(Figure { best: pair(best(&own), best(&direct)), median })
    }

    pub(crate) fn json(&self) -> String {
        let rows = self.rows.iter().map(|((row, gateway), cells)| {
            json!({ "row": row, "gateway": gateway, "rounds": cells.iter().map(|(round, cell)| {
                let mut cell = json!(cell);
                cell["round"] = (round + 1).into();
                cell
            }).collect::<Vec<_>>() })
        });
        let memory = |memory: Memory| json!({ "resident_bytes": memory.resident, "peak_bytes": memory.peak });
        let gateways = self.gateways.iter().map(|facts| {
            json!({
                "name": facts.name, "starts_ms": facts.starts, "restarts_ms": facts.restarts,
                "idle": memory(facts.idle), "after": memory(facts.after), "forwarded": self.forwarded.get(facts.name),
            })
        });
        let all = json!({
            "cores": cores(), "load": self.load, "bodies": self.sizes, "gateways": gateways.collect::<Vec<_>>(), "rows": rows.collect::<Vec<_>>(),
            "faults": self.faults, "goals": self.goals().iter().map(Goal::json).collect::<Vec<_>>(),
        });
        format!("{all:#}\n")
    }

    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        let [before, after] = self.load;
        let _ = writeln!(text, "{} cores; load before {before}, at the end {after}\n", cores());
        for size in &self.sizes {
            let _ = writeln!(
                text,
                "{}: {} bytes, {} messages, {} calls",
                size["name"].as_str().unwrap_or_default(),
                size["bytes"],
                size["messages"],
                size["calls"]
            );
        }
        for heat in ["warm", "cold"] {
            let cells = ["1K", "32K", "100K"].map(|size| [("p50", size), ("p99", size)]).concat();
            let title = format!("Added to a request, {heat}, ms: best / median of rounds (direct: its own)");
            let head: Vec<String> = cells.iter().map(|(name, size)| format!("{size} {name}")).collect();
            self.table(&mut text, &title, &head, |gateway| {
                let cell = |(name, size): &(&str, &str)| {
                    shown(self.added(&format!("latency {size} {heat}"), gateway, name))
                };
                cells.iter().map(cell).collect()
            });
        }
        let head =
            ["16 clients, 1K: req/s", "per core", "p99 ms", "8 clients, 100K: req/s", "per core", "p99 ms"];
        self.table(&mut text, "Saturation: best / median of rounds", &head.map(str::to_owned), |gateway| {
            let of = |row: &str| {
                [("per_second", Better::More), ("per_core_second", Better::More), ("p99", Better::Less)]
                    .map(|(name, better)| shown(self.figure(row, gateway, name, better)))
            };
            [of("saturation 1K"), of("saturation 100K")].concat()
        });
        let kinds = ["1 stream", "20 streams", "flat out"];
        let names = [("first", "first chunk"), ("gap_p99", "gap p99")];
        let head: Vec<String> = kinds[..2]
            .iter()
            .flat_map(|kind| names.map(|(_, name)| format!("{kind}: {name}")))
            .chain(["CPU ms for 1,000 chunks, flat out".to_owned()])
            .collect();
        self.table(
            &mut text,
            "Streams: added, ms: best / median of rounds (direct: its own)",
            &head,
            |gateway| {
                let cells = kinds[..2]
                    .iter()
                    .flat_map(|kind| names.map(|(name, _)| shown(self.added(kind, gateway, name))));
                let cpu = (gateway != DIRECT)
                    .then(|| self.figure("flat out", gateway, "cpu_per_1000", Better::Less))
                    .flatten();
                cells.chain([shown(cpu)]).collect()
            },
        );
        let head = ["whole, ms", "x direct", "p50 of the first third", "of the last third"];
        self.table(
            &mut text,
            "The growing conversation: best / median of rounds",
            &head.map(str::to_owned),
            |gateway| {
                vec![
                    shown(self.figure("growing", gateway, "total", Better::Less)),
                    shown(self.times("growing", gateway, "total")),
                    shown(self.figure("growing", gateway, "first_third", Better::Less)),
                    shown(self.figure("growing", gateway, "last_third", Better::Less)),
                ]
            },
        );
        let head = [
            "ready, new folders, ms",
            "again",
            "RSS idle, MiB",
            "after",
            "peak",
            "the 100K body as it was forwarded",
        ];
        self.table(
            &mut text,
            "Startup to the first answer, memory, faithfulness",
            &head.map(str::to_owned),
            |gateway| {
                let Some(facts) = self.gateways.iter().find(|facts| facts.name == gateway) else {
                    return Vec::new();
                };
                let mib = |bytes: u64| {
                    if bytes == 0 { String::new() } else { format!("{:.0}", bytes as f64 / MIB) }
                };
                vec![
                    shown(Figure::of(facts.starts.clone(), Better::Less)),
                    shown(Figure::of(facts.restarts.clone(), Better::Less)),
                    mib(facts.idle.resident),
                    mib(facts.after.resident),
                    mib(facts.after.peak),
                    self.forwarded.get(gateway).cloned().unwrap_or_default(),
                ]
            },
        );
        let goals = self.goals();
        if !goals.is_empty() {
            let _ = writeln!(text, "\nGoals, best round\n\n| | goal | measured | |\n|---|---|---|---|");
            for goal in &goals {
                let verdict = if goal.is_met { "met" } else { "**missed**" };
                let _ = writeln!(text, "| {} | {} | {} | {verdict} |", goal.what, goal.goal, goal.measured);
            }
        }
        if !self.faults.is_empty() {
            let _ = writeln!(text, "\nFailed:");
            for fault in &self.faults {
                let _ = writeln!(text, "- {fault}");
            }
        }
        text
    }

    fn table(
        &self,
        text: &mut String,
        title: &str,
        head: &[String],
        row: impl Fn(&'static str) -> Vec<String>,
    ) {
        let _ = writeln!(text, "\n{title}\n\n| | {} |\n|---|{}", head.join(" | "), "---|".repeat(head.len()));
        for facts in &self.gateways {
            let cells = row(facts.name);
            if cells.iter().any(|cell| !cell.is_empty()) {
                let _ = writeln!(text, "| {} | {} |", facts.name, cells.join(" | "));
            }
        }
    }

    fn goals(&self) -> Vec<Goal> {
        let Some(facts) = self.gateways.iter().find(|facts| facts.name == OURS) else { return Vec::new() };
        let least = |what: &str, figure: Option<Figure>, most: f64, unit: &str| Goal {
            what: what.to_owned(),
            goal: format!("<= {most}{unit}"),
            measured: figure.map_or("nothing".to_owned(), |figure| format!("{}{unit}", number(figure.best))),
            is_met: figure.is_some_and(|figure| figure.best <= most),
        };
        let most = |what: &str, figure: Option<Figure>, least: f64| Goal {
            what: what.to_owned(),
            goal: format!(">= {}", number(least)),
            measured: figure.map_or("nothing".to_owned(), |figure| number(figure.best)),
            is_met: figure.is_some_and(|figure| figure.best >= least),
        };
        let per_core = |row| self.figure(row, OURS, "per_core_second", Better::More);
        let idle = facts.idle.resident as f64 / MIB;
        let forwarded = self.forwarded.get(OURS).cloned().unwrap_or_default();
        vec![
            least("added p50, 1K, warm", self.added("latency 1K warm", OURS, "p50"), 0.15, " ms"),
            least("added p50, 100K, warm", self.added("latency 100K warm", OURS, "p50"), 1.0, " ms"),
            most("requests/s per core, 1K", per_core("saturation 1K"), 5_000.0),
            most("requests/s per core, 100K", per_core("saturation 100K"), 1_000.0),
            least("growing conversation", self.times("growing", OURS, "total"), 5.0, " x direct"),
            least("first chunk added, 1 stream", self.added("1 stream", OURS, "first"), 1.0, " ms"),
            least("first chunk added, 20 streams", self.added("20 streams", OURS, "first"), 1.0, " ms"),
            least("gap p99 over direct, 1 stream", self.added("1 stream", OURS, "gap_p99"), 1.0, " ms"),
            least("gap p99 over direct, 20 streams", self.added("20 streams", OURS, "gap_p99"), 1.0, " ms"),
            least("ready, new folders", Figure::of(facts.starts.clone(), Better::Less), 50.0, " ms"),
            least("RSS idle", Some(Figure { best: idle, median: idle }), 30.0, " MiB"),
            Goal {
                what: "forwarded bytes".to_owned(),
                goal: "identical".to_owned(),
                is_met: forwarded == "identical",
                measured: forwarded,
            },
        ]
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(0, usize::from)
}

struct Goal {
    what: String,
    goal: String,
    measured: String,
    is_met: bool,
}

impl Goal {
    fn json(&self) -> Value {
        json!({ "what": self.what, "goal": self.goal, "measured": self.measured, "met": self.is_met })
    }
}

fn shown(figure: Option<Figure>) -> String {
    figure.map_or(String::new(), |figure| format!("{} / {}", number(figure.best), number(figure.median)))
}

/// Returns a number with at most three significant digits, and with commas between thousands.
fn number(value: f64) -> String {
    match value.abs() {
        small if small < 0.995 => format!("{value:.2}"),
        small if small < 99.5 => format!("{value:.1}"),
        _ => {
            let digits = format!("{:.0}", value.abs());
            let mut grouped = String::new();
            for (at, digit) in digits.chars().enumerate() {
                if at > 0 && (digits.len() - at) % 3 == 0 {
                    grouped.push(',');
                }
                grouped.push(digit);
            }
            if value < 0.0 { format!("-{grouped}") } else { grouped }
        }
    }
}
