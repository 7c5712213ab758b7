//! The measurements for one cell of a table: a gateway under one kind of load.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::spawn_local;

use crate::bodies::Request;
use crate::client::{Client, Streamed};
use crate::gateways::Gateway;

/// The values of a measurement by name, with times in milliseconds.
pub(crate) type Cell = BTreeMap<&'static str, f64>;

/// The time for the latencies of a slow gateway, and the least number of its requests.
const LONG_ENOUGH: Duration = Duration::from_millis(1_200);
const LEAST_REQUESTS: usize = 10;

const SATURATED_FOR: Duration = Duration::from_millis(1_500);

/// Returns a number that no other conversation has.
pub(crate) fn new_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Measures the latencies of one client with one request after another. With `cold`, each request begins a new
/// conversation; otherwise all are the same.
pub(crate) async fn latency(
    gateway: &Gateway,
    request: &Request,
    requests: usize,
    cold: bool,
) -> Result<Cell, String> {
    let mut client = gateway.client();
    let number = new_number();
    let body = |again: bool| request.body(if again { number } else { new_number() }, false);
    for _ in 0..3 {
        client.ask(body(!cold)).await?;
    }
    let begun = Instant::now();
    let mut took = Vec::new();
    while took.len() < requests && (took.len() < LEAST_REQUESTS || begun.elapsed() < LONG_ENOUGH) {
        took.push(client.ask(body(!cold)).await?);
    }
    let count = took.len() as f64;
    Ok([("p50", quantile(&mut took, 0.5)), ("p99", quantile(&mut took, 0.99)), ("requests", count)].into())
}

/// Measures clients that ask again as soon as they are answered, each with a conversation of its own.
pub(crate) async fn saturation(gateway: &Gateway, request: &Request, clients: usize) -> Result<Cell, String> {
    let mut ready: Vec<(Client, bytes::Bytes)> =
        (0..clients).map(|_| (gateway.client(), request.body(new_number(), false))).collect();
    for (client, body) in &mut ready {
        client.ask(body.clone()).await?;
    }
    let (begun, cpu) = (Instant::now(), gateway.cpu());
    let asking = ready.into_iter().map(|(mut client, body)| {
        spawn_local(async move {
            let mut took = Vec::new();
            while begun.elapsed() < SATURATED_FOR {
                took.push(client.ask(body.clone()).await?);
            }
            Ok::<_, String>(took)
        })
    });
    let mut took = Vec::new();
    for asking in asking.collect::<Vec<_>>() {
        took.extend(asking.await.unwrap()?);
    }
    let (lasted, cpu) = (begun.elapsed(), gateway.cpu() - cpu);
    let count = took.len() as f64;
    let mut cell =
        Cell::from([("per_second", count / lasted.as_secs_f64()), ("p99", quantile(&mut took, 0.99))]);
    if !cpu.is_zero() {
        cell.insert("per_core_second", count / cpu.as_secs_f64());
    }
    Ok(cell)
}

/// Measures repeated simultaneous streams, each of a known conversation.
pub(crate) async fn streams(
    gateway: &Gateway,
    mock: &Gateway,
    request: &Rc<Request>,
    (streams, times): (usize, usize),
    (pace, pieces): (u64, usize),
) -> Result<Cell, String> {
    mock.client().fetch(&format!("/pace/{pace}/{pieces}")).await?;
    let mut lines = Vec::new();
    for _ in 0..streams {
        let (mut client, number) = (gateway.client(), new_number());
        client.ask(request.body(number, false)).await?;
        lines.push((client, request.body(number, true)));
    }
    let cpu = gateway.cpu();
    let begun = Instant::now();
    let reading = lines.into_iter().map(|(mut client, body)| {
        spawn_local(async move {
            let mut all = Vec::new();
            for _ in 0..times {
                all.push(client.stream(body.clone()).await?);
            }
            Ok::<_, String>(all)
        })
    });
    let mut all: Vec<Streamed> = Vec::new();
    for reading in reading.collect::<Vec<_>>() {
        all.extend(reading.await.unwrap()?);
    }
    let (lasted, cpu) = (begun.elapsed(), gateway.cpu() - cpu);
    if let Some(bad) = all.iter().find(|one| one.pieces != pieces || !one.has_usage || !one.is_done) {
        return Err(format!(
            "{} of {pieces} pieces, usage: {}, end: {}",
            bad.pieces, bad.has_usage, bad.is_done
        ));
    }
    let mut first: Vec<Duration> = all.iter().map(|one| one.first).collect();
    let mut gaps: Vec<Duration> = all.iter().flat_map(|one| one.gaps.iter().copied()).collect();
    let total = (pieces * all.len()) as f64;
    Ok([
        ("first", quantile(&mut first, 0.5)),
        ("gap_p99", quantile(&mut gaps, 0.99)),
        ("gap_max", quantile(&mut gaps, 1.0)),
        ("cpu_per_1000", cpu.as_secs_f64() * 1e6 / total),
        ("pieces_per_second", total / lasted.as_secs_f64()),
    ]
    .into())
}

/// Measures a growing conversation: each request is the one before with the newest messages.
pub(crate) async fn growing(gateway: &Gateway, request: &Request) -> Result<Cell, String> {
    let (mut client, number) = (gateway.client(), new_number());
    // Only the connection.
    let other = new_number();
    client.ask(request.first(2, other, false)).await?;
    let mut took = Vec::new();
    for messages in request.steps() {
        took.push(client.ask(request.first(messages, number, false)).await?);
    }
    let total: Duration = took.iter().sum();
    let third = took.len() / 3;
    let last = took.len() - third;
    Ok([
        ("total", total.as_secs_f64() * 1e3),
        ("requests", took.len() as f64),
        ("last_third", quantile(&mut took[last..], 0.5)),
        ("first_third", quantile(&mut took[..third], 0.5)),
    ]
    .into())
}

/// Returns a quantile of durations, in milliseconds.
fn quantile(all: &mut [Duration], share: f64) -> f64 {
    all.sort_unstable();
    let at = ((all.len() - 1) as f64 * share).ceil() as usize;
    all[at].as_secs_f64() * 1e3
}
