//! The launcher from the outside: how it ends, what it leaves, and what it refuses. What a hostile model can and cannot do is tested with real
//! runners, in the workspace's `tests`.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use carton_sandbox::{EXIT_REFUSED, MESSAGE_PREFIX, Policy, STARTED};

const LAUNCHER: &str = env!("CARGO_BIN_EXE_carton-launcher");

/// How long something may take on a busy machine. A hang takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// The command that runs a script of the shell under `policy`.
fn shell(policy: &Policy, script: &str) -> Command {
    let mut command = policy.launch(LAUNCHER.as_ref(), "/bin/sh".as_ref(), &["-c".into(), script.into()]).unwrap();
    command.stdin(Stdio::null()).process_group(0);
    command
}

fn run(policy: &Policy, script: &str) -> Output {
    let scratch = policy.scratch.iter();
    shell(policy, script).envs(scratch.map(|scratch| ("TMPDIR", scratch))).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether this system enforces all of a policy. Otherwise prints why not.
fn is_enforced() -> bool {
    let mut strict = Policy::new();
    strict.strict = true;
    let output = run(&strict, "exit 0");
    if !output.status.success() {
        eprintln!("skipped: this system does not enforce all of a policy: {}", text(&output.stderr).trim_end());
    }
    output.status.success()
}

/// The variable that distinguishes the processes of a test.
const MARK: &str = "CARTON_TEST_LAUNCHER";

/// The number of living processes with this value of [`MARK`]. The launcher and process 1 of namespaces show their variables to root alone, and do not
/// count for other users.
fn processes_of(mark: &str) -> usize {
    let variable = format!("{MARK}={mark}");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let environments = processes.filter_map(|process| fs::read(process.path().join("environ")).ok());
    environments.filter(|bytes| bytes.split(|&byte| byte == 0).any(|found| found == variable.as_bytes())).count()
}

/// A policy with a scratch folder in `folder`.
fn with_scratch(folder: &Path) -> Policy {
    let scratch = folder.join("scratch");
    fs::create_dir(&scratch).unwrap();
    let mut policy = Policy::new();
    policy.scratch = Some(scratch);
    policy
}

/// Many systems allow no core dumps at all.
#[test]
fn limits_of_the_host_are_not_raised() {
    let policy = Policy::new();
    let shell = shell(&policy, "ulimit -Hc");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "ulimit -c 0; exec \"$@\"", "sh"]).arg(shell.get_program()).args(shell.get_args());
    let output = command.stdin(Stdio::null()).process_group(0).output().unwrap();
    assert_eq!(text(&output.stdout), "0\n", "{}", text(&output.stderr));
}

/// With 0, a system that pipes core dumps to a program dumps all the same.
#[test]
fn cores_are_limited_to_a_byte() {
    let mut child = shell(&Policy::new(), "echo $$; exec sleep 20").stdout(Stdio::piped()).spawn().unwrap();
    let mut program = String::new();
    let mut output = child.stdout.take().unwrap();
    while !program.ends_with('\n') {
        let mut byte = [0];
        output.read_exact(&mut byte).unwrap();
        program.push(byte[0].into());
    }
    // The launcher ends by the signals of its program, and has its variables in memory.
    let launcher = child.id().to_string();
    let limits =
        [program.trim(), &launcher].map(|process| fs::read_to_string(format!("/proc/{process}/limits")).unwrap());
    drop(output);
    child.wait().unwrap();
    for limits in limits {
        let of_cores = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        assert_eq!(of_cores.split_whitespace().skip(4).collect::<Vec<_>>(), ["1", "1", "bytes"]);
    }
}

#[test]
fn a_launcher_ends_as_its_program() {
    let check = |script: &str, code: Option<i32>, signal: Option<i32>| {
        for namespaces in [false, true] {
            let mut policy = Policy::new();
            policy.namespaces = namespaces;
            let status = run(&policy, script).status;
            assert_eq!((status.code(), status.signal()), (code, signal), "{script}, namespaces: {namespaces}");
        }
    };
    check("exit 0", Some(0), None);
    check("exit 3", Some(3), None);
    check("kill -KILL $$", None, Some(libc::SIGKILL));
    check("kill -SEGV $$", None, Some(libc::SIGSEGV));
    check("kill -TERM $$", None, Some(libc::SIGTERM));
    check("kill -ABRT $$", None, Some(libc::SIGABRT));
    check("exit 255", Some(255), None);
}

