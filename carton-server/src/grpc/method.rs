//! The methods of the server by their paths, and what each asks for.

use crate::access::Scope;

/// A method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    ServerLive,
    ServerReady,
    ModelReady,
    ServerMetadata,
    ModelMetadata,
    ModelInfer,
    ModelStreamInfer,
    ModelConfig,
    ModelStatistics,
    RepositoryIndex,
    RepositoryModelLoad,
    RepositoryModelUnload,
    HealthCheck,
    HealthWatch,
}

impl Method {
    /// The method of a path, `/SERVICE/METHOD`.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let (service, name) = path.strip_prefix('/')?.split_once('/')?;
        Some(match (service, name) {
            ("inference.GRPCInferenceService", name) => match name {
                "ServerLive" => Self::ServerLive,
                "ServerReady" => Self::ServerReady,
                "ModelReady" => Self::ModelReady,
                "ServerMetadata" => Self::ServerMetadata,
                "ModelMetadata" => Self::ModelMetadata,
                "ModelInfer" => Self::ModelInfer,
                "ModelStreamInfer" => Self::ModelStreamInfer,
                "ModelConfig" => Self::ModelConfig,
                "ModelStatistics" => Self::ModelStatistics,
                "RepositoryIndex" => Self::RepositoryIndex,
                "RepositoryModelLoad" => Self::RepositoryModelLoad,
                "RepositoryModelUnload" => Self::RepositoryModelUnload,
                _ => return None,
            },
            ("grpc.health.v1.Health", "Check") => Self::HealthCheck,
            ("grpc.health.v1.Health", "Watch") => Self::HealthWatch,
            _ => return None,
        })
    }

    /// The tokens that allow the method. Probes need none, as over HTTP.
    pub(super) fn scope(self) -> Option<Scope> {
        match self {
            Self::ServerLive | Self::ServerReady | Self::HealthCheck | Self::HealthWatch => None,
            Self::RepositoryIndex | Self::RepositoryModelLoad | Self::RepositoryModelUnload => {
                Some(Scope::Administration)
            }
            _ => Some(Scope::Calls),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_of_the_proto_file_is_known() {
        let proto = include_str!("../../proto/open_inference.proto");
        let names: Vec<&str> =
            proto.lines().filter_map(|line| line.trim().strip_prefix("rpc ")?.split('(').next()).collect();
        assert_eq!(names.len(), 12);
        for name in names {
            assert!(Method::parse(&format!("/inference.GRPCInferenceService/{name}")).is_some(), "{name}");
        }
        for path in ["", "/", "//", "/inference.GRPCInferenceService/", "/inference.GRPCInferenceService/ModelInfer/x"]
        {
            assert_eq!(Method::parse(path), None, "{path}");
        }
    }
}
