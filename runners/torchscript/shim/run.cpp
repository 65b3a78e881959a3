// Runs forward: takes arguments from the caller's memory, and returns results as C structures.
#include <ATen/Parallel.h>
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <torch/version.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>

#include "error.h"
#include "module.h"

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
#define CARTON_HAS_WIDE_UNSIGNED 1
#else
#define CARTON_HAS_WIDE_UNSIGNED 0
#endif

struct carton_result {
  carton_structure structure = CARTON_ONE;
  std::vector<carton_output> outputs;
  // The data that `outputs` points to. Deques, because their elements do not move.
  std::deque<at::Tensor> tensors;
  std::deque<std::vector<carton_output>> lists;
  std::deque<std::string> strings;
  std::deque<std::vector<carton_text>> texts;
};

namespace carton {
namespace {

// Converts the position in `DataType::ALL` of carton-tensor, or CARTON_BOOLS; Undefined for dtypes that this libtorch lacks.
at::ScalarType scalar_type_of(int32_t dtype) {
  switch (dtype) {
    case 0: return at::kFloat;
    case 1: return at::kDouble;
    case 3: return at::kChar;
    case 4: return at::kShort;
    case 5: return at::kInt;
    case 6: return at::kLong;
    case 7: return at::kByte;
    case CARTON_BOOLS: return at::kBool;
#if CARTON_HAS_WIDE_UNSIGNED
    case 8: return at::kUInt16;
    case 9: return at::kUInt32;
    case 10: return at::kUInt64;
#endif
    default: return at::ScalarType::Undefined;
  }
}

// Returns the dtype that carries elements of a scalar type: uint8 for booleans, float32 for half and bfloat16. -1 if there
// is none.
int32_t dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
    case at::kHalf:
    case at::kBFloat16: return 0;
    case at::kDouble: return 1;
    case at::kChar: return 3;
    case at::kShort: return 4;
    case at::kInt: return 5;
    case at::kLong: return 6;
    case at::kByte:
    case at::kBool: return 7;
#if CARTON_HAS_WIDE_UNSIGNED
    case at::kUInt16: return 8;
    case at::kUInt32: return 9;
    case at::kUInt64: return 10;
#endif
    default: return -1;
  }
}

at::Tensor tensor_of(const carton_value& value, const c10::Device& device, bool copy) {
  const at::IntArrayRef shape(value.shape, value.rank);
  const auto type = scalar_type_of(value.dtype);
  TORCH_CHECK(type != at::ScalarType::Undefined, "a dtype that this libtorch lacks");
  const carton_owner owner = value.owner;
  owner.retain(owner.object);
  // libtorch calls the deleter even if it fails.
  std::shared_ptr<const void> guard(owner.object, [owner](const void* object) { owner.release(object); });
  // The memory is read-only: either the analysis found that forward does not write to it, or the tensor is copied below.
  auto tensor = at::from_blob(const_cast<void*>(value.data), shape, [guard](void*) mutable { guard.reset(); }, type);
  if (!device.is_cpu()) {
    return tensor.to(device);
  }
  return copy ? tensor.clone() : tensor;
}

std::string string_of(const carton_text& text) { return std::string(text.data, text.length); }

c10::IValue ivalue_of(const carton_value& value, const c10::Device& device, bool copy) {
  switch (value.kind) {
    case CARTON_VALUE_TENSOR:
      return tensor_of(value, device, copy);
    case CARTON_VALUE_STRING:
      return string_of(value.texts[0]);
    case CARTON_VALUE_STRING_LIST: {
      c10::List<std::string> list;
      list.reserve(value.n_texts);
      for (size_t i = 0; i < value.n_texts; ++i) {
        list.push_back(string_of(value.texts[i]));
      }
      return list;
    }
    case CARTON_VALUE_TENSOR_LIST: {
      c10::List<at::Tensor> list;
      list.reserve(value.n_elements);
      for (size_t i = 0; i < value.n_elements; ++i) {
        list.push_back(tensor_of(value.elements[i], device, copy));
      }
      return list;
    }
    case CARTON_VALUE_INT:
      return value.integer;
    case CARTON_VALUE_FLOAT:
      return value.real;
    case CARTON_VALUE_BOOL:
      return value.integer != 0;
    default:
      return c10::IValue();
  }
}

// Converts values into outputs, whose data it keeps in the result.
class Reader {
 public:
  explicit Reader(carton_result& result) : result_(result) {}

