//! Requests to servers that answer in every way.

#![allow(clippy::unwrap_used)]

mod answers;
mod credentials;
mod private;
mod secrets;

use std::time::Duration;

use carton_format::url::Url;
use carton_test_server::{Answer, Server};

use super::{Network, NetworkOptions};

/// Access that gives up soon.
fn network() -> Network {
    Network::new(NetworkOptions {
        idle_timeout: Duration::from_millis(300),
        max_retries: 2,
        first_pause: Duration::from_millis(1),
        ..NetworkOptions::default()
    })
}

/// Answers the first request with the first answer, and so on; all further ones with the last. Whatever is asked for.
fn serve(answers: &[Answer]) -> Server {
    serve_at("127.0.0.1", answers)
}

/// The same, listening at this address.
fn serve_at(address: &str, answers: &[Answer]) -> Server {
    let server = Server::start_at(address);
    server.answer_in_turn(answers);
    server
}

/// An answer with these status and headers, and this body, exactly so.
fn answer(head: &str, body: &str) -> Answer {
    Answer::raw(format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\n{body}"))
}

/// The URL of a file of the server.
fn url(server: &Server) -> Url {
    server.url("/a/file").parse().unwrap()
}

/// The same URL with other parts.
fn changed(url: &Url, change: impl FnOnce(&mut url::Url)) -> Url {
    let mut whole = url.expose().clone();
    change(&mut whole);
    whole.as_str().parse().unwrap()
}
