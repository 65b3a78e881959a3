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

// The kind of value that an argument of forward takes; the same numbers as `Kind` in src/libtorch/module.rs.
enum carton_kind : int32_t {
  CARTON_TENSOR = 0,
  CARTON_ANY = 1,
  CARTON_STRING = 2,
  CARTON_STRING_LIST = 3,
  CARTON_TENSOR_LIST = 4,
  CARTON_INT = 5,
  CARTON_FLOAT = 6,
  CARTON_BOOL = 7,
  CARTON_DICT = 8,  // of strings to `element`
  CARTON_OTHER = 9,
};

struct carton_argument {
  carton_text name;
  carton_text type;  // as TorchScript writes it
  int32_t kind;      // of T for an Optional[T]
  int32_t element;   // of a dictionary's values
  bool optional;     // may be None
  bool has_default;
};

// The owner of the memory behind a tensor. `retain` is called when libtorch begins to use it, `release` when it has stopped.
struct carton_owner {
  const void* object;
  void (*retain)(const void*);
  void (*release)(const void*);
};

// The kind of an argument, or of the value for a key.
enum carton_value_kind : int32_t {
  CARTON_VALUE_TENSOR = 0,
  CARTON_VALUE_STRING = 1,
  CARTON_VALUE_STRING_LIST = 2,
  CARTON_VALUE_TENSOR_LIST = 3,
  CARTON_VALUE_INT = 4,
  CARTON_VALUE_FLOAT = 5,
  CARTON_VALUE_BOOL = 6,
  CARTON_VALUE_DEFAULT = 7,  // the argument's default, or None
};

// The number of booleans, bytes that are 0 or 1, in the place of a dtype. Only values have it.
constexpr int32_t CARTON_BOOLS = 100;

struct carton_value {
  int32_t kind;
  int32_t dtype;  // of a tensor; the position in `DataType::ALL` of carton-tensor, or CARTON_BOOLS
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
};

// An output of a call. Everything that it points to lives as long as the result.
enum carton_output_kind : int32_t {
  CARTON_OUTPUT_TENSOR = 0,
  CARTON_OUTPUT_STRING = 1,
  CARTON_OUTPUT_STRING_LIST = 2,
  CARTON_OUTPUT_TENSOR_LIST = 3,
};

struct carton_output {
  carton_text name;  // of a key or a field; empty where there is none
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

// The structure of the outputs of a call.
enum carton_structure : int32_t {
  CARTON_ONE = 0,          // forward returned one value
  CARTON_SEQUENCE = 1,     // a tuple
  CARTON_NAMED_TUPLE = 2,
  CARTON_MAP = 3,          // a dictionary of strings
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

// Runs forward. If `keys` is null, `values` are its arguments in order; otherwise they become one dictionary. With `copy`
// tensors are copied first.
carton_error* carton_run(const carton_module*, const carton_value* values, size_t n_values, const carton_text* keys,
                         bool copy, carton_result** result);
carton_structure carton_outputs(const carton_result*, const carton_output** outputs, size_t* n_outputs);
void carton_result_free(carton_result*);

// Writes the elements of an output that is a tensor to `target`, which must have exactly their size.
carton_error* carton_copy_output(const carton_output*, void* target, size_t n_bytes);

}  // extern "C"
