// A program over several launches at once.
#include <cstring>
#include <deque>

#include "quarry/local/program/engine.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

using test::doubles;

class SeveralLaunches : public test::OnDevice {
 protected:
  // x * 2 + position, and its sum along the axes that `axes` names.
  struct Job {
    NdArray x, y, sum;
    Launch launch;
  };
  static Program program() {
    Program p;
    const ValueId two = p.constant(Scalar(2.0), DType::float64), x = p.input(DType::float64);
    const ValueId terms[] = {p.apply("multiply"_op, std::array{x, two}), p.cast(p.index(0), DType::float64)};
    const ValueId y = p.apply("add"_op, terms);
    p.output(y);
    p.reduce("sum"_reduction, std::array{y}, DType::float64);
    return p;
  }
  Job job(const Dims& shape, uint32_t axes, int64_t offset) const {
    const ExecContext context = current_context();
    Job job{test::arange(shape).astype(DType::float64), NdArray(shape, DType::float64, context), {}, {}};
    Dims kept, strides = Dims::filled(shape.size());
    for (int d = 0; d < shape.size(); ++d)
      if ((axes >> d & 1u) == 0) kept.push_back(shape[d]);
    int64_t step = sizeof(double);
    for (int d = shape.size(); d-- > 0;)
      if ((axes >> d & 1u) == 0) strides[d] = std::exchange(step, step * shape[d]);
    job.sum = NdArray(kept, DType::float64, context);
    job.launch.shape = shape;
    job.launch.index_offset = Dims::filled(shape.size(), offset);
    job.launch.inputs.push_back({job.x.raw(), job.x.strides()});
    job.launch.outputs.push_back({job.y.raw(), job.y.strides()});
    job.launch.reduce_axes = axes;
    job.launch.states.push_back({job.sum.raw(), strides});
    return job;
  }
};

TEST_P(SeveralLaunches, GiveTheBitsOfEachAlone) {
  const Program p = program();
  const ExecContext context = current_context();
  Engine& engine = local::engine(context.device);
  for (const uint32_t axes : {1u, 2u, 3u}) {
    // More than a kernel takes, and others among them.
    std::deque<Job> jobs;
    for (int i = 0; i < 150; ++i) jobs.push_back(job(i % 50 == 20 ? Dims{7, 9} : Dims{70, 90}, axes, 10 * i));
    for (int i = 0; i < 3; ++i) jobs.push_back(job(Dims{3, 400'000}, axes, i));  // several blocks per result
    jobs.push_back(job(Dims{0, 5}, axes, 0));
    std::vector<Launch> launches;
    for (const Job& each : jobs) launches.push_back(each.launch);
    engine.run_each(p, launches, std::vector<ExecContext>(launches.size(), context));
    for (const Job& each : jobs) {
      const std::vector<double> y = doubles(each.y), sum = doubles(each.sum);
      engine.run(p, each.launch, context);
      ASSERT_EQ(y, doubles(each.y));
      ASSERT_EQ(sum, doubles(each.sum));
    }
    EXPECT_EQ(doubles(jobs[1].y)[91], 2 * 91 + 10 + 1);
  }
}

TEST_P(SeveralLaunches, OfNone) { engine(current_context().device).run_each(program(), {}, {}); }

QUARRY_ON_EVERY_DEVICE(SeveralLaunches);

}  // namespace
}  // namespace quarry::local
