// A loaded module and its parsed schema.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

#include "shim.h"

struct carton_module {
  torch::jit::Module module;
  c10::Device device;
  // Texts that `arguments` points to.
  std::vector<std::string> texts;
  std::vector<carton_argument> arguments;
};