#[test]
fn what_cannot_be_started_is_named() {
    let mut command = Policy::new().launch(LAUNCHER.as_ref(), "/does/not/exist".as_ref(), &[]).unwrap();
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(carton_sandbox::EXIT_CANNOT_START));
    let said = text(&output.stderr);
    assert!(said.lines().last().is_some_and(|line| line.contains("/does/not/exist")), "{said}");
    for arguments in
        [&["__carton-launcher"][..], &["__carton-launcher", "{"], &["__carton-launcher", "{\"x\":1}", "/bin/true"]]
    {
        let output = Command::new(LAUNCHER).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(EXIT_REFUSED), "{arguments:?}");
        assert!(text(&output.stderr).starts_with(MESSAGE_PREFIX));
    }
}

#[test]
fn files_are_those_of_the_policy() {
    if !is_enforced() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut policy = with_scratch(folder.path());
    for name in ["given", "other"] {
        fs::write(folder.path().join(name), name).unwrap();
    }
    policy.read.push(folder.path().join("given"));
    policy.read.push(folder.path().join("missing"));
    let (inside, scratch) = (folder.path().display(), folder.path().join("scratch"));
    let script = format!(
        "cat {inside}/given; cat {inside}/other; echo >> {inside}/given; ls {inside}; cd {0}; echo 1 > a; mkdir b; mv a b/c; \
         cp /bin/true t; ./t; echo $?; cat b/c",
        scratch.display()
    );
    let output = run(&policy, &script);
    assert_eq!(text(&output.stdout), "given126\n1\n", "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(folder.path().join("given")).unwrap(), "given");
}

/// A descriptor that the host was given by a careless parent, and that would stay open in the program.
#[test]
fn descriptors_of_the_host_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), "secret").unwrap();
    let launch = shell(&Policy::new(), "cat <&7");
    let open = format!("exec 7<{}/secret; exec \"$@\"", folder.path().display());
    let through = |program: &mut Command| text(&program.output().unwrap().stdout);
    let mut free = Command::new("/bin/sh");
    free.args(["-c", &open, "sh", "/bin/sh", "-c", "cat <&7"]);
    assert_eq!(through(&mut free), "secret");
    let mut confined = Command::new("/bin/sh");
    confined.args(["-c", &open, "sh"]).arg(launch.get_program()).args(launch.get_args());
    assert_eq!(through(&mut confined), "");
}

#[test]
fn nothing_is_left_when_the_host_is_gone() {
    if !is_enforced() {
        return;
    }
    for namespaces in [false, true] {
        nothing_is_left(namespaces);
    }
}

