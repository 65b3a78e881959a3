//! Arbitrary bytes as a call over gRPC. What our parser accepts, the library that generates the messages reads alike.

use carton_server::fuzzing::{decoded_by_library, grpc_request};

/// Checks these bytes. Returns whether they are a request.
pub fn check(bytes: &[u8]) -> bool {
    let Some(request) = grpc_request(bytes) else { return false };
    // Fields of later versions may be malformed for the library alone, which looks into fewer of them.
    if let Some(expected) = decoded_by_library(bytes) {
        assert_eq!(request, expected);
    }
    true
}
