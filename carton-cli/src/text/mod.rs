//! Text for people: numbers, words of a shell, and text of others that is safe to print.

mod numbers;
mod printable;
mod shell;

pub(crate) use numbers::{ago, byte_size, count, large_count, seconds, six_digits};
pub(crate) use printable::{one_line, printable, shortened, without_logins};
pub(crate) use shell::shell_word;
