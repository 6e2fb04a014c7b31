// Small HDF5 files with something of everything, written by the HDF5 library: what mutants and fuzzers begin from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quarry/io/hdf5/parse/chunk_index.h"
#include "quarry/io/hdf5/parse/object_header.h"
#include "quarry/local/base/detail.h"
#include "tests/fuzz/mutants.h"
#include "tests/support/hdf5_file.h"

namespace quarry::test {

using local::Dims;

// Nine data sets that are read, and a link and a type.
inline void make_samples(const std::string& file, bool latest, hsize_t user_block) {
  H5File f(file, latest, user_block);
  std::vector<int32_t> data(20 * 20);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<int32_t>(i);
  const hid_t i32 = H5T_STD_I32LE;
  f.write("/plain", {20, 20}, i32, i32, data.data());
  f.write("/g/chunked", {20, 20}, H5T_STD_I32BE, i32, data.data(), {.chunk = Dims{7, 6}});
  f.write("/g/filtered", {20, 20}, i32, i32, data.data(),
          {.chunk = Dims{7, 6}, .deflate = 4, .shuffle = true, .fletcher32 = true, .fill = data.data() + 5});
  f.write("/compact", {5}, i32, i32, data.data(), {.compact = true});
  const hid_t complex = h5(H5Tcreate(H5T_COMPOUND, 16));
  h5(H5Tinsert(complex, "r", 0, H5T_IEEE_F64LE));
  h5(H5Tinsert(complex, "i", 8, H5T_IEEE_F64LE));
  f.write("/complex", {10}, complex, complex, data.data());
  const hsize_t pair[] = {2};
  const hid_t record = h5(H5Tcreate(H5T_COMPOUND, 16));
  h5(H5Tinsert(record, "day", 0, H5T_STD_I32LE));
  h5(H5Tinsert(record, "prices", 4, h5(H5Tarray_create2(H5T_IEEE_F32LE, 1, pair))));
  f.write("/g/table", {12}, record, record, data.data(), {.chunk = Dims{5}, .deflate = 1});
  const hid_t boolean = h5(H5Tenum_create(H5T_STD_I8LE));
  for (int8_t value : {0, 1}) h5(H5Tenum_insert(boolean, value ? "TRUE" : "FALSE", &value));
  f.write("/bool", {10}, boolean, boolean, data.data());
  const hid_t named = h5(H5Tcopy(H5T_IEEE_F32BE));
  h5(H5Tcommit2(f.id(), "/type", named, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  f.write("/named", {10}, named, H5T_NATIVE_INT, data.data());
  const hid_t dataset = h5(H5Dopen2(f.id(), "/plain", H5P_DEFAULT));
  const hid_t scalar = h5(H5Screate(H5S_SCALAR)), text = h5(H5Tcopy(H5T_C_S1));
  h5(H5Tset_size(text, H5T_VARIABLE));
  const char* const word = "degrees";
  hid_t attribute = h5(H5Acreate2(dataset, "units", text, scalar, H5P_DEFAULT, H5P_DEFAULT));
  h5(H5Awrite(attribute, text, &word));
  H5Aclose(attribute);
  attribute = h5(H5Acreate2(dataset, "number", H5T_STD_I16BE, scalar, H5P_DEFAULT, H5P_DEFAULT));
  h5(H5Awrite(attribute, i32, data.data()));
  H5Aclose(attribute);
  H5Dclose(dataset);
  h5(H5Lcreate_soft("/plain", f.id(), "/soft", H5P_DEFAULT, H5P_DEFAULT));
}

// What is rarer: links and attributes in fractal heaps, values of variable length, virtual and external data sets,
// links to other files, messages that objects share.
inline void make_rare_samples(const std::string& file, bool latest) {
  const hid_t create = h5(H5Pcreate(H5P_FILE_CREATE)), access = h5(H5Pcreate(H5P_FILE_ACCESS));
  h5(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG));
  if (latest) h5(H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST));
  h5(H5Pset_shared_mesg_nindexes(create, 1));
  h5(H5Pset_shared_mesg_index(create, 0, H5O_SHMESG_DTYPE_FLAG | H5O_SHMESG_ATTR_FLAG, /*least bytes=*/40));
  const hid_t id = h5(H5Fcreate(file.c_str(), H5F_ACC_TRUNC, create, access));
  const hid_t group_create = h5(H5Pcreate(H5P_GROUP_CREATE)), scalar = h5(H5Screate(H5S_SCALAR));
  h5(H5Pset_link_phase_change(group_create, /*most compact=*/2, /*least dense=*/1));
  const hid_t group = h5(H5Gcreate2(id, "many", H5P_DEFAULT, group_create, H5P_DEFAULT));
  for (const char* const name : {"a", "bb", "ccc"}) h5(H5Gcreate2(group, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  h5(H5Lcreate_soft("/many/a", group, "soft", H5P_DEFAULT, H5P_DEFAULT));
  h5(H5Lcreate_external("other.h5", "/there", group, "elsewhere", H5P_DEFAULT, H5P_DEFAULT));
  const hsize_t ten = 10, without_end = H5S_UNLIMITED;
  const hid_t line = h5(H5Screate_simple(1, &ten, nullptr)), growing = h5(H5Screate_simple(1, &ten, &without_end));
  const hid_t dataset_create = h5(H5Pcreate(H5P_DATASET_CREATE));
  if (latest) h5(H5Pset_attr_phase_change(dataset_create, /*most compact=*/2, /*least dense=*/1));
  const hid_t dataset = h5(H5Dcreate2(id, "with", H5T_STD_U8LE, line, H5P_DEFAULT, dataset_create, H5P_DEFAULT));
  const hid_t texts = h5(H5Tcopy(H5T_C_S1)), record = h5(H5Tcreate(H5T_COMPOUND, 24));
  h5(H5Tset_size(texts, H5T_VARIABLE));
  h5(H5Tinsert(record, "first member", 0, H5T_IEEE_F64LE));
  h5(H5Tinsert(record, "second member", 8, H5T_STD_I64BE));
  h5(H5Tinsert(record, "third member", 16, H5T_IEEE_F32BE));
  const char* const words[] = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"};
  const std::vector<double> values(30, 1.5);
  for (const char* const name : {"reals", "more reals"}) {
    const hid_t attribute = h5(H5Acreate2(dataset, name, H5T_IEEE_F64LE, line, H5P_DEFAULT, H5P_DEFAULT));
    h5(H5Awrite(attribute, H5T_NATIVE_DOUBLE, values.data()));
  }
  h5(H5Awrite(h5(H5Acreate2(dataset, "words", texts, line, H5P_DEFAULT, H5P_DEFAULT)), texts, words));
  h5(H5Awrite(h5(H5Acreate2(dataset, "record", record, scalar, H5P_DEFAULT, H5P_DEFAULT)), record, values.data()));
  h5(H5Dcreate2(id, "records", record, line, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  const hid_t external = h5(H5Pcreate(H5P_DATASET_CREATE));
  h5(H5Pset_external(external, "raw.bin", /*offset=*/0, ten));
  h5(H5Dcreate2(id, "external", H5T_STD_U8LE, line, H5P_DEFAULT, external, H5P_DEFAULT));
  const hid_t parts = h5(H5Pcreate(H5P_DATASET_CREATE));
  const hid_t half = h5(H5Screate_simple(1, &ten, nullptr)), source = h5(H5Screate_simple(1, &ten, nullptr));
  const hsize_t start = 2, count = 5, stride = 1;
  h5(H5Sselect_hyperslab(half, H5S_SELECT_SET, &start, &stride, &count, nullptr));
  h5(H5Sselect_hyperslab(source, H5S_SELECT_SET, &start, &stride, &count, nullptr));
  h5(H5Pset_virtual(parts, half, "source.h5", "/x", source));
  h5(H5Dcreate2(id, "virtual", H5T_STD_U8LE, line, H5P_DEFAULT, parts, H5P_DEFAULT));
  const hid_t chunks = h5(H5Pcreate(H5P_DATASET_CREATE));
  const hsize_t three = 3;
  h5(H5Pset_chunk(chunks, 1, &three));
  const hid_t grown = h5(H5Dcreate2(id, "growing", H5T_STD_U8LE, growing, H5P_DEFAULT, chunks, H5P_DEFAULT));
  h5(H5Dwrite(grown, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
  H5Fclose(id);  // and all that is open in it
}

// A file of one data set, and how its chunk index is found.
struct IndexedKind {
  Dims shape, limits, chunk;  // limits: -1 without one
  bool filtered;
};
inline const IndexedKind kNewerKinds[] = {{{40, 30}, {50, 64}, {6, 7}, false}, {{4000}, {4000}, {2}, true},
                                          {{600}, {-1}, {1}, false},           {{30, 40}, {30, -1}, {3, 1}, true},
                                          {{60, 50}, {-1, -1}, {1, 1}, false}, {{30, 40}, {-1, -1}, {3, 2}, true}};

struct IndexedFile {
  IndexedFile(const std::string& file, const IndexedKind& kind, bool latest = true)
      : shape{kind.shape, kind.limits, 4 * local::element_count(kind.chunk), kind.filtered} {
    std::vector<int32_t> data(static_cast<size_t>(local::element_count(kind.shape)), 5);
    H5File f(file, latest);
    f.write("/x", kind.shape, H5T_STD_I32LE, H5T_STD_I32LE, data.data(),
            {.chunk = kind.chunk, .deflate = kind.filtered ? 1 : -1, .limits = kind.limits});
    H5O_info_t info;
    h5(H5Oget_info_by_name2(f.id(), "/x", &info, H5O_INFO_BASIC, H5P_DEFAULT));
    f.close();
    header = static_cast<int64_t>(info.addr);
    bytes = load(file);
    for (int64_t& limit : shape.limits)
      if (limit < 0) limit = io::hdf5::kUnlimited;
  }
  // In the file or in what has become of it.
  io::hdf5::IndexPlace place(const io::ByteSource& in) const {
    return {{}, io::hdf5::read_layout_message(in, {}, header), shape};
  }

  Content bytes;
  int64_t header = 0;
  io::hdf5::ChunkedShape shape;
};

}  // namespace quarry::test
