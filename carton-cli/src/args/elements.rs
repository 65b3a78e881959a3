//! What `cat` prints of a tensor, wherever it is from.

use clap::Args;

/// Which elements of a tensor are printed, and how.
#[derive(Args, Debug)]
pub(crate) struct ElementsArgs {
    /// A part of it, as NumPy writes it: `0:3,:,-1`; steps are positive, and `...` is not known
    #[arg(long, value_name = "SLICE", allow_hyphen_values = true)]
    pub(crate) slice: Option<String>,

    /// The first so many elements, each on a line, none abbreviated
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub(crate) first: Option<usize>,

    /// Write the elements to standard output as an .npy file
    #[arg(long, conflicts_with_all = ["first", "json"])]
    pub(crate) npy: bool,
}
