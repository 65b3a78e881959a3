"""Models that misbehave: they never make the runner hang, or send a wrong answer."""

import os
import signal
import struct
import time
import unittest

import support
from host import TIMEOUT

SOURCE = """
    import ctypes
    import gc
    import multiprocessing
    import os
    import signal
    import subprocess
    import sys
    import threading
    import time

    import numpy as np

    import carton_runner


    def good():
        return {"y": 1.0}


    def has_no_truth():
        class Odd(Exception):
            def __bool__(self):
                raise RuntimeError("neither")
        try:
            raise Odd
        except Odd as error:
            raise ValueError("odd") from error


    def has_a_long_name():
        return {b"x" * (20 << 20): 1.0}


    def fork():
        # The child comes back from the call, as the parent does.
        if os.fork() == 0:
            return {"y": 666.0}
        os.wait()
        return {"y": 1.0}


    def fork_and_raise():
        if os.fork() == 0:
            raise ValueError("in the child")
        os.wait()
        return {"y": 1.0}


    def fork_in_stream():
        yield {"y": 1.0}
        if os.fork() == 0:
            yield {"y": 666.0}
        os.wait()


    def fork_and_stay():
        # The child keeps everything open that it inherited.
        if os.fork() == 0:
            time.sleep(1000)
        return {"y": 1.0}


    def fork_and_write():
        read, write = os.pipe()
        if os.fork() == 0:
            # It finds no socket among its descriptors.
            found = b"none"
            for number in os.listdir("/proc/self/fd"):
                try:
                    if os.readlink("/proc/self/fd/" + number).startswith("socket:"):
                        found = b"some"
                except OSError:
                    pass
            os.write(write, found)
            os._exit(0)
        os.wait()
        assert os.read(read, 10) == b"none"
        return {"y": 1.0}


    def square(x):
        return x * x


    def pool(method):
        with multiprocessing.get_context(method).Pool(2) as pool:
            return {"y": float(sum(pool.map(square, [1, 2, 3])))}


    def pool_fork():
        return pool("fork")


    def pool_spawn():
        return pool("spawn")


    def run():
        found = subprocess.run([sys.executable, "-c", "print(input())"], capture_output=True)
        # There is nothing to be read from standard input.
        assert b"EOFError" in found.stderr, found
        return {"y": 1.0}


    def threads():
        results = []
        ones = [threading.Thread(target=lambda: results.append(carton_runner.empty(50000, "f4"))) for _ in range(8)]
        [one.start() for one in ones]
        [one.join() for one in ones]
        return {"y": float(len(results))}


    def close_all():
        os.closerange(0, 65536)
        return {"y": 1.0}


    def close_low():
        os.closerange(3, 256)
        held = open("/dev/null")
        return {"y": 1.0}


    def close_output():
        os.close(1)
        os.close(2)
        return {"y": 1.0}


    def replace_output():
        sys.stdout = sys.stderr = None
        return {"y": 1.0}


    def close_streams():
        sys.stdout.close()
        sys.__stderr__.close()
        return {"y": 1.0}


    def binary():
        os.write(1, bytes(range(256)) * 1000)
        os.write(2, b"\\xff" * 100000)
        return {"y": 1.0}


    def chdir():
        os.chdir("/")
        return {"y": 1.0}


    def signals():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGUSR1):
            signal.signal(number, lambda *_: None)
        return {"y": 1.0}


    def trace():
        sys.settrace(lambda *_: None)
        sys.setprofile(lambda *_: None)
        threading.settrace(lambda *_: None)
        return {"y": 1.0}


    class Raises:
        def __del__(self):
            raise ValueError("in __del__")


    def delete():
        Raises()
        return {"y": 1.0}


    def modules():
        for name in list(sys.modules):
            if name.split(".")[0] in ("carton_runner", "json", "struct", "socket", "numpy", "threading", "select"):
                del sys.modules[name]
        return {"y": 1.0}


    def no_gc():
        gc.disable()
        gc.freeze()
        return {"y": 1.0}


    def recursion_limit():
        sys.setrecursionlimit(50)
        return {"y": 1.0}


    def builtins():
        import builtins
        builtins.print = builtins.open = None
        return {"y": 1.0}


    def api():
        carton_runner._pool = None
        return {"y": 1.0}


    def own_loop():
        import asyncio
        asyncio.run(asyncio.sleep(0))
        return {"y": 1.0}


    def exit_0():
        sys.exit()


    def exit_3():
        sys.exit(3)


    def exit_text():
        sys.exit("I do not like this")


    def exit_at_once():
        os._exit(5)


    def segfault():
        ctypes.string_at(0)


    def kill():
        os.kill(os.getpid(), signal.SIGKILL)


    def abort():
        os.abort()


    def alarm():
        def handler(*_):
            raise TimeoutError("too late")
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 2)
        return {"y": 1.0}


    class Weird(dict):
        def items(self):
            raise ValueError("no items")


    def weird():
        return Weird(y=1.0)


    def infinite():
        while True:
            yield {"y": 1.0}


    def endless():
        while True:
            pass
"""

INFER = {"infer": {"inputs": []}}
GOOD = {"y": ("float64", [], struct.pack("<d", 1.0))}


