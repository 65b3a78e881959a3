//! Selects tensors of a file by name.

use std::fmt;
use std::sync::Arc;

use super::WeightsError;

/// Selects tensors of a file by name.
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
    /// Accepts all tensors.
    pub const ALL: Self = Self(None);

    /// Accepts names that match a pattern, in which `*` stands for any characters, `?` for one character, and `[abc]` for one of these
    /// characters. Also accepts the name that equals the pattern literally.
    ///
    /// # Errors
    /// [`WeightsError::Pattern`].
    pub fn glob(pattern: &str) -> Result<Self, WeightsError> {
        Self::any_glob([pattern])
    }

    /// Accepts names that match any of these patterns.
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

    /// Accepts names that start with this prefix.
    #[must_use]
    pub fn prefix(prefix: impl Into<String>) -> Self {
        let prefix = prefix.into();
        Self::matching(move |name| name.starts_with(&prefix))
    }

    /// Accepts exactly these names.
    #[must_use]
    pub fn names<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        let names: std::collections::HashSet<String> = names.into_iter().map(Into::into).collect();
        Self::matching(move |name| names.contains(name))
    }

    /// Accepts names for which the predicate is true.
    #[must_use]
    pub fn matching(predicate: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(predicate)))
    }

    /// Whether the filter accepts the tensor of this name.
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
