//! The parts of the comparison.

use clap::ValueEnum;
use serde::Serialize;

use crate::Result;
use crate::case::{self, Case, Encoding};

/// What is measured, in the order of the tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    /// Digits over HTTP with JSON, beside a bare axum program that parses and writes the same
    Json,
    /// Pictures of 602 KB over HTTP with binary tensors, beside a bare axum program
    Binary,
    /// Digits over gRPC, beside a bare tonic program
    Grpc,
    /// A model of large matrices, batching beside not batching
    Batching,
}

impl Part {
    /// The heading of its table.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Json => "digits over HTTP with JSON; bound: axum that parses and writes the same JSON",
            Self::Binary => {
                "pictures of 602 KB over HTTP with binary tensors; bound: axum that reads and writes as many bytes"
            }
            Self::Grpc => "digits over gRPC; bound: tonic",
            Self::Batching => "a model of large matrices over HTTP with binary tensors; bound: carton without batching",
        }
    }

    /// The request that it sends.
    pub(crate) fn case(self) -> Result<Case> {
        match self {
            Self::Json => case::digits(Encoding::Json),
            Self::Binary => Ok(case::pixels(Encoding::Binary)),
            Self::Grpc => case::digits(Encoding::Grpc),
            Self::Batching => case::layers(Encoding::Binary),
        }
    }
}
