//! The outputs of a call as they come.

use std::sync::Arc;
use std::time::Duration;

use carton_core::{Carton, Error, OutputStream, Tensors};
use pyo3::exceptions::PyStopAsyncIteration;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::calls::{CallInputs, limited};
use crate::closing::Closing;
use crate::{bridge, runtime, tensors};

/// The outputs of a call as they come. The call begins when the first is asked for.
#[pyclass(frozen, module = "carton")]
pub(crate) struct Stream(Arc<StreamCall>);

impl Stream {
    pub(crate) fn new(carton: Carton, inputs: CallInputs, timeout: Option<Duration>) -> Self {
        Self(Arc::new(StreamCall {
            state: tokio::sync::Mutex::new(StreamState::Ready(Box::new((carton, inputs, timeout)))),
            closing: Closing::default(),
        }))
    }
}

struct StreamCall {
    state: tokio::sync::Mutex<StreamState>,
    closing: Closing,
}

enum StreamState {
    Ready(Box<(Carton, CallInputs, Option<Duration>)>),
    Running(Box<OutputStream>),
    Ended,
}

async fn stream(carton: Carton, inputs: CallInputs, timeout: Option<Duration>) -> Result<OutputStream, Error> {
    match inputs {
        CallInputs::Tensors(inputs) => limited(carton.infer(inputs), timeout).stream().await,
        CallInputs::Sealed(sealed) => limited(carton.infer(sealed.as_ref()), timeout).stream().await,
    }
}

/// The next outputs; `None` at the end, and when the stream is closed meanwhile.
async fn next(call: Arc<StreamCall>) -> Result<Option<Tensors>, Error> {
    tokio::select! {
        outputs = next_of(&call.state) => outputs,
        () = call.closing.closed() => Ok(None),
    }
}

async fn next_of(state: &tokio::sync::Mutex<StreamState>) -> Result<Option<Tensors>, Error> {
    let mut state = state.lock().await;
    let mut running = match std::mem::replace(&mut *state, StreamState::Ended) {
        StreamState::Ready(call) => {
            let (carton, inputs, timeout) = *call;
            Box::new(stream(carton, inputs, timeout).await?)
        }
        StreamState::Running(running) => running,
        StreamState::Ended => return Ok(None),
    };
    match running.next().await {
        Some(Ok(outputs)) => {
            *state = StreamState::Running(running);
            Ok(Some(outputs.into_tensors()))
        }
        Some(Err(error)) => Err(error),
        None => Ok(None),
    }
}

#[pymethods]
impl Stream {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let outputs = runtime::wait(py, None, next(Arc::clone(&self.0)))?;
        outputs.map(|outputs| tensors::outputs(py, outputs)).transpose()
    }

    fn __aiter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __anext__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        bridge::awaitable(py, next(Arc::clone(&self.0)), |py, outputs| match outputs {
            Some(outputs) => Ok(tensors::outputs(py, outputs)?.into_any().unbind()),
            None => Err(PyStopAsyncIteration::new_err(())),
        })
    }

    /// Cancels the call. The iteration ends.
    ///
    ///     >>> stream = model.stream(image=np.zeros((1, 1, 8, 8), np.float32))
    ///     >>> stream.close()
    ///     >>> list(stream)
    ///     []
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let call = Arc::clone(&self.0);
        call.closing.close();
        let ended = async move { Ok::<_, Error>(std::mem::replace(&mut *call.state.lock().await, StreamState::Ended)) };
        runtime::wait(py, None, ended).map(drop)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}
