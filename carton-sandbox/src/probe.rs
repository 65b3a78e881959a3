//! Asks a launcher what this system can enforce. Used by programs that examine a machine, not by those that run models: a launcher tells
//! the same on each start.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Gap, MESSAGE_PREFIX, NOTE_PREFIX, Policy, STARTED};

/// The time that a launcher gets to say what it enforces.
const PATIENCE: Duration = Duration::from_secs(10);
/// The interval at which its end is checked.
const PAUSE: Duration = Duration::from_millis(2);
/// The most output that is read from it, in bytes.
const MAX_OUTPUT: u64 = 64 << 10;
/// What the launcher is told to start. It cannot be started, so that the launcher ends after it has confined itself.
const NO_PROGRAM: &str = "/";

/// Why a launcher did not say what this system enforces.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The launcher cannot be started.
    #[error("the launcher cannot be started")]
    Start(#[source] io::Error),
    /// The launcher did not end.
    #[error("the launcher did not end within {} seconds", PATIENCE.as_secs())]
    Hangs,
    /// It refused the policy, or it is no launcher.
    #[error("the launcher refused: {0}")]
    Refused(String),
}

/// Starts `launcher` with a policy that uses every part of the sandbox, and returns what of it this system does not have, sorted.
///
/// # Errors
/// The launcher cannot be started, does not end, or refuses the policy.
pub fn probe(launcher: &Path) -> Result<Vec<Gap>, ProbeError> {
    let policy = Policy { namespaces: true, ..Policy::default() };
    let mut command = policy.launch(launcher, NO_PROGRAM.as_ref(), &[]).map_err(ProbeError::Start)?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().map_err(ProbeError::Start)?;
    let output = child.stderr.take();
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        // What cannot be read is missing, and is reported as a refusal.
        let _ = output.map(|output| output.take(MAX_OUTPUT).read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    });
    if !ends(&mut child).map_err(ProbeError::Start)? {
        child.kill().and_then(|()| child.wait()).map_err(ProbeError::Start)?;
        return Err(ProbeError::Hangs);
    }
    gaps(&reader.join().unwrap_or_default())
}

/// Whether the process ends in time.
fn ends(child: &mut Child) -> io::Result<bool> {
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        if begin.elapsed() > PATIENCE {
            return Ok(false);
        }
        thread::sleep(PAUSE);
    }
    Ok(true)
}

/// Reads what a launcher wrote to standard error.
fn gaps(output: &str) -> Result<Vec<Gap>, ProbeError> {
    let mut gaps = Vec::new();
    for line in output.lines().filter(|line| !line.starts_with(NOTE_PREFIX)) {
        if line == STARTED {
            gaps.sort_unstable();
            return Ok(gaps);
        }
        let message = line.strip_prefix(MESSAGE_PREFIX).unwrap_or(line);
        match Gap::ALL.into_iter().find(|gap| gap.to_string() == message) {
            Some(gap) => gaps.push(gap),
            None => return Err(ProbeError::Refused(message.strip_prefix("refused: ").unwrap_or(message).to_owned())),
        }
    }
    Err(ProbeError::Refused("it did not say that it has confined anything".to_owned()))
}

/// Returns the version of Landlock's interface that the kernel has; `None` without Landlock.
#[cfg(target_os = "linux")]
#[must_use]
pub fn landlock_version() -> Option<u32> {
    const VERSION_FLAG: libc::c_uint = 1;
    // SAFETY: with this flag the kernel reads no memory: it takes a null pointer and the length 0, and returns a number.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0_usize, VERSION_FLAG)
    };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// Returns the version of Landlock's interface; this system has none.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn landlock_version() -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_a_launcher_says_is_read() {
        let line = |gap: Gap| format!("{MESSAGE_PREFIX}{gap}\n");
        let output = format!(
            "{NOTE_PREFIX}why\n{}{}{STARTED}\n{MESSAGE_PREFIX}cannot start `/`",
            line(Gap::Namespaces),
            line(Gap::Files)
        );
        assert_eq!(gaps(&output).unwrap(), [Gap::Files, Gap::Namespaces]);
        assert_eq!(gaps(&format!("{STARTED}\n")).unwrap(), []);
        let refused = gaps(&format!("{MESSAGE_PREFIX}refused: no thread\n")).unwrap_err();
        assert_eq!(refused.to_string(), "the launcher refused: no thread");
        assert!(gaps("").unwrap_err().to_string().contains("did not say"));
    }

    #[test]
    fn a_program_that_is_no_launcher_is_an_error() {
        assert!(matches!(probe("/does/not/exist".as_ref()), Err(ProbeError::Start(_))));
        assert!(matches!(probe("/bin/true".as_ref()), Err(ProbeError::Refused(_))));
    }
}
