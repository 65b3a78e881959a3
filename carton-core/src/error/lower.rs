//! The errors of the crates below this one as failures.

use carton_format::context::Cancelled;
use carton_format::error_kind::ErrorKind;
use carton_format::links::LinksError;
use carton_format::metadata::MetadataError;
use carton_format::signature::{CastInputError, SignatureError, TooManyPositional, ViolationKind};
use carton_network::http::NetworkError;
use carton_network::hub::HubError;
use carton_network::oci::OciError;
use carton_network::place::PlaceError;
use carton_runner_interface::host::CallError;
use carton_tensor::DataType;

use super::{Advice, Error, Failure};

impl Failure for MetadataError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }
}

impl Failure for PlaceError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }

    fn is_of_location(&self) -> bool {
        true
    }
}

impl Failure for LinksError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }
}

impl Failure for CastInputError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }
}

impl Failure for NetworkError {
    fn kind(&self) -> ErrorKind {
        NetworkError::kind(self)
    }

    fn advice(&self) -> Option<Advice> {
        self.hint().map(Advice::Text)
    }

    fn is_unreachable(&self) -> bool {
        matches!(self, Self::Connection { .. } | Self::Stalled { .. })
    }
}

impl From<Cancelled> for Error {
    fn from(cancelled: Cancelled) -> Self {
        NetworkError::from(cancelled).into()
    }
}

impl Failure for HubError {
    fn kind(&self) -> ErrorKind {
        HubError::kind(self)
    }

    fn advice(&self) -> Option<Advice> {
        self.hint().map(Advice::Text)
    }

    fn is_unreachable(&self) -> bool {
        matches!(self, Self::Network(error) if error.is_unreachable())
    }
}

impl Failure for OciError {
    fn kind(&self) -> ErrorKind {
        OciError::kind(self)
    }

    fn advice(&self) -> Option<Advice> {
        self.hint().map(Advice::Text)
    }

    fn is_unreachable(&self) -> bool {
        matches!(self, Self::Refused { source, .. } if source.is_unreachable())
    }
}

impl Failure for CallError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Closed(_) => ErrorKind::RunnerCrashed,
            // The inputs can never fit into a pool of this size.
            Self::PoolFull { bytes, cap, .. } if bytes > cap => ErrorKind::InvalidInput,
            Self::QueueFull { .. } | Self::PoolFull { .. } => ErrorKind::Busy,
            Self::InputsTooLarge { .. } | Self::TooLarge { .. } | Self::Tensor(_) | Self::Cast(_) => {
                ErrorKind::InvalidInput
            }
            Self::Io { .. } => ErrorKind::Machine,
            _ => ErrorKind::Other,
        }
    }

    fn advice(&self) -> Option<Advice> {
        match self {
            Self::InputsTooLarge { .. } => Some(Advice::SplitInput),
            Self::PoolFull { .. } => Some("drop outputs that are no longer needed, or allow more shared memory".into()),
            _ => None,
        }
    }
}

impl Failure for SignatureError {
    fn kind(&self) -> ErrorKind {
        if self.is_of_outputs() { ErrorKind::Model } else { ErrorKind::InvalidInput }
    }

    fn advice(&self) -> Option<Advice> {
        if self.lacks_inputs() {
            return Some(Advice::PassInput);
        }
        if let Some(how) = self.undeclared_bool_hint() {
            let castable = self.violations.iter().any(|violation| violation.expected.parse::<DataType>().is_ok());
            return Some(Advice::DeclareBools { how, castable });
        }
        Some(match self.castable() {
            Some((input, dtype)) => Advice::CastInput { input: input.to_owned(), dtype },
            // Refused in every mode.
            None if self.violations.iter().any(|violation| violation.kind == ViolationKind::Element) => {
                Advice::ReadSignature
            }
            None => Advice::WaiveSignature,
        })
    }
}

impl Failure for TooManyPositional {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }

    fn advice(&self) -> Option<Advice> {
        Some("pass inputs by name".into())
    }
}
