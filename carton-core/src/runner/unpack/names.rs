//! Checks the names in a runner's folder and the targets of its links. Pure.

use std::collections::HashMap;

use carton_format::name;

use super::{UnpackError, UnpackLimits};

/// The largest total size of all names in bytes. They are kept in memory until the folder is complete.
const MAX_NAME_BYTES: u64 = 256 << 20;
/// The largest number of links.
const MAX_LINKS: u64 = 1 << 16;
/// The largest number of links to follow for one path, as in Linux.
const MAX_HOPS: usize = 40;
/// The largest number of steps for following all links; real folders need far fewer.
const MAX_STEPS: u64 = 1 << 22;

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Folder,
    File,
    /// A link, by its index in [`Names::links`].
    Link(usize),
}

/// A symbolic link, and its target as the archive has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Link {
    pub(in super::super) name: String,
    pub(in super::super) target: String,
}

/// All names of a folder, checked against each other.
#[derive(Debug)]
pub(in super::super) struct Names {
    limit: u64,
    n_name_bytes: u64,
    /// The number of entries that have no name.
    n_others: u64,
    kinds: HashMap<String, Kind>,
    links: Vec<Link>,
}

impl Names {
    pub(in super::super) fn new(limits: UnpackLimits) -> Self {
        Self { limit: limits.n_entries, n_name_bytes: 0, n_others: 0, kinds: HashMap::new(), links: Vec::new() }
    }

    /// Counts an entry that has no name, such as a header for all that follow.
    pub(super) fn count(&mut self) -> Result<(), UnpackError> {
        self.n_others += 1;
        self.check_limits()
    }

    /// Adds a folder, which may already exist, and its parents. Calls `create` for each new folder, parents first.
    pub(in super::super) fn folder(
        &mut self,
        name: &str,
        create: &mut dyn FnMut(&str) -> Result<(), UnpackError>,
    ) -> Result<(), UnpackError> {
        check_name(name)?;
        let ends = name.match_indices('/').map(|(end, _)| end).chain([name.len()]);
        for end in ends {
            let prefix = &name[..end];
            match self.kinds.get(prefix) {
                Some(Kind::Folder) => {}
                Some(_) => return Err(UnpackError::Duplicate { name: prefix.to_owned() }),
                None => {
                    self.insert(prefix, Kind::Folder)?;
                    create(prefix)?;
                }
            }
        }
        Ok(())
    }

    /// Adds a file.
    pub(in super::super) fn file(
        &mut self,
        name: &str,
        create: &mut dyn FnMut(&str) -> Result<(), UnpackError>,
    ) -> Result<(), UnpackError> {
        check_name(name)?;
        self.parents(name, create)?;
        self.insert(name, Kind::File)
    }

    /// Adds a symbolic link. [`check_links`](Self::check_links) checks its target when all names are known.
    pub(in super::super) fn link(
        &mut self,
        name: &str,
        target: &[u8],
        create: &mut dyn FnMut(&str) -> Result<(), UnpackError>,
    ) -> Result<(), UnpackError> {
        check_name(name)?;
        let bad =
            |problem| UnpackError::Link { name: name.to_owned(), target: target.escape_ascii().to_string(), problem };
        let text = std::str::from_utf8(target).map_err(|_| bad("is not UTF-8"))?;
        if text.is_empty() || text.len() > name::MAX_LENGTH || text.contains(['\0', '\n', '\r', '\\']) {
            return Err(bad("has no usable target"));
        }
        self.parents(name, create)?;
        if self.links.len() as u64 >= MAX_LINKS {
            return Err(UnpackError::Limit { what: "number of links", limit: MAX_LINKS });
        }
        self.n_name_bytes += text.len() as u64;
        self.insert(name, Kind::Link(self.links.len()))?;
        self.links.push(Link { name: name.to_owned(), target: text.to_owned() });
        Ok(())
    }

    /// Whether `name` is a file. Links are not followed.
    pub(super) fn is_file(&self, name: &str) -> bool {
        self.kinds.get(name) == Some(&Kind::File)
    }

    /// Checks that no link leads out of the folder, also not via other links, and returns all links.
    pub(in super::super) fn check_links(&self) -> Result<&[Link], UnpackError> {
        let mut steps = 0;
        for link in &self.links {
            self.check_link(link, &mut steps)?;
        }
        Ok(&self.links)
    }

    /// Follows a link as the operating system does: `..` after another link goes up from the target of that link, so the text of
    /// the path alone is not enough.
    fn check_link(&self, link: &Link, steps: &mut u64) -> Result<(), UnpackError> {
        let bad = |problem| UnpackError::Link { name: link.name.clone(), target: link.target.clone(), problem };
        let mut here = parent(&link.name).to_owned();
        // The components that remain, in reverse order.
        let mut ahead: Vec<&str> = Vec::new();
        let mut hops = 0;
        let mut target = link.target.as_str();
        loop {
            if target.starts_with('/') {
                return Err(bad("is absolute"));
            }
            ahead.extend(target.rsplit('/'));
            let next = loop {
                let Some(component) = ahead.pop() else { return Ok(()) };
                *steps += 1;
                if *steps > MAX_STEPS {
                    return Err(UnpackError::Limit { what: "steps on the ways of all links", limit: MAX_STEPS });
                }
                match component {
                    "" | "." => {}
                    ".." if here.is_empty() => return Err(bad("leaves the folder")),
                    ".." => here.truncate(parent(&here).len()),
                    component => {
                        let before = here.len();
                        if before > 0 {
                            here.push('/');
                        }
                        here.push_str(component);
                        if here.len() > name::MAX_LENGTH {
                            return Err(bad("leads too deep"));
                        }
                        if let Some(Kind::Link(number)) = self.kinds.get(&here) {
                            here.truncate(before);
                            break &self.links[*number];
                        }
                    }
                }
            };
            hops += 1;
            if hops > MAX_HOPS {
                return Err(bad("leads over too many links, or in a circle"));
            }
            target = &next.target;
        }
    }

