//! Fetches one wheel from a package index for Python (PEP 503), verifies it and unpacks it. For the programs that runners need; the
//! packages of models are made into environments by the python runner.

use std::path::Path;

use carton_format::digest::Sha256Digest;
use carton_format::progress::Stage;

use super::install::{InstallError, Installer, unpack_error};
use super::unpack::{self, Tree, UnpackLimits};
use super::{Part, Place};
use crate::error::Error;

/// A file of a package index.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WheelFile<'a> {
    /// The project, in the normalized form of its name.
    pub project: &'a str,
    /// The name of the file.
    pub file_name: &'a str,
    /// The hash that the file must have.
    pub sha256: Sha256Digest,
}

impl<'a> WheelFile<'a> {
    /// Describes a wheel.
    #[must_use]
    pub fn new(project: &'a str, file_name: &'a str, sha256: Sha256Digest) -> Self {
        Self { project, file_name, sha256 }
    }
}

impl Installer<'_> {
    /// Fetches a wheel from the package index at `index`, such as `https://pypi.org/simple`, compares it with its hash, and unpacks it into
    /// `folder`, which exists and is empty.
    ///
    /// # Errors
    /// The index does not list it, or it cannot be fetched, verified or unpacked.
    pub fn unpack_wheel(&self, index: &Place, wheel: &WheelFile<'_>, folder: &Path) -> Result<(), Error> {
        let no_wheel = || InstallError::NoWheel { file: wheel.file_name.to_owned(), index: index.to_string() };
        let text = index.url().ok_or_else(no_wheel)?.expose_str();
        let page = format!("{}/{}/", text.trim_end_matches('/'), wheel.project);
        let page = Place::parse(&page).map_err(InstallError::place(&page))?;
        let bytes = self.fetcher().index(&page)?;
        let link = link_to(&String::from_utf8_lossy(&bytes), wheel.file_name).ok_or_else(no_wheel)?;
        let place = page.resolve(&link).map_err(|_| no_wheel())?;
        let part = Part { place, sha256: wheel.sha256, folder: String::new() };
        let mut tree = Tree::new(folder.to_path_buf(), UnpackLimits::default(), self.context.cancel_token());
        let name = wheel.file_name.to_owned();
        self.fetcher().archive(&part, &Stage::Install(name.clone()), |path| {
            unpack::unpack(path, "", &mut tree).map_err(|source| unpack_error(source, name.clone()))
        })?;
        Ok(tree.finish().map_err(|source| unpack_error(source, name))?)
    }
}

/// Returns the link on a page of a package index that leads to the file `name`, without its fragment. The page may hold anything: its bytes
/// only choose where a file is fetched from whose hash is known.
fn link_to(page: &str, name: &str) -> Option<String> {
    let links = page.split("href=").skip(1).filter_map(|rest| {
        let quote = rest.chars().next().filter(|c| ['"', '\''].contains(c))?;
        let link = rest[1..].split(quote).next()?;
        Some(link.split('#').next().unwrap_or_default())
    });
    let file_of = |link: &str| link.split('?').next().unwrap_or_default().rsplit('/').next().map(str::to_owned);
    // `+` of local versions is the only character of wheels' names that may be escaped.
    let escaped = name.replace('+', "%2B");
    let mut found = links.filter(|link| file_of(link).is_some_and(|file| file == name || file == escaped));
    found.next().map(|link| link.replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_by_the_name_of_the_file() {
        let check = |page: &str, expected: Option<&str>| {
            assert_eq!(link_to(page, "uv-1.0-py3-none-x.whl").as_deref(), expected, "{page}");
        };
        check(
            r#"<a href="../../packages/ab/uv-1.0-py3-none-x.whl#sha256=00" data-requires-python="&gt;=3.8">uv</a>"#,
            Some("../../packages/ab/uv-1.0-py3-none-x.whl"),
        );
        check(
            "<a href='https://host/uv-1.0-py3-none-x.whl?a=1&amp;b=2'>",
            Some("https://host/uv-1.0-py3-none-x.whl?a=1&b=2"),
        );
        check(r#"<a href="uv-1.0-py3-none-y.whl"><a href="uv-1.0-py3-none-x.whl">"#, Some("uv-1.0-py3-none-x.whl"));
        for page in [
            "",
            "href=",
            "href=\"",
            "<a href=uv-1.0-py3-none-x.whl>",
            "href=\u{e9}",
            "<a href=\"x-uv-1.0-py3-none-x.whl\">",
        ] {
            check(page, None);
        }
    }
}
