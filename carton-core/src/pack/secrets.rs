//! Finds files of a model that hold secrets: by their names, and by the form of what is in small texts. What was found is named, and never
//! shown.
//!
//! The forms are those that their makers document for scanners: private keys in PEM, tokens with a fixed beginning and length, and passwords
//! in the URLs of files that configure packages. A secret without a form, such as a password in a program, is not found. The texts of the
//! metadata are searched in the same way.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use carton_format::metadata::{Draft, TensorSpec};
use memchr::memmem;

/// The largest file whose content is searched, in bytes. Texts that people write are smaller, and weights larger.
const MAX_SEARCHED: u64 = 1 << 20;
/// A NUL among so many first bytes shows that a file is no text.
const SNIFFED: usize = 8 << 10;

/// What is secret about a file or a text of the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Secret {
    /// The path in the model's folder, or the name of the text.
    pub(crate) path: String,
    /// What it is, such as `a private key`.
    pub(crate) what: &'static str,
    /// The line of the file, from 1; `None` if the name alone shows it.
    pub(crate) line: Option<usize>,
}

impl std::fmt::Display for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}`", self.path.escape_debug())?;
        match self.line {
            Some(line) => write!(f, ", line {line}: {}", self.what),
            None => write!(f, ": {}", self.what),
        }
    }
}

/// Returns the first secret of the file at `place`, which the user knows by the path `name`.
pub(super) fn of_file(name: &str, place: &Path) -> Option<Secret> {
    let found = |what, line| Some(Secret { path: name.to_owned(), what, line });
    // Behind a link, only the name of what it leads to may tell.
    if let Some(what) = of_name(name).or_else(|| of_name(&place.to_string_lossy())) {
        return found(what, None);
    }
    let text = small_text(place)?;
    let (at, what) = of_text(&text, configures_packages(name))?;
    let line = memchr::memchr_iter(b'\n', text.get(..at)?).count() + 1;
    found(what, Some(line))
}

/// Returns the secrets in the texts of the metadata: `env.NAME` for an environment variable, `opts.NAME` for an option of the runner, and the
/// keys of carton.toml for others.
pub(super) fn of_metadata(draft: &Draft) -> Vec<Secret> {
    let mut texts: Vec<(String, String)> = Vec::new();
    texts.extend(draft.env.iter().map(|(name, value)| (format!("env.{name}"), value.clone())));
    texts.extend(draft.opts.iter().map(|(name, value)| {
        (format!("opts.{name}"), value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    }));
    let fields = [
        ("model_name", &draft.model_name),
        ("short_description", &draft.short_description),
        ("model_description", &draft.model_description),
        ("license", &draft.license),
        ("repository", &draft.repository),
        ("homepage", &draft.homepage),
    ];
    texts.extend(fields.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text.clone()?))));
    for (list, specs) in [("input", &draft.inputs), ("output", &draft.outputs)] {
        let described = |spec: &TensorSpec| Some((format!("{list}.{}", spec.name), spec.description.clone()?));
        texts.extend(specs.iter().flatten().filter_map(described));
    }
    texts.extend(draft.self_tests.iter().filter_map(|test| Some(("self_test".to_owned(), test.description.clone()?))));
    texts.extend(draft.examples.iter().filter_map(|one| Some(("example".to_owned(), one.description.clone()?))));
    texts.extend(serde_json::to_string(&draft.card).map(|text| ("card".to_owned(), text)));
    let secret = |(path, text): (String, String)| {
        let (_, what) = of_text(text.as_bytes(), true)?;
        Some(Secret { path, what, line: None })
    };
    texts.into_iter().filter_map(secret).collect()
}

/// Judges a file by its name alone.
fn of_name(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let is_sample = ["example", "sample", "template", "dist"].iter().any(|word| name.ends_with(word));
    match name.as_str() {
        ".env" => Some("environment variables"),
        _ if name.starts_with(".env.") && !is_sample => Some("environment variables"),
        "id_rsa" | "id_dsa" | "id_ecdsa" | "id_ed25519" | "id_ecdsa_sk" | "id_ed25519_sk" => Some("a private key"),
        ".netrc" | "_netrc" | ".pypirc" | ".npmrc" | ".git-credentials" | ".pgpass" | ".my.cnf" | ".htpasswd" => {
            Some("logins of servers")
        }
        ".dockercfg" | ".dockerconfigjson" => Some("logins of registries"),
        _ if path.ends_with(".aws/credentials") || path.ends_with(".docker/config.json") => Some("logins of servers"),
        _ => match name.rsplit_once('.')?.1 {
            "kdbx" => Some("a database of passwords"),
            "p12" | "pfx" | "jks" | "keystore" => Some("a store of private keys"),
            "ppk" => Some("a private key"),
            _ => None,
        },
    }
}

/// Whether files of this name tell where packages come from, so that their URLs may have passwords.
fn configures_packages(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    (name.contains("requirements") || name.contains("constraints")) && matches!(extension, "txt" | "in")
        || matches!(extension, "toml" | "lock" | "cfg" | "ini" | "conf" | "yaml" | "yml")
}

/// Reads a text of at most 1 MiB. `None` for larger files, others than texts, and such as cannot be read, which packing reports.
fn small_text(place: &Path) -> Option<Vec<u8>> {
    let file = File::open(place).ok()?;
    if file.metadata().ok()?.len() > MAX_SEARCHED {
        return None;
    }
    let mut text = Vec::new();
    file.take(MAX_SEARCHED).read_to_end(&mut text).ok()?;
    match text.as_slice() {
        [0xff, 0xfe, rest @ ..] => return Some(of_utf16(rest, u16::from_le_bytes)),
        [0xfe, 0xff, rest @ ..] => return Some(of_utf16(rest, u16::from_be_bytes)),
        _ => (),
    }
    let sniffed = text.get(..SNIFFED).unwrap_or(&text);
    memchr::memchr(0, sniffed).is_none().then_some(text)
}

/// Returns the UTF-8 of a text that Windows wrote.
fn of_utf16(text: &[u8], unit: fn([u8; 2]) -> u16) -> Vec<u8> {
    let units: Vec<u16> = text.as_chunks().0.iter().map(|pair| unit(*pair)).collect();
    String::from_utf16_lossy(&units).into_bytes()
}

/// A token: how it begins, at least how many characters follow, and which.
struct Token {
    start: &'static str,
    n_following: usize,
    follows: fn(u8) -> bool,
    what: &'static str,
}

const fn token(start: &'static str, n_following: usize, follows: fn(u8) -> bool, what: &'static str) -> Token {
    Token { start, n_following, follows, what }
}

/// The tokens of services that people who make models use.
const TOKENS: [Token; 24] = [
    token("hf_", 30, is_alphanumeric, "a token of Hugging Face"),
    token("ghp_", 36, is_alphanumeric, "a token of GitHub"),
    token("gho_", 36, is_alphanumeric, "a token of GitHub"),
    token("ghu_", 36, is_alphanumeric, "a token of GitHub"),
    token("ghs_", 36, is_alphanumeric, "a token of GitHub"),
    token("ghr_", 36, is_alphanumeric, "a token of GitHub"),
    token("github_pat_", 40, is_word, "a token of GitHub"),
    token("glpat-", 20, is_word, "a token of GitLab"),
    token("AKIA", 16, is_upper_or_digit, "an access key of AWS"),
    token("ASIA", 16, is_upper_or_digit, "an access key of AWS"),
    token("xoxb-", 20, is_word, "a token of Slack"),
    token("xoxp-", 20, is_word, "a token of Slack"),
    token("xoxa-", 20, is_word, "a token of Slack"),
    token("AIza", 35, is_word, "an API key of Google"),
    token("GOCSPX-", 28, is_word, "a client secret of Google"),
    token("pypi-AgE", 50, is_word, "a token of PyPI"),
    token("npm_", 36, is_alphanumeric, "a token of npm"),
    token("dckr_pat_", 27, is_word, "a token of Docker"),
    token("sk-ant-", 40, is_word, "an API key of Anthropic"),
    token("sk-proj-", 40, is_word, "an API key of OpenAI"),
    token("nvapi-", 40, is_word, "an API key of NVIDIA"),
    token("wandb_v1_", 30, is_word, "an API key of Weights & Biases"),
    token("AccountKey=", 80, is_base64, "an account key of Azure"),
    token("dapi", 32, is_hexadecimal, "a token of Databricks"),
];

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_upper_or_digit(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

fn is_hexadecimal(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

/// Returns where the first secret of a text is, and what it is.
fn of_text(text: &[u8], has_package_urls: bool) -> Option<(usize, &'static str)> {
    let key = private_key(text).map(|at| (at, "a private key"));
    let tokens = TOKENS.iter().filter_map(|token| Some((token.find(text)?, token.what)));
    let password = has_package_urls.then(|| password_in_url(text)).flatten().map(|at| (at, "a password in a URL"));
    key.into_iter().chain(tokens).chain(password).min_by_key(|(at, _)| *at)
}

impl Token {
    fn find(&self, text: &[u8]) -> Option<usize> {
        memmem::find_iter(text, self.start).find(|&at| {
            let before = &text[..at];
            // A letter behind a back slash is an escape, as in JSON.
            let is_escape = matches!(before, [.., b'\\', b'n' | b'r' | b't']);
            let is_alone = is_escape || !before.last().is_some_and(|byte| is_word(*byte));
            let following = text.get(at + self.start.len()..).unwrap_or_default();
            is_alone && following.iter().take_while(|&&byte| (self.follows)(byte)).count() >= self.n_following
        })
    }
}

/// Finds the header of a private key in PEM (RFC 7468, and OpenSSH's) or of OpenPGP's (RFC 9580, section 6.2) that a key follows. Line ends
/// may be escaped, as in JSON.
fn private_key(text: &[u8]) -> Option<usize> {
    const BEGIN: &[u8] = b"-----BEGIN ";
    const ENDS: [&[u8]; 2] = [b"PRIVATE KEY-----", b"PRIVATE KEY BLOCK-----"];
    memmem::find_iter(text, BEGIN).find(|&at| {
        let label = &text[at + BEGIN.len()..];
        let label = &label[..label.len().min(MAX_LABEL)];
        ENDS.iter().any(|end| {
            memmem::find(label, end).is_some_and(|before| {
                let is_label = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b' ';
                let body = &text[at + BEGIN.len() + before + end.len()..];
                label[..before].iter().all(is_label) && has_base64(&body[..body.len().min(MAX_BEFORE_KEY)])
            })
        })
    })
}

/// The longest label of a key, in bytes: `ENCRYPTED PRIVATE KEY` has 21.
const MAX_LABEL: usize = 64;
/// Where the first line of the key is at the latest, in bytes behind its header: lines such as `Proc-Type` may come before.
const MAX_BEFORE_KEY: usize = 4 << 10;

/// Whether there is a line of a key: 32 characters of base64 or more, which the documentation of keys does not have.
fn has_base64(text: &[u8]) -> bool {
    text.split(|byte| !is_base64(*byte)).any(|run| run.len() >= 32)
}

/// Finds `://USER:PASSWORD@` whose password is no placeholder.
fn password_in_url(text: &[u8]) -> Option<usize> {
    memmem::find_iter(text, b"://").find(|&at| {
        let rest = &text[at + 3..];
        let end = rest
            .iter()
            .position(|&byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'"' | b'\'' | b'?' | b'#'));
        let authority = &rest[..end.unwrap_or(rest.len())];
        let Some(user) = memchr::memrchr(b'@', authority).map(|at| &authority[..at]) else { return false };
        let Some(password) = memchr::memchr(b':', user).map(|at| &user[at + 1..]) else { return false };
        !password.is_empty() && !is_placeholder(password)
    })
}

