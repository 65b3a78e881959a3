//! Gives an artifact another tag.

use std::future::IntoFuture;

use carton_format::digest::Sha256Digest;
use carton_network::http::Activity;
use carton_network::oci::manifest::{CartonManifest, IMAGE_MANIFEST};
use carton_network::oci::{Client, InvalidArtifactName, OciError, RegistryAccess};

use super::Reference;
use crate::Error;
use crate::blocking::{Awaited, run_blocking};
use crate::settings::{OperationSettings, operation_setters};

/// An artifact to be tagged. Made by [`tag`]; setters configure it, and `.await` sets the tag.
#[derive(Clone, Debug)]
#[must_use = "nothing is tagged until this is awaited"]
pub struct Tag {
    from: Reference,
    to: Reference,
    operation: OperationSettings,
}

/// The result of [`tag`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tagged {
    /// The name with the new tag.
    pub reference: Reference,
    /// The digest of the artifact.
    pub digest: Sha256Digest,
}

/// Gives the carton `from` another tag in its repository. A carton that had the tag loses it.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use carton_core::registry;
/// registry::tag("oci://registry.example.com/team/digits:1.0".parse()?, "stable")?.await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The tag is not a valid one. Awaiting: there is no such carton; the registry cannot be reached or refuses the login.
pub fn tag(from: Reference, tag: &str) -> Result<Tag, InvalidArtifactName> {
    let to = from.with_tag(tag)?;
    Ok(Tag { from, to, operation: OperationSettings::default() })
}

impl Tag {
    operation_setters!(operation);

    async fn tag(self) -> Result<Tagged, Error> {
        let Self { from, to, operation } = self;
        let config = operation.config()?;
        run_blocking(operation.progress(), move |context| {
            let activity = Activity::new(context.cancel_token());
            let client =
                Client::new(&config.network(), &config.registries, &from, RegistryAccess::Write, &[], &activity)?;
            let (bytes, digest) = client.manifest()?;
            CartonManifest::parse(&bytes)
                .map_err(|error| OciError::NotACarton { reference: from.to_string(), reason: error.to_string() })?;
            client.put_manifest(&to.name(), IMAGE_MANIFEST, &bytes)?;
            Ok(Tagged { reference: to, digest })
        })
        .await
    }
}

impl IntoFuture for Tag {
    type Output = Result<Tagged, Error>;
    type IntoFuture = Awaited<'static, Tagged>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.tag())
    }
}
