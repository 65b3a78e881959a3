// The parts of libtorch that this runner needs, behind C functions that the Rust side declares in src/libtorch/shim.rs:
// loading a module from mapped memory, reading the schema of its forward, finding out whether forward may write to its
// inputs, running it on tensors in the caller's memory, and setting the threads of the process.
//
// It compiles with the headers of every libtorch from 1.13 on, each with the C++ standard that build.rs chooses for it.
//
// Every function catches libtorch's exceptions. Functions that can fail return null on success, otherwise an error that
// the caller frees.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// UTF-8 text, borrowed from its owner.
struct carton_text {
  const char* data;
  size_t length;
};

struct carton_error;
carton_text carton_error_text(const carton_error*);
void carton_error_free(carton_error*);

struct carton_argument {
  carton_text name;
  carton_text type;       // as TorchScript writes it
  carton_text structure;  // as JSON, which src/libtorch/value_type.rs reads
  bool has_default;
};

// The owner of the memory behind a tensor. `retain` is called when libtorch begins to use it, `release` when it has stopped.
struct carton_owner {
  const void* object;
  void (*retain)(const void*);
  void (*release)(const void*);
};

// The kind of an argument, or of a part of one.
enum carton_value_kind : int32_t {
  CARTON_VALUE_TENSOR = 0,
  CARTON_VALUE_STRING = 1,
  CARTON_VALUE_STRING_LIST = 2,
  CARTON_VALUE_INT = 3,
  CARTON_VALUE_FLOAT = 4,
  CARTON_VALUE_BOOL = 5,
  CARTON_VALUE_COMPLEX = 6,
  CARTON_VALUE_DEFAULT = 7,  // an argument's default, or None
  CARTON_VALUE_LIST = 8,     // of `elements`
  CARTON_VALUE_TUPLE = 9,
  CARTON_VALUE_DICT = 10,    // of `texts`, the keys, to `elements`
};

struct carton_value {
  int32_t kind;
  int32_t dtype;  // of a tensor; the position in `DataType::ALL` of carton-tensor
  const void* data;
  const int64_t* shape;
  size_t rank;
  carton_owner owner;
  const carton_text* texts;
  size_t n_texts;
  const carton_value* elements;
  size_t n_elements;
  int64_t integer;
  double real;
  double imaginary;
};

// A value that forward returned, or a part of it. Everything that it points to lives as long as the result.
enum carton_output_kind : int32_t {
  CARTON_OUTPUT_TENSOR = 0,
  CARTON_OUTPUT_STRING = 1,
  CARTON_OUTPUT_STRING_LIST = 2,  // `texts` with a `shape`
  CARTON_OUTPUT_LIST = 3,
  CARTON_OUTPUT_TUPLE = 4,
  CARTON_OUTPUT_NAMED_TUPLE = 5,  // `texts` are the names of the fields
  CARTON_OUTPUT_DICT = 6,         // `texts` are the keys
  CARTON_OUTPUT_NONE = 7,
  CARTON_OUTPUT_OTHER = 8,        // `texts` has what it is, which no tensors can be
};

struct carton_output {
  int32_t kind;
  int32_t dtype;
  const int64_t* shape;
  size_t rank;
  const carton_text* texts;
  size_t n_texts;
  const carton_output* elements;
  size_t n_elements;
  const void* tensor;
};

struct carton_module;
struct carton_result;

// The threads that one operator uses.
carton_error* carton_threads(int32_t* threads);
carton_error* carton_set_threads(int32_t threads);

// The threads for operators that do not depend on one another. They can be set once, before they are started.
carton_error* carton_interop_threads(int32_t* threads);
carton_error* carton_set_interop_threads(int32_t threads);

// Whether this libtorch has CUDA, and CUDA finds a GPU. The answer of the first call is final.
carton_error* carton_finds_gpu(bool* found);

// Loads a shared library that registers operators, for the rest of the process. The path ends with NUL.
carton_error* carton_load_library(const char* path);

// The path that libtorch was loaded from; empty if the system does not say it. It lives as long as the process.
carton_text carton_libtorch_path();

// Whether this libtorch has tensors of a dtype.
bool carton_supports(int32_t dtype);

// Loads the archive at `bytes`, which `owner` keeps alive for as long as libtorch reads it. `cuda` is -1 for the CPU,
// otherwise the index of a GPU.
carton_error* carton_load(const uint8_t* bytes, size_t length, carton_owner owner, int32_t cuda, carton_module** module);
void carton_module_free(carton_module*);

// The arguments of forward without `self`. They live as long as the module.
size_t carton_arguments(const carton_module*, const carton_argument** arguments);

// Whether forward may write to memory of its inputs, in the same call or in a later one, and whether it may change its module, so
// that two calls must not run at once.
carton_error* carton_effects(const carton_module*, bool* writes_inputs, bool* changes_module);

// Runs forward on its arguments in order. With `copy` tensors are copied first.
carton_error* carton_run(const carton_module*, const carton_value* values, size_t n_values, bool copy, carton_result** result);
const carton_output* carton_output_of(const carton_result*);
void carton_result_free(carton_result*);

// Writes the elements of an output that is a tensor to `target`, which must have exactly their size.
carton_error* carton_copy_output(const carton_output*, void* target, size_t n_bytes);

}  // extern "C"
