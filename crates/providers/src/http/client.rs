//! Clients for servers: nothing is followed, nothing of this machine's goes through a proxy, and what takes long is done
//! once in a process.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::{Client, ClientBuilder, Url};
use rustls::ClientConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls_platform_verifier::BuilderVerifierExt;

/// What a client for the server of `base` begins with.
pub fn builder(base: &Url, connect: Duration) -> ClientBuilder {
    let builder = Client::builder().connect_timeout(connect).redirect(reqwest::redirect::Policy::none());
    if !is_loopback(base) {
        return match tls() {
            Some(tls) => builder.tls_backend_preconfigured(tls),
            // It says itself what is wrong.
            None => builder,
        };
    }
    // A proxy from the environment is never meant for the machine itself.
    let builder = builder.no_proxy();
    // Nobody's certificate will be looked at.
    if base.scheme() == "http" { builder.tls_certs_only([]) } else { builder }
}

/// Whether a server is on this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// TLS with the system's roots, as the HTTP library sets it up. They are hundreds of files: they are read once.
fn tls() -> Option<ClientConfig> {
    static TLS: OnceLock<ClientConfig> = OnceLock::new();
    if let Some(known) = TLS.get() {
        return Some(known.clone());
    }
    let provider = CryptoProvider::get_default().cloned();
    let provider = provider.unwrap_or_else(|| Arc::new(aws_lc_rs::default_provider()));
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(rustls::ALL_VERSIONS);
    let mut config = builder.ok()?.with_platform_verifier().ok()?.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Some(TLS.get_or_init(|| config).clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_built_for_every_place() {
        for base in ["http://127.0.0.1:1", "https://[::1]:1", "http://host.example", "https://host.example"] {
            let base = Url::parse(base).unwrap();
            assert!(builder(&base, Duration::from_secs(1)).build().is_ok(), "{base}");
        }
        let tls = tls().unwrap();
        assert_eq!(tls.alpn_protocols, [&b"h2"[..], b"http/1.1"], "as without a setup of our own");
    }
}
