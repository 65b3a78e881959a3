// libtorch's state of the whole process: its threads, and the GPUs that it finds.
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <torch/cuda.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include "error.h"

namespace {

// Files of which a system with GPUs for CUDA has one: that of the driver, or that of Windows' subsystem for Linux.
const char* const gpus[] = {"/dev/nvidiactl", "/dev/nvgpu", "/dev/dxg"};

bool may_have_gpu() {
  for (const char* path : gpus) {
    if (access(path, F_OK) == 0) return true;
  }
  return false;
}

// Loads the part of libtorch for CUDA, which registers itself. A runner that was not linked with it finds it beside the part for CPUs, if
// the libtorch at hand has it. It is large, so it is only loaded where there may be a GPU.
void load_cuda() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (!may_have_gpu()) return;
    if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
    const char* reason = dlerror();
    std::fprintf(stderr, "GPUs are not used: %s\n", reason != nullptr ? reason : "libtorch_cuda.so cannot be loaded");
  });
}

}  // namespace

carton_error* carton_threads(int32_t* threads) {
  return carton::guarded([&] { *threads = at::get_num_threads(); });
}

carton_error* carton_set_threads(int32_t threads) {
  return carton::guarded([&] { at::set_num_threads(threads); });
}

carton_error* carton_interop_threads(int32_t* threads) {
  return carton::guarded([&] { *threads = at::get_num_interop_threads(); });
}

carton_error* carton_set_interop_threads(int32_t threads) {
  return carton::guarded([&] { at::set_num_interop_threads(threads); });
}

carton_error* carton_finds_gpu(bool* found) {
  return carton::guarded([&] {
    load_cuda();
    *found = torch::cuda::is_available();
  });
}

carton_error* carton_load_library(const char* path) {
  return carton::guarded([&] {
    // Never closed: what it registered is used until the process ends.
    if (dlopen(path, RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      const char* reason = dlerror();
      throw std::runtime_error(reason != nullptr ? reason : "dlopen failed");
    }
  });
}

carton_text carton_libtorch_path() {
  Dl_info info{};
  const int found = dladdr(reinterpret_cast<const void*>(&at::get_num_threads), &info);
  const char* path = found != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
  return carton_text{path, std::strlen(path)};
}
