//! Limits of connections, queues and memory; Unix sockets and TLS.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use carton_server::{Limits, TlsFiles};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::json;

use super::setting::{BATCHED, Serving, connect, reply, request, until};

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_bounded() {
    let mut limits = Limits::default();
    limits.connections = 2;
    let serving = Serving::noop_with(BATCHED, json!({}), |spec| spec, |builder| builder.limits(limits)).await;
    let held: Vec<_> = (0..2).map(|_| connect(&serving.http)).collect();
    let address = serving.http.clone();
    let mut answer = Vec::new();
    // A connection that is open already is accepted only when the server gets to it.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut third = connect(&address);
    let _ = third.write_all(b"GET /v2 HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let _ = third.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{answer:?}");
    drop(held);
    tokio::time::sleep(Duration::from_millis(200)).await;
    serving.assert_answers().await;
    assert_eq!(serving.metric("carton_connections_refused").await, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_bounded() {
    let options = json!({ "delay_ms": 1000, "max_concurrency": 1 });
    for max_batch in [1, 2] {
        let serving =
            Serving::noop(BATCHED, options.clone(), |spec| spec.max_batch(max_batch.try_into().unwrap()).max_queue(2))
                .await;
        let (first, second) = (serving.call(&[[1.0, 2.0]]), serving.call(&[[1.0, 2.0]]));
        let third = async {
            until(async || serving.metric("nv_inference_pending_request_count").await >= 2.0).await;
            serving.call(&[[1.0, 2.0]]).await
        };
        let (first, second, third) = tokio::join!(first, second, third);
        assert_eq!((first.status, second.status, third.status), (200, 200, 429));
        assert_eq!(third.headers["retry-after"], "1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_calls_is_bounded() {
    let mut limits = Limits::default();
    limits.call_bytes = 200_000;
    let options = json!({ "delay_ms": 1000, "only_above": 100.0 });
    let serving = Serving::noop_with(BATCHED, options, |spec| spec, |builder| builder.limits(limits)).await;
    // Too large for an empty server.
    assert_eq!(serving.call(&vec![[1.0, 2.0]; 40_000]).await.status, 413);
    // Too large while another one runs.
    let rows = vec![[1000.0, 2.0]; 8_000];
    let first = serving.call(&rows);
    let second = async {
        until(async || serving.metric("carton_call_bytes").await >= 100_000.0).await;
        serving.call(&rows).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.status, second.status), (200, 429));
    assert_eq!(serving.metric("carton_call_bytes").await, 0.0);
    serving.assert_answers().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("carton.sock");
    // What an earlier server left.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let address = format!("unix:{}", path.display()).parse().unwrap();
    let mut serving = Serving::noop_with(BATCHED, json!({}), |spec| spec, |builder| builder.http(address)).await;
    let (socket, body) = (path.clone(), request(&[[1.0, 2.0]]).to_string());
    let answer = tokio::task::spawn_blocking(move || {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.write_all(&super::setting::post_request("/v2/models/m/infer", &[], body.as_bytes())).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        reply(&answer).unwrap()
    });
    assert_eq!(answer.await.unwrap().status, 200);
    let second =
        carton_server::Server::builder().http(format!("unix:{}", path.display()).parse().unwrap()).bind().await;
    assert!(second.is_err(), "two servers on one socket");
    serving.stop();
    serving.ended().await.unwrap();
    assert!(!path.exists());
}

/// Certificates made by OpenSSL: a root, a server and a client of it.
struct Certificates(tempfile::TempDir);

impl Certificates {
    /// `None` if there is no `openssl`.
    fn make() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let script = r#"
            set -e
            new() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -keyout "$1.key" "${@:2}"; }
            new root -x509 -days 2 -out root.pem
            for name in server client; do
                new $name -out $name.csr
                printf 'subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n' > $name.ext
                openssl x509 -req -in $name.csr -CA root.pem -CAkey root.key -CAcreateserial -days 2 -extfile $name.ext -out $name.pem
            done"#;
        let made = Command::new("bash").args(["-c", script]).current_dir(folder.path()).output();
        match made {
            Ok(made) if made.status.success() => Some(Self(folder)),
            Ok(made) => panic!("{}", String::from_utf8_lossy(&made.stderr)),
            Err(error) => {
                println!("skipped: there is no bash or openssl: {error}");
                None
            }
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// A request over TLS, with the client's certificate or without one.
    fn get(&self, address: &str, with_certificate: bool) -> std::io::Result<Vec<u8>> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("root.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = match with_certificate {
            false => builder.with_no_client_auth(),
            true => {
                let certificate = CertificateDer::from_pem_file(self.path("client.pem")).unwrap();
                builder
                    .with_client_auth_cert(
                        vec![certificate],
                        PrivateKeyDer::from_pem_file(self.path("client.key")).unwrap(),
                    )
                    .unwrap()
            }
        };
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let mut session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = connect(address);
        let mut stream = rustls::Stream::new(&mut session, &mut stream);
        stream.write_all(b"GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_and_certificates_of_clients() {
    let Some(certificates) = Certificates::make() else { return };
    let certificates = Arc::new(certificates);
    let files = || TlsFiles::new(certificates.path("server.pem"), certificates.path("server.key"));
    let demanding = files().client_roots(certificates.path("root.pem"));
    for (files, with_certificate, is_accepted) in
        [(files(), false, true), (demanding.clone(), true, true), (demanding, false, false)]
    {
        let place = carton_tests::place::TestPlace::new(super::setting::RUNNER);
        let serving = Serving::start(place, carton_server::Server::builder().tls(files)).await;
        let (certificates, address) = (Arc::clone(&certificates), serving.http.clone());
        let answer = tokio::task::spawn_blocking(move || certificates.get(&address, with_certificate)).await.unwrap();
        match is_accepted {
            true => assert_eq!(reply(&answer.unwrap()).unwrap().json(), json!({ "live": true })),
            false => {
                assert!(answer.map_or(true, |answer| answer.is_empty()), "a client without a certificate was answered")
            }
        }
        // Without TLS, there is no answer.
        let mut stream = connect(&serving.http);
        let _ = stream.write_all(b"GET /v2 HTTP/1.1\r\nhost: localhost\r\n\r\n");
        assert!(reply(&super::setting::read_all(&mut stream)).is_none());
    }
    let invalid = carton_server::Server::builder().http("127.0.0.1:0".parse().unwrap());
    let invalid =
        invalid.tls(TlsFiles::new(certificates.path("server.key"), certificates.path("server.key"))).bind().await;
    assert!(invalid.unwrap_err().to_string().contains("it has no certificate in PEM"));
}
