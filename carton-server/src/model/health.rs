//! Decides when a model whose runners die is not ready, and how long it pauses before it is started again. Pure.

use std::time::Duration;

/// A runner that lived shorter than this died at once, for what this module decides.
const SHORT_LIFE: Duration = Duration::from_secs(5);
/// The number of short lives in a row that make a model not ready.
const MAX_SHORT_LIVES: u32 = 3;
/// The first pause, which doubles each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The short lives of a model's runners in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    short_lives: u32,
}

impl Health {
    /// A runner died that was ready for `uptime`, or `None` if it did not become ready. Returns the pause before it is started again.
    pub(crate) fn died(&mut self, uptime: Option<Duration>) -> Duration {
        match uptime {
            Some(uptime) if uptime >= SHORT_LIFE => self.short_lives = 0,
            _ => self.short_lives = self.short_lives.saturating_add(1),
        }
        match self.short_lives.checked_sub(MAX_SHORT_LIVES) {
            None => Duration::ZERO,
            Some(doublings) => FIRST_PAUSE.saturating_mul(1 << doublings.min(6)).min(LONGEST_PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_short_lives_in_a_row() {
        let mut health = Health::default();
        let short = Some(Duration::from_millis(10));
        let pauses: Vec<u64> = (0..11).map(|_| health.died(short).as_secs()).collect();
        assert_eq!(pauses, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(health.died(Some(Duration::from_secs(9))), Duration::ZERO);
        assert_eq!(health.died(None), Duration::ZERO);
    }

    /// A model whose runner somebody kills every few seconds goes on.
    #[test]
    fn long_lives_cause_no_pause() {
        let mut health = Health::default();
        assert!((0..1000).all(|_| health.died(Some(SHORT_LIFE)) == Duration::ZERO));
    }
}
