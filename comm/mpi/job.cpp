#include "quarry/comm/mpi/job.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "quarry/comm/mpi/address_table.h"
#include "quarry/comm/ucx/ucx_transport.h"
#include "quarry/local/base/log.h"
#include "quarry/local/base/options.h"

namespace quarry::comm::mpi {

using local::CommError;

std::mutex& lock() {
  static std::mutex mutex;
  return mutex;
}

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommError(fmt::format("{}: {}", call, std::string_view(text, static_cast<size_t>(length))));
}

// One for the process, because MPI is: it is initialised once, and its lock above is of all its calls.
std::shared_ptr<Job> Job::get(int* argc, char*** argv, TransportChoice choice, const std::exception_ptr& failure) {
  static std::mutex mutex;
  static std::weak_ptr<Job> running;
  const std::lock_guard guard(mutex);
  std::shared_ptr<Job> job = running.lock();
  if (!job) {
    job = std::make_shared<Job>(Started{}, argc, argv, choice, failure);
    running = job;
  }
  return job;
}

namespace {

// On one host Open MPI 4's own paths start sooner than its search for networks, and MPI carries little. TCP is for
// where shared memory cannot be had. For the time of MPI_Init, where nobody has chosen; the launcher says that there is
// one host only.
class FastStart {
 public:
  FastStart() {
#if OMPI_MAJOR_VERSION != 4  // others name their paths otherwise
    return;
#endif
    const std::optional<std::string> here = local::environment("OMPI_COMM_WORLD_LOCAL_SIZE");
    if (!here || here != local::environment("OMPI_COMM_WORLD_SIZE")) return;
    for (const auto& [name, value] : kChoices)
      if (local::environment(name)) return;
    for (const auto& [name, value] : kChoices) local::set_default_environment(name, value);
    chosen_ = true;
  }
  ~FastStart() {
    if (!chosen_) return;
    for (const auto& [name, value] : kChoices) local::unset_environment(name);
  }
  FastStart(const FastStart&) = delete;
  FastStart& operator=(const FastStart&) = delete;

 private:
  static constexpr std::pair<const char*, const char*> kChoices[] = {{"OMPI_MCA_pml", "ob1"},
                                                                     {"OMPI_MCA_btl", "self,vader,tcp"}};
  bool chosen_ = false;
};

// How long ranks wait for each other at the start, in seconds; 0: for ever. A multiple of how long a rank may say
// nothing later, since first messages make connections.
double patience_at_start() {
  constexpr double kTimes = 12, kUsual = 60;
  try {
    return kTimes * local::OptionValue(local::Option::rank_timeout).seconds();
  } catch (const local::Error&) {
    return kUsual;  // all ranks hear of it when they agree on their options
  }
}

// Open MPI waits for ever for ranks that its messages do not reach: where a firewall is between hosts, or a rank had no
// room for the memory that ranks of a host share. All come out of MPI_Init at about the same time, and so meet here.
void meet_the_others() {
  constexpr int64_t kQuickTries = 1000;
  const double seconds = patience_at_start();
  const auto begin = std::chrono::steady_clock::now();
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(MPI_COMM_WORLD, &request), "MPI_Ibarrier");
  for (int64_t tries = 0;; ++tries) {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) return;
    if (tries < kQuickTries) continue;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (seconds > 0 && waited.count() > seconds)
      throw CommError(fmt::format(
          "messages between the ranks do not arrive: after the start of MPI no barrier of all of them has ended for "
          "{:g} seconds. Is there a firewall between hosts, or too little address space or shared memory for MPI? "
          "Ranks that only start slowly take a longer QUARRY_RANK_TIMEOUT",
          seconds));
  }
}

}  // namespace

