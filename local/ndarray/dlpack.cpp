#include "quarry/local/ndarray/dlpack.h"

#include <fmt/format.h>

#include <memory>

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

void wait_for_work(const NdArray& array) {
  if (array.device().kind == DeviceKind::cpu) return;
  const ExecContext context = context_for(array.device());
  array.buffer()->use(context.stream);
  context.stream->synchronize();
}

// What a tensor that we hand out refers to.
template <class Managed>
struct Export {
  NdArray array;
  Dims shape, strides;
  Managed managed;
};

template <class Managed>
Managed* make_export(const NdArray& array) {
  if (array.device().kind == DeviceKind::emulated) {
    throw NotSupported(
        fmt::format("DLPack has no name for memory of {}: copy the array to the cpu first", to_string(array.device())));
  }
  array.raw();
  auto owner = std::make_unique<Export<Managed>>();
  owner->array = array;
  owner->shape = array.shape();
  owner->strides = array.strides();
  for (int64_t& stride : owner->strides) {
    if (stride % array.itemsize() != 0) {
      throw InvalidArgument(
          fmt::format("DLPack counts strides in elements: {} bytes are no multiple of {}", stride, array.itemsize()));
    }
    stride /= array.itemsize();
  }
  wait_for_work(array);
  Managed& managed = owner->managed;
  managed = {};
  managed.manager = owner.get();
  managed.deleter = [](Managed* self) { delete static_cast<Export<Managed>*>(self->manager); };
  managed.tensor = {array.raw(),
                    {array.device().kind == DeviceKind::cpu ? DeviceType::cpu : DeviceType::cuda, array.device().index},
                    array.ndim(),
                    {code_of(array.dtype()), static_cast<uint8_t>(array.itemsize() * 8), 1},
                    owner->shape.data(),
                    owner->strides.data(),
                    0};
  return &owner.release()->managed;
}

// An array of elements at `data` over memory that is not ours.
NdArray adopt(void* data, DType dtype, const Dims& shape, const std::optional<Dims>& strides_bytes, Device device,
              std::function<void()> release) {
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
  if (device.kind != DeviceKind::cpu) {
    // The producer may use the memory again at once, but kernels that use it may still be queued.
    release = [device, release = std::move(release)] {
      try {
        context_for(device).stream->synchronize();
      } catch (...) {  // the failure of work whose result nobody holds
      }
      release();
    };
  }
  auto buffer = std::make_shared<Buffer>(static_cast<char*>(data) + low, high - low, device, std::move(release));
  return NdArray(std::move(buffer), dtype, shape, strides, -low);
}

template <class Managed>
NdArray import(Managed* managed) {
  if (managed == nullptr) throw InvalidArgument("from_dlpack: the tensor is a null pointer");
  const auto release = [managed] {
    if (managed->deleter) managed->deleter(managed);
  };
  try {
    if constexpr (requires { managed->version; }) {
      if (managed->version.major != dlpack::kMajorVersion) {
        throw InvalidArgument(fmt::format("DLPack version {}.{}: version {} is understood", managed->version.major,
                                          managed->version.minor, dlpack::kMajorVersion));
      }
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
    return adopt(static_cast<char*>(tensor.data) + tensor.byte_offset, dtype, shape, strides, device_of(tensor.device),
                 release);
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

dlpack::DLManagedTensorVersioned* to_dlpack(const NdArray& array) {
  auto* managed = make_export<dlpack::DLManagedTensorVersioned>(array);
  managed->version = {dlpack::kMajorVersion, dlpack::kMinorVersion};
  return managed;
}

dlpack::DLManagedTensor* to_dlpack_unversioned(const NdArray& array) {
  return make_export<dlpack::DLManagedTensor>(array);
}

NdArray from_dlpack(dlpack::DLManagedTensorVersioned* tensor) { return import(tensor); }
NdArray from_dlpack(dlpack::DLManagedTensor* tensor) { return import(tensor); }

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
  array.buffer()->use(context.stream);
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
    return adopt(fields.data, *dtype, fields.shape, fields.strides, device, [released] {
      if (*released) (*released)();
    });
  } catch (...) {
    if (*released) (*released)();
    throw;
  }
}

}  // namespace quarry::local
