//! The versions and features of the protocol that this release has, and the agreement of two sides on them
//! (spec/runner-protocol.md, "Hello").

use carton_tensor::DataType;

use crate::dtypes::Dtypes;
use crate::message::{Hello, Message};
use crate::protocol_error::ProtocolError;

/// The name both sides give the protocol in their hello.
pub(crate) const PROTOCOL: &str = "carton-runner";

/// The versions this release speaks. Version 1 was the undocumented protocol of the first Carton.
pub const VERSIONS: &[u32] = &[2];

/// Tensors may travel in shared memory.
pub const SHARED_MEMORY: &str = "shared_memory";

/// The runner can receive descriptors of files (`load` with ranges).
pub const DESCRIPTORS: &str = "descriptors";

/// The highest version that both lists have.
pub(crate) fn negotiate(ours: &[u32], theirs: &[u32]) -> Option<u32> {
    ours.iter().copied().filter(|version| theirs.contains(version)).max()
}

/// The version and features that both sides of a connection have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agreement {
    /// The version both speak.
    pub(crate) version: u32,
    /// The features both have.
    pub(crate) features: Vec<String>,
}

impl Agreement {
    pub(crate) fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|agreed| agreed == feature)
    }
}

/// The hello of this side.
pub(crate) fn hello(features: &[&str], dtypes: &[DataType], name: &str, framework_version: &str) -> Message {
    Message::Hello(Hello {
        protocol: PROTOCOL.to_owned(),
        versions: VERSIONS.to_vec(),
        features: features.iter().map(|&feature| feature.to_owned()).collect(),
        dtypes: Dtypes::names(dtypes),
        name: name.to_owned(),
        framework_version: framework_version.to_owned(),
    })
}

/// Returns what this side, with `features`, and the sender of `hello` have in common.
pub(crate) fn agree(features: &[&str], hello: &Hello) -> Result<Agreement, ProtocolError> {
    if hello.protocol != PROTOCOL {
        return Err(ProtocolError::WrongProtocol { found: hello.protocol.clone() });
    }
    let version = negotiate(VERSIONS, &hello.versions)
        .ok_or_else(|| ProtocolError::NoCommonVersion { ours: VERSIONS.to_vec(), theirs: hello.versions.clone() })?;
    let common = features.iter().filter(|&&feature| hello.features.iter().any(|theirs| theirs == feature));
    Ok(Agreement { version, features: common.map(|&feature| feature.to_owned()).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_version_wins() {
        for (ours, theirs, expected) in [
            (&[2][..], &[2][..], Some(2)),
            (&[2], &[2, 3, 99], Some(2)),
            (&[2, 3], &[1, 2, 3], Some(3)),
            (&[2], &[1], None),
            (&[2], &[], None),
        ] {
            assert_eq!(negotiate(ours, theirs), expected, "{ours:?} and {theirs:?}");
        }
    }

    #[test]
    fn constants_that_must_never_change() {
        assert_eq!(PROTOCOL, "carton-runner");
        assert_eq!(SHARED_MEMORY, "shared_memory");
        assert_eq!(DESCRIPTORS, "descriptors");
        assert!(VERSIONS.contains(&2));
    }
}
