//! Explanations of an unreachable server: the reason, the proxy on the way, and the proxy's variable.

use std::error::Error;
use std::ffi::OsStr;

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Url;

use super::{causes, is_loopback, is_refused, place};

/// The HTTP library's variables for requests over `http`; the first set variable wins.
const HTTP: [&str; 2] = ["HTTP_PROXY", "http_proxy"];

/// The variables for `https`.
const HTTPS: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];

/// The variables for a scheme without a special variable.
const ANY: [&str; 2] = ["ALL_PROXY", "all_proxy"];

/// The variables for hosts without a proxy.
const NONE: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The variables of trusted certificates.
const TRUST: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// The environment variables for the way to a server: proxies and trusted certificates.
///
/// The HTTP library itself obeys the variables. A copy is kept here for errors.
#[derive(Clone, Debug, Default)]
pub struct NetworkVariables(Vec<(&'static str, String)>);

/// A proxy on the way to a server.
#[derive(Debug, PartialEq, Eq)]
struct ProxySetting {
    /// Scheme, host and port.
    address: String,
    variable: &'static str,
}

impl NetworkVariables {
    /// Picks the relevant variables from an environment.
    pub fn from_environment<'e, N, V>(environment: impl IntoIterator<Item = &'e (N, V)>) -> Self
    where
        N: AsRef<OsStr> + 'e,
        V: AsRef<OsStr> + 'e,
    {
        let known: Vec<&'static str> = [HTTP, HTTPS, ANY, NONE, TRUST].into_iter().flatten().collect();
        // A value that is not Unicode cannot be shown in an error, so it is left out.
        let set = environment.into_iter().filter_map(|(name, value)| {
            let name = known.iter().find(|known| OsStr::new(known) == name.as_ref())?;
            Some((*name, value.as_ref().to_str()?.to_owned()))
        });
        Self(set.collect())
    }

    /// Returns the first set variable of `names`, even an empty variable.
    fn first(&self, names: [&str; 2]) -> Option<&(&'static str, String)> {
        names.iter().find_map(|name| self.0.iter().find(|(known, _)| known == name))
    }

    /// Returns the proxy on the way to a server; the HTTP library uses no proxy for the local machine.
    fn proxy_to(&self, url: &Url) -> Option<ProxySetting> {
        if is_loopback(url) {
            return None;
        }
        let [http, https, all, no] =
            [HTTP, HTTPS, ANY, NONE].map(|names| self.first(names).map_or("", |(_, value)| value.as_str()));
        let own = if url.scheme() == "https" { HTTPS } else { HTTP };
        // A failed request does not say which proxy it took, so the rules of the HTTP library are applied again.
        let matcher = Matcher::builder().http(http).https(https).all(all).no(no);
        let proxy = matcher.build().intercept(&url.as_str().parse().ok()?)?;
        // An empty variable of the scheme means no proxy of its own, and the general one applies.
        let set = self.first(own).filter(|(_, value)| !value.is_empty()).or_else(|| self.first(ANY))?;
        // A proxy's address may hold a user and a password, in the URI's authority: neither may show.
        let uri = proxy.uri();
        let port = uri.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
        let scheme = uri.scheme_str().unwrap_or("http");
        Some(ProxySetting { address: format!("{scheme}://{}{port}", uri.host()?), variable: set.0 })
    }

    /// Returns the reason why the server of `url` could not be reached. The text names the server, a proxy on the
    /// way, and the variable to check.
    pub fn explain(&self, url: &Url, error: &reqwest::Error) -> String {
        let what = if error.is_connect() { "cannot connect to" } else { "no answer from" };
        let mut words = format!("{what} {}", place(url));
        // The causes of a refused connection only repeat the refusal in the system's words.
        if is_refused(error) {
            words.push_str(": connection refused");
        } else if let Some(text) = connection_fault_text(error).filter(|_| self.proxy_to(url).is_none()) {
            words.push_str(": ");
            words.push_str(&text);
        } else {
            push_causes(&mut words, error);
        }
        if is_refused(error) && is_loopback(url) {
            words.push_str("; nothing listens there: is the server running?");
        }
        if let Some(hint) = self.hint(url, error) {
            words.push_str("; ");
            words.push_str(&hint);
        }
        words
    }

    /// Returns the likely setting behind an unreachable server: the proxy with its variable, the source of trust in a
    /// certificate, or the scheme of the base URL.
    pub fn hint(&self, url: &Url, error: &reqwest::Error) -> Option<String> {
        self.hint_for(url, ConnectionFault::of(url, error))
    }

    fn hint_for(&self, url: &Url, fault: ConnectionFault) -> Option<String> {
        let proxy = self.proxy_in_words(url);
        let way = || proxy.as_ref().map(|proxy| format!("the way leads through {proxy}"));
        match fault {
            ConnectionFault::ProxyLogin => Some(format!("{} {}", proxy?, self.proxy_login(url))),
            ConnectionFault::ProxyRefusal => Some(format!(
                "{} does not connect to {}: it may not allow the host, or not reach it; `NO_PROXY` names hosts that \
                 are reached without it",
                proxy?,
                url.host_str().unwrap_or_default()
            )),
            ConnectionFault::Certificate(fault) => {
                let words = fault.in_words().map_or_else(|| self.trust(), str::to_owned);
                Some(match way() {
                    None => words,
                    Some(way) => format!("{way}, which may show a certificate of its own; {words}"),
                })
            }
            ConnectionFault::NoTls => Some(join(way(), "does `base_url` have to begin with http://?")),
            ConnectionFault::NoHttp => Some(join(
                way(),
                "the answer is not HTTP: if the server speaks TLS, `base_url` must begin with https://",
            )),
            ConnectionFault::Other => way().map(|way| {
                format!("{way}: is it running? `NO_PROXY` names hosts that are reached without it")
            }),
        }
    }

    /// Returns the proxy on the way to a server with its variable.
    pub(super) fn proxy_in_words(&self, url: &Url) -> Option<String> {
        let ProxySetting { address, variable } = self.proxy_to(url)?;
        Some(format!("the proxy {address} (set by `{variable}`)"))
    }

    /// Returns what the proxy on the way to a server says about its user, and what to do.
    pub(super) fn proxy_login(&self, url: &Url) -> &'static str {
        let value =
            self.proxy_to(url).and_then(|proxy| self.0.iter().find(|(name, _)| *name == proxy.variable));
        if value.is_some_and(|(_, value)| value.contains('@')) {
            return "did not accept the user and the password in the variable: check both; special characters in them \
                    are written as %XX";
        }
        "wants a user and a password: write them into the variable as http://USER:PASSWORD@HOST:PORT, or name the \
         server's host in `NO_PROXY`"
    }

    /// Returns the setting for the trust in a certificate.
    fn trust(&self) -> String {
        let set: Vec<String> = TRUST
            .iter()
            .filter_map(|name| self.0.iter().find(|(known, value)| known == name && !value.is_empty()))
            .map(|(name, value)| format!("`{name}` is {value}"))
            .collect();
        if set.is_empty() {
            return "`SSL_CERT_FILE` names a file with the certificates to trust; without it they are the system's"
                .to_owned();
        }
        format!("the certificates to trust are read from there: {}", set.join(", "))
    }
}

