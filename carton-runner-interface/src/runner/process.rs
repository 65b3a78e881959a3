//! A runner as a process. Its standard input is the socket, and it ends when the host closes the connection.

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::net::SocketType;

use super::{Runner, RunnerError, ServeOptions, serve};
use crate::transport::Transport;

/// The longest time that the exit handlers of a framework may take.
const EXIT_PATIENCE: Duration = Duration::from_secs(1);

/// Runs `R` as a runner process over standard input until the host is gone. A runner's `main` consists of this call.
pub fn run<R: Runner>() -> ExitCode {
    let name = R::describe().name;
    let socket = match take_standard_input() {
        Ok(socket) => socket,
        Err(error) => {
            eprintln!("{name}: {error}; runners are started by carton, not by hand");
            return ExitCode::from(2);
        }
    };
    let served = serve::<R>(Transport::from(socket), ServeOptions::default());
    if let Err(error) = &served {
        let RunnerError { message, causes, .. } = RunnerError::from_error(error);
        eprintln!("{name}: {}", [vec![message], causes].concat().join(": "));
    }
    // Calls may still be running, and some frameworks' exit handlers wait for them.
    let _ = std::thread::Builder::new().spawn(|| {
        std::thread::sleep(EXIT_PATIENCE);
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    });
    std::process::exit(i32::from(served.is_err()))
}

/// Moves the socket to a descriptor that children do not inherit, and replaces standard input by `/dev/null`.
fn take_standard_input() -> io::Result<OwnedFd> {
    let stdin = io::stdin();
    match rustix::net::sockopt::socket_type(&stdin) {
        Ok(SocketType::STREAM) => {}
        Ok(_) => return Err(io::Error::other("standard input is a socket, but not a stream")),
        Err(_) => return Err(io::Error::other("standard input is not a socket")),
    }
    let socket = rustix::io::fcntl_dupfd_cloexec(&stdin, 3)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(socket)
}
