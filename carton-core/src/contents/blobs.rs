//! Files of a carton that its registry has as blobs of their own (spec/registries.md). Only their digests, sizes and places; the fetching is
//! that of linked files.

use std::collections::BTreeMap;

use carton_format::digest::Sha256Digest;
use carton_format::url::Url;
use carton_network::http::Network;

/// The blobs of a carton in a registry. A carton from elsewhere has none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blobs {
    sizes: BTreeMap<Sha256Digest, u64>,
    stores: Vec<BlobStore>,
}

/// A server that has the blobs: the registry itself, or a mirror of it.
#[derive(Clone, Debug)]
pub(crate) struct BlobStore {
    /// The network with the login for the server.
    pub(crate) network: Network,
    /// The URL that the name of a blob is appended to: `https://example.com/v2/model/blobs/`.
    pub(crate) prefix: Url,
}

impl Blobs {
    /// Blobs by digest, with their sizes in bytes, and the servers that have them, in the order to try them.
    pub(crate) fn new(sizes: BTreeMap<Sha256Digest, u64>, stores: Vec<BlobStore>) -> Self {
        Self { sizes, stores }
    }

    pub(crate) fn has(&self, digest: &Sha256Digest) -> bool {
        self.sizes.contains_key(digest)
    }

    /// The size of a blob in bytes.
    pub(crate) fn size(&self, digest: &Sha256Digest) -> Option<u64> {
        self.sizes.get(digest).copied()
    }

    /// The URLs of a blob, with the network to fetch each over. None if there is no such blob.
    pub(crate) fn places(&self, digest: &Sha256Digest) -> Vec<(&Network, Url)> {
        let stores = self.stores.iter().filter(|_| self.has(digest));
        stores.filter_map(|store| Some((&store.network, store.url(digest)?))).collect()
    }
}

impl BlobStore {
    pub(crate) fn url(&self, digest: &Sha256Digest) -> Option<Url> {
        // Without `./`, `sha256:` would be read as the scheme of a URL.
        self.prefix.join(&format!("./sha256:{digest}")).ok()
    }
}
