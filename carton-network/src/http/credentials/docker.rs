//! Logins in the files of Docker and Podman: `config.json` and `auth.json` (<https://docs.docker.com/reference/cli/docker/login/>,
//! containers-auth.json(5)).
//!
//! A file holds logins, or names programs that hold them (`docker-credential-NAME`), one for each registry or one for all. The login of a
//! repository's longest prefix is used, as Podman does; Docker has logins of whole registries only.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use serde::Deserialize;

use super::Secret;

/// The largest file, and the longest answer of a program, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// Time limit of a program, long enough for the user to unlock a keyring.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How long a program may take before the user learns what is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// The name under which Docker stores the login of its own registry.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";

/// What a registry, or its token server, is told to let the user in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) enum RegistryCredential {
    Basic {
        user: String,
        password: Secret,
    },
    /// A token for the registry itself.
    Bearer(Secret),
    /// A token that the token server exchanges for others.
    IdentityToken(Secret),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthFile {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Default, Deserialize)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
    registrytoken: Option<String>,
}

/// What a program answers.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperAnswer {
    username: String,
    secret: String,
}

/// Returns the login for a repository of the registry `server` (a host, with its port if it is not the usual one), and where it is from.
/// Problems with a file or a program are logged, and the next place is looked at.
pub(super) fn find(files: &[PathBuf], server: &str, repository: &str) -> Option<(RegistryCredential, String)> {
    files.iter().find_map(|path| {
        let file = match read(path) {
            Ok(file) => file?,
            Err(reason) => {
                tracing::warn!("no logins are taken from `{}`: {reason}", path.display());
                return None;
            }
        };
        let found = file.find(server, repository)?;
        Some((found, format!("`{}`", path.display())))
    })
}

/// The login in the bytes of a file, for fuzzing. Programs that the file names are not run.
#[cfg(fuzzing)]
pub(in crate::http) fn find_in_file(
    bytes: &[u8],
    server: &str,
    repository: &str,
) -> Option<Option<RegistryCredential>> {
    let file: AuthFile = serde_json::from_slice(bytes).ok()?;
    Some(AuthFile { cred_helpers: BTreeMap::new(), creds_store: None, ..file }.find(server, repository))
}

/// Returns the content of a file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<AuthFile>, String> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error.to_string()),
    };
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    // The message of the JSON library could show a part of a login.
    serde_json::from_slice(&bytes).map(Some).map_err(|error| {
        format!("line {}, column {}: it is not JSON of the expected form", error.line(), error.column())
    })
}

impl AuthFile {
    fn find(&self, server: &str, repository: &str) -> Option<RegistryCredential> {
        let names = names(server, repository);
        let helper = names.iter().find_map(|name| {
            let mut helpers = self.cred_helpers.iter();
            helpers.find(|(key, _)| normalized(key) == *name)
        });
        if let Some((key, helper)) = helper {
            // The helper has the login under the name that the file gives.
            return ask(helper, key);
        }
        let entry = names.iter().find_map(|name| {
            self.auths.iter().find(|(key, _)| normalized(key) == *name || *key == name).map(|(_, entry)| entry)
        });
        if let Some(found) = entry.and_then(Entry::credential) {
            return Some(found);
        }
        let store = self.creds_store.as_ref().filter(|store| !store.is_empty())?;
        // A store knows whole registries only.
        let server = names.last()?;
        ask(store, if server == "docker.io" { DOCKER_HUB } else { server })
    }
}

impl Entry {
    fn credential(&self) -> Option<RegistryCredential> {
        let is_set = |text: &&String| !text.is_empty();
        if let Some(token) = self.registrytoken.as_ref().filter(is_set) {
            return Some(RegistryCredential::Bearer(Secret::new(token)));
        }
        if let Some(token) = self.identitytoken.as_ref().filter(is_set) {
            return Some(RegistryCredential::IdentityToken(Secret::new(token)));
        }
        if let (Some(user), Some(password)) = (self.username.as_ref().filter(is_set), &self.password) {
            return Some(RegistryCredential::Basic {
                user: user.clone(),
                password: Secret::verbatim(password.clone()),
            });
        }
        let bytes = base64::engine::general_purpose::STANDARD.decode(self.auth.as_ref().filter(is_set)?.trim()).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        let (user, password) = text.trim_end_matches('\0').split_once(':')?;
        Some(RegistryCredential::Basic { user: user.to_owned(), password: Secret::verbatim(password.to_owned()) })
    }
}

/// The names under which the login may be, the most specific first: `host/a/b`, `host/a`, `host`.
fn names(server: &str, repository: &str) -> Vec<String> {
    let server = match server {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        server => server,
    };
    let mut names = Vec::new();
    let mut path = Some(repository);
    while let Some(prefix) = path.filter(|prefix| !prefix.is_empty()) {
        names.push(format!("{server}/{prefix}"));
        path = prefix.rsplit_once('/').map(|(parent, _)| parent);
    }
    names.push(server.to_owned());
    names
}

