//! TLS towards hosts: certificate and key from files; towards origins: whom to trust. By rustls.
//!
//! Imports nothing of ours. The one cryptography provider is ring. No setting switches a check off; towards origins, the
//! checks are rustls's own, and only the words for a certificate that fails them are ours.

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::CertificateError;
use rustls::ClientConfig;
use rustls::DigitallySignedStruct;
use rustls::OtherError;
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::SignatureScheme;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::danger::ServerCertVerified;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::ServerName;
use rustls::pki_types::UnixTime;
use rustls::pki_types::pem;
use rustls::pki_types::pem::PemObject as _;
use thiserror::Error;

/// Versions of HTTP that are offered, the wanted one first (RFC 7301).
pub const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Why there is no TLS.
#[derive(Debug, Error)]
pub enum Error {
    /// The certificate file cannot be read, or is no PEM.
    #[error("certificates cannot be read from {path}")]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What went wrong; it quotes nothing of the file.
        #[source]
        source: pem::Error,
    },
    /// The certificate file is PEM without a certificate.
    #[error("there is no certificate in {path}")]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The key file cannot be read, or holds no private key.
    #[error("no private key can be read from {path}")]
    Key {
        /// The file.
        path: PathBuf,
        /// What went wrong; it quotes nothing of the file.
        #[source]
        source: pem::Error,
    },
    /// Certificate and key do not go together, or the key is of a kind that is not supported.
    #[error("the certificate in {cert} and the key in {key} cannot be used together")]
    Pair {
        /// The certificate file.
        cert: PathBuf,
        /// The key file.
        key: PathBuf,
        /// What rustls says.
        #[source]
        source: rustls::Error,
    },
}

/// Why an origin's certificate authority cannot be used.
#[derive(Debug, Error)]
pub enum AuthorityError {
    /// It is no PEM.
    #[error("the certificate authority cannot be read: {0}")]
    Unreadable(#[from] pem::Error),
    /// It is PEM without a certificate, or one that cannot be trusted.
    #[error("the certificate authority holds no certificate that can be trusted")]
    Nothing,
    /// There is no list of trusted authorities.
    #[error("there is nobody to trust: {0}")]
    Nobody(String),
}

/// A certificate that is not trusted, in words that help.
#[derive(Debug, Error)]
#[error("certificate not trusted, issuer {issuer}: {reason}")]
struct Untrusted {
    issuer: String,
    reason: String,
}

/// The words for why a connection has no TLS: rustls keeps those for a certificate that fails to itself.
pub fn in_words(error: &rustls::Error) -> String {
    if let rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(why))) = error {
        return why.to_string();
    }
    error.to_string()
}

/// Makes ring the provider for whoever asks for none. Must run before the first connection; a second call changes nothing.
pub fn install_provider() {
    // The error says only that there is one already.
    let _already_installed = ring::default_provider().install_default();
}

/// The TLS side of a listener: TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1, no client certificates.
///
/// `cert` is a PEM file with the certificate and its chain, `key` a PEM file with its private key.
///
/// # Errors
///
/// See [`enum@Error`]. None of them quotes what is in the files.
pub fn server_config(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, Error> {
    let pair = |source| Error::Pair {
        cert: cert.to_owned(),
        key: key.to_owned(),
        source,
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(read_certificates(cert)?, read_key(key)?)
        .map_err(pair)?;
    config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
    Ok(Arc::new(config))
}

/// The TLS side of a connection to an origin: TLS 1.2 and 1.3, and the protocols of `alpn` inside.
///
/// Trusted is who the certificates in `ca` (PEM) vouch for, without it whom the system trusts (or the files that
/// `SSL_CERT_FILE` and `SSL_CERT_DIR` name).
///
/// # Errors
///
/// See [`AuthorityError`]. None of them quotes what is in the file.
pub fn client_config(ca: Option<&[u8]>, alpn: &[&[u8]]) -> Result<ClientConfig, AuthorityError> {
    let provider = Arc::new(ring::default_provider());
    let nobody = |why: &dyn std::fmt::Display| AuthorityError::Nobody(why.to_string());
    let checks: Arc<dyn ServerCertVerifier> = match ca {
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem) {
                roots.add(certificate?).map_err(|_| AuthorityError::Nothing)?;
            }
            if roots.is_empty() {
                return Err(AuthorityError::Nothing);
            }
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .map_err(|error| nobody(&error))?
        }
        None => {
            Arc::new(rustls_platform_verifier::Verifier::new(Arc::clone(&provider)).map_err(|error| nobody(&error))?)
        }
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| nobody(&error))?
        // Not dangerous: it hands every question on, and gives the answer back.
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(InWords(checks)))
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

