// What the example programs share: their options.
//   PROGRAM [--device cpu|cuda|emulated] [--size N] [--repeat N]
#pragma once

#include <quarry/local.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>

namespace examples {

inline constexpr int kNoDevice = 77;  // exit status: the device is not there

struct Options {
  quarry::local::Device device;
  int64_t size;
  int64_t repeat;

  // A GPU where there is one, else the CPU; `size` means something else in each program.
  Options(int argc, char** argv, int64_t default_size, int64_t default_repeat = 100)
      : size(default_size), repeat(default_repeat) {
    namespace ql = quarry::local;
    if (ql::available(ql::DeviceKind::cuda)) device.kind = ql::DeviceKind::cuda;
    for (int i = 1; i < argc; i += 2) {
      const std::string_view option = argv[i];
      const std::string value = i + 1 < argc ? argv[i + 1] : "";
      if (option == "--device" && ql::parse_device_kind(value))
        device.kind = *ql::parse_device_kind(value);
      else if (option == "--size" && std::atoll(value.c_str()) > 0)
        size = std::atoll(value.c_str());
      else if (option == "--repeat" && std::atoll(value.c_str()) > 0)
        repeat = std::atoll(value.c_str());
      else
        usage(argv[0]);
    }
    if (!ql::available(device.kind)) {
      std::cerr << "no device of kind " << ql::name(device.kind) << "\n";
      std::exit(kNoDevice);
    }
  }

  // Prints the times of a call, after at most two seconds.
  void time(const std::string& name, const std::function<void()>& call) const {
    quarry::local::BenchmarkOptions how;
    how.name = name;
    how.repeat = repeat;
    how.warmup = 2;
    how.max_duration = 2;
    std::cout << quarry::local::benchmark(call, how).to_string() << std::endl;
  }

 private:
  [[noreturn]] static void usage(const char* program) {
    std::cerr << "usage: " << program << " [--device cpu|cuda|emulated] [--size N] [--repeat N]\n";
    std::exit(2);
  }
};

// Prints and remembers what does not hold; the program ends with it.
class Checks {
 public:
  void expect(bool holds, const std::string& what) {
    std::cout << (holds ? "right: " : "WRONG: ") << what << std::endl;
    status_ = holds ? status_ : EXIT_FAILURE;
  }
  int status() const { return status_; }

 private:
  int status_ = EXIT_SUCCESS;
};

}  // namespace examples
