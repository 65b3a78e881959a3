//! Reads and checks the options of a model (`[runner.opts]`), and warns about unknown ones.

use carton_runner_interface::runner::{Options, RunnerError};
use serde_json::Value;

/// Every option, in the order in which messages list them.
const KNOWN: [&str; 4] = ["num_threads", "num_interop_threads", "max_concurrency", "model"];

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
}

impl ModelOptions {
    /// Reads options. Passes warnings to `warn`.
    ///
    /// # Errors
    /// A known option has an invalid value.
    pub(crate) fn parse(options: &Options, warn: &mut dyn FnMut(String)) -> Result<Self, RunnerError> {
        let unknown: Vec<String> =
            options.keys().filter(|name| !KNOWN.contains(&name.as_str())).map(|name| format!("`{name}`")).collect();
        if !unknown.is_empty() {
            warn(format!("the torchscript runner has no option {}; it knows {}", unknown.join(", "), KNOWN.join(", ")));
        }
        Ok(Self {
            num_threads: number(options, "num_threads")?,
            num_interop_threads: number(options, "num_interop_threads")?,
            max_concurrency: number(options, "max_concurrency")?.unwrap_or(1),
            model: match options.get("model") {
                None => None,
                Some(Value::String(path)) => Some(path.clone()),
                Some(other) => return Err(wrong("model", "the path of a TorchScript file inside the model", other)),
            },
        })
    }
}

/// A number, as a number or as text: `--opt num_threads=2` may arrive either way.
fn number<T: TryFrom<u64>>(options: &Options, name: &str) -> Result<Option<T>, RunnerError> {
    let Some(value) = options.get(name) else {
        return Ok(None);
    };
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok()).filter(|number| (1..=MAX).contains(number));
    match number.map(T::try_from) {
        Some(Ok(number)) => Ok(Some(number)),
        _ => Err(wrong(name, &format!("a number from 1 to {MAX}"), value)),
    }
}

fn wrong(name: &str, expected: &str, found: &Value) -> RunnerError {
    RunnerError::new(format!("option `{name}` should be {expected}, found {found}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

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
        let defaults =
            || ModelOptions { num_threads: None, num_interop_threads: None, max_concurrency: 1, model: None };
        check(serde_json::json!({}), Ok(defaults()), &[]);
        check(
            serde_json::json!({"num_threads": 3, "num_interop_threads": "2", "max_concurrency": 4, "model": "a/b.pt"}),
            Ok(ModelOptions {
                num_threads: Some(3),
                num_interop_threads: Some(2),
                max_concurrency: 4,
                model: Some("a/b.pt".to_owned()),
            }),
            &[],
        );
        check(
            serde_json::json!({"treads": 1, "Model": "x"}),
            Ok(defaults()),
            &["the torchscript runner has no option `Model`, `treads`; it knows num_threads, num_interop_threads, \
               max_concurrency, model"],
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
