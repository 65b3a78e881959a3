//! `carton shrink`.

use std::path::PathBuf;

use clap::Args;

use super::ModelArgs;
use super::values::size;

/// Which files to leave out of which carton.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
#[group(id = "which", required = true, multiple = false, args = ["links", "url_prefix"])]
pub(crate) struct ShrinkArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// Leave out every file that this LINKS file has URLs for
    #[arg(long, value_name = "LINKS.toml", value_hint = clap::ValueHint::FilePath)]
    pub(crate) links: Option<PathBuf>,

    /// Leave out large files of the model, each to be fetched from URL/SHA256
    #[arg(long, value_name = "URL", value_hint = clap::ValueHint::Url)]
    pub(crate) url_prefix: Option<String>,

    /// With --url-prefix: the size from which a file is left out, such as 100000 or 64KiB [default: 64KiB]
    #[arg(long, value_name = "SIZE", conflicts_with = "links", value_parser = size)]
    pub(crate) min_size: Option<u64>,

    /// Put the files that are left out into this folder, named as their URLs end, ready to be uploaded
    #[arg(long, value_name = "FOLDER", value_hint = clap::ValueHint::DirPath)]
    pub(crate) save_files: Option<PathBuf>,

    /// The file to write, replaced if it is there [default: MODEL with .shrunk.carton, here]
    #[arg(short, long, value_name = "OUT.carton", value_hint = clap::ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

const EXAMPLES: &str = r#"The hash of the model stays the same, and loading the shrunk carton gives the same, verified files.

Examples:
  Leave out what is large, and upload it where the carton will look for it. Models that share files share uploads:
    carton shrink llama.carton --url-prefix https://example.com/files --save-files upload
    rsync upload/ example.com:/srv/www/files/

  Leave out files that can be fetched from elsewhere already:
    carton shrink llama.carton --links LINKS.toml -o small.carton

  LINKS.toml, in short:
    version = 1
    [urls]
    e550f6224a5133f597d823ab4590f369e0b20e3c6446488225fc6f7a372b9fe2 = ["https://example.com/llama.gguf"]

  Make it whole again:
    carton pack --resolve small.carton -o llama.carton"#;
