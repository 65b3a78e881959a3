"""A host for the tests: starts the runner with a socket, sends it frames, and reads its answers."""

import fcntl
import json
import mmap
import os
import socket
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RUN = (
    "import sys; sys.path.append(%r); from carton_runner.__main__ import main; main()" % os.path.dirname(HERE)
)
TIMEOUT = 30
#: The dtypes beyond format v1.
DTYPES = (
    "bool", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "complex64", "complex128", "bytes",
)  # fmt: skip


def prepared(path, *arguments, env=None, **named):
    """Prepares the model in a process of its own, with the variables `env`, and returns the answer."""
    with Host(env=env, start_new_session=True) as preparing:
        return preparing.prepare(path, *arguments, **named)


class Host:
    """One runner process, and the host's end of its socket."""

    def __init__(self, shared_memory=True, hello=True, flags="-IB", dtypes=DTYPES, **arguments):
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(TIMEOUT)
        self.output = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, flags, "-c", RUN], stdin=theirs, stdout=self.output, stderr=self.output, **arguments
        )
        theirs.close()
        self.buffer = b""
        self.descriptors = []
        self.regions = {}
        self.n_regions = 0
        self.last = 0
        #: Messages that were read while waiting for others.
        self.logs = []
        self.released = []
        self.stops_at_releases = False
        if hello:
            features = ["shared_memory"] if shared_memory else []
            # Hosts of before this field announce none.
            announced = {"dtypes": list(dtypes)} if dtypes else {}
            self.send({"hello": {"protocol": "carton-runner", "versions": [2], "features": features, **announced}})
            self.hello = self.read()[0]["message"]["hello"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        try:
            self.process.wait(TIMEOUT)
        finally:
            self.process.kill()
            self.process.wait()
            self.output.close()

    # Frames.

    def send_bytes(self, data, descriptors=()):
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("%di" % len(descriptors), *descriptors))]
        sent = self.socket.sendmsg([data], ancillary if descriptors else [])
        if sent < len(data):
            self.socket.sendall(data[sent:])

    def send_json(self, text, body=b"", descriptors=()):
        data = struct.pack("<QI", 4 + len(text) + len(body), len(text)) + text + body
        self.send_bytes(data, descriptors)

    def send(self, message, number=None, body=b"", release=(), descriptors=()):
        envelope = {"message": message}
        if number is not None:
            envelope["id"] = number
        if release:
            envelope["release"] = [{"region": region, "offset": offset} for region, offset in release]
        self.send_json(json.dumps(envelope).encode(), body, descriptors)

    def _exactly(self, n_bytes):
        while len(self.buffer) < n_bytes:
            data, ancillary, _, _ = self.socket.recvmsg(1 << 20, 4096)
            for _, _, descriptors in ancillary:
                self.descriptors.extend(struct.unpack("%di" % (len(descriptors) // 4), descriptors))
            if not data:
                raise EOFError
            self.buffer += data
        data, self.buffer = self.buffer[:n_bytes], self.buffer[n_bytes:]
        return data

    def read(self):
        """Returns the next message and its bytes. Messages about shared memory are handled here, and skipped."""
        while True:
            (length,) = struct.unpack("<Q", self._exactly(8))
            frame = self._exactly(length)
            (json_length,) = struct.unpack_from("<I", frame)
            envelope = json.loads(frame[4 : 4 + json_length])
            for release in envelope.get("release", ()):
                self.released.append((release["region"], release["offset"]))
            ((name, fields),) = envelope["message"].items()
            if name == "map":
                descriptor = self.descriptors.pop(0)
                region = mmap.mmap(descriptor, fields["size"], prot=mmap.PROT_READ)
                os.close(descriptor)
                self.regions[fields["region"]] = region
            elif name == "unmap":
                del self.regions[fields["region"]]
            elif name != "release" or self.stops_at_releases:
                return envelope, frame[4 + json_length :]

    def wait_for_release(self):
        """Reads until memory is given back."""
        self.stops_at_releases = True
        self.read()
        self.stops_at_releases = False

    def answer(self, number):
        """Returns the name, fields and bytes of the answer to a call; log records are kept."""
        while True:
            envelope, body = self.read()
            ((name, fields),) = envelope["message"].items()
            if name == "log":
                self.logs.append((fields["level"], fields["message"]))
            elif name != "progress":
                assert envelope.get("id") == number, envelope
                return name, fields, body

    # Calls.

    def call(self, message, body=b"", **arguments):
        self.last += 1
        self.send(message, self.last, body, **arguments)
        return self.answer(self.last)

    def load(self, *arguments, **named):
        return self.call({"load": self.request(*arguments, **named)})

    def prepare(self, *arguments, **named):
        return self.call({"prepare": self.request(*arguments, **named)})

    def request(self, path, options=None, inputs=(), outputs=(), device=None):
        """The fields of a `load` or `prepare`."""
        return {
            "files": {"directory": {"path": str(path)}},
            "options": options or {},
            "inputs": list(inputs),
            "outputs": list(outputs),
            **({"device": device} if device is not None else {}),
        }

    def region(self, size, seals=1 | 2 | 4 | 16):
        """A region of the host: its number and its memory."""
        descriptor = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, size)
        memory = mmap.mmap(descriptor, size)
        fcntl.fcntl(descriptor, 1033, seals)
        self.n_regions += 1
        self.send({"map": {"region": self.n_regions, "size": size}}, descriptors=[descriptor])
        os.close(descriptor)
        return self.n_regions, memory

    def bytes_of(self, tensor, body):
        """The bytes of a tensor that the runner sent."""
        ((place, fields),) = tensor["data"].items()
        start, end = fields["offset"], fields["offset"] + fields["length"]
        if place == "inline":
            return body[start:end]
        assert fields["owner"] == "runner", fields
        return self.regions[fields["region"]][start:end]

    def outputs(self, name, fields, body, **_):
        """The outputs of an answer by name: dtype, shape and bytes."""
        assert name in ("inferred", "stream_item"), (name, fields)
        return {
            tensor["name"]: (tensor["dtype"], tensor["shape"], self.bytes_of(tensor, body))
            for tensor in fields["outputs"]
        }

    def printed(self):
        """Returns the output of the process."""
        self.output.seek(0)
        return self.output.read()


def inline(name, dtype, shape, offset, length):
    """A tensor in the bytes of a frame."""
    data = {"inline": {"offset": offset, "length": length}}
    return {"name": name, "dtype": dtype, "shape": list(shape), "data": data}


def shared(name, dtype, shape, region, offset, length, owner="host"):
    """A tensor in shared memory."""
    data = {"shared": {"owner": owner, "region": region, "offset": offset, "length": length}}
    return {"name": name, "dtype": dtype, "shape": list(shape), "data": data}
