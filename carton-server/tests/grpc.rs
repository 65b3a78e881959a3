//! The server over gRPC on a real connection, without models: what is answered before one is looked for.

#![allow(clippy::unwrap_used, clippy::unreachable)]

use bytes::Bytes;
use carton_server::{Address, Server, ServerBuilder};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::oneshot;

/// Starts a server, and calls a method of it with a message. Returns the status and the message of the answer.
async fn call(builder: ServerBuilder, path: &str, message: &[u8], token: Option<&str>) -> (String, Vec<u8>) {
    let server = builder.grpc("127.0.0.1:0".parse().unwrap()).bind().await.unwrap();
    let Address::Tcp(address) = server.grpc_addresses().remove(0) else { unreachable!("a TCP address was asked for") };
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(server.run(async { drop(stopped.await) }));
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let body = Full::new(Bytes::from([&[0], length.as_slice(), message].concat()));
    let mut request =
        hyper::Request::post(format!("http://localhost{path}")).header("content-type", "application/grpc");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let response = sender.send_request(request.body(body).unwrap()).await.unwrap();
    let head = response.headers().clone();
    let body = response.into_body().collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or(head);
    let status = trailers["grpc-status"].to_str().unwrap().to_owned();
    drop(sender);
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
    (status, body.to_bytes().into_iter().skip(5).collect())
}

const SERVICE: &str = "/inference.GRPCInferenceService";

#[tokio::test(flavor = "multi_thread")]
async fn probes_need_no_token() {
    let path = |name: &str| format!("{SERVICE}/{name}");
    let builder = || Server::builder().token("secret");
    assert_eq!(call(builder(), &path("ServerLive"), b"", None).await, ("0".to_owned(), vec![8, 1]));
    assert_eq!(call(builder(), "/grpc.health.v1.Health/Check", b"", None).await, ("0".to_owned(), vec![8, 1]));
    assert_eq!(call(builder(), "/grpc.health.v1.Health/Check", b"\x0a\x01x", None).await.0, "5");
    assert_eq!(call(builder(), &path("ServerMetadata"), b"", None).await.0, "16");
    assert_eq!(call(builder(), &path("ServerMetadata"), b"", Some("other")).await.0, "16");
    let (status, metadata) = call(builder(), &path("ServerMetadata"), b"", Some("secret")).await;
    assert_eq!((status.as_str(), metadata.starts_with(b"\x0a\x06carton")), ("0", true));
}

#[tokio::test(flavor = "multi_thread")]
async fn administration_is_off_unless_it_is_enabled_and_allowed() {
    let path = format!("{SERVICE}/RepositoryIndex");
    assert_eq!(call(Server::builder(), &path, b"", None).await.0, "7");
    assert_eq!(call(Server::builder().repository_api(true), &path, b"", None).await, ("0".to_owned(), vec![]));
    let builder = || Server::builder().repository_api(true).token("secret").admin_token("admin");
    assert_eq!(call(builder(), &path, b"", Some("secret")).await.0, "7");
    assert_eq!(call(builder(), &path, b"", Some("admin")).await.0, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_nothing() {
    let check = async |path: &str, message: &[u8], expected: &str| {
        assert_eq!(call(Server::builder(), &format!("{SERVICE}{path}"), message, None).await.0, expected, "{path}");
    };
    check("/ModelInfer", b"\x0a\x01m", "5").await;
    check("/ModelReady", b"\x0a\x01m", "5").await;
    check("/ModelReady", b"\x0a\x05m", "3").await;
    check("/ModelInfer", b"\xff", "3").await;
    check("/Nothing", b"", "12").await;
    check("/ModelStreamInfer", b"\x0a\x01m", "0").await;
}
