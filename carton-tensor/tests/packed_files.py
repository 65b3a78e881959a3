"""Writes the packed tensors of src/weights/packed/tests.rs into a folder, each with the dense ones that the library of its scheme makes of them:
NAME.safetensors, NAME.dense.safetensors, and NAME.json, the model's configuration, where there is one.

    python packed_files.py tests/data/packed

Needs autoawq 0.2.9, bitsandbytes 0.50, compressed-tensors 0.20, gptqmodel 7.7, nvidia-modelopt 0.47, torch 2.15 and transformers 5.24. Everything
is computed on the CPU.
"""

import json
import sys
from pathlib import Path

import bitsandbytes.functional as bnb
import torch
from awq.utils.packing_utils import dequantize_gemm
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from gptqmodel.nn_modules.qlinear.torch import TorchLinear
from gptqmodel.utils.model import convert_gptq_v2_to_v1_format_module
from modelopt.torch.quantization.qtensor import FP8QTensor, NVFP4QTensor
from safetensors.torch import save_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

FOLDER = Path(sys.argv[1])
F16, BF16, F32, E4M3 = torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn


def write(name, packed, dense, config=None, dtype=None):
    contiguous = lambda tensors: {key: tensor.detach().clone().contiguous() for key, tensor in tensors.items()}
    save_file(contiguous(packed), FOLDER / f"{name}.safetensors")
    save_file(contiguous(dense), FOLDER / f"{name}.dense.safetensors")
    if config is not None or dtype is not None:
        whole = {"model_type": "llama", "dtype": dtype, "quantization_config": config}
        whole = {key: value for key, value in whole.items() if value is not None}
        (FOLDER / f"{name}.json").write_text(json.dumps(whole, indent=1) + "\n")


def words(*shape):
    return torch.randint(-(2**31), 2**31, shape, dtype=torch.int64).to(torch.int32)


def gptq(name, bits, checkpoint_format, inputs, outputs, group_size, is_ordered, dtype=F16, has_g_idx=True):
    layer = TorchLinear(
        bits=bits, group_size=group_size, sym=False, desc_act=not is_ordered, in_features=inputs, out_features=outputs
    )
    layer.qweight.copy_(words(*layer.qweight.shape))
    layer.scales = (torch.rand(layer.scales.shape) * 0.02 + 0.001).to(dtype)
    if checkpoint_format == "gptq":
        # Zero points of 1 and more: 0 less 1 is no number without a sign.
        zeros = torch.randint(1, 2**bits, layer.scales.shape)
    else:
        zeros = torch.randint(0, 2**bits, layer.scales.shape)
    columns = zeros.numpy().astype(object)
    stream = sum(columns[:, column, None] << (column * bits) for column in range(outputs))
    n_words = layer.qzeros.shape[1]
    rows = [[(int(row[0]) >> (32 * word)) & 0xFFFFFFFF for word in range(n_words)] for row in stream]
    layer.qzeros.copy_(torch.tensor(rows, dtype=torch.int64).to(torch.int32))
    if not is_ordered:
        layer.g_idx.copy_(layer.g_idx[torch.randperm(inputs)])
    layer.post_init()
    dense = layer.dequantize_weight().T
    if checkpoint_format == "gptq":

        class Config:
            pass

        Config.bits, Config.pack_dtype = bits, torch.int32
        convert_gptq_v2_to_v1_format_module(layer, Config)
    packed = {f"layers.0.q_proj.{part}": getattr(layer, part) for part in ["qweight", "qzeros", "scales", "g_idx"]}
    if not has_g_idx:
        del packed["layers.0.q_proj.g_idx"]
    packed["norm.weight"] = torch.ones(4)
    config = {"quant_method": "gptq", "bits": bits, "group_size": group_size, "desc_act": not is_ordered}
    if checkpoint_format != "gptq" or has_g_idx:
        config["checkpoint_format"] = checkpoint_format
    write(name, packed, {"layers.0.q_proj.weight": dense}, config)


