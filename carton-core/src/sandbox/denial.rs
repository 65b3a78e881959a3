//! What the sandbox has probably refused: a guess, from what a model's error says. Pure but for a look whether a path exists.
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
    /// A system call.
    Call,
}

/// What errors of the network say beside the number, in lower case. Names cannot be resolved without it.
const OF_NETWORK: &[&str] = &[
    "socket",
    "connect",
    "name resolution",
    "name or service not known",
    "failed to resolve",
    "urlopen",
    "httpx.",
    "requests.",
    "getaddrinfo",
    "dns error",
];

impl Denial {
    /// Reads what an error and its causes say. `network` says whether the process has the network.
    pub(crate) fn of<'a>(texts: impl IntoIterator<Item = &'a str>, network: bool) -> Option<Self> {
        let texts: Vec<&str> = texts.into_iter().collect();
        let says = |words: &[&str]| {
            texts.iter().any(|text| {
                let text = text.to_ascii_lowercase();
                words.iter().any(|word| text.contains(word))
            })
        };
        if let Some(path) = texts.iter().find_map(|text| denied_path(text)) {
            let is_readable = Path::new(path).is_absolute() && Path::new(path).exists();
            return Some(if is_readable { Self::Read(path.to_owned()) } else { Self::Write });
        }
        let is_of_network = !network && says(OF_NETWORK);
        if is_of_network
            && says(&[
                "not permitted",
                "name resolution",
                "name or service not known",
                "failed to resolve",
                "dns error",
            ])
        {
            return Some(Self::Network);
        }
        says(&["operation not permitted"]).then_some(Self::Call)
    }

    /// What the user can do about it.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Network => "a confined model has no network: allow the network, if the model may have it".to_owned(),
            Self::Read(path) => format!("a confined model reads its own files: allow reading `{path}`, if the model may"),
            Self::Write => "a confined model writes to its scratch folder, which `TMPDIR` names, and to no other".to_owned(),
            Self::Call => "the sandbox may have refused a system call of the model, which runs without it if the sandbox is the cause".to_owned(),
        }
    }
}

/// The path in an error of the number 13, as Python (`[Errno 13] Permission denied: 'PATH'`) and Rust or C++ programs write it.
fn denied_path(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("Permission denied: ")?;
    let quote = rest.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    rest.get(1..)?.split(quote).next().filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_errors_say_of_the_sandbox() {
        let check = |texts: &[&str], expected: Option<Denial>| {
            assert_eq!(Denial::of(texts.iter().copied(), false), expected, "{texts:?}");
        };
        let not_permitted = "PermissionError: [Errno 1] Operation not permitted";
        check(&[not_permitted, "  File \"socket.py\", line 233, in __init__"], Some(Denial::Network));
        check(&["socket.gaierror: [Errno -3] Temporary failure in name resolution"], Some(Denial::Network));
        check(&[not_permitted, "  File \"model.py\", line 3, in f", "os.setsid()"], Some(Denial::Call));
        check(&["PermissionError: [Errno 13] Permission denied: '/etc'"], Some(Denial::Read("/etc".to_owned())));
        check(&["PermissionError: [Errno 13] Permission denied: 'cache.bin'"], Some(Denial::Write));
        check(&["PermissionError: [Errno 13] Permission denied: '/no/such/file'"], Some(Denial::Write));
        check(&["ValueError: the socket has no voltage"], None);
        check(&["the model failed", "division by zero"], None);
        check(&["Permission denied: "], None);
        check(&["Permission denied: 'never ends"], Some(Denial::Write));
        let with_network = Denial::of([not_permitted, "socket"], true);
        assert_eq!(with_network, Some(Denial::Call));
    }
}
