"""Makes `merge.safetensors` and `lora.safetensors`: what mergekit and PEFT make of small random checkpoints.

    pip install torch==2.15.0 safetensors==0.8.0 mergekit==0.1.5 peft==0.21.2 transformers==5.24.0
    python make.py

A tensor NAME of the file WHICH of a case is `CASE/WHICH/NAME`. The metadata has the options of each case.
"""

import json
import tempfile
from pathlib import Path

import torch
from mergekit.graph import Executor
from mergekit.options import MergeOptions
from mergekit.scripts.merge_raw_pytorch import RawPyTorchMergeConfig, SimpleLoaderCache, plan_flat_merge
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from torch import nn
from transformers.pytorch_utils import Conv1D

HERE = Path(__file__).parent


def models(dtype: torch.dtype) -> dict[str, dict[str, torch.Tensor]]:
    base = {"w": torch.randn(33, 7), "layer.norm": torch.randn(5), "scalar": torch.tensor(0.75), "zero": torch.zeros(3)}
    found = {"base": base}
    for name, step in [("a", 0.5), ("b", 0.9), ("c", 1.3)]:
        found[name] = {key: value + step * torch.randn(value.shape) for key, value in base.items()}
    found["a"]["parallel"] = torch.randn(9)
    for name, factor in [("base", 1.0), ("b", -2.0), ("c", 1.01)]:
        found[name]["parallel"] = factor * found["a"]["parallel"] + 0.001 * torch.randn(9)
    for tensors in found.values():
        for key in tensors:
            tensors[key] = tensors[key].to(dtype).contiguous()
        tensors["ids"] = torch.arange(4)
        tensors["mask"] = torch.tensor([True, False])
    return found


def mergekit(tensors, method, names, base, parameters, weights, dtype):
    """Halves are computed in float32 and rounded once, which is what `dtype` and `out_dtype` are for."""
    is_short = dtype in (torch.float16, torch.bfloat16)
    with tempfile.TemporaryDirectory() as folder:
        for name, of in tensors.items():
            save_file(of, f"{folder}/{name}.safetensors")
        given = [{"model": f"{folder}/{name}.safetensors"} for name in names]
        for model, weight in zip(given, weights):
            model["parameters"] = {"weight": weight}
        config = {"merge_method": method, "models": given, "parameters": parameters}
        if base:
            config["base_model"] = f"{folder}/{base}.safetensors"
        if is_short:
            config |= {"dtype": "float32", "out_dtype": str(dtype).removeprefix("torch.")}
        SimpleLoaderCache().loaders.clear()
        tasks = plan_flat_merge(
            RawPyTorchMergeConfig.model_validate(config), f"{folder}/out", False, False, MergeOptions()
        )
        Executor(tasks, math_device="cpu", storage_device="cpu").execute()
        (path,) = Path(folder, "out").glob("*.safetensors")
        return {name: tensor.clone() for name, tensor in load_file(path).items()}


def make_merges() -> None:
    all_tensors, cases = {}, {}
    weights = [0.3, 0.5, 0.7]
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        tensors = models(dtype)
        name = str(dtype).removeprefix("torch.")
        for model, of in tensors.items():
            all_tensors |= {f"{name}/{model}/{key}": value for key, value in of.items()}
        runs = {
            "linear": ("linear", ["a", "b", "c"], None, {}, weights),
            "linear_sum": ("linear", ["a", "b"], None, {"normalize": False}, weights[:2]),
            "task": ("task_arithmetic", ["a", "b", "c"], "base", {}, weights),
            "task_all": ("task_arithmetic", ["a", "b"], "base", {"normalize": True, "lambda": 0.8}, weights[:2]),
            "slerp": ("slerp", ["a", "b"], "a", {"t": 0.3}, []),
            "slerp_near": ("slerp", ["a", "c"], "a", {"t": 0.6}, []),
        }
        for case, (method, names, base, parameters, of) in runs.items():
            merged = mergekit(tensors, method, names, base, parameters, of, dtype)
            all_tensors |= {f"{name}/{case}/{key}": value for key, value in merged.items()}
    save_file(all_tensors, HERE / "merge.safetensors")


