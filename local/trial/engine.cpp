// Scratch is taken as the engine behind states it, in one piece: its own pieces together take no more.
#include <fmt/format.h>

#include <array>
#include <functional>

#include "quarry/local/base/error.h"
#include "quarry/local/memory/scratch.h"
#include "quarry/local/program/relayed_engine.h"
#include "quarry/local/program/sparse.h"
#include "quarry/local/program/sparse_factors.h"
#include "quarry/local/trial/backend.h"

namespace quarry::local {
namespace {

// What a sparse product takes depends on where its values are, or is known to a vendor's library alone.
class TrialSparse final : public SparseProducts {
 public:
  void multiply(const SparseDenseProduct&, const ExecContext&) override { refuse("products"); }
  void multiply_sparse(const CompressedRows&, const CompressedRows&, void*, const AllocateCompressed&,
                       const ExecContext&) override {
    refuse("products");
  }
  void transpose(const SparseTranspose&, const ExecContext&) override { refuse("conversions"); }
  void solve(const SparseTriangularSolve&, const ExecContext&) override { refuse("triangular solves"); }
  int64_t factorise_incomplete(const CompressedRows&, void*, const ExecContext&) override { refuse("factorisations"); }

 private:
  [[noreturn]] static void refuse(const char* what) {
    throw NotSupported(
        fmt::format("{} of sparse matrices cannot be tried: their scratch depends on their values", what));
  }
};

class TrialRelay final : public Relay {
 public:
  explicit TrialRelay(DeviceKind kind) : kind_(kind) {}
  Engine& engine() override { return local::engine({kind_, 0}); }
  void issue(const ExecContext& context, int64_t scratch_bytes, std::function<void(const ExecContext&)>) override {
    const Scratch scratch(scratch_bytes, context);
  }
  SparseProducts& sparse() override { return sparse_; }

 private:
  const DeviceKind kind_;
  TrialSparse sparse_;
};

}  // namespace

Engine& trial_engine(DeviceKind kind) {
  constexpr auto kKinds = static_cast<size_t>(DeviceKind::trial);
  static const auto& engines = *new std::array<Engine*, kKinds>([] {  // never destroyed: as the others
    std::array<Engine*, kKinds> made{};
    for (size_t i = 0; i < kKinds; ++i) {
      made[i] = make_relayed_engine(*new TrialRelay(static_cast<DeviceKind>(i))).release();
    }
    return made;
  }());
  if (kind == DeviceKind::trial) throw InvalidArgument("a trial stands for a device that computes");
  return *engines[static_cast<size_t>(kind)];
}

}  // namespace quarry::local