/// Checks that say who issued a certificate that fails them.
#[derive(Debug)]
struct InWords(Arc<dyn ServerCertVerifier>);

impl ServerCertVerifier for InWords {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.0
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            .map_err(|error| {
                let rustls::Error::InvalidCertificate(why) = error else {
                    return error;
                };
                let untrusted = Untrusted {
                    issuer: issuer_of(end_entity),
                    reason: reason_of(&why),
                };
                CertificateError::Other(OtherError(Arc::new(untrusted))).into()
            })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Characters of an issuer's name that are told of.
const MAX_ISSUER: usize = 200;

/// Who issued a certificate, as it says itself.
fn issuer_of(certificate: &CertificateDer<'_>) -> String {
    x509_parser::parse_x509_certificate(certificate).map_or_else(
        |_| "unknown".to_owned(),
        |(_, read)| {
            format!(
                "{:?}",
                read.issuer().to_string().chars().take(MAX_ISSUER).collect::<String>()
            )
        },
    )
}

/// Why a certificate failed.
fn reason_of(error: &CertificateError) -> String {
    // The second is an authority that bears the name of a trusted one, and is another.
    if [CertificateError::UnknownIssuer, CertificateError::BadSignature].contains(error) {
        return "nobody vouches for it who is trusted here; a private authority goes into ca".to_owned();
    }
    error.to_string()
}

/// Reads every certificate of a PEM file; at least one.
fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|source| Error::Certificates {
            path: path.to_owned(),
            source,
        })?;
    if certificates.is_empty() {
        return Err(Error::NoCertificate { path: path.to_owned() });
    }
    Ok(certificates)
}

/// Reads the first private key of a PEM file.
fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_file(path).map_err(|source| Error::Key {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use tempfile::NamedTempFile;

    use super::*;

    fn file(text: &str) -> NamedTempFile {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn certified() -> (NamedTempFile, NamedTempFile) {
        let made = rcgen::generate_simple_self_signed(["gateway.example".to_owned()]).unwrap();
        (file(&made.cert.pem()), file(&made.signing_key.serialize_pem()))
    }

    #[test]
    fn a_certificate_and_its_key_offer_both_versions_of_http() {
        let (cert, key) = certified();
        let config = server_config(cert.path(), key.path()).unwrap();
        assert_eq!(config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let ((cert, _own), (_other, key)) = (certified(), certified());
        assert!(matches!(
            server_config(cert.path(), key.path()),
            Err(Error::Pair { .. })
        ));
    }

    #[test]
    fn files_that_hold_something_else_are_refused() {
        let ((cert, key), empty) = (certified(), file(""));
        let missing = Path::new("no-such-file.pem");
        assert!(matches!(
            server_config(missing, key.path()),
            Err(Error::Certificates { .. })
        ));
        assert!(matches!(
            server_config(empty.path(), key.path()),
            Err(Error::NoCertificate { .. })
        ));
        assert!(matches!(
            server_config(key.path(), key.path()),
            Err(Error::NoCertificate { .. })
        ));
        assert!(matches!(server_config(cert.path(), missing), Err(Error::Key { .. })));
        assert!(matches!(
            server_config(cert.path(), cert.path()),
            Err(Error::Key { .. })
        ));
    }

    #[test]
    fn the_provider_can_be_installed_twice() {
        install_provider();
        install_provider();
        assert!(rustls::crypto::CryptoProvider::get_default().is_some());
    }
}
