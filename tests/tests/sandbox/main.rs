//! Shows that the sandbox holds: each way out of it works without the sandbox, and does not work in it.
//!
//! The ways are functions of a Python model (`tests/models/escapes`), which answers what each achieved. Where the model cannot know that, the
//! test looks: at files, at processes, and at what has reached a victim (`tests/python/victim.py`). In the sandbox each way is tried by
//! the runner's process itself, by a process that it forks, and by a program that it starts.
//!
//! The tests are run by the current user. If that is root, they are run once more by a user without privileges (`ordinary_user`).

#![allow(clippy::unwrap_used, clippy::panic)]

mod attempt;
mod daemons;
mod files;
mod folders;
mod host;
mod kernel;
mod memory;
mod onnx;
mod ordinary_user;
mod permissions;
mod processes;
mod resources;
mod scratch;
mod setting;
mod sockets;
mod sources;
mod terminal;
mod torchscript;
mod victim;
