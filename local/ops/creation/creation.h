// NumPy's array creation. Names, parameters and defaults are NumPy 2's; `like` and subclasses do not exist here.
//
// Arrays are made on `device`, else on that of their arguments, else on the current one, by one kernel. None waits for
// its result unless it says so. All throw InvalidArgument for negative extents and values out of range, OutOfMemory.
#pragma once

#include <tuple>

#include "quarry/local/ops/arguments.h"

namespace quarry::local::ops {

// copy: true always copies, none only where dtype, order or device ask for it, false throws InvalidArgument there.
// `ndmin` puts axes of one element in front.
NdArray array(const NdArray& object, std::optional<DType> dtype = std::nullopt, std::optional<bool> copy = true,
              std::string_view order = "K", bool subok = false, int64_t ndmin = 0);
NdArray asarray(const NdArray& a, std::optional<DType> dtype = std::nullopt,
                std::optional<std::string_view> order = std::nullopt, std::optional<Device> device = std::nullopt,
                std::optional<bool> copy = std::nullopt);

NdArray empty(const Ints& shape, std::optional<DType> dtype = std::nullopt, std::string_view order = "C",
              std::optional<Device> device = std::nullopt);
NdArray zeros(const Ints& shape, std::optional<DType> dtype = std::nullopt, std::string_view order = "C",
              std::optional<Device> device = std::nullopt);
NdArray ones(const Ints& shape, std::optional<DType> dtype = std::nullopt, std::string_view order = "C",
             std::optional<Device> device = std::nullopt);
// An array broadcasts to the shape. Without a dtype the value decides it.
NdArray full(const Ints& shape, const Arg& fill_value, std::optional<DType> dtype = std::nullopt,
             std::string_view order = "C", std::optional<Device> device = std::nullopt);
NdArray empty_like(const NdArray& prototype, std::optional<DType> dtype = std::nullopt, std::string_view order = "K",
                   bool subok = true, const std::optional<Ints>& shape = std::nullopt,
                   std::optional<Device> device = std::nullopt);
NdArray zeros_like(const NdArray& a, std::optional<DType> dtype = std::nullopt, std::string_view order = "K",
                   bool subok = true, const std::optional<Ints>& shape = std::nullopt,
                   std::optional<Device> device = std::nullopt);
NdArray ones_like(const NdArray& a, std::optional<DType> dtype = std::nullopt, std::string_view order = "K",
                  bool subok = true, const std::optional<Ints>& shape = std::nullopt,
                  std::optional<Device> device = std::nullopt);
NdArray full_like(const NdArray& a, const Arg& fill_value, std::optional<DType> dtype = std::nullopt,
                  std::string_view order = "K", bool subok = true, const std::optional<Ints>& shape = std::nullopt,
                  std::optional<Device> device = std::nullopt);

// start + i step for i below ceil((stop - start) / step), a number of floating point steps that may include `stop`;
// one number alone is `stop`. Without a dtype the numbers' own dtypes are promoted with int64.
NdArray arange(const Scalar& start_or_stop, const std::optional<Scalar>& stop = std::nullopt, const Scalar& step = 1,
               std::optional<DType> dtype = std::nullopt, std::optional<Device> device = std::nullopt);
// `num` samples from start to stop, along a new axis where they are arrays (which blocks). `retstep` also gives the
// distance.
std::variant<NdArray, std::pair<NdArray, NdArray>> linspace(const Arg& start, const Arg& stop, int64_t num = 50,
                                                            bool endpoint = true, bool retstep = false,
                                                            std::optional<DType> dtype = std::nullopt, int64_t axis = 0,
                                                            std::optional<Device> device = std::nullopt);
// base ** linspace(start, stop).
NdArray logspace(const Arg& start, const Arg& stop, int64_t num = 50, bool endpoint = true, const Arg& base = 10.0,
                 std::optional<DType> dtype = std::nullopt, int64_t axis = 0);
// A geometric progression; start and stop may be negative or complex, but not zero (blocks to see that).
NdArray geomspace(const Arg& start, const Arg& stop, int64_t num = 50, bool endpoint = true,
                  std::optional<DType> dtype = std::nullopt, int64_t axis = 0);
NdArray eye(int64_t N, std::optional<int64_t> M = std::nullopt, int64_t k = 0,
            std::optional<DType> dtype = std::nullopt, std::string_view order = "C",
            std::optional<Device> device = std::nullopt);
NdArray identity(int64_t n, std::optional<DType> dtype = std::nullopt);
// function(i, j, ...) of the coordinates, each an array of that shape.
NdArray fromfunction(const ArrayFunction& function, const Ints& shape, std::optional<DType> dtype = std::nullopt);
// Coordinate arrays of the vectors xi. Views, unless `copy`.
std::vector<NdArray> meshgrid(const std::vector<NdArray>& xi, bool copy = true, bool sparse = false,
                              std::string_view indexing = "xy");
// Powers of x in columns, the highest first unless `increasing`.
NdArray vander(const NdArray& x, std::optional<int64_t> N = std::nullopt, bool increasing = false);
// The array as its producer's DLPack export gives it: it shares the memory unless `copy` or another device is asked
// for.
NdArray from_dlpack(const NdArray& x, std::optional<Device> device = std::nullopt,
                    std::optional<bool> copy = std::nullopt);

}  // namespace quarry::local::ops
