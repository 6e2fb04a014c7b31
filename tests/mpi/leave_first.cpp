// The root of the last broadcast has left the job before the others come to that broadcast: no error.
#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <vector>

#include "quarry/comm/communicator.h"
#include "quarry/comm/world/world.h"

int main(int argc, char** argv) {
  using namespace quarry;
  auto job = comm::world(&argc, &argv);
  job->barrier();
  std::vector<int> data(1000, job->rank() == 0 ? 7 : 0);
  const auto bytes = static_cast<int64_t>(data.size() * sizeof(int));
  if (job->rank() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(300 * job->rank()));
  try {
    job->broadcast(data.data(), bytes, /*root=*/0);
  } catch (const local::CommError& error) {
    fmt::print(stderr, "rank {}: {}\n", job->rank(), error.what());
    return 1;
  }
  return data.back() == 7 ? 0 : 1;
}