/// Returns a failed connection in words, where the libraries' words tell a person little: an unknown host, or TLS at a
/// port without it.
pub fn connection_fault_text(error: &reqwest::Error) -> Option<String> {
    if causes(error).find_map(tls_error).map(ConnectionFault::of_tls) == Some(ConnectionFault::NoTls) {
        return Some("that port speaks http://, not https://".to_owned());
    }
    // The errors of the resolver have no public type, so their words decide.
    let host = error.url()?.host_str()?;
    // A machine that is offline cannot tell whether the host exists.
    if has_cause_with(error, "Temporary failure in name resolution") {
        return Some(format!("the host {host} cannot be looked up: is this machine online?"));
    }
    has_cause_with(error, "failed to lookup address").then(|| format!("the host {host} is unknown"))
}

/// Returns whether one of an error's causes has some words.
fn has_cause_with(error: &reqwest::Error, words: &str) -> bool {
    causes(error).any(|cause| cause.to_string().contains(words))
}

/// Adds the chain of causes without the library's own first sentence, a repetition of the URL.
pub(super) fn push_causes(words: &mut String, error: &reqwest::Error) {
    for cause in causes(error) {
        let text = cause.to_string();
        // Nested errors often repeat the text of their source.
        if !words.contains(&text) {
            words.push_str(": ");
            words.push_str(&text);
        }
    }
}

fn join(way: Option<String>, words: &str) -> String {
    way.map_or_else(|| words.to_owned(), |way| format!("{way}; {words}"))
}

/// The kind of a failed connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionFault {
    /// The proxy wants to know who asks.
    ProxyLogin,
    /// The proxy did not connect to the server.
    ProxyRefusal,
    Certificate(CertificateFault),
    /// The other side does not speak TLS.
    NoTls,
    /// The other side does not speak HTTP.
    NoHttp,
    Other,
}

