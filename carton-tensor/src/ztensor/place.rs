//! The part of a file that an error is about.

use std::fmt;

use super::name::Name;

/// The part of a file that an error is about: the manifest, an object, or a component of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePart {
    object: Option<Name>,
    role: Option<Name>,
}

impl FilePart {
    /// The manifest itself.
    pub(super) fn manifest() -> Box<Self> {
        Box::new(Self { object: None, role: None })
    }

    pub(super) fn object(name: &str) -> Box<Self> {
        Box::new(Self { object: Some(Name::new(name)), role: None })
    }

    pub(super) fn component(object: &str, role: &str) -> Box<Self> {
        Box::new(Self { object: Some(Name::new(object)), role: Some(Name::new(role)) })
    }

    /// The section of spec/ztensor.md that defines the fields of this part.
    pub(super) fn section_of_fields(&self) -> &'static str {
        match (&self.object, &self.role) {
            (Some(_), Some(_)) => "2.5",
            (Some(_), None) => "2.4",
            (None, _) => "2.3",
        }
    }
}

impl fmt::Display for FilePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.object, &self.role) {
            (Some(object), Some(role)) => write!(f, "component {role} of object {object}"),
            (Some(object), None) if object.is_empty() => f.write_str("the tensor"),
            (Some(object), None) => write!(f, "object {object}"),
            (None, _) => f.write_str("the manifest"),
        }
    }
}
