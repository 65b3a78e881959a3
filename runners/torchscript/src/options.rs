//! Reads and checks the options of a model (`[runner.opts]`), and warns about unknown ones.

use carton_runner_interface::runner::{self, Options, RunnerError};

/// Every option, in the order in which messages list them.
const KNOWN: [&str; 5] = ["num_threads", "num_interop_threads", "max_concurrency", "model", "libraries"];

/// More threads or calls than this are taken for a typing error.
const MAX: u64 = 1024;

/// The parsed options of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelOptions {
    /// Threads for one operator; `None`: libtorch chooses.
    pub(crate) num_threads: Option<i32>,
    /// Threads for operators that do not depend on one another; `None`: libtorch chooses.
    pub(crate) num_interop_threads: Option<i32>,
    /// The number of calls that may run at once.
    pub(crate) max_concurrency: usize,
    /// The file to load, where there are several.
    pub(crate) model: Option<String>,
    /// The libraries that register the operators of the model: files of the model, or packages of Python.
    pub(crate) libraries: Vec<String>,
}

impl ModelOptions {
    /// Reads options. Passes warnings to `warn`.
    ///
    /// # Errors
    /// A known option has an invalid value.
    pub(crate) fn parse(options: &Options, warn: &mut dyn FnMut(String)) -> Result<Self, RunnerError> {
        let options = runner::ModelOptions::new("torchscript", &KNOWN, options);
        options.unknown().into_iter().for_each(warn);
        Ok(Self {
            num_threads: options.number("num_threads", MAX)?,
            num_interop_threads: options.number("num_interop_threads", MAX)?,
            max_concurrency: options.number("max_concurrency", MAX)?.unwrap_or(1),
            model: options.text("model", "the path of a TorchScript file inside the model")?,
            libraries: options
                .names("libraries", "a file of the model, a package of Python, a file in one, or a list of them")?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::Value;

    use super::*;

    fn check(options: Value, expected: Result<ModelOptions, &str>, expected_warnings: &[&str]) {
        let options: Options = serde_json::from_value(options).unwrap();
        let mut warnings = Vec::new();
        let found = ModelOptions::parse(&options, &mut |warning| warnings.push(warning));
        assert_eq!(found.map_err(|error| error.message), expected.map_err(str::to_owned), "{options:?}");
        assert_eq!(warnings, expected_warnings, "{options:?}");
    }

    #[test]
    fn options() {
        let defaults = || ModelOptions {
            num_threads: None,
            num_interop_threads: None,
            max_concurrency: 1,
            model: None,
            libraries: Vec::new(),
        };
        check(serde_json::json!({}), Ok(defaults()), &[]);
        check(
            serde_json::json!({"num_threads": 3, "num_interop_threads": "2", "max_concurrency": 4, "model": "a/b.pt"}),
            Ok(ModelOptions {
                num_threads: Some(3),
                num_interop_threads: Some(2),
                max_concurrency: 4,
                model: Some("a/b.pt".to_owned()),
                libraries: Vec::new(),
            }),
            &[],
        );
        check(
            serde_json::json!({"treads": 1, "Model": "x"}),
            Ok(defaults()),
            &["the torchscript runner has no option `Model`, `treads`; it knows num_threads, num_interop_threads, \
               max_concurrency, model, libraries"],
        );
        for (named, expected) in [
            (serde_json::json!(["torchvision", "ops/own.so"]), vec!["torchvision", "ops/own.so"]),
            (serde_json::json!("ops/a, b.so"), vec!["ops/a, b.so"]),
            (serde_json::json!([]), vec![]),
        ] {
            let libraries = expected.into_iter().map(str::to_owned).collect();
            check(serde_json::json!({"libraries": named}), Ok(ModelOptions { libraries, ..defaults() }), &[]);
        }
        check(
            serde_json::json!({"libraries": [1]}),
            Err(
                "option `libraries` should be a file of the model, a package of Python, a file in one, or a list of them, found [1]",
            ),
            &[],
        );
        for wrong in [serde_json::json!(0), serde_json::json!(-1), serde_json::json!(1.5), serde_json::json!("many")] {
            let message = format!("option `num_threads` should be a number from 1 to 1024, found {wrong}");
            check(serde_json::json!({"num_threads": wrong}), Err(&message), &[]);
        }
        check(
            serde_json::json!({"model": 1}),
            Err("option `model` should be the path of a TorchScript file inside the model, found 1"),
            &[],
        );
    }
}
