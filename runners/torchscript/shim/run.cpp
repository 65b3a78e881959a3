// Runs forward: takes arguments from the caller's memory, and returns results as C structures.
#include <ATen/Parallel.h>
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>

#include "error.h"
#include "module.h"

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
#define CARTON_HAS_WIDE_UNSIGNED 1
#else
#define CARTON_HAS_WIDE_UNSIGNED 0
#endif

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
#define CARTON_HAS_FLOAT8 1
#else
#define CARTON_HAS_FLOAT8 0
#endif

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 2)
#define CARTON_HAS_FLOAT8_FNUZ 1
#else
#define CARTON_HAS_FLOAT8_FNUZ 0
#endif

struct carton_result {
  carton_output output{};
  // The data that outputs point to. Deques, because their elements do not move.
  std::deque<at::Tensor> tensors;
  std::deque<std::vector<carton_output>> lists;
  std::deque<std::string> strings;
  std::deque<std::vector<carton_text>> texts;
  std::deque<std::vector<int64_t>> shapes;
};

namespace carton {
namespace {

// The dtypes of tensors by their positions in `DataType::ALL` of carton-tensor. Undefined for those that this libtorch lacks, and for texts
// and bytes, which are no tensors.
constexpr at::ScalarType dtypes[] = {
    at::kFloat,
    at::kDouble,
    at::ScalarType::Undefined,
    at::kChar,
    at::kShort,
    at::kInt,
    at::kLong,
    at::kByte,
#if CARTON_HAS_WIDE_UNSIGNED
    at::kUInt16,
    at::kUInt32,
    at::kUInt64,
#else
    at::ScalarType::Undefined,
    at::ScalarType::Undefined,
    at::ScalarType::Undefined,
#endif
    at::kBool,
    at::kHalf,
    at::kBFloat16,
#if CARTON_HAS_FLOAT8
    at::kFloat8_e4m3fn,
    at::kFloat8_e5m2,
#else
    at::ScalarType::Undefined,
    at::ScalarType::Undefined,
#endif
#if CARTON_HAS_FLOAT8_FNUZ
    at::kFloat8_e4m3fnuz,
    at::kFloat8_e5m2fnuz,
#else
    at::ScalarType::Undefined,
    at::ScalarType::Undefined,
#endif
    at::kComplexFloat,
    at::kComplexDouble,
    at::ScalarType::Undefined,
};
constexpr size_t n_dtypes = sizeof(dtypes) / sizeof(dtypes[0]);
// A test in src/libtorch/shim.rs compares the order.
static_assert(n_dtypes == 21, "each dtype of `DataType::ALL` has a scalar type");

at::ScalarType scalar_type_of(int32_t dtype) {
  return dtype >= 0 && static_cast<size_t>(dtype) < n_dtypes ? dtypes[dtype] : at::ScalarType::Undefined;
}

// Returns the position of the dtype of a scalar type; -1 if there is none.
int32_t dtype_of(at::ScalarType type) {
  const auto found = std::find(std::begin(dtypes), std::end(dtypes), type);
  return type == at::ScalarType::Undefined || found == std::end(dtypes) ? -1 : static_cast<int32_t>(found - std::begin(dtypes));
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

c10::IValue ivalue_of(const carton_value& value, const c10::Type& type, const c10::Device& device, bool copy);

// The type of an Optional's value, or the type itself.
const c10::Type& present(const c10::Type& type) {
  return type.kind() == c10::TypeKind::OptionalType ? *type.expectRef<c10::OptionalType>().getElementType() : type;
}

c10::IValue list_of(const carton_value& value, const c10::Type& type, const c10::Device& device, bool copy) {
  // A list for an argument of any type holds tensors.
  const c10::TypePtr element =
      type.kind() == c10::TypeKind::ListType ? type.expectRef<c10::ListType>().getElementType() : c10::TensorType::get();
  c10::impl::GenericList list(element);
  list.reserve(value.n_elements);
  for (size_t i = 0; i < value.n_elements; ++i) {
    list.push_back(ivalue_of(value.elements[i], *element, device, copy));
  }
  return list;
}

c10::IValue tuple_of(const carton_value& value, const c10::Type& type, const c10::Device& device, bool copy) {
  const auto tuple = type.expect<c10::TupleType>();
  TORCH_CHECK(tuple->elements().size() == value.n_elements, "a tuple of ", value.n_elements, " elements");
  std::vector<c10::IValue> elements;
  elements.reserve(value.n_elements);
  for (size_t i = 0; i < value.n_elements; ++i) {
    elements.push_back(ivalue_of(value.elements[i], *tuple->elements()[i], device, copy));
  }
  if (!tuple->schema()) {
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  return c10::ivalue::Tuple::createNamed(std::move(elements), std::const_pointer_cast<c10::TupleType>(tuple));
}

c10::IValue key_of(const std::string& text, const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::IntType:
      return static_cast<int64_t>(std::stoll(text));
    case c10::TypeKind::FloatType:
      // Not std::stod, which refuses subnormal numbers.
      return std::strtod(text.c_str(), nullptr);
    case c10::TypeKind::BoolType:
      return text == "True";
    default:
      return text;
  }
}

c10::IValue dictionary_of(const carton_value& value, const c10::Type& type, const c10::Device& device, bool copy) {
  const auto& dictionary_type = type.expectRef<c10::DictType>();
  c10::impl::GenericDict dictionary(dictionary_type.getKeyType(), dictionary_type.getValueType());
  for (size_t i = 0; i < value.n_elements; ++i) {
    dictionary.insert(key_of(string_of(value.texts[i]), *dictionary_type.getKeyType()),
                      ivalue_of(value.elements[i], *dictionary_type.getValueType(), device, copy));
  }
  return dictionary;
}

// Makes the value of a type, which the caller has compared with the value.
c10::IValue ivalue_of(const carton_value& value, const c10::Type& declared, const c10::Device& device, bool copy) {
  const c10::Type& type = present(declared);
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
    case CARTON_VALUE_INT:
      return value.integer;
    case CARTON_VALUE_FLOAT:
      return value.real;
    case CARTON_VALUE_BOOL:
      return value.integer != 0;
    case CARTON_VALUE_COMPLEX:
      return c10::complex<double>(value.real, value.imaginary);
    case CARTON_VALUE_LIST:
      return list_of(value, type, device, copy);
    case CARTON_VALUE_TUPLE:
      return tuple_of(value, type, device, copy);
    case CARTON_VALUE_DICT:
      return dictionary_of(value, type, device, copy);
    default:
      return c10::IValue();
  }
}

// Converts values into outputs, whose data it keeps in the result.
class Reader {
 public:
  explicit Reader(carton_result& result) : result_(result) {}

