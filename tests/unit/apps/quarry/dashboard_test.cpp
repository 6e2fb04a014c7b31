// The live page, asked as curl and as a browser ask.
#include "quarry/apps/quarry/dashboard.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "quarry/local/base/error.h"

namespace quarry::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

DashboardOptions parsed(const std::string& place, const std::string& token) {
  constexpr auto kGiver = local::OptionGiver::command_line;
  return parse_dashboard({local::Option::dashboard, place, kGiver}, {local::Option::dashboard_token, token, kGiver});
}

TEST(Dashboard, OtherAddressesNeedAToken) {
  EXPECT_EQ(parsed("8080", "").address, "127.0.0.1");
  EXPECT_EQ(parsed("8080", "").port, 8080);
  EXPECT_EQ(parsed("[::1]:0", "").address, "::1");
  EXPECT_EQ(parsed("0.0.0.0:80", "secret-1").address, "0.0.0.0");
  EXPECT_THROW(parsed("0.0.0.0:80", ""), local::InvalidArgument);
  EXPECT_THROW(parsed("80", "a b"), local::InvalidArgument);
  for (const char* text : {"", "x", "-1", "65536", ":80", "1.2.3.4:", "80 "}) {
    EXPECT_THROW(parsed(text, "t"), local::InvalidArgument) << text;
  }
}

DashboardStatus sample() {
  DashboardStatus status;
  status.title = "quarry eval 'sum(x)' <&>\xff";
  status.banner = "2 ranks";
  status.step = "adding";
  status.seconds = 10;
  for (int rank = 0; rank < 2; ++rank) {
    Progress one;
    one.tasks_done = 10 + rank;
    one.tasks_total = 100;
    one.bytes_done = int64_t{1} << 30;
    one.bytes_total = int64_t{4} << 30;
    one.memory_used = 1 << 20;
    one.memory_limit = 2 << 20;
    one.busy_seconds[1] = 1.5;
    status.ranks.push_back(one);
  }
  return status;
}

TEST(Dashboard, StatusIsJsonWithSumsAndTimeLeft) {
  const nlohmann::json page = nlohmann::json::parse(status_json(sample()));
  EXPECT_EQ(page["all"]["tasks_done"], 21);
  EXPECT_EQ(page["all"]["fraction"], 0.25);
  EXPECT_EQ(page["all"]["left_seconds"], 30);
  EXPECT_EQ(page["all"]["queues"][1]["busy_seconds"], 3);
  EXPECT_EQ(page["ranks"][1]["tasks_done"], 11);
  EXPECT_EQ(page["ranks"][1]["rank"], 1);
  DashboardStatus status = sample();
  status.size = 100;  // then the second one stands for many
  EXPECT_EQ(nlohmann::json::parse(status_json(status))["ranks"][1]["rank"], "1 and others");
  const nlohmann::json nothing = nlohmann::json::parse(status_json({}));
  EXPECT_EQ(nothing["all"]["fraction"], 0);
  EXPECT_TRUE(nothing["all"]["left_seconds"].is_null());
}

#if QUARRY_HAVE_HTTP

