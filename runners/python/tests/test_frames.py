"""Frames and messages that no host should send."""

import json
import os
import random
import struct
import unittest

import support
from carton_runner.decoding import Decoder
from carton_runner.errors import ProtocolError
from host import TIMEOUT, Host, inline, shared


def frame(text, body=b"", length=None, json_length=None):
    length = 4 + len(text) + len(body) if length is None else length
    json_length = len(text) if json_length is None else json_length
    return struct.pack("<QI", length, json_length) + text + body


@support.needs_linux
class HostileFrames(unittest.TestCase):
    def refused(self, host, expected):
        """Checks that the runner reports the error, closes the connection, and ends."""
        try:
            envelope, _ = host.read()
        except ConnectionResetError:
            # The runner ended before it had read everything, so its error message was lost.
            envelope = None
        if envelope is not None:
            error = envelope["message"]["error"]
            self.assertEqual((error["code"], envelope.get("id")), ("protocol", None), envelope)
            self.assertIn(expected, error["message"])
            with self.assertRaises((EOFError, ConnectionResetError)):
                host.read()
        self.assertEqual(host.process.wait(TIMEOUT), 1)
        return envelope

    def check(self, data, expected, hello=True):
        with Host(hello=hello) as host:
            if not hello:
                host.read()
            host.send_bytes(data)
            self.assertIsNotNone(self.refused(host, expected))

    def test_lengths_are_checked_before_anything_is_allocated(self):
        for length, json_length, expected in (
            (13, 10, "a frame of 13 bytes cannot hold 10 bytes of JSON"),
            (0, 0, "a frame of 0 bytes cannot hold 0 bytes"),
            ((4 << 30) + 1, 10, "is above the limit of 4294967296"),
            ((1 << 64) - 1, (1 << 32) - 1, "is above the limit"),
            (1 << 30, (16 << 20) + 1, "bytes of JSON is above the limit of 16777216"),
        ):
            self.check(frame(b"", b"", length, json_length), expected)

    def test_messages_that_are_none_are_refused(self):
        for text, expected in (
            (b"\xff\xfe{}", "it is not UTF-8"),
            (b"", "malformed"),
            (b"{]", "malformed"),
            (b"[]", "it is no object"),
            (b"{}", "`message` must be an object with one key"),
            (b'{"message":{}}', "one key"),
            (b'{"message":{"ping":{},"pong":{}}}', "one key"),
            (b'{"message":"ping"}', "one key"),
            (b'{"message":{"ping":{}}} x', "malformed"),
            (b'{"message":{"ping":NaN}}', "NaN is no number"),
            (b'{"id":-1,"message":{"ping":{}}}', "`id` is no integer"),
            (b'{"id":18446744073709551616,"message":{"ping":{}}}', "`id` is no integer"),
            (b'{"id":1.0,"message":{"ping":{}}}', "`id` is no integer"),
            (b'{"id":true,"message":{"ping":{}}}', "`id` is no integer"),
            (b'{"release":{},"message":{"ping":{}}}', "`release` is no list"),
            (b'{"release":[7],"message":{"ping":{}}}', "`release` holds"),
            (b'{"release":[{"region":1}],"message":{"ping":{}}}', "`offset`"),
            (b'{"release":[{"region":1,"offset":0}],"message":{"cancel":{}}}', "no lent buffer at offset 0"),
            (b"[" * 200000, "malformed"),
            (b'{"id":' + b"1" * 5000 + b',"message":{"ping":{}}}', "malformed"),
        ):
            with self.subTest(text[:60]):
                self.check(frame(text), expected)

    def test_messages_with_wrong_fields_are_refused(self):
        for message, expected in (
            ({"hello": {"protocol": "carton-runner", "versions": [2]}}, "it was sent before"),
            ({"inferred": {"outputs": []}}, "only runners send it"),
            ({"log": {"level": "info", "message": "x"}}, "only runners send it"),
            ({"load": {}}, "`files`"),
            ({"load": {"files": {"ranges": 7}}}, "neither `directory` nor `ranges`"),
            ({"load": {"files": {"directory": {"path": 7}}}}, "`path`"),
            ({"load": {"files": {"directory": {"path": "/"}}, "options": []}}, "`options`"),
            ({"load": {"files": {"directory": {"path": "/"}}, "inputs": [{}]}}, "`name`"),
            ({"load": {"files": {"directory": {"path": "/"}}, "inputs": [{"name": "x", "dtype": []}]}}, "no known dtype"),
            ({"infer_sealed": {"handle": "x"}}, "`handle`"),
            ({"map": {"region": 1, "size": 4096}}, "names a descriptor, none came"),
            ({"unmap": {"region": 1}}, "it was never mapped"),
            ({"credit": {"n": -1}}, "`n` is no integer"),
            ({"ping": 7}, "it is no object"),
        ):
            with self.subTest(message):
                self.check(frame(json.dumps({"id": 1, "message": message}).encode()), expected)
        self.check(frame(b'{"message":{"infer_sealed":{"handle":1}}}'), "it has no id")

    def test_hellos_that_fit_nothing_are_refused(self):
        for hello, expected in (
            ({"ping": {}}, "expected `hello` as first message, found `ping`"),
            ({"hello": {"protocol": "other", "versions": [2]}}, "speaks `other`"),
            ({"hello": {"protocol": "carton-runner", "versions": [1, 3]}}, "this side speaks [2], the other one [1, 3]"),
            ({"hello": {"protocol": "carton-runner", "versions": 2}}, "`versions`"),
            ({"hello": {"versions": [2]}}, "`protocol`"),
        ):
            self.check(frame(json.dumps({"message": hello}).encode()), expected, hello=False)

    def test_what_is_new_is_ignored_or_answered(self):
        with Host() as host:
            host.send({"from_the_future": {"x": 1}}, 5)
            name, fields, _ = host.answer(5)
            self.assertEqual((name, fields["code"]), ("error", "unknown_message"))
            host.send({"error": {"code": "from_the_future", "message": "x"}}, 5)
            host.send({"ping": {"new": [1]}}, 6)
            self.assertEqual(host.answer(6)[0], "pong")
            host.send_json(b' \n{"extra":null,"id":null,"message":{"ping":{}}}\n ')
            self.assertEqual(host.answer(None)[0], "pong")

    def test_one_byte_at_a_time(self):
        with Host(hello=False) as host:
            for byte in frame(b'{"message":{"hello":{"protocol":"carton-runner","versions":[2]}}}'):
                host.send_bytes(bytes([byte]))
            host.read()
            for byte in frame(b'{"id":1,"message":{"ping":{}}}', b"ignored") * 2:
                host.send_bytes(bytes([byte]))
            self.assertEqual(host.answer(1)[0], "pong")
            self.assertEqual(host.answer(1)[0], "pong")

    def test_the_end_of_the_host_ends_the_process(self):
        with Host() as host:
            host.socket.close()
            self.assertEqual(host.process.wait(TIMEOUT), 0)
        with Host() as host:
            host.send_bytes(frame(b'{"message":{"ping":{}}}')[:-5])
            host.socket.close()
            self.assertEqual(host.process.wait(TIMEOUT), 0)

    def test_shutdown_ends_it_too(self):
        with Host() as host:
            host.send({"shutdown": {}})
            with self.assertRaises(EOFError):
                host.read()
            self.assertEqual(host.process.wait(TIMEOUT), 0)

    def test_calls_before_a_model_is_loaded(self):
        with Host() as host:
            region, _ = host.region(1 << 16)
            answer = host.call({"infer": {"inputs": [shared("x", "uint8", [9], region, 64, 9)]}})
            self.assertEqual(answer[1]["code"], "not_loaded")
            host.call({"ping": {}})
            # The memory that was lent with the message was given back nevertheless.
            self.assertEqual(host.released, [(region, 64)])

    def test_tensors_nested_deeper_than_functions_break_the_protocol(self):
        # Some interpreters can read JSON of any depth.
        wire = {"name": "x", "dtype": "nested", "inner": []}
        for _ in range(20_000):
            wire = {"dtype": "nested", "inner": [wire]}
        with self.assertRaises(ProtocolError) as caught:
            Decoder(None, None).discard([wire])
        self.assertIn("a nested tensor inside a nested one", str(caught.exception))

    def test_models_in_ranges_of_files(self):
        with Host() as host:
            load = {"files": {"ranges": {"sources": [{"descriptor": 0}], "entries": []}}}
            name, fields, _ = host.call({"load": load}, descriptors=[0])
            self.assertEqual((name, fields["code"]), ("error", "failed"))
            self.assertIn("has to be `directory`", fields["message"])

    def test_descriptors_that_no_message_claims_are_closed(self):
        with Host() as host:
            before = self.count(host)
            for _ in range(20):
                host.send({"ping": {}}, 1, descriptors=[0, 1, 2])
                self.assertEqual(host.answer(1)[0], "pong")
            # The last ones are closed when the next message comes.
            self.assertLessEqual(self.count(host), before + 3)

    def count(self, host):
        return len(os.listdir("/proc/%d/fd" % host.process.pid))

    def test_random_bytes_never_hang_it(self):
        generator = random.Random(7)
        good = [
            frame(json.dumps({"id": 1, "message": message}).encode(), b"12345678")
            for message in (
                {"ping": {}},
                {"infer": {"inputs": [inline("x", "float32", [2], 0, 8)]}},
                {"seal": {"inputs": [shared("x", "string", [2], 1, 0, 80)]}},
                {"cancel": {}},
            )
        ]
        for _ in range(25):
            data = bytearray(b"".join(generator.choice(good) for _ in range(3)))
            for _ in range(generator.randrange(1, 6)):
                data[generator.randrange(len(data))] = generator.randrange(256)
            with Host() as host:
                try:
                    host.send_bytes(bytes(data))
                    host.socket.shutdown(1)
                except OSError:
                    pass
                self.assertIn(host.process.wait(TIMEOUT), (0, 1))


if __name__ == "__main__":
    unittest.main()
