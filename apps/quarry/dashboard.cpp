#include "quarry/apps/quarry/dashboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "quarry/apps/quarry/dashboard_page.h"
#include "quarry/apps/quarry/options.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/message.h"
#include "quarry/local/base/thread.h"

#if QUARRY_HAVE_HTTP
#include <httplib.h>
#endif

namespace quarry::apps {

using local::InvalidArgument;

namespace {

bool is_loopback(const std::string& address) {
  return address == "127.0.0.1" || address == "::1" || address == "localhost";
}

}  // namespace

DashboardOptions parse_dashboard(const local::OptionValue& place, const local::OptionValue& secret) {
  const std::string &text = place.text(), &token = secret.text();
  DashboardOptions options;
  options.token = token;
  const size_t colon = text.rfind(':');
  if (colon != std::string::npos) {
    options.address = text.substr(0, colon);
    if (options.address.size() > 2 && options.address.front() == '[' && options.address.back() == ']') {
      options.address = options.address.substr(1, options.address.size() - 2);
    }
  }
  const int64_t port = parse_integer(colon == std::string::npos ? text : text.substr(colon + 1), place.source());
  constexpr int64_t kMostPort = 65535;
  if (port < 0 || port > kMostPort || options.address.empty()) {
    throw InvalidArgument(place.source() + " takes [ADDRESS:]PORT with a port of 0 to 65535, not '" +
                          local::excerpt(text) + "'");
  }
  options.port = static_cast<int>(port);
  const bool plain =
      std::ranges::all_of(token, [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; });
  if (!plain) throw InvalidArgument(secret.source() + " takes letters, digits, '-' and '_'");
  if (token.empty() && !is_loopback(options.address)) {
    throw InvalidArgument(place.source() + " " + text +
                          ": an address other than 127.0.0.1 needs a token (QUARRY_DASHBOARD_TOKEN)");
  }
  return options;
}

namespace {

nlohmann::json progress_json(const Progress& progress) {
  return {{"tasks_done", progress.tasks_done},         {"tasks_total", progress.tasks_total},
          {"bytes_done", progress.bytes_done},         {"bytes_total", progress.bytes_total},
          {"memory_used", progress.memory_used},       {"memory_limit", progress.memory_limit},
          {"host_used", progress.host_used},           {"host_limit", progress.host_limit},
          {"disk_used", progress.disk_used},           {"spilled_bytes", progress.spilled_bytes},
          {"restored_bytes", progress.restored_bytes}, {"stolen_chunks", progress.stolen_chunks}};
}

}  // namespace

std::string status_json(const DashboardStatus& status) {
  const Progress sum = total(status.ranks);
  nlohmann::json all = progress_json(sum);
  const double fraction = sum.fraction();
  all["fraction"] = fraction;
  all["left_seconds"] = nullptr;
  if (fraction > 0) all["left_seconds"] = status.seconds * (1 - fraction) / fraction;
  all["queues"] = nlohmann::json::array();
  for (int queue = 0; queue < kQueueCount; ++queue) {
    all["queues"].push_back({{"name", queue_name(queue)}, {"busy_seconds", sum.busy_seconds[queue]}});
  }
  nlohmann::json ranks = nlohmann::json::array();
  for (size_t rank = 0; rank < status.ranks.size(); ++rank) {
    ranks.push_back(progress_json(status.ranks[rank]));
    ranks.back()["rank"] = rank;
    if (rank > 0 && static_cast<size_t>(status.size) > status.ranks.size())
      ranks.back()["rank"] = fmt::format("{} and others", rank);
  }
  const nlohmann::json page = {{"title", status.title}, {"banner", status.banner},
                               {"step", status.step},   {"seconds", status.seconds},
                               {"done", status.done},   {"all", all},
                               {"ranks", ranks}};
  return page.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

#if QUARRY_HAVE_HTTP

namespace {

// In a time that does not tell how much of it is right.
bool same_token(const std::string& given, const std::string& token) {
  unsigned different = given.size() == token.size() ? 0 : 1;
  for (size_t i = 0; i < token.size(); ++i) {
    const char c = i < given.size() ? given[i] : '\0';
    different |= static_cast<unsigned char>(c) ^ static_cast<unsigned char>(token[i]);
  }
  return different == 0;
}

// A page elsewhere can make a browser ask this machine under a name of its own, which the request then carries.
bool names_loopback(std::string host) {
  const size_t colon = host.rfind(':');
  if (colon != std::string::npos && host.find(']', colon) == std::string::npos) host.resize(colon);
  return host == "127.0.0.1" || host == "localhost" || host == "[::1]";
}

}  // namespace

// Threads that answer requests. The server's own ones end the process where the system has no more.
class RequestThreads final : public httplib::TaskQueue {
 public:
  explicit RequestThreads(int count) {
    try {
      for (int i = 0; i < count; ++i) threads_.push_back(local::start_thread("requests", [this] { work(); }));
    } catch (...) {
      shutdown();
      throw;
    }
  }
  ~RequestThreads() override { shutdown(); }
  RequestThreads(const RequestThreads&) = delete;
  RequestThreads& operator=(const RequestThreads&) = delete;

  void enqueue(std::function<void()> request) override {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(std::move(request));
    }
    wake_.notify_one();
  }
  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return over_ || !requests_.empty(); });
      if (requests_.empty()) return;
      const std::function<void()> request = std::move(requests_.front());
      requests_.pop_front();
      lock.unlock();
      request();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> requests_;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

