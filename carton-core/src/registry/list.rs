//! Lists the artifacts in a repository.

use std::future::IntoFuture;

use carton_format::digest::Sha256Digest;
use carton_format::manifest::ManifestHash;
use carton_network::http::Activity;
use carton_network::oci::manifest::CartonManifest;
use carton_network::oci::{Client, RegistryAccess};
use carton_tensor::parallel::par_map;

use super::Reference;
use crate::Error;
use crate::blocking::{Awaited, run_blocking};
use crate::settings::{OperationSettings, operation_setters};

/// How many manifests are read at once.
const N_READERS: usize = 8;

/// A repository to be listed. Made by [`list`]; setters configure it, and `.await` lists it.
#[derive(Clone, Debug)]
#[must_use = "nothing is listed until this is awaited"]
pub struct List {
    repository: Reference,
    operation: OperationSettings,
}

/// A tag of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TagInfo {
    /// The name with the tag.
    pub reference: Reference,
    /// The digest of the artifact; none if the registry does not give it to the user.
    pub digest: Option<Sha256Digest>,
    /// The hash of the carton; none if the artifact is not one.
    pub manifest_sha256: Option<ManifestHash>,
    /// The bytes of all its blobs; none if the artifact is not a carton.
    pub size: Option<u64>,
}

/// Lists the tags of a repository, and the cartons that they name. The tag and the digest of `repository` mean nothing here.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use carton_core::registry;
/// for listed in registry::list("oci://registry.example.com/team/digits".parse()?).await? {
///     println!("{} {:?}", listed.reference, listed.manifest_sha256);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// There is no such repository; the registry cannot be reached or refuses the login.
pub fn list(repository: Reference) -> List {
    List { repository, operation: OperationSettings::default() }
}

impl List {
    operation_setters!(operation);

    async fn list(self) -> Result<Vec<TagInfo>, Error> {
        let Self { repository, operation } = self;
        let config = operation.config()?;
        run_blocking(operation.progress(), move |context| {
            let activity = Activity::new(context.cancel_token());
            let client =
                Client::new(&config.network(), &config.registries, &repository, RegistryAccess::Read, &[], &activity)?;
            let tags: Vec<String> = client.tags()?.into_iter().collect();
            par_map(
                tags.len(),
                N_READERS,
                || (),
                |(), at| {
                    context.check()?;
                    let Ok(reference) = repository.with_tag(&tags[at]) else { return Ok(None) };
                    match client.manifest_named(&tags[at]) {
                        Ok((bytes, digest)) => Ok(Some(TagInfo::of(reference, &bytes, digest))),
                        // The tag was deleted meanwhile, or its artifact was; or this one artifact is not for the user.
                        Err(error) if error.is_refusal() => {
                            tracing::warn!("{}", carton_format::causes::in_one_line(&error));
                            Ok(Some(TagInfo { reference, digest: None, manifest_sha256: None, size: None }))
                        }
                        Err(error) => Err(error.into()),
                    }
                },
            )
            .map(|listed| listed.into_iter().flatten().collect())
        })
        .await
    }
}

impl TagInfo {
    fn of(reference: Reference, manifest: &[u8], digest: Sha256Digest) -> Self {
        let carton = CartonManifest::parse(manifest).ok();
        let size = |carton: &CartonManifest| {
            carton.files.iter().fold(carton.small.size, |sum, file| sum.saturating_add(file.size))
        };
        let size = carton.as_ref().map(size);
        Self { reference, digest: Some(digest), manifest_sha256: carton.map(|carton| carton.carton), size }
    }
}

impl IntoFuture for List {
    type Output = Result<Vec<TagInfo>, Error>;
    type IntoFuture = Awaited<'static, Vec<TagInfo>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.list())
    }
}