fn nothing_is_left(namespaces: bool) {
    let folder = tempfile::tempdir().unwrap();
    let mut policy = with_scratch(folder.path());
    policy.namespaces = namespaces;
    let scratch = folder.path().join("scratch");
    // A child that ignores signals, and an orphan of an orphan, which would be the child of another process if the launcher did not reap it.
    let script = format!(
        "cd {}; trap '' TERM HUP; (sleep 1000 & (sleep 1000 & echo x > started) & ); sleep 1000; sleep 1000",
        scratch.display()
    );
    let mut command = shell(&policy, &script);
    let mark = folder.path().to_str().unwrap();
    let mut child = command.env(MARK, mark).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + PATIENCE;
    while !scratch.join("started").exists() {
        assert!(Instant::now() < end, "the program did not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    let left = || processes_of(mark);
    // A process that is just becoming another program has no variables.
    while left() < 4 {
        assert!(Instant::now() < end, "{} processes were started", left());
        std::thread::sleep(Duration::from_millis(5));
    }
    // What happens to this pipe if the host is killed.
    drop(child.stdout.take());
    while left() > 0 || scratch.exists() {
        assert!(Instant::now() < end, "{} processes are left, and the scratch folder: {}", left(), scratch.exists());
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait().unwrap();
}

/// The socket of a host that dies closes before its pipes: the program has ended before the launcher knows that nobody else cleans up.
#[test]
fn nothing_is_left_when_the_program_ends_with_the_host() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let policy = with_scratch(folder.path());
        let scratch = folder.path().join("scratch");
        let script = format!("cd {}; (sleep 1000 &); echo x > started; cat", scratch.display());
        let mark = folder.path().to_str().unwrap();
        let mut command = shell(&policy, &script);
        let mut child = command.env(MARK, mark).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let end = Instant::now() + PATIENCE;
        while !scratch.join("started").exists() {
            assert!(Instant::now() < end, "the program did not start");
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(child.stdin.take());
        drop(child.stdout.take());
        child.wait().unwrap();
        while processes_of(mark) > 0 || scratch.exists() {
            assert!(Instant::now() < end, "{} processes are left", processes_of(mark));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// NVIDIA's driver writes names of threads to `/proc/self/task/*/comm`, and finds no GPU if that is refused.
#[test]
fn a_program_with_gpus_names_its_own_threads() {
    if !is_enforced() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Another process of the user.
    let other = std::process::id();
    let script = format!(
        "printf renamed >/proc/self/task/$$/comm && read -r _ name </proc/self/status && echo $name
        sh -c 'printf renamed >/proc/self/task/$$/comm' && echo a child too
        read -r line </proc/self/maps && test -n \"$line\" && echo maps
        read -r line </proc/self/net/dev && echo network
        (echo 0 >/proc/{other}/oom_score_adj) || echo not another
        (read -r panic </proc/sys/kernel/panic && echo $panic >/proc/sys/kernel/panic) || echo no setting
        cut -d' ' -f6 /proc/$$/stat"
    );
    let mut policy = with_scratch(folder.path());
    policy.gpus = true;
    let launch = shell(&policy, &script);
    let mut unable = Command::new("setpriv");
    unable
        .args(["--inh-caps=-net_admin", "--bounding-set=-net_admin"])
        .arg(launch.get_program())
        .args(launch.get_args());
    let is_root = rustix::process::geteuid().is_root();
    let command = if is_root { &mut unable } else { &mut shell(&policy, &script) };
    let output = text(&command.stdin(Stdio::null()).process_group(0).output().unwrap().stdout);
    assert_eq!(output, "renamed\nmaps\nnot another\nno setting\n");
    if is_root {
        // Files of the network, which are below the same folder, ask for root alone.
        fs::create_dir_all(policy.scratch.as_ref().unwrap()).unwrap();
        assert_eq!(text(&run(&policy, &script).stdout), "not another\nno setting\n");
    }
    if let Some(mut policy) = with_namespaces(folder.path()) {
        policy.gpus = true;
        let output = text(&run(&policy, &script).stdout);
        // The session is one of these namespaces, because one of the files that it may write to sets the session's share of the processor.
        assert_eq!(output, "renamed\na child too\nmaps\nnetwork\nnot another\nno setting\n1\n");
        fs::create_dir_all(policy.scratch.as_ref().unwrap()).unwrap();
        policy.network = true;
        let output = text(&run(&policy, &script).stdout);
        assert_eq!(output.contains("renamed"), !is_root, "{output}");
    }
}

/// NVIDIA's driver binds an abstract `AF_UNIX` socket. The program still connects to no other socket, and accepts no connection.
#[test]
fn a_program_with_gpus_binds_a_socket_that_nobody_reaches() {
    let python = Path::new("/usr/bin/python3");
    if !is_enforced() {
        return;
    }
    if !python.exists() {
        eprintln!("skipped: sockets of a program with GPUs: there is no {}", python.display());
        return;
    }
    let script = "
import socket
def attempt(what):
    try:
        what()
        return 'done'
    except PermissionError:
        return 'refused'
own = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
own.bind('\\0carton-test')
own.listen()
print(attempt(lambda: own.accept()), attempt(lambda: own.connect('\\0other')), attempt(lambda: own.sendto(b'x', '\\0other')),
    *(attempt(lambda: socket.socket(family, kind)) for family, kind in
        [(socket.AF_UNIX, socket.SOCK_STREAM), (socket.AF_UNIX, socket.SOCK_DGRAM), (socket.AF_INET, socket.SOCK_SEQPACKET),
         (socket.AF_INET, socket.SOCK_STREAM)]))
";
    let folder = tempfile::tempdir().unwrap();
    let mut policy = with_scratch(folder.path());
    policy.gpus = true;
    let arguments = ["-I".into(), "-c".into(), script.into()];
    let output = policy.launch(LAUNCHER.as_ref(), python, &arguments).unwrap().stdin(Stdio::null()).output().unwrap();
    assert_eq!(text(&output.stdout), ["refused"; 7].join(" ") + "\n", "{}", text(&output.stderr));
}

#[test]
fn limits_hold() {
    let folder = tempfile::tempdir().unwrap();
    let mut policy = with_scratch(folder.path());
    policy.limits.open_files = Some(20);
    policy.limits.file_size = Some(1 << 20);
    policy.limits.cpu_seconds = Some(7);
    policy.limits.memory = Some(1 << 30);
    let output = run(&policy, "ulimit -n; ulimit -f; ulimit -t; ulimit -v; ulimit -c; ulimit -n 100 || echo no");
    assert_eq!(text(&output.stdout), "20\n2048\n7\n1048576\n0\nno\n", "{}", text(&output.stderr));
}

/// A kernel without Landlock, and one without seccomp. The calls are `landlock_create_ruleset` and `seccomp`.
#[test]
fn what_is_not_enforced_is_said_and_strict_refuses() {
    if !is_enforced() {
        return;
    }
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: there is no python3 that plays an older kernel");
        return;
    }
    let older = |without: &str, policy: &Policy| {
        let launch = shell(policy, "echo started");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/without_system_calls.py");
        let mut command = Command::new("python3");
        command.args([script, without]).arg(launch.get_program()).args(launch.get_args());
        command.output().unwrap()
    };
    let mut strict = Policy::new();
    strict.strict = true;
    let check = |without: i64, expected: &str| {
        let output = older(&without.to_string(), &Policy::new());
        assert_eq!(text(&output.stdout), "started\n");
        let said = text(&output.stderr);
        assert!(said.lines().any(|line| line.starts_with(MESSAGE_PREFIX) && line.contains(expected)), "{said}");
        let output = older(&without.to_string(), &strict);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(EXIT_REFUSED), String::new()));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    };
    check(libc::SYS_landlock_create_ruleset, "all files of this user");
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    if let Some(mut policy) = with_namespaces(folder.path()) {
        // In namespaces, what is not allowed is not there, and what is read cannot be written.
        fs::write(folder.path().join("given"), "given").unwrap();
        policy.read.push(folder.path().join("given"));
        let script =
            format!("cat {0}/given; echo x > {0}/given; ls /root /home; echo x > /usr/x", folder.path().display());
        let launch = shell(&policy, &script);
        let mut command = Command::new("python3");
        command.args([concat!(env!("CARGO_MANIFEST_DIR"), "/tests/without_system_calls.py"), "444"]);
        let output = command.arg(launch.get_program()).args(launch.get_args()).output().unwrap();
        assert_eq!(text(&output.stdout), "given", "{}", text(&output.stderr));
        assert!(text(&output.stderr).matches("Read-only file system").count() >= 2, "{}", text(&output.stderr));
        assert_eq!(fs::read_to_string(folder.path().join("given")).unwrap(), "given");
    }
    check(libc::SYS_seccomp, "system calls");
    let output = older("9999", &strict);
    assert_eq!(text(&output.stdout), "started\n", "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr).trim_end(), STARTED);
}

/// A policy with namespaces, and with `scratch` in a folder that is not in `/tmp`. `None`, with the reason printed, on systems without them.
fn with_namespaces(folder: &Path) -> Option<Policy> {
    let mut policy = with_scratch(folder);
    policy.namespaces = true;
    let said = text(&run(&policy, "exit 0").stderr);
    if said.contains("missing: ") {
        eprintln!("skipped: {}", said.lines().next().unwrap_or_default());
        return None;
    }
    fs::create_dir_all(policy.scratch.as_ref()?).unwrap();
    Some(policy)
}

#[test]
fn namespaces_have_nothing_but_what_is_allowed() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let Some(mut policy) = with_namespaces(folder.path()) else { return };
    fs::write(folder.path().join("given"), "given").unwrap();
    fs::write(folder.path().join("other"), "other").unwrap();
    std::os::unix::fs::symlink("given", folder.path().join("link")).unwrap();
    policy.read.push(folder.path().join("link"));
    let check = |policy: &Policy, script: &str, expected: &str| {
        let _ = fs::create_dir(policy.scratch.as_ref().unwrap());
        let output = run(policy, script);
        assert_eq!(text(&output.stdout), expected, "{script}: {}", text(&output.stderr));
    };
    let inside = folder.path().display();
    check(&policy, &format!("cat {inside}/link {inside}/given; test -e {inside}/other; echo $?"), "givengiven1\n");
    check(&policy, "test -e /home -o -e /root -o -e /etc/shadow -o -e /etc/hostname; echo $?", "1\n");
    check(&policy, "cut -d: -f1,6,7 /etc/passwd", "model:/tmp:/bin/sh\n");
    check(&policy, "test \"$(id -u)\" = \"$(cut -d: -f3 /etc/passwd)\" && id -un", "model\n");
    // The shell lists the launcher's process 1, and itself.
    check(
        &policy,
        "ls -d /proc/[0-9]* > $TMPDIR/list; wc -l < $TMPDIR/list; grep -c vdso /proc/self/maps; cat /proc/1/environ 2>&1 | head -c 4",
        "2\n1\ncat:",
    );
    check(
        &policy,
        "cat /proc/cmdline /proc/kallsyms /proc/keys; ls /proc/fs; tail -n +3 /proc/net/dev | cut -d: -f1",
        "    lo\n",
    );
    check(
        &policy,
        "ls -A /tmp; echo 1 > /tmp/a; cat $TMPDIR/a; mkdir /dev/shm/b; ls /dev/shm; (echo 2 > /c) 2>/dev/null || echo no",
        "1\nb\nno\n",
    );
}

/// A path that would mean another folder inside could become a permission to write to that.
#[test]
fn the_scratch_folder_has_no_other_name() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut policy) = with_namespaces(folder.path()) else { return };
    fs::create_dir(folder.path().join("given")).unwrap();
    policy.read.push(folder.path().join("given"));
    let name = folder.path().file_name().unwrap();
    std::os::unix::fs::symlink(folder.path(), folder.path().join("link")).unwrap();
    for scratch in [folder.path().join("..").join(name).join("scratch"), folder.path().join("link/scratch")] {
        let _ = fs::create_dir(&scratch);
        policy.scratch = Some(scratch);
        let output = run(&policy, &format!("echo x > {}/given/new", folder.path().display()));
        assert!(!folder.path().join("given/new").exists(), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("it is not the canonical path"), "{}", text(&output.stderr));
    }
}

