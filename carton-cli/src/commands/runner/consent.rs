//! Asks before something is downloaded that the user did not name.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;

use carton_core::CancelToken;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::failure::{Exit, Failure};
use crate::interrupt::InterruptError;
use crate::progress::ProgressDisplay;

/// The interval at which a waiting question checks whether it is still wanted.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How the user agrees to downloads.
#[derive(Clone)]
pub(super) struct Consent {
    /// Whether `--yes` is there.
    pub(super) is_given: bool,
    /// Whether the command may ask: its output is for people.
    pub(super) may_ask: bool,
    /// The progress, which is hidden while the question is shown.
    pub(super) progress: Arc<ProgressDisplay>,
}

/// The user did not agree to the installation, or could not be asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConsentError {
    #[error("{action} needs your consent, and there is no terminal to ask on")]
    NoTerminal { action: String },
    #[error("{action} was declined")]
    Declined { action: String },
}

impl Consent {
    /// Asks `QUESTION [y/N]` unless the user agreed by an option. `action` is what it is about, for errors; `otherwise` what else the user
    /// can do.
    ///
    /// # Errors
    /// The user declines, or cannot be asked.
    pub(super) fn ask(
        &self,
        question: &str,
        action: &str,
        otherwise: &str,
        cancel_token: &CancelToken,
    ) -> Result<(), Failure> {
        if self.is_given {
            return Ok(());
        }
        let refused = |error| Failure::with_exit(Exit::NoRunner, error).hint(otherwise);
        let action = action.to_owned();
        if !self.may_ask || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Err(refused(ConsentError::NoTerminal { action }));
        }
        let answer = self.progress.hide_while(|| {
            let mut err = io::stderr().lock();
            write!(err, "{question} [y/N] ").and_then(|()| err.flush())?;
            read_line(cancel_token)
        });
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                return Err(Failure::with_exit(Exit::Interrupted, InterruptError::Interrupted));
            }
            Err(error) => return Err(Failure::new(error)),
        };
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(refused(ConsentError::Declined { action })),
        }
    }
}

/// Reads a line from the terminal. Fails as interrupted once `cancel_token` is cancelled.
fn read_line(cancel_token: &CancelToken) -> io::Result<String> {
    let stdin = io::stdin();
    loop {
        if cancel_token.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let mut descriptors = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut descriptors, Some(&PAUSE)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => break,
            Err(error) => return Err(error.into()),
        }
    }
    let mut line = String::new();
    stdin.lock().read_line(&mut line)?;
    Ok(line)
}