/// A key of a file as a registry and a path: Docker also writes URLs.
fn normalized(key: &str) -> String {
    if key == DOCKER_HUB {
        return "docker.io".to_owned();
    }
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let key = key.trim_end_matches('/');
    key.strip_suffix("/v1").or_else(|| key.strip_suffix("/v2")).unwrap_or(key).to_owned()
}

/// Asks the program `docker-credential-HELPER` for the login of `server`.
fn ask(helper: &str, server: &str) -> Option<RegistryCredential> {
    // The name is part of a program's name, and must not lead to another folder.
    if helper.is_empty()
        || !helper.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    {
        tracing::warn!("the name of a credential helper has characters that it cannot have");
        return None;
    }
    let program = format!("docker-credential-{helper}");
    match run(&program, server) {
        Ok(Some(answer)) if answer.username == "<token>" => {
            Some(RegistryCredential::IdentityToken(Secret::new(answer.secret)))
        }
        Ok(Some(answer)) => {
            Some(RegistryCredential::Basic { user: answer.username, password: Secret::verbatim(answer.secret) })
        }
        // The program has no login for the server, which may need none.
        Ok(None) => None,
        Err(reason) => {
            tracing::warn!("no login is taken from `{program}`: {reason}");
            None
        }
    }
}

/// Runs a program with `server` on its standard input, and reads its answer. `None` if the program has no login.
fn run(program: &str, server: &str) -> Result<Option<HelperAnswer>, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut child = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(text)?;
    if let Some(mut input) = child.stdin.take() {
        // A program that does not read its input still answers.
        let _ = input.write_all(server.as_bytes());
    }
    let output = child.stdout.take();
    let (sender, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = output.map(|output| output.take(MAX_BYTES).read_to_end(&mut bytes));
        let _ = sender.send(read.is_some_and(|read| read.is_ok()).then_some(bytes));
    });
    let started = Instant::now();
    let mut is_silent = true;
    let status = loop {
        match child.try_wait().map_err(text)? {
            Some(status) => break status,
            None if started.elapsed() >= LONGEST_WAIT => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not answer in {} s", LONGEST_WAIT.as_secs()));
            }
            None => {
                if is_silent && started.elapsed() >= PATIENCE {
                    tracing::warn!("waiting for `{program}` to give the login for `{server}`");
                    is_silent = false;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    };
    if !status.success() {
        return Ok(None);
    }
    // A process that the program left behind may keep its output open.
    let bytes = answer.recv_timeout(Duration::from_secs(1)).ok().flatten().unwrap_or_default();
    serde_json::from_slice(&bytes).map(Some).map_err(|_| "its answer is not of the expected form".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn basic(user: &str, password: &str) -> RegistryCredential {
        RegistryCredential::Basic { user: user.to_owned(), password: Secret::verbatim(password.to_owned()) }
    }

    fn parsed(text: &str) -> AuthFile {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_login_of_the_longest_prefix_is_used() {
        // `printf 'me:se:cret' | base64`, `printf 'team:x' | base64`.
        let file = parsed(
            r#"{"auths": {
                "example.com": {"auth": "bWU6c2U6Y3JldA=="},
                "example.com/team": {"auth": "dGVhbTp4"},
                "https://old.example/v1/": {"username": "u", "password": " p "},
                "https://index.docker.io/v1/": {"identitytoken": "t"},
                "empty.example": {},
                "bad.example": {"auth": "%%%"}
            }}"#,
        );
        let check = |server: &str, repository: &str, expected: Option<RegistryCredential>| {
            assert_eq!(file.find(server, repository), expected, "{server} {repository}");
        };
        check("example.com", "other/model", Some(basic("me", "se:cret")));
        check("example.com", "team/model", Some(basic("team", "x")));
        check("example.com", "team", Some(basic("team", "x")));
        check("example.com", "teams/model", Some(basic("me", "se:cret")));
        check("example.com:5000", "team", None);
        check("old.example", "a", Some(basic("u", " p ")));
        check("registry-1.docker.io", "library/a", Some(RegistryCredential::IdentityToken(Secret::new("t"))));
        check("empty.example", "a", None);
        check("bad.example", "a", None);
    }

    #[test]
    fn unusable_files_hold_no_login() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        assert!(read(&path).unwrap().is_none());
        std::fs::write(&path, r#"{"auths": {"a": {"auth": 12}}, "secret""#).unwrap();
        let reason = read(&path).map(drop).unwrap_err();
        assert!(reason.contains("not JSON of the expected form") && !reason.contains("secret"), "{reason}");
        assert!(find(&[path, folder.path().to_path_buf()], "a", "b").is_none());
    }

    #[test]
    fn helpers_that_cannot_be_run_have_no_login() {
        for text in [
            r#"{"credHelpers": {"a": "../../bin/sh"}}"#,
            r#"{"credHelpers": {"a": "missing-in-every-path"}}"#,
            r#"{"credsStore": "missing-in-every-path"}"#,
            r#"{"credsStore": ""}"#,
        ] {
            assert_eq!(parsed(text).find("a", "b"), None, "{text}");
        }
    }
}
