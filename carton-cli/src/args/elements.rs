//! The options of every `cat` command, for tensors of any source.

use clap::Args;

/// Which elements of a tensor are printed, and how.
#[derive(Args, Debug)]
pub(crate) struct ElementsArgs {
    /// A part of the tensor in NumPy's notation: `0:3,:,-1`. Steps must be positive, and `...` is not supported
    #[arg(long, value_name = "SLICE", allow_hyphen_values = true)]
    pub(crate) slice: Option<String>,

    /// Print only this many elements, one per line and not abbreviated
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub(crate) first: Option<usize>,

    /// Write the elements to standard output as an .npy file
    #[arg(long, conflicts_with_all = ["first", "json"])]
    pub(crate) npy: bool,
}