/// Whether a password is one that a program or a person fills in: `${NAME}`, `$NAME`, `{name}`, `<password>`, `[password]`, `%(name)s`, `%NAME%`,
/// `***`.
fn is_placeholder(password: &[u8]) -> bool {
    match password {
        [b'$' | b'{' | b'<' | b'[', ..] | [b'%', b'(', ..] => true,
        [b'%', name @ .., b'%'] => name.iter().all(|byte| is_word(*byte)),
        _ => password.iter().all(|byte| *byte == b'*'),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn names_tell() {
        for name in [
            ".env",
            "a/.env.production",
            "id_rsa",
            "keys/id_ed25519",
            ".netrc",
            "store.p12",
            "a.kdbx",
            ".aws/credentials",
        ] {
            assert!(of_name(name).is_some(), "{name}");
        }
        for name in [
            ".env.example",
            ".env.sample",
            "env",
            "environment.yml",
            "id_rsa.pub",
            "netrc.md",
            "model.bin",
            "p12",
            "credentials",
        ] {
            assert_eq!(of_name(name), None, "{name}");
        }
    }

    #[test]
    fn forms_tell() {
        let check = |text: &str, expected: Option<(usize, &'static str)>| {
            assert_eq!(of_text(text.as_bytes(), true), expected, "{text}");
        };
        let token = format!("hf_{}", "aB3".repeat(11));
        check(&format!("token = \"{token}\""), Some((9, "a token of Hugging Face")));
        check(&format!("the_{token}"), None);
        check("hf_hub_download(repo)", None);
        check(&format!("ghp_{}", "a".repeat(36)), Some((0, "a token of GitHub")));
        check(&format!("ghp_{}", "a".repeat(35)), None);
        check("AKIAIOSFODNN7EXAMPLE", Some((0, "an access key of AWS")));
        check("MAKIAIOSFODNN7EXAMPLE", None);
        let key = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC".repeat(2);
        let private = Some((2, "a private key"));
        check(&format!("x\n-----BEGIN RSA PRIVATE KEY-----\r\n{key}"), private);
        check(&format!("{{\"-----BEGIN PRIVATE KEY-----\\n{key}\\n\"}}"), private);
        check(&format!("x\n-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{key}"), private);
        check(&format!("x\n-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{key}"), private);
        check(&format!("-----BEGIN PUBLIC KEY-----\n{key}"), None);
        check("-----BEGIN PRIVATE KEY-----\n(the key)\n-----END PRIVATE KEY-----", None);
        check("-----BEGIN PRIVATE KEY-----", None);
        check("-----BEGIN CERTIFICATE-----\nMIIE", None);
        check("--index-url https://user:secret@host/simple", Some((17, "a password in a URL")));
        check("https://user:${PASSWORD}@host/simple https://user@host http://host:80/a@b", None);
        check("https://u:%(password)s@h https://u:%PASSWORD%@h https://u:***@h https://u:<password>@h", None);
        check("https://u:se%40cret$@h", Some((5, "a password in a URL")));
        check(&format!("\"a\\n{token}\""), Some((4, "a token of Hugging Face")));
        assert_eq!(of_text(b"https://user:secret@host/", false), None);
    }

    #[test]
    fn secrets_are_found_in_small_texts_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let check = |name: &str, content: &[u8], expected: Option<&str>| {
            let place = folder.path().join(name.replace('/', "_"));
            std::fs::write(&place, content).unwrap();
            assert_eq!(of_file(name, &place).map(|secret| secret.to_string()).as_deref(), expected);
        };
        let key = b"# a\n# b\nKEY = 'AKIAIOSFODNN7EXAMPLE'\n";
        check("config.py", key, Some("`config.py`, line 3: an access key of AWS"));
        check(".env", b"A=1", Some("`.env`: environment variables"));
        check("weights.bin", &[&[0_u8, 1], key.as_slice()].concat(), None);
        check("large.txt", &[key.as_slice(), &vec![b' '; MAX_SEARCHED as usize]].concat(), None);
        check(
            "requirements.txt",
            b"numpy\n--extra-index-url http://u:pw@h/s\n",
            Some("`requirements.txt`, line 2: a password in a URL"),
        );
        check("notes.md", b"http://u:pw@h/s", None);
        let text: String = String::from_utf8(key.to_vec()).unwrap();
        let of_windows: Vec<u8> = [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        check("of_windows.txt", &of_windows, Some("`of_windows.txt`, line 3: an access key of AWS"));
        let place = folder.path().join(".env");
        let found = of_file("settings", &place).map(|secret| secret.to_string());
        assert_eq!(found.as_deref(), Some("`settings`: environment variables"));
    }

    #[test]
    fn secrets_are_found_in_texts_of_the_metadata() {
        let draft = Draft::parse(
            "homepage = 'https://u:pw@h'\n[runner.opts]\nkeys = ['AKIAIOSFODNN7EXAMPLE']\n[card]\nlimitations = 'https://u:pw@h'\n",
        );
        let found: Vec<String> = of_metadata(&draft.unwrap()).iter().map(ToString::to_string).collect();
        let expected =
            ["`opts.keys`: an access key of AWS", "`homepage`: a password in a URL", "`card`: a password in a URL"];
        assert_eq!(found, expected);
    }
}
