// Helpers of the io tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "quarry/io/dataset.h"
#include "quarry/local/base/detail.h"
#include "tests/support/hdf5_file.h"
#include "tests/support/temp_dir.h"

namespace quarry::io {

using local::Dims;
using local::DType;
using local::Region;
using Bytes = std::vector<std::byte>;

inline void swap_elements(Bytes& bytes, DType dtype) {
  const auto item = static_cast<size_t>(local::itemsize(local::real_type(dtype)));
  for (size_t at = 0; at + item <= bytes.size(); at += item)
    std::reverse(bytes.begin() + at, bytes.begin() + at + item);
}

// Little-endian C-contiguous elements through read().
inline Bytes read_region(const Dataset& dataset, const Region& region) {
  const int64_t item = local::itemsize(dataset.info().dtype);
  Bytes out(static_cast<size_t>(region.elements() * item), std::byte{0xcd});
  Bytes scratch(static_cast<size_t>(dataset.read_scratch_bytes(region)));
  dataset.read(region, out.data(), scratch);
  if (dataset.info().swapped) swap_elements(out, dataset.info().dtype);
  return out;
}

// The same through visit(); checks that every element comes exactly once.
inline Bytes visit_region(const Dataset& dataset, const Region& region, int64_t* pieces = nullptr) {
  const int64_t item = local::itemsize(dataset.info().dtype);
  const Dims strides = local::contiguous_strides(region.count, item);
  Bytes out(static_cast<size_t>(region.elements() * item), std::byte{0xcd});
  std::vector<char> seen(static_cast<size_t>(region.elements()), 0);
  Bytes scratch(static_cast<size_t>(dataset.visit_scratch_bytes(region)));
  dataset.visit(region, scratch, [&](const Dataset::Piece& piece) {
    if (pieces) ++*pieces;
    const int ndim = region.ndim();
    Dims index = Dims::filled(ndim, 0);
    for (;;) {
      const std::byte* from = piece.data;
      int64_t to = 0;
      for (int d = 0; d < ndim; ++d) {
        ASSERT_GE(piece.start[d], 0);
        ASSERT_LE(piece.start[d] + piece.count[d], region.count[d]);
        from += index[d] * piece.strides[d];
        to += (piece.start[d] + index[d]) * strides[d];
      }
      std::memcpy(out.data() + to, from, static_cast<size_t>(item));
      ++seen[static_cast<size_t>(to / item)];
      int d = ndim - 1;
      for (; d >= 0; --d) {
        if (++index[d] < piece.count[d]) break;
        index[d] = 0;
      }
      if (d < 0) break;
    }
  });
  for (char count : seen) EXPECT_EQ(count, 1);
  if (dataset.info().swapped) swap_elements(out, dataset.info().dtype);
  return out;
}

// What the region holds of an array in memory.
inline Bytes pick(const Bytes& array, const Dims& shape, int64_t item, const Region& region) {
  const Dims strides = local::contiguous_strides(shape, item);
  Bytes out;
  out.reserve(static_cast<size_t>(region.elements() * item));
  if (region.elements() == 0) return out;
  Dims index = Dims::filled(shape.size(), 0);
  for (;;) {
    int64_t at = 0;
    for (int d = 0; d < shape.size(); ++d) at += (region.start[d] + index[d] * region.step[d]) * strides[d];
    out.insert(out.end(), array.begin() + at, array.begin() + at + item);
    int d = shape.size() - 1;
    for (; d >= 0; --d) {
      if (++index[d] < region.count[d]) break;
      index[d] = 0;
    }
    if (d < 0) return out;
  }
}

// Everything of a data set by H5Dread in the file's own type.
inline Bytes library_read(const std::string& file, const std::string& object) {
  const hid_t id = test::h5(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const hid_t dataset = test::h5(H5Dopen2(id, object.c_str(), H5P_DEFAULT));
  const hid_t type = test::h5(H5Dget_type(dataset)), space = test::h5(H5Dget_space(dataset));
  Bytes out(static_cast<size_t>(H5Sget_simple_extent_npoints(space)) * H5Tget_size(type));
  test::h5(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out.data()));
  H5Tclose(type);
  H5Sclose(space);
  H5Dclose(dataset);
  H5Fclose(id);
  return out;
}

inline Bytes random_bytes(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes out(count);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random());
  return out;
}

// A region inside `shape`, often strided, backwards or empty.
inline Region random_region(const Dims& shape, std::mt19937& random) {
  Region region = Region::whole(shape);
  for (int d = 0; d < shape.size(); ++d) {
    const auto pick_below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
    if (shape[d] == 0) continue;
    const int64_t style = pick_below(8);
    if (style == 0) continue;
    int64_t low = pick_below(shape[d]), high = low + pick_below(shape[d] - low);
    const int64_t step = style < 4 ? 1 : 1 + pick_below(std::min<int64_t>(shape[d], 9));
    const int64_t count = (high - low) / step + 1;
    region.start[d] = low;
    region.step[d] = step;
    region.count[d] = count;
    if (style == 2 || style == 6) {
      region.start[d] = low + (count - 1) * step;
      region.step[d] = -step;
    }
    if (pick_below(40) == 0) region.count[d] = 0;
  }
  return region;
}

template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no exception";
  return "";
}

}  // namespace quarry::io