#[test]
fn a_scratch_folder_that_is_not_there_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut policy = with_scratch(folder.path());
    policy.scratch = Some(folder.path().join("missing"));
    assert_eq!(run(&policy, "exit 0").status.code(), Some(EXIT_REFUSED));
}

#[test]
fn what_is_in_the_shared_memory_of_the_system_can_be_given() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let Some(mut policy) = with_namespaces(folder.path()) else { return };
    fs::write(folder.path().join("given"), "given").unwrap();
    policy.read.push(folder.path().join("given"));
    let script =
        format!("cat {0}/given; echo x >> {0}/given; echo 1 > $TMPDIR/a; cat $TMPDIR/a", folder.path().display());
    let output = run(&policy, &script);
    assert_eq!(text(&output.stdout), "given1\n", "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(folder.path().join("given")).unwrap(), "given");
}

/// Nobody is left when the launcher alone is killed, which the host does not do.
#[test]
fn a_program_in_namespaces_ends_with_its_launcher() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let Some(policy) = with_namespaces(folder.path()) else { return };
    // The arguments tell these processes from all others.
    let time = format!("1000.{}", std::process::id());
    let script = format!("setsid sleep {time} & sleep {time}");
    let mut child = shell(&policy, &script).stdout(Stdio::piped()).spawn().unwrap();
    let n_sleeping = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
        lines.filter(|line| line.starts_with(b"sleep\0") && text(line).contains(&time)).count()
    };
    let wait = |what: &str, is_over: &dyn Fn() -> bool| {
        let end = Instant::now() + PATIENCE;
        while !is_over() {
            assert!(Instant::now() < end, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    wait("the program did not start", &|| n_sleeping() == 2);
    child.kill().unwrap();
    wait("a process is left", &|| n_sleeping() == 0);
    child.wait().unwrap();
}

#[test]
fn shared_memory_is_private() {
    let mut policy = Policy::new();
    policy.namespaces = true;
    let name = format!("/dev/shm/carton-test-{}", std::process::id());
    fs::write(&name, "").unwrap();
    let mut child = shell(&policy, "ls /dev/shm | wc -l; echo > /dev/shm/mine; ls /dev/shm; sleep 0.1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut said, mut errors) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    child.wait().unwrap();
    fs::remove_file(&name).unwrap();
    if errors.contains("missing: ") {
        eprintln!("skipped: this user has no namespaces");
        return;
    }
    assert_eq!(said, "0\nmine\n", "{errors}");
    assert!(!Path::new("/dev/shm/mine").exists());
}
