//! The rules for paths inside a carton (spec/carton-format.md, "Names").
//!
//! A name becomes a file when a carton is unpacked, a key in MANIFEST, and a part of messages. It must mean the same in all three, and
//! must never lead out of the folder into which it is unpacked. The names in MANIFEST obey the same rules.

/// Why a name is not allowed in a carton.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty.
    #[error("it is empty")]
    Empty,
    /// The name is longer than `MAX_LENGTH`.
    #[error("it is longer than {MAX_LENGTH} bytes")]
    TooLong,
    /// The name is not UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// The name begins with a slash.
    #[error("it is absolute")]
    Absolute,
    /// Two slashes follow each other, or one ends the name.
    #[error("a component is empty")]
    EmptyComponent,
    /// A component is `.` or `..`.
    #[error("a component is `.` or `..`")]
    DotComponent,
    /// The name has a back slash, which some systems take for a slash.
    #[error("it has a back slash")]
    BackSlash,
    /// The name has a back slash, and where that is taken for a slash, the name leaves its folder or is not valid.
    #[error("it is another place where a back slash is taken for a slash")]
    BackSlashLeaves,
    /// The name has a NUL or a line break, which end a name in other places.
    #[error("it has a NUL or a line break")]
    ControlCharacter,
    /// The target of a link is outside the carton.
    #[error("it leaves the carton")]
    Leaves,
}

/// The longest name, in bytes: Linux's limit for a path, minus room for the folder into which it is unpacked.
pub const MAX_LENGTH: usize = 3072;

/// Checks that `name` is a relative path of plain components separated by single slashes, and returns it as text.
///
/// # Errors
/// [`NameError`] for the first broken rule.
pub fn check(name: &[u8]) -> Result<&str, NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > MAX_LENGTH {
        return Err(NameError::TooLong);
    }
    if name[0] == b'/' {
        return Err(NameError::Absolute);
    }
    let text = std::str::from_utf8(name).map_err(|_| NameError::NotUtf8)?;
    if is_plain(name) {
        return Ok(text);
    }
    let mut component_start = 0;
    for (position, byte) in name.iter().enumerate() {
        match byte {
            b'\\' => return Err(NameError::BackSlash),
            0 | b'\n' | b'\r' => return Err(NameError::ControlCharacter),
            b'/' => {
                check_component(&name[component_start..position])?;
                component_start = position + 1;
            }
            _ => {}
        }
    }
    check_component(&name[component_start..])?;
    Ok(text)
}

/// As [`check`], but accepts the back slashes that other writers leave in names below a folder.
///
/// Such a name must stay inside its folder even for a reader that takes a back slash for a slash: no part may be empty, `.` or `..`, or
/// contain a colon, which names a drive there.
///
/// # Errors
/// As [`check`], and [`NameError::BackSlashLeaves`].
pub fn check_read(name: &[u8]) -> Result<&str, NameError> {
    let refused = match check(name) {
        Err(NameError::BackSlash) => NameError::BackSlash,
        checked => return checked,
    };
    // `check` has already checked the length, and that the name is UTF-8.
    let text = std::str::from_utf8(name).map_err(|_| NameError::NotUtf8)?;
    check(with_slashes(text).as_bytes()).map_err(|error| match error {
        NameError::EmptyComponent | NameError::DotComponent | NameError::Absolute => NameError::BackSlashLeaves,
        error => error,
    })?;
    match text.split_once('/') {
        Some((folder, _)) if !folder.contains('\\') => match text.contains(':') {
            true => Err(NameError::BackSlashLeaves),
            false => Ok(text),
        },
        _ => Err(refused),
    }
}

/// The name as read by systems that take a back slash for a slash.
fn with_slashes(name: &str) -> String {
    name.replace('\\', "/")
}

/// Finds a name with a back slash that, where back slashes are taken for slashes, names the same file as another name, lies inside a
/// file, or has a name inside it. `files` are the names of files, which must not exclude each other in any other way.
pub(crate) fn back_slash_overlap<'a>(files: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut names: Vec<(String, &str)> = files.map(|name| (with_slashes(name), name)).collect();
    names.sort_unstable();
    let mut tree = Tree::default();
    let (plain, other) = names.iter().find_map(|(plain, _)| match tree.add(plain, false) {
        Ok(()) => None,
        Err(Overlap::Duplicate) => Some((plain.as_str(), plain.as_str())),
        Err(Overlap::InsideFile(file)) => Some((plain.as_str(), file)),
    })?;
    let is_one_of_them = |found: &str| found == plain || found == other;
    names.iter().find(|(plain, name)| is_one_of_them(plain) && name.contains('\\')).map(|(_, name)| *name)
}

