//! How the server listens, and whom it answers.

use std::net::SocketAddr;
use std::time::Duration;

/// How the server listens, and whom it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Where it listens.
    pub addr: SocketAddr,
    /// The file that holds its token, relative to the agent file; `None`: one in the data folder, made if missing.
    pub token_file: Option<String>,
    /// Host names it answers to besides those of the loopback interface, with or without a port.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may ask, besides the server's own, for example `https://example.org`.
    pub allowed_origins: Vec<String>,
    /// The largest request, in bytes.
    pub max_body_bytes: usize,
    /// How many requests one client may make; `None`: as many as it likes.
    pub rate_limit: Option<RateLimitConfig>,
}

/// So many requests at once, and as many again in each span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitConfig {
    /// How many; at least 1.
    pub requests: u32,
    /// In how long a time.
    pub per: Duration,
}

impl RateLimitConfig {
    /// `120/min`; `None` if the text has another form or allows nothing.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (count, unit) = text.split_once('/')?;
        let seconds = match unit.trim() {
            "s" => 1,
            "min" => 60,
            "h" => 3_600,
            _ => return None,
        };
        let requests = count.trim().parse().ok().filter(|count| *count > 0)?;
        Some(Self { requests, per: Duration::from_secs(seconds) })
    }
}
