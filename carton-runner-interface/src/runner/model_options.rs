//! Reads the options of a model, whose values come from a carton or a command line.

use serde_json::Value;

use super::{Options, RunnerError};

/// The options of a model, and the runner that reads them.
///
/// ```
/// use carton_runner_interface::runner::{ModelOptions, Options};
///
/// let options = Options::from([("num_threads".to_owned(), "2".into()), ("treads".to_owned(), 1.into())]);
/// let options = ModelOptions::new("onnx", &["num_threads"], &options);
/// assert_eq!(options.number::<usize>("num_threads", 1024)?, Some(2));
/// assert_eq!(options.unknown().as_deref(), Some("the onnx runner has no option `treads`; it knows num_threads"));
/// # Ok::<(), carton_runner_interface::runner::RunnerError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ModelOptions<'a> {
    runner: &'a str,
    known: &'a [&'a str],
    options: &'a Options,
}

impl<'a> ModelOptions<'a> {
    /// The options of a model for a runner that knows those with the names `known`, in the order in which messages list them.
    #[must_use]
    pub fn new(runner: &'a str, known: &'a [&'a str], options: &'a Options) -> Self {
        Self { runner, known, options }
    }

    /// A warning that names the options that the runner does not know, if there are any.
    #[must_use]
    pub fn unknown(&self) -> Option<String> {
        let unknown = self.options.keys().filter(|name| !self.known.contains(&name.as_str()));
        let unknown: Vec<String> = unknown.map(|name| format!("`{name}`")).collect();
        (!unknown.is_empty()).then(|| {
            let (runner, known) = (self.runner, self.known.join(", "));
            format!("the {runner} runner has no option {}; it knows {known}", unknown.join(", "))
        })
    }

    /// The value of an option, if it has one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.options.get(name)
    }

    /// A number from 1 to `max`, as a number or as text: `--opt num_threads=2` may arrive either way.
    ///
    /// # Errors
    /// It is something else.
    pub fn number<T: TryFrom<u64>>(&self, name: &str, max: u64) -> Result<Option<T>, RunnerError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number =
            value.as_u64().or_else(|| value.as_str()?.parse().ok()).filter(|number| (1..=max).contains(number));
        match number.map(T::try_from) {
            Some(Ok(number)) => Ok(Some(number)),
            _ => Err(wrong_option(name, &format!("a number from 1 to {max}"), value)),
        }
    }

    /// A text; `expected` says what it should be.
    ///
    /// # Errors
    /// It is something else.
    pub fn text(&self, name: &str, expected: &str) -> Result<Option<String>, RunnerError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(wrong_option(name, expected, other)),
        }
    }

    /// Names: a text is one name, a list of texts is several. Without the option there are none. `expected` says what it should be.
    ///
    /// ```
    /// use carton_runner_interface::runner::{ModelOptions, Options};
    ///
    /// let options = Options::from([("one".to_owned(), "a,b".into()), ("two".to_owned(), ["a", "b"].as_slice().into())]);
    /// let options = ModelOptions::new("onnx", &["one", "two"], &options);
    /// assert_eq!(options.names("one", "names")?, ["a,b"]);
    /// assert_eq!(options.names("two", "names")?, ["a", "b"]);
    /// # Ok::<(), carton_runner_interface::runner::RunnerError>(())
    /// ```
    ///
    /// # Errors
    /// It is something else, or a name is empty.
    pub fn names(&self, name: &str, expected: &str) -> Result<Vec<String>, RunnerError> {
        let Some(value) = self.get(name) else { return Ok(Vec::new()) };
        let list = match value {
            Value::Array(list) => list.as_slice(),
            one => std::slice::from_ref(one),
        };
        let one = |value: &Value| value.as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        let names: Option<Vec<String>> = list.iter().map(one).collect();
        names.ok_or_else(|| wrong_option(name, expected, value))
    }
}

/// The error of an option that has the value `found` and should be what `expected` says.
#[must_use]
pub fn wrong_option(name: &str, expected: &str, found: &Value) -> RunnerError {
    RunnerError::new(format!("option `{name}` should be {expected}, found {found}"))
}
