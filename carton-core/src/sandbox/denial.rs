//! What the sandbox has probably refused: a guess, from what a model's error says. Pure but for looks whether paths exist.
//!
//! The kernel tells a confined process nothing but a number of an error, which looks like a fault of the machine.

use std::path::Path;

/// What the sandbox has probably refused a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    /// The network.
    Network,
    /// Reading this file or folder, which is there.
    Read(String),
    /// Writing a file.
    Write,
    /// The GPUs.
    Gpus,
    /// A system call.
    Call,
}

/// What a confined process has, of what a model's error may be about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    pub(crate) network: bool,
    pub(crate) gpus: bool,
}

/// What errors say, in lower case, that have no other cause than a missing network, or another one than the model's own.
const NETWORK_FAILURES: &[&str] = &[
    "network is unreachable",
    "connection refused",
    "name resolution",
    "name or service not known",
    "failed to resolve",
    "dns error",
];

/// What errors of the libraries of GPUs say, in lower case, that find no GPU.
const GPU_FAILURES: &[&str] = &[
    "cuda error",
    "cudaerror",
    "cuda_error",
    "cudagetdevicecount",
    "no cuda gpus",
    "no cuda-capable device",
    "no nvidia driver",
    "nvmlerror",
    "hip error",
    "no hip gpus",
];

/// The devices of drivers of GPUs.
const GPU_DRIVERS: &[&str] = &["/dev/nvidiactl", "/dev/kfd", "/dev/dxg"];

/// What errors say of sockets whose system calls are refused.
const OF_NETWORK: &[&str] = &["socket", "connect", "urlopen", "httpx.", "requests.", "getaddrinfo"];

impl Denial {
    /// Reads what an error of a process that has `reach`, and its causes, say.
    pub(crate) fn of<'a>(texts: impl IntoIterator<Item = &'a str>, reach: Reach) -> Option<Self> {
        let has_gpus = || GPU_DRIVERS.iter().any(|driver| Path::new(driver).exists());
        Self::on_machine(texts, reach, has_gpus)
    }

    /// As [`of`](Self::of), on a machine that has GPUs or not.
    fn on_machine<'a>(
        texts: impl IntoIterator<Item = &'a str>,
        reach: Reach,
        has_gpus: impl Fn() -> bool,
    ) -> Option<Self> {
        let texts: Vec<&str> = texts.into_iter().collect();
        let says = |words: &[&str]| {
            texts.iter().any(|text| {
                let text = text.to_ascii_lowercase();
                words.iter().any(|word| text.contains(word))
            })
        };
        let is_there = |path: &str| Path::new(path).is_absolute() && Path::new(path).exists();
        if !reach.gpus && says(GPU_FAILURES) && has_gpus() {
            return Some(Self::Gpus);
        }
        if let Some(path) =
            texts.iter().find_map(|text| path_in(text, &["Permission denied: ", "Read-only file system: "]))
        {
            return Some(if is_there(path) { Self::Read(path.to_owned()) } else { Self::Write });
        }
        // What is there, but not for the model, looks as if it were not there.
        let missing = texts.iter().find_map(|text| path_in(text, &["No such file or directory: "]));
        if let Some(path) = missing.filter(|path| is_there(path)) {
            return Some(Self::Read(path.to_owned()));
        }
        if !reach.network && (says(NETWORK_FAILURES) || says(&["not permitted"]) && says(OF_NETWORK)) {
            return Some(Self::Network);
        }
        says(&["operation not permitted"]).then_some(Self::Call)
    }

    /// What the user can do about it.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Network => "a confined model has no network but its own: allow the network, if the model may have it".to_owned(),
            Self::Read(path) => format!("a confined model reads its own files: allow reading `{path}`, if the model may"),
            Self::Write => "a confined model writes to its scratch folder, which `TMPDIR` names, and to no other".to_owned(),
            Self::Gpus => "a confined model has no GPU unless a device is asked for: name one (`--device 0`)".to_owned(),
            Self::Call => "the sandbox may have refused a system call of the model, which runs without it if the sandbox is the cause".to_owned(),
        }
    }
}

/// The path behind one of `errors`, as Python writes it: `[Errno 13] Permission denied: 'PATH'`.
fn path_in<'a>(text: &'a str, errors: &[&str]) -> Option<&'a str> {
    let (_, rest) = errors.iter().find_map(|error| text.split_once(error))?;
    let quote = rest.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    rest.get(1..)?.split(quote).next().filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Reach = Reach { network: false, gpus: false };

    #[test]
    fn what_errors_say_of_the_sandbox() {
        let check = |texts: &[&str], expected: Option<Denial>| {
            assert_eq!(Denial::of(texts.iter().copied(), NOTHING), expected, "{texts:?}");
        };
        let not_permitted = "PermissionError: [Errno 1] Operation not permitted";
        check(&[not_permitted, "  File \"socket.py\", line 233, in __init__"], Some(Denial::Network));
        check(&["socket.gaierror: [Errno -3] Temporary failure in name resolution"], Some(Denial::Network));
        check(&[not_permitted, "  File \"model.py\", line 3, in f", "os.setsid()"], Some(Denial::Call));
        check(&["PermissionError: [Errno 13] Permission denied: '/etc'"], Some(Denial::Read("/etc".to_owned())));
        check(&["PermissionError: [Errno 13] Permission denied: 'cache.bin'"], Some(Denial::Write));
        check(&["PermissionError: [Errno 13] Permission denied: '/no/such/file'"], Some(Denial::Write));
        check(&["OSError: [Errno 30] Read-only file system: '/cache.bin'"], Some(Denial::Write));
        let missing = |path: &str| format!("FileNotFoundError: [Errno 2] No such file or directory: '{path}'");
        check(&[&missing("/etc")], Some(Denial::Read("/etc".to_owned())));
        check(&[&missing("/no/such/file")], None);
        check(&[&missing("etc")], None);
        check(&["OSError: [Errno 101] Network is unreachable"], Some(Denial::Network));
        check(&["ConnectionRefusedError: [Errno 111] Connection refused"], Some(Denial::Network));
        check(&["ConnectionResetError: [Errno 104] Connection reset by peer", "socket.py"], None);
        check(&["ValueError: the socket has no voltage"], None);
        check(&["the model failed", "division by zero"], None);
        check(&["Permission denied: "], None);
        check(&["Permission denied: 'never ends"], Some(Denial::Write));
        let with_network = Reach { network: true, ..NOTHING };
        assert_eq!(Denial::of(["[Errno 101] Network is unreachable"], with_network), None);
        assert_eq!(Denial::of([not_permitted, "socket"], with_network), Some(Denial::Call));
        // What PyTorch, CuPy and NVIDIA's management library said in the sandbox.
        for said in [
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before",
            "torch.AcceleratorError: CUDA error: OS call failed or operation not supported on this OS",
            "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorOperatingSystem: OS call failed",
            "NVMLError_DriverNotLoaded: Driver Not Loaded",
        ] {
            let of = |reach, has_gpus| Denial::on_machine([said], reach, || has_gpus);
            assert_eq!(of(NOTHING, true), Some(Denial::Gpus), "{said}");
            assert_eq!(of(Reach { gpus: true, ..NOTHING }, true), None);
            assert_eq!(of(NOTHING, false), None);
        }
    }
}
