#include "quarry/io/hdf5/library.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "quarry/io/byte_file.h"
#include "quarry/io/hdf5/codecs/codec.h"
#include "quarry/io/hdf5/parse/signature.h"

namespace quarry::io::hdf5 {
namespace {

// Leaked on purpose: data sets with static lifetime may close after this file's statics are gone.
std::recursive_mutex& library_mutex() {
  static auto* const mutex = new std::recursive_mutex;
  return *mutex;
}

herr_t keep_innermost(unsigned depth, const H5E_error2_t* error, void* out) {
  if (depth == 0 && error->desc) *static_cast<std::string*>(out) = error->desc;
  return 0;
}

}  // namespace

LibraryLock::LibraryLock() : lock_(library_mutex()) {
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  static const bool registered = (register_codecs(), true);
  static_cast<void>(registered);
}

LibraryLock::~LibraryLock() { H5Eset_auto2(H5E_DEFAULT, print_, print_data_); }

bool Handle::reset() noexcept {
  const hid_t id = std::exchange(id_, H5I_INVALID_HID);
  if (id < 0) return true;
  const LibraryLock lock;
  switch (H5Iget_type(id)) {
    case H5I_FILE:
      return H5Fclose(id) >= 0;
    case H5I_GROUP:
      return H5Gclose(id) >= 0;
    case H5I_DATASET:
      return H5Dclose(id) >= 0;
    case H5I_DATATYPE:
      return H5Tclose(id) >= 0;
    case H5I_DATASPACE:
      return H5Sclose(id) >= 0;
    case H5I_ATTR:
      return H5Aclose(id) >= 0;
    case H5I_GENPROP_LST:
      return H5Pclose(id) >= 0;
    default:  // not our enum: everything else has only a count
      return H5Idec_ref(id) >= 0;
  }
}

std::string library_error() {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &reason);
  H5Eclear2(H5E_DEFAULT);
  // The file drivers append a line of variables around the system's message: "..., error message = 'No space ...', ..."
  const size_t quoted = reason.find("error message = '");
  if (quoted != std::string::npos) {
    const size_t begin = quoted + std::strlen("error message = '");
    std::string message = reason.substr(begin, reason.find('\'', begin) - begin);
    for (int error : {ENOSPC, EDQUOT, EFBIG})
      if (message == std::strerror(error)) return system_reason(error);
    return message;
  }
  return reason.empty() ? "the HDF5 library gives no reason" : reason;
}

void throw_library_error(const std::string& context) {
  throw local::IoError(fmt::format("{}: {}", context, library_error()));
}

Handle check_handle(hid_t id, const std::string& context) {
  if (id < 0) throw_library_error(context);
  return Handle(id);
}

Handle file_access() {
  Handle access = check_handle(H5Pcreate(H5P_FILE_ACCESS), "file access properties");
  // Quarry's own rules (a file to be written is a new one, under a lock of its own) replace advisory locks.
  check_call(H5Pset_file_locking(access, /*use_file_locking=*/false, /*ignore_when_disabled=*/true), "file locking");
  return access;
}

Handle open_file(const std::string& path, unsigned flags) {
  check_regular_file(path);
  const LibraryLock lock;
  const Handle access = file_access();
  Handle file(H5Fopen(path.c_str(), flags, access));
  if (!file) {
    const std::string reason = library_error();
    const std::optional<Signature> signature = find_signature(ByteFile(path, ByteFile::Mode::read));
    if (signature && signature->state == FileState::unfinished)
      throw local::IoError(
          fmt::format("'{}' is an unfinished output: the run that was to make it has not ended", path));
    if (reason.find("signature not found") != std::string::npos)
      throw local::IoError(fmt::format("'{}' is not an HDF5 file", path));
    throw local::IoError(fmt::format("cannot open '{}' as HDF5: {}", path, reason));
  }
  return file;
}

}  // namespace quarry::io::hdf5
