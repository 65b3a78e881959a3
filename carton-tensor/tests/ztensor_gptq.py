"""Weights quantized as GPTQ does, written by PyPI's ztensor, and what they are as float32: ztensor_gptq.py FOLDER

The expected values are AutoGPTQ's definition in NumPy. A word holds 32 // bits weights of consecutive rows, the first in the lowest
bits; zero points are packed likewise along the columns, less by one modulo 2**bits (but for its later checkpoint format `gptq_v2`), and a weight is
its group's scale times the difference of both.
"""

import json
import os
import sys

import ml_dtypes
import numpy as np
import ztensor

folder = sys.argv[1]
rng = np.random.default_rng(7)
writer = ztensor.Writer(os.path.join(folder, "gptq.zt"))
expected = []


def pack(values, bits, axis):
    """Packs along an axis, by addition of shifted values: nothing of how it is unpacked."""
    per_word = 32 // bits
    values = np.moveaxis(values.astype(np.uint64), axis, 0)
    words = sum(values[position::per_word] << np.uint64(bits * position) for position in range(per_word))
    return np.ascontiguousarray(np.moveaxis(words, 0, axis).astype(np.uint32).view(np.int32))


def unpacked(words, bits):
    """The fields of each word, in a dimension behind the word's."""
    return words.view(np.uint32)[..., None] >> np.arange(0, 32, bits, dtype=np.uint32) & np.uint32(2**bits - 1)


for bits in (2, 4, 8):
    for rows, columns, group_size in ((64, 32, 16), (64, 48, -1), (96, 16, 64), (32, 16, 32)):
        for zeros_kind in ("packed", "gptq_v2", "float16", "uint8", "float32"):
            for with_groups in (False, True):
                per_group = rows if group_size == -1 else group_size
                n_groups = -(-rows // per_group)
                shape = (rows, columns)
                scales_kind = rng.choice(["float16", "float32", "bfloat16"])
                scales = rng.normal(0, 0.1, (n_groups, columns)).astype(scales_kind if scales_kind != "bfloat16" else ml_dtypes.bfloat16)
                qweight = pack(rng.integers(0, 2**bits, shape), bits, 0)
                stored_zeros = rng.integers(0, 2**bits, (n_groups, columns))
                packed_zeros = pack(stored_zeros, bits, 1)
                groups = rng.integers(0, n_groups, rows) if with_groups else np.arange(rows) // per_group

                weight = np.moveaxis(unpacked(qweight, bits), 2, 1).reshape(shape).astype(np.float32)
                zero_points = unpacked(packed_zeros, bits).reshape(n_groups, columns).astype(np.float32)
                if zeros_kind == "packed":
                    zero_points = (zero_points + 1) % 2**bits
                dequantized = scales[groups].astype(np.float32) * (weight - zero_points[groups])

                attributes = {"bits": bits, "group_size": group_size, "packing": f"{32 // bits}_per_i32"}
                if zeros_kind in ("packed", "gptq_v2"):
                    zeros = packed_zeros
                    if zeros_kind == "gptq_v2":
                        attributes["checkpoint_format"] = "gptq_v2"
                else:
                    zeros = stored_zeros.astype(zeros_kind)
                parts = {"packed_weight": qweight.reshape(-1), "scales": scales.reshape(-1), "zeros": zeros.reshape(-1)}
                if with_groups:
                    parts["g_idx"] = groups.astype(np.int32)
                name = f"{bits}/{rows}/{columns}/{group_size}/{zeros_kind}/{with_groups}"
                tensor = ztensor.Tensor(parts, shape=shape, dtype="int32", format="quantized_group", attributes=attributes)
                writer.write(name, tensor)
                expected.append({"name": name, "shape": shape, "bits": bits, "n_groups": n_groups, "bytes": dequantized.tobytes().hex()})
writer.finish()
with open(os.path.join(folder, "gptq.json"), "w") as out:
    json.dump(expected, out)