  carton_output read(const c10::IValue& value, const std::string& name) {
    carton_output output{};
    output.name = keep(name);
    output.dtype = -1;
    if (value.isTensor()) {
      read_tensor(value.toTensor(), output);
    } else if (value.isString()) {
      output.kind = CARTON_OUTPUT_STRING;
      read_texts({value.toStringRef()}, output);
    } else if (value.isInt()) {
      read_tensor(at::scalar_tensor(value.toInt(), at::kLong), output);
    } else if (value.isDouble()) {
      read_tensor(at::scalar_tensor(value.toDouble(), at::kDouble), output);
    } else if (value.isBool()) {
      read_tensor(at::scalar_tensor(value.toBool(), at::kBool), output);
    } else if (value.isIntList()) {
      read_tensor(at::tensor(value.toIntVector(), at::kLong), output);
    } else if (value.isDoubleList()) {
      read_tensor(at::tensor(value.toDoubleVector(), at::kDouble), output);
    } else if (value.isList()) {
      read_list(value.toListRef(), value, output);
    } else {
      refuse(output, value.isNone() ? std::string("None") : value.type()->annotation_str());
    }
    return output;
  }

  carton_text keep(const std::string& text) {
    result_.strings.push_back(text);
    return carton_text{result_.strings.back().data(), result_.strings.back().size()};
  }

 private:
  [[noreturn]] static void refuse(const carton_output& output, const std::string& found) {
    const std::string name = string_of(output.name);
    throw std::runtime_error((name.empty() ? "the model's output" : "output `" + name + "`") + " is " + found +
                             "; expected a tensor, str, List[str], List[Tensor] or a number");
  }

  void read_tensor(const at::Tensor& tensor, carton_output& output) {
    if (!tensor.defined()) {
      refuse(output, "an undefined tensor");
    }
    if (tensor.layout() != c10::kStrided || tensor.is_nested() || tensor.is_quantized()) {
      refuse(output, "a sparse, nested or quantized tensor");
    }
    output.kind = CARTON_OUTPUT_TENSOR;
    output.dtype = dtype_of(tensor.scalar_type());
    if (output.dtype < 0) {
      refuse(output, std::string("a tensor of ") + c10::toString(tensor.scalar_type()));
    }
    result_.tensors.push_back(tensor);
    const at::Tensor& kept = result_.tensors.back();
    output.tensor = &kept;
    output.shape = kept.sizes().data();
    output.rank = kept.sizes().size();
  }

  void read_texts(const std::vector<std::string>& texts, carton_output& output) {
    std::vector<carton_text> kept;
    kept.reserve(texts.size());
    for (const std::string& text : texts) {
      kept.push_back(keep(text));
    }
    result_.texts.push_back(std::move(kept));
    output.texts = result_.texts.back().data();
    output.n_texts = result_.texts.back().size();
  }

  void read_list(c10::ArrayRef<c10::IValue> elements, const c10::IValue& value, carton_output& output) {
    const auto type = value.type();
    const auto element_kind = type->expectRef<c10::ListType>().getElementType()->kind();
    const auto all = [&](auto&& is) { return std::all_of(elements.begin(), elements.end(), is); };
    // The elements decide the kind of a list that was declared to hold anything.
    if (element_kind == c10::TypeKind::StringType ||
        (!elements.empty() && all([](const c10::IValue& element) { return element.isString(); }))) {
      output.kind = CARTON_OUTPUT_STRING_LIST;
      std::vector<std::string> texts;
      texts.reserve(elements.size());
      for (const c10::IValue& element : elements) {
        texts.push_back(element.toStringRef());
      }
      read_texts(texts, output);
    } else if (element_kind == c10::TypeKind::TensorType ||
               (elements.empty() ? element_kind == c10::TypeKind::AnyType
                                 : all([](const c10::IValue& element) { return element.isTensor(); }))) {
      output.kind = CARTON_OUTPUT_TENSOR_LIST;
      std::vector<carton_output> list;
      list.reserve(elements.size());
      for (const c10::IValue& element : elements) {
        carton_output inner{};
        inner.name = output.name;
        read_tensor(element.toTensor(), inner);
        list.push_back(inner);
      }
      result_.lists.push_back(std::move(list));
      output.elements = result_.lists.back().data();
      output.n_elements = result_.lists.back().size();
    } else {
      refuse(output, type->annotation_str());
    }
  }

  carton_result& result_;
};

