#include <quarry/local.h>

#include <cmath>
#include <iostream>
namespace ql = quarry::local;

int main() {
  const auto device = ql::available(ql::DeviceKind::cuda) ? ql::DeviceKind::cuda : ql::DeviceKind::cpu;
  const ql::DeviceScope scope(ql::Device{device, 0});  // where new arrays live

  const ql::NdArray days = ql::arange(250);
  const ql::NdArray prices = 100 + 5 * ql::sin(days * days / 900) + 0.1 * days;
  const ql::NdArray returns = ql::diff(ql::log(prices));
  const ql::NdArray volatility = ql::std(ql::sliding_window_view(returns, 20), -1) * std::sqrt(252);
  const ql::NdArray calmest = ql::argsort(volatility)[{ql::Slice{0, 4, {}}}];
  std::cout << calmest.to_string() << "\n" << ql::take(volatility, calmest).to_string() << "\n";
}
