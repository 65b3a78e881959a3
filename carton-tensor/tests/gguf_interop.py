"""Makes what carton-tensor/tests/gguf_python.rs compares: blocks of every type that the package `gguf` dequantizes, with its numbers, files that
its writer makes, and blocks that it makes of numbers.

    gguf_interop.py PLACE
"""

import sys
import warnings
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import _type_traits

N_BLOCKS = 2048
# Where the float16 scales of a block are. Those of IQ1_M are in several parts, and MXFP4 and NVFP4 have scales of a byte.
SCALES = {
    Type.Q4_1: [0, 2], Type.Q5_1: [0, 2], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q2_K: [80, 82], Type.Q3_K: [108],
    Type.Q6_K: [208], Type.TQ1_0: [52], Type.TQ2_0: [64], Type.IQ1_M: [], Type.MXFP4: [], Type.NVFP4: [],
}
EXTREME = np.array([0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x3C00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7C01, 0x7E00, 0xFE00], np.uint16)


def blocks_of(of, random):
    """Blocks of random bytes; every other one has scales that are extreme, or ordinary."""
    blocks = random.integers(0, 256, (N_BLOCKS, GGML_QUANT_SIZES[of][1]), np.uint8)
    for offset in SCALES.get(of, [0]):
        extreme = random.choice(EXTREME, N_BLOCKS // 4)
        ordinary = random.normal(0, 0.01, N_BLOCKS // 4).astype(np.float16)
        for start, scales in [(0, extreme.view(np.uint8)), (1, ordinary.view(np.uint8))]:
            blocks[start::4, offset:offset + 2] = scales.reshape(-1, 2)
    # Every byte where a scale is one, and elsewhere.
    blocks[:256, 0] = np.arange(256)
    return blocks


def numbers_to_quantize(random):
    """Blocks of numbers of every magnitude, with zeros of both signs, equal magnitudes, halves of a step, and subnormal numbers."""
    rows = [random.normal(0, 1, (512, 32)) * 10.0 ** random.integers(-30, 5, (512, 1))]
    rows.append(random.choice([0.0, -0.0, 1.0, -1.0, 0.5, 127.0, -8.0], (256, 32)))
    # With 127 and 8 as the largest magnitudes, the steps are 1, and these numbers are between two of them.
    halves = random.integers(-14, 15, (256, 32)) / 2.0
    halves[:, 5] = random.choice([127.0, -127.0, 8.0, -8.0], 256)
    rows.append(halves)
    rows.append(random.choice([0.0, -0.0], (8, 32)))
    rows.append(random.normal(0, 1, (128, 32)) * 10.0 ** random.integers(-45, -36, (128, 1)))
    numbers = np.concatenate(rows).astype(np.float32)
    bits = random.integers(0, 2**32, (4096, 32), np.uint32).view(np.float32)
    # Scales beyond float16 are refused.
    numbers = np.concatenate([numbers, bits[np.abs(bits).max(axis=1) < 5e5], np.full((1, 32), 524032, np.float32)])
    assert len(numbers) > 1000
    return numbers


def main(place):
    random = np.random.default_rng(7)
    warnings.simplefilter("ignore")
    writer = gguf.GGUFWriter(place / "all.gguf", "llama")
    writer.add_string("general.name", "Ü")
    writer.add_uint8("n.uint8", 255)
    writer.add_int8("n.int8", -128)
    writer.add_uint16("n.uint16", 65535)
    writer.add_int16("n.int16", -32768)
    writer.add_uint32("n.uint32", 2**32 - 1)
    writer.add_int32("n.int32", -(2**31))
    writer.add_uint64("n.uint64", 2**64 - 1)
    writer.add_int64("n.int64", -(2**63))
    writer.add_float32("n.float32", 0.1)
    writer.add_float64("n.float64", 0.1)
    writer.add_bool("n.bool", True)
    writer.add_array("a.words", [f"word {number}" for number in range(1000)])
    writer.add_array("a.numbers", list(range(10)))
    expected = []

    def add(name, data, numbers, raw_dtype=None):
        writer.add_tensor(name, data, raw_dtype=raw_dtype)
        numbers.tofile(place / f"{name}.raw")
        expected.append(f"{name} {numbers.dtype.name} {','.join(map(str, numbers.shape))}")

    for of in sorted(_type_traits):
        if of == Type.BF16:
            continue
        elements, _ = GGML_QUANT_SIZES[of]
        blocks = blocks_of(of, random)
        numbers = gguf.quants.dequantize(blocks, of)
        assert numbers.shape == (N_BLOCKS, elements), of
        # Two dimensions that differ, so that a confused order is found.
        add(of.name, blocks.reshape(N_BLOCKS // 2, -1), numbers.reshape(N_BLOCKS // 2, -1), of)
    for dtype in ["float32", "float16", "float64", "int8", "int16", "int32", "int64"]:
        data = random.integers(0, 256, (3, 5 * np.dtype(dtype).itemsize), np.uint8).view(dtype)
        add(f"plain.{dtype}", data, data)
    words = random.integers(0, 2**16, (2, 3, 5), np.uint16)
    writer.add_tensor("plain.bfloat16", words.view(np.uint8), raw_dtype=Type.BF16)
    words.tofile(place / "plain.bfloat16.raw")
    expected.append("plain.bfloat16 bfloat16 2,3,5")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    numbers = numbers_to_quantize(random)
    numbers.tofile(place / "numbers.raw")
    for of in [Type.Q8_0, Type.Q4_0]:
        gguf.quants.quantize(numbers, of).tofile(place / f"{of.name}.quantized")
    # What the package's own reader makes of the file, as an order of dimensions.
    for tensor in gguf.GGUFReader(place / "all.gguf").tensors:
        line = next(line for line in expected if line.split()[0] == tensor.name)
        assert ",".join(map(str, reversed(tensor.shape.tolist()))) == line.split()[2], line
    (place / "expected.txt").write_text("\n".join(expected))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
