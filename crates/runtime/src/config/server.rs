//! The server's address, and the clients that it admits.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

/// The server's address, and the clients that it admits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// The address on which the server listens.
    pub addr: SocketAddr,
    /// The file that holds its token, relative to the agent file; `None`: one in the data folder, made if missing.
    pub token_file: Option<String>,
    /// Host names it answers to besides those of the loopback interface, with or without a port.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may ask, besides the server's own, for example `https://example.org`.
    pub allowed_origins: Vec<String>,
    /// The largest request, in bytes.
    pub max_body_bytes: usize,
    /// The number of requests that one client may make; `None` for no limit.
    pub rate_limit: Option<RateLimit>,
    /// The time for which sessions are kept after their last event; `None` for ever.
    pub keep_sessions: Option<Duration>,
}

/// A rate limit: so many requests at once, and as many again in each span of time, for example `120/min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The number of requests; at least 1.
    pub requests: u32,
    /// In how long a time.
    pub per: Duration,
}

impl FromStr for RateLimit {
    type Err = String;

    /// Reads `COUNT/s`, `COUNT/min` or `COUNT/h`.
    fn from_str(text: &str) -> Result<Self, String> {
        parse_rate(text).ok_or_else(|| format!("`{text}` is not a rate such as 120/min (s, min or h)"))
    }
}

fn parse_rate(text: &str) -> Option<RateLimit> {
    let (count, unit) = text.split_once('/')?;
    let seconds = match unit.trim() {
        "s" => 1,
        "min" => 60,
        "h" => 3_600,
        _ => return None,
    };
    let requests = count.trim().parse().ok().filter(|count| *count > 0)?;
    Some(RateLimit { requests, per: Duration::from_secs(seconds) })
}
