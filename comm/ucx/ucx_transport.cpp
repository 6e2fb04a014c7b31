#include "quarry/comm/ucx/ucx_transport.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <ucm/api/ucm.h>
#include <ucp/api/ucp.h>
#include <ucs/debug/debug.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "quarry/comm/spin_mutex.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/log.h"
#include "quarry/local/base/options.h"
#include "quarry/local/base/thread.h"

namespace quarry::comm::ucx {

using local::CommError;

namespace {

constexpr unsigned kFrameMessage = 1;
constexpr int kRankBits = 24;  // of a tag; the rest numbers the transfers of a pair of ranks

// In front of every frame. UCX may deliver a message of several fragments after a later one of a single fragment.
struct FramePrefix {
  int64_t from;
  uint64_t sequence;
};

void check(ucs_status_t status, const char* call) {
  if (status != UCS_OK) throw CommError(fmt::format("{}: {}", call, ucs_status_string(status)));
}

ucp_tag_t make_tag(int sender, uint64_t id) { return (id << kRankBits) | static_cast<ucp_tag_t>(sender); }

class UcpTransport : public UcxTransport {
 public:
  UcpTransport(int rank, int size) : rank_(rank) {
    ucp_config_t* config = nullptr;
    check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    // A rendezvous wakes both sides by a system call each; up to here copying twice costs less.
    if (!local::environment("UCX_RNDV_THRESH")) {
      static_cast<void>(ucp_config_modify(config, "RNDV_THRESH", "128k"));
    }
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_NAME;
    params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    params.estimated_num_eps = static_cast<size_t>(size);
    params.name = "quarry";
    const ucs_status_t made = ucp_init(&params, config, &context_);
    ucp_config_release(config);
    check(made, "ucp_init");
    ucp_context_attr_t attributes = {};
    attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
    moves_cuda_ = ucp_context_query(context_, &attributes) == UCS_OK &&
                  (attributes.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;

    ucp_worker_params_t worker_params = {};
    worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    if (const ucs_status_t status = ucp_worker_create(context_, &worker_params, &worker_); status != UCS_OK) {
      ucp_cleanup(context_);
      check(status, "ucp_worker_create");
    }
    try {
      check(ucp_worker_get_efd(worker_, &event_fd_), "ucp_worker_get_efd");
      ucp_am_handler_param_t handler = {};
      handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                           UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
      handler.id = kFrameMessage;
      handler.flags = UCP_AM_FLAG_WHOLE_MSG;
      handler.cb = &UcpTransport::on_frame;
      handler.arg = this;
      check(ucp_worker_set_am_recv_handler(worker_, &handler), "ucp_worker_set_am_recv_handler");
    } catch (...) {
      destroy();
      throw;
    }
  }

  ~UcpTransport() override {
    for (auto& [rank, connection] : connections_) {
      const ucs_status_ptr_t request = close_connection(connection, /*force=*/true);
      if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
    }
    if (waits_for_the_lost())
      leave();
    else
      destroy();
  }

  const char* name() const override { return "ucx"; }

  // UCX tells only in print: "#   lane[0]: 5:sysv/memory.0 md[3] -> …".
  std::string link_to(int rank) override {
    char* text = nullptr;
    size_t bytes = 0;
    std::FILE* const file = open_memstream(&text, &bytes);
    if (file == nullptr) return name();
    {
      const std::lock_guard guard(mutex_);
      const auto found = connections_.find(rank);
      if (found != connections_.end() && found->second.handle != nullptr) ucp_ep_print_info(found->second.handle, file);
    }
    std::fclose(file);
    const std::unique_ptr<char, decltype(&std::free)> owner(text, &std::free);
    std::string path = name();
    std::set<std::string> seen;
    std::istringstream lines{std::string(text, bytes)};
    for (std::string line; std::getline(lines, line);) {
      const size_t lane = line.find("lane[");
      const size_t begin = lane == std::string::npos ? lane : line.find(':', line.find(':', lane) + 1);
      if (begin == std::string::npos) continue;
      const std::string resource = line.substr(begin + 1, line.find_first_of(". ", begin + 1) - begin - 1);
      if (seen.insert(resource).second) path += (seen.size() == 1 ? " " : ", ") + resource;
    }
    return path;
  }

  std::string address() const override {
    ucp_address_t* address = nullptr;
    size_t bytes = 0;
    check(ucp_worker_get_address(worker_, &address, &bytes), "ucp_worker_get_address");
    std::string copy(reinterpret_cast<const char*>(address), bytes);
    ucp_worker_release_address(worker_, address);
    return copy;
  }

  void set_addresses(std::function<std::string(int)> address_of, std::function<bool(int)> is_on_node) override {
    address_of_ = std::move(address_of);
    is_on_node_ = std::move(is_on_node);
  }

  void post(int to, std::span<const std::byte> frame) override {
    const std::lock_guard guard(mutex_);
    Connection& connection = connect(to);
    const FramePrefix prefix{rank_, connection.sequence++};
    const size_t bytes = sizeof prefix + frame.size();
    // UCX may go on reading the memory after the call.
    auto copy = std::make_unique<std::byte[]>(bytes);
    std::memcpy(copy.get(), &prefix, sizeof prefix);
    std::memcpy(copy.get() + sizeof prefix, frame.data(), frame.size());
    ucp_request_param_t param = {};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    param.cb.send = &UcpTransport::on_posted;
    auto operation = std::make_unique<Operation>(Operation{this, nullptr, to, std::move(copy)});
    param.user_data = operation.get();
    const ucs_status_ptr_t result =
        ucp_am_send_nbx(connection.handle, kFrameMessage, nullptr, 0, operation->frame.get(), bytes, &param);
    track(result, std::move(operation), "ucp_am_send_nbx");
  }

  void send(int to, uint64_t id, const void* data, int64_t bytes, MemoryKind memory,
            const TransferPtr& transfer) override {
    const std::lock_guard guard(mutex_);
    Connection& connection = connect(to);
    auto operation = std::make_unique<Operation>(Operation{this, transfer, to, nullptr});
    ucp_request_param_t param = data_params(memory);
    // What UCX would send within the call it reads by the host, without a look at the kind of memory.
    if (memory != MemoryKind::host) param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.cb.send = &UcpTransport::on_sent;
    param.user_data = operation.get();
    const ucs_status_ptr_t result =
        ucp_tag_send_nbx(connection.handle, data, static_cast<size_t>(bytes), make_tag(rank_, id), &param);
    track(result, std::move(operation), "ucp_tag_send_nbx");
  }

  void receive(int from, uint64_t id, void* data, int64_t bytes, MemoryKind memory,
               const TransferPtr& transfer) override {
    const std::lock_guard guard(mutex_);
    auto operation = std::make_unique<Operation>(Operation{this, transfer, from, nullptr});
    operation->receives = true;
    ucp_request_param_t param = data_params(memory);
    param.cb.recv = &UcpTransport::on_received;
    param.user_data = operation.get();
    constexpr ucp_tag_t kWholeTag = ~ucp_tag_t{0};
    const ucs_status_ptr_t result =
        ucp_tag_recv_nbx(worker_, data, static_cast<size_t>(bytes), make_tag(from, id), kWholeTag, &param);
    track(result, std::move(operation), "ucp_tag_recv_nbx");
  }

  bool moves(MemoryKind memory) const override { return memory != MemoryKind::cuda || moves_cuda_; }

  void abandon(int rank, const std::string& reason) override {
    const std::lock_guard guard(mutex_);
    connections_[rank].failed = true;
    lost_.emplace_back(rank, reason);
  }

  bool progress(TransportSink& sink) override {
    const std::lock_guard guard(mutex_);
    // A few rounds at a time: one call may stop after one message.
    constexpr int kRounds = 8;
    bool moved = false;
    for (int i = 0; i < kRounds && ucp_worker_progress(worker_) != 0; ++i) moved = true;
    moved |= !arrived_.empty();
    for (const Arrived& message : arrived_) deliver(message, sink);
    arrived_.clear();
    // Told outside UCX's callbacks, which may run in any call.
    for (const auto& [rank, reason] : lost_) {
      sink.report_lost(rank, reason);
      fail_operations(rank, reason);
      moved = true;
    }
    lost_.clear();
    return moved;
  }

  void wait_for_event(double seconds) override {
    {
      const std::lock_guard guard(mutex_);
      if (ucp_worker_arm(worker_) != UCS_OK) return;  // something is there already
    }
    pollfd fd{event_fd_, POLLIN, 0};
    const auto whole = static_cast<time_t>(seconds);
    const timespec limit{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
    ppoll(&fd, 1, &limit, nullptr);
  }

  void wake() override { ucp_worker_signal(worker_); }

  void close(TransportSink& sink, double seconds) override {
    auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    std::vector<ucs_status_ptr_t> closing;
    {
      const std::lock_guard guard(mutex_);
      // The memory of such receives is somebody else's by now: nothing may arrive any more.
      if (receives_abandoned_) end = {};
      for (auto& [rank, connection] : connections_) {
        if (connection.handle == nullptr) continue;
        const ucs_status_ptr_t request = close_connection(connection, connection.failed);
        if (UCS_PTR_IS_PTR(request)) closing.push_back(request);
      }
    }
    while (!closing.empty() && std::chrono::steady_clock::now() < end) {
      progress(sink);
      std::erase_if(closing, [](ucs_status_ptr_t request) {
        if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
        ucp_request_free(request);
        return true;
      });
      if (!closing.empty()) std::this_thread::yield();
    }
    // A rank that is stopped answers no close. UCX ends the process where its worker finds such a request unreleased.
    const std::lock_guard guard(mutex_);
    for (const ucs_status_ptr_t request : closing) ucp_request_free(request);
  }

 private:
  struct Connection {
    ucp_ep_h handle = nullptr;
    uint64_t sequence = 0;
    bool failed = false;
    bool watched = false;  // UCX tells when the peer fails; only then can it be closed by force
    UcpTransport* transport = nullptr;
    int rank = 0;
  };
  struct Incoming {
    uint64_t next = 0;
    std::map<uint64_t, std::vector<std::byte>> early;
  };
  struct Arrived {
    int from;
    uint64_t sequence;
    std::vector<std::byte> frame;
  };
  struct Operation {
    UcpTransport* transport;
    TransferPtr transfer;  // null: a frame
    int peer;
    std::unique_ptr<std::byte[]> frame;
    void* request = nullptr;
    bool receives = false;  // data
    bool over = false;      // its callback came before the call that started it returned
  };

  // The kind of memory is known, so UCX need not ask the driver for it.
  static ucp_request_param_t data_params(MemoryKind memory) {
    ucp_request_param_t param = {};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.memory_type = memory == MemoryKind::cuda ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
    return param;
  }

  Connection& connect(int to) {
    Connection& connection = connections_[to];
    if (connection.failed) throw CommError(fmt::format("rank {} cannot be reached any more", to));
    if (connection.handle != nullptr) return connection;
    connection.transport = this;
    connection.rank = to;
    ucp_ep_params_t params = {};
    params.field_mask =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    const std::string address = address_of_(to);
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    // UCX's shared memory has no peer failure handling, and asking for it would mean TCP inside a node. There a
    // launcher notices at once that a process died and ends the others.
    params.err_mode = is_on_node_(to) ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
    connection.watched = params.err_mode == UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = &UcpTransport::on_error;
    params.err_handler.arg = &connection;
    const ucs_status_t status = ucp_ep_create(worker_, &params, &connection.handle);
    if (status != UCS_OK) {
      connection.handle = nullptr;
      throw CommError(fmt::format("connecting to rank {}: {}", to, ucs_status_string(status)));
    }
    return connection;
  }

  static ucs_status_ptr_t close_connection(Connection& connection, bool force) {
    if (connection.handle == nullptr) return nullptr;
    ucp_request_param_t param = {};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = force && connection.watched ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    const ucs_status_ptr_t request = ucp_ep_close_nbx(connection.handle, &param);
    connection.handle = nullptr;
    return request;
  }

  // Whether there may be messages to a rank that does not take them and whose connection cannot be closed by force.
  bool waits_for_the_lost() const {
    return std::ranges::any_of(connections_, [](const auto& one) { return one.second.failed && !one.second.watched; });
  }

  // UCX ends the process when its worker is destroyed and finds such a message that answers a connection. So the worker
  // stays until the process ends, in the sight of leak checkers; nobody calls it, so nothing calls this object.
  void leave() {
    static std::mutex mutex;
    static auto& left = *new std::vector<std::pair<ucp_context_h, ucp_worker_h>>;
    const std::lock_guard guard(mutex);
    left.emplace_back(context_, worker_);
    for (Operation* operation : operations_) delete operation;
  }

  void destroy() {
    ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
    for (Operation* operation : operations_) delete operation;
  }

  // Keeps the operation until its callback, unless it is over already.
  void track(ucs_status_ptr_t result, std::unique_ptr<Operation> operation, const char* call) {
    if (UCS_PTR_IS_ERR(result)) {
      throw CommError(
          fmt::format("{} with rank {}: {}", call, operation->peer, ucs_status_string(UCS_PTR_STATUS(result))));
    }
    if (result == nullptr) {
      if (operation->transfer) operation->transfer->finish();
      return;
    }
    // A receive of several fragments that were all there calls back at once, and yet counts as under way.
    if (operation->over) return;
    operation->request = result;
    operations_.insert(operation.release());
  }

  void finish(Operation* operation, ucs_status_t status) {
    if (operation->transfer && operation->transfer->state == Transfer::State::pending) {
      if (status != UCS_OK) {
        operation->transfer->fail(fmt::format("transfer with rank {}: {}", operation->peer, ucs_status_string(status)));
      } else {
        operation->transfer->finish();
      }
    }
    operation->over = true;
    if (operations_.erase(operation) > 0) delete operation;
  }

  // Receives wait for a sender that will never come back.
  void fail_operations(int rank, const std::string& reason) {
    for (Operation* operation : std::vector<Operation*>(operations_.begin(), operations_.end())) {
      if (operation->peer != rank || operation->request == nullptr) continue;
      if (operation->transfer && operation->transfer->state == Transfer::State::pending) {
        operation->transfer->fail(fmt::format("transfer with rank {}: {}", rank, reason));
      }
      const bool receives = operation->receives;
      ucp_request_cancel(worker_, operation->request);
      // What has begun goes on: the data of a rank that was only stopped would still be written where it was to go.
      receives_abandoned_ |= receives && operations_.contains(operation);
    }
  }

  static void on_posted(void* request, ucs_status_t status, void* user_data) {
    auto* operation = static_cast<Operation*>(user_data);
    operation->transport->finish(operation, status);
    ucp_request_free(request);
  }
  static void on_sent(void* request, ucs_status_t status, void* user_data) { on_posted(request, status, user_data); }
  static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* /*info*/, void* user_data) {
    on_posted(request, status, user_data);
  }

  static void on_error(void* argument, ucp_ep_h /*handle*/, ucs_status_t status) {
    auto& connection = *static_cast<Connection*>(argument);
    connection.failed = true;
    connection.transport->lost_.emplace_back(connection.rank, ucs_status_string(status));
  }

  static ucs_status_t on_frame(void* argument, const void* /*header*/, size_t /*header_bytes*/, void* data,
                               size_t bytes, const ucp_am_recv_param_t* /*param*/) {
    auto& transport = *static_cast<UcpTransport*>(argument);
    FramePrefix prefix;
    if (bytes < sizeof prefix) return UCS_OK;
    std::memcpy(&prefix, data, sizeof prefix);
    const auto* frame = static_cast<const std::byte*>(data) + sizeof prefix;
    transport.arrived_.push_back(
        {static_cast<int>(prefix.from), prefix.sequence, {frame, frame + bytes - sizeof prefix}});
    return UCS_OK;
  }

  void deliver(const Arrived& message, TransportSink& sink) {
    Incoming& in = in_[message.from];
    if (message.sequence != in.next) {
      in.early.emplace(message.sequence, message.frame);
      return;
    }
    sink.receive_frame(message.from, message.frame);
    ++in.next;
    for (auto it = in.early.find(in.next); it != in.early.end(); it = in.early.find(in.next)) {
      sink.receive_frame(message.from, it->second);
      in.early.erase(it);
      ++in.next;
    }
  }

  const int rank_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  bool moves_cuda_ = false;
  std::function<std::string(int)> address_of_;
  std::function<bool(int)> is_on_node_;
  SpinMutex mutex_;                                  // of the worker and all below
  std::unordered_map<int, Connection> connections_;  // by rank; those of which anything was sent
  std::unordered_map<int, Incoming> in_;             // from which anything came
  std::vector<Arrived> arrived_;                     // since the last progress()
  std::unordered_set<Operation*> operations_;
  bool receives_abandoned_ = false;
  std::vector<std::pair<int, std::string>> lost_;
};

// By the states that the kernel shows.
bool other_threads_sleep() {
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    if (thread.path().filename() == std::to_string(gettid())) continue;
    std::string line;
    std::getline(std::ifstream(thread.path() / "stat"), line);
    const size_t name_end = line.rfind(')');
    if (name_end != std::string::npos && name_end + 2 < line.size() && line[name_end + 2] != 'S') return false;
  }
  return true;
}

}  // namespace

namespace {

// When it is loaded, UCX's library takes the signals of crashes and SIGHUP for itself; they belong to the program. This
// runs when quarry's library is loaded, which is later, so that a handler of the program's own is never in the way.
__attribute__((constructor)) void give_signals_back() {
  for (const char* variable : {"UCX_HANDLE_ERRORS", "UCX_ERROR_SIGNALS", "UCX_DEBUG_SIGNO"}) {
    if (local::environment(variable)) return;  // somebody wants them
  }
  for (const int signal : {SIGHUP, SIGILL, SIGBUS, SIGFPE, SIGSEGV}) ucs_debug_disable_signal(signal);
}

}  // namespace

void install_memory_hooks() {
  // OpenBLAS's threads take memory when they start, and sleep then.
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (!other_threads_sleep() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  const auto ignored = [](ucm_event_type_t, ucm_event_t*, void*) {};
  constexpr int kEvents = UCM_EVENT_VM_MAPPED | UCM_EVENT_VM_UNMAPPED;
  // The hooks stay when the handler goes. Without memory events (UCX_MEM_EVENTS=n) there are none.
  if (ucm_set_event_handler(kEvents, /*priority=*/0, ignored, nullptr) == UCS_OK)
    ucm_unset_event_handler(kEvents, ignored, nullptr);
}

namespace {

// UCX ends the process where it gets no descriptor or thread for itself.
void check_what_ucx_takes() {
  constexpr size_t kDescriptors = 32;
  std::vector<int> taken;
  while (taken.size() < kDescriptors) {
    const int one = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (one < 0) break;
    taken.push_back(one);
  }
  for (const int one : taken) ::close(one);
  if (taken.size() < kDescriptors) throw CommError("too few file descriptors are left (ulimit -n)");
  local::start_thread("UCX", [] {}).join();
}

}  // namespace

std::unique_ptr<UcxTransport> make_ucx_transport(int rank, int size, std::string& reason) try {
  check_what_ucx_takes();
  if (size >= (1 << kRankBits)) throw CommError(fmt::format("{} ranks are too many for a UCX tag", size));
  return std::make_unique<UcpTransport>(rank, size);
} catch (const local::Error& error) {
  reason = error.what();
  return nullptr;
}

}  // namespace quarry::comm::ucx
