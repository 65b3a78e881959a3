//! Finds a carton by its name on the Hugging Face Hub (spec/registries.md, "The Hugging Face Hub").

use super::Opening;
use crate::Error;
use crate::cache::{RemoteCarton, UrlKey};
use crate::config::Config;
use crate::hub;
use crate::network::{Activity, Url};

/// Returns the web URL of the carton with the name `named`. Without the network, it is the one that the name last led to.
pub(super) fn find(named: &Url, config: &Config, opening: &Opening) -> Result<Url, Error> {
    let network = config.network();
    if network.is_offline()
        && let Some(cache) = &opening.cache
        && let Some(known) = cache.remote_by_url(&UrlKey::from(named))
        && let Ok(url) = Url::parse(known.address.as_str())
    {
        return Ok(url);
    }
    let activity = Activity::new(opening.context.cancel_token());
    hub::carton_url(named, &config.hub_endpoint()?, &network, &activity)
}

/// Keeps what the cache knows of the carton at `url` under its name, too. If that fails, only the URL is known without the network.
pub(super) fn remember(named: &Url, url: &Url, opening: &Opening) {
    let Some(cache) = &opening.cache else { return };
    let Some(known) = cache.remote_by_url(&UrlKey::from(url)) else { return };
    let url_key = UrlKey::from(named);
    let is_same = |found: &RemoteCarton| found.address == known.address && found.manifest == known.manifest;
    if cache.remote_by_url(&url_key).as_ref().is_some_and(is_same) {
        return;
    }
    if let Err(error) = cache.remember_remote(&RemoteCarton { url_key, ..known }) {
        tracing::debug!(%error, "cannot remember where a name of the Hub leads");
    }
}