@support.needs_numpy
class Misbehaviour(support.ModelTest):
    def answers(self, function, times=2, **arguments):
        """Lets the model misbehave, and then calls it again."""
        with self.subTest(function), self.host(SOURCE, {"infer_fn": function}, **arguments) as host:
            for _ in range(times):
                self.assertEqual(host.outputs(*host.call(INFER)), GOOD)
            self.assertEqual(host.call({"ping": {}})[0], "pong")
            return host

    def ends(self, function, status):
        with self.subTest(function), self.host(SOURCE, {"infer_fn": function}) as host:
            host.send(INFER, 7)
            with self.assertRaises((EOFError, ConnectionResetError)):
                host.answer(7)
            self.assertEqual(host.process.wait(TIMEOUT), status)
            return host.printed()

    def test_processes_that_it_forks_never_answer(self):
        for function in ("fork", "fork_and_raise", "fork_and_write", "fork_and_stay"):
            self.answers(function)
        with self.host(SOURCE, {"infer_fn": "fork_in_stream"}) as host:
            host.send({"infer_stream": {"inputs": [], "credits": 9}}, 7)
            self.assertEqual(host.outputs(*host.answer(7)), GOOD)
            self.assertEqual(host.answer(7)[0], "stream_end")
            self.assertIn(b"was ended", host.printed())

    def test_a_child_that_stays_does_not_keep_the_connection(self):
        with self.host(SOURCE, {"infer_fn": "fork_and_stay"}, start_new_session=True) as host:
            host.call(INFER)
            os.kill(host.process.pid, signal.SIGKILL)
            with self.assertRaises((EOFError, ConnectionResetError)):
                host.read()
            os.killpg(host.process.pid, signal.SIGKILL)

    def test_processes_of_multiprocessing(self):
        for function in ("pool_fork", "pool_spawn"):
            with self.subTest(function), self.host(SOURCE, {"infer_fn": function}) as host:
                self.assertEqual(host.outputs(*host.call(INFER))["y"][2], struct.pack("<d", 14.0), host.printed())

    def test_other_processes_and_threads(self):
        self.answers("run")
        with self.host(SOURCE, {"infer_fn": "threads"}) as host:
            self.assertEqual(host.outputs(*host.call(INFER))["y"][2], struct.pack("<d", 8.0))

    def test_what_it_closes_and_replaces(self):
        for function in ("close_low", "close_output", "replace_output", "binary", "chdir", "signals", "trace"):
            self.answers(function, times=3 if function in ("trace", "binary", "signals") else 1)
        self.answers("close_streams", times=1)
        for function in ("delete", "modules", "no_gc", "builtins", "api", "own_loop"):
            self.answers(function)

    def test_closing_everything_ends_the_connection(self):
        printed = self.ends("close_all", 1)
        self.assertEqual(printed, b"")

    def test_a_tiny_recursion_limit_is_an_error_or_an_end(self):
        with self.host(SOURCE, {"infer_fn": "recursion_limit"}) as host:
            for _ in range(3):
                host.send(INFER, 7)
                try:
                    self.assertIn(host.answer(7)[0], ("inferred", "error"))
                except (EOFError, ConnectionResetError):
                    self.assertNotEqual(host.process.wait(TIMEOUT), 0)
                    break

    def test_it_ends_itself(self):
        self.ends("exit_0", 0)
        self.ends("exit_3", 3)
        self.assertIn(b"I do not like this", self.ends("exit_text", 1))
        self.ends("exit_at_once", 5)
        self.assertIn(b"in segfault", self.ends("segfault", -signal.SIGSEGV))
        self.ends("kill", -signal.SIGKILL)
        self.ends("abort", -signal.SIGABRT)

    def test_a_signal_between_the_calls_ends_it(self):
        with self.host(SOURCE, {"infer_fn": "alarm"}) as host:
            self.assertEqual(host.outputs(*host.call(INFER)), GOOD)
            self.assertEqual(host.process.wait(TIMEOUT), 70)
            self.assertIn(b"TimeoutError: too late", host.printed())

    def test_weird_results(self):
        with self.host(SOURCE, {"infer_fn": "weird"}) as host:
            self.error(host.call(INFER), "ValueError: no items")

    def test_odd_errors_cost_one_call(self):
        for function, words in (("has_no_truth", "ValueError"), ("has_a_long_name", "the names of outputs are text")):
            with self.subTest(function), self.host(SOURCE, {"infer_fn": function}) as host:
                for _ in range(2):
                    self.error(host.call({"infer": {"inputs": []}}), words)

    def test_an_endless_model_ends_with_its_host(self):
        with self.host(SOURCE, {"infer_fn": "endless"}) as host:
            host.send(INFER, 7)
            host.send({"ping": {}}, 8)
            self.assertEqual(host.answer(8)[0], "pong")
            host.send({"cancel": {}}, 7)
            time.sleep(0.1)
            host.socket.close()
            self.assertEqual(host.process.wait(TIMEOUT), 0)

    def test_an_endless_stream_is_cancelled(self):
        with self.host(SOURCE, {"infer_fn": "infinite"}) as host:
            host.send({"infer_stream": {"inputs": [], "credits": 1 << 60}}, 7)
            host.send({"cancel": {}}, 7)
            while True:
                name, fields, _ = host.answer(7)
                if name == "error":
                    break
            self.assertEqual(fields["code"], "cancelled")

    def test_a_pool_that_is_full(self):
        source = """
            import carton_runner
            kept = []

            def fill():
                kept.append(carton_runner.empty(1 << 30, "u1"))
                return {"y": 1.0}
        """
        with self.host(source, {"infer_fn": "fill"}) as host:
            for _ in range(4):
                self.assertEqual(host.outputs(*host.call(INFER)), GOOD)
            host.send(INFER, 7)
            # The call waits for room, and is cancelled.
            time.sleep(0.3)
            host.send({"cancel": {}}, 7)
            self.assertEqual(host.answer(7)[1]["code"], "cancelled")


if __name__ == "__main__":
    unittest.main()