/// Whether `name` surely obeys the rules, so that it needs no closer check. The loops compile to vector instructions, because archives
/// have a hundred thousand names.
fn is_plain(name: &[u8]) -> bool {
    let odd_byte = name.iter().fold(false, |odd, byte| odd | (*byte < b' ') | (*byte == b'\\'));
    let odd_start = name
        .iter()
        .zip(&name[1..])
        .fold(false, |odd, (before, byte)| odd | ((*before == b'/') & ((*byte == b'/') | (*byte == b'.'))));
    !odd_byte & !odd_start & (name[0] != b'.') & (name[name.len() - 1] != b'/')
}

fn check_component(component: &[u8]) -> Result<(), NameError> {
    match component {
        b"" => Err(NameError::EmptyComponent),
        b"." | b".." => Err(NameError::DotComponent),
        _ => Ok(()),
    }
}

/// The name to which a symbolic link at `link` with this `target` leads.
///
/// The target is relative to the link's folder and may go up with `..`, but never out of the carton, and never to its top folder. Only
/// the text is checked: the caller checks whether an entry of that name exists, or is another link.
///
/// # Errors
/// [`NameError`] for a target that is invalid or leads out of the carton.
pub fn resolve_link(link: &str, target: &[u8]) -> Result<String, NameError> {
    if target.is_empty() {
        return Err(NameError::Empty);
    }
    if target.len() > MAX_LENGTH {
        return Err(NameError::TooLong);
    }
    if target[0] == b'/' {
        return Err(NameError::Absolute);
    }
    let target = std::str::from_utf8(target).map_err(|_| NameError::NotUtf8)?;
    let mut components: Vec<&str> = link.split('/').collect();
    components.pop();
    for component in target.split('/') {
        match component {
            "" | "." => {}
            ".." => {
                components.pop().ok_or(NameError::Leaves)?;
            }
            component => components.push(component),
        }
    }
    let resolved = components.join("/");
    check(resolved.as_bytes()).map_err(|error| if error == NameError::Empty { NameError::Leaves } else { error })?;
    Ok(resolved)
}

/// Finds names that exclude each other in one folder tree. They must be added in sorted order.
#[derive(Debug, Default)]
pub struct Tree<'a> {
    /// The names added so far that are prefixes of the last one, shortest first, each with whether it is a folder.
    prefixes: Vec<(&'a str, bool)>,
}

/// The reason why two names exclude each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap<'a> {
    /// The names are equal.
    Duplicate,
    /// One lies inside the other, which is not a folder.
    InsideFile(&'a str),
}

