//! Runners from a server: downloads that break off, indexes with false statements, and models that need such runners.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use carton_core::config::Config;
use carton_core::runner::{Installed, Installer, OfferedRunner, PLATFORM, Place, Requirement, package};
use carton_core::{CancelToken, Carton, Context, Error, ErrorKind, Inputs, Sha256Digest};
use carton_test_server::{Answer, File, Server};

const RUNNER: &str = env!("CARGO_BIN_EXE_carton-test-runner");

/// Larger than one request of a download, so that a download can break off and be resumed.
const NOISE_LENGTH: usize = 24 << 20;

/// A server with the runner `echo` and its index, and a folder to install it into.
struct Site {
    folder: tempfile::TempDir,
    server: Server,
    archive: Vec<u8>,
}

impl Site {
    /// Serves the archive without its second half, and returns the whole of it.
    fn serve_half(&self) -> File {
        let whole = self.archive.len() as u64;
        let file = File::new(self.archive.clone()).with_etag("\"1\"");
        let same = file.clone();
        self.server.route("/files/echo.tar.gz", move |request| {
            let is_late = request.range(whole).is_none_or(|range| range.start >= whole / 2);
            if is_late { Answer::status(503) } else { file.answer(request) }
        });
        same
    }

    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runner = folder.path().join("echo");
        fs::create_dir(&runner).unwrap();
        fs::copy(RUNNER, runner.join("run")).unwrap();
        fs::set_permissions(runner.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
        let mut state = 1_u64;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        });
        fs::write(runner.join("noise"), noise.take(NOISE_LENGTH).collect::<Vec<u8>>()).unwrap();
        let descriptor = format!(
            "version = 1\n[[runner]]\nrunner_name = \"echo\"\nframework_version = \"1.0.0\"\n\
             runner_compat_version = 1\nrunner_interface_version = 2\nrunner_release_date = 2026-01-01T00:00:00Z\n\
             runner_path = \"run\"\nargs = [\"__carton-runner\", \"noop\"]\nplatform = \"{PLATFORM}\"\n"
        );
        fs::write(runner.join("runner.toml"), descriptor).unwrap();
        let path = folder.path().join("echo.tar.gz");
        let packaged = package(&runner, &path, &Context::default()).unwrap();
        let archive = fs::read(&path).unwrap();
        let server = Server::start();
        let site = Self { folder, server, archive };
        site.offer(&packaged.offered("files/echo.tar.gz"));
        site.server.serve("/files/echo.tar.gz", File::new(site.archive.clone()));
        site
    }

    fn offer(&self, offered: &[OfferedRunner]) {
        self.server.serve("/index.json", File::new(serde_json::to_vec(offered).unwrap()));
    }

    fn runner_dir(&self) -> PathBuf {
        self.folder.path().join("runners")
    }

    fn config(&self) -> Config {
        let mut config = Config::in_folder(self.folder.path());
        config.runner_index = Some(self.server.url("/index.json"));
        config
    }

    fn install(&self) -> Result<Installed, Error> {
        self.install_until(&CancelToken::default())
    }

    fn install_until(&self, cancel_token: &CancelToken) -> Result<Installed, Error> {
        let config = self.installer_config();
        let place = Place::parse(&self.server.url("/index.json")).unwrap();
        let installer = Installer::new(&config).cancel_token(cancel_token.clone());
        installer.from_index(&place, &Requirement::new("echo"))
    }

    fn installer_config(&self) -> Config {
        let mut config = self.config();
        config.idle_timeout = Some(Duration::from_secs(5));
        config.max_retries = Some(2);
        config
    }

    /// The folders of downloads in the cache.
    fn downloads(&self) -> Vec<PathBuf> {
        let folder = self.config().cache_dir.join("downloads-v1");
        names(&folder).into_iter().map(|name| folder.join(name)).collect()
    }

    /// Returns the visible names in the folder of runners, and the hidden ones.
    fn names(&self) -> (Vec<String>, Vec<String>) {
        let mut names = names(&self.runner_dir());
        names.sort();
        names.into_iter().partition(|name| !name.starts_with('.'))
    }
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn from_a_server_with_and_without_ranges() {
    let site = Site::new();
    let installed = site.install().unwrap();
    assert_eq!(fs::metadata(installed.folder.join("noise")).unwrap().len(), NOISE_LENGTH as u64);
    assert_eq!(site.names(), (vec!["echo-1.0.0".to_owned()], vec![]));
    fs::remove_dir_all(site.runner_dir()).unwrap();
    site.server.serve("/files/echo.tar.gz", File::new(site.archive.clone()).without_ranges());
    site.install().unwrap();
    assert_eq!(site.names(), (vec!["echo-1.0.0".to_owned()], vec![]));
}

#[test]
fn a_download_that_breaks_goes_on_the_next_time() {
    let site = Site::new();
    let same = site.serve_half();
    let whole = site.archive.len() as u64;
    let error = site.install().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Network, "{error}");
    assert_eq!(site.names(), (vec![], vec![]));
    assert_eq!(site.downloads().len(), 1, "what came is kept");
    site.server.forget();
    site.server.serve("/files/echo.tar.gz", same);
    site.install().unwrap();
    let again = site.server.written_for("/files/echo.tar.gz");
    assert!(again < whole * 8 / 10, "{again} of {whole} bytes came again");
    assert_eq!(site.names(), (vec!["echo-1.0.0".to_owned()], vec![]));
    assert_eq!(site.downloads().len(), 0, "an archive that was unpacked is not kept");
}

