"""Tensors in shared memory: which are copied, which are not, and when they are given back."""

import resource
import struct
import time
import unittest

import support
from host import Host, inline, shared

MODEL = """
    import gc
    import threading

    import numpy as np

    import carton_runner

    kept = []

    def where(x):
        '''Where the input lies, and whether it may be written to.'''
        return {"address": np.uint64(x.__array_interface__["data"][0]), "writeable": x.flags.writeable}

    def double(x):
        return {"y": x * 2}

    def parts(x):
        return {"all": x, "middle": x[1000:9000], "copied": x[::2]}

    def keep(x):
        kept.append(x[10:])
        return {}

    def forget(after=None):
        kept.clear()
        if after is not None:
            threading.Timer(float(after), gc.collect).start()
        return {}

    def forget_later(x):
        def later():
            import time
            # The thread that sends releases to the host is asleep by then.
            time.sleep(2)
            kept.clear()
        kept.append(x)
        threading.Thread(target=later, args=()).start()
        return {}

    def pooled(n):
        y = carton_runner.empty(int(n), "float32")
        y[:] = 7
        # The receiver can compare the address with that of the original.
        return {"y": y, "address": np.uint64(y.__array_interface__["data"][0])}

    def pooled_part(n):
        y = carton_runner.empty((int(n), 2), "float32")
        y[:] = 7
        return {"y": y[1:], "z": y[:1]}

    def pooled_and_kept(n):
        if not kept:
            kept.append(carton_runner.empty(int(n), "float32"))
        kept[0][:] = kept[0][0] + 1 if len(kept) > 1 else 0
        kept.append(None)
        return {"y": kept[0]}

    def in_a_cycle(x):
        gc.disable()
        cycle = [x]
        cycle.append(cycle)
        return {}

    def modify(x):
        x[0] = 1

    def raising(x):
        gc.disable()
        try:
            raise ValueError(x.shape)
        except ValueError as error:
            # The error leads to this frame, and the frame to the error.
            problem = error
        raise problem

    def text(x):
        return {"y": np.array(["é" * 20000, "a\\0b\\0"], dtype=object), "n": np.int64(len(x[0]))}
"""


