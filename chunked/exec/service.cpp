// A run's communication. One thread at a time makes progress on the network: it asks the communicator for what has
// arrived, gives requests to the server (fetch_server.h) and replies to the client (fetch_client.h). A compute thread
// that looks for work does it itself, so that what it waits for need not go from thread to thread and wakes nobody; a
// thread of the service's own does it when none has for a while, and sleeps when nothing comes. A run of one rank has
// no network: it needs that thread for what it fetches from itself only. A short run does without it: the thread that
// called run() makes progress between tasks and while it waits for the other ranks at the end.
//
// Failure: the first error of a rank cancels its executor and is posted to all ranks, which cancel theirs. A rank whose
// run has failed declines every fetch that it has not answered yet, so every fetch everywhere ends: with its data,
// or with an error. A rank leaves run() when all ranks have come to the consensus at its end, after their executors
// have ended; until then its threads go on answering. The consensus picks the error of the lowest rank that failed by
// itself, not in consequence of another's failure, and a cause before a cancellation. Messages of different ranks
// overtake each other, so what a rank heard of first says nothing about the cause; but a rank notes its own failure
// before it declines anything, and the question is asked again once somebody has failed: all executors have ended by
// then, so that every rank knows of its own failure.
#include "quarry/chunked/exec/service.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>

#include "quarry/chunked/exec/fetch_client.h"
#include "quarry/chunked/exec/fetch_server.h"
#include "quarry/chunked/exec/paths/paths.h"
#include "quarry/chunked/exec/service_messages.h"
#include "quarry/chunked/exec/stealing.h"
#include "quarry/comm/monitor/activity.h"
#include "quarry/comm/monitor/watchdog.h"
#include "quarry/local/base/log.h"
#include "quarry/local/base/thread.h"
#include "quarry/local/base/trace.h"
#include "quarry/local/memory/policy.h"

namespace quarry::exec {

namespace {

// Where the executor's failure handler finds the service, as long as there is one.
struct FailureReceiver {
  std::mutex mutex;
  std::function<void(const local::ErrorRecord&)> receive;
  std::function<void(int64_t segment)> recall;  // the same for the recall handler
};

// The same for threads that look for work; the thread that holds the lock makes progress.
struct Progress {
  std::mutex mutex;
  std::function<bool()> make_progress;
  std::atomic<std::thread::id> thread{};
  std::atomic<int64_t> made_ns{0};  // when a thread of the executor did so last
};

// A thread of the executor that has made progress is relied upon for so long; then the service's own thread has another
// look.
constexpr int64_t kRelianceNs = 100'000;

class ServiceImpl : public Service {
 public:
  ServiceImpl(comm::Communicator& communicator, scheduler::Executor& executor, uint64_t epoch, const Paths* paths,
              std::atomic<bool>* interrupt)
      : communicator_(communicator),
        executor_(executor),
        interrupt_(interrupt),
        own_paths_(paths == nullptr ? std::make_unique<Paths>(communicator, executor.device()) : nullptr),
        link_{communicator, executor, epoch, paths == nullptr ? *own_paths_ : *paths, 0, {}, {}},
        stealing_(communicator.rank(), communicator.size(), [this](int to, Message message) {
          message.epoch = link_.epoch;
          communicator_.post(to, encode(message));
        }) {}

  ~ServiceImpl() override { close(); }

  void open(int64_t piece_bytes);

  void expose(const BlockKey& key, scheduler::BlockId block) override { server_->expose(key, block); }
  void fetch(int owner, const BlockKey& key, const Hyperslab& hyperslab, void* to,
             std::function<void(std::exception_ptr)> done) override {
    if (owner == communicator_.rank()) {
      start_once();
      server_->fetch_own(key, hyperslab, to, std::move(done));
    } else {
      if (!is_short_) start_once();
      client_->fetch(owner, key, hyperslab, to, std::move(done));
    }
  }
  void run(scheduler::Graph& graph, bool is_short, LastWords* words) override;
  WorkStealing& stealing() override { return stealing_; }
  void publish_stolen(const BlockKey& key, std::shared_ptr<const std::byte> data) override {
    server_->publish_stolen(key, std::move(data));
  }
  int64_t bytes_sent() const override { return server_ ? server_->bytes_sent() : 0; }

