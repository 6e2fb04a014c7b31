// Exchange of arrays without copies: DLPack, and the fields of the CUDA array interface.
//
// The structs of namespace dlpack have the layout of the public DLPack ABI, so that a pointer to one of ours may be
// cast to one of dlpack.h and back.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "quarry/local/ndarray/ndarray.h"

namespace quarry::local {

namespace dlpack {

inline constexpr uint32_t kMajorVersion = 1, kMinorVersion = 0;

enum class DeviceType : int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };
enum class TypeCode : uint8_t {
  integer = 0,
  unsigned_integer = 1,
  floating = 2,
  opaque = 3,
  bfloat = 4,
  complex = 5,
  boolean = 6
};

struct DLDevice {
  DeviceType type;
  int32_t index;
};
struct DLDataType {
  TypeCode code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: C order
  uint64_t byte_offset;
};
// Before version 1.
struct DLManagedTensor {
  DLTensor tensor;
  void* manager;
  void (*deleter)(DLManagedTensor* self);
};
struct DLPackVersion {
  uint32_t major, minor;
};
inline constexpr uint64_t kReadOnly = 1, kIsCopied = 2;
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager;
  void (*deleter)(DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor tensor;
};

}  // namespace dlpack

// The array for a consumer, who calls its deleter once; the memory lives until then. Waits for what is queued on the
// array, so that the consumer may use it on any stream. Throws NotSupported for arrays of an emulated device,
// InvalidArgument where a stride is no multiple of the element size.
dlpack::DLManagedTensorVersioned* to_dlpack(const NdArray& array);
dlpack::DLManagedTensor* to_dlpack_unversioned(const NdArray& array);

// An array over a producer's memory; its deleter is called when the last array over it is gone (on a GPU after what the
// current stream has queued; wait for work on other streams before), and at once if this throws. What the producer has
// queued must be done, or be ordered before the current context's stream. A read-only tensor is not to be written to.
// Throws InvalidArgument for a null pointer, another major version, a bad shape; TypeError for an element type that
// quarry has not; DeviceError for a device that cannot be used here.
NdArray from_dlpack(dlpack::DLManagedTensorVersioned* tensor);
NdArray from_dlpack(dlpack::DLManagedTensor* tensor);

// The fields of __cuda_array_interface__, version 3.
struct CudaArrayInterface {
  Dims shape;
  std::string typestr;  // "<f4"
  void* data = nullptr;
  bool read_only = false;
  std::optional<Dims> strides;  // bytes; none: C order
  int version = 3;
  uintptr_t stream = 0;  // that the consumer must wait for; 0: nothing is queued
};
// Does not wait: work may be queued on `stream`. Throws InvalidArgument unless the array is on a CUDA device, TypeError
// for bfloat16, which has no typestr.
CudaArrayInterface cuda_array_interface(const NdArray& array);
// An array over a producer's device memory of `device`; `release` is called when it is no longer used. Throws as
// from_dlpack().
NdArray from_cuda_array_interface(const CudaArrayInterface& fields, Device device, std::function<void()> release);

}  // namespace quarry::local
