//! Writes the seeds of all targets: `seeds FOLDER` makes `FOLDER/<target>/<seed>`. `cargo fuzz build` builds it with the targets.
//!
//! A seed that its target does not accept is an error, because fuzzing would then start outside the code that it should test.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

use carton_fuzz::oracle;
use carton_fuzz::seeds::{FOLDERS, all};

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1) else {
        eprintln!("usage: seeds FOLDER");
        return ExitCode::FAILURE;
    };
    match write(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("writing seeds to {}: {error}", Path::new(&folder).display());
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &Path) -> io::Result<()> {
    let mut refused = Vec::new();
    for seed in all() {
        if !oracle::of(seed.target).is_some_and(|check| check(&seed.bytes)) {
            refused.push(format!("`{}` does not accept its seed `{}`", seed.target, seed.name));
        }
        let folder = folder.join(seed.target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(seed.name), seed.bytes)?;
    }
    if !refused.is_empty() {
        return Err(io::Error::other(refused.join(", ")));
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (target, from, ending) in FOLDERS {
        fs::create_dir_all(folder.join(target))?;
        for file in fs::read_dir(repository.join(from))? {
            let file = file?;
            let name = file.file_name().to_string_lossy().into_owned();
            if name.ends_with(ending) {
                // Files in two folders may have the same name.
                let name = format!("{}-{name}", from.replace('/', "-"));
                fs::copy(file.path(), folder.join(target).join(name))?;
            }
        }
    }
    Ok(())
}
