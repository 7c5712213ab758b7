//! How the server listens, and whom it answers.

use std::net::SocketAddr;

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
}
