# part: quick
# requires: zstandard==0.25.0
import zstandard


def run():
    data = b"carton " * 100_000
    compressed = zstandard.ZstdCompressor(level=5, threads=2).compress(data)
    restored = zstandard.ZstdDecompressor().decompress(compressed)
    return {"numbers": [restored == data, len(compressed) < 1000]}
