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

bool is_list_of(const c10::TypePtr& type, c10::TypeKind element) {
  const auto list = type->cast<c10::ListType>();
  return list && list->getElementType()->kind() == element;
}

carton_kind kind_of(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return CARTON_TENSOR;
    case c10::TypeKind::AnyType:
      return CARTON_ANY;
    case c10::TypeKind::StringType:
      return CARTON_STRING;
    case c10::TypeKind::IntType:
      return CARTON_INT;
    case c10::TypeKind::FloatType:
      return CARTON_FLOAT;
    case c10::TypeKind::BoolType:
      return CARTON_BOOL;
    case c10::TypeKind::ListType:
      if (is_list_of(type, c10::TypeKind::StringType)) {
        return CARTON_STRING_LIST;
      }
      return is_list_of(type, c10::TypeKind::TensorType) ? CARTON_TENSOR_LIST : CARTON_OTHER;
    case c10::TypeKind::DictType:
      return type->expectRef<c10::DictType>().getKeyType()->kind() == c10::TypeKind::StringType ? CARTON_DICT
                                                                                               : CARTON_OTHER;
    default:
      return CARTON_OTHER;
  }
}

carton_text text_of(const std::string& text) { return carton_text{text.data(), text.size()}; }

void read_arguments(carton_module& loaded) {
  const auto& schema = loaded.module.get_method("forward").function().getSchema();
  const auto& formals = schema.arguments();
  // Reserved, so that the texts do not move.
  loaded.texts.reserve(2 * formals.size());
  for (size_t i = 1; i < formals.size(); ++i) {
    const auto& formal = formals[i];
    c10::TypePtr type = formal.type();
    carton_argument argument{};
    loaded.texts.push_back(formal.name());
    argument.name = text_of(loaded.texts.back());
    loaded.texts.push_back(type->annotation_str());
    argument.type = text_of(loaded.texts.back());
    argument.has_default = formal.default_value().has_value();
    if (const auto optional = type->cast<c10::OptionalType>()) {
      argument.optional = true;
      type = optional->getElementType();
    }
    argument.kind = kind_of(type);
    argument.element = CARTON_OTHER;
    if (argument.kind == CARTON_DICT) {
      const auto value = type->expectRef<c10::DictType>().getValueType();
      argument.element = kind_of(value);
      if (i == 1) {
        loaded.dictionary_value = value;
      }
    }
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
    auto loaded = std::make_unique<carton_module>(carton_module{torch::jit::load(archive, device), device, {}, {}, nullptr});
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
