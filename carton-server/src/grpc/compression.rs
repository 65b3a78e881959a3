//! The headers that say how the messages of a call are compressed.

use axum::http::header::{HeaderName, HeaderValue};

/// The header with the encoding of messages.
pub(super) const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
/// The header with the encodings that the server takes.
pub(super) const ACCEPTED_ENCODINGS: HeaderName = HeaderName::from_static("grpc-accept-encoding");
/// Its value.
pub(super) const ACCEPTED: HeaderValue = HeaderValue::from_static("identity,deflate,gzip,zstd");
