//! What a peer can do wrong. Each of these closes the connection.

/// A violation of the protocol by the peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A frame that breaks the framing rules.
    #[error("malformed frame: {0}")]
    Frame(String),
}
