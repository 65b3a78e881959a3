// Converts libtorch's exceptions into errors that can be passed to Rust.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <string>

#include "shim.h"

struct carton_error {
  std::string text;
};

namespace carton {

// Allocated in advance, for the case that there is no memory for another error.
extern carton_error out_of_memory;

inline carton_error* make_error(const char* text) noexcept {
  try {
    return new carton_error{text};
  } catch (...) {
    return &out_of_memory;
  }
}

// Runs `work`. Returns null if it did not throw.
template <typename Work>
carton_error* guarded(Work&& work) noexcept {
  try {
    work();
    return nullptr;
  } catch (const c10::Error& error) {
    return make_error(error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return &out_of_memory;
  } catch (const std::exception& error) {
    return make_error(error.what());
  } catch (...) {
    return make_error("libtorch threw something that is no std::exception");
  }
}

}  // namespace carton
