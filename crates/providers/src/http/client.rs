//! HTTP clients for model servers, without redirects, and without a proxy for the local machine. Slow setup is done
//! once per process.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::{Client, ClientBuilder, Url};
use rustls::ClientConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls_platform_verifier::BuilderVerifierExt;

/// The time between two keepalive probes of a silent connection.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// The number of unanswered probes after which a connection counts as broken.
const KEEPALIVE_RETRIES: u32 = 5;

/// Returns the builder of a client for the server of `base`.
pub fn builder(base: &Url, connect: Duration) -> ClientBuilder {
    // A host that vanishes silently is noticed after two minutes, however long an answer may take.
    let builder = Client::builder().tcp_keepalive(KEEPALIVE).tcp_keepalive_interval(KEEPALIVE);
    let builder = builder.tcp_keepalive_retries(KEEPALIVE_RETRIES);
    let builder = builder.connect_timeout(connect).redirect(reqwest::redirect::Policy::none());
    if !is_loopback(base) {
        return match tls() {
            Some(tls) => builder.tls_backend_preconfigured(tls),
            // Without our own roots the library sets TLS up itself and reports its error.
            None => builder,
        };
    }
    // A proxy from the environment is never meant for the machine itself.
    let builder = builder.no_proxy();
    // Plain HTTP checks no certificate, so loading the system's roots would only cost time.
    if base.scheme() == "http" { builder.tls_certs_only([]) } else { builder }
}

/// Reports whether a server is on the local machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Reports whether a server is local or in a private network: by address, or by a name unknown to public name
/// servers.
pub(crate) fn is_private(url: &Url) -> bool {
    // The address of an IPv6 host stands in brackets in a URL, and the parser takes it without them.
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => {
            address.is_loopback() || address.is_private() || address.is_link_local() || is_shared(address)
        }
        Ok(IpAddr::V6(address)) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
        Err(_) => {
            // Names of home and office networks. A public name never has one of these endings.
            const ENDINGS: [&str; 5] = [".local", ".lan", ".internal", ".localhost", ".home.arpa"];
            !host.is_empty() && (!host.contains('.') || ENDINGS.iter().any(|ending| host.ends_with(ending)))
        }
    }
}

/// Reports whether an address is in 100.64.0.0/10 (RFC 6598), the range of private overlays such as Tailscale.
fn is_shared(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    first == 100 && (64..128).contains(&second)
}

/// Returns TLS with the system's roots, as set up by the HTTP library. The roots are hundreds of files, and are read
/// once.
fn tls() -> Option<ClientConfig> {
    static TLS: OnceLock<ClientConfig> = OnceLock::new();
    // The setup can fail, and `get_or_init` takes no error. Two racing threads may both set up; one result stays.
    if let Some(known) = TLS.get() {
        return Some(known.clone());
    }
    // A program that embeds this crate may have chosen a provider for its whole process.
    let provider = CryptoProvider::get_default().cloned();
    let provider = provider.unwrap_or_else(|| Arc::new(aws_lc_rs::default_provider()));
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(rustls::ALL_VERSIONS);
    let mut config = builder.ok()?.with_platform_verifier().ok()?.with_no_client_auth();
    // The HTTP library adds no protocols to a preconfigured setup.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Some(TLS.get_or_init(|| config).clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_servers_are_known_by_address_or_name() {
        let is_private = |url: &str| is_private(&Url::parse(url).unwrap());
        for near in [
            "http://127.0.0.1:8080/v1",
            "http://localhost:1234",
            "http://[::1]:1",
            "http://10.1.2.3",
            "http://172.20.0.2",
            "http://192.168.1.5:11434",
            "http://100.101.102.103",
            "http://[fd00::1]",
            "http://ollama:11434",
            "http://gpu.local",
            "http://host.docker.internal:8000",
        ] {
            assert!(is_private(near), "{near}");
        }
        for far in ["https://api.openai.com", "http://8.8.8.8", "http://172.32.0.1", "http://100.128.0.1"] {
            assert!(!is_private(far), "{far}");
        }
    }

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
