//! `carton serve`: what it says, its signals, and its mistakes. Calls are tested in `tests/tests/serve`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};

use crate::interruption::wait_until;
use crate::sandbox::Sandbox;

/// A server that runs, and what it says.
struct Server {
    child: Child,
    errors: BufReader<ChildStderr>,
    http: String,
}

impl Server {
    /// Starts it on free ports, and waits until it is ready.
    fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        let all =
            ["serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"].into_iter().chain(arguments.iter().copied());
        Self::run(sandbox.command(all))
    }

    /// Starts a command that becomes the server, and waits until that is ready.
    fn run(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let mut server = Self { child, errors, http: String::new() };
        let line = server.line();
        server.http = line.strip_prefix("listening on http://").unwrap_or_else(|| panic!("{line}")).to_owned();
        assert!(server.line().starts_with("listening on grpc://127.0.0.1:"));
        server.expect("ready");
        server
    }

    /// The next line that it says.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.errors.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn expect(&mut self, expected: &str) {
        let line = self.line();
        assert!(line.contains(expected), "expected `{expected}`, found `{line}`");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn status(&self, path: &str) -> u16 {
        self.status_of(&format!("GET {path}"), "")
    }

    fn status_of(&self, method_and_path: &str, body: &str) -> u16 {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let head = format!(
            "{method_and_path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}",
            body.len()
        );
        stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Waits for the end, and returns its exit code and the rest that it says.
    fn end(mut self) -> (Option<i32>, String) {
        wait_until("the end", || self.child.try_wait().unwrap().is_some());
        let mut rest = String::new();
        self.errors.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Of a test that failed. Otherwise it has ended.
        let _ = self.child.kill();
    }
}

fn packed(name: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("model/weights.bin", "weights");
    sandbox.carton(&format!("pack model --runner noop -o {name}")).expect_code(0);
    sandbox
}

#[test]
fn it_serves_until_it_is_told_to_end() {
    let sandbox = packed("a.carton");
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Server::start(&sandbox, &["a.carton", "named=a.carton"]);
        for path in ["/v2/models/a", "/v2/models/named", "/v2/health/ready"] {
            assert_eq!(server.status(path), 200, "{path}");
        }
        server.signal(signal);
        server.expect("ending when running calls are answered");
        assert_eq!(server.end(), (Some(0), String::new()));
    }
}

#[test]
fn a_model_that_declares_the_wrong_thing_is_served_if_that_is_asked_for() {
    let sandbox = Sandbox::new();
    sandbox.write("model/weights.bin", "weights");
    // The model returns its input.
    let spec = |side: &str, shape: &str| format!("[[{side}]]\nname = 'x'\ndtype = 'float32'\nshape = {shape}\n");
    sandbox.write("m.toml", spec("input", "['n']") + &spec("output", "['n', 2]"));
    sandbox.carton("pack model --runner noop --metadata m.toml -o a.carton").expect_code(0);
    sandbox.write("serve.toml", "[[model]]\nlocation = 'a.carton'\nsignature_mode = 'warn'\n");
    let body = r#"{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1.0]}]}"#;
    for (arguments, expected) in [
        (&["a.carton"][..], 500),
        (&["a.carton", "--signature-mode", "off"], 200),
        (&["--file", "serve.toml"], 200),
        (&["--file", "serve.toml", "--signature-mode", "strict"], 500),
    ] {
        let server = Server::start(&sandbox, arguments);
        assert_eq!(server.status_of("POST /v2/models/a/infer", body), expected, "{arguments:?}");
    }
}

/// The number and the state of each child of a process.
fn children(parent: u32) -> Vec<(i32, String)> {
    let processes =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let of_parent = processes.filter_map(|process: i32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned);
        let state = fields.next()?;
        (fields.next()? == parent.to_string()).then_some((process, state))
    });
    of_parent.collect()
}

