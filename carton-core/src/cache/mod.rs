//! The store under `cache_dir`: files and model folders by their hash, and what is known about files and cartons elsewhere.
//!
//! Everything in a bucket under its final name is complete. It is made under `partial-v1` and then moved into place as a whole, so a
//! process can be killed, or the disk can fill up, at any moment. The number in a bucket's name grows when the format of the bucket
//! changes: older and newer versions of the library then leave each other's files alone. [`Cache::later_buckets`] names those of newer
//! versions, so that programs can say so.
//!
//! ```text
//! cache_dir/                           0700 when we create it; no other user may be able to write to it
//! ├── CACHEDIR.TAG                     tells backup programs to leave the folder out
//! ├── files-v1/
//! │   └── 1f/1fbc02…                   a file by the SHA-256 of its bytes, 0444
//! ├── models-v1/
//! │   └── 9e81d0…/                     by manifest hash
//! │       ├── index                    the identity of each file when its bytes were known to be right
//! │       └── model/…                  the folder that a runner is given; files 0444, large ones linked from files-v1
//! ├── downloads-v1/
//! │   └── 1f0c77…/                     by the digest of the file that it is to become; owned by the holder of its lock
//! ├── cartons-v1/
//! │   └── 9e81d0…/                     a carton that uses the cache, by manifest hash; the folder's time is the last use
//! │       ├── MANIFEST                 the files it uses
//! │       ├── about                    the name of its model, and the file or folder from which it was loaded
//! │       ├── checksums                CRC-32 and size of files that were verified, by their SHA-256
//! │       ├── signature                the signing bundle that was accepted for it, if it came from a server
//! │       ├── uses/5cd101…             a further file it uses, such as the carton itself
//! │       └── remote-77a3e2…           what is known of it at a URL: version and the parts that describe it, or its manifest in a registry
//! ├── urls-v1/
//! │   └── 77a3e2….json                 by the SHA-256 of a URL: the carton it last led to
//! ├── registries-v1/
//! │   └── 5b0a17…                      by the SHA-256 of a registry's name: which of its repositories have which blobs
//! ├── verified-v1/
//! │   ├── 803-1a2b.json                a file by device and inode: its identity, and what was verified of it
//! │   └── 803-1a2c.folder              an unpacked carton: the identity of each of its files
//! ├── locks-v1/
//! │   ├── model-9e81d0….lock           held while that model folder is made or repaired
//! │   ├── file-1fbc02….lock            held while that file is made, downloaded or linked
//! │   └── prune.lock                   held shared to take a lease, exclusively to decide what to delete
//! ├── leases-v1/
//! │   └── 9e81d0….lock                 held shared while a model is loaded, exclusively to delete it
//! └── partial-v1/
//!     ├── 4711-0/                      what a process is making
//!     └── 4711-0.lock                  held by that process; once it is free, the folder is swept
//! ```
//!
//! Unused data is deleted on request only. First the registration of a carton and its files are moved to `partial-v1`, while no lease can
//! be taken; then they are deleted. A file stays as long as a registered carton uses it.
//!
//! All locks are `flock`s, which the kernel releases when their holder dies. Nothing is synced to the disk: a loss of power can truncate
//! a file. Its size then shows the damage, and the file is made again.
//!
//! The cache opens no carton and fetches nothing: the caller that asks for a model folder supplies the bytes of its files (`ModelFiles`).
//! Of a carton the cache knows only the MANIFEST and what its callers recorded.
//!
//! [`Cache`] has the calls for people: listing, deleting and verifying. The rest of the library asks it for the part that it needs: `files`,
//! `verifications`, `carton` for the records about one carton, `remotes` and `blob_places`. `layout` alone knows the names and paths.

mod about;
mod blob_places;
mod bundle;
mod cached_carton;
mod carton_records;
mod checksums;
mod downloads;
mod error;
mod files;
mod folder;
mod index;
mod layout;
mod listing;
mod lock;
mod models;
mod moment;
mod open;
mod partial;
mod prune;
mod record;
mod registrations;
mod remote;
mod remove;
mod store;
mod strays;
mod survey;
mod verify;

pub use cached_carton::CachedCarton;
pub(crate) use error::CacheError;
pub use listing::{CacheListing, CachedDownload};
pub(crate) use models::{ModelFile, ModelFiles, ModelFolder};
pub use prune::{PruneOptions, Pruned};
pub use store::Cache;
#[cfg(test)]
pub(crate) use tests::model_folders::Removed;
pub use verify::{CacheReport, DamagedFile};

pub(crate) use about::About;
pub(crate) use checksums::{Checksum, Checksums, checksum_of_file};
pub(crate) use downloads::FileLock;
pub(crate) use files::{Checked, SHARED_FROM, Sink, WORTH_WAITING, check_bytes, open_regular};
pub(crate) use index::{FolderIndex, Line};
pub(crate) use moment::Moment;
pub(crate) use record::Scope;
#[cfg(test)]
pub(crate) use record::Verified;
pub(crate) use remote::{RemoteCarton, RemoteForm, UrlKey};
pub(crate) use store::{Lease, TemporaryFolder};

#[cfg(test)]
pub(crate) mod tests;
