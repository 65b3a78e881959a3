//! Which tensors of a file are meant, by their names.

use std::fmt;
use std::sync::Arc;

use super::WeightsError;

/// Which tensors of a file are meant, by their names.
///
/// ```
/// use carton_tensor::weights::Filter;
/// let filter = Filter::glob("model.layers.*.q_proj.*")?;
/// assert!(filter.accepts("model.layers.11.q_proj.weight") && !filter.accepts("model.norm.weight"));
/// assert!(Filter::glob("blocks[0].weight")?.accepts("blocks[0].weight"));
/// assert!(Filter::prefix("model.").accepts("model.norm.weight"));
/// assert!(Filter::names(["a", "b"]).accepts("b"));
/// assert!(Filter::matching(|name| name.len() == 1).accepts("c"));
/// assert!(Filter::default().accepts("anything"));
/// # Ok::<(), carton_tensor::weights::WeightsError>(())
/// ```
#[derive(Clone, Default)]
pub struct Filter(Option<Predicate>);

type Predicate = Arc<dyn Fn(&str) -> bool + Send + Sync>;

impl Filter {
    /// All tensors.
    pub const ALL: Self = Self(None);

    /// Names of this pattern, in which `*` stands for any characters, `?` for one, and `[abc]` for one of these; and a name that is
    /// the pattern itself to the letter.
    ///
    /// # Errors
    /// [`WeightsError::Pattern`].
    pub fn glob(pattern: &str) -> Result<Self, WeightsError> {
        Self::any_glob([pattern])
    }

    /// Names of any of these patterns.
    ///
    /// # Errors
    /// [`WeightsError::Pattern`].
    pub fn any_glob<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Result<Self, WeightsError> {
        let parse = |pattern: P| {
            let pattern = pattern.as_ref();
            glob::Pattern::new(pattern)
                .map_err(|source| WeightsError::Pattern { pattern: pattern.escape_debug().to_string(), source })
        };
        let patterns = patterns.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::matching(move |name| patterns.iter().any(|pattern| pattern.matches(name) || pattern.as_str() == name)))
    }

    /// Names that start with this.
    #[must_use]
    pub fn prefix(prefix: impl Into<String>) -> Self {
        let prefix = prefix.into();
        Self::matching(move |name| name.starts_with(&prefix))
    }

    /// These names.
    #[must_use]
    pub fn names<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        let names: std::collections::HashSet<String> = names.into_iter().map(Into::into).collect();
        Self::matching(move |name| names.contains(name))
    }

    /// Names of which this is true.
    #[must_use]
    pub fn matching(predicate: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(predicate)))
    }

    /// Whether the tensor of this name is meant.
    #[must_use]
    pub fn accepts(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|accepts| accepts(name))
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Filter(some)" } else { "Filter(all)" })
    }
}