    fn parents(
        &mut self,
        name: &str,
        create: &mut dyn FnMut(&str) -> Result<(), UnpackError>,
    ) -> Result<(), UnpackError> {
        match parent(name) {
            "" => Ok(()),
            parent => self.folder(parent, create),
        }
    }

    fn insert(&mut self, name: &str, kind: Kind) -> Result<(), UnpackError> {
        if self.kinds.contains_key(name) {
            return Err(UnpackError::Duplicate { name: name.to_owned() });
        }
        self.n_name_bytes += name.len() as u64;
        self.kinds.insert(name.to_owned(), kind);
        self.check_limits()
    }

    fn check_limits(&self) -> Result<(), UnpackError> {
        if self.kinds.len() as u64 + self.n_others > self.limit {
            return Err(UnpackError::Limit { what: "number of entries", limit: self.limit });
        }
        if self.n_name_bytes > MAX_NAME_BYTES {
            return Err(UnpackError::Limit { what: "bytes of all names", limit: MAX_NAME_BYTES });
        }
        Ok(())
    }
}

/// Returns the folder of a name; empty for the top.
fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn check_name(name: &str) -> Result<(), UnpackError> {
    name::check(name.as_bytes())
        .map_err(|source| UnpackError::Name { name: name.escape_debug().to_string(), source })?;
    Ok(())
}

/// Returns the path of `name` in `folder`; an empty `folder` means the top.
pub(super) fn inside(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::unreachable)]

    use super::*;

    /// Adds `NAME/` as a folder, `NAME>TARGET` as a link and `NAME` as a file.
    fn names(entries: &[&str]) -> Result<Names, UnpackError> {
        let mut names = Names::new(UnpackLimits { n_entries: 20, ..UnpackLimits::default() });
        for entry in entries {
            match (entry.split_once('>'), entry.strip_suffix('/')) {
                (Some((name, target)), _) => names.link(name, target.as_bytes(), &mut |_| Ok(()))?,
                (None, Some(name)) => names.folder(name, &mut |_| Ok(()))?,
                (None, None) => names.file(entry, &mut |_| Ok(()))?,
            }
        }
        names.check_links()?;
        Ok(names)
    }

    #[test]
    fn names_and_links() {
        let check = |entries: &[&str], expected: Option<&str>| {
            let error =
                names(entries).err().map(|error| format!("{error}: {}", carton_format::causes::in_one_line(&error)));
            match (&error, expected) {
                (None, None) => {}
                (Some(error), Some(expected)) => assert!(error.contains(expected), "{entries:?}: {error}"),
                _ => panic!("{entries:?}: {error:?}"),
            }
        };
        check(&["a", "b/", "b/c", "b/", "d/e/f"], None);
        check(&["../a"], Some("`..`"));
        check(&["a/../../b"], Some("`..`"));
        check(&["/a"], Some("absolute"));
        check(&["a\\b"], Some("back slash"));
        check(&["a", "a"], Some("`a` is there twice"));
        check(&["a", "a/"], Some("there twice"));
        check(&["a", "a/b"], Some("`a` is there twice"));
        check(&["a/b", "a"], Some("there twice"));
        check(&["a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u"], Some("at most 20"));

        check(&["lib/x", "lib64>lib", "y>lib/x", "bin/x>../lib/x"], None);
        check(&["a>.", "b/c>../b", "d>nowhere/at/all"], None);
        check(&["a>.."], Some("leaves the folder"));
        check(&["a/b>../../x"], Some("leaves the folder"));
        check(&["a>/usr/bin/python3"], Some("is absolute"));
        check(&["a>b", "b>/etc"], Some("is absolute"));
        check(&["a>b", "b>a"], Some("in a circle"));
        check(&["a>a"], Some("in a circle"));
        check(&["a>"], Some("no usable target"));
        check(&["a>b\\c"], Some("no usable target"));
        // No entry may be behind a link, because it would be written to the target of the link.
        check(&["a>b", "a/c"], Some("`a` is there twice"));
        check(&["a/c", "a>b"], Some("`a` is there twice"));
        // By its text, `d/e/up/../../etc` is `d/etc`. The operating system goes up from the target of `up`, and leaves the
        // folder.
        check(&["d/e/up>../../d", "d/e/out>up/../../etc"], Some("leaves the folder"));
        check(&["d/e/up>../../d", "d/e/out>up/e"], None);
    }

    #[test]
    fn following_links_ends() {
        let mut names = Names::new(UnpackLimits::default());
        // Each link uses the previous one twice, which makes 2^40 steps if all are followed.
        names.file("l0", &mut |_| Ok(())).unwrap();
        for number in 1..40 {
            let target = format!("l{0}/../l{0}", number - 1);
            names.link(&format!("l{number}"), target.as_bytes(), &mut |_| Ok(())).unwrap();
        }
        assert!(names.check_links().is_err());
        let mut names = Names::new(UnpackLimits::default());
        let long = "./".repeat(1000) + "x";
        for number in 0..5000 {
            names.link(&format!("l{number}"), long.as_bytes(), &mut |_| Ok(())).unwrap();
        }
        assert!(matches!(names.check_links(), Err(UnpackError::Limit { .. })));
    }
}
