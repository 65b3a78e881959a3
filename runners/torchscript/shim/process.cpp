// libtorch's state of the whole process: its threads, and the GPUs that it finds.
#include <ATen/Parallel.h>
#include <torch/cuda.h>

#include "error.h"

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
  return carton::guarded([&] { *found = torch::cuda::is_available(); });
}