Job::Job(Started, int* argc, char*** argv, TransportChoice choice, const std::exception_ptr& failure) {
  int initialized = 0, finalized = 0, provided = 0;
  check(MPI_Initialized(&initialized), "MPI_Initialized");
  check(MPI_Finalized(&finalized), "MPI_Finalized");
  if (finalized) throw CommError("MPI has been finalised in this process and cannot be started again");
  if (initialized) {
    check(MPI_Query_thread(&provided), "MPI_Query_thread");
  } else {
    ucx::install_memory_hooks();
    const FastStart fast_start;
    check(MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    owns_mpi_ = true;
  }
  if (provided < MPI_THREAD_SERIALIZED) {
    throw CommError(fmt::format("MPI offers thread level {}, MPI_THREAD_SERIALIZED ({}) is needed", provided,
                                MPI_THREAD_SERIALIZED));
  }
  // What fails before the endpoint exists fails on every rank alike (or the launcher ends the job).
  // Errors of MPI_COMM_WORLD are a host program's own affair again once it has been duplicated.
  MPI_Errhandler of_host = MPI_ERRHANDLER_NULL;
  if (!owns_mpi_) check(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &of_host), "MPI_Comm_get_errhandler");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (owns_mpi_) meet_the_others();
  int duplicated = MPI_SUCCESS;
  for (MPI_Comm* comm : {&world_, &frames_, &data_}) {
    if (duplicated != MPI_SUCCESS) break;
    duplicated = MPI_Comm_dup(MPI_COMM_WORLD, comm);
    if (duplicated == MPI_SUCCESS) MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
  }
  if (of_host != MPI_ERRHANDLER_NULL) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, of_host);
    MPI_Errhandler_free(&of_host);
  }
  check(duplicated, "MPI_Comm_dup");
  check(MPI_Comm_rank(world_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(world_, &size_), "MPI_Comm_size");
  local::set_log_rank(rank_);

  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split_type(world_, MPI_COMM_TYPE_SHARED, /*key=*/rank_, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  int leader = rank_;
  check(MPI_Bcast(&leader, 1, MPI_INT, /*root=*/0, node), "MPI_Bcast");
  nodes_.resize(static_cast<size_t>(size_));
  check(MPI_Allgather(&leader, 1, MPI_INT, nodes_.data(), 1, MPI_INT, world_), "MPI_Allgather");

  agree_on_options(choice, failure);
  choose_transport(choice, node);
  MPI_Comm_free(&node);
  if (monitor_) start_monitor();
}

void Job::agree_on_options(TransportChoice choice, const std::exception_ptr& failure) {
  struct Wish {
    double silence_seconds = 0;
    int32_t choice = 0, failed = 0, code = 0;
    std::array<char, 252> message{};
  };
  Wish mine;
  mine.choice = static_cast<int32_t>(choice);
  try {
    if (failure) std::rethrow_exception(failure);
    mine.silence_seconds = local::OptionValue(local::Option::rank_timeout).seconds();
    make_monitor(mine.silence_seconds);
  } catch (const local::Error& error) {
    mine.failed = 1;
    mine.code = static_cast<int32_t>(error.code());
    std::string(error.what()).copy(mine.message.data(), mine.message.size() - 1);
  }
  // Against rank 0's; the lowest rank in trouble is known to all as the largest number.
  Wish wish = mine;
  check(MPI_Bcast(&wish, sizeof wish, MPI_BYTE, /*root=*/0, world_), "MPI_Bcast");
  const Wish first = wish;
  enum : size_t { failed, other_silence, other_choice, kinds };
  const int number = mine.failed != 0 || first.failed != 0 ? 0 : INT_MAX - rank_;
  const int troubles[kinds] = {mine.failed != 0 ? INT_MAX - rank_ : 0,
                               mine.silence_seconds != first.silence_seconds ? number : 0,
                               mine.choice != first.choice ? number : 0};
  int lowest[kinds] = {};
  check(MPI_Allreduce(troubles, lowest, kinds, MPI_INT, MPI_MAX, world_), "MPI_Allreduce");
  for (size_t kind = 0; kind < kinds; ++kind) {
    if (lowest[kind] == 0) continue;
    const int rank = INT_MAX - lowest[kind];
    wish = mine;
    check(MPI_Bcast(&wish, sizeof wish, MPI_BYTE, rank, world_), "MPI_Bcast");
    if (kind == failed) local::throw_record({static_cast<local::ErrorCode>(wish.code), wish.message.data(), 0});
    if (kind == other_silence) {
      throw local::InvalidArgument(fmt::format("QUARRY_RANK_TIMEOUT is {:g} s on rank 0 and {:g} s on rank {}",
                                               first.silence_seconds, wish.silence_seconds, rank));
    }
    constexpr const char* kNames[] = {"auto", "mpi", "ucx"};
    throw local::InvalidArgument(fmt::format("the transport (QUARRY_TRANSPORT) is {} on rank 0 and {} on rank {}",
                                             kNames[first.choice], kNames[wish.choice], rank));
  }
  silence_seconds_ = mine.silence_seconds;
}

MPI_Comm Job::duplicate() {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  {
    const std::lock_guard guard(lock());
    check(MPI_Comm_idup(world_, &made, &request), "MPI_Comm_idup");
  }
  Backoff backoff;
  for (int done = 0; !done;) {
    {
      const std::lock_guard guard(lock());
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Comm_idup");
    }
    if (done) break;
    if (endpoint_->progress()) continue;
    try {
      endpoint_->check_present();
    } catch (const local::Error& error) {
      endpoint_->mark_broken();
      throw CommError(fmt::format("Runtime: {}", error.what()));
    }
    backoff.pause();
  }
  return made;
}

void Job::make_monitor(double silence_seconds) {
  if (silence_seconds == 0 || size_ == 1) return;
  monitor_ = std::make_unique<Monitor>(rank_, size_, silence_seconds, [this](int rank, const std::string& reason) {
    // One rank says it at once: what follows may be the launcher's end of the job.
    if (rank_ == (rank == 0 ? 1 : 0)) local::log(local::LogLevel::error, reason);
    endpoint_->peer_died(rank, reason);
  });
}

void Job::start_monitor() {
  // Each rank tells its children where it listens.
  constexpr int kTag = 0;
  const std::string& mine = monitor_->address();
  std::vector<MPI_Request> sends;
  for (const int child : Monitor::children_of(rank_, size_)) {
    sends.emplace_back();
    check(MPI_Isend(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, child, kTag, world_, &sends.back()),
          "MPI_Isend");
  }
  std::string address;
  if (rank_ != 0) {
    const int parent = Monitor::parent_of(rank_);
    MPI_Status status;
    int bytes = 0;
    check(MPI_Probe(parent, kTag, world_, &status), "MPI_Probe");
    check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    address.resize(static_cast<size_t>(bytes));
    check(MPI_Recv(address.data(), bytes, MPI_BYTE, parent, kTag, world_, MPI_STATUS_IGNORE), "MPI_Recv");
  }
  check(MPI_Waitall(static_cast<int>(sends.size()), sends.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  monitor_->start(address);
}

void Job::choose_transport(TransportChoice choice, MPI_Comm node) {
  std::unique_ptr<ucx::UcxTransport> ucx_transport;
  std::string reason;
  if (choice != TransportChoice::mpi) ucx_transport = ucx::make_ucx_transport(rank_, size_, reason);
  const int usable[2] = {ucx_transport ? 1 : 0, ucx_transport && ucx_transport->moves(MemoryKind::cuda) ? 1 : 0};
  int of_all[2] = {};
  check(MPI_Allreduce(usable, of_all, 2, MPI_INT, MPI_MIN, world_), "MPI_Allreduce");
  const bool all_usable = of_all[0] != 0;
  moves_cuda_ = of_all[1] != 0;
  if (!all_usable) {
    if (choice == TransportChoice::ucx) {
      throw CommError("transport ucx: " + (reason.empty() ? "UCX cannot start on another rank" : reason));
    }
    if (choice == TransportChoice::automatic && !reason.empty()) {
      local::log(local::LogLevel::info, "point-to-point traffic goes over MPI: " + reason);
    }
    endpoint_ = std::make_unique<Endpoint>(rank_, size_, make_mpi_transport(frames_, data_));
    return;
  }
  addresses_ = std::make_unique<AddressTable>(world_, node, ucx_transport->address());
  ucx_transport->set_addresses(
      [this](int rank) { return (*addresses_)[rank]; },
      [this](int rank) { return nodes_[static_cast<size_t>(rank)] == nodes_[static_cast<size_t>(rank_)]; });
  endpoint_ = std::make_unique<Endpoint>(rank_, size_, std::move(ucx_transport));
}

void Job::make_progress() {
  if (quiet_) return;
  int found = 0;
  const std::lock_guard guard(lock());
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world_, &found, MPI_STATUS_IGNORE);
}

Job::~Job() {
  // Without an endpoint the constructor failed; the other ranks failed too.
  const bool unwinding = std::uncaught_exceptions() > exceptions_;
  const bool in_order = endpoint_ && endpoint_->leave(unwinding, [this] { make_progress(); });
  if (monitor_) monitor_->leave();
  monitor_.reset();
  if (in_order) {
    // Nobody takes its transport down while others still flush theirs.
    MPI_Request request = MPI_REQUEST_NULL;
    bool started = false;
    {
      const std::lock_guard guard(lock());
      started = MPI_Ibarrier(world_, &request) == MPI_SUCCESS;
    }
    Backoff backoff;
    for (int done = 0; started && !done && !endpoint_->is_any_lost();) {
      {
        const std::lock_guard guard(lock());
        if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
      }
      endpoint_->progress();
      if (!done) backoff.pause();
    }
  }
  const bool lost = endpoint_ && endpoint_->is_any_lost();
  endpoint_.reset();
  int finalized = 0;
  const std::lock_guard guard(lock());
  MPI_Finalized(&finalized);
  // MPI's end waits for every rank; without it the launcher notices that the job did not end in order.
  if (finalized || lost || quiet_) return;
  if (in_order) {
    for (MPI_Comm* comm : {&world_, &frames_, &data_}) {
      if (*comm != MPI_COMM_NULL) MPI_Comm_free(comm);
    }
  }
  if (owns_mpi_) MPI_Finalize();
}

void Job::abort(int status) {
  std::fflush(nullptr);
  // The lock may be held by a thread that is stuck inside MPI.
  for (int i = 0; i < 100 && !lock().try_lock(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

}  // namespace quarry::comm::mpi
