// Groups and attributes of all kinds, shared messages and cache images, read without the library and compared with what
// it wrote; and what newer releases than the one that is linked write.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "quarry/io/hdf5/parse/file.h"
#include "tests/support/source_file.h"
#include "tests/unit/io/hdf5/io_test.h"

namespace quarry::io {
namespace {

using test::h5;
using test::H5File;

struct Kind {
  const char* name;
  bool latest = false, ordered = false, shared = false, image = false;
  hsize_t user_block = 0;
  size_t address_bytes = 8;
};

std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

void set_attribute(hid_t object, const std::string& name, const std::vector<double>& values) {
  const hsize_t extent = values.size();
  const hid_t space = h5(extent == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &extent, nullptr));
  const hid_t attribute =
      h5(H5Acreate2(object, name.c_str(), H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT), "an attribute");
  h5(H5Awrite(attribute, H5T_NATIVE_DOUBLE, values.data()));
  H5Aclose(attribute);
  H5Sclose(space);
}

std::vector<double> counted(size_t count) {
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<double>(i);
  return values;
}

class MetadataKinds : public ::testing::TestWithParam<Kind> {
 protected:
  hid_t create_file(const std::string& path) const {
    const Kind& kind = GetParam();
    const hid_t create = h5(H5Pcreate(H5P_FILE_CREATE)), access = h5(H5Pcreate(H5P_FILE_ACCESS));
    if (kind.user_block) h5(H5Pset_userblock(create, kind.user_block));
    h5(H5Pset_sizes(create, kind.address_bytes, kind.address_bytes));
    if (kind.shared) {
      h5(H5Pset_shared_mesg_nindexes(create, 2));
      h5(H5Pset_shared_mesg_index(create, 0, H5O_SHMESG_DTYPE_FLAG | H5O_SHMESG_SDSPACE_FLAG, 1));
      h5(H5Pset_shared_mesg_index(create, 1, H5O_SHMESG_ATTR_FLAG | H5O_SHMESG_FILL_FLAG, 1));
    }
    if (kind.latest) h5(H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST));
    if (kind.image) {
      H5AC_cache_image_config_t config{H5AC__CURR_CACHE_IMAGE_CONFIG_VERSION, true, false, -1};
      h5(H5Pset_mdc_image_config(access, &config));
    }
    const hid_t file = h5(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, create, access), "creating a file");
    H5Pclose(create);
    H5Pclose(access);
    return file;
  }

  hid_t create_group(hid_t file, const std::string& name) const {
    const hid_t create = h5(H5Pcreate(H5P_GROUP_CREATE));
    if (GetParam().ordered) {
      h5(H5Pset_link_creation_order(create, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED));
      h5(H5Pset_attr_creation_order(create, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED));
    }
    const hid_t group = h5(H5Gcreate2(file, name.c_str(), H5P_DEFAULT, create, H5P_DEFAULT));
    H5Pclose(create);
    return group;
  }

  const test::TempDir dir_;
};

std::vector<std::string> names_in(const std::vector<ObjectInfo>& objects) {
  std::vector<std::string> names;
  for (size_t i = 1; i < objects.size(); ++i) names.push_back(objects[i].path);
  return names;
}

