//! What the configuration says of a registry.

/// How a registry is reached: `[[registries]]` of the configuration. A registry needs no entry unless it is unusual.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistryConfig {
    /// The host, with its port if references have one: `registry.example.com:5000`.
    pub host: String,
    /// Whether the registry is asked without encryption. By default only one on this machine is, if it does not offer encryption.
    pub plain_http: Option<bool>,
    /// URLs of servers that have the same repositories, below `/v2/`. Reading asks them first, in this order.
    pub mirrors: Vec<String>,
    /// The servers that may receive the login in return for tokens, beside the registry's own host: `auth.example.com`, with a port if it is not
    /// 443.
    pub token_servers: Vec<String>,
}

impl RegistryConfig {
    /// A registry that is reached as usual.
    #[must_use]
    pub fn new(host: impl Into<String>) -> Self {
        Self { host: host.into(), plain_http: None, mirrors: Vec::new(), token_servers: Vec::new() }
    }
}