#[test]
fn a_damaged_leftover_of_a_download_does_no_harm() {
    let site = Site::new();
    let same = site.serve_half();
    site.install().unwrap_err();
    let [folder] = site.downloads().try_into().unwrap();
    fs::File::options().write(true).open(folder.join("data")).unwrap().write_all_at(b"damaged!", 0).unwrap();
    site.server.serve("/files/echo.tar.gz", same);
    site.install().unwrap();
    assert_eq!(site.names(), (vec!["echo-1.0.0".to_owned()], vec![]));
    assert_eq!(site.downloads().len(), 0);
}

/// A cancelled installation does not wait for a server that sends nothing more.
#[test]
fn a_cancelled_installation_ends_soon() {
    let site = Site::new();
    let file = File::new(site.archive.clone());
    let stalling = file.clone();
    // This is half of what the first request asks for, so that no answer is ever complete.
    site.server.route("/files/echo.tar.gz", move |request| stalling.answer(request).stall_after(64 << 10));
    let token = CancelToken::default();
    let (error, took) = std::thread::scope(|scope| {
        let installing = scope.spawn(|| site.install_until(&token).unwrap_err());
        site.server.wait_for_requests("/files/echo.tar.gz", 1);
        std::thread::sleep(Duration::from_millis(300));
        let cancelled = Instant::now();
        token.cancel();
        (installing.join().unwrap(), cancelled.elapsed())
    });
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(site.names(), (vec![], vec![]));
    // A token stays cancelled, also before the first request.
    assert_eq!(site.install_until(&token).unwrap_err().kind(), ErrorKind::Interrupted);
    site.server.serve("/files/echo.tar.gz", file);
    site.install().unwrap();
}

/// Local archives are not copied into the cache, which is not even opened for them.
#[test]
fn a_cache_that_cannot_be_used_matters_only_to_downloads() {
    let site = Site::new();
    let config = site.installer_config();
    fs::write(&config.cache_dir, "no folder").unwrap();
    let error = site.install().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Machine);
    assert!(error.hint().unwrap().contains("CARTON_CACHE_DIR"), "{:?}", error.hint());
    assert_eq!(site.names(), (vec![], vec![]));
    let archive = Place::parse(site.folder.path().join("echo.tar.gz").to_str().unwrap()).unwrap();
    let digest = Some(Sha256Digest::of(&site.archive));
    Installer::new(&config).from_archive(&archive, digest).unwrap();
}

#[test]
fn what_is_not_what_the_index_says_is_not_unpacked() {
    let site = Site::new();
    let mut other = site.archive.clone();
    *other.last_mut().unwrap() ^= 1;
    site.server.serve("/files/echo.tar.gz", File::new(other));
    let error = site.install().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity);
    assert!(error.to_string().starts_with("digest mismatch for `http://127.0.0.1:"), "{error}");
    assert_eq!(site.names(), (vec![], vec![]));
    assert_eq!(site.downloads().len(), 0);
    site.server.serve("/files/echo.tar.gz", File::new(site.archive.clone()));
    site.install().unwrap();
}

#[test]
fn an_index_on_a_server_names_no_files_of_this_machine() {
    let site = Site::new();
    let secret = site.folder.path().join("echo.tar.gz");
    let index = serde_json::to_string(&{
        let packaged = package(&site.folder.path().join("echo"), &secret, &Context::default());
        packaged.unwrap().offered(&format!("file://{}", secret.display()))
    });
    site.server.serve("/index.json", File::new(index.unwrap()));
    let error = site.install().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoRunner, "{error}");
    site.server.route("/index.json", |_| Answer::status(404));
    let error = site.install().unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Network, "cannot fetch the runner index"));
    site.server.route("/index.json", |_| Answer::endless(200, b"[ ".as_slice()));
    assert_eq!(site.install().unwrap_err().kind(), ErrorKind::Network);
    assert_eq!(site.names().0, [""; 0]);
}

#[test]
fn several_processes_worth_of_installations_fetch_it_once() {
    let site = Site::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| site.install().unwrap());
        }
    });
    assert_eq!(site.names(), (vec!["echo-1.0.0".to_owned()], vec![]));
    let written = site.server.written_for("/files/echo.tar.gz");
    let whole = site.archive.len() as u64;
    // An installation that starts after another has ended installs again; those that waited do not.
    assert!(written < 2 * whole, "{written} bytes came of {whole}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_brings_its_runner() {
    let site = Site::new();
    let model = site.folder.path().join("model.bin");
    fs::write(&model, "weights").unwrap();
    let load = |version: &str| {
        Carton::load_bare(&model, "echo").framework_version(version.parse().unwrap()).config(site.config())
    };
    let error = load("^1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoRunner);
    assert!(
        error.hint().unwrap().contains("install the runner `echo` with framework version `^1`"),
        "{:?}",
        error.hint()
    );
    assert!(site.server.exchanges().is_empty(), "nobody asked for the index");
    // As `carton runner install noop` does: a runner from an index does not confine others, nor itself.
    let launcher = site.runner_dir().join("noop/run");
    fs::create_dir_all(launcher.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(RUNNER, launcher).unwrap();
    fs::write(site.runner_dir().join(".launcher"), "noop/run\n").unwrap();
    let loaded = load("^1").install_runners(true).await.unwrap();
    loaded.infer(Inputs::none()).await.unwrap();
    drop(loaded);
    site.server.forget();
    load("^1").install_runners(true).await.unwrap();
    assert!(site.server.exchanges().is_empty(), "an installed runner needs no index");
    let error = load("^2").install_runners(true).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoRunner);
    assert!(error.to_string().contains("offers no runner `echo`"), "{error}");
}