TEST_P(MetadataKinds, LinksAndAttributesAreAllThere) {
  const std::string path = dir_ / "a.h5";
  // Compact, at the border, one block, rows of direct blocks, indirect blocks below indirect ones.
  const size_t counts[] = {0, 1, 8, 9, 300, 5000};
  const hid_t file = create_file(path);
  for (const size_t count : counts) {
    const hid_t group = create_group(file, "g" + std::to_string(count));
    for (size_t i = 0; i < count; ++i) {
      const std::string name = "a link of a name that is not short " + std::to_string(i);
      h5(H5Lcreate_soft(("/to/" + name).c_str(), group, name.c_str(), H5P_DEFAULT, H5P_DEFAULT));
    }
    if (count <= 300)
      for (size_t i = 0; i < count; ++i) set_attribute(group, "number " + std::to_string(i), counted(i % 5 + 1));
    H5Gclose(group);
  }
  const hid_t sizes = create_group(file, "sizes");  // of attributes, in and beside the heap
  for (const size_t count : {size_t{1}, size_t{500}, size_t{600}, size_t{4000}})
    set_attribute(sizes, std::to_string(count), counted(count));
  for (int i = 0; i < 10; ++i) set_attribute(sizes, "more " + std::to_string(i), {1});
  H5Gclose(sizes);
  H5Fclose(file);

  const std::vector<ObjectInfo> root = list_objects(path);
  EXPECT_EQ(root[0].note, "");
  for (const size_t count : counts) {
    SCOPED_TRACE(count);
    const std::string group = "/g" + std::to_string(count);
    const std::vector<ObjectInfo> objects = list_objects(path, group);
    ASSERT_EQ(objects[0].note, "");
    std::vector<std::string> expected;
    for (size_t i = 0; i < count; ++i)
      expected.push_back(group + "/a link of a name that is not short " + std::to_string(i));
    std::ranges::sort(expected);
    EXPECT_EQ(names_in(objects), expected);
    for (size_t i = 1; i < objects.size(); ++i)
      EXPECT_EQ(objects[i].note, "soft link to /to" + objects[i].path.substr(group.size()));
    const auto& attributes = objects[0].attributes;
    ASSERT_EQ(attributes.size(), count <= 300 ? count : 0);
    for (size_t i = 0; i < attributes.size(); ++i) {
      const Attribute& value = attributes.at("number " + std::to_string(i));
      if (i % 5 == 0)
        EXPECT_EQ(std::get<double>(value), 0);
      else
        EXPECT_EQ(std::get<std::vector<double>>(value), counted(i % 5 + 1));
    }
  }
  const auto attributes = list_objects(path, "/sizes")[0].attributes;
  ASSERT_EQ(attributes.size(), 14u);
  EXPECT_EQ(std::get<std::vector<double>>(attributes.at("600")), counted(600));
  EXPECT_EQ(std::get<std::vector<double>>(attributes.at("4000")), counted(4000));
}

