//! Cartons in an object store: a real server of S3.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use carton_core::Sha256Digest;

use crate::sandbox::{Outcome, Sandbox, outcome};

/// A server of S3 with the bucket `models`, whose objects are the files of a folder.
struct S3 {
    folder: tempfile::TempDir,
    process: Child,
    port: u16,
}

impl S3 {
    /// `None`, with the reason printed, if there is none.
    fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("CARTON_TEST_S3") else {
            println!("skipped: CARTON_TEST_S3 does not name the program s3s-fs; .ci/slow installs it");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("models")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap().port();
        let process = Command::new(program)
            .args([
                "--host",
                "127.0.0.1",
                "--port",
                &port.to_string(),
                "--access-key",
                "me",
                "--secret-key",
                "secret-key",
            ])
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let s3 = Self { folder, process, port };
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "the server does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(s3)
    }

    fn object(&self, key: &str) -> PathBuf {
        self.folder.path().join("models").join(key)
    }

    fn carton(&self, sandbox: &Sandbox, secret: &str, arguments: &str) -> Outcome {
        let mut command = sandbox.command(arguments.split(' '));
        command.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port)).env("AWS_ALLOW_HTTP", "true");
        command.env("AWS_REGION", "us-east-1").env("AWS_ACCESS_KEY_ID", "me").env("AWS_SECRET_ACCESS_KEY", secret);
        outcome(&mut command)
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn digest(path: &Path) -> String {
    Sha256Digest::of(&fs::read(path).unwrap()).to_string()
}

#[test]
fn cartons_are_read_from_s3() {
    let (sandbox, Some(s3)) = (Sandbox::new(), S3::start()) else { return };
    sandbox.write("model/weights.bin", (0..400_000_u32).map(|n| (n * 7) as u8).collect::<Vec<_>>());
    sandbox.carton("pack model --runner noop --compression stored").expect_code(0);
    sandbox.carton("keygen -o key.pem").expect_code(0);
    sandbox.carton("sign model.carton --key key.pem").expect_code(0);
    for suffix in ["", ".sig"] {
        fs::create_dir_all(s3.object("team")).unwrap();
        fs::copy(
            sandbox.work().join(format!("model.carton{suffix}")),
            s3.object(&format!("team/model.carton{suffix}")),
        )
        .unwrap();
    }
    let hash = sandbox.carton("hash model.carton").expect_code(0).stdout;
    let read = |arguments: &str| s3.carton(&sandbox, "secret-key", arguments);
    assert_eq!(read("hash s3://models/team/model.carton").expect_code(0).stdout, hash);
    read("verify s3://models/team/model.carton").expect_code(0);
    read("run s3://models/team/model.carton -i x=1").expect_code(0);
    // The signature has a signed URL of its own, and rules name the place as the user does.
    sandbox.write("config.toml", "[[trust]]\nfor = [\"s3://models/team/**\"]\nkeys = [\"key.pub.pem\"]\n");
    read("info s3://models/team/model.carton --config config.toml").expect_code(0);
    fs::remove_file(s3.object("team/model.carton.sig")).unwrap();
    let _ = fs::remove_dir_all(sandbox.work().parent().unwrap().join("cache"));
    let unsigned = read("info s3://models/team/model.carton --config config.toml").expect_code(4);
    assert!(unsigned.stderr.contains("`s3://models/team/model.carton` is not signed"), "{unsigned}");
    // A second process asks whether the object has changed, although its signed URL is another.
    let again = read("hash s3://models/team/model.carton -vv").expect_code(0);
    assert_eq!(again.stdout, hash);
    assert_eq!(digest(&s3.object("team/model.carton")), digest(&sandbox.work().join("model.carton")));
}

#[test]
fn what_is_wrong_is_named_without_secrets() {
    let sandbox = Sandbox::new();
    for (name, expected) in
        [("s3://models", "expected a bucket and the key"), ("gs://me:secret@b/x", "credentials are those of")]
    {
        let outcome = sandbox.carton(&format!("info {name}")).expect_code(2);
        assert!(outcome.stderr.contains(expected) && !outcome.stderr.contains("secret@"), "{outcome}");
    }
    sandbox.carton("info s3://models/x --offline").expect_code(7);
    // A reader of the connection would see the signed URL, which gives access to the object.
    let mut command = sandbox.command(["info", "s3://models/x"]);
    command.env("AWS_ENDPOINT_URL", "http://192.0.2.1").env("AWS_REGION", "us-east-1");
    command.env("AWS_ACCESS_KEY_ID", "me").env("AWS_SECRET_ACCESS_KEY", "secret-key");
    let plain = outcome(&mut command).expect_code(7);
    assert!(plain.stderr.contains("without encryption"), "{plain}");
    let Some(s3) = S3::start() else { return };
    fs::write(s3.object("x.carton"), vec![7; 100_000]).unwrap();
    s3.carton(&sandbox, "secret-key", "info s3://models/x.carton").expect_code(4);
    for (secret, name) in [("wrong-secret", "x.carton"), ("secret-key", "missing.carton")] {
        let outcome = s3.carton(&sandbox, secret, &format!("info s3://models/{name} -vv"));
        assert!(!outcome.stderr.contains(secret) && !outcome.stderr.contains("X-Amz-Signature"), "{outcome}");
        outcome.expect_code(7);
    }
}