 private:
  bool has_peers() const { return communicator_.size() > 1; }
  void start_once() {
    std::call_once(started_, [this] { start(); });
  }
  void start();
  bool try_start() noexcept;
  // Ends a collective call's or a run's wait for the thread, if there is one.
  void wake() {
    if (has_thread_) communicator_.wake();
  }
  void run_as_short(scheduler::Graph& graph);
  bool make_progress_alone();
  void loop();
  void watch();
  bool make_progress();
  bool is_relied_upon() const;
  // For the watchdog: a line for everything that this rank waits for.
  std::string describe_waits();
  bool handle_messages();
  void fail_local(const local::ErrorRecord& error, bool cancel);
  void fail_remote(const local::ErrorRecord& error);
  bool begin_failure(const local::ErrorRecord& error, bool own);
  // The error that all ranks throw. All say as many bytes; `words_of_all` gets those of every rank. Collective.
  std::optional<local::ErrorRecord> consensus(std::span<const std::byte> said, std::span<std::byte> words_of_all);
  void close() noexcept;

  comm::Communicator& communicator_;
  scheduler::Executor& executor_;
  std::atomic<bool>* const interrupt_;
  const std::unique_ptr<Paths> own_paths_;  // where none were given
  ServiceLink link_;
  WorkStealing stealing_;
  std::shared_ptr<FailureReceiver> failures_ = std::make_shared<FailureReceiver>();
  std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
  std::shared_ptr<FetchServer> server_;
  std::unique_ptr<FetchClient> client_;
  std::atomic<bool> stop_{false};
  bool opened_ = false;
  std::atomic<bool> is_short_{false};        // the thread in run() makes progress
  std::atomic<bool> thread_watches_{false};  // even where this rank is the only one
  std::atomic<bool> has_thread_{false};