void read_result(const c10::IValue& value, carton_result& result) {
  Reader reader(result);
  if (value.isGenericDict()) {
    result.structure = CARTON_MAP;
    for (const auto& entry : value.toGenericDict()) {
      if (!entry.key().isString()) {
        throw std::runtime_error("the model returned " + value.type()->annotation_str() +
                                 "; expected a dictionary whose keys are strings");
      }
      result.outputs.push_back(reader.read(entry.value(), entry.key().toStringRef()));
    }
  } else if (value.isTuple()) {
    const auto tuple = value.toTuple();
    const auto type = value.type();
    const auto& schema = type->expectRef<c10::TupleType>().schema();
    const auto& elements = tuple->elements();
    const bool named = schema && schema->arguments().size() == elements.size();
    result.structure = named ? CARTON_NAMED_TUPLE : CARTON_SEQUENCE;
    for (size_t i = 0; i < elements.size(); ++i) {
      result.outputs.push_back(reader.read(elements[i], named ? schema->arguments()[i].name() : std::string()));
    }
  } else {
    result.outputs.push_back(reader.read(value, std::string()));
  }
}

std::vector<c10::IValue> arguments_of(const carton_module& module, const carton_value* values, size_t n_values,
                                      const carton_text* keys, bool copy) {
  std::vector<c10::IValue> arguments;
  if (keys) {
    TORCH_CHECK(module.dictionary_value, "forward takes no dictionary");
    c10::impl::GenericDict dictionary(c10::StringType::get(), module.dictionary_value);
    for (size_t i = 0; i < n_values; ++i) {
      dictionary.insert(string_of(keys[i]), ivalue_of(values[i], module.device, copy));
    }
    arguments.emplace_back(std::move(dictionary));
    return arguments;
  }
  const auto& formals = module.module.get_method("forward").function().getSchema().arguments();
  arguments.reserve(n_values);
  for (size_t i = 0; i < n_values; ++i) {
    const bool by_default = values[i].kind == CARTON_VALUE_DEFAULT && i + 1 < formals.size();
    if (by_default && formals[i + 1].default_value()) {
      arguments.push_back(*formals[i + 1].default_value());
    } else {
      arguments.push_back(ivalue_of(values[i], module.device, copy));
    }
  }
  return arguments;
}

// Sets libtorch's number of threads for the calling thread. Without this call, a thread that libtorch did not start uses
// OpenMP's default number for an operator.
void initialise_this_thread() {
  thread_local const bool initialised = [] {
    at::init_num_threads();
    return true;
  }();
  (void)initialised;
}

}  // namespace
}  // namespace carton

bool carton_supports(int32_t dtype) { return carton::scalar_type_of(dtype) != at::ScalarType::Undefined; }

carton_error* carton_run(const carton_module* module, const carton_value* values, size_t n_values,
                         const carton_text* keys, bool copy, carton_result** result) {
  return carton::guarded([&] {
    carton::initialise_this_thread();
    const c10::NoGradGuard no_gradients;
    auto made = std::make_unique<carton_result>();
    auto arguments = carton::arguments_of(*module, values, n_values, keys, copy);
    const c10::IValue returned = module->module.get_method("forward")(std::move(arguments));
    carton::read_result(returned, *made);
    *result = made.release();
  });
}

carton_structure carton_outputs(const carton_result* result, const carton_output** outputs, size_t* n_outputs) {
  *outputs = result->outputs.data();
  *n_outputs = result->outputs.size();
  return result->structure;
}

void carton_result_free(carton_result* result) {
  carton_error* error = carton::guarded([&] { delete result; });
  if (error) {
    carton_error_free(error);
  }
}

carton_error* carton_copy_output(const carton_output* output, void* target, size_t n_bytes) {
  return carton::guarded([&] {
    const at::Tensor& source = *static_cast<const at::Tensor*>(output->tensor);
    const auto type = carton::scalar_type_of(output->dtype);
    const size_t expected = static_cast<size_t>(source.numel()) * c10::elementSize(type);
    TORCH_CHECK(n_bytes == expected, "an output of ", expected, " bytes, but room for ", n_bytes);
    if (n_bytes == 0) {
      return;
    }
    // libtorch's own copy uses all its threads, which is not worth it for small tensors.
    constexpr size_t small = 256 << 10;
    if (n_bytes <= small && source.is_cpu() && source.is_contiguous() && source.scalar_type() == type &&
        !source.is_conj() && !source.is_neg()) {
      std::memcpy(target, source.data_ptr(), n_bytes);
      return;
    }
    const c10::NoGradGuard no_gradients;
    at::from_blob(target, source.sizes(), type).copy_(source);
  });
}
