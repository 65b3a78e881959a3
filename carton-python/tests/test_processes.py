"""Forks, signals, and the exit of the interpreter while calls run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import RunScript

RUNS = 20
# Of the cases that are like another one.
FEWER = 6

FORK = """
model = noop()
model(x=1)
sealed, stream, running = model.seal(x=1), model.stream(x=1), noop(stream_items=2).stream(x=1)
next(running)
package = carton.open(DIGITS)
output = model(x=np.arange(3.0))["x"]
pid = os.fork()
if pid:
    _, status = os.waitpid(pid, 0)
    # The parent's model has not been touched.
    assert model(x=2)["x"] == 2 and len(list(running)) == 1
    print("parent works")
    sys.exit(os.waitstatus_to_exitcode(status))
signal.alarm(20)

def awaited(function):
    async def call():
        await function()
    asyncio.run(call())

async def first(stream):
    async for _ in stream:
        break

entries = {
    "call": lambda: model(x=1),
    "infer": lambda: model.infer(sealed),
    "infer_async": lambda: awaited(lambda: model.infer_async(x=1)),
    "stream": lambda: model.stream(x=1),
    "next": lambda: next(stream),
    "next of a running stream": lambda: next(running),
    "async for": lambda: awaited(lambda: first(stream)),
    "seal": lambda: model.seal(x=1),
    "alloc": lambda: model.alloc(shape=(3,), dtype="float32"),
    "self_test": model.self_test,
    "ping": model.ping,
    "package": lambda: model.package,
    "inputs": lambda: model.inputs,
    "outputs": lambda: model.outputs,
    "runner": lambda: model.runner,
    "load": lambda: carton.load(DIGITS),
    "load_async": lambda: awaited(lambda: carton.load_async(DIGITS)),
    "open": lambda: carton.open(DIGITS),
    "verify": package.verify,
    "tensor": lambda: package.tensor(package.tensors[0]),
    "example": lambda: package.example("a two"),
    "self_test of a package": lambda: package.self_test("one digit"),
    "read": lambda: package.read("carton.toml"),
    "unpack": lambda: package.unpack("/tmp/never-written"),
    "pack": lambda: carton.pack("model.onnx", "/tmp/never-written.carton", runner="onnx"),
    "shrink": lambda: carton.shrink(DIGITS, "/tmp/never-written.carton", url_prefix="https://localhost"),
    "resolve": lambda: carton.resolve(DIGITS, "/tmp/never-written.carton"),
    "recognize": lambda: carton.recognize("model.onnx"),
    "runners": carton.runners,
    "install_runner": lambda: carton.install_runner("onnx", index="/nowhere"),
    "cache.list": carton.cache.list,
    "cache.prune": carton.cache.prune,
    "cache.remove": lambda: carton.cache.remove("x"),
}
wrong = []
for name, entry in entries.items():
    try:
        entry()
        wrong.append(f"{name}: no error")
    except carton.ForkError as error:
        if not error.hint:
            wrong.append(f"{name}: no hint")
    except BaseException as error:
        wrong.append(f"{name}: {error!r}")
# What is in memory can be read and dropped.
assert output.sum() == 3 and repr(model) and package.inputs
sealed.close()
model.close()
del sealed, stream, running, package, output
for line in wrong:
    print(line)
sys.exit(7 if wrong else 0)
"""


def test_every_entry_of_a_forked_child_raises(run_script: RunScript) -> None:
    ended = run_script(FORK)
    assert ended.code == 0, ended.stdout + ended.stderr
    assert "parent works" in ended.stdout


def test_a_fork_before_use_may_use_carton(run_script: RunScript) -> None:
    ended = run_script(
        """
pid = os.fork()
signal.alarm(20)
value = noop()(x=3)["x"]
if pid:
    _, status = os.waitpid(pid, 0)
    sys.exit(os.waitstatus_to_exitcode(status))
sys.exit(0 if value == 3 else 1)
"""
    )
    assert ended.code == 0, ended.stderr


def test_forks_while_threads_call(run_script: RunScript) -> None:
    ended = run_script(
        """
