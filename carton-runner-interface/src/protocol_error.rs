//! Violations of the protocol. Each closes the connection.

/// A violation of the protocol by the peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A frame above the limit.
    #[error("a frame of {length} bytes is above the limit of {cap}")]
    FrameTooLarge {
        /// The length announced.
        length: u64,
        /// The limit.
        cap: u64,
    },
    /// A JSON part above the limit.
    #[error("a message of {length} bytes of JSON is above the limit of {cap}")]
    JsonTooLarge {
        /// The length announced.
        length: u64,
        /// The limit.
        cap: u64,
    },
    /// The JSON part is longer than the frame.
    #[error("a frame of {length} bytes cannot hold {json} bytes of JSON")]
    FrameLengths {
        /// The length of the frame.
        length: u64,
        /// The length of its JSON part.
        json: u64,
    },
    /// A message that the specification does not allow.
    #[error("malformed message{}: {problem}", .message.as_deref().map(|name| format!(" `{name}`")).unwrap_or_default())]
    Malformed {
        /// The message's name, where it could be read.
        message: Option<String>,
        /// The reason, in words.
        problem: String,
    },
    /// The first message was not a hello.
    #[error("expected `hello` as first message, found `{found}`")]
    ExpectedHello {
        /// The message found.
        found: String,
    },
    /// The hello of another protocol.
    #[error("expected a peer that speaks `carton-runner`, found one that speaks `{found}`")]
    WrongProtocol {
        /// The protocol found.
        found: String,
    },
    /// No version in common.
    #[error("no protocol version in common: this side speaks {ours:?}, the other one {theirs:?}")]
    NoCommonVersion {
        /// The versions this side speaks.
        ours: Vec<u32>,
        /// The versions the other side speaks.
        theirs: Vec<u32>,
    },
    /// A message that the peer may not send, or not at this time.
    #[error("unexpected `{message}`: {why}")]
    Unexpected {
        /// The message's name.
        message: &'static str,
        /// Why it may not be sent.
        why: String,
    },
    /// An answer to a call that is not running.
    #[error("`{message}` answers call {id}, which is not running")]
    UnknownCall {
        /// The message's name.
        message: &'static str,
        /// The number of the call.
        id: u64,
    },
    /// A call with the number of one that is running.
    #[error("`{message}` has the number {id} of a call that is still running")]
    DuplicateCall {
        /// The message's name.
        message: &'static str,
        /// The number of the call.
        id: u64,
    },
    /// A message named a descriptor that did not come with it.
    #[error("`{message}` names {named} descriptors, {found} came with it")]
    MissingDescriptors {
        /// The message's name.
        message: &'static str,
        /// Descriptors the message names.
        named: usize,
        /// Descriptors that came.
        found: usize,
    },
    /// More descriptors than any message may carry.
    #[error("more than {cap} descriptors came with one message")]
    TooManyDescriptors {
        /// The limit.
        cap: usize,
    },
    /// A region of shared memory that cannot be used.
    #[error("region {region} of shared memory: {problem}")]
    Region {
        /// The region's number.
        region: u64,
        /// The reason, in words.
        problem: String,
    },
    /// A tensor whose data does not match its description.
    #[error("tensor `{name}`: {problem}")]
    Tensor {
        /// The tensor's name.
        name: String,
        /// The reason, in words.
        problem: String,
    },
    /// The peer released a buffer that was not lent to it.
    #[error("region {region} has no lent buffer at offset {offset} to be released")]
    UnknownRelease {
        /// The region's number.
        region: u64,
        /// The offset named.
        offset: u64,
    },
}

impl ProtocolError {
    /// Creates the error of a malformed message with a known name.
    pub(crate) fn malformed(message: &str, problem: impl ToString) -> Self {
        Self::Malformed { message: Some(message.to_owned()), problem: problem.to_string() }
    }
}