struct Dashboard::Impl {
  DashboardOptions options;
  std::function<DashboardStatus()> status;
  httplib::Server server;
  std::unique_ptr<RequestThreads> request_threads;  // until the server has them
  std::thread thread;
  int port = 0;

  bool allowed(const httplib::Request& request) const {
    if (options.token.empty()) return names_loopback(request.get_header_value("Host"));
    const std::string bearer = "Bearer " + options.token;
    return same_token(request.get_param_value("token"), options.token) ||
           same_token(request.get_header_value("Authorization"), bearer);
  }

  void start() {
    constexpr int kThreads = 4;
    constexpr size_t kLongestRequest = 8192;
    request_threads = std::make_unique<RequestThreads>(kThreads);
    server.new_task_queue = [this] { return request_threads.release(); };
    // Not SO_REUSEPORT, which would let two programs have one port.
    server.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server.set_payload_max_length(kLongestRequest);
    server.set_keep_alive_timeout(1);
    server.set_read_timeout(2);
    server.set_default_headers(
        {{"Cache-Control", "no-store"},
         {"X-Content-Type-Options", "nosniff"},
         {"Referrer-Policy", "no-referrer"},
         {"Content-Security-Policy",
          "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"}});
    server.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      if (allowed(request)) return httplib::Server::HandlerResponse::Unhandled;
      response.status = 403;
      response.set_content("quarry: not allowed\n", "text/plain");
      return httplib::Server::HandlerResponse::Handled;
    });
    server.Get("/", [](const httplib::Request&, httplib::Response& response) {
      response.set_content(kDashboardPage, "text/html; charset=utf-8");
    });
    server.Get("/progress.json", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(status_json(status()), "application/json");
    });
    if (options.port == 0) {
      port = server.bind_to_any_port(options.address.c_str());
    } else {
      port = server.bind_to_port(options.address.c_str(), options.port) ? options.port : -1;
    }
    if (port <= 0) {
      throw local::IoError(fmt::format("--dashboard: port {} of {} cannot be had", options.port, options.address));
    }
    thread = local::start_thread("the dashboard", [this] { server.listen_after_bind(); });
  }
  ~Impl() {
    if (!thread.joinable()) return;
    while (!server.is_running()) std::this_thread::yield();  // stop() before that would be lost
    server.stop();
    thread.join();
  }
};

Dashboard::Dashboard(const DashboardOptions& options, std::function<DashboardStatus()> status)
    : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
  impl_->status = std::move(status);
  impl_->start();
}

int Dashboard::port() const { return impl_->port; }

std::string Dashboard::url() const {
  std::string address = impl_->options.address;
  if (address == "0.0.0.0" || address == "::") {  // all of this machine's: a browser wants one
    std::array<char, 256> host{};
    if (gethostname(host.data(), host.size() - 1) == 0 && host[0] != '\0') address = host.data();
  }
  const bool six = address.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}/{}", six ? "[" : "", address, six ? "]" : "", impl_->port,
                     impl_->options.token.empty() ? "" : "?token=" + impl_->options.token);
}

#else

struct Dashboard::Impl {};

Dashboard::Dashboard(const DashboardOptions& /*options*/, std::function<DashboardStatus()> /*status*/) {
  throw InvalidArgument("--dashboard: this program was built without cpp-httplib (libcpp-httplib-dev)");
}

int Dashboard::port() const { return 0; }
std::string Dashboard::url() const { return {}; }

#endif

Dashboard::~Dashboard() = default;

}  // namespace quarry::apps
