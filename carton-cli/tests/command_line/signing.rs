//! Signatures: keys, signing, whom a user trusts, and the stock tool for signatures of models beside ours.

use std::fs;
use std::path::Path;
use std::process::Command;

use carton_test_server::nginx::Nginx;
use insta::assert_snapshot;

use crate::runners::install_script;
use crate::sandbox::{Outcome, Sandbox};

/// A sandbox with `model.carton`, a key in `key.pem` and `key.pub.pem`, and another in `other.pem`.
fn prepared() -> Sandbox {
    let sandbox = Sandbox::new();
    pack(&sandbox, "model", "weights");
    sandbox.carton("keygen -o key.pem").expect_code(0);
    sandbox.carton("keygen -o other.pem --curve p384").expect_code(0);
    sandbox
}

fn pack(sandbox: &Sandbox, name: &str, content: &str) {
    sandbox.write(&format!("{name}/weights.bin"), content);
    sandbox.carton(&format!("pack {name} --runner noop")).expect_code(0);
}

/// Expects that a carton is refused because of its signature, with this text.
fn refused(outcome: Outcome, text: &str) {
    let outcome = outcome.expect_code(4);
    assert!(outcome.stderr.contains(text), "expected `{text}`: {outcome}");
}

/// Changes the signature of `model.carton`.
fn changed(sandbox: &Sandbox, change: impl FnOnce(&mut serde_json::Value)) {
    let path = sandbox.work().join("model.carton.sig");
    let mut bundle = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut bundle);
    fs::write(path, bundle.to_string()).unwrap();
}

