#include "quarry/local/ndarray/dlpack.h"

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <unordered_set>

#include "quarry/local/memory/buffer.h"
#include "quarry/local/ndarray/launch.h"

namespace quarry::local {
namespace {

using dlpack::DeviceType;
using dlpack::TypeCode;

TypeCode code_of(DType dtype) {
  if (dtype == DType::bool_) return TypeCode::boolean;
  if (dtype == DType::bfloat16) return TypeCode::bfloat;
  if (is_complex(dtype)) return TypeCode::complex;
  if (is_float(dtype)) return TypeCode::floating;
  return kind(dtype) == 'u' ? TypeCode::unsigned_integer : TypeCode::integer;
}

DType dtype_of_code(const dlpack::DLDataType& type) {
  if (type.lanes == 1) {
    for (int i = 0; i < kDTypeCount; ++i) {
      const auto dtype = static_cast<DType>(i);
      if (code_of(dtype) == type.code && itemsize(dtype) * 8 == type.bits) return dtype;
    }
  }
  throw TypeError(fmt::format("DLPack: no dtype for type code {} of {} bits and {} lanes", static_cast<int>(type.code),
                              type.bits, type.lanes));
}

Device device_of(const dlpack::DLDevice& device) {
  switch (device.type) {
    case DeviceType::cpu:
    case DeviceType::cuda_host:
      return kCpu;
    case DeviceType::cuda:
    case DeviceType::cuda_managed: {
      const Device result{DeviceKind::cuda, device.index};
      default_context(result);  // throws where it cannot be used
      return result;
    }
  }
  throw DeviceError(fmt::format("DLPack: memory of device type {} cannot be used", static_cast<int>(device.type)));
}

constexpr intptr_t kNoStream = -1;  // nobody waits

// The stream that the protocol numbers so; null for kNoStream.
std::shared_ptr<DeviceStream> numbered_stream(Device device, intptr_t number) {
  if (device.kind == DeviceKind::cpu)
    throw InvalidArgument(fmt::format("DLPack: memory of the cpu has no stream; {} was given", number));
  if (number == 0) throw InvalidArgument("DLPack: stream 0 is ambiguous; the default streams are 1 and 2");
  if (number == kNoStream) return nullptr;
  return backend(device.kind).wrap_stream(device.index, reinterpret_cast<void*>(number));  // 1 and 2 are CUDA's own
}

void order_before_consumer(const NdArray& array, const std::optional<intptr_t>& stream) {
  if (!stream) return array.buffer()->synchronize();
  if (const auto consumer = numbered_stream(array.device(), *stream)) array.buffer()->order_before(*consumer);
}

// What a tensor that we hand out refers to.
template <class Managed>
struct Export {
  NdArray array;
  Dims shape, strides;
  Managed managed;
};

template <class Managed>
Managed* make_export(const NdArray& given, const DLPackExport& options) {
  if (given.device().kind == DeviceKind::emulated || given.device().kind == DeviceKind::trial) {
    throw NotSupported(
        fmt::format("DLPack has no name for memory of {}: copy the array to the cpu first", to_string(given.device())));
  }
  given.raw();
  const Device device = options.dl_device ? device_of(*options.dl_device) : given.device();
  const bool copied = options.copy.value_or(device != given.device());
  if (device != given.device() && !copied) {
    throw InvalidArgument(fmt::format("DLPack: the array is on {}; without a copy it cannot be on {}",
                                      to_string(given.device()), to_string(device)));
  }
  auto owner = std::make_unique<Export<Managed>>();
  owner->array = device != given.device() ? given.to(device) : copied ? given.copy(context_for(device)) : given;
  const NdArray& array = owner->array;
  constexpr bool kSaysMore = requires(Managed managed) { managed.flags; };
  if (!kSaysMore && !array.writeable()) {
    throw NotSupported(
        "a tensor of DLPack before version 1 cannot say that its memory is read-only: export a copy, or to_dlpack()");
  }
  owner->shape = array.shape();
  owner->strides = array.strides();
  for (int64_t& stride : owner->strides) {
    if (stride % array.itemsize() != 0) {
      throw InvalidArgument(
          fmt::format("DLPack counts strides in elements: {} bytes are no multiple of {}", stride, array.itemsize()));
    }
    stride /= array.itemsize();
  }
  order_before_consumer(array, options.stream);
  Managed& managed = owner->managed;
  managed = {};
  managed.manager = owner.get();
  managed.deleter = [](Managed* self) { delete static_cast<Export<Managed>*>(self->manager); };
  if constexpr (kSaysMore) {
    managed.version = {dlpack::kMajorVersion, dlpack::kMinorVersion};
    managed.flags = (array.writeable() ? 0 : dlpack::kReadOnly) | (copied ? dlpack::kIsCopied : 0);
  }
  managed.tensor = {array.raw(),
                    {array.device().kind == DeviceKind::cpu ? DeviceType::cpu : DeviceType::cuda, array.device().index},
                    array.ndim(),
                    {code_of(array.dtype()), static_cast<uint8_t>(array.itemsize() * 8), 1},
                    owner->shape.data(),
                    owner->strides.data(),
                    0};
  return &owner.release()->managed;
}

// Memory that is not ours, and how it is to be used.
struct Foreign {
  Device device;
  std::optional<intptr_t> stream;  // the producer's
  bool read_only = false;
  std::function<void()> release;
};

// An array of elements at `data` over such memory.
NdArray adopt(void* data, DType dtype, const Dims& shape, const std::optional<Dims>& strides_bytes, Foreign memory) {
  for (int64_t extent : shape)
    if (extent < 0) throw InvalidArgument("negative dimensions are not allowed: " + to_string(shape));
  const int64_t count = element_count(shape);
  const Dims strides = strides_bytes.value_or(contiguous_strides(shape, itemsize(dtype)));
  if (data == nullptr && count > 0) throw InvalidArgument("a tensor with elements has no address");
  int64_t low = 0, high = count > 0 ? itemsize(dtype) : 0;
  for (int d = 0; d < shape.size() && count > 0; ++d) {
    int64_t reach = 0;
    int64_t* end = nullptr;
    if (!__builtin_mul_overflow(shape[d] - 1, strides[d], &reach)) end = reach < 0 ? &low : &high;
    if (end == nullptr || __builtin_add_overflow(*end, reach, end)) {
      throw InvalidArgument(fmt::format("strides {} of shape {} reach too far", to_string(strides), to_string(shape)));
    }
  }
  std::shared_ptr<DeviceStream> producer;
  if (memory.stream) producer = numbered_stream(memory.device, *memory.stream);
  DeviceStream* const first = memory.stream ? producer.get() : context_for(memory.device).stream;
  auto buffer = std::make_shared<Buffer>(static_cast<char*>(data) + low, high - low, memory.device,
                                         std::move(memory.release), first, producer);
  if (memory.read_only) buffer->set_read_only();
  return NdArray(std::move(buffer), dtype, shape, strides, -low);
}

// The tensors that arrays refer to now.
class Imports {
 public:
  // False where it is among them already.
  bool add(const void* tensor) {
    const std::lock_guard lock(mutex_);
    return tensors_.insert(tensor).second;
  }
  void remove(const void* tensor) {
    const std::lock_guard lock(mutex_);
    tensors_.erase(tensor);
  }
  static Imports& instance() {
    static Imports& imports = *new Imports;  // arrays of static lifetime go late
    return imports;
  }