model = noop()
stop = False

def work():
    while not stop:
        model(x=1)

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(20):
    pid = os.fork()
    if not pid:
        signal.alarm(10)
        try:
            model(x=1)
        except carton.ForkError:
            model.close()
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(pid, 0)
    if status:
        print(os.waitstatus_to_exitcode(status))
stop = True
for thread in threads:
    thread.join()
assert model(x=1)["x"] == 1
"""
    )
    assert (ended.code, ended.stdout) == (0, ""), ended.stdout + ended.stderr


def test_a_process_pool_that_forks_raises_and_one_that_spawns_works(run_script: RunScript) -> None:
    ended = run_script(
        """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

def work(value):
    try:
        return int(noop()(x=value)["x"])
    except carton.Error as error:
        return type(error).__name__

if __name__ == "__main__":
    noop()(x=1)
    for method in ("fork", "spawn"):
        with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
            print(method, list(pool.map(work, [5])))
"""
    )
    assert ended.stdout.split("\n")[:2] == ["fork ['ForkError']", "spawn [5]"], ended.stdout + ended.stderr


# Processes in the background of a shell ignore SIGINT, and so do those that they start.
INTERRUPT = """
signal.signal(signal.SIGINT, signal.default_int_handler)
model = noop(delay_ms=20_000, only_with="slow")
model(x=1)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    {call}
except KeyboardInterrupt:
    took = time.monotonic() - start
    assert took < 1.5, took
    assert model(x=2, timeout=10)["x"] == 2
    assert time.monotonic() - start < 5
    print("interrupted")
"""


@pytest.mark.parametrize("call", ["model(slow=1)", "list(model.stream(slow=1))", "model.infer({'slow': 1})"])
def test_ctrl_c_ends_a_call_at_once(run_script: RunScript, call: str) -> None:
    ended = run_script(INTERRUPT.format(call=call))
    assert (ended.code, ended.stdout) == (0, "interrupted\n"), ended.stderr


def test_ctrl_c_ends_awaited_calls(run_script: RunScript) -> None:
    ended = run_script(INTERRUPT.format(call="asyncio.run(call())").replace(
        "start = ",
        "async def call():\n    await asyncio.gather(*[model.infer_async(slow=1) for _ in range(3)])\nstart = ",
    ))
    assert (ended.code, ended.stdout) == (0, "interrupted\n"), ended.stderr


def test_a_handler_that_returns_does_not_end_a_call(run_script: RunScript) -> None:
    ended = run_script(
        """
model = noop(delay_ms=600)
seen = []
signal.signal(signal.SIGUSR1, lambda *_: seen.append(time.monotonic()))
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
start = time.monotonic()
assert model(x=1)["x"] == 1
print(len(seen), seen[0] - start < 0.5)
"""
    )
    assert (ended.code, ended.stdout) == (0, "1 True\n"), ended.stderr


EXITS = {
    "threads that call": (
        """
model = noop()
def work():
    while True:
        model(x=np.zeros(1000))
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
sys.exit(3)
""",
        3,
    ),
    "a thread in a long call": (
        """
model = noop(delay_ms=30_000)
threading.Thread(target=model, kwargs={"x": 1}, daemon=True).start()
time.sleep(0.1)
sys.exit(3)
""",
        3,
    ),
    "awaited calls": (
        """
model = noop(delay_ms=30_000)
async def main():
    calls = [asyncio.ensure_future(model.infer_async(x=1)) for _ in range(8)]
    await asyncio.sleep(0.05)
    sys.exit(3)
asyncio.run(main())
""",
        3,
    ),
    "finished awaits": (
        """
model = noop()
async def main():
    await asyncio.gather(*[model.infer_async(x=np.zeros(1000)) for _ in range(50)])
asyncio.run(main())
""",
        0,
    ),
    "awaited calls in a loop that nobody runs": (
        """
