// Arrays made from nothing. Lazy; they take no storage: their elements are computed where they are used.
#pragma once

#include "quarry/chunked/api/array.h"

namespace quarry {

Array full(const Dims& shape, const Scalar& value, std::optional<DType> dtype = std::nullopt);
Array zeros(const Dims& shape, DType dtype = DType::float64);
Array ones(const Dims& shape, DType dtype = DType::float64);
Array empty(const Dims& shape, DType dtype = DType::float64);  // some value: 0

// start, start + step, ... below stop. Default dtype: that of the arguments. Throws InvalidArgument for step 0, NaN or
// more elements than 64 bits count.
Array arange(const Scalar& start, const Scalar& stop, const Scalar& step = 1,
             std::optional<DType> dtype = std::nullopt);
Array arange(const Scalar& stop);
// `num` evenly spaced values; the last is exactly `stop` with endpoint.
Array linspace(const Scalar& start, const Scalar& stop, int64_t num = 50, bool endpoint = true,
               std::optional<DType> dtype = std::nullopt);
// 1 where column - row == k.
Array eye(int64_t rows, std::optional<int64_t> columns = std::nullopt, int64_t k = 0, DType dtype = DType::float64);

}  // namespace quarry