TEST_P(MetadataKinds, DataSetsAreRead) {
  const std::string path = dir_ / "a.h5";
  const hid_t file = create_file(path);
  std::vector<int32_t> data(40);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<int32_t>(i * i);
  const hsize_t extent = data.size(), chunk = 7;
  const hid_t type = h5(H5Tcopy(H5T_STD_I32BE));
  h5(H5Tcommit2(file, "/type", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  const hid_t space = h5(H5Screate_simple(1, &extent, nullptr));
  for (int i = 0; i < 20; ++i) {
    const hid_t create = h5(H5Pcreate(H5P_DATASET_CREATE));
    h5(H5Pset_fill_value(create, H5T_NATIVE_INT, &data[3]));
    if (i % 2) h5(H5Pset_chunk(create, 1, &chunk));
    const hid_t dataset = h5(H5Dcreate2(file, ("x" + std::to_string(i)).c_str(), i % 3 ? type : H5T_STD_I32LE, space,
                                        H5P_DEFAULT, create, H5P_DEFAULT));
    if (i % 5) h5(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data()));
    set_attribute(dataset, "same", {1, 2, 3});
    H5Dclose(dataset);
    H5Pclose(create);
  }
  H5Tclose(type);
  H5Sclose(space);
  H5Fclose(file);
  Bytes expected(data.size() * 4);
  std::memcpy(expected.data(), data.data(), expected.size());
  const std::vector<int32_t> nines(data.size(), data[3]);
  Bytes missing(data.size() * 4);
  std::memcpy(missing.data(), nines.data(), missing.size());
  for (int i = 0; i < 20; ++i) {
    SCOPED_TRACE(i);
    const auto dataset = Dataset::open(path, "/x" + std::to_string(i));
    EXPECT_EQ(dataset->info().library_reason, "");
    EXPECT_EQ(std::get<std::vector<double>>(dataset->info().attributes.at("same")), (std::vector<double>{1, 2, 3}));
    EXPECT_EQ(read_region(*dataset, Region::whole({40})), i % 5 ? expected : missing);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, MetadataKinds,
    ::testing::Values(Kind{.name = "old"}, Kind{.name = "old_behind_a_user_block", .user_block = 2048},
                      Kind{.name = "old_of_four_bytes", .address_bytes = 4}, Kind{.name = "latest", .latest = true},
                      Kind{.name = "latest_of_four_bytes", .latest = true, .address_bytes = 4},
                      Kind{.name = "latest_behind_a_user_block", .latest = true, .user_block = 512},
                      Kind{.name = "ordered", .ordered = true},
                      Kind{.name = "latest_ordered", .latest = true, .ordered = true},
                      Kind{.name = "shared_messages", .shared = true},
                      Kind{.name = "latest_shared_messages", .latest = true, .shared = true},
                      Kind{.name = "cache_image", .latest = true, .image = true}),
    [](const auto& info) { return std::string(info.param.name); });

// What HDF5 2.0 writes with its latest messages; scripts/oracle/newer_hdf5.py made it.
TEST(MetadataTest, FilesOfNewerReleases) {
  const std::string file = test::source_file("tests/unit/io/hdf5/newer.h5").string();
  int found = 0;
  for (const ObjectInfo& object : list_objects(file)) {
    SCOPED_TRACE(object.path);
    EXPECT_EQ(object.note, "");
    if (!object.path.starts_with("/x")) continue;
    ASSERT_TRUE(object.dataset.has_value());
    EXPECT_TRUE(object.dataset->direct);
    const auto dataset = Dataset::open(file, object.path);
    EXPECT_EQ(dataset->info().shape, (Dims{6, 10}));
    const Bytes bytes = read_region(*dataset, Region::whole(dataset->info().shape));
    const auto item = static_cast<size_t>(local::itemsize(dataset->info().dtype));
    for (size_t i = 0; i < 60; ++i) {
      std::vector<std::byte> element(bytes.begin() + static_cast<std::ptrdiff_t>(i * item),
                                     bytes.begin() + static_cast<std::ptrdiff_t>((i + 1) * item));
      double value = 0;
      if (local::is_complex(dataset->info().dtype)) {
        std::memcpy(&value, element.data(), sizeof value);
      } else {
        int64_t integer = 0;
        std::memcpy(&integer, element.data(), item);
        value = static_cast<double>(integer);
      }
      ASSERT_EQ(value, static_cast<double>(i));
    }
    ++found;
  }
  EXPECT_EQ(found, 11);
  EXPECT_EQ(list_objects(file, "/many").size(), 21u);
  const auto attributes = list_objects(file, "/attributes")[0].attributes;
  ASSERT_EQ(attributes.size(), 13u);
  EXPECT_EQ(std::get<int64_t>(attributes.at("a11")), 11);
  EXPECT_EQ(std::get<std::vector<double>>(attributes.at("long")), counted(700));
}

TEST(MetadataTest, LinksThatLeadAstray) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5", other = dir / "b.h5";
  const int32_t value = 5;
  {
    H5File f(other, /*latest=*/true);
    f.write("/deep/x", {}, H5T_STD_I32LE, H5T_STD_I32LE, &value);
    h5(H5Lcreate_soft("../x", f.id(), "/deep/up", H5P_DEFAULT, H5P_DEFAULT));
  }
  {
    H5File f(file);
    f.write("/g/x", {}, H5T_STD_I32LE, H5T_STD_I32LE, &value);
    const auto soft = [&](const char* target, const char* name) {
      h5(H5Lcreate_soft(target, f.id(), name, H5P_DEFAULT, H5P_DEFAULT));
    };
    soft("x", "/g/relative");
    soft("./relative", "/g/again");
    soft("/g", "/group");
    soft("/loop2", "/loop1");
    soft("/loop1", "/loop2");
    soft("/loop1/more", "/longer");
    h5(H5Lcreate_external("b.h5", "/deep", f.id(), "/outside", H5P_DEFAULT, H5P_DEFAULT));
    h5(H5Lcreate_external("/no/such/folder/b.h5", "deep/x", f.id(), "/moved", H5P_DEFAULT, H5P_DEFAULT));
    h5(H5Lcreate_external("a.h5", "/self", f.id(), "/self", H5P_DEFAULT, H5P_DEFAULT));
  }
  for (const char* object : {"/g/x", "/g/relative", "/g/again", "/group/again", "/outside/x", "/moved"}) {
    SCOPED_TRACE(object);
    const Bytes bytes = read_region(*Dataset::open(file, object), Region::whole({}));
    EXPECT_EQ(bytes[0], std::byte{5});
  }
  for (const char* object : {"/loop1", "/longer", "/self", "/outside/up"})
    EXPECT_NE(message_of<local::InvalidArgument>([&] { Dataset::open(file, object); }).find("leads nowhere"),
              std::string::npos)
        << object;
}

// The library reads the list of sources without looking where it ends, and waits for pipes.
TEST(MetadataTest, WhatTheLibraryWouldCrashOnIsRefused) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5", raw = dir / "raw.bin";
  const int32_t data[6] = {1, 2, 3, 4, 5, 6};
  const hsize_t extent = 6;
  {
    H5File f(file);
    f.write("/source", {6}, H5T_STD_I32LE, H5T_STD_I32LE, data);
    const hid_t space = h5(H5Screate_simple(1, &extent, nullptr));
    hid_t create = h5(H5Pcreate(H5P_DATASET_CREATE));
    h5(H5Pset_virtual(create, space, ".", "/source", space));
    H5Dclose(h5(H5Dcreate2(f.id(), "/virtual", H5T_STD_I32LE, space, H5P_DEFAULT, create, H5P_DEFAULT)));
    create = h5(H5Pcreate(H5P_DATASET_CREATE));
    h5(H5Pset_external(create, raw.c_str(), 0, sizeof data));
    H5Dclose(h5(H5Dcreate2(f.id(), "/external", H5T_STD_I32LE, space, H5P_DEFAULT, create, H5P_DEFAULT)));
    H5Sclose(space);
  }
  EXPECT_EQ(read_region(*Dataset::open(file, "/virtual"), Region::whole({6}))[0], std::byte{1});
  ASSERT_EQ(::mkfifo(raw.c_str(), 0600), 0);
  EXPECT_THROW(read_region(*Dataset::open(file, "/external"), Region::whole({6})), local::Error);

  std::ifstream in(file, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const size_t name = bytes.rfind("/source");  // of the list, whose names end with zeros
  ASSERT_NE(name, std::string::npos);
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(name), 8, 'x');
  std::ofstream(file, std::ios::binary) << bytes;
  const std::string message =
      message_of<local::IoError>([&] { read_region(*Dataset::open(file, "/virtual"), Region::whole({6})); });
  EXPECT_NE(message.find("checksum of the list of a virtual data set's sources"), std::string::npos) << message;
}