impl<'a> Tree<'a> {
    /// Adds a name that does not sort before those added so far.
    ///
    /// # Errors
    /// A name that was added is the same, or is a file where this name has a folder.
    pub fn add(&mut self, name: &'a str, is_folder: bool) -> Result<(), Overlap<'a>> {
        while self.prefixes.pop_if(|(prefix, _)| !name.starts_with(*prefix)).is_some() {}
        for (prefix, prefix_is_folder) in &self.prefixes {
            match name.as_bytes().get(prefix.len()) {
                None => return Err(Overlap::Duplicate),
                Some(b'/') if !prefix_is_folder => return Err(Overlap::InsideFile(prefix)),
                Some(_) => {}
            }
        }
        self.prefixes.push((name, is_folder));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_exclude_each_other() {
        let check = |names: &[&'static str], expected: Result<(), Overlap<'static>>| {
            let mut tree = Tree::default();
            assert_eq!(
                names.iter().try_for_each(|name| tree.add(name.trim_end_matches('/'), name.ends_with('/'))),
                expected
            );
        };
        check(&["a", "b"], Ok(()));
        check(&["a", "a"], Err(Overlap::Duplicate));
        check(&["a/", "a"], Err(Overlap::Duplicate));
        check(&["a", "a-", "a.b", "a/b"], Err(Overlap::InsideFile("a")));
        check(&["a/", "a-", "a.b", "a/b", "a/b/c"], Err(Overlap::InsideFile("a/b")));
        check(&["a/", "a-", "a.b", "a/b/", "a/b/c", "a0"], Ok(()));
        check(&["a", "ab", "abc", "abc/d"], Err(Overlap::InsideFile("abc")));
        check(&["a", "ab", "ac", "ac/d/e"], Err(Overlap::InsideFile("ac")));
    }

    #[test]
    fn names() {
        let check = |name: &[u8], expected: Result<(), NameError>| {
            assert_eq!(super::check(name).map(|text| assert_eq!(text.as_bytes(), name)), expected, "{name:?}");
        };
        check(b"a", Ok(()));
        check(b"model/a=b c.bin", Ok(()));
        check("model/ünï".as_bytes(), Ok(()));
        check(b"...", Ok(()));
        check(b".hidden/..a/a..", Ok(()));
        check(&[b'a'; MAX_LENGTH], Ok(()));
        check(&[b'a'; MAX_LENGTH + 1], Err(NameError::TooLong));
        check(b"", Err(NameError::Empty));
        check(b"/", Err(NameError::Absolute));
        check(b"/a", Err(NameError::Absolute));
        check(b"a/", Err(NameError::EmptyComponent));
        check(b"a//b", Err(NameError::EmptyComponent));
        check(b".", Err(NameError::DotComponent));
        check(b"a/./b", Err(NameError::DotComponent));
        check(b"..", Err(NameError::DotComponent));
        check(b"a/..", Err(NameError::DotComponent));
        check(b"../a", Err(NameError::DotComponent));
        check(b"a\\b", Err(NameError::BackSlash));
        check(b"a\nb", Err(NameError::ControlCharacter));
        check(b"a\rb", Err(NameError::ControlCharacter));
        check(b"a\0", Err(NameError::ControlCharacter));
        check(b"a\xFF", Err(NameError::NotUtf8));
    }

    #[test]
    fn names_with_back_slashes() {
        let check = |name: &[u8], expected: Result<(), NameError>| {
            assert_eq!(check_read(name).map(|text| assert_eq!(text.as_bytes(), name)), expected, "{name:?}");
        };
        check(b"misc/plain.png", Ok(()));
        check(br"misc/a\b.png", Ok(()));
        check(br"misc/a\b\c", Ok(()));
        check(br"misc/x/a\b", Ok(()));
        check(br"model/a\..b", Ok(()));
        for name in [r"misc/..\x", r"misc/a\..\..\x", r"misc/\x", r"misc/x\", r"misc/a\\b", r"misc/.\x", r"misc/a\.."] {
            check(name.as_bytes(), Err(NameError::BackSlashLeaves));
        }
        check(br"misc/C:\x", Err(NameError::BackSlashLeaves));
        check(br"misc/x\a:b", Err(NameError::BackSlashLeaves));
        for name in [r"a\b", r"misc\x", r"misc\a/b", r"C:\x"] {
            check(name.as_bytes(), Err(NameError::BackSlash));
        }
        check(br"..\x", Err(NameError::BackSlashLeaves));
        check(br"\\host\x", Err(NameError::BackSlashLeaves));
        check(br"misc/../a\b", Err(NameError::DotComponent));
        check(b"misc/a\\b\n", Err(NameError::ControlCharacter));
        check(b"misc/a\\b\xFF", Err(NameError::NotUtf8));
        check(&[b"misc/\\".as_slice(), &[b'a'; MAX_LENGTH]].concat(), Err(NameError::TooLong));
    }

    #[test]
    fn names_that_are_one_where_a_back_slash_is_a_slash() {
        let check = |names: &[&'static str], expected: Option<&str>| {
            assert_eq!(back_slash_overlap(names.iter().copied()), expected, "{names:?}");
        };
        check(&["misc/a/b", "misc/a/c"], None);
        check(&["misc/a", r"misc/b\c"], None);
        check(&["misc/a/b", r"misc/a\b"], Some(r"misc/a\b"));
        check(&["misc/a", r"misc/a\b"], Some(r"misc/a\b"));
        check(&["misc/a/b/c", r"misc/a\b"], Some(r"misc/a\b"));
        check(&[r"misc/a\b", r"misc/a/b-\c", "misc/a/b/c"], Some(r"misc/a\b"));
        check(&[r"misc/a/b\c", r"misc/a\b/c"], Some(r"misc/a/b\c"));
    }

    #[test]
    fn link_targets() {
        let check = |link: &str, target: &[u8], expected: Result<&str, NameError>| {
            assert_eq!(resolve_link(link, target).as_deref(), expected.as_ref().copied(), "{link} {target:?}");
        };
        check("model/l", b"a", Ok("model/a"));
        check("model/l", b"./a//b", Ok("model/a/b"));
        check("model/x/l", b"../../misc/a", Ok("misc/a"));
        check("model/l", b"l", Ok("model/l"));
        check("model/l", b".", Ok("model"));
        check("model/l", b"..", Err(NameError::Leaves));
        check("l", b"../a", Err(NameError::Leaves));
        check("model/l", b"../../model/a", Err(NameError::Leaves));
        check("model/l", b"/model/a", Err(NameError::Absolute));
        check("model/l", b"", Err(NameError::Empty));
        check("model/l", b"a\\b", Err(NameError::BackSlash));
        check("model/l", b"a\0", Err(NameError::ControlCharacter));
        check("model/l", b"\xFF", Err(NameError::NotUtf8));
    }
}
