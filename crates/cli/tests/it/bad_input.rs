//! Requests that are meant badly, or by mistake, at `/v1` of the real binary: each dialect has a clear error of its own,
//! memory stays bounded, and who comes next is answered.

use std::time::{Duration, Instant};

use axum::body::Bytes;
use reqwest::{Body, Client};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::bench::Bench;
use crate::fake::Fake;
use crate::serve::{end, start};

/// How long any of it may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// 100 MB.
const LARGE: usize = 100_000_000;

/// What the process may have grown by at most, for a request that is refused for its size.
const MOST_REFUSED_MB: u64 = 100;

/// The same for one that is read as a whole: the request, its text, and what is made of it.
const MOST_READ_MB: u64 = 900;

/// Each dialect: its path, a request around one text, and where its error says what it is.
struct Dialect {
    path: &'static str,
    before: &'static str,
    after: &'static str,
    kind: &'static str,
}

const DIALECTS: [Dialect; 3] = [
    Dialect {
        path: "/v1/chat/completions",
        before: r#"{"model":"fake-1","messages":[{"role":"user","content":"#,
        after: "}]}",
        kind: "invalid_request_error",
    },
    Dialect {
        path: "/v1/responses",
        before: r#"{"model":"fake-1","input":[{"role":"user","content":"#,
        after: "}]}",
        kind: "invalid_request_error",
    },
    Dialect {
        path: "/v1/messages",
        before: r#"{"model":"fake-1","max_tokens":50,"messages":[{"role":"user","content":"#,
        after: "}]}",
        // Anthropic's own name of an error 413.
        kind: "request_too_large",
    },
];

impl Dialect {
    fn request(&self, content: &str) -> String {
        [self.before, content, self.after].concat()
    }
}

/// The most memory that a process has had, in megabytes.
fn peak_mb(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1_000
}

struct Sender {
    runtime: Runtime,
    client: Client,
    address: String,
}

impl Sender {
    fn to(address: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        Self { runtime, client, address: address.to_owned() }
    }

    /// The status of the answer, and what it says.
    fn post(&self, path: &str, body: impl Into<Body>) -> (u16, Value) {
        let request = self.client.post(format!("http://{}{path}", self.address));
        let request = request.header("content-type", "application/json").body(body);
        self.runtime.block_on(async {
            let answer = request.send().await.unwrap();
            (answer.status().as_u16(), answer.json().await.unwrap())
        })
    }

    /// The status of an answer, and the kind and the words of its error.
    fn refused(&self, path: &str, body: impl Into<Body>) -> (u16, String, String) {
        let (status, said) = self.post(path, body);
        let text = |name: &str| said["error"][name].as_str().unwrap_or_else(|| panic!("{said}")).to_owned();
        (status, text("type"), text("message"))
    }