// --- small files that would become long lists ---

std::string bytes_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void add_text(hid_t object, const std::string& name, const std::vector<std::string>& texts) {
  const hsize_t extent = texts.size();
  const hid_t type = h5(H5Tcopy(H5T_C_S1));
  h5(H5Tset_size(type, H5T_VARIABLE));
  const hid_t space = h5(extent == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &extent, nullptr));
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  const hid_t attribute = h5(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT));
  h5(H5Awrite(attribute, type, pointers.data()));
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
}

// All texts of variable length become the longest one: a reference is a length, the heap's address and a number in it.
void share_longest_text(const std::string& file) {
  constexpr size_t kReference = 4 + 8 + 4;
  std::string bytes = bytes_of(file);
  std::vector<size_t> found;
  size_t longest = 0;
  const auto number_at = [&](size_t at) {
    uint32_t out = 0;
    std::memcpy(&out, bytes.data() + at, sizeof out);
    return out;
  };
  for (size_t at = 0; at + kReference <= bytes.size(); ++at) {
    uint64_t address = 0;
    std::memcpy(&address, bytes.data() + at + 4, sizeof address);
    if (address == 0 || address > bytes.size() || bytes.compare(address, 4, "GCOL") != 0) continue;
    if (const uint32_t number = number_at(at + 12); number == 0 || number > UINT8_MAX || number_at(at) == 0) continue;
    found.push_back(at);
    if (number_at(at) >= number_at(found[longest])) longest = found.size() - 1;
  }
  ASSERT_GE(found.size(), 2u);
  const std::string reference = bytes.substr(found[longest], kReference);
  for (const size_t at : found) bytes.replace(at, kReference, reference);
  std::ofstream(file, std::ios::binary) << bytes;
}

