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
    pub(super) fn explain(&self, url: &Url, error: &reqwest::Error) -> String {
        let what = if error.is_connect() { "cannot connect to" } else { "no answer from" };
        let mut words = format!("{what} {}", place(url));
        // The causes of a refused connection only repeat the refusal in the system's words.
        if is_refused(error) {
            words.push_str(": connection refused");
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

    /// Returns the likely setting behind an unreachable server: the proxy with its variable, or the source of trust
    /// in a certificate.
    pub fn hint(&self, url: &Url, error: &reqwest::Error) -> Option<String> {
        let proxy = self.proxy_to(url).map(|ProxySetting { address, variable }| {
            format!("the way leads through the proxy {address} (set by `{variable}`)")
        });
        match (proxy, is_certificate(error)) {
            (None, false) => None,
            (None, true) => Some(self.trust()),
            (Some(proxy), false) => {
                Some(format!("{proxy}: is it running? `NO_PROXY` names hosts that are reached without it"))
            }
            (Some(proxy), true) => {
                Some(format!("{proxy}, which may show a certificate of its own; {}", self.trust()))
            }
        }
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

/// Reports whether a connection failed because of the server's certificate. A repeated attempt would fail again.
pub(super) fn is_certificate(error: &reqwest::Error) -> bool {
    causes(error).any(of_certificate)
}

fn of_certificate(cause: &(dyn Error + 'static)) -> bool {
    // `source` of an I/O error skips the wrapped error itself and returns that error's source.
    let wrapped = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    let wrapped = wrapped.and_then(|wrapped| wrapped.downcast_ref::<rustls::Error>());
    let tls = wrapped.or_else(|| cause.downcast_ref::<rustls::Error>());
    matches!(tls, Some(rustls::Error::InvalidCertificate(_)))
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
        assert!(of_certificate(&unknown));
        assert!(of_certificate(&std::io::Error::other(unknown)));
        assert!(!of_certificate(&std::io::Error::other("broken")));
        let set = NetworkVariables::from_environment(&[("SSL_CERT_FILE", "/etc/own.pem")]);
        let read = "the certificates to trust are read from there: `SSL_CERT_FILE` is /etc/own.pem";
        assert_eq!(set.trust(), read);
        assert!(NetworkVariables::default().trust().starts_with("`SSL_CERT_FILE` names a file"));
    }
}