    fn is_well(&self) {
        for dialect in &DIALECTS {
            let (status, said) = self.post(dialect.path, dialect.request(r#""hello""#));
            assert_eq!(status, 200, "{}: {said}", dialect.path);
        }
    }
}

/// A body that does not say how long it is.
fn in_pieces(body: Bytes) -> Body {
    let pieces =
        (0..body.len()).step_by(1 << 20).map(move |at| body.slice(at..body.len().min(at + (1 << 20))));
    Body::wrap_stream(futures_util::stream::iter(pieces.map(Ok::<_, std::io::Error>)))
}

#[test]
fn a_body_of_100_mb_is_refused_in_its_dialect_and_not_kept() {
    let (bench, fake) = (Bench::new(), Fake::start([]));
    let (mut server, address, _said) = start(bench.with(&fake, &["serve", "--addr", "127.0.0.1:0"]));
    let client = Sender::to(&address);
    client.is_well();
    let before = peak_mb(server.id());
    let large = format!("\"{}\"", "x".repeat(LARGE));
    for dialect in &DIALECTS {
        // With a length a body can be refused before it is read. Without a length it has to be counted.
        for announced in [true, false] {
            let body = Bytes::from(dialect.request(&large));
            let body = if announced { Body::from(body) } else { in_pieces(body) };
            let (status, kind, words) = client.refused(dialect.path, body);
            assert_eq!((status, kind.as_str()), (413, dialect.kind), "{words}");
            assert!(words.contains("33554432") || words.contains("32 MiB"), "the limit is named: {words}");
        }
    }
    let grown = peak_mb(server.id()) - before;
    eprintln!("6 bodies of 100 MB, refused: {grown} MB more than before");
    assert!(grown < MOST_REFUSED_MB, "{grown} MB");
    client.is_well();
    end(&mut server);
}

#[test]
fn a_message_of_100_mb_that_may_be_read_is_cut_to_what_fits() {
    let (bench, fake) = (Bench::new(), Fake::start([]));
    let file = format!(
        "model: {{ name: fake-1, base_url: \"{}\" }}\nserver: {{ maxBodyBytes: 120000000 }}\n",
        fake.url()
    );
    bench.write("longhaul.yml", &file);
    let (mut server, address, _said) = start(bench.command(["serve", "--addr", "127.0.0.1:0"]));
    let client = Sender::to(&address);
    client.is_well();
    let before = peak_mb(server.id());
    let large = format!("\"{}\"", "lorem ipsum ".repeat(LARGE / 12));
    for dialect in &DIALECTS {
        let begun = Instant::now();
        let (status, said) = client.post(dialect.path, dialect.request(&large));
        assert_eq!(status, 200, "{}: {said}", dialect.path);
        let sent = fake.asked().last().unwrap().to_string();
        assert!(sent.len() < 100_000 && sent.contains("lorem ipsum"), "{} bytes", sent.len());
        eprintln!("{}: cut and answered after {:.1} s", dialect.path, begun.elapsed().as_secs_f64());
    }
    let grown = peak_mb(server.id()) - before;
    eprintln!("3 messages of 100 MB, read: {grown} MB more than before");
    assert!(grown < MOST_READ_MB, "{grown} MB");
    client.is_well();
    end(&mut server);
}

#[test]
fn what_is_nested_10000_deep_breaks_nothing() {
    let (bench, fake) = (Bench::new(), Fake::start([]));
    let (mut server, address, _said) = start(bench.with(&fake, &["serve", "--addr", "127.0.0.1:0"]));
    let client = Sender::to(&address);
    let nested =
        |open: &str, close: &str| [open.repeat(10_000), "1".to_owned(), close.repeat(10_000)].concat();
    // The last text never closes its lists.
    let deep = [nested("[", "]"), nested(r#"{"a":"#, "}"), "[".repeat(10_000)];
    let before = peak_mb(server.id());
    for dialect in &DIALECTS {
        for deep in &deep {
            let whole = dialect.request(deep);
            let item = dialect.request(r#""hi""#).replacen(r#"{"role""#, &format!("{deep},{{\"role\""), 1);
            let tools = dialect.request(r#""hi""#).replacen('{', &format!("{{\"tools\":[{deep}],"), 1);
            for body in [whole, item, deep.clone()] {
                let begun = Instant::now();
                let (status, kind, words) = client.refused(dialect.path, body);
                assert_eq!((status, kind.as_str()), (400, "invalid_request_error"), "{words}");
                assert!(words.len() < 1_000, "{words}");
                assert!(begun.elapsed() < Duration::from_secs(10));
            }
            // What nobody here looks into is the upstream's to judge.
            let (status, said) = client.post(dialect.path, tools);
            assert!(
                status == 200 || status == 400 && said["error"]["message"].is_string(),
                "{status}: {said}"
            );
        }
    }
    let grown = peak_mb(server.id()) - before;
    eprintln!("36 requests nested 10,000 deep: {grown} MB more than before");
    assert!(grown < MOST_REFUSED_MB, "{grown} MB");
    client.is_well();
    end(&mut server);
}
