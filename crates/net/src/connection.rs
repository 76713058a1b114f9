//! One connection: a non-blocking socket, perhaps under TLS, that is owned by exactly one thread at a time.

use crate::sys::{self, StampedRead};
use crate::target::{Target, TargetTls};
use goodput_core::time::Nanos;
use mio::net::TcpStream;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;

/// How certificates are checked.
#[derive(Debug, Clone, Default)]
pub struct TlsSettings {
    /// A PEM file with additional roots.
    pub ca_file: Option<PathBuf>,
    /// Accept any certificate.
    pub insecure: bool,
}

impl TlsSettings {
    /// Client settings: the system's roots, the bundled ones where the system has none, and the user's own.
    pub(crate) fn client_config(&self) -> Result<ClientConfig, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?;
        if self.insecure {
            let verifier = Arc::new(AcceptAny(provider));
            return Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth());
        }
        Ok(builder.with_root_certificates(self.roots()?).with_no_client_auth())
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        if let Some(path) = &self.ca_file {
            let shown = path.display();
            let certificates = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|e| format!("cannot read certificates from {shown}: {e}; expected a PEM file"))?;
            if certificates.is_empty() {
                return Err(format!("{shown} holds no certificate; expected a PEM file"));
            }
            for certificate in certificates {
                roots
                    .add(certificate)
                    .map_err(|e| format!("a certificate in {shown} cannot be used: {e}"))?;
            }
        }
        Ok(roots)
    }
}

/// The verifier behind `--insecure`: signatures are checked, identities are not.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A connection to one target.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Number within the run.
    pub(crate) id: u32,
    /// Which target it leads to.
    pub(crate) target: usize,
    /// Requests it has carried.
    pub(crate) uses: u32,
    /// Since when it has been idle.
    pub(crate) idle_since: Nanos,
    /// The socket.
    pub(crate) stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
    /// Where the incoming ciphertext stands.
    incoming: Records,
}

/// Why a connection attempt failed at once.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The socket.
    Io(io::Error),
    /// The TLS client.
    Tls(rustls::Error),
}

impl Connection {
    /// Begins a connection; it is usable once [`Connection::is_open`] says so.
    pub(crate) fn begin(id: u32, target_index: usize, target: &Target) -> Result<Self, OpenError> {
        let stream = TcpStream::connect(target.address).map_err(OpenError::Io)?;
        stream.set_nodelay(true).map_err(OpenError::Io)?;
        // Where this fails, reads carry no stamp and the record says so chunk by chunk.
        sys::enable_receive_stamps(stream.as_raw_fd());
        let tls = target.tls.as_ref().map(new_tls).transpose().map_err(OpenError::Tls)?;
        Ok(Self {
            id,
            target: target_index,
            uses: 0,
            idle_since: Nanos::ZERO,
            stream,
            tls,
            incoming: Records::default(),
        })
    }

    /// Whether TCP is up: `Ok(false)` while it is still under way.
    pub(crate) fn tcp_is_up(&self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Drives the TLS handshake's sending side and says whether the connection can carry a request.
    pub(crate) fn is_open(&mut self) -> io::Result<bool> {
        self.flush_tls()?;
        Ok(self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking()))
    }

    /// Whether an idle connection turned out dead.
    pub(crate) fn is_stale(&self) -> bool {
        // Under TLS a session ticket may wait unread in the socket, so only the plain case can be peeked.
        self.tls.is_none() && sys::is_stale(self.stream.as_raw_fd())
    }

    /// Writes what the kernel takes of `bytes` and returns how much that was.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        if let Some(tls) = self.tls.as_mut() {
            if !bytes.is_empty() {
                tls.writer().write_all(bytes)?;
                written = bytes.len();
            }
            self.flush_tls()?;
            return Ok(written);
        }
        while written < bytes.len() {
            match self.stream.write(&bytes[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => written += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(written)
    }

    /// Whether ciphertext still waits for the kernel.
    pub(crate) fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Reads raw bytes once, with their arrival stamp. Under TLS these are ciphertext for [`Connection::decrypt`].
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<StampedRead> {
        sys::receive(self.stream.as_raw_fd(), buffer)
    }

    /// Whether received bytes must go through [`Connection::decrypt`].
    pub(crate) const fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether the ciphertext so far ends with the end of a record.
    pub(crate) fn is_between_records(&self) -> bool {
        self.incoming.is_between()
    }

    /// Feeds ciphertext and appends the plaintext to `out`. Returns whether the peer ended the session.
    pub(crate) fn decrypt(&mut self, mut cipher: &[u8], out: &mut Vec<u8>) -> io::Result<bool> {
        let Some(tls) = self.tls.as_mut() else { return Ok(false) };
        self.incoming.advance(cipher);
        let mut closed = false;
        // After the peer's goodbye nothing is taken any more.
        while !cipher.is_empty() && tls.read_tls(&mut cipher)? > 0 {
            let state = match tls.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    // The peer may learn why; what counts here is the error itself.
                    drop(self.flush_tls());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {error}")));
                }
            };
            closed |= state.peer_has_closed();
            let start = out.len();
            out.resize(start + state.plaintext_bytes_to_read(), 0);
            tls.reader().read_exact(&mut out[start..])?;
        }
        self.flush_tls()?;
        Ok(closed)
    }

    fn flush_tls(&mut self) -> io::Result<()> {
        let Some(tls) = self.tls.as_mut() else { return Ok(()) };
        while tls.wants_write() {
            match tls.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// Where a stream of TLS records stands: five bytes of header, the last two of which are the length of what follows
/// (RFC 8446, section 5.1).
#[derive(Debug, Default)]
struct Records {
    header: [u8; 5],
    /// Bytes of the header so far.
    have: usize,
    /// Bytes left of the record after its header.
    left: usize,
}

impl Records {
    fn advance(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let skipped = self.left.min(bytes.len());
                self.left -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            let taken = (self.header.len() - self.have).min(bytes.len());
            self.header[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
            self.have += taken;
            bytes = &bytes[taken..];
            if self.have == self.header.len() {
                self.left = usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
                self.have = 0;
            }
        }
    }

    const fn is_between(&self) -> bool {
        self.have == 0 && self.left == 0
    }
}

fn new_tls(tls: &TargetTls) -> Result<Box<ClientConnection>, rustls::Error> {
    let mut connection = ClientConnection::new(tls.config.clone(), tls.server_name.clone())?;
    // A request is written in one go whatever its size; the kernel's buffer is the limit.
    connection.set_buffer_limit(None);
    Ok(Box::new(connection))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_record_is_known_however_it_is_split() {
        let records = [&[23, 3, 3, 0, 2, 7, 7][..], &[21, 3, 3, 0, 0], &[23, 3, 3, 1, 0], &[9; 256]].concat();
        let ends = [7, 12, records.len()];
        for size in 1..records.len() {
            let (mut stand, mut read) = (Records::default(), 0);
            for piece in records.chunks(size) {
                stand.advance(piece);
                read += piece.len();
                assert_eq!(stand.is_between(), ends.contains(&read), "{read} of pieces of {size}");
            }
        }
    }
}
