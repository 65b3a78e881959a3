//! Keeps the log records of runners for the tests.

use std::io;
use std::sync::{Mutex, OnceLock};

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static STARTED: OnceLock<()> = OnceLock::new();

/// Keeps every warning of a runner from now on.
pub(super) fn start() {
    STARTED.get_or_init(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter("carton::runner=warn")
            .with_ansi(false)
            .with_writer(|| Keep)
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
}

/// Returns the warnings that contain `text`.
pub(super) fn warnings_with(text: &str) -> Vec<String> {
    let lines = LINES.lock().unwrap();
    String::from_utf8_lossy(&lines).lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

struct Keep;

impl io::Write for Keep {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
