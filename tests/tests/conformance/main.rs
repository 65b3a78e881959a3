//! Decides which files are cartons: every case is a carton built in code, judged through the public API
//! (spec/carton-format.md, "What is accepted").

#![allow(clippy::unwrap_used, clippy::panic)]

mod builder;
mod damage;
mod folder;
mod judge;
mod odd;
mod original;
mod records;
mod reject;
mod shrunk;
mod valid;

use carton_core::ErrorKind;

use builder::CartonBuilder;
use judge::{Court, Verdict};

/// A carton that must be refused: the name of its fault, the change that makes it, and a part of the message, which names
/// the offending item.
pub(crate) struct Reject {
    pub(crate) name: &'static str,
    pub(crate) change: fn(&mut CartonBuilder),
    pub(crate) kind: ErrorKind,
    pub(crate) message: &'static str,
}

/// A case whose carton is bad.
pub(crate) const fn bad(name: &'static str, change: fn(&mut CartonBuilder), message: &'static str) -> Reject {
    Reject { name, change, kind: ErrorKind::Integrity, message }
}

/// A case whose carton may be well-formed, but needs an unsupported feature.
pub(crate) const fn unsupported(name: &'static str, change: fn(&mut CartonBuilder), message: &'static str) -> Reject {
    Reject { name, change, kind: ErrorKind::Unsupported, message }
}

/// Applies each case's change to the good little carton and judges the result; reports all failures at the end.
pub(crate) fn check_rejected(cases: &[Reject]) {
    let court = Court::new();
    let mut wrong = Vec::new();
    for case in cases {
        let mut carton = CartonBuilder::little();
        (case.change)(&mut carton);
        let name = case.name;
        match court.judge(&carton.build()) {
            Verdict::Good(_) => wrong.push(format!("{name}: accepted")),
            Verdict::Bad(failure) if failure.kind != case.kind || !failure.text.contains(case.message) => {
                wrong.push(format!("{name}: expected {:?} with `{}`, found {failure:?}", case.kind, case.message));
            }
            Verdict::Bad(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
