//! Chooses the file of a checkpoint in a folder by the names there. Pure.

/// How the index of a checkpoint of several files is named.
const INDEX: &str = ".safetensors.index.json";
/// How tensor files are named.
const FILES: [&str; 5] = [".safetensors", ".zt", ".npz", ".npy", ".gguf"];

/// Why there is no file to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoChoice {
    /// The folder has none, or several; in words.
    NotOne(String),
    /// The only file is one of several of a checkpoint, whose index is not there.
    Part(String),
}

/// Chooses among the names of the files in a folder: the index, or else the only tensor file.
pub(crate) fn choose<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<&'n str, NoChoice> {
    let (mut indexes, mut files) = (Vec::new(), Vec::new());
    // Names that begin with a dot are those of the system.
    for name in names.into_iter().filter(|name| !name.starts_with('.')) {
        if name.ends_with(INDEX) {
            indexes.push(name);
        } else if is_further_gguf(name) {
            // The first file opens it.
        } else if FILES.iter().any(|ending| name.ends_with(ending)) {
            files.push(name);
        }
    }
    match (indexes.as_slice(), files.as_slice()) {
        ([index], _) => Ok(index),
        ([], [file]) if is_part(file) => Err(NoChoice::Part((*file).to_owned())),
        ([], [file]) => Ok(file),
        ([], []) => Err(NoChoice::NotOne("no tensor file".to_owned())),
        ([], files) => Err(NoChoice::NotOne(format!("{} tensor files and no index of them", files.len()))),
        (indexes, _) => Err(NoChoice::NotOne(format!("{} indexes of checkpoints", indexes.len()))),
    }
}

/// Whether a name says that the file is one of several: `model-00001-of-00002.safetensors` (spec/safetensors.md §7.4).
fn is_part(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = name.strip_suffix(".safetensors").and_then(|stem| stem.rsplit_once("-of-"));
    numbers.is_some_and(|(start, total)| {
        is_number(total)
            && total.trim_start_matches('0') != "1"
            && start.rsplit_once('-').is_some_and(|(_, number)| is_number(number))
    })
}

/// Whether a name says that the file is one of several of GGUF, and not the first (spec/gguf.md §5).
fn is_further_gguf(name: &str) -> bool {
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = name.strip_suffix(".gguf").and_then(|stem| stem.rsplit_once("-of-"));
    numbers.is_some_and(|(start, total)| {
        let number = start.rsplit_once('-').map(|(_, number)| number);
        is_number(total) && number.is_some_and(|number| is_number(number) && number != "00001")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choosing() {
        let check = |names: &[&'static str], expected: Result<&'static str, &str>| {
            let found = choose(names.iter().copied()).map_err(|error| match error {
                NoChoice::NotOne(found) => found,
                NoChoice::Part(file) => format!("part {file}"),
            });
            assert_eq!(found, expected.map_err(str::to_owned), "{names:?}");
        };
        let (first, second) = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors");
        check(&["config.json", "model.safetensors"], Ok("model.safetensors"));
        check(&[first, second, "model.safetensors.index.json"], Ok("model.safetensors.index.json"));
        check(&["._model.safetensors", "model.zt"], Ok("model.zt"));
        check(&["model-00001-of-00001.safetensors"], Ok("model-00001-of-00001.safetensors"));
        check(&[first], Err("part model-00001-of-00002.safetensors"));
        check(&[first, second], Err("2 tensor files and no index of them"));
        check(&["m-00002-of-00002.gguf", "m-00001-of-00002.gguf"], Ok("m-00001-of-00002.gguf"));
        check(&["m-00002-of-00002.gguf"], Err("no tensor file"));
        check(&["a.gguf", "b.gguf"], Err("2 tensor files and no index of them"));
        check(&["config.json"], Err("no tensor file"));
        check(&["a.safetensors.index.json", "b.safetensors.index.json"], Err("2 indexes of checkpoints"));
    }
}
