//! Finds the URL of a carton on the Hub.

use std::sync::Arc;

use carton_format::url::Url;

use super::tree::Server;
use super::{HubError, HubName};
use crate::http::{Activity, Network, NetworkError};

/// Returns the URL that the server has for the carton with the name `url`, which has the scheme `hf`. If the
/// repository has exactly one carton, the name may leave out the file.
///
/// # Errors
/// The server cannot be asked, or the repository has no carton, or several.
pub fn carton_url(url: &Url, endpoint: &Url, network: &Network, activity: &Arc<Activity>) -> Result<Url, HubError> {
    let name = HubName::from_url(url)
        .map_err(|error| NetworkError::Url { url: url.shown(), reason: format!("is no name: {error}") })?;
    let server = Server::new(network, endpoint, activity);
    if let Some(file) = name.file() {
        return server.file_url(&name, name.revision(), file);
    }
    let files = server.files(&name, name.revision())?;
    let cartons: Vec<&str> =
        files.iter().map(|file| file.path.as_str()).filter(|path| path.ends_with(".carton")).collect();
    let repository = name.to_string();
    match cartons.as_slice() {
        [file] => server.file_url(&name, name.revision(), file),
        [] => Err(HubError::NoCarton { repository }),
        several => {
            let files = several.iter().take(10).map(|file| (*file).to_owned()).collect();
            Err(HubError::SeveralCartons { repository, files })
        }
    }
}
