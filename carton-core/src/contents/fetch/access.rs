//! What fetching may use.

use carton_network::http::Network;

/// How files that are elsewhere may be fetched.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// The network to fetch them over.
    pub network: Network,
    /// The network to fetch linked files over. For a carton from a server it refuses private addresses
    /// ([`Network::public_only`]): otherwise the author of the carton could make this machine send requests to servers in its own network.
    pub link_network: Network,
    /// Whether LINKS may name local files. To be allowed only for a carton that is itself local: one that somebody else can change
    /// could otherwise find out which files there are.
    pub file_links: bool,
}
