//! Whom to connect to: URL, pinned address, TLS.
//!
//! A name is resolved once, before the run, and one working address is pinned, so that neither DNS nor a silent
//! IPv6-to-IPv4 fallback can hide in a latency. `localhost` may mean `::1` or `127.0.0.1`; all addresses are
//! tried and the first that accepts is used and shown.

use crate::connection::TlsSettings;
use rustls::pki_types::ServerName;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use url::Url;

/// How long one address may take to accept the probing connection.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// A server root that cannot be used.
#[derive(Debug, Error)]
pub enum TargetError {
    /// Not a URL we can use.
    #[error("`{url}` is not a server root: {why}; expected something like http://127.0.0.1:8000")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The name does not resolve.
    #[error("cannot resolve the host of {url}: {source}")]
    Resolve {
        /// The URL.
        url: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Nothing accepts connections there.
    #[error(
        "nothing answers at {url} (tried {tried}): {source}; is the server running, and is the port right?"
    )]
    Unreachable {
        /// The URL.
        url: String,
        /// The addresses tried.
        tried: String,
        /// The last error.
        source: io::Error,
    },
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(String),
}

/// One server root, resolved and pinned.
#[derive(Debug, Clone)]
pub struct Target {
    /// The root as given.
    pub url: String,
    /// The pinned address.
    pub address: SocketAddr,
    /// Value of the `Host` header.
    pub host: String,
    /// Path prefix of the root, without a trailing slash (`""` or `/prefix`).
    pub prefix: String,
    /// TLS, for https.
    pub tls: Option<TargetTls>,
}

/// What a TLS connection to the target needs.
#[derive(Debug, Clone)]
pub struct TargetTls {
    /// The name the certificate must carry.
    pub server_name: ServerName<'static>,
    /// Client settings shared by all connections.
    pub config: Arc<rustls::ClientConfig>,
}

impl Target {
    /// Parses, resolves and probes a server root.
    ///
    /// # Errors
    /// [`TargetError`] that says which step failed and what to do.
    pub fn resolve(root: &str, tls: &TlsSettings, http2: bool) -> Result<Self, TargetError> {
        let parsed = parse_root(root)?;
        let addresses: Vec<SocketAddr> = (parsed.host_name.as_str(), parsed.port)
            .to_socket_addrs()
            .map_err(|source| TargetError::Resolve { url: root.to_owned(), source })?
            .collect();
        let address = first_that_accepts(root, &addresses)?;
        let tls = if parsed.https { Some(target_tls(&parsed.host_name, tls, http2)?) } else { None };
        Ok(Self { url: root.to_owned(), address, host: parsed.host_header, prefix: parsed.prefix, tls })
    }

    /// The path of an endpoint under this root. A root that already ends in `/v1` is not doubled.
    #[must_use]
    pub fn path(&self, endpoint: &str) -> String {
        match (self.prefix.strip_suffix("/v1"), endpoint.starts_with("/v1/")) {
            (Some(shorter), true) => format!("{shorter}{endpoint}"),
            _ => format!("{}{endpoint}", self.prefix),
        }
    }
}

struct ParsedRoot {
    https: bool,
    host_name: String,
    host_header: String,
    port: u16,
    prefix: String,
}

fn parse_root(root: &str) -> Result<ParsedRoot, TargetError> {
    let fail = |why: &str| TargetError::Url { url: root.to_owned(), why: why.to_owned() };
    let url = Url::parse(root).map_err(|e| fail(&e.to_string()))?;
    let https = match url.scheme() {
        "http" => false,
        "https" => true,
        _ => return Err(fail("the scheme must be http or https")),
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(fail("credentials in a URL end up in logs; use --api-key or --header"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(fail("a server root has no query and no fragment"));
    }
    let host = url.host_str().ok_or_else(|| fail("it has no host"))?.to_owned();
    let port = url.port_or_known_default().ok_or_else(|| fail("it has no port"))?;
    let host_header = url.port().map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
    let host_name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok(ParsedRoot {
        https,
        host_name,
        host_header,
        port,
        prefix: url.path().trim_end_matches('/').to_owned(),
    })
}

fn first_that_accepts(root: &str, addresses: &[SocketAddr]) -> Result<SocketAddr, TargetError> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(address, PROBE_TIMEOUT) {
            Ok(_probe) => return Ok(*address),
            Err(error) => last = error,
        }
    }
    let tried = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Err(TargetError::Unreachable { url: root.to_owned(), tried, source: last })
}

fn target_tls(host: &str, settings: &TlsSettings, http2: bool) -> Result<TargetTls, TargetError> {
    let server_name = ServerName::try_from(host.to_owned())
        .map_err(|e| TargetError::Tls(format!("`{host}` cannot be a certificate's name: {e}")))?;
    let mut config = settings.client_config().map_err(TargetError::Tls)?;
    config.alpn_protocols = vec![if http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
    Ok(TargetTls { server_name, config: Arc::new(config) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn roots_are_checked() {
        for (bad, why) in [
            ("127.0.0.1:8000", "server root"),
            ("ftp://x", "scheme"),
            ("http://user:pw@x", "credentials"),
            ("http://x/?a=b", "query"),
        ] {
            let error = parse_root(bad).err().map(|e| e.to_string());
            assert!(error.as_ref().is_some_and(|e| e.contains(why)), "{bad}: {error:?}");
        }
    }

    #[test]
    fn the_address_that_works_is_pinned() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let target =
            Target::resolve(&format!("http://localhost:{port}/v1/"), &TlsSettings::default(), false).unwrap();
        assert_eq!(
            target.address,
            listener.local_addr().unwrap(),
            "::1 may come first, but nobody listens there"
        );
        assert_eq!(target.host, format!("localhost:{port}"));
        assert_eq!(target.path("/v1/completions"), "/v1/completions");
        assert_eq!(target.path("/generate"), "/v1/generate");
    }

    #[test]
    fn nobody_there_says_so() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let root = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let error = Target::resolve(&root, &TlsSettings::default(), false).unwrap_err().to_string();
        assert!(error.contains("is the server running"), "{error}");
    }
}