  std::mutex mutex_;
  std::deque<std::pair<int, Message>> inbox_;
  std::vector<int64_t> recalls_;               // segments of device memory
  std::deque<std::pair<int, Message>> early_;  // requests of ranks that are in run() already; last come first
  std::atomic<bool> running_{false};           // this rank is in run(): all its blocks are exposed
  std::atomic<int64_t> calls_at_end_{0};       // collective calls that every rank must do before the run is over
  bool failed_ = false;
  bool own_failure_ = false;
  bool interrupted_ = false;  // of who watches, and of run() after that
  local::ErrorRecord error_;
  comm::Watchdog watchdog_;                       // of who watches
  int64_t done_ = -1, done_at_processor_ns_ = 0;  // the same
  std::chrono::steady_clock::time_point next_look_ = std::chrono::steady_clock::now();
  std::once_flag started_;
  std::thread thread_;
};

void ServiceImpl::open(int64_t piece_bytes) {
  const bool on_device = executor_.device().kind != local::DeviceKind::cpu;
  link_.segment_bytes = piece_bytes;
  link_.device = executor_.device();
  link_.fail = [this](const std::exception_ptr& failure) { fail_local(local::to_record(failure), /*cancel=*/true); };
  const local::Budget& budget = on_device ? executor_.host_budget() : executor_.memory_budget();
  int64_t least = staging_bytes(budget.limit_bytes(), on_device, communicator_.size());
  if (on_device) {  // beside the bounce buffers, which the executor has taken
    const int io_threads = executor_.config().io_threads;
    least += io_threads * local::memory_policy::bounce_bytes(budget.limit_bytes(), io_threads);
  }
  if (least > budget.limit_bytes()) {
    throw local::BudgetError(fmt::format("a budget of {} bytes of {} memory has no room for the {} bytes that buffers "
                                         "and messages between ranks need",
                                         budget.limit_bytes(), budget.tier(), least),
                             least);
  }
  server_ = std::make_shared<FetchServer>(link_);
  client_ = std::make_unique<FetchClient>(link_);
  failures_->receive = [this](const local::ErrorRecord& failure) { fail_local(failure, /*cancel=*/false); };
  executor_.set_failure_handler([receiver = failures_](const local::ErrorRecord& failure) {
    const std::lock_guard lock(receiver->mutex);
    if (receiver->receive) receiver->receive(failure);
  });
  failures_->recall = [this](int64_t segment) {
    {
      const std::lock_guard lock(mutex_);
      recalls_.push_back(segment);
    }
    wake();
  };
  executor_.set_recall_handler([receiver = failures_](int64_t segment) {
    const std::lock_guard lock(receiver->mutex);
    if (receiver->recall) receiver->recall(segment);
  });
  communicator_.set_handler([this](int from, std::span<const std::byte> bytes) {
    Message message = decode(bytes);
    if (message.epoch != link_.epoch) return;  // the end of an earlier run's failure
    if (message.kind == MessageKind::data) {
      client_->receive_data(from, message.request.fetch, message.data);
    } else {
      const std::lock_guard lock(mutex_);
      inbox_.emplace_back(from, std::move(message));
    }
    if (std::this_thread::get_id() != progress_->thread.load()) wake();
  });
  opened_ = true;
}

void ServiceImpl::start() {
  progress_->make_progress = [this] { return make_progress(); };
  executor_.set_idle_work([progress = progress_] {
    std::unique_lock progressing(progress->mutex, std::try_to_lock);
    if (progressing && progress->make_progress) {
      progress->made_ns = local::trace_clock_ns();
      if (progress->make_progress()) return;
      progressing.unlock();
    }
    std::this_thread::yield();
  });
  has_thread_ = true;
  thread_ = local::start_thread("messages", [this] { loop(); });
  comm::activity().looked_ns = local::trace_clock_ns();
}

bool ServiceImpl::begin_failure(const local::ErrorRecord& error, bool own) {
  const std::lock_guard lock(mutex_);
  if (failed_) {
    // A cancellation, perhaps in consequence of what is heard of only now, gives way to a cause. But after an interrupt
    // the launcher may take ranks away: that is its consequence.
    const bool launcher = own_failure_ && error.code == local::ErrorCode::comm;
    if (error_.code == local::ErrorCode::cancelled && error.code != local::ErrorCode::cancelled && !launcher) {
      own_failure_ = own;
      error_ = error;
    }
    return false;
  }
  failed_ = true;
  own_failure_ = own;
  error_ = error;
  return true;
}

void ServiceImpl::fail_local(const local::ErrorRecord& error, bool cancel) {
  if (!begin_failure(error, /*own=*/true)) return;
  if (cancel) executor_.cancel(error);
  Message message;
  message.kind = MessageKind::failed;
  message.epoch = link_.epoch;
  message.error = error;
  const std::vector<std::byte> bytes = encode(message);
  for (int r = 0; r < communicator_.size(); ++r) {
    if (r == communicator_.rank()) continue;
    try {
      communicator_.post(r, bytes);
    } catch (const local::Error& lost) {
      local::log(local::LogLevel::error, lost.what());
    }
  }
  const std::exception_ptr consequence = std::make_exception_ptr(local::Cancelled("the run failed: " + error.message));
  server_->decline_all(consequence);
  client_->fail_all(consequence);
  wake();
}

void ServiceImpl::fail_remote(const local::ErrorRecord& error) {
  if (!begin_failure(error, /*own=*/false)) return;
  executor_.cancel(error);
  const std::exception_ptr consequence = std::make_exception_ptr(local::Cancelled("the run failed: " + error.message));
  server_->decline_all(consequence);
  client_->fail_all(consequence);
}

bool ServiceImpl::handle_messages() {
  std::deque<std::pair<int, Message>> messages;
  std::vector<int64_t> recalls;
  const bool running = running_;
  {
    const std::lock_guard lock(mutex_);
    messages.swap(inbox_);
    recalls.swap(recalls_);
    if (running) {
      std::ranges::move(early_, std::front_inserter(messages));
      early_.clear();
    }
  }
  for (auto& [from, message] : messages) {
    switch (message.kind) {
      case MessageKind::fetch:
      case MessageKind::steal_request:
        if (!running) {
          early_.emplace_front(from, std::move(message));
        } else if (message.kind == MessageKind::steal_request) {
          stealing_.handle_request(from, message.request.key.stage, message.request.fetch);
        } else {
          server_->request(from, message);
        }
        break;
      case MessageKind::declined:
        fail_remote({local::ErrorCode::cancelled, fmt::format("rank {} gave up the run", from), 0});
        client_->handle_decline(from, message.request.fetch);
        break;
      case MessageKind::reply:
        client_->reply(from, message);
        break;
      case MessageKind::not_on_device:
        client_->fall_back(from, message.request.fetch);
        break;
      case MessageKind::done:
        server_->end_lease(from, message.request.fetch);
        break;
      case MessageKind::unreached:
        server_->forget_lease(from, message.request.fetch);
        break;
      case MessageKind::recall:
      case MessageKind::recalled:
        link_.paths.at(message.path).handle_recall(link_, from, message);
        break;
      case MessageKind::data:
        break;  // has been received at once
      case MessageKind::steal_reply:
        stealing_.handle_reply(from, message);
        break;
      case MessageKind::failed:
        fail_remote(message.error);
        break;
    }
  }
  for (const int64_t segment : recalls) link_.paths.recall(link_, segment);
  return !messages.empty() || !recalls.empty();
}

std::string ServiceImpl::describe_waits() {
  std::string text = executor_.describe_waits();
  if (text == "no run\n") text = "its own tasks are done; other ranks are not\n";
  return text + client_->describe() + server_->describe();
}

// With the progress's lock.
bool ServiceImpl::make_progress() {
  progress_->thread = std::this_thread::get_id();
  bool moved = false;
  try {
    moved = communicator_.progress();
    moved |= handle_messages();
    moved |= server_->poll();
    moved |= client_->poll();
  } catch (...) {
    fail_local(local::to_record(std::current_exception()), /*cancel=*/true);
  }
  progress_->thread = std::thread::id{};
  return moved;
}

bool ServiceImpl::is_relied_upon() const { return local::trace_clock_ns() - progress_->made_ns < kRelianceNs; }

// Interrupts, and a look at whether the run goes on.
void ServiceImpl::watch() {
  constexpr auto kLookPeriod = std::chrono::milliseconds(100);
  if (interrupt_ != nullptr && interrupt_->exchange(false)) {
    interrupted_ = true;
    fail_local({local::ErrorCode::cancelled, "interrupted", 0}, /*cancel=*/true);
  }
  if (const auto now = std::chrono::steady_clock::now(); now >= next_look_) {
    next_look_ = now + kLookPeriod;
    comm::Activity& activity = comm::activity();
    activity.looked_ns = local::trace_clock_ns();
    if (!running_) return;
    const scheduler::Progress progress = executor_.progress();
    const int64_t done = progress.tasks_done + client_->arrived_segments() + server_->bytes_sent();
    activity.running = progress.running;
    if (done != done_) {
      done_ = done;
      done_at_processor_ns_ = comm::processor_ns();
      ++activity.progress;
    }
    if (watchdog_.is_stalled(done)) {
      const double processor = static_cast<double>(comm::processor_ns() - done_at_processor_ns_) / 1e9;
      local::log(
          local::LogLevel::warn,
          fmt::format("no progress for {:.3g} s; this rank {}; it waits for:\n{}", watchdog_.seconds(),
                      comm::describe_standstill(progress.running, processor, watchdog_.seconds(), comm::core_share()),
                      describe_waits()));
    }
  }
}

void ServiceImpl::loop() {
  prctl(PR_SET_TIMERSLACK, 1);  // nanoseconds; else 50 us, as long as the naps
  constexpr int kSpins = 40;
  constexpr auto kNap = std::chrono::microseconds(10);
  constexpr double kSleepSeconds = 0.02;  // and then a look at what no message announces: interrupts, ranks that left
  int idle = 0;
  // The transport may need the device to be this thread's current one, which making anything of the device does.
  std::unique_ptr<local::DeviceEvent> on_this_device;
  try {
    if (link_.device.kind != local::DeviceKind::cpu) {
      on_this_device = local::backend(link_.device.kind).create_event(link_.device.index);
    }
  } catch (...) {
    fail_local(local::to_record(std::current_exception()), /*cancel=*/true);
  }
  while (!stop_) {
    const bool relies = is_relied_upon();
    bool moved = false;
    if (!relies) {
      const std::lock_guard progressing(progress_->mutex);
      moved = make_progress();
    }
    if (idle >= kSpins) {
      try {
        communicator_.check_ranks(calls_at_end_);
      } catch (...) {
        fail_local(local::to_record(std::current_exception()), /*cancel=*/true);
      }
    }
    if (has_peers() || thread_watches_) watch();
    if (relies) {
      idle = kSpins;
      std::this_thread::sleep_for(std::chrono::nanoseconds(kRelianceNs));
    } else if (moved) {
      idle = 0;
    } else if (++idle < kSpins) {
      std::this_thread::yield();
    } else if (client_->must_be_polled()) {
      std::this_thread::sleep_for(kNap);
    } else {
      communicator_.wait_for_event(kSleepSeconds);
    }
  }
}

// All in one number, the weight of the error that weighs most and the lowest rank that has it: the largest is wanted.
std::optional<local::ErrorRecord> ServiceImpl::consensus(std::span<const std::byte> said,
                                                         std::span<std::byte> words_of_all) {
  // Who was done first in a short run serves the others meanwhile; the thread does if it takes them long.
  constexpr int64_t kWhileNs = 1'000'000;
  struct Waiting {
    comm::Communicator& communicator;
    ~Waiting() { communicator.set_waiting_work(nullptr); }
  } const waiting{communicator_};
  if (is_short_ && has_peers()) {
    communicator_.set_waiting_work([this, until = local::trace_clock_ns() + kWhileNs] {
      if (is_short_ && local::trace_clock_ns() >= until) is_short_ = !try_start();
      return is_short_ ? make_progress_alone() : communicator_.progress();
    });
  }
  local::ErrorRecord error;
  // With the words that were said, where there are any.
  const auto exchange = [&](std::span<const std::byte> said) {
    constexpr int64_t kRanks = int64_t{1} << 32;
    int64_t heaviest[] = {0};
    {
      const std::lock_guard lock(mutex_);
      error = error_;
      const bool is_cause = error_.code != local::ErrorCode::cancelled;
      const int weight = !failed_ ? 0 : 1 + (own_failure_ ? 1 : 0) + (is_cause ? 2 : 0);
      heaviest[0] = (weight + 1) * kRanks - 1 - communicator_.rank();
    }
    if (said.empty()) {
      communicator_.all_reduce(heaviest, comm::ReduceOp::max);
    } else {
      const size_t bytes = sizeof heaviest + said.size();
      std::vector<std::byte> sent(bytes), received(bytes * static_cast<size_t>(communicator_.size()));
      std::memcpy(sent.data(), heaviest, sizeof heaviest);
      std::ranges::copy(said, sent.begin() + sizeof heaviest);
      communicator_.all_gather(sent.data(), std::ssize(sent), received.data());
      for (size_t r = 0; r * bytes < received.size(); ++r) {
        int64_t weight = 0;
        std::memcpy(&weight, &received[r * bytes], sizeof weight);
        heaviest[0] = std::max(heaviest[0], weight);
        std::ranges::copy(std::span(received).subspan(r * bytes + sizeof heaviest, said.size()),
                          words_of_all.begin() + static_cast<std::ptrdiff_t>(r * said.size()));
      }
    }
    const int64_t weight = heaviest[0] / kRanks;
    return std::pair(weight > 0, static_cast<int>((weight + 1) * kRanks - 1 - heaviest[0]));
  };
  if (!exchange(said).first) return std::nullopt;
  const int rank = exchange({}).second;  // every executor has ended by now: whoever failed by itself knows it
  struct Fixed {
    int64_t code, detail;
  } fixed{static_cast<int64_t>(error.code), error.detail};
  communicator_.broadcast(&fixed, sizeof fixed, rank);
  const auto code = static_cast<local::ErrorCode>(fixed.code);
  std::string text = communicator_.broadcast_string(error.message, rank);
  if (has_peers() && code != local::ErrorCode::cancelled) text += fmt::format(" [rank {}]", rank);
  return local::ErrorRecord{code, text, fixed.detail};
}

// False where there is no thread to be had: then the run fails.
bool ServiceImpl::try_start() noexcept try {
  start_once();
  return true;
} catch (...) {
  fail_local(local::to_record(std::current_exception()), /*cancel=*/true);
  return false;
}

bool ServiceImpl::make_progress_alone() {
  const std::unique_lock progressing(progress_->mutex, std::try_to_lock);
  return progressing && make_progress();
}

void ServiceImpl::run_as_short(scheduler::Graph& graph) {
  is_short_ = thread_watches_ = true;
  const scheduler::ShortRun how{[this] {
                                  if (!has_peers() || !make_progress_alone()) std::this_thread::yield();
                                },
                                [this] { is_short_ = !try_start(); }};
  // Where no thread was to be had, this one goes on until the fetches have ended.
  const auto watch = [this] {
    if (is_short_) make_progress_alone();
  };
  executor_.run(graph, watch, &how);
}

void ServiceImpl::run(scheduler::Graph& graph, bool is_short, LastWords* words) {
  QUARRY_CHECK(opened_);
  is_short = is_short && link_.device.kind == local::DeviceKind::cpu;
  calls_at_end_ = communicator_.calls() + 1;
  running_ = true;
  std::vector<std::byte> said(words == nullptr ? 0 : static_cast<size_t>(words->bytes));
  std::vector<std::byte> words_of_all(said.size() * static_cast<size_t>(communicator_.size()));
  try {
    if (is_short || !has_peers()) watch();  // an interrupt since the last run
    if (is_short) {
      run_as_short(graph);
    } else if (has_peers()) {
      start_once();
      wake();
      executor_.run(graph);
    } else {
      executor_.run(graph, [this] { watch(); });
    }
    if (words != nullptr) words->write(said.data());
  } catch (...) {
    // An error before the run began has not come through the handler; any other is known already.
    fail_local(local::to_record(std::current_exception()), /*cancel=*/false);
    // There may be no thread to be had: the others still wait for an answer to what they fetch.
    if (!thread_.joinable()) is_short_ = true;
  }
  std::optional<local::ErrorRecord> outcome;
  std::exception_ptr lost;
  try {
    outcome = consensus(said, words_of_all);
  } catch (...) {
    lost = std::current_exception();
  }
  is_short_ = false;
  close();
  if (lost) {
    // A rank is gone: what this one knows about it says more than a collective call that ended.
    const std::lock_guard lock(mutex_);
    if (own_failure_ || (failed_ && error_.code != local::ErrorCode::cancelled)) local::throw_record(error_);
    std::rethrow_exception(lost);
  }
  if (!outcome) {
    // An interrupt that came when all were done is for the next run.
    if (interrupted_) *interrupt_ = true;
    if (words != nullptr) words->all = std::move(words_of_all);
    return;
  }
  // It may have been sent to several ranks at once.
  if (outcome->code == local::ErrorCode::cancelled && interrupt_ != nullptr) *interrupt_ = false;
  local::throw_record(*outcome);
}

void ServiceImpl::close() noexcept {
  if (!opened_) return;
  opened_ = false;
  stop_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
  comm::activity().looked_ns = 0;
  comm::activity().running = 0;
  executor_.set_idle_work(nullptr);
  {
    const std::lock_guard progressing(progress_->mutex);
    progress_->make_progress = nullptr;
  }
  communicator_.set_handler(nullptr);
  {
    const std::lock_guard lock(failures_->mutex);
    failures_->receive = nullptr;
    failures_->recall = nullptr;
  }
  executor_.set_failure_handler(nullptr);
  executor_.set_recall_handler(nullptr);
  executor_.clear_cancel();
  server_->stop();
}

}  // namespace

std::unique_ptr<Service> Service::create(comm::Communicator& communicator, scheduler::Executor& executor,
                                         uint64_t epoch, const Paths* paths, std::atomic<bool>* interrupt,
                                         int64_t piece_bytes) {
  if (piece_bytes > 0) {
    auto service = std::make_unique<ServiceImpl>(communicator, executor, epoch, paths, interrupt);
    service->open(piece_bytes);
    return service;
  }
  piece_bytes = agree_on_pieces(communicator, executor);
  std::unique_ptr<Service> service;
  std::exception_ptr error;
  try {
    service = create(communicator, executor, epoch, paths, interrupt, piece_bytes);
  } catch (...) {
    error = std::current_exception();
  }
  comm::agree(communicator, error, {"Service", epoch});
  return service;
}

int64_t Service::agree_on_pieces(comm::Communicator& communicator, scheduler::Executor& executor) {
  const bool on_device = executor.device().kind != local::DeviceKind::cpu;
  const local::Budget& budget = on_device ? executor.host_budget() : executor.memory_budget();
  int64_t bytes = local::memory_policy::message_piece_bytes(budget.limit_bytes());
  communicator.all_reduce(std::span(&bytes, 1), comm::ReduceOp::min);
  return bytes;
}

int Service::message_buffers(bool on_device) {
  int buffers = FetchServer::kBuffers + 1;
  for (const PathRow& row : path_rows()) {
    if ((row.fills == Fills::device) == on_device) buffers += row.buffers;
  }
  return buffers;
}

int64_t Service::staging_bytes(int64_t staging_limit, bool on_device, int ranks) {
  return ranks == 1 ? 0 : local::memory_policy::message_bytes(staging_limit, message_buffers(on_device));
}

int64_t Service::bytes_for_tasks(int64_t memory_bytes, bool on_device) {
  return std::max<int64_t>(local::memory_policy::task_bytes(memory_bytes, on_device, message_buffers(on_device)), 0);
}

void fetch_output(Service& service, scheduler::TaskRun& run, int owner, const BlockKey& key,
                  const Hyperslab& hyperslab) {
  auto completion = run.defer();
  service.fetch(owner, key, hyperslab, run.outputs[0].data, [completion](const std::exception_ptr& error) {
    if (error) {
      completion->fail(error);
    } else {
      completion->finish();
    }
  });
}

}  // namespace quarry::exec