class Net(nn.Module):
    """Layers of these names. Products of less than some hundred multiplications are not made by PyTorch's matrix product, and round otherwise."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        layers = {
            "embed": lambda: nn.Embedding(25, 24),
            "lin": lambda: nn.Linear(24, 20),
            "square": lambda: nn.Linear(20, 20),
            "conv1d": lambda: Conv1D(24, 20),
            "conv1d_square": lambda: Conv1D(20, 20),
            "conv2d": lambda: nn.Conv2d(4, 6, 3),
            "norm": lambda: nn.LayerNorm(20),
            "head": lambda: nn.Linear(20, 15, bias=False),
        }
        for name in names:
            self.add_module(name, layers[name]())


def randomized(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.3)


def make_adapters() -> None:
    linear = ["embed", "lin", "square", "head"]
    cases = {
        "plain": (torch.float32, dict(r=4, lora_alpha=6, target_modules=linear)),
        "float64": (torch.float64, dict(r=4, lora_alpha=6, target_modules=linear)),
        "bfloat16": (torch.bfloat16, dict(r=4, lora_alpha=6, target_modules=linear)),
        "float16": (torch.float16, dict(r=4, lora_alpha=6, target_modules=linear)),
        "rslora": (torch.float32, dict(r=3, lora_alpha=5, use_rslora=True, target_modules=["lin", "conv2d"])),
        "conv1d": (
            torch.float32,
            dict(r=2, lora_alpha=7, fan_in_fan_out=True, target_modules=["conv1d", "conv1d_square"]),
        ),
        "patterns": (
            torch.float32,
            dict(
                r=2,
                lora_alpha=4,
                rank_pattern={"lin": 5, "^head": 3, "squ.(r|x)e": 4},
                alpha_pattern={"square": 11},
                target_modules=linear,
            ),
        ),
        "saved": (
            torch.float32,
            dict(r=2, lora_alpha=4, bias="all", modules_to_save=["head"], target_modules=["lin"]),
        ),
        "saved_bfloat16": (
            torch.bfloat16,
            dict(r=2, lora_alpha=4, modules_to_save=["head", "norm"], target_modules=["lin"]),
        ),
        "lora_bias": (torch.float32, dict(r=2, lora_alpha=3, lora_bias=True, target_modules=["lin", "square"])),
    }
    all_tensors, configs = {}, {}
    for name, (dtype, options) in cases.items():
        names = [*options["target_modules"], *options.get("modules_to_save", []), "norm"]
        model = Net(names)
        randomized(model)
        model.to(dtype)
        base = {key: value.clone() for key, value in model.state_dict().items()}
        adapted = get_peft_model(model, LoraConfig(**options))
        with torch.no_grad():
            for key, parameter in adapted.named_parameters():
                # What is trained: adapters, and the modules and biases that are saved with them.
                if parameter.requires_grad:
                    parameter.copy_(torch.randn(parameter.shape) * 0.2)
        with tempfile.TemporaryDirectory() as folder:
            adapted.save_pretrained(folder)
            fresh = Net(names).to(dtype)
            fresh.load_state_dict(base)
            merged = PeftModel.from_pretrained(fresh, folder).merge_and_unload().state_dict()
            adapter = load_file(f"{folder}/adapter_model.safetensors")
            config = json.loads(Path(folder, "adapter_config.json").read_text())
        for which, tensors in [("base", base), ("adapter", adapter), ("merged", merged)]:
            all_tensors |= {f"{name}/{which}/{key}": value.clone().contiguous() for key, value in tensors.items()}
        configs[name] = json.dumps(config)
    save_file(all_tensors, HERE / "lora.safetensors", metadata=configs)


if __name__ == "__main__":
    torch.manual_seed(20261)
    torch.set_num_threads(1)
    make_merges()
    make_adapters()
