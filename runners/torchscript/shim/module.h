// A loaded module and what was read from it.
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
  // What the values of the dictionary are that a forward with one takes, if it does.
  c10::TypePtr dictionary_value;
};
