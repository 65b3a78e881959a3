//! Chooses the file of a checkpoint in a folder by the names there (spec/safetensors.md §7.8). Pure.

/// How the indexes of checkpoints of several files are named.
const INDEX: &str = ".safetensors.index.json";
const TORCH_INDEX: &str = ".bin.index.json";
/// How tensor files are named.
const FILES: [&str; 5] = [".safetensors", ".zt", ".npz", ".npy", ".gguf"];
/// How PyTorch checkpoints are named. They count only where there is no other tensor file: folders of models often have their weights in both
/// formats.
const TORCH_FILES: [&str; 3] = [".bin", ".pt", ".pth"];
/// How the names begin of what programs that train save beside the weights. `rng_state` may be followed by the number of a process.
const OF_TRAINING: [&str; 5] = ["training_args.", "optimizer.", "scheduler.", "scaler.", "rng_state"];

/// Why there is no file to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoChoice {
    /// The folder has none, or several; in words.
    NotOne(String),
    /// The only file is one of several of a checkpoint, whose index is not there.
    Part(String),
}

/// Chooses among the names of the files in a folder: the index, or else the only tensor file; those of PyTorch if there are no others.
pub(crate) fn choose<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<&'n str, NoChoice> {
    let (mut indexes, mut files, mut torch_indexes, mut torch_files) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let ends = |name: &str, endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    // Names that begin with a dot are those of the system.
    for name in names.into_iter().filter(|name| !name.starts_with('.')) {
        if name.ends_with(INDEX) {
            indexes.push(name);
        } else if name.ends_with(TORCH_INDEX) {
            torch_indexes.push(name);
        } else if is_further_gguf(name) {
            // The first file opens it.
        } else if ends(name, &FILES) {
            files.push(name);
        } else if ends(name, &TORCH_FILES) && !OF_TRAINING.iter().any(|start| name.starts_with(start)) {
            torch_files.push(name);
        }
    }
    match (indexes.as_slice(), files.as_slice()) {
        ([], []) => one_of(&torch_indexes, &torch_files),
        (indexes, files) => one_of(indexes, files),
    }
}

/// The index, or else the only file. A file that has the name of the index without its end comes before it: `model.safetensors` before
/// `model.safetensors.index.json`.
fn one_of<'n>(indexes: &[&'n str], files: &[&'n str]) -> Result<&'n str, NoChoice> {
    match (indexes, files) {
        // The libraries of Hugging Face look for the one file first.
        ([index], files) => {
            Ok(files.iter().find(|file| Some(**file) == index.strip_suffix(".index.json")).unwrap_or(index))
        }
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
    let endings = [".safetensors", ".bin", ".pt", ".pth"];
    let stem = endings.iter().find_map(|ending| name.strip_suffix(ending));
    stem.and_then(|stem| stem.rsplit_once("-of-")).is_some_and(|(start, total)| {
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
        check(&["model.safetensors.index.json", first, second, "model.safetensors"], Ok("model.safetensors"));
        check(&["model.safetensors.index.json", "other.safetensors"], Ok("model.safetensors.index.json"));
        check(&["._model.safetensors", "model.zt"], Ok("model.zt"));
        check(&["model-00001-of-00001.safetensors"], Ok("model-00001-of-00001.safetensors"));
        check(&[first], Err("part model-00001-of-00002.safetensors"));
        check(&[first, second], Err("2 tensor files and no index of them"));
        check(&["m-00002-of-00002.gguf", "m-00001-of-00002.gguf"], Ok("m-00001-of-00002.gguf"));
        check(&["m-00002-of-00002.gguf"], Err("no tensor file"));
        check(&["a.gguf", "b.gguf"], Err("2 tensor files and no index of them"));
        check(&["config.json"], Err("no tensor file"));
        // PyTorch counts only where there is nothing else.
        let (first, second) = ("pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin");
        check(&["model.safetensors", "pytorch_model.bin"], Ok("model.safetensors"));
        check(&["model.safetensors", "pytorch_model.bin.index.json", first], Ok("model.safetensors"));
        check(
            &["pytorch_model.bin.index.json", "model.safetensors.index.json", first],
            Ok("model.safetensors.index.json"),
        );
        check(&["model-00001-of-00002.safetensors", "pytorch_model.bin"], Err("part model-00001-of-00002.safetensors"));
        check(&["model.gguf", "pytorch_model.bin"], Ok("model.gguf"));
        check(&[first, second, "pytorch_model.bin.index.json"], Ok("pytorch_model.bin.index.json"));
        check(&[first], Err("part pytorch_model-00001-of-00002.bin"));
        check(&["model.pt"], Ok("model.pt"));
        check(&["a.pt", "b.pth"], Err("2 tensor files and no index of them"));
        let of_training = [
            "training_args.bin",
            "optimizer.pt",
            "optimizer.bin",
            "scheduler.pt",
            "scaler.pt",
            "rng_state.pth",
            "rng_state_1.pth",
        ];
        check(&of_training, Err("no tensor file"));
        check(&[&["pytorch_model.bin"], of_training.as_slice()].concat(), Ok("pytorch_model.bin"));
        check(&["a.safetensors.index.json", "b.safetensors.index.json"], Err("2 indexes of checkpoints"));
    }
}