  carton_output read(const c10::IValue& value, size_t level = 0) {
    carton_output output{};
    output.dtype = -1;
    if (level > max_levels) {
      other(output, "a value of more than 64 levels");
    } else if (value.isNone()) {
      output.kind = CARTON_OUTPUT_NONE;
    } else if (value.isTensor()) {
      read_tensor(value.toTensor(), output);
    } else if (value.isString()) {
      output.kind = CARTON_OUTPUT_STRING;
      keep_texts({value.toStringRef()}, output);
    } else if (value.isInt() || value.isDouble() || value.isBool() || value.isComplexDouble()) {
      read_tensor(number_of(value), output);
    } else if (value.isList()) {
      read_list(value, output, level);
    } else if (value.isTuple()) {
      read_tuple(value, output, level);
    } else if (value.isGenericDict()) {
      read_dictionary(value, output, level);
    } else {
      other(output, value.type()->annotation_str());
    }
    return output;
  }

 private:
  static constexpr size_t max_levels = 64;

  void other(carton_output& output, const std::string& what) {
    output.kind = CARTON_OUTPUT_OTHER;
    keep_texts({what}, output);
  }

  static at::Tensor number_of(const c10::IValue& value) {
    const auto dtype = value.isInt() ? at::kLong : value.isDouble() ? at::kDouble : value.isBool() ? at::kBool : at::kComplexDouble;
    return at::scalar_tensor(value.toScalar(), dtype);
  }

  void read_tensor(const at::Tensor& tensor, carton_output& output) {
    if (!tensor.defined()) {
      return other(output, "an undefined tensor");
    }
    if (tensor.is_quantized()) {
      return other(output, "a quantized tensor (the model can return its `dequantize()`, or its `int_repr()`)");
    }
    if (tensor.is_nested()) {
      return other(output, "a nested tensor of torch (the model can return its `unbind()`)");
    }
    if (tensor.layout() != c10::kStrided) {
      return other(output, "a sparse tensor (the model can return its `to_dense()`)");
    }
    output.kind = CARTON_OUTPUT_TENSOR;
    output.dtype = dtype_of(tensor.scalar_type());
    if (output.dtype < 0) {
      return other(output, std::string("a tensor of ") + c10::toString(tensor.scalar_type()));
    }
    result_.tensors.push_back(tensor);
    const at::Tensor& kept = result_.tensors.back();
    output.tensor = &kept;
    output.shape = kept.sizes().data();
    output.rank = kept.sizes().size();
  }

  void keep_texts(const std::vector<std::string>& texts, carton_output& output) {
    std::vector<carton_text> kept;
    kept.reserve(texts.size());
    for (const std::string& text : texts) {
      result_.strings.push_back(text);
      kept.push_back(carton_text{result_.strings.back().data(), result_.strings.back().size()});
    }
    result_.texts.push_back(std::move(kept));
    output.texts = result_.texts.back().data();
    output.n_texts = result_.texts.back().size();
  }

