//! What a bill of materials lists: what a carton says about itself, with the card of its README, and the Python packages that it locks.

use std::collections::BTreeMap;

use carton_format::causes;
use carton_format::error_kind::ErrorKind;
use carton_format::model_card::{MAX_README_LENGTH, ModelCard, README};
use serde::Serialize;

use super::python_lock::{self, LOCK, Locked, MAX_LOCK_LENGTH};
use super::{Info, Package, wheel_license};
use crate::error::Error;

/// The folder of the wheels that are in a carton.
const WHEELS: &str = "model/.carton/wheels/";

/// What a carton consists of, as far as it is known without running it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Inventory {
    /// What the carton says about itself. Its warnings also name what of the rest could not be read.
    pub info: Info,
    /// The Python packages that the carton locks, in the order of the lock.
    pub python_packages: Vec<PythonPackage>,
}

/// A Python package that a carton locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PythonPackage {
    /// The name as indexes compare it: lower case, with `-` alone between words.
    pub name: String,
    /// The exact version.
    pub version: String,
    /// For which interpreters and platforms it counts, as a marker of PEP 508.
    pub marker: Option<String>,
    /// Algorithms (`sha256`, `sha384`, `sha512`) and digests in hexadecimal digits: that of the wheel in the carton, or those of all files that
    /// the package may be installed from.
    pub hashes: Vec<(String, String)>,
    /// The path of its wheel in the carton.
    pub wheel: Option<String>,
    /// The license that the wheel states. Without a wheel that is on this machine it is unknown.
    pub license: Option<String>,
}

impl Package {
    /// Returns what [`info`](Self::info) does, with the card of `misc/README.md`: what `[card]` of carton.toml does not say is taken from the
    /// front matter of that file, which is read from the carton, wherever that is. Blocks meanwhile.
    ///
    /// A README that is linked, or cannot be read or understood, is one of the warnings.
    ///
    /// # Errors
    /// Only the end of the work by its cancel token.
    pub fn read_info(&self) -> Result<Info, Error> {
        let mut info = self.info();
        let path = format!("misc/{README}");
        let Some(file) = info.files.iter().find(|file| file.path == path) else { return Ok(info) };
        if let Some(size) = file.size.filter(|size| *size > MAX_README_LENGTH) {
            info.warnings.push(format!("{path} has {size} bytes, more than {MAX_README_LENGTH}: its card is not read"));
            return Ok(info);
        }
        // Cartons may link to files anywhere, and a card is no reason to ask another server.
        if file.linked {
            info.warnings.push(format!("{path} is not in the carton itself: its card is not read"));
            return Ok(info);
        }
        let readme = match self.read_file(&path, MAX_README_LENGTH) {
            Ok(readme) => readme,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
            Err(error) => {
                info.warnings.push(format!("the card of {path} cannot be read: {}", causes::in_one_line(&error)));
                return Ok(info);
            }
        };
        match ModelCard::of_readme(&readme) {
            Ok(Some((card, problems))) => {
                info.card = std::mem::take(&mut info.card).or(card);
                info.warnings.extend(problems.iter().map(|problem| format!("{path}: {problem}: it is ignored")));
            }
            Ok(None) => {}
            Err(error) => info.warnings.push(format!("{path}: {error}: its card is ignored")),
        }
        Ok(info)
    }

    /// Returns what the carton consists of: what [`read_info`](Self::read_info) returns, and the Python packages that it locks. Blocks while
    /// it reads the lock, which is fetched if it is elsewhere, and the wheels that are on this machine. No other file of the model is read.
    ///
    /// # Errors
    /// The lock cannot be read.
    pub fn inventory(&self) -> Result<Inventory, Error> {
        let mut info = self.read_info()?;
        if !info.files.iter().any(|file| file.path == LOCK) {
            return Ok(Inventory { info, python_packages: Vec::new() });
        }
        let lock = self.read_file(LOCK, MAX_LOCK_LENGTH)?;
        let (locked, odd) = match str::from_utf8(&lock) {
            Ok(text) => python_lock::parse(text),
            Err(_) => (Vec::new(), Some(1)),
        };
        if let Some(line) = odd {
            info.warnings
                .push(format!("{LOCK}, line {line}: expected an exact version with hashes: packages are missing"));
        }
        let wheels = wheels(&info);
        let packages = locked.into_iter().map(|locked| self.python_package(locked, &wheels, &info));
        Ok(Inventory { python_packages: packages.collect::<Result<_, _>>()?, info })
    }

    fn python_package(
        &self,
        locked: Locked,
        wheels: &BTreeMap<(String, String), usize>,
        info: &Info,
    ) -> Result<PythonPackage, Error> {
        self.context().check()?;
        let Locked { name, version, marker, mut hashes } = locked;
        let wheel = wheels.get(&(name.clone(), version.clone())).and_then(|index| info.files.get(*index));
        let mut license = None;
        if let Some(file) = wheel {
            hashes = file.sha256.iter().map(|digest| ("sha256".to_owned(), digest.to_string())).collect();
            // A license is no reason to fetch a wheel.
            if let (Some(size), true) = (file.size, self.contents().is_here(&file.path)) {
                license = wheel_license::of_wheel(self, &file.path, size);
            }
        }
        Ok(PythonPackage { name, version, marker, hashes, wheel: wheel.map(|file| file.path.clone()), license })
    }
}

/// The wheels among the files of a carton, by the names and versions of their packages.
fn wheels(info: &Info) -> BTreeMap<(String, String), usize> {
    let mut wheels = BTreeMap::new();
    for (index, file) in info.files.iter().enumerate() {
        let Some(name) = file.path.strip_prefix(WHEELS).and_then(|name| name.strip_suffix(".whl")) else { continue };
        let mut parts = name.split('-');
        if let (Some(name), Some(version)) = (parts.next(), parts.next()) {
            wheels.insert((python_lock::normalized(name), version.to_owned()), index);
        }
    }
    wheels
}
