// Asks libtorch's alias analysis whether forward may write to its inputs.
#include <torch/csrc/jit/ir/alias_analysis.h>
#include <torch/csrc/jit/passes/inliner.h>

#include "error.h"
#include "module.h"

namespace carton {
namespace {

// What a graph does that decides how it is analysed.
struct Uses {
  // Attributes of the module change, so that they may hold inputs of earlier calls.
  bool sets_attributes = false;
  // Something that the analysis does not follow: other threads, storage put under another tensor, calls that stayed.
  bool untracked = false;
};

void look_through(const torch::jit::Block* block, Uses& uses) {
  for (const torch::jit::Node* node : block->nodes()) {
    switch (node->kind()) {
      case c10::prim::SetAttr:
        uses.sets_attributes = true;
        break;
      case c10::prim::fork:
      case c10::prim::rpc_async:
      case c10::prim::rpc_sync:
      case c10::prim::rpc_remote:
      case c10::prim::CallMethod:
      case c10::prim::CallFunction:
      case c10::prim::PythonOp:
        uses.untracked = true;
        break;
      default: {
        static const auto set = c10::Symbol::fromQualString("aten::set_");
        static const auto set_data = c10::Symbol::fromQualString("aten::set_data");
        if (node->kind() == set || node->kind() == set_data) {
          uses.untracked = true;
        }
      }
    }
    for (const torch::jit::Block* inner : node->blocks()) {
      look_through(inner, uses);
    }
  }
}

bool may_write_inputs(const torch::jit::Module& module) {
  auto graph = torch::jit::toGraphFunction(module.get_method("forward").function()).graph()->copy();
  torch::jit::Inline(*graph);
  Uses uses;
  look_through(graph->block(), uses);
  if (uses.untracked) {
    return true;
  }
  // The analysis puts all inputs of a graph, and everything that comes out of containers, into one set for each type.
  // One more input of each type that carries tensors stands for that set: whoever writes to it may write to an input.
  torch::jit::Value* tensor = graph->addInput("carton_any_tensor");
  tensor->setType(c10::TensorType::get());
  torch::jit::Value* any = graph->addInput("carton_anything");
  any->setType(c10::AnyType::get());
  // Attributes that nothing assigns to hold no inputs; a "frozen" analysis takes them for tensors of their own.
  const torch::jit::AliasDb aliases(graph, /*isFrozen=*/!uses.sets_attributes);
  return aliases.hasWriters(tensor) || aliases.hasWriters(any);
}

}  // namespace
}  // namespace carton

carton_error* carton_may_write_inputs(const carton_module* module, bool* may_write) {
  return carton::guarded([&] { *may_write = carton::may_write_inputs(module->module); });
}