  template <typename Values>
  void read_elements(const Values& values, carton_output& output, size_t level) {
    std::vector<carton_output> list;
    list.reserve(values.size());
    for (const c10::IValue& value : values) {
      list.push_back(read(value, level + 1));
    }
    result_.lists.push_back(std::move(list));
    output.elements = result_.lists.back().data();
    output.n_elements = result_.lists.back().size();
  }

  void read_list(const c10::IValue& value, carton_output& output, size_t level) {
    if (const auto numbers = numbers_of(value)) {
      return read_tensor(*numbers, output);
    }
    std::vector<std::string> texts;
    if (auto shape = texts_of(value, texts)) {
      output.kind = CARTON_OUTPUT_STRING_LIST;
      keep_texts(texts, output);
      return keep_shape(std::move(*shape), output);
    }
    output.kind = CARTON_OUTPUT_LIST;
    read_elements(value.toListRef(), output, level);
  }

  static bool is_list_of_numbers(const c10::IValue& value) {
    return value.isIntList() || value.isDoubleList() || value.isBoolList() || value.isComplexDoubleList();
  }

  // A list of numbers, or lists of them with one shape, as one tensor. The elements decide the kind of a list that was declared to hold
  // anything.
  static std::optional<at::Tensor> numbers_of(const c10::IValue& value, size_t level = 0) {
    if (value.isIntList()) {
      return at::tensor(value.toIntVector(), at::kLong);
    }
    if (value.isDoubleList()) {
      return at::tensor(value.toDoubleVector(), at::kDouble);
    }
    if (value.isBoolList()) {
      const auto list = value.toBoolList();
      auto flags = at::empty({static_cast<int64_t>(list.size())}, at::kBool);
      for (size_t i = 0; i < list.size(); ++i) {
        flags.data_ptr<bool>()[i] = list.get(i);
      }
      return flags;
    }
    if (value.isComplexDoubleList()) {
      return at::tensor(value.toComplexDoubleVector(), at::kComplexDouble);
    }
    std::vector<at::Tensor> parts;
    for (const c10::IValue& element : value.toListRef()) {
      std::optional<at::Tensor> part;
      if (element.isInt() || element.isDouble() || element.isBool() || element.isComplexDouble()) {
        part = number_of(element);
      } else if (element.isList() && level < max_levels) {
        part = numbers_of(element, level + 1);
      }
      if (!part || (!parts.empty() && (part->sizes() != parts[0].sizes() || part->scalar_type() != parts[0].scalar_type()))) {
        return std::nullopt;
      }
      parts.push_back(std::move(*part));
    }
    return parts.empty() ? std::nullopt : std::make_optional(at::stack(parts));
  }

  // Adds the texts of a list of texts, or of lists of them with one shape, and returns the shape.
  static std::optional<std::vector<int64_t>> texts_of(const c10::IValue& value, std::vector<std::string>& texts, size_t level = 0) {
    if (is_list_of_numbers(value)) {
      return std::nullopt;
    }
    const auto elements = value.toListRef();
    const auto count = static_cast<int64_t>(elements.size());
    const bool of_texts = value.type()->expectRef<c10::ListType>().getElementType()->kind() == c10::TypeKind::StringType;
    const auto is_text = [](const c10::IValue& element) { return element.isString(); };
    if (of_texts || (count > 0 && std::all_of(elements.begin(), elements.end(), is_text))) {
      for (const c10::IValue& element : elements) {
        texts.push_back(element.toStringRef());
      }
      return std::vector<int64_t>{count};
    }
    std::optional<std::vector<int64_t>> shape;
    for (const c10::IValue& element : elements) {
      auto part = element.isList() && level < max_levels ? texts_of(element, texts, level + 1) : std::nullopt;
      if (!part || (shape && *part != *shape)) {
        return std::nullopt;
      }
      shape = std::move(part);
    }
    if (shape) {
      shape->insert(shape->begin(), count);
    }
    return shape;
  }

  void keep_shape(std::vector<int64_t> shape, carton_output& output) {
    result_.shapes.push_back(std::move(shape));
    output.shape = result_.shapes.back().data();
    output.rank = result_.shapes.back().size();
  }

  void read_tuple(const c10::IValue& value, carton_output& output, size_t level) {
    const auto tuple = value.toTuple();
    const auto type = value.type();
    const auto& schema = type->expectRef<c10::TupleType>().schema();
    const auto& elements = tuple->elements();
    output.kind = CARTON_OUTPUT_TUPLE;
    if (schema && schema->arguments().size() == elements.size()) {
      output.kind = CARTON_OUTPUT_NAMED_TUPLE;
      std::vector<std::string> names;
      for (const auto& field : schema->arguments()) {
        names.push_back(field.name());
      }
      keep_texts(names, output);
    }
    std::vector<c10::IValue> values;
    for (const c10::IValue& element : elements) {
      values.push_back(element);
    }
    read_elements(values, output, level);
  }

