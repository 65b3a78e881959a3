# part: quick
# requires: msgpack==1.2.4
import msgpack


def run():
    packed = msgpack.packb({"a": [1, 2.5, None], "b": b"bytes" * 100})
    unpacked = msgpack.unpackb(packed)
    return {"numbers": [len(packed), *unpacked["a"][:2], len(unpacked["b"]), "pure" not in msgpack.Packer.__module__]}
