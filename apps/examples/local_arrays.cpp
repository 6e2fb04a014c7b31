#include <quarry/local.h>

#include <cmath>
#include <iostream>
namespace ql = quarry::local;

int main() {
  using enum ql::DeviceKind;
  const ql::Device device{ql::available(cuda) ? cuda : cpu, 0};
  const ql::DeviceScope scope(device);  // where new arrays live

  const ql::NdArray days = ql::arange(250);
  const ql::NdArray prices = 100 + 5 * ql::sin(days * days / 900) + 0.1 * days;
  const ql::NdArray returns = ql::diff(ql::log(prices));
  const ql::NdArray windows = ql::sliding_window_view(returns, 20);
  const ql::NdArray volatility = windows.std(-1) * std::sqrt(252);
  const ql::NdArray calmest = volatility.argsort()[ql::slice(4)];
  std::cout << calmest << "\n" << volatility[calmest] << "\n";
}