  // The shortest text that is this number, as Python's repr writes it.
  static std::string text_of(double number) {
    if (!std::isfinite(number)) {
      return std::isnan(number) ? "nan" : number < 0 ? "-inf" : "inf";
    }
    char text[40] = {};
    for (int precision = 0; precision < 17; ++precision) {
      std::snprintf(text, sizeof text, "%.*e", precision, std::fabs(number));
      if (std::strtod(text, nullptr) == std::fabs(number)) {
        break;
      }
    }
    const std::string written = text;
    const size_t end = written.find('e');
    const int exponent = std::atoi(text + end + 1);
    std::string digits = written.substr(0, 1) + (end > 2 ? written.substr(2, end - 2) : "");
    const std::string sign = std::signbit(number) ? "-" : "";
    if (exponent < -4 || exponent >= 16) {
      return sign + written;
    }
    if (exponent < 0) {
      return sign + "0." + std::string(static_cast<size_t>(-exponent) - 1, '0') + digits;
    }
    const auto n_whole = static_cast<size_t>(exponent) + 1;
    digits.resize(std::max(digits.size(), n_whole + 1), '0');
    return sign + digits.substr(0, n_whole) + "." + digits.substr(n_whole);
  }

  void read_dictionary(const c10::IValue& value, carton_output& output, size_t level) {
    std::vector<std::string> keys;
    std::vector<c10::IValue> values;
    for (const auto& entry : value.toGenericDict()) {
      const c10::IValue& key = entry.key();
      if (key.isString()) {
        keys.push_back(key.toStringRef());
      } else if (key.isBool()) {
        keys.push_back(key.toBool() ? "True" : "False");
      } else if (key.isInt()) {
        keys.push_back(std::to_string(key.toInt()));
      } else if (key.isDouble()) {
        keys.push_back(text_of(key.toDouble()));
      } else {
        return other(output, value.type()->annotation_str() + ", whose keys are no texts and no numbers");
      }
      values.push_back(entry.value());
    }
    output.kind = CARTON_OUTPUT_DICT;
    keep_texts(keys, output);
    read_elements(values, output, level);
  }

  carton_result& result_;
};

std::vector<c10::IValue> arguments_of(const carton_module& module, const carton_value* values, size_t n_values, bool copy) {
  const auto& formals = module.module.get_method("forward").function().getSchema().arguments();
  TORCH_CHECK(n_values + 1 == formals.size(), "forward takes ", formals.size() - 1, " arguments, not ", n_values);
  std::vector<c10::IValue> arguments;
  arguments.reserve(n_values);
  for (size_t i = 0; i < n_values; ++i) {
    const auto& formal = formals[i + 1];
    if (values[i].kind == CARTON_VALUE_DEFAULT && formal.default_value()) {
      arguments.push_back(*formal.default_value());
    } else {
      arguments.push_back(ivalue_of(values[i], *formal.type(), module.device, copy));
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

carton_error* carton_run(const carton_module* module, const carton_value* values, size_t n_values, bool copy,
                         carton_result** result) {
  return carton::guarded([&] {
    carton::initialise_this_thread();
    const c10::NoGradGuard no_gradients;
    auto made = std::make_unique<carton_result>();
    auto arguments = carton::arguments_of(*module, values, n_values, copy);
    const c10::IValue returned = module->module.get_method("forward")(std::move(arguments));
    made->output = carton::Reader(*made).read(returned);
    *result = made.release();
  });
}

const carton_output* carton_output_of(const carton_result* result) { return &result->output; }

void carton_result_free(carton_result* result) {
  carton_error* error = carton::guarded([&] { delete result; });
  if (error) {
    carton_error_free(error);
  }
}

carton_error* carton_copy_output(const carton_output* output, void* target, size_t n_bytes) {
  return carton::guarded([&] {
    at::Tensor source = *static_cast<const at::Tensor*>(output->tensor);
    auto type = carton::scalar_type_of(output->dtype);
    // Models can make booleans of any bytes, `x.view(torch.bool)`. Those but 0 are true.
    const bool is_boolean = type == at::kBool;
    if (is_boolean) {
      type = at::kByte;
      source = source.view(type);
    }
    const auto normalise = [&] {
      if (is_boolean) {
        auto* bytes = static_cast<uint8_t*>(target);
        std::transform(bytes, bytes + n_bytes, bytes, [](uint8_t byte) -> uint8_t { return byte != 0; });
      }
    };
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
      return normalise();
    }
    const c10::NoGradGuard no_gradients;
    at::from_blob(target, source.sizes(), type).copy_(source);
    normalise();
  });
}
