#include <fmt/format.h>
#include <glob.h>

#include <cmath>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quarry/chunked/api/array.h"
#include "quarry/chunked/api/ma.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/comm/communicator.h"
#include "quarry/io/dataset.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/log.h"

namespace quarry {
namespace {

// The files' names on rank 0, in order.
std::vector<std::string> matching(const std::string& pattern) {
  glob_t found{};
  const int status = ::glob(pattern.c_str(), /*flags=*/0, /*errfunc=*/nullptr, &found);
  std::vector<std::string> names(found.gl_pathv, found.gl_pathv + (status == 0 ? found.gl_pathc : 0));
  ::globfree(&found);
  if (status == GLOB_NOMATCH) throw local::InvalidArgument(fmt::format("no file matches '{}'", pattern));
  if (status != 0) throw local::IoError(fmt::format("the files of '{}' cannot be listed", pattern));
  return names;
}

// Texts of any bytes as one, and back.
std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += fmt::format("{}:{}", text.size(), text);
  return all;
}
std::vector<std::string> separated(std::string_view all) {
  std::vector<std::string> texts;
  while (!all.empty()) {
    const size_t colon = all.find(':');
    const size_t size = std::stoull(std::string(all.substr(0, colon)));
    texts.emplace_back(all.substr(colon + 1, size));
    all.remove_prefix(colon + 1 + size);
  }
  return texts;
}

// Whether the shapes agree beside the axis.
void check_shape(const io::DatasetInfo& info, const io::DatasetInfo& first, int64_t axis) {
  const auto fail = [&](const std::string& why) {
    throw local::InvalidArgument(fmt::format("'{}' in '{}' of shape {} does not continue that in '{}' of shape {}: {}",
                                             info.object, info.file, local::to_string(info.shape), first.file,
                                             local::to_string(first.shape), why));
  };
  if (info.shape.size() != first.shape.size()) fail("they have different numbers of axes");
  for (int d = 0; d < info.shape.size(); ++d)
    if (d != axis && info.shape[d] != first.shape[d]) fail(fmt::format("they differ along axis {}", d));
}

// An array, and what the data set says of it; of several files the first.
struct Opened {
  Array array;
  io::DatasetInfo info;
};

comm::Call call_of(const std::string& file, const std::string& object) {
  std::string what = file + ":" + object;
  return {"open_hdf5", std::hash<std::string>()(what), [what] { return what; }};
}

Opened opened(const std::string& file, const std::string& object) {
  comm::Communicator& communicator = Runtime::current().communicator();
  std::shared_ptr<io::Dataset> dataset;
  std::string layout;
  comm::on_rank_0(communicator, call_of(file, object), [&] {
    dataset = io::Dataset::open(file, object);
    if (communicator.size() > 1) layout = dataset->serialize();
  });
  layout = communicator.broadcast_string(layout, 0);
  if (!dataset) dataset = io::Dataset::deserialize(layout);
  return {Array(expr::source(dataset)), dataset->info()};
}

Opened opened(const std::string& pattern, const std::string& object, int64_t axis) {
  comm::Communicator& communicator = Runtime::current().communicator();
  const auto ranks = static_cast<size_t>(communicator.size()), rank = static_cast<size_t>(communicator.rank());
  std::vector<std::string> files;
  // Every rank opens each so many-th file.
  std::vector<std::string> mine;
  comm::on_rank_0(communicator, call_of(pattern, object), [&] { files = matching(pattern); });
  files = separated(communicator.broadcast_string(joined(files), 0));
  std::exception_ptr error;
  try {
    for (size_t i = rank; i < files.size(); i += ranks)
      mine.push_back(io::Dataset::open(files[i], object)->serialize());
  } catch (...) {
    error = std::current_exception();
  }
  comm::agree(communicator, error, call_of(pattern, object));
  std::vector<std::vector<std::string>> all;
  for (const std::string& text : communicator.all_gather_strings(joined(mine))) all.push_back(separated(text));

  std::vector<Array> parts;
  io::DatasetInfo first;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::shared_ptr<io::Dataset> dataset = io::Dataset::deserialize(all[i % ranks][i / ranks]);
    if (i == 0) {
      first = dataset->info();
      axis = local::normalize_axis(axis, first.shape.size());
    }
    check_shape(dataset->info(), first, axis);
    parts.emplace_back(expr::source(dataset));
  }
  return {parts.size() == 1 ? parts.front() : concatenate(parts, axis), first};
}

ma::MaskedArray by_attributes(const Opened& found, const OpenOptions& options) {
  const ma::MissingValues missing = ma::missing_values(found.info.attributes);
  if (!options.decode) return ma::masked_missing(found.array, missing);
  return ma::unpacked(found.array, missing, ma::packing(found.info.attributes));
}

// Of stored numbers that do not mean what they are.
void warn_of_conventions(const io::DatasetInfo& info) {
  if (Runtime::current().rank() != 0) return;
  const ma::Packing packing = ma::packing(info.attributes);
  std::string what;
  for (const Scalar& value : ma::missing_values(info.attributes).values)
    if (const double number = value.as_double(); !std::isnan(number))
      what = fmt::format("{} stands for missing numbers", number);
  if (packing.scale || packing.offset) what += fmt::format("{}numbers are packed", what.empty() ? "" : ", and ");
  if (what.empty()) return;
  local::log(local::LogLevel::warn,
             fmt::format("'{}' in '{}': {}, say its attributes, which are not applied: open it decoded (--decode) or "
                         "masked (--masked)",
                         info.object, info.file, what));
}

Array plain(const Opened& found, const OpenOptions& options) {
  if (!options.decode) {
    warn_of_conventions(found.info);
    return found.array;
  }
  const ma::MaskedArray decoded = by_attributes(found, options);
  return decoded.mask_or_none() ? decoded.filled(std::numeric_limits<double>::quiet_NaN()) : decoded.data();
}

}  // namespace

Array open_hdf5(const std::string& file, const std::string& object, const OpenOptions& options) {
  return plain(opened(file, object), options);
}
Array open_hdf5(const std::string& pattern, const std::string& object, int64_t axis, const OpenOptions& options) {
  return plain(opened(pattern, object, axis), options);
}

ma::MaskedArray ma::open_hdf5(const std::string& file, const std::string& object, const OpenOptions& options) {
  return by_attributes(opened(file, object), options);
}
ma::MaskedArray ma::open_hdf5(const std::string& pattern, const std::string& object, int64_t axis,
                              const OpenOptions& options) {
  return by_attributes(opened(pattern, object, axis), options);
}

}  // namespace quarry