impl ConnectionFault {
    fn of(url: &Url, error: &reqwest::Error) -> Self {
        if let Some(tls) = causes(error).find_map(tls_error) {
            return Self::of_tls(tls);
        }
        // The errors of a tunnel have no public type, so their words decide.
        match () {
            () if has_cause_with(error, "proxy authorization required") => Self::ProxyLogin,
            () if has_cause_with(error, "tunnel error: unsuccessful") => Self::ProxyRefusal,
            // The words of the HTTP library for a start that is no status line, such as a TLS alert.
            () if url.scheme() == "http" && has_cause_with(error, "invalid HTTP") => Self::NoHttp,
            () => Self::Other,
        }
    }

    fn of_tls(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(error) => Self::Certificate(CertificateFault::of(error)),
            rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => Self::NoTls,
            _ => Self::Other,
        }
    }
}

/// The reason why a certificate is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CertificateFault {
    Expired,
    NotValidYet,
    OtherName,
    Untrusted,
}

impl CertificateFault {
    fn of(error: &rustls::CertificateError) -> Self {
        use rustls::CertificateError as Error;
        match error {
            Error::Expired | Error::ExpiredContext { .. } => Self::Expired,
            Error::NotValidYet | Error::NotValidYetContext { .. } => Self::NotValidYet,
            Error::NotValidForName | Error::NotValidForNameContext { .. } => Self::OtherName,
            _ => Self::Untrusted,
        }
    }

    /// Returns what to do; `None` if the source of trust decides.
    fn in_words(self) -> Option<&'static str> {
        match self {
            Self::Expired => Some("the server needs a new certificate, or this machine's clock is wrong"),
            Self::NotValidYet => Some("is this machine's clock right?"),
            Self::OtherName => Some("the certificate is for another host: check the host in `base_url`"),
            Self::Untrusted => None,
        }
    }
}

/// Reports whether a connection failed because of the server's certificate.
pub(super) fn is_certificate(error: &reqwest::Error) -> bool {
    let tls = causes(error).find_map(tls_error);
    tls.is_some_and(|tls| matches!(ConnectionFault::of_tls(tls), ConnectionFault::Certificate(_)))
}

/// Reports whether a repeated attempt would fail again, until a person has changed a setting.
pub(super) fn is_permanent(url: &Url, error: &reqwest::Error) -> bool {
    match ConnectionFault::of(url, error) {
        ConnectionFault::ProxyRefusal | ConnectionFault::Other => false,
        ConnectionFault::ProxyLogin
        | ConnectionFault::Certificate(_)
        | ConnectionFault::NoTls
        | ConnectionFault::NoHttp => true,
    }
}

