//! One connection of a client, which sends the request of a case and checks the answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};

use crate::case::{Case, Encoding, HEADER_LENGTH, HttpMessage};
use crate::protocol::ModelInferRequest;
use crate::protocol::grpc_inference_service_client::GrpcInferenceServiceClient;
use crate::{Failure, Result};

/// A connection to a server.
pub(crate) enum Client {
    Http { case: Arc<Case>, sender: SendRequest<Full<Bytes>>, request: Request<Full<Bytes>> },
    Grpc { case: Arc<Case>, client: GrpcInferenceServiceClient<Channel>, request: ModelInferRequest },
}

/// What became of a request.
pub(crate) enum Outcome {
    /// The right answer, this long after the request.
    Right(Duration),
    /// A status that is no success, and what the server said.
    Status(String, String),
    /// A success with something else than the right answer.
    Wrong(String),
    /// The connection failed while the request was under way. The client is of no further use.
    Broken(String),
    /// The server had closed the connection before the request was sent. The client is of no further use.
    Closed,
}

/// The addresses of a server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Addresses {
    pub(crate) http: Option<SocketAddr>,
    pub(crate) grpc: Option<SocketAddr>,
}

impl Addresses {
    /// The address at which a case is served.
    pub(crate) fn of(&self, encoding: Encoding) -> Result<SocketAddr> {
        let address = if encoding == Encoding::Grpc { self.grpc } else { self.http };
        Ok(address.ok_or("the server does not speak this protocol")?)
    }
}

impl Client {
    /// Connects to the server of a case.
    pub(crate) async fn connect(addresses: Addresses, case: &Arc<Case>) -> Result<Self> {
        let address = addresses.of(case.encoding)?;
        let case = Arc::clone(case);
        if case.encoding == Encoding::Grpc {
            let channel = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true).connect().await?;
            let request = case.grpc_request();
            return Ok(Self::Grpc { case, client: GrpcInferenceServiceClient::new(channel), request });
        }
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Ends with the sender; a failure is also the failure of the request in flight.
        tokio::spawn(connection);
        let request = http_request(&case, address)?;
        Ok(Self::Http { case, sender, request })
    }

    /// Sends the request and waits for the whole answer.
    pub(crate) async fn call(&mut self) -> Outcome {
        let start = Instant::now();
        match self {
            Self::Http { case, sender, request } => match send(sender, request.clone()).await {
                Err(error) if is_closed(&error) => Outcome::Closed,
                Err(error) => Outcome::Broken(error.to_string()),
                Ok((StatusCode::OK, answer)) => checked(start.elapsed(), case.check_http(&answer)),
                Ok((status, answer)) => {
                    Outcome::Status(status.as_u16().to_string(), String::from_utf8_lossy(&answer.body).into_owned())
                }
            },
            Self::Grpc { case, client, request } => match client.model_infer(request.clone()).await {
                Ok(answer) => checked(start.elapsed(), case.check_grpc(answer.get_ref())),
                // What the client itself says about a lost connection has a source; what a server answers has none.
                Err(status) if std::error::Error::source(&status).is_some() => Outcome::Broken(status.to_string()),
                Err(status) => Outcome::Status(format!("{:?}", status.code()), status.message().to_owned()),
            },
        }
    }
}

fn checked(time: Duration, check: Result<()>) -> Outcome {
    match check {
        Ok(()) => Outcome::Right(time),
        Err(error) => Outcome::Wrong(error.to_string()),
    }
}

fn http_request(case: &Case, address: SocketAddr) -> Result<Request<Full<Bytes>>> {
    let HttpMessage { header_length, body } = case.http_request()?;
    let mut request = Request::post(format!("/v2/models/{}/infer", case.model))
        .header(HOST, address.to_string())
        .header(CONTENT_LENGTH, body.len());
    request = match header_length {
        Some(length) => request.header(CONTENT_TYPE, "application/octet-stream").header(HEADER_LENGTH, length),
        None => request.header(CONTENT_TYPE, "application/json"),
    };
    Ok(request.body(Full::new(body))?)
}

/// Whether nothing of the request was sent.
fn is_closed(error: &Failure) -> bool {
    error.downcast_ref::<hyper::Error>().is_some_and(|error| error.is_closed() || error.is_canceled())
}

async fn send(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, HttpMessage)> {
    sender.ready().await?;
    let (head, body) = sender.send_request(request).await?.into_parts();
    let header_length =
        head.headers.get(HEADER_LENGTH).map(|value| value.to_str()?.parse::<usize>().map_err(Box::from));
    let header_length: Option<Result<usize>> = header_length;
    let body = body.collect().await?.to_bytes();
    Ok((head.status, HttpMessage { header_length: header_length.transpose()?, body }))
}
