//! Reads and checks the options of a model (`[runner.opts]`), and warns about unknown ones.

use carton_runner_interface::runner::{self, Options, RunnerError};

/// Every option, in the order in which messages list them.
const KNOWN: [&str; 6] =
    ["num_threads", "intra_op_threads", "inter_op_threads", "execution_provider", "model", "libraries"];

/// More threads than this are taken for a typing error.
const MAX_THREADS: u64 = 1024;

/// The parsed options of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelOptions {
    /// Threads for one operator; `None`: the runtime chooses.
    pub(crate) intra_op_threads: Option<usize>,
    /// Threads for operators that do not depend on one another; `None`: the runtime chooses.
    pub(crate) inter_op_threads: Option<usize>,
    /// The execution providers of ONNX Runtime for the model, in order of preference; empty: chosen by the device.
    pub(crate) execution_providers: Vec<String>,
    /// The `.onnx` file to load, where there are several.
    pub(crate) model: Option<String>,
    /// The libraries of operators that the model uses: files of the model, packages of Python, or files in them.
    pub(crate) libraries: Vec<String>,
}

impl ModelOptions {
    /// Reads options. Passes warnings to `warn`.
    ///
    /// # Errors
    /// A known option has an invalid value.
    pub(crate) fn parse(options: &Options, warn: &mut dyn FnMut(String)) -> Result<Self, RunnerError> {
        let options = runner::ModelOptions::new("onnx", &KNOWN, options);
        options.unknown().into_iter().for_each(warn);
        let num_threads: Option<usize> = options.number("num_threads", MAX_THREADS)?;
        let intra_op_threads = options.number("intra_op_threads", MAX_THREADS)?;
        if let (Some(first), Some(second)) = (num_threads, intra_op_threads)
            && first != second
        {
            return Err(RunnerError::new(format!(
                "num_threads and intra_op_threads are two names of one option, but one is {first} and the other {second}"
            )));
        }
        Ok(Self {
            intra_op_threads: intra_op_threads.or(num_threads),
            inter_op_threads: options.number("inter_op_threads", MAX_THREADS)?,
            execution_providers: options
                .names("execution_provider", "a name such as \"CUDA\" or a list of names")?,
            model: options.text("model", "the path of a .onnx file inside the model")?,
            libraries: options.names(
                "libraries",
                "a file of the model, a package of Python such as \"onnxruntime_extensions\", a file in one, or a list of them",
            )?,
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
        let defaults = ModelOptions::default;
        check(serde_json::json!({}), Ok(defaults()), &[]);
        check(
            serde_json::json!({"num_threads": 3, "inter_op_threads": "2", "model": "a/b.onnx"}),
            Ok(ModelOptions {
                intra_op_threads: Some(3),
                inter_op_threads: Some(2),
                model: Some("a/b.onnx".to_owned()),
                ..defaults()
            }),
            &[],
        );
        check(
            serde_json::json!({"intra_op_threads": 1, "num_threads": 1}),
            Ok(ModelOptions { intra_op_threads: Some(1), ..defaults() }),
            &[],
        );
        check(
            serde_json::json!({"treads": 1, "engine": "onnxruntime"}),
            Ok(defaults()),
            &[
                "the onnx runner has no option `engine`, `treads`; it knows num_threads, intra_op_threads, inter_op_threads, execution_provider, model, libraries",
            ],
        );
        for wrong in [serde_json::json!(0), serde_json::json!(-1), serde_json::json!(1.5), serde_json::json!("many")] {
            let message = format!("option `num_threads` should be a number from 1 to 1024, found {wrong}");
            check(serde_json::json!({"num_threads": wrong}), Err(&message), &[]);
        }
        check(
            serde_json::json!({"intra_op_threads": 1, "num_threads": 2}),
            Err("num_threads and intra_op_threads are two names of one option, but one is 2 and the other 1"),
            &[],
        );
        check(
            serde_json::json!({"execution_provider": "CUDA"}),
            Ok(ModelOptions { execution_providers: vec!["CUDA".to_owned()], ..defaults() }),
            &[],
        );
        check(
            serde_json::json!({"execution_provider": ["CUDA", "CPU"]}),
            Ok(ModelOptions { execution_providers: vec!["CUDA".to_owned(), "CPU".to_owned()], ..defaults() }),
            &[],
        );
        for wrong in
            [serde_json::json!([""]), serde_json::json!(1), serde_json::json!(["CPU", 1]), serde_json::json!("")]
        {
            let message = format!(
                "option `execution_provider` should be a name such as \"CUDA\" or a list of names, found {wrong}"
            );
            check(serde_json::json!({"execution_provider": wrong}), Err(&message), &[]);
        }
        for (given, expected) in [
            (serde_json::json!("libs/ops.so"), vec!["libs/ops.so"]),
            (serde_json::json!([]), vec![]),
            (
                serde_json::json!(["libs/ops.so", "onnxruntime_extensions"]),
                vec!["libs/ops.so", "onnxruntime_extensions"],
            ),
        ] {
            let libraries = expected.into_iter().map(str::to_owned).collect();
            check(serde_json::json!({"libraries": given}), Ok(ModelOptions { libraries, ..defaults() }), &[]);
        }
        check(
            serde_json::json!({"libraries": [1]}),
            Err(
                "option `libraries` should be a file of the model, a package of Python such as \"onnxruntime_extensions\", a file in one, or a list \
                 of them, found [1]",
            ),
            &[],
        );
        check(
            serde_json::json!({"model": 1}),
            Err("option `model` should be the path of a .onnx file inside the model, found 1"),
            &[],
        );
    }
}