fn tls_error<'e>(mut cause: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    // `source` of an I/O error skips the wrapped error itself and returns that error's source. The HTTP library wraps
    // the I/O error of TLS in another one.
    while let Some(wrapped) = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
        cause = wrapped;
    }
    cause.downcast_ref::<rustls::Error>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(variables: &[(&str, &str)], url: &str) -> Option<(String, &'static str)> {
        let variables = NetworkVariables::from_environment(variables);
        let proxy = variables.proxy_to(&Url::parse(url).unwrap())?;
        Some((proxy.address, proxy.variable))
    }

    #[test]
    fn the_proxy_on_the_way_is_named_with_its_variable() {
        let named = |address: &str, variable| Some((address.to_owned(), variable));
        let https = "https://api.example/v1";
        assert_eq!(
            proxy(&[("https_proxy", "http://me:secret@p:3128")], https),
            named("http://p:3128", "https_proxy")
        );
        assert_eq!(
            proxy(&[("ALL_PROXY", "p:8080"), ("HTTP_PROXY", "q:1")], https),
            named("http://p:8080", "ALL_PROXY")
        );
        assert_eq!(
            proxy(&[("HTTPS_PROXY", ""), ("all_proxy", "p:8080")], https),
            named("http://p:8080", "all_proxy")
        );
        assert_eq!(proxy(&[("HTTP_PROXY", "q:1")], "http://box.example"), named("http://q:1", "HTTP_PROXY"));
        for (variables, url) in [
            (&[("HTTP_PROXY", "q:1")][..], https),
            (&[("HTTPS_PROXY", "p:1"), ("NO_PROXY", "example")], https),
            (&[("HTTP_PROXY", "q:1")], "http://127.0.0.1:8080"),
            (&[("PATH", "/bin")], https),
        ] {
            assert_eq!(proxy(variables, url), None, "{variables:?} {url}");
        }
    }

    #[test]
    fn a_certificate_is_found_among_the_causes() {
        let unknown = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        assert_eq!(tls_error(&unknown), Some(&unknown));
        let wrapped = std::io::Error::other(unknown.clone());
        assert_eq!(tls_error(&wrapped), Some(&unknown));
        assert_eq!(tls_error(&std::io::Error::other(wrapped)), Some(&unknown));
        assert_eq!(tls_error(&std::io::Error::other("broken")), None);
        let set = NetworkVariables::from_environment(&[("SSL_CERT_FILE", "/etc/own.pem")]);
        let read = "the certificates to trust are read from there: `SSL_CERT_FILE` is /etc/own.pem";
        assert_eq!(set.trust(), read);
        assert!(NetworkVariables::default().trust().starts_with("`SSL_CERT_FILE` names a file"));
    }

    #[test]
    fn a_refused_certificate_is_told_with_what_to_do() {
        use rustls::CertificateError as Error;
        let url = Url::parse("https://box.example").unwrap();
        let hint = |variables: &[(&str, &str)], error: Error| {
            let fault = ConnectionFault::of_tls(&rustls::Error::InvalidCertificate(error));
            NetworkVariables::from_environment(variables).hint_for(&url, fault).unwrap()
        };
        assert!(hint(&[], Error::Expired).contains("needs a new certificate"));
        assert!(hint(&[], Error::NotValidYet).contains("clock"));
        assert!(hint(&[], Error::NotValidForName).contains("check the host in `base_url`"));
        for untrusted in [Error::UnknownIssuer, Error::BadSignature] {
            assert!(hint(&[], untrusted).contains("`SSL_CERT_FILE` names a file"));
        }
        let own = hint(&[("https_proxy", "p:1"), ("SSL_CERT_FILE", "/own.pem")], Error::UnknownIssuer);
        assert!(
            own.starts_with("the way leads through the proxy http://p:1 (set by `https_proxy`), which may"),
            "{own}"
        );
        assert!(own.ends_with("`SSL_CERT_FILE` is /own.pem"), "{own}");
    }

    /// Returns the error of a request to a listener that answers with `bytes`.
    async fn failed(scheme: &str, bytes: &'static [u8]) -> (Url, reqwest::Error) {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("{scheme}://{}/", listener.local_addr().unwrap())).unwrap();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(bytes).await;
            let _ = stream.shutdown().await;
        });
        let client = super::super::builder(&url, std::time::Duration::from_secs(5)).build().unwrap();
        let error = client.get(url.clone()).send().await.unwrap_err();
        served.await.unwrap();
        (url, error)
    }

    #[tokio::test]
    async fn the_wrong_scheme_is_told() {
        let variables = NetworkVariables::default();
        let (url, error) = failed("https", b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        let told = variables.explain(&url, &error);
        let end = ": that port speaks http://, not https://; does `base_url` have to begin with http://?";
        assert!(told.ends_with(end), "{told}");
        assert!(is_permanent(&url, &error) && !is_certificate(&error));
        // The alert `protocol_version`, as OpenSSL sends it.
        let (url, error) = failed("http", b"\x15\x03\x01\x00\x02\x02\x46").await;
        let told = variables.explain(&url, &error);
        assert!(told.ends_with("`base_url` must begin with https://"), "{told}");
        assert!(is_permanent(&url, &error));
        let (url, error) = failed("http", b"").await;
        assert!(!is_permanent(&url, &error), "{}", variables.explain(&url, &error));
    }

    #[test]
    fn a_proxy_that_does_not_let_the_request_through_is_told_with_what_to_do() {
        let url = Url::parse("https://api.example/v1").unwrap();
        let hint = |proxy: &str, fault| {
            NetworkVariables::from_environment(&[("HTTPS_PROXY", proxy)]).hint_for(&url, fault).unwrap()
        };
        let login = hint("http://p:3128", ConnectionFault::ProxyLogin);
        let begin = "the proxy http://p:3128 (set by `HTTPS_PROXY`) wants a user and a password";
        assert!(login.starts_with(begin), "{login}");
        let login = hint("http://me:secret@p:3128", ConnectionFault::ProxyLogin);
        assert!(login.contains("did not accept") && !login.contains("secret"), "{login}");
        let refused = hint("http://p:3128", ConnectionFault::ProxyRefusal);
        assert!(refused.contains("does not connect to api.example"), "{refused}");
    }
}
