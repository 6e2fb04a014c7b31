// Several elementwise operations as one program: one read of each argument, one kernel.
#pragma once

#include <array>
#include <deque>

#include "quarry/local/base/detail.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/arguments.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/program/program.h"

namespace quarry::local {

class Fused {
 public:
  // A value of the program, or a literal that has not met an array yet (weak).
  class Value {
   public:
    Value(const Scalar& scalar) : literal_(scalar) {}
    template <class T>
    requires std::is_arithmetic_v<T> Value(T literal) : literal_(Scalar(literal)) {}

   private:
    friend class Fused;
    // Not a constructor: a literal is an int too.
    static Value of(ValueId id) {
      Value value(Scalar{});
      value.id_ = id;
      return value;
    }
    ValueId id_ = -1;
    Scalar literal_;
  };

  Value input(const NdArray& array) {
    arrays_.push_back(array);
    return Value::of(program_.input(array.dtype()));
  }
  Value input(const Arg& arg) { return arg.array() ? input(*arg.array()) : Value(arg.scalar()); }
  Value cast(const Value& x, DType dtype) {
    return Value::of(x.id_ < 0 ? program_.constant(x.literal_, dtype) : program_.cast(x.id_, dtype));
  }
  template <class... Values>
  Value operator()(Op op, const Values&... values) {
    const std::array<Value, sizeof...(Values)> args{Value(values)...};
    std::array<PromotionOperand, sizeof...(Values)> operands{};
    for (size_t i = 0; i < args.size(); ++i)
      operands[i] = args[i].id_ < 0 ? PromotionOperand{args[i].literal_.dtype(), args[i].literal_.weak()}
                                    : PromotionOperand{program_.dtype(args[i].id_), false};
    const OpTypes types = resolve(op, operands);
    std::array<ValueId, sizeof...(Values)> ids{};
    for (size_t i = 0; i < args.size(); ++i) {
      ids[i] = args[i].id_;
      if (ids[i] >= 0) continue;
      const OpRule rule = info(op).rule;
      if (args[i].literal_.weak() && rule != OpRule::comparison && rule != OpRule::logical && rule != OpRule::select)
        check_weak_fits(args[i].literal_, types.args[i]);
      ids[i] = program_.constant(args[i].literal_, types.args[i]);
    }
    return Value::of(program_.apply(op, ids));
  }
  DType dtype(const Value& x) const { return x.id_ < 0 ? x.literal_.dtype() : program_.dtype(x.id_); }

  // The shape that the inputs broadcast to.
  Dims shape() const {
    std::vector<Dims> shapes{Dims{}};
    for (const NdArray& array : arrays_) shapes.push_back(array.shape());
    return broadcast_shapes(shapes);
  }
  NdArray run(const Value& result) {
    NdArray out(shape(), dtype(result), context());
    run_into(result, out);
    return out;
  }
  // `out` has the broadcast shape and shares no memory with an input, unless element for element.
  void run_into(const Value& result, const NdArray& out) {
    program_.output(cast(result, out.dtype()).id_);
    const NdArray* outputs[] = {&out};
    run_elementwise(program_, inputs(), outputs, context());
  }
  ExecContext context() const { return context_for(common_device(inputs())); }
  std::vector<const NdArray*> inputs() const {
    std::vector<const NdArray*> list;
    for (const NdArray& array : arrays_) list.push_back(&array);
    return list;
  }
  // For programs that end in reductions.
  Program& program() { return program_; }
  ValueId id(const Value& x) const { return x.id_; }

 private:
  Program program_;
  std::deque<NdArray> arrays_;
};

}  // namespace quarry::local
