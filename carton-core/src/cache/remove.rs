//! Deletes single cartons, by the names that people give them.

use std::path::PathBuf;

use carton_format::url::{ShownUrl, Url};

use super::lock::Mode;
use super::remote::UrlKey;
use super::survey::{HolderKind, Survey};
use super::{Cache, CacheError, CachedCarton, Pruned};
use crate::error::Error;

/// A text of at least this many hexadecimal digits can mean a manifest hash that begins with it. A shorter prefix fits several cartons
/// too easily.
const FEWEST_DIGITS: usize = 8;

impl Cache {
    /// Deletes these cartons and the files that no other carton uses. Each is named by its model's name, by its manifest hash or the
    /// first eight or more digits of it, or by the URL or the file from which it was loaded.
    ///
    /// # Errors
    /// There is no such carton, there are several, or a process has it loaded: nothing is deleted then. Something cannot be read or
    /// deleted, or the work was cancelled; the cache remains consistent.
    pub fn remove(&self, wanted: &[String]) -> Result<Pruned, Error> {
        // Dropped last, so that the trash is deleted after the lock is released.
        let trash = self.partial().ok();
        let lock = self.prune_lock(Mode::Exclusive)?;
        let survey = self.survey(&lock)?;
        let mut goes = vec![false; survey.holders.len()];
        for text in wanted {
            goes[chosen(&survey, text)?] = true;
        }
        let removed = survey.report(&goes);
        self.carry_out(&survey, &goes, lock, trash, &|_| false)?;
        Ok(removed)
    }
}

/// The index of the holder that a text names.
fn chosen(survey: &Survey, text: &str) -> Result<usize, CacheError> {
    let wanted = Wanted::new(text);
    let held = survey.held();
    let cartons = survey.holders.iter().enumerate().filter_map(|(index, holder)| match &holder.kind {
        HolderKind::Carton(carton) => Some((index, carton, survey.carton(index, &held)?)),
        _ => None,
    });
    let mut matches: Vec<(usize, CachedCarton)> = Vec::new();
    let mut exact: Vec<(usize, CachedCarton)> = Vec::new();
    for (index, known, carton) in cartons {
        if wanted.url_key.is_some_and(|key| known.addresses.iter().any(|(found, _)| *found == key)) {
            exact.push((index, carton));
        } else if wanted.fits(&carton) {
            matches.push((index, carton));
        }
    }
    // URLs that differ only in their query are shown alike, so an exact match of the URL takes precedence.
    let mut found = if exact.is_empty() { matches } else { exact };
    let text = ShownUrl::of_text(text);
    match (found.pop(), found.is_empty()) {
        (None, _) => Err(CacheError::NoCarton { wanted: text }),
        (Some((_, carton)), true) if carton.in_use => {
            Err(CacheError::InUse { wanted: text, manifest: carton.manifest })
        }
        (Some((index, _)), true) => Ok(index),
        (Some(last), false) => {
            let matches = found.into_iter().chain([last]).map(|(_, carton)| carton).collect();
            Err(CacheError::Ambiguous { wanted: text, matches })
        }
    }
}

/// The things that a text can name.
struct Wanted<'a> {
    text: &'a str,
    /// The first digits of a manifest hash.
    digits: Option<String>,
    url_key: Option<UrlKey>,
    address: Option<ShownUrl>,
    /// The file that was loaded, as the listing shows it.
    path: Option<PathBuf>,
}

impl<'a> Wanted<'a> {
    fn new(text: &'a str) -> Self {
        let digits = text.strip_prefix("sha256:").unwrap_or(text).to_ascii_lowercase();
        let is_hash = digits.len() >= FEWEST_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let url = Url::parse(text).ok().filter(|url| url.expose().has_host()).map(Url::without_fragment);
        Self {
            text,
            digits: is_hash.then_some(digits),
            url_key: url.as_ref().map(UrlKey::from),
            address: url.as_ref().map(Url::shown),
            path: std::path::absolute(text).ok(),
        }
    }

    fn fits(&self, carton: &CachedCarton) -> bool {
        carton.model_name.as_deref() == Some(self.text)
            || self.digits.as_ref().is_some_and(|digits| carton.manifest.to_string().starts_with(digits.as_str()))
            || (self.address.is_some() && carton.address == self.address)
            || (self.path.is_some() && carton.path == self.path)
    }
}
