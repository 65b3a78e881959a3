//! No encodings, for builds without the feature `remote`, which never receive an encoded body.

use std::io;

use super::EncodingError;
use super::step::Step;

/// The state of an encoding. It has no values, because no encoding is supported.
#[derive(Debug)]
pub(super) enum Codec {}

impl Codec {
    pub(super) fn new(name: &str) -> Result<(Self, &'static str), EncodingError> {
        Err(EncodingError::Unknown { encoding: name.to_owned() })
    }

    pub(super) fn is_complete(&self) -> bool {
        match *self {}
    }

    pub(super) fn run(&mut self, _input: &[u8], _output: &mut [u8]) -> io::Result<Step> {
        match *self {}
    }
}