/// As the only program of a container it waits for processes whose parents ended, and ends when it is told to.
#[test]
fn as_process_1_it_reaps() {
    let alone = ["--pid", "--fork", "--mount-proc", "--kill-child"];
    if !Command::new("unshare").args(alone).arg("true").status().is_ok_and(|status| status.success()) {
        println!("skipped: this user cannot make a namespace of processes");
        return;
    }
    let sandbox = packed("a.carton");
    let served = sandbox.command(["serve", "a.carton", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]);
    // The shell leaves a process behind, and becomes the server.
    let mut command = Command::new("unshare");
    command.args(alone).args(["sh", "-c", "(sleep 2 &); exec \"$@\"", "sh"]);
    command.arg(served.get_program()).args(served.get_args()).current_dir(sandbox.work());
    command.env_clear().envs(served.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let server = Server::run(command);
    let process_1 = children(server.child.id())[0].0;
    let dead = || children(process_1.unsigned_abs()).iter().filter(|(_, state)| state == "Z").count();
    wait_until("the process that was left behind is dead", || dead() == 1);
    wait_until("it is gone", || dead() == 0);
    assert_eq!(server.status("/v2/health/ready"), 200);
    kill_process(Pid::from_raw(process_1).unwrap(), Signal::TERM).unwrap();
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_file_and_a_folder_are_read_again() {
    let sandbox = packed("a.carton");
    fs::create_dir(sandbox.work().join("models")).unwrap();
    fs::rename(sandbox.work().join("a.carton"), sandbox.work().join("models/a.carton")).unwrap();
    sandbox.write("conf/serve.toml", "repository = \"../models\"\n[defaults]\ninstances = 2\n");
    let mut server = Server::start(&sandbox, &["--file", "conf/serve.toml"]);
    assert_eq!((server.status("/v2/models/a"), server.status("/v2/models/b")), (200, 404));
    fs::copy(sandbox.work().join("models/a.carton"), sandbox.work().join("models/b.carton")).unwrap();
    server.signal(Signal::HUP);
    server.expect("reloaded");
    assert_eq!((server.status("/v2/models/a"), server.status("/v2/models/b")), (200, 200));
    // A carton that is damaged is not served, and those that were go on.
    fs::write(sandbox.work().join("models/c.carton"), "not a carton").unwrap();
    server.signal(Signal::HUP);
    server.expect("warning: cannot load model `c`");
    server.expect("reloaded, but for models with errors");
    sandbox.write("conf/serve.toml", "repositry = 1");
    server.signal(Signal::HUP);
    server.expect("not reloaded");
    // A file that is just being written is empty for a moment.
    sandbox.write("conf/serve.toml", "");
    server.signal(Signal::HUP);
    server.expect("not reloaded: there is nothing to serve");
    let twice = "[[model]]\nname = \"a\"\nlocation = \"../models/a.carton\"\n".repeat(2);
    sandbox.write("conf/serve.toml", &twice);
    server.signal(Signal::HUP);
    server.expect("warning: two models are called `a`");
    server.expect("not reloaded");
    sandbox.write("conf/serve.toml", "repository = \"nowhere\"");
    server.signal(Signal::HUP);
    server.expect("not reloaded: cannot read the folder of cartons");
    assert_eq!((server.status("/v2/models/a"), server.status("/v2/health/live")), (200, 200));
    server.signal(Signal::TERM);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn json_says_where_it_listens() {
    let sandbox = packed("a.carton");
    let arguments = ["serve", "a.carton", "--http", "127.0.0.1:0", "--json"];
    let mut child = sandbox.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let printed = serde_json::Deserializer::from_reader(child.stdout.take().unwrap());
    let listening: serde_json::Value = printed.into_iter().next().unwrap().unwrap();
    let address = listening["http"][0].as_str().unwrap();
    assert!(TcpStream::connect(address).is_ok() && listening["grpc"] == serde_json::json!([]), "{listening}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn mistakes() {
    let sandbox = packed("a.carton");
    assert_snapshot!(sandbox.carton("serve"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: there is nothing to serve

    hint: name a carton: `carton serve digits.carton`
    ");
    // What a newcomer tries first.
    let bare = sandbox.carton("-q serve model --http 127.0.0.1:0");
    let text = bare.to_string();
    assert!(
        text.contains("cannot serve model `model`") && text.contains("`carton pack` makes one of a model"),
        "{text}"
    );
    assert_snapshot!(sandbox.carton("-q serve missing.carton --http 127.0.0.1:0"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot serve model `missing`

    Caused by:
      cannot open `missing.carton`
      No such file or directory (os error 2)
    ");
    for (option, what) in [
        ("--token-file", "tokens for calls"),
        ("--admin-token-file", "tokens for administration"),
        ("--repository", "folder of cartons"),
    ] {
        let text = sandbox.carton(&format!("-q serve a.carton --http 127.0.0.1:0 {option} nowhere")).to_string();
        assert!(text.contains(&format!("error: cannot read the {what} `nowhere`")), "{text}");
    }
    assert_snapshot!(sandbox.carton("serve a.carton a=a.carton --http 127.0.0.1:0"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: two models are called `a`, version 1
    ");
    assert_snapshot!(sandbox.carton("serve a.carton --http 8080"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: invalid value '8080' for '--http <ADDRESS>': expected HOST:PORT or unix:PATH, found `8080`

    For more information, try '--help'.
    ");
    assert_snapshot!(sandbox.carton("-q serve a.carton --self-test --http 127.0.0.1:0"), @"
    exit code: 3
    ----- stdout -----

    ----- stderr -----
    error: model `a` has no self-tests, which are required
    ");
    sandbox.write("serve.toml", "[[model]]\nlocation = \"a.carton\"\nmax_bach = 2\n");
    assert_snapshot!(sandbox.carton("serve --file serve.toml"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: `serve.toml` is not valid: TOML parse error at line 3, column 1
        |
      3 | max_bach = 2
        | ^^^^^^^^
      unknown field `max_bach`, expected one of `location`, `name`, `version`, `expect`, `instances`, `max_batch`, `max_delay_ms`, `max_queue`, `timeout`, `self_test`, `signature_mode`, `device`, `runner`, `options`, `sandbox`, `allow`, `env`, `limits`
    ");
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap();
    let outcome = sandbox.carton(&format!("serve a.carton --http {address}")).expect_code(1);
    assert!(outcome.stderr.contains("cannot listen on 127.0.0.1:") && outcome.stderr.contains("port 0"), "{outcome}");
    sandbox.write("tokens", "short\n");
    assert_snapshot!(sandbox.carton("serve a.carton --http 127.0.0.1:0 --token-file tokens"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: no token for calls: `tokens` has a token of fewer than 16 characters
    ");
}

/// Neither a damaged carton nor one of another hash is served.
#[test]
fn only_what_is_verified_is_served() {
    let sandbox = packed("a.carton");
    let wrong = format!("serve a.carton#sha256={} --http 127.0.0.1:0", "0".repeat(64));
    sandbox.carton(&wrong).expect_code(4);
    let path = sandbox.work().join("a.carton");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(7).position(|window| window == b"weights").unwrap();
    let content = bytes.windows(7).rposition(|window| window == b"weights").unwrap();
    bytes[at.min(content)] ^= 1;
    fs::write(&path, bytes).unwrap();
    sandbox.carton("serve a.carton --http 127.0.0.1:0").expect_code(4);
}
