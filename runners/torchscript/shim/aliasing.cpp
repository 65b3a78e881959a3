// Asks libtorch's alias analysis whether forward may write to its inputs, or change its module.
#include <torch/csrc/jit/ir/alias_analysis.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <optional>

#include "error.h"
#include "module.h"

namespace carton {
namespace {

// The operations of a graph that decide how it is analysed.
struct Uses {
  // The graph sets attributes of the module, which may therefore hold inputs of earlier calls.
  bool sets_attributes = false;
  // The graph has operations that the analysis does not follow: other threads, replaced storage of a tensor, calls that
  // were not inlined.
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

// Returns the object that a value of forward's graph stands for, if that is `self` or an attribute reached from it.
std::optional<c10::IValue> object_of(const torch::jit::Value* value, const torch::jit::Graph& graph,
                                     const torch::jit::Module& module) {
  if (value == graph.inputs().at(0)) {
    return c10::IValue(module._ivalue());
  }
  const torch::jit::Node* node = value->node();
  if (node->kind() != c10::prim::GetAttr) {
    return std::nullopt;
  }
  const auto owner = object_of(node->input(), graph, module);
  if (!owner || !owner->isObject()) {
    return std::nullopt;
  }
  return owner->toObject()->getAttr(node->s(c10::attr::name));
}

// Replaces reads of attributes `training` by their values, so that operations of training are not counted for a module that
// was saved for evaluation. Valid only if forward sets no attributes.
void fold_training(torch::jit::Block* block, torch::jit::Graph& graph, const torch::jit::Module& module) {
  for (auto it = block->nodes().begin(); it != block->nodes().end(); ++it) {
    torch::jit::Node* node = *it;
    for (torch::jit::Block* inner : node->blocks()) {
      fold_training(inner, graph, module);
    }
    if (node->kind() != c10::prim::GetAttr || node->s(c10::attr::name) != "training") {
      continue;
    }
    const auto value = object_of(node->output(), graph, module);
    if (value && value->isBool()) {
      torch::jit::WithInsertPoint before(node);
      node->output()->replaceAllUsesWith(graph.insertConstant(value->toBool()));
    }
  }
}

// Whether the graph may write to a value that an attribute holds.
bool writes_attributes(torch::jit::Block* block, const torch::jit::AliasDb& aliases) {
  for (torch::jit::Node* node : block->nodes()) {
    if (node->kind() == c10::prim::GetAttr && aliases.hasWriters(node)) {
      return true;
    }
    for (torch::jit::Block* inner : node->blocks()) {
      if (writes_attributes(inner, aliases)) {
        return true;
      }
    }
  }
  return false;
}

struct Effects {
  bool writes_inputs = true;
  bool changes_module = true;
};

Effects effects_of(const torch::jit::Module& module) {
  auto graph = torch::jit::toGraphFunction(module.get_method("forward").function()).graph()->copy();
  torch::jit::Inline(*graph);
  Uses uses;
  look_through(graph->block(), uses);
  if (!uses.sets_attributes) {
    fold_training(graph->block(), *graph, module);
    torch::jit::ConstantPropagationImmutableTypes(graph);
    torch::jit::EliminateDeadCode(graph);
  }
  if (uses.untracked) {
    return {};
  }
  // The analysis puts all inputs of a graph, and everything that comes out of containers, into one alias set for each type.
  // One more input of each type that carries tensors stands for that set: a write to it may be a write to an input.
  torch::jit::Value* tensor = graph->addInput("carton_any_tensor");
  tensor->setType(c10::TensorType::get());
  torch::jit::Value* any = graph->addInput("carton_anything");
  any->setType(c10::AnyType::get());
  const auto writes_set = [&](const torch::jit::AliasDb& aliases) {
    return aliases.hasWriters(tensor) || aliases.hasWriters(any);
  };
  // In this analysis the attributes are in that set too, among them the statistics that a batch norm in training updates.
  const torch::jit::AliasDb aliases(graph);
  Effects effects;
  effects.changes_module = uses.sets_attributes || writes_set(aliases) || writes_attributes(graph->block(), aliases);
  // Attributes that are never assigned hold no inputs; a "frozen" analysis treats them as separate tensors.
  effects.writes_inputs =
      uses.sets_attributes ? writes_set(aliases) : writes_set(torch::jit::AliasDb(graph, /*isFrozen=*/true));
  return effects;
}

}  // namespace
}  // namespace carton

carton_error* carton_effects(const carton_module* module, bool* writes_inputs, bool* changes_module) {
  return carton::guarded([&] {
    const carton::Effects effects = carton::effects_of(module->module);
    *writes_inputs = effects.writes_inputs;
    *changes_module = effects.changes_module;
  });
}
