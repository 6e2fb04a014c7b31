#include "quarry/io/hdf5/read/library_reader.h"

#include <atomic>
#include <optional>

#include "quarry/io/hdf5/process/library_process.h"
#include "quarry/io/hdf5/read/library_dataset.h"
#include "quarry/io/storage/bytes.h"
#include "quarry/local/base/detail.h"

namespace quarry::io::hdf5 {
namespace {

using local::Dims;

std::atomic<uint64_t> readers{0};

std::string opening_of(const StoredDataset& stored) {
  ByteWriter out;
  out.put<uint64_t>(++readers);
  out.put_string(library_dataset_of(stored));
  return out.take();
}

}  // namespace

LibraryReader::LibraryReader(const StoredDataset& stored)
    : opened_(opening_of(stored)),
      item_(local::itemsize(stored.info.dtype)),
      shape_(stored.info.shape),
      block_(stored.info.chunks && !stored.info.filters.empty() ? *stored.info.chunks : stored.info.shape) {}

LibraryReader::~LibraryReader() { close_in_library(opened_); }

std::string LibraryReader::request(const AscendingRegion& region, const Dims& at, const Dims& count, int half) const {
  ByteWriter out;
  out.put_view(opened_);
  Dims low = region.low;
  for (int d = 0; d < low.size(); ++d) low[d] += at[d] * region.step[d];
  out.put_dims(low);
  out.put_dims(region.step);
  out.put_dims(count);
  out.put<int32_t>(half);
  return out.take();
}

void LibraryReader::read(const AscendingRegion& region, std::byte* to) {
  // What is in one half of the shared memory, and where it goes; the other half is filled meanwhile.
  struct Box {
    Dims count;
    std::byte* place;
    int half;
  };
  const Dims strides = local::contiguous_strides(region.count, item_);
  const Dims nothing = Dims::filled(region.count.size(), 0);
  std::optional<Box> last;
  LibrarySession session;
  const auto take = [&] {
    if (!last) return;
    session.receive();
    copy_box(last->count, item_, session.half(last->half).data(), local::contiguous_strides(last->count, item_),
             last->place, strides);
  };
  const auto add = [&](const Dims& at, const Dims& count) {
    const int half = last ? 1 - last->half : 0;
    session.send(LibraryCall::read, request(region, at, count, half));
    take();
    last = {count, to + dot(at, strides), half};
  };
  // A chunk that is cut is decoded more than once.
  const int64_t most = std::ssize(session.half(0));
  const bool fits = local::element_count(region.count) * item_ <= most;
  PartCursor cursor(region, shape_, fits ? shape_ : block_);
  for (Part part; cursor.next(part);)
    cut_pieces(part.count, nothing, item_, /*dense_from=*/part.count.size(), most,
               [&](const Dims& index, const Dims& count, const Dims& /*strides*/) {
                 Dims at = part.at;
                 for (int d = 0; d < at.size(); ++d) at[d] += index[d];
                 add(at, count);
               });
  take();
}

}  // namespace quarry::io::hdf5
