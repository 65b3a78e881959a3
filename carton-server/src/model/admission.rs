//! Admission of calls: how many, and how many bytes of them, the server has at once. Bytes are counted from the
//! first one of a request, calls from the last one, both to the last byte of the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::failure::{Failure, Reason};

/// A bound on what is in use at once.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    most: usize,
}

impl Budget {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), most })
    }

    /// What is in use.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether there is room for one more.
    pub(crate) fn has_room(&self) -> bool {
        self.used() < self.most
    }

    fn take(&self, amount: usize) -> bool {
        let taken = |used: usize| used.checked_add(amount).filter(|used| *used <= self.most);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }
}

/// Why further calls are refused.
pub(crate) const TOO_MANY_CALLS: &str = "too many calls wait for the model";
/// Why further bytes are refused.
pub(crate) const FULL: &str = "the calls that the server has take up all its memory for calls";

/// A part of a [`Budget`], given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    amount: usize,
}

impl Share {
    /// Takes one call of the budget of calls.
    ///
    /// # Errors
    /// The budget is used up.
    pub(crate) fn of_calls(budget: &Arc<Budget>) -> Result<Self, Failure> {
        match budget.take(1) {
            true => Ok(Self { budget: Arc::clone(budget), amount: 1 }),
            false => Err(Failure::new(Reason::Overloaded, TOO_MANY_CALLS)),
        }
    }

    /// An empty share of the budget of bytes.
    pub(crate) fn of_bytes(budget: &Arc<Budget>) -> Self {
        Self { budget: Arc::clone(budget), amount: 0 }
    }

    /// An empty share of the same budget.
    pub(crate) fn empty(&self) -> Self {
        Self { budget: Arc::clone(&self.budget), amount: 0 }
    }

    /// Takes more bytes.
    ///
    /// # Errors
    /// The budget is used up.
    pub(crate) fn grow(&mut self, n_bytes: usize) -> Result<(), Failure> {
        match self.budget.take(n_bytes) {
            true => {
                self.amount += n_bytes;
                Ok(())
            }
            false => Err(Failure::new(Reason::Overloaded, FULL)),
        }
    }

    /// Takes over another share of the same budget.
    pub(crate) fn absorb(&mut self, mut other: Self) {
        self.amount += std::mem::take(&mut other.amount);
    }

    /// Whether this many further bytes would be refused now.
    pub(crate) fn is_full_for(&self, n_bytes: usize) -> bool {
        self.budget.used().saturating_add(n_bytes) > self.budget.most
    }

    /// Counts bytes that exist already, such as those of an answer: they keep further calls out, and are never refused.
    pub(crate) fn count(&mut self, n_bytes: usize) {
        self.budget.used.fetch_add(n_bytes, Ordering::Relaxed);
        self.amount += n_bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.amount, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn shares_are_given_back() {
        let budget = Budget::new(2);
        let first = Share::of_calls(&budget).unwrap();
        let second = Share::of_calls(&budget).unwrap();
        assert_eq!(Share::of_calls(&budget).unwrap_err().reason, Reason::Overloaded);
        drop(first);
        assert!(Share::of_calls(&budget).is_ok());
        drop(second);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn bytes_grow_up_to_the_bound() {
        let budget = Budget::new(10);
        let mut share = Share::of_bytes(&budget);
        share.grow(8).unwrap();
        assert!(share.is_full_for(3) && !share.is_full_for(2));
        assert!(share.grow(3).is_err() && share.grow(usize::MAX).is_err());
        share.count(100);
        assert!(Share::of_bytes(&budget).grow(1).is_err());
        drop(share);
        assert_eq!(budget.used(), 0);
    }
}
