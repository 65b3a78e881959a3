//! What libtorch says of a failure, as an error of a call. Pure: text in, error out.

use carton_runner_interface::runner::RunnerError;

/// Where TorchScript's tracebacks point at the place.
const HERE: &str = "<--- HERE";

/// The message of libtorch first, where it failed as its cause.
///
/// libtorch writes tracebacks first, of the saved code and then of the code it was made from. Below the last place that it
/// points at follow lines of code, which are indented, and then what was wrong.
pub(crate) fn from_libtorch(text: &str) -> RunnerError {
    let text = text.trim();
    let (traceback, message) = match text.rfind(HERE) {
        Some(position) => {
            let below = position + HERE.len();
            let code = text[below..].split_inclusive('\n').skip(1).take_while(|line| is_code(line)).map(str::len);
            let rest_of_line = text[below..].split_inclusive('\n').next().map_or(0, str::len);
            text.split_at(below + rest_of_line + code.sum::<usize>())
        }
        None => ("", text),
    };
    let (message, traceback) = if message.trim().is_empty() { (text, "") } else { (message, traceback) };
    let (first, rest) = message.trim().split_once('\n').unwrap_or((message.trim(), ""));
    let causes = [rest.trim_end(), traceback.trim()].into_iter().filter(|cause| !cause.trim().is_empty());
    RunnerError { causes: causes.map(str::to_owned).collect(), ..RunnerError::new(first.trim_end()) }
}

fn is_code(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, message: &str, causes: &[&str]) {
        let error = from_libtorch(text);
        assert_eq!((error.message.as_str(), error.causes), (message, causes.iter().map(|&c| c.to_owned()).collect()));
    }

    #[test]
    fn messages_come_first() {
        let traceback = "The following operation failed in the TorchScript interpreter.\n\
            Traceback of TorchScript, serialized code (most recent call last):\n  \
            File \"code/__torch__.py\", line 9, in forward\n    x = inputs[\"x\"]\n        ~~~~~~ <--- HERE\n    return x";
        check(&format!("{traceback}\nRuntimeError: KeyError: x\n"), "RuntimeError: KeyError: x", &[traceback]);
        check(
            &format!("{traceback}\n\nRuntimeError: no kernel\n\nCPU: here\nCUDA: there\n"),
            "RuntimeError: no kernel",
            &["\nCPU: here\nCUDA: there", traceback],
        );
        check("PytorchStreamReader failed", "PytorchStreamReader failed", &[]);
        let (first, rest) = traceback.split_once('\n').unwrap_or_default();
        check(traceback, first, &[rest]);
        check("", "", &[]);
    }
}
