//! `carton sign` and `carton keygen`: make bundles, and the keys for them.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use carton_core::trust::{Certificate, PrivateKey, SigningIdentity, bundle_path};
use carton_core::{Carton, ManifestHash, Open};
use carton_tensor::files::PendingFile;
use serde::Serialize;

use super::{Context, open, set, trust};
use crate::args::{KeygenArgs, ModelArgs, SignArgs};
use crate::failure::{Exit, Failure};

/// The variable with the password of a private key.
const PASSWORD: &str = "CARTON_KEY_PASSWORD";

#[derive(Serialize)]
struct Signed {
    bundle: PathBuf,
    manifest_sha256: Option<ManifestHash>,
    /// The SHA-256 of the public key's PEM text.
    key: String,
    /// The names in the key's certificate.
    identities: Vec<String>,
}

#[derive(Serialize)]
struct Keys {
    private_key: PathBuf,
    public_key: PathBuf,
    /// The SHA-256 of the public key's PEM text.
    key: String,
    encrypted: bool,
}

/// `carton sign`.
pub(super) async fn run(arguments: SignArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let model = ModelArgs { path: arguments.path, expect: arguments.expect, ..ModelArgs::default() };
    let output = match arguments.output {
        Some(path) => path,
        None => beside(&model)?,
    };
    let identity = identity(&arguments.key, &arguments.certificates)?;
    let open = set(Carton::open(model.location()), model.expect, Open::expect_hash).config(context.config.clone());
    // Where a rule requires a bundle, this is what makes it.
    let package = open.require_signed(false).await.map_err(|error| open::unopened(error, &model.path))?;
    let Some(bundle) = package.sign(&identity) else {
        return Err(Failure::usage("only a carton can be signed, and this is a bare model"));
    };
    let unwritable = |error| Failure::new(format!("cannot write `{}`: {error}", output.display()));
    let file = PendingFile::new(&output).map_err(unwritable)?;
    file.file().write_all(&bundle).map_err(unwritable)?;
    file.publish().map_err(unwritable)?;
    let signed = Signed {
        manifest_sha256: package.manifest_sha256(),
        key: identity.key().public_key().fingerprint(),
        identities: identity.certificate().map(Certificate::names).unwrap_or_default(),
        bundle: output,
    };
    match context.output.is_json() {
        true => context.output.json(&signed)?,
        false => context.output.text(&format!("{}\n", signed.bundle.display()))?,
    }
    Ok(Exit::Ok)
}

/// `carton keygen`.
pub(super) fn keygen(arguments: &KeygenArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let key = PrivateKey::generate(arguments.curve.into()).map_err(Failure::new)?;
    let private = arguments.output.clone();
    let public = private.with_extension("pub.pem");
    let password = password();
    let private_pem = key.to_pem(password.as_deref()).map_err(Failure::new)?;
    // The public key is made again from the private one, and the private one from nothing: it is written first, and never replaced.
    create(&private, &private_pem, 0o600)?;
    if let Err(failure) = create(&public, &key.public_key().to_pem(), 0o644) {
        let _ = std::fs::remove_file(&private);
        return Err(failure);
    }
    let fingerprint = key.public_key().fingerprint();
    let keys = Keys { private_key: private, public_key: public, key: fingerprint, encrypted: password.is_some() };
    match context.output.is_json() {
        true => context.output.json(&keys)?,
        false => context.output.text(&format!(
            "private key: {}{}, keep it secret\npublic key:  {}, give it to who runs your models\n",
            keys.private_key.display(),
            if keys.encrypted { " (encrypted)" } else { "" },
            keys.public_key.display()
        ))?,
    }
    Ok(Exit::Ok)
}

/// Where the bundle of a carton on this machine belongs.
fn beside(model: &ModelArgs) -> Result<PathBuf, Failure> {
    let location = model.location();
    let Some(path) = location.path() else {
        return Err(Failure::usage("the carton is on a server: name the file to write").hint("-o FILE"));
    };
    Ok(bundle_path(path))
}

/// Who signs, by the arguments.
fn identity(key: &Path, certificates: &[PathBuf]) -> Result<SigningIdentity, Failure> {
    let text = match key.to_str().and_then(|key| key.strip_prefix("env:")) {
        Some(variable) => std::env::var(variable)
            .map_err(|_| Failure::usage(format!("the variable `{variable}`, which should have the key, is not set")))?,
        None => trust::read_text(key)?,
    };
    let unusable = |error| {
        let failure = Failure::usage(format!("`{}` is not a usable private key: {error}", key.display()));
        match error {
            carton_core::trust::KeyError::NoPassword => failure.hint(format!("set {PASSWORD}")),
            _ => failure,
        }
    };
    let key = PrivateKey::from_pem(&text, password().as_deref()).map_err(unusable)?;
    let mut chain = Vec::new();
    for path in certificates {
        let read = Certificate::from_pem(&trust::read_text(path)?);
        chain.extend(read.map_err(|error| Failure::usage(format!("cannot use `{}`: {error}", path.display())))?);
    }
    SigningIdentity::with_certificates(key, chain).map_err(Failure::usage)
}

fn password() -> Option<String> {
    std::env::var(PASSWORD).ok().filter(|password| !password.is_empty())
}

/// Creates a file with this text, and fails if there is one of this name.
fn create(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let unwritable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::usage(format!("`{}` exists already", path.display()))
            .hint("name another file with --output; a key is never replaced"),
        _ => Failure::new(format!("cannot write `{}`: {error}", path.display())),
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(unwritable)?;
    file.write_all(text.as_bytes()).map_err(|error| {
        let _ = std::fs::remove_file(path);
        unwritable(error)
    })
}