bool is_noted(const std::string& file, const std::string& text) {
  return std::ranges::any_of(list_objects(file),
                             [&](const ObjectInfo& object) { return object.note.find(text) != std::string::npos; });
}

TEST(MetadataTest, ManyLinksOfOneNameAreRefused) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  {
    H5File f(file);
    for (const std::string& name : {std::string(20000, 'a'), std::string("b"), std::string("c"), std::string("d")})
      h5(H5Lcreate_soft("x", f.id(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT));
  }
  std::string bytes = bytes_of(file);
  constexpr size_t kHead = 8, kEntry = 40, kNameBytes = 8;
  const size_t entries = bytes.find("SNOD") + kHead;  // in the order of their names
  for (size_t i = 1; i < 4; ++i) bytes.replace(entries + i * kEntry, kNameBytes, bytes.substr(entries, kNameBytes));
  std::ofstream(file, std::ios::binary) << bytes;
  EXPECT_TRUE(is_noted(file, "the names of links are longer than the file"));
}

TEST(MetadataTest, ManyReferencesToOneTextAreRefused) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  const std::string text(20000, 't');
  for (const bool array : {true, false}) {
    H5File f(file);
    const int32_t value = 5;
    f.write("/x", {}, H5T_STD_I32LE, H5T_STD_I32LE, &value);
    const hid_t x = h5(H5Dopen2(f.id(), "/x", H5P_DEFAULT));
    if (array)
      add_text(x, "all", {text, "b", "c", "d", "e"});
    else
      for (const char* const name : {"b", "c", "d", "e"}) add_text(x, name, {name == std::string("b") ? text : name});
    H5Dclose(x);
    f.close();
    share_longest_text(file);
    EXPECT_TRUE(is_noted(file, array ? "the texts of an attribute are longer than the file"
                                     : "the texts of attributes are longer than the file"));
    EXPECT_EQ(read_region(*Dataset::open(file, "/x"), Region::whole({}))[0], std::byte{5});
  }
}

TEST(MetadataTest, ListsHaveALimit) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5", long_name(60000, 'n'), long_text((1 << 20) - 1, 't');
  {
    H5File f(file);
    const hid_t group = h5(H5Gcreate2(f.id(), long_name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    for (int i = 0; i < 1200; ++i) h5(H5Lcreate_soft("x", group, std::to_string(i).c_str(), H5P_DEFAULT, H5P_DEFAULT));
    H5Gclose(group);
  }
  EXPECT_TRUE(is_noted(file, "the paths are too long"));
  EXPECT_EQ(list_objects(file).size(), 2u);
  EXPECT_THROW(Dataset::open(file, "/nn"), local::InvalidArgument);
  {
    H5File f(file);
    for (int i = 0; i < 70; ++i) {
      const hid_t group = h5(H5Gcreate2(f.id(), std::to_string(i).c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      add_text(group, "t", {i == 0 ? long_text : "short"});
      H5Gclose(group);
    }
  }
  share_longest_text(file);
  EXPECT_TRUE(is_noted(file, "the texts of attributes are too long"));
  const auto objects = list_objects(file);
  EXPECT_EQ(std::ranges::count_if(objects, [](const ObjectInfo& object) { return !object.attributes.empty(); }), 63);
}

TEST(MetadataTest, TruncatedFilesSayHowMuchIsMissing) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  const Bytes data(5000);
  H5File(file).write("/x", {5000}, H5T_STD_U8LE, H5T_STD_U8LE, data.data());
  const auto size = std::filesystem::file_size(file);
  std::filesystem::resize_file(file, size - 77);
  const std::string message = message_of<local::IoError>([&] { Dataset::open(file, "/x"); });
  EXPECT_NE(message.find("the last 77 are missing"), std::string::npos) << message;
}

}  // namespace
}  // namespace quarry::io