model = noop(delay_ms=20)
loop = asyncio.new_event_loop()
async def start():
    calls = [asyncio.ensure_future(model.infer_async(x=1)) for _ in range(8)]
    await asyncio.sleep(0)
    return calls
calls = loop.run_until_complete(start())
time.sleep(0.02)
""",
        0,
    ),
    "streams": (
        """
model = noop(stream_items=1_000_000)
def work():
    for item in model.stream(x=1):
        pass
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
half = model.stream(x=1)
next(half)
time.sleep(0.05)
sys.exit(3)
""",
        3,
    ),
    "async streams": (
        """
model = noop(stream_items=1_000_000)
async def work():
    async for item in model.stream(x=1):
        pass
async def main():
    tasks = [asyncio.ensure_future(work()) for _ in range(3)]
    await asyncio.sleep(0.05)
    raise SystemExit(3)
asyncio.run(main())
""",
        3,
    ),
    "an uncaught error": (
        """
model = noop()
output = model(x=np.zeros(1 << 20))
raise ValueError("an error of the script")
""",
        1,
    ),
}

OFTEN = {"threads that call", "awaited calls", "async streams"}


@pytest.mark.parametrize("case", EXITS)
def test_the_interpreter_exits_with_calls_in_flight(run_script: RunScript, case: str) -> None:
    text, code = EXITS[case]
    with ThreadPoolExecutor(5) as pool:
        runs = list(pool.map(run_script, [text] * (RUNS if case in OFTEN else FEWER)))
    for ended in runs:
        assert ended.code == code, (ended.code, ended.stderr)
        if code != 1:
            # asyncio itself complains of tasks that nobody awaits.
            lines = [line for line in ended.stderr.splitlines() if not line.startswith(("Task was destroyed", "task: <"))]
            assert lines == []


@pytest.mark.parametrize(
    "work",
    [
        "model(x=Slow())",
        "asyncio.run(awaited())",
        "carton.load(DIGITS, progress=lambda **_: time.sleep(1))",
    ],
)
def test_the_interpreter_exits_while_a_thread_runs_python_below_carton(run_script: RunScript, work: str) -> None:
    """The interpreter ends threads that ask for its lock by unwinding their stacks, which must not reach frames of Rust."""
    ended = run_script(
        f"""
class Slow:
    def __array__(self, *_, **__):
        for _ in range(50):
            time.sleep(0.02)
        return np.zeros(3)

class Teardown:
    def __del__(self, sleep=time.sleep):
        sleep(1.2)

async def awaited():
    await model.infer_async(x=Slow())

teardown = Teardown()
model = noop()
threading.Thread(target=lambda: {work}, daemon=True).start()
time.sleep(0.2)
sys.exit(3)
"""
    )
    assert ended.code == 3, ended.stderr


@pytest.mark.parametrize(
    "work",
    [
        "model(x=Endless())",
        "asyncio.run(awaited())",
        "carton.load(DIGITS, progress=lambda **_: endless())",
    ],
)
def test_the_interpreter_exits_while_python_below_carton_never_returns(run_script: RunScript, work: str) -> None:
    """It waits some seconds for such a thread. Then the thread ends when it asks for the lock again, below frames of Rust."""
    ended = run_script(
        f"""
def endless():
    started.set()
    while True:
        pass

class Endless:
    def __array__(self, *_, **__):
        endless()

async def awaited():
    await model.infer_async(x=Endless())

class Teardown:
    def __del__(self, sleep=time.sleep):
        sleep(0.5)

teardown = Teardown()
started = threading.Event()
model = noop()
threading.Thread(target=lambda: {work}, daemon=True).start()
assert started.wait(20)
sys.exit(3)
"""
    )
    assert ended.code == 3, ended.stderr


def test_no_runner_outlives_a_killed_interpreter(run_script: RunScript) -> None:
    ended = run_script(
        """
model = noop(delay_ms=30_000)
threading.Thread(target=model, kwargs={"x": 1}, daemon=True).start()
time.sleep(0.2)
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    assert ended.code == -9
