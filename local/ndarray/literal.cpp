#include "quarry/local/ndarray/literal.h"

#include <cstddef>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ndarray/ndarray.h"

namespace quarry::local {

Dims ArrayLiteral::shape() const {
  Dims shape;
  if (!is_list_) return shape;
  shape.push_back(static_cast<int64_t>(list_.size()));
  if (list_.empty()) return shape;
  const Dims inner = list_.front().shape();
  for (const ArrayLiteral& entry : list_)
    if (entry.shape() != inner)
      throw InvalidArgument("the lists of an array differ in length: " + to_string(inner) + " beside " +
                            to_string(entry.shape()));
  for (int64_t extent : inner) shape.push_back(extent);
  return shape;
}

void ArrayLiteral::collect(std::vector<const Scalar*>& numbers) const {
  if (!is_list_) numbers.push_back(&number_);
  for (const ArrayLiteral& entry : list_) entry.collect(numbers);
}

DType ArrayLiteral::dtype() const {
  std::vector<const Scalar*> numbers;
  collect(numbers);
  if (numbers.empty()) return DType::float64;
  std::vector<PromotionOperand> operands;
  for (const Scalar* number : numbers) operands.push_back({number->dtype(), false});
  return result_type(operands);
}

void ArrayLiteral::store(DType dtype, std::byte* out) const {
  std::vector<const Scalar*> numbers;
  collect(numbers);
  for (const Scalar* number : numbers) {
    number->store(dtype, out);
    out += itemsize(dtype);
  }
}

NdArray::NdArray(std::initializer_list<ArrayLiteral> list) {
  const ArrayLiteral literal(list);
  const Dims shape = literal.shape();
  const DType dtype = literal.dtype();
  std::vector<std::byte> bytes(static_cast<size_t>(element_count(shape) * local::itemsize(dtype)));
  literal.store(dtype, bytes.data());
  *this = from_bytes(bytes.data(), dtype, shape);
}

}  // namespace quarry::local
