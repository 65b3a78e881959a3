//! Decides how the samples of a shard lie in its tensors (spec/dataset.md §2.2 and §2.3): by the metadata of the shard, else by the
//! manifest, else by the names of all tensors of the dataset.

use std::sync::{Arc, OnceLock};

use carton_tensor::safetensors::Header;

use crate::manifest::Manifest;
use crate::rows::check_rows;
use crate::sample_names::SampleNames;
use crate::shard_metadata::{SAMPLES_KEY, ShardMode};

/// How the samples of a shard lie in its tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Samples {
    /// Each row is a sample: the first dimension of every tensor is their number.
    Rows,
    /// Each sample consists of the tensors that share its name.
    Named {
        names: Arc<SampleNames>,
        /// Whether there may be fewer samples than the manifest counts, because only the last row of a name was kept.
        may_be_fewer: bool,
    },
}

/// Infers the layout of shards whose metadata does not describe it.
#[derive(Debug)]
pub(super) struct SampleLayouts {
    manifest: Arc<Manifest>,
    /// How the manifest's tensors are named. Inferred when a shard first needs it.
    names: OnceLock<Option<Arc<SampleNames>>>,
}

impl SampleLayouts {
    pub(super) fn new(manifest: Arc<Manifest>) -> Self {
        Self { manifest, names: OnceLock::new() }
    }

    /// Returns how the samples of this shard lie in its tensors.
    ///
    /// # Errors
    /// Returns as text that its tensors do not match the manifest's number of samples, or that its list of columns is malformed.
    pub(super) fn of(&self, header: &Header, samples_count: u64) -> Result<Samples, String> {
        let metadata = header.metadata();
        match ShardMode::of(metadata) {
            Some(ShardMode::Batch) => return Ok(Samples::Rows),
            Some(ShardMode::KeyValue) => {
                let names = Arc::new(SampleNames::from_metadata(metadata)?);
                return Ok(Samples::Named { names, may_be_fewer: false });
            }
            None => {}
        }
        // In batch mode every shard has all columns.
        let is_every_tensor = header.len() == self.manifest.schema().len();
        let is_rows = || is_every_tensor && check(header, samples_count, &Samples::Rows).is_ok();
        let named = |names: &Arc<SampleNames>| Samples::Named { names: Arc::clone(names), may_be_fewer: true };
        let names = match self.names() {
            Some(names) => names,
            None if is_rows() => return Ok(Samples::Rows),
            // Counts the names before the last `__`, for samples that do not all have the same columns.
            None => {
                let names = Arc::new(SampleNames::from_metadata(metadata)?);
                let samples = Samples::Named { names, may_be_fewer: false };
                return check(header, samples_count, &samples)
                    .map(|()| samples)
                    .map_err(|_| neither(header, samples_count));
            }
        };
        if self.manifest.key_value().is_some() {
            return Ok(named(names));
        }
        let found = names.count(header.names());
        let is_exact = found == samples_count;
        let is_batch_rather = is_every_tensor && !(found > 1 && names.has_distinct_separator());
        if is_exact && !(is_batch_rather && is_rows()) {
            return Ok(named(names));
        }
        if is_rows() {
            return Ok(Samples::Rows);
        }
        if found < samples_count { Ok(named(names)) } else { Err(neither(header, samples_count)) }
    }

    /// Whether the manifest seems to count the dimensions of this shard's tensors: as many samples as the tensors would have rows, but more
    /// than the shard has. A coincidence is possible where several rows of one name became one sample.
    pub(super) fn may_count_dimensions(&self, header: &Header, samples_count: u64, samples: &Samples) -> bool {
        matches!(samples, Samples::Named { names, may_be_fewer: true }
            if self.manifest.key_value().is_none() && names.count(header.names()) < samples_count)
            && check_rows(header, samples_count).is_ok()
    }

    /// Returns how the names of the manifest's tensors combine those of samples and columns; `None` if they do not.
    fn names(&self) -> Option<&Arc<SampleNames>> {
        let find = || match self.manifest.key_value() {
            Some(said) => Some(Arc::new(SampleNames::new(said.separator.clone(), said.columns.iter().cloned()))),
            None => {
                let names: Vec<&str> = self.manifest.schema().keys().map(String::as_str).collect();
                SampleNames::infer(&names, self.manifest.total_samples(), self.may_be_batches()).map(Arc::new)
            }
        };
        self.names.get_or_init(find).as_ref()
    }

    /// Whether the tensors of the manifest could be columns of batches: all have the same number of rows.
    fn may_be_batches(&self) -> bool {
        let mut n_rows = self.manifest.schema().values().map(|tensor| tensor.shape.first());
        let first = n_rows.next().flatten();
        first.is_some() && n_rows.all(|other| other == first)
    }
}

fn neither(header: &Header, samples_count: u64) -> String {
    if check_rows(header, samples_count).is_ok() {
        return format!("it has not all tensors, so they are not {samples_count} rows, and not {samples_count} names");
    }
    format!("its tensors are neither of {samples_count} rows nor of {samples_count} names")
}

/// Checks that a shard has `samples_count` samples.
pub(super) fn check(header: &Header, samples_count: u64, samples: &Samples) -> Result<(), String> {
    if let Some(said) = header.metadata().get(SAMPLES_KEY)
        && said.parse() != Ok(samples_count)
    {
        return Err(format!("it says that it has `{}` samples, expected {samples_count}", said.escape_debug()));
    }
    match samples {
        Samples::Rows => check_rows(header, samples_count),
        Samples::Named { names, may_be_fewer } => match names.count(header.names()) {
            found if found == samples_count || *may_be_fewer && (1..samples_count).contains(&found) => Ok(()),
            found => Err(format!("its tensors have {found} names, expected {samples_count}")),
        },
    }
}
