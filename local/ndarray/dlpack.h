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

// The keywords of Python's __dlpack__().
struct DLPackExport {
  // The consumer's stream, which waits for what is queued on the array; the host does not. As the protocol numbers
  // them: 1 CUDA's legacy default stream, 2 the per-thread one, larger numbers are cudaStream_t, -1 asks for no
  // waiting. None: the host waits, so that the consumer may use any stream. Not for the CPU.
  std::optional<intptr_t> stream = std::nullopt;
  std::optional<bool> copy = std::nullopt;                   // true: always, false: never; none: only to another device
  std::optional<dlpack::DLDevice> dl_device = std::nullopt;  // where the tensor has to be
};

// The array for a consumer, who calls its deleter once; the memory lives until then, and work that the consumer still
// has queued then is not waited for. A read-only array gives a tensor that says so. Throws NotSupported for arrays of
// an emulated device, and for a read-only array where the tensor cannot say so; InvalidArgument where a stride is no
// multiple of the element size, for stream 0 and any stream on the CPU, and for another device without a copy;
// DeviceError for a device that cannot be used here.
dlpack::DLManagedTensorVersioned* to_dlpack(const NdArray& array, const DLPackExport& options = {});
dlpack::DLManagedTensor* to_dlpack_unversioned(const NdArray& array, const DLPackExport& options = {});

struct DLPackImport {
  // The producer's stream, numbered as in DLPackExport, which lives as long as the memory: the first work on the array
  // waits for what is queued there, and that stream for the last. -1: nothing is queued. None: what the producer has
  // queued is done, or ordered before the current context's stream, as by __dlpack__(stream=...).
  std::optional<intptr_t> stream = std::nullopt;
};

// An array over a producer's memory, read-only if the tensor is. Its deleter is called when the last array over it is
// gone, and at once if this throws. With a `stream` that does not block, else the last array waits on the host for the
// work that uses it. Throws InvalidArgument for a null pointer, another major version, a bad shape, and for a tensor
// whose memory an array has already (whose deleter then is not called); TypeError for an element type that quarry has
// not; DeviceError for a device that cannot be used here.
NdArray from_dlpack(dlpack::DLManagedTensorVersioned* tensor, const DLPackImport& options = {});
NdArray from_dlpack(dlpack::DLManagedTensor* tensor, const DLPackImport& options = {});

// The fields of __cuda_array_interface__, version 3.
struct CudaArrayInterface {
  Dims shape;
  std::string typestr;  // "<f4"
  void* data = nullptr;
  bool read_only = false;
  std::optional<Dims> strides;  // bytes; none: C order
  int version = 3;
  uintptr_t stream = 0;  // that the consumer must wait for, numbered as in DLPackExport; 0: nothing is queued
};
// Does not wait: work may be queued on `stream`. Throws InvalidArgument unless the array is on a CUDA device, TypeError
// for bfloat16, which has no typestr.
CudaArrayInterface cuda_array_interface(const NdArray& array);
// An array over a producer's device memory of `device`; `release` is called when it is no longer used, as from_dlpack()
// calls the deleter. Throws as that.
NdArray from_cuda_array_interface(const CudaArrayInterface& fields, Device device, std::function<void()> release);

}  // namespace quarry::local
