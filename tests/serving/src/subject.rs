//! The servers that are compared: how each is installed and started.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;
use crate::case::{self, Encoding};
use crate::client::Addresses;
use crate::server::Server;

/// A server of others, by a program in `peers/`.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    encodings: &'static [Encoding],
}

/// The peers. What one does not speak it is not measured with: MLServer 1.7.1 takes no binary tensors over HTTP.
pub(crate) const PEERS: [Peer; 5] = [
    Peer { name: "litserve", encodings: &[Encoding::Json] },
    Peer { name: "mlserver", encodings: &[Encoding::Json, Encoding::Grpc] },
    Peer { name: "bentoml", encodings: &[Encoding::Json] },
    Peer { name: "kserve", encodings: &[Encoding::Json, Encoding::Binary, Encoding::Grpc] },
    Peer { name: "pytriton", encodings: &[Encoding::Json, Encoding::Binary, Encoding::Grpc] },
];

impl Peer {
    /// Whether it speaks an encoding.
    pub(crate) fn speaks(&self, encoding: Encoding) -> bool {
        self.encodings.contains(&encoding)
    }

    /// Installs it unless it is there, and starts it with models.
    pub(crate) fn start(&self, models: &[&str]) -> Result<Server> {
        let python = python(self.name)?;
        let (http, grpc) = (free_address()?, free_address()?);
        let mut command = Command::new(python);
        command.arg(peers().join(format!("{}_peer.py", self.name)));
        command.args(["--http", &http.port().to_string(), "--grpc", &grpc.port().to_string()]);
        command.args(models.iter().map(|model| format!("{model}={}", case::model_file(model).display())));
        Server::start_at(self.name, command, Addresses { http: Some(http), grpc: Some(grpc) })
    }
}

/// Starts a bound, which is this program again.
pub(crate) fn start_bound(protocol: &str) -> Result<Server> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bound", protocol]);
    Server::start(&format!("bound-{protocol}"), command, protocol.starts_with("http"), protocol == "grpc")
}

/// The `carton` that is measured.
pub(crate) struct Carton {
    program: PathBuf,
    /// The library of ONNX Runtime.
    library: PathBuf,
}

impl Carton {
    /// Takes `program`, or the one that was built together with this program.
    pub(crate) fn new(program: Option<PathBuf>) -> Result<Self> {
        let beside = || Ok::<_, std::io::Error>(std::env::current_exe()?.with_file_name("carton"));
        let program = program.map_or_else(beside, Ok)?;
        let library =
            std::env::var_os("CARTON_TEST_ONNXRUNTIME").map(PathBuf::from).map_or_else(installed_library, Ok)?;
        Ok(Self { program, library })
    }

    /// Starts it with models on ONNX Runtime with one thread, as the peers have it.
    pub(crate) fn start(&self, name: &str, models: &[&str], options: &[&str]) -> Result<Server> {
        let mut command = self.command();
        command.args(["serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]);
        command.args(["--opt", "num_threads=1"]).args(options);
        for model in models {
            command.arg(format!("{model}={}", self.pack(model)?.display()));
        }
        Server::start(name, command, true, true)
    }

    /// Starts this program again, which runs the model of the pictures on the same library in its own process.
    pub(crate) fn start_in_process(&self) -> Result<Server> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("in-process").arg("--library").arg(&self.library);
        command.arg("--model").arg(case::model_file("pixels"));
        Server::start("in-process", command, true, false)
    }

    fn pack(&self, model: &str) -> Result<PathBuf> {
        let carton = case::workspace().join(format!("{model}.carton"));
        let mut command = self.command();
        command.arg("pack").arg(case::model_file(model)).args(["--runner", "onnx", "--no-check", "-o"]).arg(&carton);
        if model == "digits" {
            command.arg("--metadata").arg(case::repository().join("examples/digits/carton.toml"));
        }
        run(&mut command)?;
        Ok(carton)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // Without the user's configuration and cache.
        command.env("CARTON_CONFIG_PATH", "/dev/null").env("CARTON_CACHE_DIR", case::workspace().join("cache"));
        command.env("ORT_DYLIB_PATH", &self.library);
        command
    }
}

/// Makes the models that are not in the repository.
pub(crate) fn make_models() -> Result<()> {
    run(Command::new(python("models")?).arg(peers().join("make_models.py")).arg(case::models()))
}

/// The interpreter of an environment with the packages of `peers/NAME.txt`, which is made if it is not there.
fn python(name: &str) -> Result<PathBuf> {
    let mut command = Command::new("sh");
    command.arg(peers().join("setup.sh")).arg(name).arg(case::workspace().join(name)).stderr(Stdio::inherit());
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{name} could not be installed").into());
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// ONNX Runtime as PyPI's package has it.
fn installed_library() -> Result<PathBuf> {
    let python = python("litserve")?;
    let code = "import glob, importlib.util as u; print(glob.glob(u.find_spec('onnxruntime').submodule_search_locations[0] \
                + '/capi/libonnxruntime.so.*')[0])";
    let output = Command::new(python).args(["-c", code]).output()?;
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(())
}

fn peers() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/peers"))
}

/// An address that nobody listens at. Somebody may before the server does; then the server says so.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
