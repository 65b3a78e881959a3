//! A client of HTTP/2 that sends what the test says.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::setting::connect;

pub(crate) const METHOD_GET: u8 = 0x82;
pub(crate) const METHOD_POST: u8 = 0x83;

/// Types of frames, and flags.
pub(crate) const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
pub(crate) const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACKNOWLEDGED: u8 = 1;

/// A client of HTTP/2, by hand: it says what the test says.
pub(crate) struct Multiplexed(pub(crate) TcpStream);

impl Multiplexed {
    /// Connects, and grants this window to each answer.
    pub(crate) fn connect(address: &str, window: u32) -> Self {
        let mut stream = connect(address);
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        let mut client = Self(stream);
        client.send(SETTINGS, 0, 0, &[&[0, 4], window.to_be_bytes().as_slice()].concat());
        client
    }

    /// Waits for the settings of the server and the window of the connection, and acknowledges the settings. From then on its windows are
    /// those that it says.
    pub(crate) fn acknowledge(&mut self) {
        let (mut has_settings, mut has_window) = (false, false);
        while !(has_settings && has_window) {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            self.0.read_exact(&mut vec![0; length as usize]).unwrap();
            has_settings |= head[3] == SETTINGS && head[4] & ACKNOWLEDGED == 0;
            has_window |= head[3] == WINDOW_UPDATE;
        }
        self.send(SETTINGS, ACKNOWLEDGED, 0, &[]);
    }

    pub(crate) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let frame = [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat();
        self.0.write_all(&frame).unwrap();
    }

    /// Asks on stream 1, with a header, all of the body.
    pub(crate) fn ask(&mut self, method: u8, path: &str, header: (&str, &str), body: &[u8]) {
        self.begin(method, path, header, body.is_empty());
        if !body.is_empty() {
            self.send(DATA, END_STREAM, 1, body);
        }
    }

    /// Sends the head of a request on stream 1. `method` is an index of HPACK's table.
    pub(crate) fn begin(&mut self, method: u8, path: &str, (name, value): (&str, &str), is_all: bool) {
        let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        let header = [vec![0], text(name), text(value)].concat();
        let headers = [vec![method, 0x86, 1], text("localhost"), vec![4], text(path), header].concat();
        self.send(HEADERS, if is_all { END_HEADERS | END_STREAM } else { END_HEADERS }, 1, &headers);
    }
}
