//! Registries that want a login: passwords, tokens, encryption, and where logins are from.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use carton_test_server::registry::Registry;
use carton_test_server::{Answer, Server};

use super::*;
use crate::sandbox::outcome;

/// A registry with the user `me` and the password `se:cret`.
fn with_password() -> Option<Registry> {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("htpasswd").args(["-Bbn", "me", "se:cret"]).output();
    let Ok(made) = made else {
        let reason = "this test needs htpasswd: `apt-get install apache2-utils`";
        assert!(std::env::var_os("CI").is_none(), "{reason}");
        eprintln!("skipped: {reason}");
        return None;
    };
    fs::write(folder.path().join("users"), made.stdout).unwrap();
    Registry::start_in(folder, "auth:\n  htpasswd:\n    realm: here\n    path: {folder}/users")
}

/// Writes a file of logins with an entry for the registry.
fn write_login(path: &Path, registry: &str, entry: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{{\"auths\": {{\"{registry}\": {entry}}}}}")).unwrap();
}

/// `printf me:se:cret | base64`.
const ENTRY: &str = r#"{"auth": "bWU6c2U6Y3JldA=="}"#;

#[test]
fn logins_of_docker_and_podman_are_used() {
    let (sandbox, Some(registry)) = (Sandbox::new(), with_password()) else { return };
    let hash = pack(&sandbox, "model", &noise(1, LARGE));
    let artifact = registry.artifact("team/model:1");
    let arguments = ["push", "model.carton", &artifact];
    let refused = sandbox.run(arguments).expect_code(7);
    assert!(refused.stderr.contains("401") && refused.stderr.contains("docker login 127.0.0.1"), "{refused}");
    let home = sandbox.work().parent().unwrap().join("home");
    let places: [(PathBuf, Option<&str>); 4] = [
        (home.join(".docker/config.json"), None),
        (home.join(".config/containers/auth.json"), None),
        (home.join("elsewhere/config.json"), Some("DOCKER_CONFIG")),
        (home.join("elsewhere/auth.json"), Some("REGISTRY_AUTH_FILE")),
    ];
    for (path, variable) in places {
        write_login(&path, &registry.authority(), ENTRY);
        let mut command = sandbox.command(arguments);
        match variable {
            Some("DOCKER_CONFIG") => command.env("DOCKER_CONFIG", path.parent().unwrap()),
            Some(variable) => command.env(variable, &path),
            None => &mut command,
        };
        outcome(&mut command).expect_code(0);
        fs::remove_file(&path).unwrap();
    }
    sandbox.run(["info", &artifact]).expect_code(7);
    // A password that is not accepted is not shown, at any level.
    write_login(&home.join(".docker/config.json"), &registry.authority(), r#"{"auth": "bWU6d3Jvbmc="}"#);
    let wrong = sandbox.run(["info", &artifact, "-vvv"]).expect_code(7);
    assert!(
        wrong.stderr.contains("does not accept the credentials from `") && !wrong.stderr.contains("wrong"),
        "{wrong}"
    );
    assert!(!wrong.stderr.contains("bWU6d3Jvbmc="), "{wrong}");
    // Reading works with a login of the repository alone.
    write_login(&home.join(".docker/config.json"), &format!("{}/team", registry.authority()), ENTRY);
    assert_eq!(super::hash(&sandbox, &artifact), hash);
    // The login is asked for once, and sent from then on.
    registry.forget_requests();
    forget(&sandbox);
    sandbox.run(["verify", &artifact]).expect_code(0);
    let is_refused = |request: &&Request| request.status == 401 && request.target != "/v2/";
    // Once for the carton, and once for its signature.
    let n_refused = registry.requests().iter().filter(is_refused).count();
    assert!(n_refused <= 2, "{:?}", registry.requests());
}

#[test]
fn a_program_that_holds_logins_is_asked() {
    let (sandbox, Some(registry)) = (Sandbox::new(), with_password()) else { return };
    pack(&sandbox, "model", b"1");
    let authority = registry.authority();
    let script = |answer: &str| {
        let path = sandbox.write(
            "bin/docker-credential-test",
            format!("#!/bin/sh\nread server\necho \"$1 $server\" >>asked\n{answer}\n"),
        );
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let push = |config: &str| {
        let config = sandbox.write("docker/config.json", config);
        let mut command = sandbox.command(["push", "model.carton", &registry.artifact("model:1")]);
        let path = format!("{}:/usr/bin:/bin", sandbox.work().join("bin").display());
        outcome(command.env("DOCKER_CONFIG", config.parent().unwrap()).env("PATH", path))
    };
    script(r#"echo '{"Username": "me", "Secret": "se:cret"}'"#);
    push(&format!(r#"{{"credHelpers": {{"{authority}": "test"}}}}"#)).expect_code(0);
    push(r#"{"credsStore": "test"}"#).expect_code(0);
    assert!(fs::read_to_string(sandbox.work().join("asked")).unwrap().contains(&format!("get {authority}")));
    // Without an answer, there is no login. A program that is missing or answers nonsense is named.
    script("echo 'credentials not found in native keychain'; exit 1");
    push(r#"{"credsStore": "test"}"#).expect_code(7);
    script("echo nonsense");
    let nonsense = push(r#"{"credsStore": "test"}"#).expect_code(7);
    assert!(nonsense.stderr.contains("docker-credential-test"), "{nonsense}");
    let missing = push(r#"{"credsStore": "missing"}"#).expect_code(7);
    assert!(missing.stderr.contains("docker-credential-missing"), "{missing}");
}

/// Makes a certificate for an address of this machine with its own authority in `folder`: `root.pem`, `server.pem`, `server.key`.
pub(super) fn make_certificates(folder: &Path, address: IpAddr) -> bool {
    let script = r#"
        set -e
        new() { openssl req -newkey rsa:2048 -nodes -subj "/CN=$1" -keyout "$1.key" "${@:2}"; }
        new root -x509 -days 2 -out root.pem
        new server -out server.csr
        printf "subjectAltName=IP:$ADDRESS,DNS:localhost\nbasicConstraints=CA:FALSE\n" >server.ext
        openssl x509 -req -in server.csr -CA root.pem -CAkey root.key -CAcreateserial -days 2 -extfile server.ext -out server.pem"#;
    let made = Command::new("bash")
        .args(["-c", script])
        .env("ADDRESS", address.to_string())
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match made {
        Ok(status) if status.success() => true,
        other => {
            assert!(std::env::var_os("CI").is_none(), "{other:?}");
            eprintln!("skipped: there is no bash or openssl: {other:?}");
            false
        }
    }
}

#[test]
fn a_registry_may_be_encrypted() {
    let (sandbox, folder) = (Sandbox::new(), tempfile::tempdir().unwrap());
    if !make_certificates(folder.path(), Ipv4Addr::LOCALHOST.into()) {
        return;
    }
    let tls = "  tls:\n    certificate: {folder}/server.pem\n    key: {folder}/server.key";
    let Some(registry) = Registry::start_in(folder, tls) else { return };
    let hash = pack(&sandbox, "model", &noise(1, LARGE));
    let artifact = registry.artifact("model:1");
    let untrusted = sandbox.run(["push", "model.carton", &artifact]).expect_code(7);
    assert!(untrusted.stderr.contains("secure connection"), "{untrusted}");
    let trusted = |arguments: &[&str]| {
        outcome(sandbox.command(arguments).env("SSL_CERT_FILE", registry.folder().join("root.pem"))).expect_code(0)
    };
    trusted(&["push", "model.carton", &artifact]);
    assert_eq!(trusted(&["hash", &artifact]).stdout.trim(), hash);
    trusted(&["verify", &artifact]);
    // This registry speaks HTTP/2 now, in which an answer to HEAD has the length of the blob, and no body.
    assert_eq!(trusted(&["push", "model.carton", &artifact, "--json"]).json()["sent"], 0);
}

#[test]
fn a_registry_elsewhere_is_not_asked_without_encryption() {
    let Some(registry) = Registry::start("") else { return };
    let sandbox = Sandbox::new();
    pack(&sandbox, "model", b"1");
    // A name of this machine that does not look like one.
    let host = registry.authority().replace("127.0.0.1", "127.0.0.1.nip.invalid");
    let outcome = sandbox.run(["push", "model.carton", &format!("oci://{host}/model:1")]).expect_code(7);
    assert!(outcome.stderr.contains("https://"), "{outcome}");
    let config = sandbox.write("config.toml", format!("[[registries]]\nhost = \"{host}\"\nplain_http = true\n"));
    let config = config.to_str().unwrap();
    let outcome =
        sandbox.run(["push", "model.carton", &format!("oci://{host}/model:1"), "--config", config]).expect_code(7);
    assert!(outcome.stderr.contains("http://"), "{outcome}");
    let config = sandbox.write("config.toml", "[[registries]]\nhost = \"a/b\"\n");
    let outcome = sandbox.run(["info", "x", "--config", config.to_str().unwrap()]);
    assert!(outcome.stderr.contains("expected `host` to be a host"), "{outcome}");
}

#[test]
fn mirrors_are_asked_first() {
    let (Some(registry), Some(mirror)) = (Registry::start(""), Registry::start("")) else { return };
    let sandbox = Sandbox::new();
    let hash = pack(&sandbox, "model", &noise(1, LARGE));
    for place in [&registry, &mirror] {
        sandbox.run(["push", "model.carton", &place.artifact("model:1")]).expect_code(0);
    }
    let down = "http://127.0.0.1:1";
    let text = format!(
        "[[registries]]\nhost = \"{}\"\nmirrors = [\"{down}\", \"http://{}\"]\n",
        registry.authority(),
        mirror.authority()
    );
    sandbox.write("config.toml", text);
    forget(&sandbox);
    registry.forget_requests();
    let artifact = registry.artifact("model:1");
    let outcome = sandbox.run(["verify", &artifact, "--config", "config.toml"]).expect_code(0);
    assert!(outcome.stderr.contains("a mirror is passed over"), "{outcome}");
    // Signatures are looked for at the registry itself, because a mirror may know the artifact without them.
    let is_of_carton =
        |request: &Request| request.target.contains("/manifests/1") || request.target.contains("/blobs/");
    let of_registry: Vec<_> = registry.requests().into_iter().filter(is_of_carton).collect();
    assert!(of_registry.is_empty(), "{of_registry:?}");
    // What a mirror has lost comes from the registry.
    forget(&sandbox);
    let files = sandbox.carton("ls model.carton --json").expect_code(0).json();
    let weights = files["files"].as_array().unwrap().iter().find(|file| file["path"] == "model/weights.bin").unwrap();
    fs::remove_file(mirror.blob(weights["sha256"].as_str().unwrap())).unwrap();
    sandbox.run(["verify", &artifact, "--config", "config.toml"]).expect_code(0);
    assert_eq!(super::hash(&sandbox, &artifact), hash);
}

/// A process that ends with the test.
struct TokenServer(std::process::Child);

impl Drop for TokenServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn tokens_are_fetched_and_renewed() {
    let (sandbox, folder) = (Sandbox::new(), tempfile::tempdir().unwrap());
    if !make_certificates(folder.path(), Ipv4Addr::LOCALHOST.into()) {
        return;
    }
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
        println!("skipped: CARTON_TEST_PYTHON is not set");
        return;
    };
    // The server gives tokens that are valid for two seconds, to `me` with the password `se:cret`.
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/command_line/registry/token_server.py");
    let server =
        Command::new(python).args([script, folder.path().to_str().unwrap()]).stdout(Stdio::piped()).spawn().unwrap();
    let mut server = TokenServer(server);
    let mut port = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(server.0.stdout.take().unwrap()), &mut port).unwrap();
    let auth = format!(
        "auth:\n  token:\n    realm: http://127.0.0.1:{}/token\n    service: here\n    issuer: tests\n    rootcertbundle: {{folder}}/server.pem",
        port.trim()
    );
    let Some(registry) = Registry::start_in(folder, &auth) else { return };
    let hash = pack(&sandbox, "model", &noise(1, LARGE));
    let artifact = registry.artifact("team/model:1");
    sandbox.run(["push", "model.carton", &artifact]).expect_code(7);
    let config = sandbox.work().parent().unwrap().join("home/.docker/config.json");
    write_login(&config, &registry.authority(), ENTRY);
    // The server of tokens has another port, so that it is another server than the one that the login is for.
    let refused = sandbox.run(["push", "model.carton", &artifact]).expect_code(7);
    let token_server = format!("127.0.0.1:{}", port.trim());
    assert!(refused.stderr.contains(&format!("`http://{token_server}/token`, which is another server")), "{refused}");
    assert!(refused.stderr.contains("name its host in `token_servers`"), "{refused}");
    let entry = format!("[[registries]]\nhost = \"{}\"\ntoken_servers = [\"{token_server}\"]\n", registry.authority());
    fs::create_dir_all(sandbox.work().parent().unwrap().join("home/.carton")).unwrap();
    fs::write(sandbox.work().parent().unwrap().join("home/.carton/config.toml"), entry).unwrap();
    sandbox.run(["push", "model.carton", &artifact]).expect_code(0);
    assert_eq!(super::hash(&sandbox, &artifact), hash);
    // Taken over from a repository that another token is needed for.
    let other = sandbox.run(["push", "model.carton", &registry.artifact("other:1"), "--json"]).expect_code(0).json();
    assert_eq!(other["mounted"], LARGE);
    // A repository that the user may not read is passed over, and costs nothing but the blob if it is the only one.
    sandbox.run(["push", "model.carton", &registry.artifact("secret/model:1")]).expect_code(0);
    let push = |name: &str, sources: &[&str]| {
        forget(&sandbox);
        let artifact = registry.artifact(name);
        let sources = sources.iter().flat_map(|source| ["--mount-from", source]);
        let arguments = ["push", "model.carton", &artifact, "--json"].into_iter().chain(sources);
        sandbox.run(arguments.collect::<Vec<_>>()).expect_code(0).json()
    };
    assert!(push("third:1", &["secret/model"])["sent"].as_u64().unwrap() > LARGE as u64);
    assert_eq!(push("fourth:1", &["secret/model", "team/model"])["mounted"], LARGE);
    // Files that are fetched after the token has expired.
    forget(&sandbox);
    let listed = sandbox.run(["registry", "ls", &registry.artifact("team/model")]).expect_code(0);
    assert!(listed.stdout.contains(&hash), "{listed}");
    sandbox.run(["verify", &artifact]).expect_code(0);
    fs::remove_file(config).unwrap();
    let refused = sandbox.run(["info", &artifact, "--json"]).expect_code(7);
    assert!(!refused.stdout.contains("se:cret"), "{refused}");
}

#[test]
fn a_registry_gets_no_login_before_it_is_known_whether_it_is_encrypted() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    // What a server of TLS answers to a request without it.
    server.route("/v2/", |_| Answer::bytes(400, "Client sent an HTTP request to an HTTPS server.\n"));
    let artifact = server.url("/model:1").replace("http://", "oci://");
    let mut info = sandbox.command(["info", &artifact]);
    outcome(info.env("CARTON_TOKEN_127_0_0_1", "secret-token")).expect_code(7);
    let requests = server.requests();
    assert!(!requests.is_empty());
    assert!(requests.iter().all(|request| request.header("authorization").is_none()), "{requests:?}");
    // A registry without encryption gets the token when it asks for one.
    let server = Server::start();
    server.route("/v2/", |_| Answer::bytes(200, "{}"));
    server.route("/v2/model/manifests/1", |_| {
        Answer::bytes(401, "").header("WWW-Authenticate", "Bearer realm=\"http://127.0.0.1/token\"")
    });
    let artifact = server.url("/model:1").replace("http://", "oci://");
    let mut info = sandbox.command(["info", &artifact]);
    outcome(info.env("CARTON_TOKEN_127_0_0_1", "secret-token")).expect_code(7);
    let sent: Vec<bool> = server.requests().iter().map(|request| request.header("authorization").is_some()).collect();
    assert_eq!(sent, [false, false, true]);
}
