// random.default_rng() and the methods of generators.
#include "quarry/local/ops/random/random.h"

#include "quarry/apps/binding/local_binding.h"

namespace quarry::apps::expression {

namespace {

Value make_generator(const Arguments& args, Session&) {
  Keep keep;
  const auto seed = Convert<std::optional<int64_t>>::from(args["seed"], "default_rng(): seed", keep);
  return GeneratorValue{std::make_shared<local::Generator>(local::default_rng(seed))};
}

template <class... A, size_t... I>
Value call_maker(local::BitGenerator (*make)(A...), const Arguments& args, std::index_sequence<I...>) {
  Keep keep;
  return GeneratorValue{std::make_shared<local::Generator>(make(Convert<std::remove_cvref_t<A>>::from(
      args.values()[I], args.function().name + "(): " + args.function().parameters[I].name, keep)...))};
}

// A bit generator is a value of the same type as a generator: they are one in C++, too, but for the name.
template <class... A>
Row maker_row(const char* symbol, const char* name, const char* signature, const char* summary,
              local::BitGenerator (*make)(A...)) {
  return {false, symbol, name, signature, summary, sizeof...(A), [make](const Arguments& args, Session&) {
            return call_maker(make, args, std::index_sequence_for<A...>{});
          }};
}

Value generator_of(const Arguments& args, Session&) {
  const Value& bits = args["bit_generator"];
  if (!bits.is<GeneratorValue>())
    throw local::TypeError("Generator(): bit_generator must be one, as random.Sobol32(), not " + type_name(bits));
  return bits;
}

template <class R, class... A, size_t... I>
Value call_method(R (local::Generator::*method)(A...), const Arguments& args, std::index_sequence<I...>) {
  const auto* self = args.values()[0].as<GeneratorValue>();
  if (self == nullptr) throw local::TypeError(args.function().name + "() needs a generator: random.default_rng(seed)");
  Keep keep;
  const auto call = [&] {
    return ((*self->generator).*method)(Convert<std::remove_cvref_t<A>>::from(
        args.values()[I + 1], args.function().name + "(): " + args.function().parameters[I + 1].name, keep)...);
  };
  if constexpr (std::is_void_v<R>) {
    call();
    return Value();
  } else {
    return to_value(call());
  }
}

template <class R, class... A>
Row method_row(const char* symbol, const char* name, const char* signature, const char* summary,
               R (local::Generator::*method)(A...)) {
  return {false, symbol, name, signature, summary, sizeof...(A) + 1, [method](const Arguments& args, Session&) {
            return call_method(method, args, std::index_sequence_for<A...>{});
          }};
}

}  // namespace

std::vector<Row> random_rows() {
  return {
      Row{false, "default_rng", "random.default_rng", "(seed=None)", "A generator of random numbers.", 1,
          make_generator},
      Row{false, "Generator", "random.Generator", "(bit_generator)", "A generator over a bit generator.", 1,
          generator_of},
#define QUARRY_BIT_GENERATOR(symbol, signature, summary) \
  maker_row(#symbol, "random." #symbol, signature, summary, &local::symbol),
#define QUARRY_GENERATOR(symbol, signature, summary) \
  method_row(#symbol, "random.Generator." #symbol, signature, summary, &local::Generator::symbol),
#include "quarry/local/ops/functions/random.def"
#undef QUARRY_GENERATOR
#undef QUARRY_BIT_GENERATOR
  };
}

}  // namespace quarry::apps::expression
