//! Sockets of each family, names of hosts, and messages by other ways.

use carton_core::sandbox::SandboxMode;
use rustix::net::{AddressFamily, SocketType};
use serde_json::{Value, json};

use crate::attempt::{Attempt, Scene, check_all};
use crate::setting::Setting;

/// What Python's resolver and sockets answer where the system call was refused.
const RESOLVER: &[&str] = &["EAI", "-2", "-3", "-4", "-11"];

fn connections(scene: &Scene<'_>) -> Vec<Attempt> {
    let setting = scene.setting;
    let (places, secret) = (&setting.victim.places, &setting.secret);
    let has_ipv6 = places["tcp6"].is_u64();
    let port = |name: &str| json!({"port": places[name].as_u64().unwrap_or(1)});
    let at = |name: &str| json!({"path": places[name]});
    let named = |name: &str| json!({"name": places[name]});
    vec![
        Attempt::new("connect_tcp", port("tcp")).tells(secret),
        Attempt::new("connect_tcp6", port("tcp6"))
            .tells(secret)
            .never_works_if(!has_ipv6)
            .or_fails_with(&["EAFNOSUPPORT"]),
        Attempt::new("connect_by_first_bytes", port("tcp")).tells(secret),
        // Kernels without the protocol refuse it first.
        Attempt::new("send_multipath_tcp", port("tcp"))
            .tells(secret)
            .never_works_if(!has(2, 1, 262))
            .or_fails_with(&["EPROTONOSUPPORT"]),
        Attempt::new("send_udp", port("udp")).changes("/received/udp"),
        Attempt::new("send_udp6", port("udp6"))
            .changes("/received/udp6")
            .never_works_if(!has_ipv6)
            .or_fails_with(&["EAFNOSUPPORT"]),
        Attempt::new("connect_by_32_bit_calls", port("tcp"))
            .tells(secret)
            .apart()
            .never_works_if(!has_32_bit_calls())
            .or_fails_with(&["killed by SIGSEGV"]),
        Attempt::new("connect_to_path", at("stream")).tells(secret),
        Attempt::new("connect_to_path_from_working_folder", at("stream")).tells(secret).apart(),
        Attempt::new("connect_sequence_to_path", at("sequence")).tells(secret),
        Attempt::new("connect_to_abstract_name", named("abstract_stream")).tells(secret),
        Attempt::new("receive_descriptor", at("descriptors")).tells(secret),
        Attempt::new("send_to_path", at("packet")).changes("/received/packet"),
        Attempt::new("send_to_abstract_name", named("abstract_packet")).changes("/received/abstract_packet"),
        Attempt::new("send_to_path_from_pair", at("packet")).changes("/received/packet"),
        Attempt::new("send_message_to_path_from_pair", at("packet")).changes("/received/packet"),
        Attempt::new("connect_pair_again", at("packet")).changes("/received/packet"),
        // A pair of streams is connected for ever, and a pair that keeps the limits of messages ignores addresses.
        Attempt::new("send_message_to_path_from_stream_pair", at("packet"))
            .changes("/received/packet")
            .never_works()
            .or_fails_with(&["EISCONN"]),
        Attempt::new("send_message_to_path_from_sequence_pair", at("packet"))
            .changes("/received/packet")
            .never_works()
            .or_fails_with(&["the address was ignored"]),
        Attempt::new("resolve_name", json!({"name": "a-secret.of-the-user.test", "port": places["names"]}))
            .changes("/received/names")
            .never_works_if(!has_resolver())
            .or_fails_with(RESOLVER),
        Attempt::new("list_network_cards", json!({})).tells("network cards").works_in_namespaces(),
    ]
}

#[tokio::test]
async fn no_server_is_reached() {
    check_all(connections).await;
}

/// Whether a socket of this family, kind and protocol can be made by a process without a sandbox.
fn has(family: u16, kind: u32, protocol: u32) -> bool {
    let protocol = std::num::NonZeroU32::new(protocol).map(rustix::net::Protocol::from_raw);
    rustix::net::socket(AddressFamily::from_raw(family), SocketType::from_raw(kind), protocol).is_ok()
}

/// Whether the kernel has calls of 32-bit programs: then it names their interface.
fn has_32_bit_calls() -> bool {
    cfg!(target_arch = "x86_64") && std::path::Path::new("/proc/sys/abi/vsyscall32").exists()
}

/// Whether the C library is glibc, in whose resolver the model sets a server.
fn has_resolver() -> bool {
    cfg!(target_env = "gnu")
}

fn listeners(scene: &Scene<'_>) -> Vec<Attempt> {
    let setting = scene.setting;
    let path = setting.new_path();
    let made = path.clone();
    vec![
        Attempt::new("listen_tcp", json!({})).works_in_namespaces(),
        Attempt::new("listen_without_bind", json!({})).works_in_namespaces(),
        Attempt::new("listen_at_path", json!({"path": path})).seen(move || made.exists()),
        Attempt::new("listen_in_scratch", json!({})).works_in_namespaces(),
        Attempt::new(
            "listen_at_abstract_name",
            json!({"name": format!("carton-escape-{}-{}", std::process::id(), setting.number())}),
        )
        .works_in_namespaces(),
        Attempt::new("listen_at_any_abstract_name", json!({})).works_in_namespaces(),
    ]
}

