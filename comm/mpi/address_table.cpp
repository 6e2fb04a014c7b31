// One rank of each host gathers the addresses of its host, and these ranks exchange them. So the table travels between
// hosts, not between all ranks. Ranks of the host find it as a file of the first one's in /proc.
#include "quarry/comm/mpi/address_table.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "quarry/comm/mpi/address_list.h"
#include "quarry/comm/mpi/job.h"
#include "quarry/local/base/error.h"

namespace quarry::comm::mpi {
namespace {

struct Record {  // before each address
  int32_t rank;
  int32_t bytes;
};

constexpr size_t kAlignment = 8;  // of addresses

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// What every rank of `comm` has, one behind the other, at rank 0 or, with `everywhere`, at all.
std::vector<std::byte> gathered(MPI_Comm comm, const std::vector<std::byte>& mine, bool everywhere) {
  int rank = 0, size = 0;
  check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  const int bytes = static_cast<int>(mine.size());
  std::vector<int> sizes(static_cast<size_t>(size)), offsets(static_cast<size_t>(size));
  if (everywhere) {
    check(MPI_Allgather(&bytes, 1, MPI_INT, sizes.data(), 1, MPI_INT, comm), "MPI_Allgather");
  } else {
    check(MPI_Gather(&bytes, 1, MPI_INT, sizes.data(), 1, MPI_INT, /*root=*/0, comm), "MPI_Gather");
  }
  int64_t total = 0;
  for (size_t r = 0; r < sizes.size(); ++r) {
    offsets[r] = static_cast<int>(total);
    total += sizes[r];
    if (total > INT32_MAX) throw local::CommError(fmt::format("the addresses of {} ranks are too long", size));
  }
  std::vector<std::byte> all(rank == 0 || everywhere ? static_cast<size_t>(total) : 0);
  if (everywhere) {
    check(MPI_Allgatherv(mine.data(), bytes, MPI_BYTE, all.data(), sizes.data(), offsets.data(), MPI_BYTE, comm),
          "MPI_Allgatherv");
  } else {
    check(
        MPI_Gatherv(mine.data(), bytes, MPI_BYTE, all.data(), sizes.data(), offsets.data(), MPI_BYTE, /*root=*/0, comm),
        "MPI_Gatherv");
  }
  return all;
}

// Records in any order to the table.
std::string table_of(const std::vector<std::byte>& records, int ranks) {
  std::vector<std::string_view> addresses(static_cast<size_t>(ranks));
  for (size_t at = 0; at < records.size();) {
    Record record;
    std::memcpy(&record, records.data() + at, sizeof record);
    at += sizeof record;
    const auto bytes = static_cast<size_t>(record.bytes);
    addresses.at(static_cast<size_t>(record.rank)) = {reinterpret_cast<const char*>(records.data() + at), bytes};
    at += aligned(bytes);
  }
  return pack_addresses(addresses);
}

// Where the first rank of the host has the table.
struct Place {
  int64_t process = 0, file = -1, bytes = 0;
  uint64_t device = 0, number = 0;  // of the file, so that no other one is taken for it
};

}  // namespace

AddressTable::AddressTable(MPI_Comm world, MPI_Comm node, const std::string& mine) {
  int rank = 0, ranks = 0, node_rank = 0;
  check(MPI_Comm_rank(world, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(world, &ranks), "MPI_Comm_size");
  check(MPI_Comm_rank(node, &node_rank), "MPI_Comm_rank");
  const Record record{rank, static_cast<int32_t>(mine.size())};
  std::vector<std::byte> packed(sizeof record + aligned(mine.size()));
  std::memcpy(packed.data(), &record, sizeof record);
  std::memcpy(packed.data() + sizeof record, mine.data(), mine.size());
  packed = gathered(node, packed, /*everywhere=*/false);
  std::string table;  // at the host's first rank
  MPI_Comm first_ranks = MPI_COMM_NULL;
  check(MPI_Comm_split(world, node_rank == 0 ? 0 : MPI_UNDEFINED, /*key=*/rank, &first_ranks), "MPI_Comm_split");
  if (first_ranks != MPI_COMM_NULL) {
    MPI_Comm_set_errhandler(first_ranks, MPI_ERRORS_RETURN);
    table = table_of(gathered(first_ranks, packed, /*everywhere=*/true), ranks);
    MPI_Comm_free(&first_ranks);
  }
  share(node, table);
}

void AddressTable::share(MPI_Comm node, const std::string& table) {
  int node_rank = 0;
  check(MPI_Comm_rank(node, &node_rank), "MPI_Comm_rank");
  Place place;
  int file = -1;
  if (node_rank == 0) {
    place.process = getpid();
    place.bytes = static_cast<int64_t>(table.size());
    file = memfd_create("addresses-of-ranks", MFD_CLOEXEC);
    struct stat status {};
    if (file >= 0 && write(file, table.data(), table.size()) == static_cast<ssize_t>(table.size()) &&
        fstat(file, &status) == 0) {
      place.file = file;
      place.device = status.st_dev;
      place.number = status.st_ino;
    }
  }
  check(MPI_Bcast(&place, sizeof place, MPI_BYTE, /*root=*/0, node), "MPI_Bcast");
  if (node_rank != 0 && place.file >= 0) {
    file = open(fmt::format("/proc/{}/fd/{}", place.process, place.file).c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (file >= 0 && (fstat(file, &status) != 0 || status.st_dev != place.device || status.st_ino != place.number)) {
      close(file);
      file = -1;
    }
  }
  mapped_bytes_ = static_cast<size_t>(place.bytes);
  if (place.file >= 0 && file >= 0) {
    void* const memory = mmap(nullptr, mapped_bytes_, PROT_READ, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED) mapped_ = memory;
  }
  const int here = mapped_ != nullptr ? 1 : 0;
  int everywhere = 0;
  const int code = MPI_Allreduce(&here, &everywhere, 1, MPI_INT, MPI_MIN, node);
  if (file >= 0) close(file);
  check(code, "MPI_Allreduce");
  if (everywhere != 0) {
    table_ = static_cast<const std::byte*>(mapped_);
    return;
  }
  if (void* const memory = std::exchange(mapped_, nullptr); memory != nullptr) munmap(memory, mapped_bytes_);
  own_ = node_rank == 0 ? table : std::string(mapped_bytes_, 0);
  check(MPI_Bcast(own_.data(), static_cast<int>(own_.size()), MPI_BYTE, /*root=*/0, node), "MPI_Bcast");
  table_ = reinterpret_cast<const std::byte*>(own_.data());
}

AddressTable::~AddressTable() {
  if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
}

std::string AddressTable::operator[](int rank) const { return unpack_address(table_, rank); }

}  // namespace quarry::comm::mpi
