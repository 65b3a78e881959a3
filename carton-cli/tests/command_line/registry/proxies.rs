//! Proxies of the configuration.

use carton_test_server::proxy::{Proxy, outer_address};
use carton_test_server::registry::Registry;

use super::logins::make_certificates;
use super::*;
use crate::sandbox::{Outcome, outcome};

#[test]
fn requests_go_through_the_proxy_of_the_configuration() {
    let (Some(address), Some(proxy)) = (outer_address(), Proxy::start()) else { return };
    let (sandbox, folder) = (Sandbox::new(), tempfile::tempdir().unwrap());
    if !make_certificates(folder.path(), address) {
        return;
    }
    let tls = "  tls:\n    certificate: {folder}/server.pem\n    key: {folder}/server.key";
    let Some(registry) = Registry::start_at(address, folder, tls) else { return };
    let hash = pack(&sandbox, "model", &noise(1, LARGE));
    let artifact = registry.artifact("model:1");
    let run = |network: &str, arguments: &[&str]| -> Outcome {
        sandbox.write("config.toml", format!("[network]\nmax_retries = 0\n{network}\n"));
        let mut command = sandbox.command(arguments);
        // Nothing is there.
        for name in ["HTTPS_PROXY", "https_proxy"] {
            command.env(name, "http://127.0.0.1:1");
        }
        command.env_remove("NO_PROXY").env_remove("no_proxy").env("CARTON_CONFIG_PATH", "config.toml");
        outcome(command.env("SSL_CERT_FILE", registry.folder().join("root.pem")))
    };
    let through = format!("proxy = \"http://me:secret@{}\"", proxy.authority());
    run(&through, &["push", "model.carton", &artifact]).expect_code(0);
    assert_eq!(run(&through, &["hash", &artifact]).expect_code(0).stdout.trim(), hash);
    let connect = format!("CONNECT {} HTTP/1.1", registry.authority());
    let n_requests = proxy.requests().len();
    assert!(n_requests > 0 && proxy.requests().iter().all(|request| *request == connect), "{:?}", proxy.requests());

    // Each of these asks the registry itself.
    forget(&sandbox);
    run("proxy = false", &["verify", &artifact]).expect_code(0);
    for except in [address.to_string(), format!("{address}/24")] {
        forget(&sandbox);
        run(&format!("{through}\nno_proxy = [\"{except}\"]"), &["verify", &artifact]).expect_code(0);
    }
    assert_eq!(proxy.requests().len(), n_requests);

    // Without the key, the environment counts.
    let nowhere = run("", &["push", "model.carton", &artifact]).expect_code(7);
    assert!(nowhere.stderr.contains("cannot connect"), "{nowhere}");
    let wrong = format!("proxy = \"http://me:wrong@{}\"", proxy.authority());
    let refused = run(&wrong, &["push", "model.carton", &artifact, "-vvv"]).expect_code(7);
    assert!(refused.stderr.contains("through the proxy") && refused.stderr.contains("hint: the proxy is"), "{refused}");
    assert!(!refused.stderr.contains("me:wrong") && !refused.stderr.contains("bWU6d3Jvbmc"), "{refused}");
}

#[test]
fn this_machine_is_reached_without_the_proxy_of_the_configuration() {
    let (sandbox, Some(registry)) = (Sandbox::new(), Registry::start("")) else { return };
    pack(&sandbox, "model", b"1");
    sandbox.write("config.toml", "network.proxy = \"http://127.0.0.1:1\"\n");
    sandbox.run(["push", "model.carton", &registry.artifact("model:1"), "--config", "config.toml"]).expect_code(0);
}
