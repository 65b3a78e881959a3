//! A runner, and a host that sends the content of the input ([`peer`]). The runner ends when its host is gone, whatever it received.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use carton_runner_interface::Tensors;
use carton_runner_interface::runner::{
    Call, Description, LoadRequest, OutputStream, Runner, RunnerError, ServeOptions, serve,
};

use crate::generate::peer;

/// The limit for shared memory and frames.
const CAP: u64 = 1 << 20;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(input: &[u8]) -> bool {
    let (host, runner) = UnixStream::pair().expect("there are descriptors");
    std::thread::scope(|scope| {
        scope.spawn(|| peer::talk(host, input));
        let options =
            ServeOptions { shared_memory: true, pool_cap: CAP, pool_wait: Duration::from_millis(10), frame_cap: CAP };
        // A host that breaks the protocol receives an error message, which the peer reads.
        serve::<Echo>(runner.into(), options).is_ok()
    })
}

/// Returns its inputs.
struct Echo;

impl Runner for Echo {
    fn describe() -> Description {
        Description { name: "echo".to_owned(), framework_version: "1.0.0".to_owned() }
    }

    fn load(request: LoadRequest, _call: &Call) -> Result<Self, RunnerError> {
        // A directory could be any folder of this machine, so it is not read.
        if request.files.directory().is_none() {
            for path in request.files.paths() {
                if let Ok(file) = request.files.map(&path) {
                    std::hint::black_box((file.bytes().first(), file.bytes().last()));
                }
            }
        }
        Ok(Self)
    }

    fn max_concurrency(&self) -> usize {
        4
    }

    fn infer(&self, inputs: Tensors, _call: &Call) -> Result<Tensors, RunnerError> {
        Ok(inputs)
    }

    fn infer_stream(&self, inputs: Tensors, _call: &Call, outputs: &mut OutputStream<'_>) -> Result<(), RunnerError> {
        outputs.send(inputs.clone())?;
        outputs.send(inputs)
    }
}