 private:
  std::mutex mutex_;
  std::unordered_set<const void*> tensors_;
};

template <class Managed>
NdArray import(Managed* managed, const DLPackImport& options) {
  if (managed == nullptr) throw InvalidArgument("from_dlpack: the tensor is a null pointer");
  if (!Imports::instance().add(managed)) {
    throw InvalidArgument(
        "from_dlpack: the tensor was imported before, and an array has its memory: a tensor is consumed once");
  }
  const auto release = [managed] {
    Imports::instance().remove(managed);
    if (managed->deleter) managed->deleter(managed);
  };
  try {
    bool read_only = false;
    if constexpr (requires { managed->version; }) {
      if (managed->version.major != dlpack::kMajorVersion) {
        throw InvalidArgument(fmt::format("DLPack version {}.{}: version {} is understood", managed->version.major,
                                          managed->version.minor, dlpack::kMajorVersion));
      }
      read_only = (managed->flags & dlpack::kReadOnly) != 0;
    }
    const dlpack::DLTensor& tensor = managed->tensor;
    if (tensor.ndim < 0 || tensor.ndim > kMaxDims || (tensor.ndim > 0 && tensor.shape == nullptr))
      throw InvalidArgument(fmt::format("DLPack: {} dimensions; at most {} are possible", tensor.ndim, kMaxDims));
    const DType dtype = dtype_of_code(tensor.dtype);
    const Dims shape(tensor.shape, tensor.shape + tensor.ndim);
    std::optional<Dims> strides;
    if (tensor.strides) {
      strides.emplace(tensor.strides, tensor.strides + tensor.ndim);
      for (int64_t& stride : *strides)
        if (__builtin_mul_overflow(stride, itemsize(dtype), &stride))
          throw InvalidArgument("DLPack: a stride is too long");
    }
    return adopt(static_cast<char*>(tensor.data) + tensor.byte_offset, dtype, shape, strides,
                 {device_of(tensor.device), options.stream, read_only, release});
  } catch (...) {
    release();
    throw;
  }
}

std::string typestr(DType dtype) {
  if (dtype == DType::bfloat16) throw TypeError("bfloat16 has no typestr in the CUDA array interface");
  return fmt::format("{}{}{}", itemsize(dtype) == 1 ? '|' : '<', kind(dtype), itemsize(dtype));
}

}  // namespace

dlpack::DLManagedTensorVersioned* to_dlpack(const NdArray& array, const DLPackExport& options) {
  return make_export<dlpack::DLManagedTensorVersioned>(array, options);
}

dlpack::DLManagedTensor* to_dlpack_unversioned(const NdArray& array, const DLPackExport& options) {
  return make_export<dlpack::DLManagedTensor>(array, options);
}

NdArray from_dlpack(dlpack::DLManagedTensorVersioned* tensor, const DLPackImport& options) {
  return import(tensor, options);
}
NdArray from_dlpack(dlpack::DLManagedTensor* tensor, const DLPackImport& options) { return import(tensor, options); }

CudaArrayInterface cuda_array_interface(const NdArray& array) {
  if (array.device().kind != DeviceKind::cuda) {
    throw InvalidArgument(fmt::format("the CUDA array interface is for arrays of CUDA devices; this one is on {}",
                                      to_string(array.device())));
  }
  CudaArrayInterface fields;
  fields.shape = array.shape();
  fields.typestr = typestr(array.dtype());
  fields.data = array.size() > 0 ? array.raw() : nullptr;
  if (!array.is_contiguous()) fields.strides = array.strides();
  const ExecContext context = context_for(array.device());
  // The consumer may write to what is writeable.
  array.writeable() ? array.begin_write(context.stream) : array.begin_read(context.stream);
  fields.read_only = !array.writeable();
  fields.stream = reinterpret_cast<uintptr_t>(context.stream->native());
  return fields;
}

NdArray from_cuda_array_interface(const CudaArrayInterface& fields, Device device, std::function<void()> release) {
  const auto released = std::make_shared<std::function<void()>>(std::move(release));
  try {
    const std::optional<DType> dtype = parse_dtype(fields.typestr);
    if (!dtype || fields.typestr.empty() || fields.typestr[0] == '>')
      throw TypeError(fmt::format("the CUDA array interface's typestr '{}' is no dtype", fields.typestr));
    if (fields.strides && fields.strides->size() != fields.shape.size())
      throw InvalidArgument("the CUDA array interface has as many strides as extents");
    default_context(device);  // throws where it cannot be used
    const auto stream = fields.stream != 0 ? std::optional(static_cast<intptr_t>(fields.stream)) : std::nullopt;
    return adopt(fields.data, *dtype, fields.shape, fields.strides, {device, stream, fields.read_only, [released] {
                                                                       if (*released) (*released)();
                                                                     }});
  } catch (...) {
    if (*released) (*released)();
    throw;
  }
}

}  // namespace quarry::local
