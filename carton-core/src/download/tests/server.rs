//! A server of one file, told request by request how to misbehave.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::network::Url;

/// What is done about one request.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// The right answer.
    Serve,
    /// The right head and so many bytes of the body, then the connection ends.
    Cut(usize),
    /// The right head and so many bytes of the body, then nothing, for as long as the client waits.
    Stall(usize),
    /// The file becomes another one, with these contents and headers, and the connection ends.
    Change(Vec<u8>, String),
    /// The right answer to a request for other bytes.
    Shift,
    /// Exactly these bytes.
    Raw(String),
    /// These bytes, then nothing, for as long as the client waits.
    Hang(String),
    /// These bytes, then others without end.
    Flood(String),
}

/// The file as it is now, and what was asked for.
pub(super) struct File {
    pub(super) content: Vec<u8>,
    /// The validators.
    pub(super) headers: String,
    pub(super) knows_ranges: bool,
    /// Whether a date in `If-Range` is understood.
    pub(super) knows_dates: bool,
    /// The ranges asked for; none where everything was.
    pub(super) asked: Vec<Option<Range<usize>>>,
    pub(super) heads: Vec<String>,
    rule: Rule,
}

/// Called with the number of the request, beginning at 0, and the range.
type Rule = Arc<dyn Fn(usize, Option<Range<usize>>) -> Act + Send + Sync>;

#[derive(Clone)]
pub(super) struct Server {
    pub(super) url: Url,
    file: Arc<Mutex<File>>,
}

impl Server {
    /// Serves `content` under a strong `ETag`.
    pub(super) fn start(content: Vec<u8>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/a/file", listener.local_addr().unwrap()).parse().unwrap();
        let file = Arc::new(Mutex::new(File {
            content,
            headers: "ETag: \"1\"\r\n".to_owned(),
            knows_ranges: true,
            knows_dates: true,
            asked: Vec::new(),
            heads: Vec::new(),
            rule: Arc::new(|_, _| Act::Serve),
        }));
        let shared = file.clone();
        // Ends with the test's process; a connection that nobody reads any more ends its thread.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let file = shared.clone();
                std::thread::spawn(move || answer(stream, &file));
            }
        });
        Server { url, file }
    }

    pub(super) fn file(&self) -> MutexGuard<'_, File> {
        self.file.lock().unwrap()
    }

    /// Answers by this rule from now on, and counts requests anew.
    pub(super) fn rule(&self, rule: impl Fn(usize, Option<Range<usize>>) -> Act + Send + Sync + 'static) {
        let mut file = self.file();
        file.rule = Arc::new(rule);
        file.asked.clear();
        file.heads.clear();
    }

    /// How many requests came since the rule was set.
    pub(super) fn count(&self) -> usize {
        self.file().asked.len()
    }
}

fn answer(mut stream: TcpStream, file: &Mutex<File>) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let range = head.lines().find_map(|line| line.strip_prefix("range: bytes=")).map(|text| {
        let (first, last) = text.split_once('-').unwrap();
        first.parse().unwrap()..last.parse::<usize>().unwrap() + 1
    });
    let (head, body, end) = file.lock().unwrap().answer(head, range);
    stream.write_all(&head).ok()?;
    stream.write_all(&body).ok()?;
    match end {
        End::Close => stream.shutdown(Shutdown::Write).ok()?,
        End::Stall => {}
        End::Flood => loop {
            stream.write_all(&[7; 1 << 16]).ok()?;
        },
    }
    std::io::copy(&mut stream, &mut std::io::sink()).ok()?;
    Some(())
}

enum End {
    Close,
    Stall,
    Flood,
}

impl File {
    /// What is sent for a request: head and body, and what follows.
    fn answer(&mut self, head: String, range: Option<Range<usize>>) -> (Vec<u8>, Vec<u8>, End) {
        let act = (self.rule)(self.asked.len(), range.clone());
        self.asked.push(range.clone());
        let if_range = head.lines().find_map(|line| line.strip_prefix("if-range: ")).map(str::to_owned);
        self.heads.push(head);
        let shift = usize::from(matches!(act, Act::Shift));
        let (head, mut body) = self.right_answer(range.map(|range| range.start + shift..range.end + shift), if_range);
        match act {
            Act::Raw(text) => (text.into_bytes(), Vec::new(), End::Close),
            Act::Change(content, headers) => {
                (self.content, self.headers) = (content, headers);
                (Vec::new(), Vec::new(), End::Close)
            }
            Act::Hang(text) => (text.into_bytes(), Vec::new(), End::Stall),
            Act::Flood(text) => (text.into_bytes(), Vec::new(), End::Flood),
            Act::Serve | Act::Shift => (head, body, End::Close),
            Act::Cut(n_bytes) => {
                body.truncate(n_bytes);
                (head, body, End::Close)
            }
            Act::Stall(n_bytes) => {
                body.truncate(n_bytes);
                (head, body, End::Stall)
            }
        }
    }

    fn right_answer(&self, range: Option<Range<usize>>, if_range: Option<String>) -> (Vec<u8>, Vec<u8>) {
        let is_date = if_range.as_ref().is_some_and(|text| !text.starts_with('"'));
        let fits = if_range.as_ref().is_none_or(|text| self.headers.contains(&format!(": {text}\r\n")));
        let head = |status: &str, length: usize, more: &str| {
            let headers = &self.headers;
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}{more}\r\n");
            head.into_bytes()
        };
        let total = self.content.len();
        match range {
            Some(range) if self.knows_ranges && fits && (self.knows_dates || !is_date) => {
                let range = range.start..range.end.min(total);
                if range.is_empty() {
                    return (head("416 No", 0, &format!("Content-Range: bytes */{total}\r\n")), Vec::new());
                }
                let more = format!("Content-Range: bytes {}-{}/{total}\r\n", range.start, range.end - 1);
                (head("206 Part", range.len(), &more), self.content[range].to_vec())
            }
            _ => (head("200 OK", total, ""), self.content.clone()),
        }
    }
}