// The whole answer to a request with these header lines.
std::string ask(int port, const std::string& path, const std::string& headers = "", const std::string& method = "GET") {
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
  if (connect(client, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
    close(client);
    return "refused";
  }
  const std::string host = headers.find("Host:") == std::string::npos ? "Host: 127.0.0.1\r\n" : "";
  const std::string request = method + " " + path + " HTTP/1.1\r\n" + host + headers + "Connection: close\r\n\r\n";
  static_cast<void>(!write(client, request.data(), request.size()));
  std::string answer;
  std::array<char, 4096> part{};
  for (ssize_t n = 0; (n = read(client, part.data(), part.size())) > 0;)
    answer.append(part.data(), static_cast<size_t>(n));
  close(client);
  return answer;
}

TEST(Dashboard, ServesThePageAndTheProgress) {
  std::atomic<int> asked = 0;
  const Dashboard dashboard({}, [&] {
    ++asked;
    return sample();
  });
  ASSERT_GT(dashboard.port(), 0);
  EXPECT_EQ(dashboard.url(), "http://127.0.0.1:" + std::to_string(dashboard.port()) + "/");
  const std::string page = ask(dashboard.port(), "/");
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(page, HasSubstr("<!DOCTYPE html>"));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy: default-src 'none'"));
  const std::string progress = ask(dashboard.port(), "/progress.json");
  EXPECT_THAT(progress, HasSubstr("application/json"));
  EXPECT_EQ(nlohmann::json::parse(progress.substr(progress.find("\r\n\r\n") + 4))["all"]["tasks_done"], 21);
  EXPECT_EQ(asked, 1);
  EXPECT_THAT(ask(dashboard.port(), "/other"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(ask(dashboard.port(), "/../etc/passwd"), Not(StartsWith("HTTP/1.1 200")));
  EXPECT_THAT(ask(dashboard.port(), "/", "Content-Length: 0\r\n", "POST"), Not(StartsWith("HTTP/1.1 200")));
  // Under another name, as a page elsewhere would make a browser ask.
  EXPECT_THAT(ask(dashboard.port(), "/progress.json", "Host: example.org\r\n"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(ask(dashboard.port(), "/", "Host: localhost:" + std::to_string(dashboard.port()) + "\r\n"),
              StartsWith("HTTP/1.1 200"));
  // The port is taken now.
  EXPECT_THROW(Dashboard(parsed(std::to_string(dashboard.port()), ""), [] { return DashboardStatus{}; }),
               local::IoError);
}

TEST(Dashboard, TokenIsAskedOfEveryRequest) {
  const Dashboard dashboard(parsed("0.0.0.0:0", "open-sesame"), [] { return sample(); });
  EXPECT_THAT(dashboard.url(), HasSubstr("?token=open-sesame"));
  EXPECT_THAT(dashboard.url(), Not(HasSubstr("0.0.0.0")));  // which is no address to go to
  for (const char* path : {"/", "/progress.json", "/?token=open", "/?token=open-sesamE", "/?token=open-sesame1"}) {
    EXPECT_THAT(ask(dashboard.port(), path), StartsWith("HTTP/1.1 403")) << path;
  }
  EXPECT_THAT(ask(dashboard.port(), "/?token=open-sesame"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask(dashboard.port(), "/progress.json", "Authorization: Bearer open-sesame\r\nHost: node7:80\r\n"),
              StartsWith("HTTP/1.1 200"));
}

TEST(Dashboard, EndsAtOnceAndManyTimes) {
  for (int i = 0; i < 20; ++i) {
    const Dashboard dashboard({}, [] { return sample(); });
    if (i % 2) ask(dashboard.port(), "/");
  }
}

TEST(Dashboard, AHeadlessBrowserShowsTheNumbers) {
  const std::string browser = "/usr/bin/chromium";
  if (!std::filesystem::exists(browser)) GTEST_SKIP() << "no " << browser;
  const Dashboard dashboard({}, [] { return sample(); });
  const std::string command =
      "timeout 120 " + browser +
      " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --virtual-time-budget=4000 --user-data-dir=" +
      ::testing::TempDir() + "dashboard-browser --dump-dom " + dashboard.url() + " 2>/dev/null";
  std::FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string page;
  std::array<char, 4096> part{};
  for (size_t n = 0; (n = fread(part.data(), 1, part.size(), pipe)) > 0;) page.append(part.data(), n);
  pclose(pipe);
  EXPECT_THAT(page, HasSubstr("quarry eval 'sum(x)' &lt;&amp;&gt;"));
  EXPECT_THAT(page, HasSubstr("<b>25.0 %</b>"));
  EXPECT_THAT(page, HasSubstr("30 s left"));
  EXPECT_THAT(page, HasSubstr("<td>11 / 100</td>"));
  EXPECT_THAT(page, HasSubstr("<td>compute</td>"));
  std::filesystem::remove_all(::testing::TempDir() + "dashboard-browser");
}

#endif

}  // namespace
}  // namespace quarry::apps