#[test]
fn a_carton_is_signed_and_used_by_its_key_alone() {
    let sandbox = prepared();
    assert_snapshot!(sandbox.carton("sign model.carton --key key.pem"), @"
    exit code: 0
    ----- stdout -----
    model.carton.sig
    ----- stderr -----
    ");
    for command in ["verify", "info", "ls", "hash"] {
        sandbox.carton(&format!("{command} model.carton --key key.pub.pem")).expect_code(0);
        refused(sandbox.carton(&format!("{command} model.carton --key other.pub.pem")), "by no trusted key");
    }
    sandbox.carton("run model.carton -i x=1 --key key.pub.pem").expect_code(0);
    sandbox.carton("run model.carton -i x=1 --key other.pub.pem --key key.pub.pem").expect_code(0);
    refused(sandbox.carton("run model.carton -i x=1 --key other.pub.pem"), "by no trusted key");
    let error = sandbox.carton("run model.carton -i x=1 --key other.pub.pem --json").expect_code(4).json();
    assert_eq!(error["error"]["kind"], "untrusted");
    let status = |arguments: &str| {
        let info = sandbox.carton(&format!("info model.carton --json{arguments}")).expect_code(0).json();
        info["signing"]["status"].as_str().unwrap().to_owned()
    };
    assert_eq!((status(""), status(" --key key.pub.pem")), ("untrusted".to_owned(), "trusted".to_owned()));
    // The same key signs the same carton with the same bytes.
    let first = fs::read(sandbox.work().join("model.carton.sig")).unwrap();
    sandbox.carton("sign model.carton --key key.pem").expect_code(0);
    assert_eq!(fs::read(sandbox.work().join("model.carton.sig")).unwrap(), first);
    fs::remove_file(sandbox.work().join("model.carton.sig")).unwrap();
    refused(sandbox.carton("run model.carton -i x=1 --key key.pub.pem"), "there is no `model.carton.sig`");
    assert_eq!(status(""), "unsigned");
}

#[test]
fn a_bundle_holds_for_a_carton_in_every_shape() {
    let sandbox = prepared();
    sandbox.carton("sign model.carton --key key.pem").expect_code(0);
    sandbox.carton("unpack model.carton -o folder").expect_code(0);
    let shrink =
        "shrink model.carton --url-prefix https://example.com/ --min-size 1 --save-files files -o small.carton";
    sandbox.carton(shrink).expect_code(0);
    for carton in ["folder", "folder/", "small.carton"] {
        sandbox.carton(&format!("info {carton} --key key.pub.pem --bundle model.carton.sig")).expect_code(0);
    }
    // Beside a folder, the signature has the folder's name.
    fs::copy(sandbox.work().join("model.carton.sig"), sandbox.work().join("folder.sig")).unwrap();
    sandbox.carton("info folder/ --key key.pub.pem").expect_code(0);
    // A changed file is found by the hash that is signed.
    fs::write(sandbox.work().join("folder/model/weights.bin"), "changed").unwrap();
    sandbox.carton("verify folder --key key.pub.pem").expect_code(4);
}

#[test]
fn wrong_bundles_are_refused() {
    let sandbox = prepared();
    pack(&sandbox, "second", "other weights");
    let sign = || sandbox.carton("sign model.carton --key key.pem").expect_code(0);
    let check = |change: &dyn Fn(&mut serde_json::Value), text: &str| {
        sign();
        changed(&sandbox, change);
        refused(sandbox.carton("run model.carton -i x=1 --key key.pub.pem"), text);
    };
    let envelope = "/dsseEnvelope";
    check(&|bundle| bundle["mediaType"] = "text/plain".into(), "bundle of the type `text/plain`");
    check(&|bundle| drop(bundle.as_object_mut().unwrap().remove("dsseEnvelope")), "not a Sigstore bundle");
    check(
        &|bundle| {
            let signatures = bundle.pointer_mut(&format!("{envelope}/signatures")).unwrap().as_array_mut().unwrap();
            signatures.push(signatures[0].clone());
        },
        "holds 2 signatures, expected 1",
    );
    check(&|bundle| bundle["dsseEnvelope"]["signatures"][0]["sig"] = "AAAA".into(), "by no trusted key");
    check(&|bundle| bundle["dsseEnvelope"]["payloadType"] = "text/plain".into(), "payload type `text/plain`");
    check(&|bundle| bundle["dsseEnvelope"]["payload"] = "e30=".into(), "what was signed is malformed");
    check(&|bundle| bundle["verificationMaterial"] = serde_json::json!({}), "must name one of");
    // Nothing but the signed bytes decides: the hint may name any key.
    sign();
    changed(&sandbox, |bundle| bundle["verificationMaterial"]["publicKey"]["hint"] = "0".repeat(64).into());
    sandbox.carton("run model.carton -i x=1 --key key.pub.pem").expect_code(0);
    changed(&sandbox, |bundle| bundle["note"] = "nobody signed this".into());
    sandbox.carton("run model.carton -i x=1 --key key.pub.pem").expect_code(0);
    // That of another carton, and of the same one before it changed.
    sandbox.carton("sign second.carton --key key.pem -o model.carton.sig").expect_code(0);
    refused(sandbox.carton("run model.carton -i x=1 --key key.pub.pem"), "is for another carton");
    let broken = sandbox.carton("verify model.carton").expect_code(4);
    assert!(broken.stdout.contains("SIGNED broken: the bundle is for another carton"), "{broken}");
    sandbox.write("model.carton.sig", vec![b' '; 3 << 20]);
    refused(sandbox.carton("run model.carton -i x=1 --key key.pub.pem"), "the bundle is too large");
}

#[test]
fn rules_say_who_may_sign_what() {
    let sandbox = prepared();
    let work = sandbox.work().canonicalize().unwrap();
    let rules = |text: &str| sandbox.write("config.toml", text.replace("WORK", work.to_str().unwrap()));
    let run = || sandbox.carton("run model.carton -i x=1 --config config.toml");
    rules("[[trust]]\nfor = [\"WORK/**\"]\nkeys = [\"key.pub.pem\"]\n");
    refused(run(), "`model.carton` is not signed, and must be");
    refused(sandbox.carton("unpack model.carton -o out --config config.toml"), "is not signed");
    assert!(!work.join("out").exists());
    // A rule does not keep a carton from being signed, nor does a hash in its place.
    sandbox.carton("sign model.carton --key key.pem --config config.toml").expect_code(0);
    run().expect_code(0);
    fs::remove_file(work.join("model.carton.sig")).unwrap();
    let hash = sandbox.carton("hash model.carton").expect_code(0).stdout.trim().to_owned();
    refused(sandbox.carton(&format!("run model.carton -i x=1 --config config.toml --expect {hash}")), "is not signed");
    // Neither does another way to name the carton, or to load the model.
    std::os::unix::fs::symlink(&work, work.with_file_name("link")).unwrap();
    refused(sandbox.run(["info", "../link/model.carton", "--config", "config.toml"]), "is not signed");
    refused(
        sandbox.carton("run model --runner noop -i x=1 --config config.toml"),
        "is not a carton, so it cannot be signed",
    );
    // The first rule that fits decides.
    rules(
        "[[trust]]\nfor = [\"WORK/*.carton\"]\nrequire = false\n[[trust]]\nfor = [\"**\"]\nkeys = [\"key.pub.pem\"]\n",
    );
    run().expect_code(0);
    refused(
        sandbox.carton("run model.carton -i x=1 --require-signed --key key.pub.pem --config config.toml"),
        "is not signed",
    );
    let bad = |text: &str, reason: &str| {
        rules(text);
        let outcome = sandbox.carton("info model.carton --config config.toml").expect_code(1);
        assert!(outcome.stderr.contains(reason), "{outcome}");
    };
    bad("[[trust]]\nfor = []\nkeys = [\"key.pub.pem\"]\n", "`for` must name at least one place");
    bad("[[trust]]\nfor = [\"models/**\"]\nkeys = [\"key.pub.pem\"]\n", "expected a URL or an absolute path");
    bad("[[trust]]\nfor = [\"**\"]\n", "expected whom to trust");
    bad("[[trust]]\nfor = [\"**\"]\ncertificates = [\"ca.pem\"]\n", "needs `identities`");
    bad("[[trust]]\nfor = [\"**\"]\nidentities = [\"me\"]\n", "`identities` needs `certificates` or `trusted_root`");
    let keyless = "[[trust]]\nfor = [\"**\"]\ntrusted_root = \"root.json\"\n";
    bad(keyless, "`trusted_root` needs `identities`");
    bad(&format!("{keyless}identities = [\"me\"]\n"), "`trusted_root` needs `issuer`");
    bad("[[trust]]\nfor = [\"**\"]\nkeys = [\"a\"]\nissuer = \"https://a\"\n", "`issuer` needs `trusted_root`");
    rules(&format!("{keyless}identities = [\"me\"]\nissuer = \"https://a\"\n"));
    sandbox.write("root.json", "{}");
    let outcome = sandbox.carton("info model.carton --config config.toml").expect_code(1);
    assert!(outcome.stderr.contains("root.json`, which a trust rule names, is not a usable trusted root"), "{outcome}");
    rules("[[trust]]\nfor = [\"**\"]\nkeys = [\"none.pem\"]\n");
    let outcome = sandbox.carton("info model.carton --config config.toml").expect_code(1);
    assert!(outcome.stderr.contains("none.pem`, which a trust rule names"), "{outcome}");
    let outcome = sandbox.carton("info model.carton --require-signed").expect_code(1);
    assert!(outcome.stderr.contains("no key, certificate or identity is trusted"), "{outcome}");
    assert!(outcome.stderr.contains("hint: name whom you trust: `--key PUB.pem`"), "{outcome}");
}

#[test]
fn keys_are_never_replaced() {
    let sandbox = prepared();
    let key = fs::read(sandbox.work().join("key.pem")).unwrap();
    let outcome = sandbox.carton("keygen -o key.pem").expect_code(2);
    assert!(outcome.stderr.contains("`key.pem` exists already"), "{outcome}");
    assert_eq!(fs::read(sandbox.work().join("key.pem")).unwrap(), key);
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(sandbox.work().join("key.pem")).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let encrypted = |arguments: &str, password: &str| {
        crate::sandbox::outcome(sandbox.command(arguments.split(' ')).env("CARTON_KEY_PASSWORD", password))
    };
    encrypted("keygen -o safe.pem", "secret").expect_code(0);
    assert!(fs::read_to_string(sandbox.work().join("safe.pem")).unwrap().contains("ENCRYPTED"));
    encrypted("sign model.carton --key safe.pem", "secret").expect_code(0);
    let wrong = encrypted("sign model.carton --key safe.pem", "wrong").expect_code(2);
    assert!(wrong.stderr.contains("the password is wrong"), "{wrong}");
    assert!(sandbox.carton("sign model.carton --key safe.pem").expect_code(2).stderr.contains("CARTON_KEY_PASSWORD"));
    let from_variable = crate::sandbox::outcome(
        sandbox
            .command("sign model.carton --key env:SIGNING_KEY".split(' '))
            .env("SIGNING_KEY", String::from_utf8(key).unwrap()),
    );
    from_variable.expect_code(0);
    sandbox.carton("verify model.carton --key key.pub.pem").expect_code(0);
}

#[test]
fn bundles_on_servers_are_found_and_kept() {
    let sandbox = prepared();
    let Some(nginx) = Nginx::start("") else { return };
    let served = nginx.root().join("model.carton");
    fs::copy(sandbox.work().join("model.carton"), &served).unwrap();
    let url = nginx.url("model.carton");
    let run = |more: &str| sandbox.carton(&format!("run {url} -i x=1 --key key.pub.pem{more}"));
    refused(run(""), "is not signed");
    sandbox.run(["sign", served.to_str().unwrap(), "--key", "other.pem"]).expect_code(0);
    refused(run(""), "by no trusted key");
    sandbox.run(["sign", served.to_str().unwrap(), "--key", "key.pem"]).expect_code(0);
    refused(run(" --offline"), "is not signed");
    run("").expect_code(0);
    // The signature that was accepted says the same of the same carton, without the server.
    fs::remove_file(nginx.root().join("model.carton.sig")).unwrap();
    run("").expect_code(0);
    run(" --offline").expect_code(0);
    refused(sandbox.carton(&format!("run {url} -i x=1 --key other.pub.pem --offline")), "is not signed");
}

/// A signature says who, not which.
#[test]
fn an_older_carton_is_refused_by_its_hash_alone() {
    let sandbox = prepared();
    pack(&sandbox, "newer", "better weights");
    for carton in ["model", "newer"] {
        sandbox.carton(&format!("sign {carton}.carton --key key.pem")).expect_code(0);
    }
    let hash = |carton: &str| sandbox.carton(&format!("hash {carton}.carton")).expect_code(0).stdout.trim().to_owned();
    let (older, newer) = (hash("model"), hash("newer"));
    let run = |more: &str| sandbox.carton(&format!("run newer.carton{more} -i x=1 --key key.pub.pem"));
    run(&format!("#sha256={newer}")).expect_code(0);
    for file in ["carton", "carton.sig"] {
        fs::rename(sandbox.work().join(format!("model.{file}")), sandbox.work().join(format!("newer.{file}"))).unwrap();
    }
    run("").expect_code(0);
    for outcome in [run(&format!("#sha256={newer}")), run(&format!(" --expect {newer}"))] {
        refused(outcome, &older);
    }
}

/// Whatever is wrong with a required signature, no runner starts, and no file of the model is fetched: on this machine, from a server, and
/// from the cache.
#[test]
fn a_refused_carton_reaches_no_runner() {
    let sandbox = prepared();
    let Some(stock) = Stock::prepare(&sandbox) else { return };
    let Some(nginx) = Nginx::start("") else { return };
    drop(stock);
    let work = sandbox.work();
    let started = work.join("started");
    install_script(&sandbox, "marker", 2, &format!("touch '{}'", started.display()));
    // Larger than what is fetched to open a carton.
    let weights: Vec<u8> = (0..1_u32 << 20).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    sandbox.write("large/weights.bin", weights);
    sandbox.carton("pack large --runner noop").expect_code(0);
    for name in ["good", "expired", "somebody", "server"] {
        let certificates = format!("--certificates {name}.pem --certificates intermediate.pem");
        sandbox.carton(&format!("sign large.carton --key {name}.key {certificates} -o {name}.sig")).expect_code(0);
    }
    sandbox.carton("sign model.carton --key good.key --certificates good.pem -o other.sig").expect_code(0);
    let rule = "[[trust]]\nfor = [\"**\"]\ncertificates = [\"ca.pem\"]\nidentities = [\"release@example.com\"]\n";
    sandbox.write("config.toml", rule);
    fs::copy(work.join("large.carton"), nginx.root().join("large.carton")).unwrap();
    let url = nginx.url("large.carton");
    let marker = "--runner marker --framework-version 1 --config config.toml";
    let run = |model: &str| sandbox.carton(&format!("run {model} -i x=1 {marker} --sandbox off"));
    let bad = [
        (None, "is not signed"),
        (Some("other"), "is for another carton"),
        (Some("expired"), "expired at"),
        (Some("somebody"), "who is not trusted"),
        (Some("server"), "lacks `codeSigning`"),
    ];
    let put = |signature: Option<&str>, place: &Path| match signature {
        Some(name) => assert!(fs::copy(work.join(format!("{name}.sig")), place).is_ok()),
        None => drop(fs::remove_file(place)),
    };
    let (beside, served) = (work.join("large.carton.sig"), nginx.root().join("large.carton.sig"));
    for (signature, text) in bad {
        put(signature, &beside);
        put(signature, &served);
        refused(run("large.carton"), text);
        refused(run(&url), text);
    }
    let fetched: u64 = nginx.requests_for("/large.carton").iter().map(|request| request.body_bytes).sum();
    assert!(fetched < 1 << 19, "{fetched} bytes were fetched");
    assert!(!started.exists());
    // With a good signature it starts, which shows that the above can fail.
    put(Some("good"), &served);
    assert_ne!(run(&url).code, 4);
    assert!(started.exists());
    fs::remove_file(&started).unwrap();
    let kept = file_named("signature", &work.with_file_name("cache")).unwrap();
    assert_ne!(run(&format!("{url} --offline")).code, 4);
    assert!(started.exists());
    fs::remove_file(&started).unwrap();
    // What is in the cache is verified each time, and its files and its signature are of no use to a carton that is refused.
    for (signature, text) in bad {
        put(signature, &served);
        put(signature, &kept);
        refused(run(&url), text);
        refused(run(&format!("{url} --offline")), "is not signed");
    }
    assert!(!started.exists());
}

/// The first file of this name below a folder.
fn file_named(name: &str, folder: &Path) -> Option<std::path::PathBuf> {
    let mut paths = fs::read_dir(folder).ok()?.map(|entry| entry.unwrap().path());
    paths.find_map(|path| match path.is_dir() {
        true => file_named(name, &path),
        false => (path.file_name()? == name).then_some(path),
    })
}

/// A folder of keys and certificates, and the Python that has the stock tool.
struct Stock {
    python: std::ffi::OsString,
}

impl Stock {
    fn prepare(sandbox: &Sandbox) -> Option<Self> {
        let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
            eprintln!("skipped: CARTON_TEST_PYTHON names no Python with model-signing (scripts/test-setup)");
            return None;
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/python/make_certificates.py");
        let made = Command::new(&python).arg(script).arg(sandbox.work()).status().unwrap();
        assert!(made.success());
        Some(Self { python })
    }

    /// Runs the stock tool; whether it succeeded.
    fn run(&self, sandbox: &Sandbox, arguments: &str) -> bool {
        let mut command = Command::new(&self.python);
        command.args(["-m", "model_signing"]).args(arguments.split(' ')).current_dir(sandbox.work());
        let output = command.output().unwrap();
        eprintln!("{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        output.status.success()
    }
}

#[test]
fn the_stock_tool_verifies_what_is_signed_and_the_reverse() {
    let sandbox = prepared();
    let Some(stock) = Stock::prepare(&sandbox) else { return };
    sandbox.carton("unpack model.carton -o folder").expect_code(0);
    for key in ["p256", "p384", "sec1"] {
        sandbox.carton(&format!("sign model.carton --key {key}.key -o ours.sig")).expect_code(0);
        let verify = format!("verify key folder --signature ours.sig --public_key {key}.pub");
        assert!(stock.run(&sandbox, &verify), "{key}");
        assert!(!stock.run(&sandbox, "verify key folder --signature ours.sig --public_key stranger.pub"));
        assert!(stock.run(&sandbox, &format!("sign key folder --signature theirs.sig --private_key {key}.key")));
        sandbox.carton(&format!("info model.carton --bundle theirs.sig --key {key}.pub")).expect_code(0);
        refused(sandbox.carton("info model.carton --bundle theirs.sig --key stranger.pub"), "by no trusted key");
    }
    let sign = ["sign", "model.carton", "--key", "encrypted.key", "-o", "ours.sig"];
    crate::sandbox::outcome(sandbox.command(sign).env("CARTON_KEY_PASSWORD", "secret")).expect_code(0);
    assert!(stock.run(&sandbox, "verify key folder --signature ours.sig --public_key encrypted.pub"));
    for weak in ["p224", "secp256k1", "p521"] {
        let outcome = sandbox.carton(&format!("sign model.carton --key {weak}.key")).expect_code(2);
        assert!(outcome.stderr.contains("not on one of the curves P-256 and P-384"), "{outcome}");
        sandbox.carton(&format!("info model.carton --key {weak}.pub")).expect_code(2);
    }
    // A signature of the folder without one of its files, and one with a file more.
    fs::write(sandbox.work().join("folder/extra"), "").unwrap();
    assert!(stock.run(&sandbox, "sign key folder --signature more.sig --private_key p256.key"));
    refused(sandbox.carton("info model.carton --bundle more.sig --key p256.pub"), "it covers `extra`, which is not");
    assert!(!stock.run(&sandbox, "verify key folder --signature ours.sig --public_key encrypted.pub"));
    fs::remove_file(sandbox.work().join("folder/extra")).unwrap();
    fs::remove_file(sandbox.work().join("folder/model/weights.bin")).unwrap();
    assert!(stock.run(&sandbox, "sign key folder --signature less.sig --private_key p256.key"));
    refused(sandbox.carton("info model.carton --bundle less.sig --key p256.pub"), "does not cover `model/weights.bin`");
}

#[test]
fn certificates_are_trusted_by_root_identity_usage_and_date() {
    let sandbox = prepared();
    let Some(stock) = Stock::prepare(&sandbox) else { return };
    sandbox.carton("unpack model.carton -o folder").expect_code(0);
    let rule = |identity: &str| {
        let text = format!("[[trust]]\nfor = [\"**\"]\ncertificates = [\"ca.pem\"]\nidentities = [\"{identity}\"]\n");
        sandbox.write("config.toml", text)
    };
    rule("release@example.com");
    let sign = |name: &str, chain: &str| {
        let certificates: String = chain.split(' ').map(|file| format!(" --certificates {file}.pem")).collect();
        sandbox.carton(&format!("sign model.carton --key {name}.key{certificates}")).expect_code(0);
    };
    let info = || sandbox.carton("info model.carton --config config.toml");
    let stock_accepts =
        || stock.run(&sandbox, "verify certificate folder --signature model.carton.sig --certificate_chain ca.pem");
    for name in ["good", "digital-signature"] {
        sign(name, &format!("{name} intermediate"));
        assert!(
            info().expect_code(0).stdout.contains("trusted by release@example.com (certificate of CN=intermediate)")
        );
        assert!(stock_accepts());
    }
    let check = |name: &str, text: &str, stock_too: bool| {
        sign(name, &format!("{name} intermediate"));
        refused(info(), text);
        assert_eq!(stock_accepts(), !stock_too, "{name}");
    };
    check("somebody", "by somebody@example.com, CN=somebody, who is not trusted", false);
    // Where the stock tool looks at the leaf's first second, the time of the check decides.
    check("expired", "expired at", false);
    check("later", "is not valid before", false);
    check("server", "its extended key usage lacks `codeSigning`", false);
    check("no-signature", "its key usage lacks `digitalSignature`", false);
    check("no-usage", "it has neither key usage nor extended key usage", true);
    check("authority", "it is the certificate of an authority", false);
    check("stranger", "its chain leads to no trusted root", true);
    sign("good", "good");
    refused(info(), "its chain leads to no trusted root");
    // Authorities expire, too, whatever the dates of the leaf.
    sign("of-old-intermediate", "of-old-intermediate old-intermediate");
    refused(info(), "expired at");
    let both = "[[trust]]\nfor = [\"**\"]\ncertificates = [\"ca.pem\", \"old-ca.pem\"]\nidentities = [\"*\"]\n";
    sandbox.write("config.toml", both);
    sign("of-old-ca", "of-old-ca");
    refused(info(), "its chain leads to no trusted root");
    rule("release@example.com");
    let other_curve = "sign certificate folder --signature model.carton.sig --private_key other-curve.key \
                       --signing_certificate other-curve.pem --certificate_chain intermediate.pem";
    assert!(stock.run(&sandbox, other_curve) && stock_accepts());
    refused(info(), "has an unusable key");
    rule("*@example.com");
    sign("somebody", "somebody intermediate");
    info().expect_code(0);
    // A key that no certificate names, and a certificate of another key.
    sandbox.carton("sign model.carton --key good.key").expect_code(0);
    refused(info(), "the bundle is by a key, and no key is trusted");
    let outcome = sandbox.carton("sign model.carton --key somebody.key --certificates good.pem").expect_code(2);
    assert!(outcome.stderr.contains("is for another key"), "{outcome}");
    sign("good", "good intermediate");
    let good = fs::read(sandbox.work().join("model.carton.sig")).unwrap();
    sign("somebody", "somebody intermediate");
    let material = serde_json::from_slice::<serde_json::Value>(&good).unwrap()["verificationMaterial"].clone();
    changed(&sandbox, |bundle| bundle["verificationMaterial"] = material);
    refused(info(), "is not by the key of its certificate (CN=good)");
    assert!(stock.run(&sandbox, "sign certificate folder --signature model.carton.sig --private_key good.key --signing_certificate good.pem --certificate_chain intermediate.pem"));
    info().expect_code(0);
}

/// `carton-signing` tests which bundles are accepted.
#[test]
fn keyless_bundles_are_accepted_by_rules() {
    let sandbox = prepared();
    let Some(stock) = Stock::prepare(&sandbox) else { return };
    let work = sandbox.work();
    for (carton, signature) in [("second", "second.sig"), ("model", "model.sig")] {
        pack(&sandbox, carton, carton);
        sandbox.carton(&format!("unpack {carton}.carton -o {carton}-folder")).expect_code(0);
        let sign = format!("sign key {carton}-folder --signature {signature} --private_key p256.key");
        assert!(stock.run(&sandbox, &sign));
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/python/make_sigstore.py");
    let made =
        Command::new(&stock.python).arg(script).args([".", "model.sig", "second.sig"]).current_dir(&work).status();
    assert!(made.unwrap().success());
    let rule = |identity: &str, issuer: &str| {
        let who = format!("identities = [\"{identity}\"]\nissuer = \"{issuer}\"\n");
        sandbox.write("config.toml", format!("[[trust]]\nfor = [\"**\"]\ntrusted_root = \"trusted_root.json\"\n{who}"));
    };
    let sign = |name: &str, to: &Path| assert_ne!(fs::copy(work.join(format!("keyless/{name}.sig")), to).unwrap(), 0);
    let beside = work.join("model.carton.sig");
    let run = || sandbox.carton("run model.carton -i x=1 --config config.toml");
    let issuer = "https://issuer.example.com";
    rule("https://example.com/team/*", issuer);
    for name in ["good", "timestamped"] {
        sign(name, &beside);
        run().expect_code(0);
    }
    let info = sandbox.carton("info model.carton --config config.toml").expect_code(0).stdout;
    let line =
        "trusted by https://example.com/team/models/release.yml@refs/tags/v1 (as https://issuer.example.com says, ";
    assert!(info.contains(line), "{info}");
    for (name, text) in [
        ("other-identity", "who is not trusted"),
        ("other-issuer", "who is not trusted"),
        ("other-carton", "is for another carton"),
        ("no-entry", "no entry of a transparency log"),
        ("no-proof", "inclusion proof"),
        ("no-sct", "SCT"),
        ("log-by-other-key", "inclusion promise"),
        ("entry-of-other-envelope", "log entry does not match the bundle"),
        ("logged-after-certificate", "is not confirmed"),
    ] {
        sign(name, &beside);
        refused(run(), text);
    }
    // Keys that the caller names replace the rules, and a keyless signature is by none.
    sign("good", &beside);
    refused(
        sandbox.carton("run model.carton -i x=1 --key key.pub.pem --config config.toml"),
        "by an identity of Sigstore, and no root of Sigstore is trusted",
    );
    rule("https://example.com/team/*", "https://login.example.com");
    refused(run(), "who is not trusted");
    rule("https://example.com/team/*", issuer);
    let Some(nginx) = Nginx::start("") else { return };
    let served = nginx.root().join("model.carton");
    fs::copy(work.join("model.carton"), &served).unwrap();
    let fetch =
        |more: &str| sandbox.carton(&format!("run {} -i x=1 --config config.toml{more}", nginx.url("model.carton")));
    sign("no-sct", &nginx.root().join("model.carton.sig"));
    refused(fetch(""), "SCT");
    sign("good", &nginx.root().join("model.carton.sig"));
    fetch("").expect_code(0);
    fetch(" --offline").expect_code(0);
    rule("https://example.com/another/*", issuer);
    refused(fetch(" --offline"), "is not signed");
}
