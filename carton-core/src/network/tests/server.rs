//! A server that answers as it is told, whatever it is asked.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::network::{Network, NetworkOptions, Url};

/// What is done for one request.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// Sends this and closes the connection.
    Send(Vec<u8>),
    /// Sends this, then nothing, and keeps the connection open.
    Stall(Vec<u8>),
    /// Sends this, then the same few bytes again and again with pauses between them.
    Drip(Vec<u8>, &'static [u8], Duration),
    /// Sends this, then the same bytes as fast as they are taken.
    Flood(Vec<u8>, Vec<u8>),
}

/// An answer with these status and headers, and this body.
pub(super) fn answer(head: &str, body: &str) -> Answer {
    Answer::Send(format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\n{body}").into_bytes())
}

pub(super) struct Server {
    pub(super) url: Url,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers the first request with the first answer, and so on; all further ones with the last.
    pub(super) fn start(answers: &[Answer]) -> Server {
        Self::start_at("127.0.0.1", answers)
    }

    /// The same, listening at this address.
    pub(super) fn start_at(address: &str, answers: &[Answer]) -> Server {
        let answers = answers.to_vec();
        let listener = TcpListener::bind((address, 0)).unwrap();
        let url = format!("http://{}/a/file", listener.local_addr().unwrap()).parse().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = heads.clone();
        // Ends with the test's process; a connection that nobody reads any more ends its thread.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Some((stream, head)) = stream.ok().and_then(read_head) else { continue };
                let mut seen = seen.lock().unwrap();
                let answer = answers[seen.len().min(answers.len() - 1)].clone();
                seen.push(head);
                drop(seen);
                std::thread::spawn(move || give(stream, answer));
            }
        });
        Server { url, heads }
    }

    /// The heads of the requests so far.
    pub(super) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    pub(super) fn count(&self) -> usize {
        self.heads.lock().unwrap().len()
    }
}

/// Access that gives up soon.
pub(super) fn network() -> Network {
    Network::new(NetworkOptions {
        idle_timeout: Duration::from_millis(300),
        max_retries: 2,
        first_pause: Duration::from_millis(1),
        ..NetworkOptions::default()
    })
}

/// The value of a header of a request.
pub(super) fn header(head: &str, name: &str) -> Option<String> {
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn read_head(mut stream: TcpStream) -> Option<(TcpStream, String)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    Some((stream, String::from_utf8(head).ok()?))
}

fn give(mut stream: TcpStream, answer: Answer) {
    let rest = |mut stream: TcpStream| std::io::copy(&mut stream, &mut std::io::sink());
    match answer {
        Answer::Send(bytes) => {
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(Shutdown::Write);
            let _ = rest(stream);
        }
        Answer::Stall(bytes) => {
            let _ = stream.write_all(&bytes);
            let _ = rest(stream);
        }
        Answer::Drip(bytes, drop, pause) => {
            let mut result = stream.write_all(&bytes);
            while result.is_ok() {
                std::thread::sleep(pause);
                result = stream.write_all(drop);
            }
        }
        Answer::Flood(bytes, more) => {
            let mut result = stream.write_all(&bytes);
            while result.is_ok() {
                result = stream.write_all(&more);
            }
        }
    }
}
