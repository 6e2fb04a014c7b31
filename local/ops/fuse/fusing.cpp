#include "quarry/local/ops/fuse/fusing.h"

#include "quarry/local/ops/reduction/states.h"

namespace quarry::local {

std::vector<NdArray> Fusing::run(const std::vector<Value>& values) {
  const ExecContext context = f_.context();
  const Dims shape = f_.shape();
  std::vector<NdArray> results;
  results.reserve(values.size());
  std::vector<const NdArray*> outputs;
  for (const Value& value : values) {
    const Value typed = f_.cast(value, f_.dtype(value));
    f_.program().output(f_.id(typed));
    results.emplace_back(shape, f_.dtype(typed), context);
    outputs.push_back(&results.back());
  }
  run_elementwise(f_.program(), f_.inputs(), outputs, context);
  return results;
}

std::vector<NdArray> Fusing::reduce(const Dims& space, uint32_t mask, const std::vector<Reduced>& terms) {
  const ExecContext context = f_.context();
  std::vector<size_t> first;  // the state that is the result
  size_t states = 0;
  for (const Reduced& term : terms) {
    check_reducible(term.reduction, space, mask);
    const Reduction reduction = executed_reduction(term.reduction, term.accumulate, context.device);
    const ReductionInfo& row = info(reduction);
    std::vector<ValueId> args{f_.id(f_.cast(term.value, term.accumulate))};
    if (row.has_position) args.push_back(reduced_position(f_.program(), space, mask));
    f_.program().reduce(reduction, args, term.accumulate);
    // Of the extreme and its position that which was asked for.
    first.push_back(states + (info(term.reduction).has_position ? 1 : 0));
    states += static_cast<size_t>(row.fields);
  }
  const std::vector<NdArray> all = run_reductions(f_.program(), f_.inputs(), space, mask, context);
  std::vector<NdArray> results;
  for (const size_t state : first) results.push_back(all[state]);
  return results;
}

}  // namespace quarry::local