@support.needs_numpy
@support.needs_linux
class SharedMemory(support.ModelTest):
    def host_with(self, function, **arguments):
        return self.host(MODEL, {"infer_fn": function}, **arguments)

    def infer(self, host, *tensors, body=b"", **arguments):
        answer = host.call({"infer": {"inputs": list(tensors)}}, body, **arguments)
        return host.outputs(*answer)

    def wait_for_release(self, host, expected):
        for _ in range(100):
            host.call({"ping": {}})
            if host.released:
                break
            time.sleep(0.05)
        self.assertEqual(host.released, expected)
        host.released.clear()

    def test_inputs_are_read_in_place_and_given_back_with_the_answer(self):
        with self.host_with("where") as host:
            region, memory = host.region(1 << 20)
            addresses = []
            for offset in (4096, 8192):
                outputs = self.infer(host, shared("x", "float64", [10000], region, offset, 80000))
                addresses.append(struct.unpack("<Q", outputs["address"][2])[0])
                self.assertEqual(outputs["writeable"], ("bool", [], b"\0"))
                self.assertEqual(host.released, [(region, offset)])
                host.released.clear()
            # The same mapping, not a copy somewhere.
            self.assertEqual(addresses[1] - addresses[0], 4096)
            self.assertEqual(addresses[0] % 4096, 0)

    def test_inline_inputs_are_read_only_too(self):
        with self.host_with("modify") as host:
            for length in (4, 400000):
                answer = host.call({"infer": {"inputs": [inline("x", "float32", [length // 4], 0, length)]}}, bytes(length))
                fields = self.error(answer, "ValueError: assignment destination is read-only", "x[0] = 1")
                self.assertIn("`writable_inputs = true`", fields["hint"])

    def test_inputs_are_the_models_to_write_to_where_that_is_asked_for(self):
        source = """
            import numpy as np

            def double(x):
                x *= 2
                np.add(x, 1, out=x)
                return {"y": x}

            def texts(x):
                x[0] = x[0] + "!"
                return {"y": x}

            def nested(x):
                x[1] *= 2
                return {"y": x[1]}
        """
        values = struct.pack("<10000d", *range(10000))
        expected = struct.pack("<10000d", *(2 * value + 1 for value in range(10000)))
        with self.host(source, {"infer_fn": "double", "writable_inputs": True}) as host:
            region, memory = host.region(1 << 20)
            memory[4096 : 4096 + 80000] = values
            x = shared("x", "float64", [10000], region, 4096, 80000)
            for _ in range(2):
                self.assertEqual(self.infer(host, x)["y"][2], expected)
                self.wait_for_release(host, [(region, 4096)])
            # The caller's memory is as it was.
            self.assertEqual(memory[4096 : 4096 + 80000], values)
            self.assertEqual(self.infer(host, inline("x", "float64", [], 0, 8), body=values[8:16])["y"][2], expected[8:16])
            # Sealed inputs, which the runner keeps for many calls, are not changed by one of them.
            handle = host.call({"seal": {"inputs": [x]}})[1]["handle"]
            for _ in range(2):
                answer = host.call({"infer_sealed": {"handle": handle}})
                self.assertEqual(host.outputs(*answer)["y"][2], expected)
        with self.host(source, {"infer_fn": "texts", "writable_inputs": True}) as host:
            block = struct.pack("<QQQ", 0, 1, 3) + b"abc"
            self.assertTrue(self.infer(host, inline("x", "string", [2], 0, 27), body=block)["y"][2].endswith(b"a!bc"))
        with self.host(source, {"infer_fn": "nested", "writable_inputs": True}) as host:
            inner = [inline(None, "float64", [1], 0, 8), inline(None, "float64", [2], 0, 16)]
            x = {"name": "x", "dtype": "nested", "inner": inner}
            self.assertEqual(self.infer(host, x, body=values[8:24])["y"][2], struct.pack("<2d", 2, 4))

    def test_large_inputs_that_may_be_written_to_are_copied_where_they_are(self):
        source = """
            import mmap
            kept = []

            def keep(x):
                kept.append(x)
                x[0] = -1
                return {"y": x, "first": kept[0][:2], "mapped": isinstance(x.base, mmap.mmap)}
        """
        n = 100_000
        values = struct.pack("<%dd" % n, *range(n))
        with self.host(source, {"infer_fn": "keep", "writable_inputs": True}) as host:
            region, memory = host.region(1 << 21)
            # The buffer does not start at a page.
            for offset in (4096 + 64, 0):
                memory[offset : offset + 8 * n] = values
                outputs = self.infer(host, shared("x", "float64", [n], region, offset, 8 * n))
                self.assertEqual(outputs["y"][2], struct.pack("<d", -1) + values[8:])
                self.assertEqual(outputs["first"][2], struct.pack("<2d", -1, 1))
                self.assertEqual(outputs["mapped"][2], b"\1")
                self.assertEqual(memory[offset : offset + 8 * n], values)
                # It is lent for as long as the model keeps it.
                self.assertEqual(host.released, [])
        with self.host(source, {"infer_fn": "keep", "writable_inputs": True}) as host:
            region, memory = host.region(1 << 21)
            x = shared("x", "float64", [n], region, 0, 8 * n)
            # The next call does not see what one call has written, although its input is at the same place.
            for first in (5.0, 6.0):
                memory[: 8 * n] = struct.pack("<2d", 7, first) + values[16:]
                self.assertEqual(self.infer(host, x)["y"][2][:16], struct.pack("<2d", -1, first))

    def test_inputs_that_may_be_written_to_are_those_that_were_sent(self):
        source = """
            import os

            def f(x):
                x[0] += 1
                others = [os.open("other", os.O_RDONLY) for _ in range(3)]
                # The runner's descriptors except its socket: those of files without a name.
                for number in map(int, os.listdir("/proc/self/fd")):
                    try:
                        if "carton" in os.readlink("/proc/self/fd/%d" % number) or "memfd" in os.readlink("/proc/self/fd/%d" % number):
                            os.dup2(others[0], number)
                    except OSError:
                        pass
                return {"y": x}
        """
        n = 100_000
        values = struct.pack("<%dd" % n, *range(n))
        with open(self.write("other", ""), "wb") as file:
            file.truncate(1 << 21)
        with self.host(source, {"infer_fn": "f", "writable_inputs": True}) as host:
            region, memory = host.region(1 << 20)
            memory[: 8 * n] = values
            for _ in range(3):
                outputs = self.infer(host, shared("x", "float64", [n], region, 0, 8 * n))
                self.assertEqual(outputs["y"][2], struct.pack("<d", 1) + values[8:])
            host.send({"unmap": {"region": region}})
            self.assertEqual(host.call({"ping": {}})[0], "pong")

    def test_the_hint_about_writing_is_for_arrays_of_numpy_and_cython(self):
        source = """
            import numpy as np

            WAYS = {
                "in place": lambda x: x.__iadd__(1),
                "out": lambda x: np.add(x, 1, out=x),
                "put": lambda x: np.put(x, 0, 1),
                "sort": lambda x: x.sort(),
                "shuffle": lambda x: np.random.default_rng().shuffle(x),
            }

            def f(x, how):
                if how[()] in WAYS:
                    WAYS[how[()]](x)
                raise ValueError(how[()])
        """

        def hint(how):
            tensors = [inline("x", "float64", [2], 0, 16), inline("how", "string", [], 16, 16 + len(how))]
            body = bytes(16) + struct.pack("<QQ", 0, len(how)) + how.encode()
            return self.error(host.call({"infer": {"inputs": tensors}}, body), "ValueError").get("hint", "")

        with self.host(source, {"infer_fn": "f"}) as host:
            for how in ("in place", "out", "put", "sort", "shuffle", "buffer source array is read-only"):
                self.assertIn("`writable_inputs = true`", hint(how), how)
            for how in ("dataset is opened read-only: /data", "the store is read-only", "read-only"):
                self.assertEqual(hint(how), "", how)

    def test_many_regions(self):
        source = """
            def f(x):
                if x.flags.writeable:
                    x[0] += 1
                return {"first": x[:1]}
        """
        n = 100_000
        for is_writable in (False, True):
            # Each mapping uses a descriptor, and not all regions keep a second one.
            limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160))  # noqa: E731
            with self.host(source, {"infer_fn": "f", "writable_inputs": is_writable}, preexec_fn=limit) as host:
                for value in range(90):
                    region, memory = host.region(1 << 20)
                    memory[:8] = struct.pack("<d", value)
                    first = self.infer(host, shared("x", "float64", [n], region, 0, 8 * n))["first"][2]
                    self.assertEqual(first, struct.pack("<d", value + is_writable))
                    self.assertEqual(memory[:8], struct.pack("<d", value))
                for number in range(1, 91):
                    host.send({"unmap": {"region": number}})
                self.assertEqual(host.call({"ping": {}})[0], "pong")

    def test_options_that_are_no_choice(self):
        self.write("main.py", MODEL)
        with Host() as host:
            self.error(host.load(self.folder, {"infer_fn": "f", "writable_inputs": 1}), "`writable_inputs` must be true or false")

    def test_large_outputs_are_copied_once_and_their_memory_is_reused(self):
        with self.host_with("double") as host:
            region, memory = host.region(1 << 20)
            memory[:400000] = struct.pack("<f", 2.5) * 100000
            places = set()
            release = ()
            for _ in range(5):
                answer = host.call({"infer": {"inputs": [shared("x", "float32", [100000], region, 0, 400000)]}}, release=release)
                self.assertEqual(host.outputs(*answer)["y"][2], struct.pack("<f", 5.0) * 100000)
                place = answer[1]["outputs"][0]["data"]["shared"]
                release = [(place["region"], place["offset"])]
                places.add(release[0])
            # A buffer that a message releases can be reused by its answer.
            self.assertEqual(len(places), 1)
            self.assertEqual(len(host.regions), 1)

    def test_inputs_and_contiguous_parts_of_them_are_outputs_without_a_copy(self):
        with self.host_with("parts") as host:
            region, memory = host.region(1 << 20)
            answer = host.call({"infer": {"inputs": [shared("x", "float32", [10000], region, 4096, 40000)]}})
            places = {tensor["name"]: tensor["data"].get("shared") for tensor in answer[1]["outputs"]}
            self.assertEqual(places["all"], {"owner": "host", "region": region, "offset": 4096, "length": 40000})
            self.assertEqual(places["middle"], {"owner": "host", "region": region, "offset": 8096, "length": 32000})
            self.assertEqual(places["copied"]["owner"], "runner")
            self.assertEqual(host.released, [(region, 4096)])

    def test_arrays_of_the_pool_are_passed_on_without_a_copy(self):
        with self.host_with("pooled") as host:
            places, addresses = [], []
            for n in (100000, 200000):
                answer = host.call({"infer": {"inputs": [inline("n", "int64", [], 0, 8)]}}, struct.pack("<q", n))
                outputs = host.outputs(*answer)
                self.assertEqual(outputs["y"][:2], ("float32", [n]))
                self.assertEqual(outputs["y"][2], struct.pack("<f", 7) * n)
                places.append(answer[1]["outputs"][0]["data"]["shared"]["offset"])
                addresses.append(struct.unpack("<Q", outputs["address"][2])[0])
            self.assertEqual(places[1] - places[0], addresses[1] - addresses[0])
        with self.host_with("pooled_part") as host:
            answer = host.call({"infer": {"inputs": [inline("n", "int64", [], 0, 8)]}}, struct.pack("<q", 9000))
            outputs = host.outputs(*answer)
            self.assertEqual(outputs["y"][:2], ("float32", [8999, 2]))
            self.assertEqual(answer[1]["outputs"][0]["data"]["shared"]["offset"], 8)
            self.assertEqual(outputs["z"][2], struct.pack("<2f", 7, 7))

    def test_arrays_that_the_model_keeps_are_copied(self):
        with self.host_with("pooled_and_kept") as host:
            outputs = []
            for _ in range(3):
                answer = host.call({"infer": {"inputs": [inline("n", "int64", [], 0, 8)]}}, struct.pack("<q", 10000))
                outputs.append(answer[1]["outputs"][0])
            # The first answer does not show what the model wrote later.
            values = [struct.unpack_from("<f", host.bytes_of(output, b""))[0] for output in outputs]
            self.assertEqual(values, [0, 1, 2])

    def test_what_the_model_keeps_is_given_back_when_it_forgets_it(self):
        with self.host_with("keep") as host:
            region, _ = host.region(1 << 20)
            self.infer(host, shared("x", "uint8", [20000], region, 0, 20000))
            host.call({"ping": {}})
            self.assertEqual(host.released, [])
        with self.host_with("forget_later") as host:
            region, _ = host.region(1 << 20)
            self.infer(host, shared("x", "uint8", [20000], region, 64, 20000))
            self.assertEqual(host.released, [])
            # The release comes without a further call.
            host.wait_for_release()
            self.assertEqual(host.released, [(region, 64)])

    def test_sealed_inputs_are_given_back_when_they_are_unsealed(self):
        with self.host_with("double") as host:
            region, _ = host.region(1 << 20)
            handle = host.call({"seal": {"inputs": [shared("x", "uint8", [20000], region, 0, 20000)]}})[1]["handle"]
            for _ in range(2):
                host.outputs(*host.call({"infer_sealed": {"handle": handle}}))
            self.assertEqual(host.released, [])
            host.send({"unseal": {"handle": handle}})
            self.wait_for_release(host, [(region, 0)])
            answer = host.call({"infer_sealed": {"handle": handle}})
            self.assertEqual(answer[1]["code"], "unknown_handle")

    def test_exceptions_keep_no_inputs(self):
        with self.host_with("raising") as host:
            region, _ = host.region(1 << 20)
            answer = host.call({"infer": {"inputs": [shared("x", "uint8", [20000], region, 0, 20000)]}})
            self.error(answer, "ValueError: (20000,)")
            self.wait_for_release(host, [(region, 0)])

    def test_calls_that_are_refused_keep_no_inputs(self):
        with self.host_with("in_a_cycle") as host:
            region, _ = host.region(1 << 20)
            # Turns the search for reference cycles off.
            self.infer(host, inline("x", "uint8", [1], 0, 1), body=b"x")
            tensors = [
                shared("x", "uint8", [20000], region, 0, 20000),
                inline("huge", "uint8", [0, 1 << 63, 1 << 63], 0, 0),
            ]
            self.error(host.call({"infer": {"inputs": tensors}}), "NumPy cannot hold the input `huge`")
            self.wait_for_release(host, [(region, 0)])

    def test_reference_cycles_keep_no_inputs_for_ever(self):
        with self.host_with("in_a_cycle") as host:
            region, _ = host.region(1 << 30)
            for _ in range(4):
                self.infer(host, shared("x", "uint8", [1 << 28], region, 0, 1 << 28))
            self.wait_for_release(host, [(region, 0)] * 4)

    def test_finalizers_may_ask_for_shared_memory(self):
        source = """
            import gc
            import carton_runner

            class Cycle:
                def __init__(self):
                    self.me = self

                def __del__(self):
                    carton_runner.empty(100000, "uint8")[:] = 1

            def f(n):
                # Wherever memory is taken for an object, a garbage collection can begin.
                for later in range(int(n)):
                    gc.disable()
                    Cycle()
                    gc.set_threshold(gc.get_count()[0] + later)
                    gc.enable()
                    y = carton_runner.empty(50000, "uint8")
                    y[:] = 7
                return {"y": y}
            """
        with self.host(source, {"infer_fn": "f"}) as host:
            for _ in range(5):
                outputs = self.infer(host, inline("n", "int64", [], 0, 8), body=struct.pack("<q", 30))
                self.assertEqual(outputs["y"][2], b"\7" * 50000)

    def test_a_buffer_that_was_named_twice_is_given_back_twice(self):
        with self.host("def f(x, y): return {}", {"infer_fn": "f"}) as host:
            region, _ = host.region(1 << 20)
            self.infer(host, *(shared(name, "uint8", [20000], region, 0, 20000) for name in "xy"))
            self.assertEqual(host.released, [(region, 0)] * 2)

    def test_outputs_are_passed_back_as_inputs_without_a_copy(self):
        with self.host_with("double") as host:
            answer = host.call({"infer": {"inputs": [inline("x", "uint8", [50000], 0, 50000)]}}, b"\2" * 50000)
            place = answer[1]["outputs"][0]["data"]["shared"]
            again = shared("x", "uint8", [40000], place["region"], place["offset"] + 10000, 40000, "runner")
            release = [(place["region"], place["offset"])]
            outputs = self.infer(host, again, release=release)
            self.assertEqual(outputs["y"][2], b"\x08" * 40000)
            # It is lent no longer.
            host.send({"infer": {"inputs": [again]}}, 99)
            envelope, _ = host.read()
            self.assertIn("do not lie inside a lent buffer", envelope["message"]["error"]["message"])

    def test_outputs_that_are_inputs_again_are_read_only(self):
        source = "def f(x): return {'y': x * 2 if x.flags.writeable is False else x}"
        with self.host(source, {"infer_fn": "f"}) as host:
            answer = host.call({"infer": {"inputs": [inline("x", "uint8", [50000], 0, 50000)]}}, b"\2" * 50000)
            place = answer[1]["outputs"][0]["data"]["shared"]
            again = shared("x", "uint8", [50000], place["region"], place["offset"], 50000, "runner")
            self.assertEqual(self.infer(host, again)["y"][2], b"\x08" * 50000)

    def test_strings_in_shared_memory(self):
        with self.host_with("text") as host:
            region, memory = host.region(1 << 20)
            text = "ab\0c😀".encode()
            block = struct.pack("<2Q", 0, len(text)) + text
            memory[64 : 64 + len(block)] = block
            answer = host.call({"infer": {"inputs": [shared("x", "string", [1], region, 64, len(block))]}})
            outputs = host.outputs(*answer)
            self.assertEqual(struct.unpack("<q", outputs["n"][2])[0], 5)
            dtype, shape, data = outputs["y"]
            self.assertEqual((dtype, shape), ("string", [2]))
            self.assertEqual(struct.unpack_from("<3Q", data), (0, 40000, 40004))
            self.assertEqual(data[24:], ("é" * 20000 + "a\0b\0").encode())
            self.assertEqual(host.released, [(region, 64)])

    def test_tensors_that_do_not_fit_what_they_say_break_the_protocol(self):
        for tensor, expected in (
            (shared("x", "uint8", [10], 9, 0, 10), "region 9 was never mapped"),
            (shared("x", "uint8", [10], 1, 1 << 16, 10), "do not lie inside region 1, which has 65536 bytes"),
            (shared("x", "uint8", [10], 1, (1 << 64) - 1, 10), "do not lie inside region 1"),
            (shared("x", "float32", [2], 1, 2, 8), "not aligned to 4 bytes"),
            (shared("x", "float32", [2], 1, 0, 7), "needs 8 bytes, found 7"),
            (shared("x", "float32", [1 << 62, 1 << 62], 1, 0, 0), "found 0"),
            (shared("x", "uint8", [10], 1, 0, 10, "runner"), "do not lie inside a lent buffer"),
            (shared("x", "uint8", [10], 1, 0, 10, "nobody"), "`shared` names no region"),
            (shared("x", "string", [1 << 60], 1, 0, 64), "cannot hold the offsets"),
            (shared("x", "string", [1], 1, 0, 64), "the last string ends at 0, the text at 48"),
            (inline("x", "float32", [1], 0, 4), "do not lie inside the 0 bytes of the frame"),
            (inline("x", "int4", [1], 0, 2), "there is no dtype 'int4'"),
            (inline("x", "float16", [1], 0, 2), "do not lie inside the 0 bytes of the frame"),
            (shared("x", "complex128", [1], 1, 4, 16), "not aligned to 8 bytes"),
            (shared("x", "complex64", [1], 1, 4, 4), "needs 8 bytes, found 4"),
            (shared("x", "bytes", [1], 1, 0, 64), "the last string ends at 0, the text at 48"),
            (inline("x", "float32", [1.0], 0, 4), "a dimension is no integer"),
            (inline("x", "float32", [1] * 65, 0, 4), "at most 64 dimensions"),
            ({"name": "x", "dtype": "float32", "shape": [1]}, "it has no data"),
            ({"name": 7, "dtype": "float32", "shape": [1]}, "the name of a tensor"),
            ({"name": "x", "dtype": "nested", "inner": [{"dtype": "nested"}]}, "a nested tensor inside a nested one"),
        ):
            with self.subTest(tensor), self.host_with("double") as host:
                host.region(1 << 16)
                host.send({"infer": {"inputs": [tensor]}}, 9)
                envelope, _ = host.read()
                self.assertEqual(envelope["message"]["error"]["code"], "protocol", envelope)
                self.assertIn(expected, envelope["message"]["error"]["message"])

    def test_regions_that_could_shrink_are_refused(self):
        for seals, size, expected in ((4, None, "not sealed"), (2, None, "not sealed"), (7, 1 << 20, "but has 65536")):
            with self.subTest(seals), Host() as host:
                region, _ = host.region(1 << 16, seals)
                if size:
                    import os

                    descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING)
                    os.ftruncate(descriptor, 1 << 16)
                    import fcntl

                    fcntl.fcntl(descriptor, 1033, seals)
                    host.send({"map": {"region": 9, "size": size}}, descriptors=[descriptor])
                    os.close(descriptor)
                envelope, _ = host.read()
                self.assertIn(expected, envelope["message"]["error"]["message"])
        with Host() as host, open(__file__) as file:
            host.send({"map": {"region": 1, "size": 1}}, descriptors=[file.fileno()])
            self.assertIn("not a memfd", host.read()[0]["message"]["error"]["message"])

    def test_the_host_cannot_write_to_a_region(self):
        with self.host_with("double") as host:
            host.call({"infer": {"inputs": [inline("x", "uint8", [50000], 0, 50000)]}}, bytes(50000))
            (region,) = host.regions.values()
            with self.assertRaises(TypeError):
                region[0] = 1

    def test_a_gibibyte(self):
        with self.host("def f(x): return {'y': x, 'z': x[:-1]}", {"infer_fn": "f"}) as host:
            region, memory = host.region(1 << 30)
            memory[-1:] = b"\7"
            answer = host.call({"infer": {"inputs": [shared("x", "uint8", [1 << 30], region, 0, 1 << 30)]}})
            self.assertEqual([tensor["data"]["shared"]["owner"] for tensor in answer[1]["outputs"]], ["host", "host"])

    def test_without_shared_memory_everything_travels_in_frames(self):
        with self.host_with("double", shared_memory=False) as host:
            data = struct.pack("<f", 1.5) * (1 << 20)
            outputs = self.infer(host, inline("x", "float32", [1 << 20], 0, len(data)), body=data)
            self.assertEqual(outputs["y"][2], struct.pack("<f", 3.0) * (1 << 20))
            answer = host.call({"infer": {"inputs": []}})
            self.error(answer, "missing 1 required positional argument: 'x'")

    def test_two_large_messages_in_opposite_directions(self):
        with self.host_with("double", shared_memory=False) as host:
            # The host reads only after it has written everything, which is more than any socket buffers.
            data = bytes(8 << 20)
            for number in (1001, 1002, 1003):
                host.send({"infer": {"inputs": [inline("x", "uint8", [len(data)], 0, len(data))]}}, number, data)
            for number in (1001, 1002, 1003):
                self.assertEqual(host.outputs(*host.answer(number))["y"][1], [len(data)])


if __name__ == "__main__":
    unittest.main()