def awq(name, inputs, outputs, group_size):
    qweight, qzeros = words(inputs, outputs // 8), words(inputs // group_size, outputs // 8)
    scales = (torch.rand(inputs // group_size, outputs) * 0.02).to(F16)
    dense = dequantize_gemm(qweight, qzeros, scales, 4, group_size).T
    packed = {"q_proj.qweight": qweight, "q_proj.qzeros": qzeros, "q_proj.scales": scales}
    config = {"quant_method": "awq", "bits": 4, "group_size": group_size, "zero_point": True, "version": "gemm"}
    write(name, packed, {"q_proj.weight": dense}, config)


def four_bits(name, kind, shape, dtype, block, is_nested):
    weight = torch.randn(shape).to(dtype)
    packed, state = bnb.quantize_4bit(weight, blocksize=block, compress_statistics=is_nested, quant_type=kind)
    dense = bnb.dequantize_4bit(packed, state)
    parts = {f"fc.weight.{key}": tensor for key, tensor in state.as_dict(packed=True).items()}
    write(name, {"fc.weight": packed, **parts}, {"fc.weight": dense})


def int8(name, rows, columns, dtype):
    integers, scb, _ = bnb.int8_vectorwise_quant(torch.randn(rows, columns).to(F16))
    dense = bnb.int8_vectorwise_dequant(integers, scb).to(dtype)
    packed = {"fc.weight": integers, "fc.SCB": scb, "fc.weight_format": torch.tensor(0, dtype=torch.uint8)}
    model = str(dtype).removeprefix("torch.") if dtype != F32 else None
    write(name, packed, {"fc.weight": dense}, {"quant_method": "bitsandbytes", "load_in_8bit": True}, model)


def compressed(name, form, weight, scale, zero=None, global_scale=None, **arguments):
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**arguments))
    compressor = BaseCompressor.load_from_registry(form)
    state = {"weight": weight, "weight_scale": scale}
    if zero is not None:
        state["weight_zero_point"] = zero
    if global_scale is not None:
        state["weight_global_scale"] = global_scale
    packed = type(compressor).compress(state, scheme) if not isinstance(compressor, type) else compressor.compress(state, scheme)
    dense = compressor.decompress(packed, scheme)["weight"]
    groups = {"group_0": {"targets": ["Linear"], "weights": json.loads(scheme.weights.model_dump_json())}}
    config = {"quant_method": "compressed-tensors", "format": form, "config_groups": groups}
    write(name, {f"fc.{part}": tensor for part, tensor in packed.items()}, {"fc.weight": dense}, config)


def compressed_cases():
    scale = lambda *shape, dtype=BF16: (torch.rand(shape) * 0.02 + 0.001).to(dtype)
    zero = lambda bits, *shape: torch.randint(-(2 ** (bits - 1)), 2 ** (bits - 1), shape, dtype=torch.int8)
    weight = lambda *shape: torch.randn(shape).to(BF16) * 0.1
    pack = "pack-quantized"
    group = {"strategy": "group", "group_size": 32}
    compressed("ct-4", pack, weight(24, 96), scale(24, 3), num_bits=4, **group)
    compressed("ct-8", pack, weight(24, 96), scale(24, 3, dtype=F16), num_bits=8, **group)
    compressed("ct-4-zero", pack, weight(24, 64), scale(24, 2), zero(4, 24, 2), num_bits=4, symmetric=False, **group)
    compressed("ct-3-zero", pack, weight(37, 64), scale(37, 2), zero(3, 37, 2), num_bits=3, symmetric=False, **group)
    compressed("ct-4-channel", pack, weight(9, 45), scale(9, 1, dtype=F32), num_bits=4, strategy="channel")
    compressed("ct-6-tensor", pack, weight(9, 300), scale(1), num_bits=6, strategy="tensor")
    integers = "int-quantized"
    compressed("ct-int8", integers, weight(9, 45), scale(9, 1), num_bits=8, strategy="channel")
    compressed("ct-int8-zero", integers, weight(9, 45), scale(9, 1, dtype=F16), zero(8, 9, 1), num_bits=8, strategy="channel", symmetric=False)
    floats = {"num_bits": 8, "type": "float"}
    compressed("ct-fp8", "float-quantized", weight(9, 45), scale(9, 1), strategy="channel", **floats)
    compressed("ct-fp8-tensor", "float-quantized", weight(9, 45), scale(1, dtype=F32), strategy="tensor", **floats)
    compressed("ct-fp8-block", "float-quantized", weight(20, 45), scale(2, 3), strategy="block", block_structure=[16, 16], **floats)
    nvfp4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
    local = torch.rand(12, 4).to(E4M3)
    compressed("ct-nvfp4", "nvfp4-pack-quantized", weight(12, 64), local.to(F32), global_scale=torch.tensor([7.3]), **nvfp4)
    mx = {"strategy": "group", "group_size": 32, "scale_dtype": torch.uint8, "type": "float"}
    powers = 2.0 ** torch.randint(-9, 1, (12, 2)).to(F32)
    compressed("ct-mxfp4", "mxfp4-pack-quantized", weight(12, 64), powers, num_bits=4, **mx)
    compressed("ct-mxfp8", "mxfp8-quantized", weight(12, 64), powers, num_bits=8, **mx)


def every_byte(*shape):
    n_elements = 1
    for length in shape:
        n_elements *= length
    return (torch.arange(n_elements) * 7 % 256).to(torch.uint8).reshape(shape)


def fp8(name, weight, scale, dtype, config):
    dense = Fp8Dequantize(None)._dequantize_one(weight, scale, dtype)
    model = str(dtype).removeprefix("torch.") if dtype is not None else None
    write(name, {"experts.up.weight": weight, "experts.up.weight_scale_inv": scale}, {"experts.up.weight": dense}, config, model)


def fp8_cases():
    weight = every_byte(32, 48).view(E4M3)
    scale = torch.rand(4, 3) * 0.1
    config = {"quant_method": "fp8", "weight_block_size": [8, 16]}
    fp8("fp8-block", weight, scale, BF16, config)
    fp8("fp8-block-float32", weight, scale, None, config)
    fp8("fp8-block-of-128", every_byte(128, 256).view(E4M3), torch.rand(1, 2), F16, None)
    fp8("fp8-experts", every_byte(3, 16, 16).view(E4M3), torch.rand(3, 2, 1), BF16, config)
    fp8("fp8-exponents", weight, every_byte(4, 3).view(torch.float8_e8m0fnu), BF16, config)
    fp8("fp8-tensor", weight, torch.tensor(0.3), BF16, {"quant_method": "fp8"})


def modelopt_cases():
    config = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    weight = torch.randn(6, 64).to(BF16)
    quantized, scale, global_scale = NVFP4QTensor.quantize(weight, 16)
    dense = quantized.dequantize(dtype=BF16, scale=scale, double_scale=global_scale, block_sizes={-1: 16})
    packed = {"fc.weight": quantized._quantized_data, "fc.weight_scale": scale, "fc.weight_scale_2": global_scale}
    write("modelopt-nvfp4", packed, {"fc.weight": dense}, config, "bfloat16")
    dense = quantized.dequantize(dtype=F32, scale=scale, double_scale=global_scale, block_sizes={-1: 16})
    write("modelopt-nvfp4-float32", {**packed, "fc.input_scale": torch.tensor(0.5)}, {"fc.weight": dense}, config)
    weight, scale = every_byte(8, 40).view(E4M3), torch.tensor(0.123)
    dense = FP8QTensor((8, 40), BF16, weight).dequantize(scale=scale)
    write("modelopt-fp8", {"fc.weight": weight, "fc.weight_scale": scale}, {"fc.weight": dense}, {"quant_method": "modelopt", "quant_algo": "FP8"}, "bfloat16")


def gpt_oss():
    # Each exponent with each pair of numbers of 4 bits.
    blocks = torch.stack([torch.arange(256).roll(shift) for shift in range(16)]).to(torch.uint8).reshape(2, 8, 16, 16)
    scales = torch.arange(256).to(torch.uint8).reshape(2, 8, 16)
    dense = convert_moe_packed_tensors(blocks, scales)
    packed = {"mlp.experts.down_proj_blocks": blocks, "mlp.experts.down_proj_scales": scales, "mlp.experts.down_proj_bias": torch.ones(2, 8)}
    write("gpt-oss", packed, {"mlp.experts.down_proj": dense}, {"quant_method": "mxfp4"})


def main():
    torch.manual_seed(1)
    gptq("gptq-4", 4, "gptq", 96, 40, 32, is_ordered=True)
    gptq("gptq-4-no-index", 4, "gptq", 96, 40, 32, is_ordered=True, has_g_idx=False)
    gptq("gptq-4-v2-reordered", 4, "gptq_v2", 128, 96, 16, is_ordered=False)
    gptq("gptq-3", 3, "gptq", 96, 64, 32, is_ordered=True)
    gptq("gptq-3-v2-reordered", 3, "gptq_v2", 96, 64, 32, is_ordered=False)
    gptq("gptq-2-v2", 2, "gptq_v2", 64, 32, 16, is_ordered=True)
    gptq("gptq-8-bfloat16", 8, "gptq", 64, 36, -1, is_ordered=True, dtype=BF16)
    awq("awq", 96, 48, 32)
    four_bits("bnb-nf4", "nf4", (24, 64), BF16, 64, is_nested=False)
    four_bits("bnb-nf4-nested", "nf4", (64, 300), F16, 64, is_nested=True)
    four_bits("bnb-fp4-nested", "fp4", (48, 100), F32, 128, is_nested=True)
    four_bits("bnb-nf4-odd", "nf4", (5, 13), BF16, 64, is_nested=False)
    int8("bnb-int8", 12, 300, F16)
    int8("bnb-int8-float32", 12, 30, F32)
    compressed_cases()
    fp8_cases()
    modelopt_cases()
    gpt_oss()


if __name__ == "__main__":
    main()
