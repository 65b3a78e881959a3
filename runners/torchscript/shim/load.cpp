// Loads a module from mapped memory and reads the schema of its forward.
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "error.h"
#include "module.h"

namespace carton {

carton_error out_of_memory{"out of memory"};

namespace {

// The bytes of an archive, from which libtorch copies each record into its tensor. The reader retains the owner of the
// bytes, so they live as long as libtorch keeps the reader.
class MappedArchive final : public caffe2::serialize::ReadAdapterInterface {
 public:
  MappedArchive(const uint8_t* bytes, size_t length, carton_owner owner) : bytes_(bytes), length_(length), owner_(owner) {
    owner_.retain(owner_.object);
  }
  MappedArchive(const MappedArchive&) = delete;
  MappedArchive& operator=(const MappedArchive&) = delete;
  ~MappedArchive() override { owner_.release(owner_.object); }

  size_t size() const override { return length_; }

  size_t read(uint64_t position, void* target, size_t n, const char* /*what*/ = "") const override {
    if (position >= length_) {
      return 0;
    }
    const size_t available = std::min(n, length_ - static_cast<size_t>(position));
    std::memcpy(target, bytes_ + position, available);
    return available;
  }

 private:
  const uint8_t* bytes_;
  size_t length_;
  carton_owner owner_;
};

// Writes types as JSON: the name of a type without parts, or a list of the name of the constructor and its parts. Types of named tuples
// may contain one another many times, so what is too large is "other".
class TypeWriter {
 public:
  std::string write(const c10::TypePtr& type) {
    text_.clear();
    n_types_ = 0;
    add(*type, 0);
    return n_types_ > max_types ? "\"other\"" : text_;
  }

 private:
  static constexpr size_t max_types = 1000;
  static constexpr size_t max_levels = 32;

  void add(const c10::Type& type, size_t level) {
    if (++n_types_ > max_types || level > max_levels) {
      n_types_ = max_types + 1;
      return;
    }
    switch (type.kind()) {
      case c10::TypeKind::TensorType:
        return word("tensor");
      case c10::TypeKind::AnyType:
        return word("any");
      case c10::TypeKind::StringType:
        return word("str");
      case c10::TypeKind::IntType:
        return word("int");
      case c10::TypeKind::FloatType:
        return word("float");
      case c10::TypeKind::BoolType:
        return word("bool");
      case c10::TypeKind::ComplexType:
        return word("complex");
      case c10::TypeKind::OptionalType:
        return constructor("optional", {type.expectRef<c10::OptionalType>().getElementType()}, level);
      case c10::TypeKind::ListType:
        return constructor("list", {type.expectRef<c10::ListType>().getElementType()}, level);
      case c10::TypeKind::DictType: {
        const auto& dictionary = type.expectRef<c10::DictType>();
        return constructor("dict", {dictionary.getKeyType(), dictionary.getValueType()}, level);
      }
      case c10::TypeKind::TupleType:
        return tuple(type.expectRef<c10::TupleType>(), level);
      default:
        return word("other");
    }
  }

  void word(const std::string& text) {
    text_ += '"';
    for (const char c : text) {
      if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ') {
        text_ += '?';
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }

  void constructor(const char* name, const std::vector<c10::TypePtr>& parts, size_t level) {
    text_ += '[';
    word(name);
    for (const c10::TypePtr& part : parts) {
      text_ += ',';
      add(*part, level + 1);
    }
    text_ += ']';
  }

  void tuple(const c10::TupleType& type, size_t level) {
    const auto& elements = type.elements();
    const auto& schema = type.schema();
    if (!schema || schema->arguments().size() != elements.size()) {
      return constructor("tuple", elements.vec(), level);
    }
    text_ += "[\"named\"";
    for (size_t i = 0; i < elements.size(); ++i) {
      text_ += ",[";
      word(schema->arguments()[i].name());
      text_ += ',';
      add(*elements[i], level + 1);
      text_ += ']';
    }
    text_ += ']';
  }

  std::string text_;
  size_t n_types_ = 0;
};

carton_text text_of(const std::string& text) { return carton_text{text.data(), text.size()}; }

void read_arguments(carton_module& loaded) {
  const auto& schema = loaded.module.get_method("forward").function().getSchema();
  const auto& formals = schema.arguments();
  // Reserved, so that the texts do not move.
  loaded.texts.reserve(3 * formals.size());
  const auto keep = [&](std::string text) {
    loaded.texts.push_back(std::move(text));
    return text_of(loaded.texts.back());
  };
  for (size_t i = 1; i < formals.size(); ++i) {
    const auto& formal = formals[i];
    carton_argument argument{};
    argument.name = keep(formal.name());
    argument.type = keep(formal.type()->annotation_str());
    argument.structure = keep(TypeWriter().write(formal.type()));
    argument.has_default = formal.default_value().has_value();
    loaded.arguments.push_back(argument);
  }
}

}  // namespace
}  // namespace carton

carton_text carton_error_text(const carton_error* error) { return carton_text{error->text.data(), error->text.size()}; }

void carton_error_free(carton_error* error) {
  if (error != &carton::out_of_memory) {
    delete error;
  }
}

carton_error* carton_load(const uint8_t* bytes, size_t length, carton_owner owner, int32_t cuda, carton_module** module) {
  return carton::guarded([&] {
    const auto archive = std::make_shared<carton::MappedArchive>(bytes, length, owner);
    const c10::Device device =
        cuda < 0 ? c10::Device(c10::kCPU) : c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(cuda));
    // The device is always passed, so that tensors that were saved on a GPU are loaded to the CPU if there is no GPU.
    auto loaded = std::make_unique<carton_module>(carton_module{torch::jit::load(archive, device), device, {}, {}});
    if (!loaded->module.find_method("forward")) {
      throw std::runtime_error("the module has no method forward");
    }
    carton::read_arguments(*loaded);
    *module = loaded.release();
  });
}

void carton_module_free(carton_module* module) {
  carton_error* error = carton::guarded([&] { delete module; });
  if (error) {
    carton_error_free(error);
  }
}

size_t carton_arguments(const carton_module* module, const carton_argument** arguments) {
  *arguments = module->arguments.data();
  return module->arguments.size();
}
