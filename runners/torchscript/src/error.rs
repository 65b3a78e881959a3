//! Converts libtorch's message about a failure into an error of a call. Pure: text in, error out.

use carton_runner_interface::runner::RunnerError;

/// The beginning of TorchScript's tracebacks.
const TRACEBACK: &str = "Traceback of TorchScript";

/// Converts libtorch's text into an error with its message first and the traceback as a cause.
///
/// libtorch writes the tracebacks first: of the saved code, and then of the code that it was made from. Each has an unindented
/// heading, then lines of code, which are indented, or places in Python, which are not. The message follows the tracebacks.
pub(crate) fn from_libtorch(text: &str) -> RunnerError {
    let text = text.trim();
    let (traceback, message) = match text.rfind(TRACEBACK) {
        Some(start) => {
            let lines = text[start..].split_inclusive('\n');
            let skipped = lines.enumerate().take_while(|(index, line)| *index == 0 || is_place(line));
            text.split_at(start + skipped.map(|(_, line)| line.len()).sum::<usize>())
        }
        None => ("", text),
    };
    let (message, traceback) = if message.trim().is_empty() { (text, "") } else { (message, traceback) };
    let (first, rest) = message.trim().split_once('\n').unwrap_or((message.trim(), ""));
    let causes = [rest.trim_end(), traceback.trim()].into_iter().filter(|cause| !cause.trim().is_empty());
    RunnerError { causes: causes.map(str::to_owned).collect(), ..RunnerError::new(first.trim_end()) }
}

/// Whether a line of a traceback is code, or a place such as `file.py(12): forward`.
fn is_place(line: &str) -> bool {
    if line.trim().is_empty() || line.starts_with([' ', '\t']) {
        return true;
    }
    let Some((path, _)) = line.split_once("): ") else { return false };
    let number = path.rsplit_once('(').filter(|(file, _)| !file.contains(": ")).map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
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
        let traced = "The following operation failed in the TorchScript interpreter.\n\
            Traceback of TorchScript, serialized code (most recent call last):\n  \
            File \"code/__torch__.py\", line 9, in forward\n    ~~~~~~ <--- HERE\n    return x\n\n\
            Traceback of TorchScript, original code (most recent call last):\n\
            /lib/torch/nn/modules/conv.py(459): _conv_forward\nmodel.py(46): forward";
        check(&format!("{traced}\nRuntimeError: expected f(3): 4\n"), "RuntimeError: expected f(3): 4", &[traced]);
        check("PytorchStreamReader failed", "PytorchStreamReader failed", &[]);
        let (first, rest) = traceback.split_once('\n').unwrap_or_default();
        check(traceback, first, &[rest]);
        check("", "", &[]);
    }
}
