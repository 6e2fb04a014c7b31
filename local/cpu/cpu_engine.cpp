#include "local/cpu/cpu_engine.h"

#include <algorithm>

#include "local/base/error.h"
#include "local/cpu/arena.h"
#include "local/cpu/code.h"
#include "local/cpu/interpreter.h"
#include "local/cpu/layout.h"
#include "local/cpu/linalg.h"
#include "local/memory/memory_resource.h"

namespace quarry::local {
namespace {

// Scratch of one call.
class Scratch {
 public:
  Scratch(int64_t bytes, const ExecContext& context) : bytes_(bytes), context_(context) {
    if (bytes_ > 0) data_ = context_.memory->allocate(bytes_, context_.stream);
  }
  ~Scratch() {
    if (data_) context_.memory->deallocate(data_, bytes_, context_.stream);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return data_; }

 private:
  const int64_t bytes_;
  const ExecContext& context_;
  void* data_ = nullptr;
};

int slots_for(int64_t units, int threads) {
  const int64_t most = threads > 0 ? threads : cpu::arena_threads();
  return static_cast<int>(std::clamp<int64_t>(units, 1, most));
}

class CpuEngine final : public Engine {
 public:
  int64_t run_scratch_bytes(const Program& program, const Launch& launch) override {
    const cpu::Code code = cpu::lower(program, loops_);
    const cpu::Layout layout = cpu::make_layout(code, launch);
    return cpu::interpreter_scratch_bytes(code, layout, slots_for(layout.units(), 0));
  }

  void run(const Program& program, const Launch& launch, const ExecContext& context) override {
    QUARRY_CHECK(static_cast<int>(launch.inputs.size()) == program.inputs());
    QUARRY_CHECK(launch.outputs.size() == program.outputs().size());
    const cpu::Code code = cpu::lower(program, loops_);
    const cpu::Layout layout = cpu::make_layout(code, launch);
    const int slots = slots_for(layout.units(), context.threads);
    const Scratch scratch(cpu::interpreter_scratch_bytes(code, layout, slots), context);
    cpu::interpret(code, layout, loops_, program.constants(), launch, static_cast<char*>(scratch.data()), slots);
  }

  int64_t gemm_scratch_bytes(DType dtype, const MatrixView& a, const MatrixView& b, const MatrixView& c) override {
    return cpu::gemm_scratch_bytes(dtype, a, b, c);
  }
  void gemm(DType dtype, double alpha, const MatrixView& a, const MatrixView& b, double beta, const MatrixView& c,
            const ExecContext& context) override {
    const Scratch scratch(cpu::gemm_scratch_bytes(dtype, a, b, c), context);
    cpu::gemm(dtype, alpha, a, b, beta, c, context.threads, scratch.data());
  }
  int64_t syrk_scratch_bytes(DType dtype, const MatrixView& a, const MatrixView& c) override {
    return cpu::syrk_scratch_bytes(dtype, a, c);
  }
  void syrk(DType dtype, double alpha, const MatrixView& a, double beta, const MatrixView& c,
            const ExecContext& context) override {
    const Scratch scratch(cpu::syrk_scratch_bytes(dtype, a, c), context);
    cpu::syrk(dtype, alpha, a, beta, c, context.threads, scratch.data());
  }
  int64_t eigh_scratch_bytes(DType dtype, int64_t n) override { return cpu::eigh_scratch_bytes(dtype, n); }
  void eigh(DType dtype, Triangle triangle, const MatrixView& a, void* values, const MatrixView& vectors,
            const ExecContext& context) override {
    const Scratch scratch(cpu::eigh_scratch_bytes(dtype, a.rows), context);
    cpu::eigh(dtype, triangle, a, values, vectors, scratch.data());
  }

 private:
  const cpu::Loops& loops_ = cpu::loops(cpu::cpu_level());
};

}  // namespace

Engine& cpu_engine() {
  static CpuEngine& engine = *new CpuEngine;  // never destroyed: work may end after static objects
  return engine;
}

}  // namespace quarry::local