#[tokio::test]
async fn nobody_connects_from_outside() {
    check_all(listeners).await;
}

/// The families of sockets that Linux has, by their numbers: from `AF_UNIX` to `AF_MCTP`.
fn families(scene: &Scene<'_>) -> Vec<Attempt> {
    let _ = scene;
    let mut attempts = Vec::new();
    for family in 1..=45 {
        for kind in [1_u32, 2, 3, 5] {
            let attempt = Attempt::new("open_socket", json!({"family": family, "kind": kind}));
            let errors = &["EAFNOSUPPORT", "ESOCKTNOSUPPORT", "EPROTONOSUPPORT", "EINVAL"];
            // Those of the machine and of the internet, which are confined to the namespaces, but for packets that only root sends.
            let is_own = matches!((family, kind), (1, _) | (2 | 10, 1 | 2) | (16, 2 | 3));
            let attempt = attempt.works_in_namespaces_if(is_own).never_works_if(!has(family, kind, 0));
            attempts.push(attempt.or_fails_with(errors).by_runner());
        }
    }
    attempts.push(Attempt::new("open_socket", json!({"family": 2, "kind": 1})).works_in_namespaces());
    attempts.push(Attempt::new("send_ping", json!({})).of_root());
    // The calls of x32 are not in every kernel.
    attempts.push(Attempt::new("connect_by_x32_calls", json!({})).never_works().apart());
    // The first is tried by a program too.
    attempts.rotate_right(3);
    attempts
}

#[tokio::test]
async fn no_socket_of_any_family_is_opened() {
    check_all(families).await;
}

fn services(scene: &Scene<'_>) -> Vec<Attempt> {
    let setting = scene.setting;
    let (places, secret) = (&setting.victim.places, &setting.secret);
    let mut attempts = Vec::new();
    let mut add = |name: &'static str, argument: &str, place: &str, text: &str| {
        let arguments = json!({argument: places.get(place).cloned().unwrap_or(Value::from(0))});
        let is_missing = places.get(place).is_none();
        let attempt = Attempt::new(name, arguments).tells(text);
        // Systems without the service refuse it first.
        attempts.push(if is_missing { attempt.never_works().only_without() } else { attempt });
    };
    add("read_system_v_memory", "key", "system_v_memory", secret);
    add("read_system_v_semaphore", "key", "system_v_semaphore", "the value 0");
    add("read_key", "description", "key", secret);
    add("request_key", "description", "key", secret);
    // A message can be taken once.
    add("take_system_v_message", "key", "system_v_queue", secret);
    add("take_posix_message", "name", "posix_queue", secret);
    attempts.push(Attempt::new("make_system_v_memory", json!({})));
    attempts.push(Attempt::new("add_key", json!({"description": format!("carton-escape-{}", std::process::id())})));
    attempts
}

#[tokio::test]
async fn services_of_the_kernel_lead_to_no_other_process() {
    check_all(services).await;
}

/// What the permission gives, and what it does not.
#[tokio::test]
async fn the_network_is_a_permission() {
    let Some(setting) = Setting::new().await else { return };
    let limits = carton_core::sandbox::Limits::default();
    let model = setting.load_with(SandboxMode::On, limits, |load| load.allow_network(true)).await.unwrap();
    let places = &setting.victim.places;
    let allowed = [
        ("connect_tcp", json!({"port": places["tcp"]})),
        ("send_udp", json!({"port": places["udp"]})),
        ("listen_tcp", json!({})),
    ];
    for (name, arguments) in allowed {
        let answer = model.call(name, &arguments).await.unwrap();
        assert!(answer.starts_with("escaped: "), "{name}: {answer}");
    }
    let refused = [
        ("connect_to_path", json!({"path": places["stream"]})),
        ("connect_to_abstract_name", json!({"name": places["abstract_stream"]})),
        ("send_to_path", json!({"path": places["packet"]})),
        ("send_to_path_from_pair", json!({"path": places["packet"]})),
        ("send_message_to_path_from_pair", json!({"path": places["packet"]})),
        ("connect_pair_again", json!({"path": places["packet"]})),
        ("receive_descriptor", json!({"path": places["descriptors"]})),
        ("open_socket", json!({"family": 16, "kind": 3, "protocol": 9})),
        ("open_socket", json!({"family": 17, "kind": 3})),
        ("open_socket", json!({"family": 40, "kind": 1})),
        ("send_ping", json!({})),
        ("read_file", json!({"path": setting.new_file()})),
    ];
    for (name, arguments) in refused {
        let answer = model.call(name, &arguments).await.unwrap();
        assert!(answer.starts_with("contained: "), "{name} {arguments}: {answer}");
    }
}
