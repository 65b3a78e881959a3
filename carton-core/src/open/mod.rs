//! Opens a carton without starting a runner: for `info`, `verify` and `unpack`, and as the first step of `load`.

mod bytes;
mod hub;
mod opening;
pub(crate) mod registry;
mod remote;
mod signing;

use std::borrow::Cow;
use std::future::IntoFuture;
use std::sync::Arc;

use carton_format::manifest::ManifestHash;
use carton_format::url::Url;
use carton_network::http::{Activity, Network};
use carton_network::object_stores;
use carton_network::place::Place;

pub use bytes::{FilesBeside, OpenBytes, file_bytes};
pub(crate) use opening::Opening;
pub(crate) use signing::refuse_bare;
pub(crate) use signing::{bundle_in_registry, bundles_to_push};

use crate::blocking::{Awaited, run_blocking};
use crate::cache::Cache;
use crate::config::Config;
use crate::contents::Access;
use crate::error::Error;
use crate::location::Location;
use crate::package::{self, Package};
use crate::settings::{OpenSettings, open_setters};

/// A carton to be opened. Made by [`Carton::open`](crate::Carton::open); setters configure it, and `.await` opens it.
#[derive(Clone, Debug)]
#[must_use = "nothing is opened until this is awaited"]
pub struct Open {
    location: Location,
    settings: OpenSettings,
}

impl Open {
    pub(crate) fn new(location: Location, settings: OpenSettings) -> Self {
        Self { location, settings }
    }

    open_setters!(settings);

    /// Looks for the bundle that signs the carton even where none is required, so that [`Package::signing_status`] can tell what was found.
    pub fn look_for_bundle(mut self) -> Self {
        self.settings.trust.reported = true;
        self
    }

    async fn open(self) -> Result<Package, Error> {
        let Self { location, settings } = self;
        let progress = settings.operation.progress().cloned();
        run_blocking(progress.as_ref(), move |context| {
            let config = settings.operation.config()?;
            // Without a cache a carton can still be read; only nothing is remembered. So a cache folder that cannot be created,
            // as in a read-only home, is not an error here.
            let cache = cache(&config).inspect_err(|error| tracing::debug!(%error, "there is no cache")).ok();
            open(&location, &settings, &config, &Opening { cache, context })
        })
        .await
    }
}

impl IntoFuture for Open {
    type Output = Result<Package, Error>;
    type IntoFuture = Awaited<'static, Package>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

/// Opens the carton at `location`, if it is signed as rules and caller require.
pub(crate) fn open(
    location: &Location,
    settings: &OpenSettings,
    config: &Config,
    opening: &Opening,
) -> Result<Package, Error> {
    let named = location.place()?;
    let expect = location.expected(settings.expect)?;
    let found = find(named, expect, config, opening)?;
    let package = open_unsigned(&found, expect, settings, config, opening)?;
    if let (Place::Hub(name), Place::Web(url)) = (named, &*found) {
        hub::remember(name, url, opening);
    }
    let place = signing::CartonPlace { named, found: &found };
    let status = signing::check(&package, place, &settings.trust, config, opening)?;
    Ok(package.with_signing_status(status))
}

/// The web URL that a name of the Hub or of an object stands for; any other place itself.
fn find<'a>(
    place: &'a Place,
    expect: Option<ManifestHash>,
    config: &Config,
    opening: &Opening,
) -> Result<Cow<'a, Place>, Error> {
    Ok(match place {
        Place::Hub(url) => Cow::Owned(Place::Web(hub::find(url, expect, config, opening)?)),
        Place::ObjectStore(url) => {
            let activity = Activity::new(opening.context.cancel_token());
            Cow::Owned(Place::Web(object_stores::signed_url(&config.network(), url, &activity)?))
        }
        Place::Path(_) | Place::Web(_) | Place::Oci(_) => Cow::Borrowed(place),
    })
}

/// Opens the carton at `place`, without a look at its signature.
fn open_unsigned(
    place: &Place,
    expect: Option<ManifestHash>,
    settings: &OpenSettings,
    config: &Config,
    opening: &Opening,
) -> Result<Package, Error> {
    let network = config.network();
    let elsewhere = |network: Network, url: &Url| {
        let link_network = if config.allow_private_links { network.clone() } else { network.public_only(url) };
        // The author of a carton on a server must not learn of local files.
        Access { network, link_network, file_links: false }
    };
    let path = match place {
        Place::Path(path) => path,
        Place::Oci(url) => {
            return registry::open(url, expect, elsewhere(network, url), &config.registries, opening);
        }
        // `find` has made web URLs of the others.
        Place::Web(url) | Place::Hub(url) | Place::ObjectStore(url) => {
            return remote::open(url, expect, elsewhere(network, url), opening);
        }
    };
    let access = Access {
        link_network: network.clone(),
        network,
        file_links: settings.allow_file_links || config.allow_file_links,
    };
    let cache = opening.cache.clone();
    let options = package::OpenOptions { cache, expect, access: Some(access), ..package::OpenOptions::default() };
    Ok(Package::open(path, options)?)
}

pub(crate) fn cache(config: &Config) -> Result<Arc<Cache>, Error> {
    Ok(Arc::new(Cache::open(&config.cache_dir)?))
}
