//! Cartons in object stores: `s3://BUCKET/KEY`, `gs://BUCKET/KEY` and `az://CONTAINER/KEY` (spec/registries.md, "Object stores").
//!
//! A name is turned into a web URL that the user's credentials sign for some hours. Everything else is done as with any other URL. The
//! credentials never leave this module but in that signature.

use carton_format::url::Url;

#[cfg(not(feature = "object-store"))]
use crate::http::{Activity, Network, NetworkError};

/// The schemes of the names.
pub fn is_scheme(scheme: &str) -> bool {
    matches!(scheme, "s3" | "gs" | "az")
}

/// Whether a URL of such a scheme names an object; the reason if not.
///
/// # Errors
/// The URL has no bucket or no key, or has a user, a port or a query.
pub fn check(url: &Url) -> Result<(), &'static str> {
    let whole = url.expose();
    match whole.path().trim_start_matches('/') {
        _ if url.has_user() || whole.query().is_some() || whole.port().is_some() => {
            Err("it has a user, a password, a port or a query; credentials are those of the environment")
        }
        "" => Err("expected a bucket and the key of an object, such as s3://models/digits.carton"),
        _ if url.host_str().is_none_or(str::is_empty) => Err("it has no bucket"),
        _ => Ok(()),
    }
}

#[cfg(feature = "object-store")]
pub use signed::signed_url;

/// Refuses the object, because this was built without the feature `object-store`.
///
/// # Errors
/// Always [`NetworkError::NotBuilt`].
#[cfg(not(feature = "object-store"))]
pub fn signed_url(_network: &Network, url: &Url, _activity: &Activity) -> Result<Url, NetworkError> {
    Err(NetworkError::NotBuilt { url: url.shown() })
}

#[cfg(feature = "object-store")]
mod signed {
    use std::time::Duration;

    use carton_format::url::Url;
    use object_store::ClientConfigKey;
    use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
    use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
    use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
    use object_store::path::Path;
    use object_store::signer::{Method, Signer};

    use crate::http::{Activity, Network, NetworkError};

    /// How long a signed URL is valid, unless the credentials end sooner. A carton that stays open for longer can fetch no more files; opening it
    /// again signs another URL, and resumes what was interrupted.
    const VALID_FOR: Duration = Duration::from_secs(6 * 60 * 60);

    /// The variables that allow a server without encryption.
    const ALLOW_HTTP: [&str; 2] = ["AWS_ALLOW_HTTP", "AZURE_ALLOW_HTTP"];

    /// Returns a web URL that the credentials of the environment sign for reading the object that `url` names.
    ///
    /// # Errors
    /// There are no usable credentials; the network must not be used.
    pub fn signed_url(network: &Network, url: &Url, activity: &Activity) -> Result<Url, NetworkError> {
        if network.is_offline() {
            return Err(NetworkError::Offline { url: url.shown() });
        }
        let (name, proxy) = (url.clone(), network.options().proxy_for_credentials());
        let proxy = proxy.map(|(proxy, exceptions)| (proxy.to_owned(), exceptions));
        let found = network.wait(activity, async move {
            sign(&name, proxy).await.map_err(|error| NetworkError::Url {
                url: name.shown(),
                reason: format!("cannot be signed: {}", carton_format::causes::in_one_line(&error)),
            })
        });
        let signed = Url::parse(found?.as_str()).map_err(|error| NetworkError::internal(error.to_string()))?;
        // A signed URL lets everybody who sees it read the object.
        let is_allowed = || ALLOW_HTTP.iter().any(|name| std::env::var(name).is_ok_and(|value| value == "true"));
        match signed.scheme() == "http" && !signed.is_this_machine() && !is_allowed() {
            true => Err(NetworkError::Url {
                url: url.shown(),
                reason: "is at a server without encryption, and neither AWS_ALLOW_HTTP nor AZURE_ALLOW_HTTP is `true`"
                    .to_owned(),
            }),
            false => Ok(signed),
        }
    }

    async fn sign(url: &Url, proxy: Option<(String, String)>) -> object_store::Result<url::Url> {
        let (text, whole) = (url.expose_str(), url.expose());
        let key = Path::from_url_path(whole.path())?;
        // The library that reads credentials from servers uses the same one for TLS as all other requests.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = proxy.into_iter().flat_map(|(proxy, exceptions)| {
            [(ClientConfigKey::ProxyUrl, proxy), (ClientConfigKey::ProxyExcludes, exceptions)]
        });
        // The three builders have the same methods, and no trait in common.
        macro_rules! signer {
            ($builder:ty, $key:path) => {{
                let builder = <$builder>::from_env().with_url(text);
                Box::new(options.fold(builder, |builder, (key, value)| builder.with_config($key(key), value)).build()?)
            }};
        }
        let store: Box<dyn Signer> = match url.scheme() {
            "gs" => signer!(GoogleCloudStorageBuilder, GoogleConfigKey::Client),
            "az" => signer!(MicrosoftAzureBuilder, AzureConfigKey::Client),
            _ => signer!(AmazonS3Builder, AmazonS3ConfigKey::Client),
        };
        store.signed_url(Method::GET, &key, VALID_FOR).await
    }
}
