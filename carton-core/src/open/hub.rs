//! Finds a carton by its name on the Hugging Face Hub (spec/registries.md, "The Hugging Face Hub").

use carton_format::manifest::ManifestHash;
use carton_format::url::Url;
use carton_network::http::Activity;
use carton_network::hub::{self, HubName};

use super::Opening;
use crate::Error;
use crate::cache::UrlKey;
use crate::config::Config;

/// Returns the web URL of the carton with the name `named`: without a request, the one that the name last led to, if the network is not to be
/// used, or if that is the expected carton.
pub(super) fn find(
    named: &Url,
    expect: Option<ManifestHash>,
    config: &Config,
    opening: &Opening,
) -> Result<Url, Error> {
    let network = config.network();
    let known = opening.cache.as_ref().zip(key(named)).and_then(|(cache, key)| cache.remotes().named_url(&key));
    if let Some((url, carton)) = known
        && (network.is_offline() || expect == Some(carton))
    {
        return Ok(url);
    }
    let activity = Activity::new(opening.context.cancel_token());
    Ok(hub::carton_url(named, &config.hub_endpoint()?, &network, &activity)?)
}

/// Records that `named` stands for `url` now.
pub(super) fn remember(named: &Url, url: &Url, opening: &Opening) {
    let Some((cache, key)) = opening.cache.as_ref().zip(key(named)) else { return };
    if let Err(error) = cache.remotes().remember_name(key, url) {
        tracing::debug!(%error, "cannot remember where a name of the Hub leads");
    }
}

/// The key of a name without a file, which is the same with and without the usual revision. A name with a file leads to its URL by itself.
fn key(named: &Url) -> Option<UrlKey> {
    let name = HubName::from_url(named).ok().filter(|name| name.file().is_none())?;
    Url::parse(&name.with_revision().to_string()).ok().map(|url| UrlKey::from(&url))
}
