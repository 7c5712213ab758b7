//! The guard over the addresses that a name may resolve to, for the servers that we call ourselves: hooks and MCP
//! servers.
//!
//! A person names a server, but the owner of the name may answer with any address, a different one each time. Some
//! addresses mean "this machine's network card" or "the operator of this machine": link-local ones, among them the
//! metadata services of cloud providers, which hand out keys. Such addresses are refused at every connection. If the
//! configuration holds the address itself instead of a name, the address is intended and allowed.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, ClientBuilder, Url};

/// Metadata services at addresses that are not link-local: Alibaba Cloud, Oracle Cloud, and AWS over IPv6.
const METADATA: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// The reason that a name cannot be connected to.
#[derive(Debug, thiserror::Error)]
#[error(
    "the name resolves to {0}, an address of this machine's network or of a metadata service; such an \
     address must stand in the configuration itself"
)]
struct AddressRefused(IpAddr);

/// Makes a client for one server. Resolved addresses are checked, and a proxy from the environment is never used for
/// the machine itself.
pub(crate) fn client(server: &Url) -> ClientBuilder {
    let builder = Client::builder().dns_resolver(Arc::new(CheckedResolver(SystemResolver)));
    // Behind a proxy, `localhost` would be the machine of the proxy.
    if is_loopback(server) { builder.no_proxy() } else { builder }
}

fn is_loopback(url: &Url) -> bool {
    // `Url` keeps the brackets of an IPv6 host, which is no part of the address.
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Reports whether a name may resolve to an address.
fn is_reachable(address: IpAddr) -> bool {
    // An IPv4 address in IPv6 form must not slip through.
    let address = address.to_canonical();
    let is_near = match address {
        IpAddr::V4(four) => four.is_link_local() || four.is_broadcast() || four.octets()[0] == 0,
        IpAddr::V6(six) => {
            six.is_unicast_link_local() || embedded(six).is_some_and(|four| !is_reachable(four.into()))
        }
    };
    !is_near && !address.is_unspecified() && !address.is_multicast() && !METADATA.contains(&address)
}

/// Returns the IPv4 address that a NAT64 translator reaches by an IPv6 one.
fn embedded(six: Ipv6Addr) -> Option<Ipv4Addr> {
    let [0x64, 0xff9b, 0, 0, 0, 0, high, low] = six.segments() else { return None };
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Some(Ipv4Addr::new(a, b, c, d))
}

/// The resolver of the system.
#[derive(Clone, Copy)]
struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            // The client replaces port 0 by the port of its URL.
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(Box::new(found.collect::<Vec<SocketAddr>>().into_iter()) as Addrs)
        })
    }
}

/// A resolver that removes the refused addresses from another resolver's answers.
struct CheckedResolver<R>(R);

impl<R: Resolve> Resolve for CheckedResolver<R> {
    fn resolve(&self, name: Name) -> Resolving {
        let asked = self.0.resolve(name);
        Box::pin(async move {
            let (reachable, refused): (Vec<SocketAddr>, Vec<SocketAddr>) =
                asked.await?.partition(|found| is_reachable(found.ip()));
            match (reachable.is_empty(), refused.first()) {
                // A name is refused only if nothing is left: its allowed addresses stay usable.
                (true, Some(first)) => {
                    Err(Box::new(AddressRefused(first.ip())) as Box<dyn Error + Send + Sync>)
                }
                _ => Ok(Box::new(reachable.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// Answers for every name with these.
    struct Says(Vec<SocketAddr>);

    impl Resolve for Says {
        fn resolve(&self, _: Name) -> Resolving {
            let addresses = self.0.clone();
            Box::pin(async move { Ok(Box::new(addresses.into_iter()) as Addrs) })
        }
    }

    #[test]
    fn addresses_of_the_machines_surroundings_are_refused() {
        for near in [
            "169.254.169.254",
            "169.254.0.1",
            "100.100.100.200",
            "192.0.0.192",
            "0.0.0.0",
            "0.1.2.3",
            "255.255.255.255",
            "224.0.0.1",
            "::",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "fd00:ec2::254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
        ] {
            assert!(!is_reachable(near.parse().unwrap()), "{near}");
        }
        for far in [
            "127.0.0.1",
            "::1",
            "10.0.0.7",
            "192.168.1.5",
            "100.64.0.1",
            "fd12::1",
            "93.184.216.34",
            "2606:2800::1",
            "64:ff9b::5db8:d822",
        ] {
            assert!(is_reachable(far.parse().unwrap()), "{far}");
        }
    }

    #[tokio::test]
    async fn a_name_is_checked_when_it_is_connected_to() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap();
        let near = SocketAddr::from(([169, 254, 169, 254], 80));
        let url = format!("http://hooks.example:{}/", here.port());
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let _ = socket.read(&mut [0; 1024]).unwrap();
            socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        });
        let client = |says: Vec<SocketAddr>| {
            Client::builder().no_proxy().dns_resolver(Arc::new(CheckedResolver(Says(says)))).build().unwrap()
        };
        let refused = client(vec![near]).get(&url).send().await.unwrap_err();
        assert!(refused.is_connect());
        let why = format!("{refused:?}");
        assert!(why.contains("Refused(169.254.169.254)"), "{why}");
        let answered = client(vec![near, here]).get(&url).send().await.unwrap();
        assert_eq!(answered.status(), 200, "the other address is taken");
        server.join().unwrap();
    }

    #[tokio::test]
    async fn names_of_this_machine_are_found() {
        let name = "localhost".parse().unwrap();
        let found: Vec<SocketAddr> =
            CheckedResolver(SystemResolver).resolve(name).await.ok().unwrap().collect();
        assert!(found.iter().any(|found| found.ip().is_loopback()), "{found:?}");
    }
}
