// random.default_rng() and the methods of generators.
#include "quarry/local/ops/random/random.h"

#include "quarry/apps/binding/both.h"
#include "quarry/apps/binding/chunked_rows.h"

namespace quarry::apps::expression {

// The generator of chunked arrays that a value holds.
template <>
struct Convert<chunked_rows::Draws> {
  static bool fits(const Value& value) {
    const auto* generator = value.as<GeneratorValue>();
    return generator != nullptr && generator->chunked != nullptr;
  }
  static chunked_rows::Draws from(const Value& value, const std::string& what, Keep&) {
    if (!fits(value)) throw local::TypeError(what + " must be a generator: random.default_rng(seed)");
    return value.as<GeneratorValue>()->chunked.get();
  }
};

namespace {

using local::InvalidArgument;
using local::SeedSequence;
using local::TypeError;

// The words of an int as NumPy counts them.
void append_words(const Value& value, SeedSequence::Words& words, const std::string& what) {
  const std::optional<Number> number = value.is<NdArray>() ? Number(Int(to_index(value, what))) : value.number();
  if (!number || number->index() > 1)
    throw TypeError(what + " must be None, an int, a sequence of ints or a SeedSequence, not " + type_name(value));
  Int rest = to_integer(*number);
  if (rest.is_negative()) throw InvalidArgument("expected non-negative integer: " + what + " is " + to_string(rest));
  const Int low_word(UINT32_MAX);
  do {
    words.push_back(static_cast<uint32_t>(*(rest & low_word).as_uint64()));
    rest = rest.shifted_right(32);
  } while (!rest.is_zero());
}

SeedSequence::Words words_of(const Value& value, const std::string& what) {
  SeedSequence::Words words;
  const NdArray* array = value.as<NdArray>();
  if (value.sequence() == nullptr && (array == nullptr || array->ndim() == 0)) {
    append_words(value, words, what);
    return words;
  }
  for (const Value& item : items_of(value, what)) {
    const SequenceValue* inner = item.sequence();
    if (inner != nullptr || (item.is<NdArray>() && item.as<NdArray>()->ndim() > 0)) {
      for (const uint32_t word : words_of(item, what)) words.push_back(word);
    } else {
      append_words(item, words, what);
    }
  }
  return words;
}

// What a seed other than an int of 64 bits or None stands for.
std::optional<SeedSequence> sequence_of(const Value& seed, const std::string& what) {
  if (const auto* given = seed.as<SeedSequenceValue>()) return *given->sequence;
  const Int* integer = seed.as<Int>();
  const NdArray* array = seed.as<NdArray>();
  if (seed.sequence() != nullptr || (array != nullptr && array->ndim() > 0) ||
      (integer != nullptr && !integer->is_negative() && !integer->as_int64()))
    return SeedSequence(SeedSequence::Parts{words_of(seed, what), {}});
  return std::nullopt;
}

Value generator_value(local::Generator generator) {
  return GeneratorValue{std::make_shared<local::Generator>(std::move(generator))};
}

Value chunked_generator(random::Generator generator) {
  return GeneratorValue{nullptr, std::make_shared<random::Generator>(std::move(generator))};
}

// Every rank makes the same one: without a seed it is that of the session and how many were made before.
Value make_chunked_generator(const Arguments& args, Session& session) {
  const std::string what = "default_rng(): seed";
  const Value& seed = args["seed"];
  if (seed.is<GeneratorValue>()) return seed;
  if (const std::optional<SeedSequence> sequence = sequence_of(seed, what))
    return chunked_generator(random::default_rng(*sequence));
  if (seed.is_none()) {
    SeedSequence::Parts parts;
    parts.entropy = words_of(Value(Int(session.random->seed())), what);
    parts.spawn_key = words_of(Value(session.unseeded++), what);
    return chunked_generator(random::default_rng(SeedSequence(std::move(parts))));
  }
  const int64_t number = to_index(seed, what);
  if (number < 0) throw InvalidArgument("expected non-negative integer: " + what + " is " + std::to_string(number));
  return chunked_generator(random::Generator(static_cast<uint64_t>(number)));
}

Value make_generator(const Arguments& args, Session&) {
  Keep keep;
  const Value& seed = args["seed"];
  if (seed.is<GeneratorValue>()) return seed;
  if (const std::optional<SeedSequence> sequence = sequence_of(seed, "default_rng(): seed"))
    return generator_value(local::default_rng(*sequence));
  return generator_value(local::default_rng(Convert<std::optional<int64_t>>::from(seed, "default_rng(): seed", keep)));
}

template <class... A, size_t... I>
Value call_maker(local::BitGenerator (*make)(A...), const Arguments& args, std::index_sequence<I...>) {
  Keep keep;
  std::vector<Value> values = args.values();
  std::optional<SeedSequence> sequence;
  for (size_t i = 0; i < values.size(); ++i) {
    if (args.function().parameters()[i].name != "seed") continue;
    sequence = sequence_of(values[i], args.function().name + "(): seed");
    if (sequence) values[i] = Int(0);
  }
  const local::BitGenerator bits = make(Convert<std::remove_cvref_t<A>>::from(
      values[I], args.function().name + "(): " + args.function().parameters()[I].name, keep)...);
  return generator_value(sequence ? local::Generator(bits, *sequence) : local::Generator(bits));
}

Value make_seed_sequence(const Arguments& args, Session&) {
  const std::string name = "SeedSequence(): ";
  SeedSequence::Parts parts;
  parts.entropy = args["entropy"].is_none() ? SeedSequence().entropy() : words_of(args["entropy"], name + "entropy");
  parts.spawn_key = words_of(args["spawn_key"], name + "spawn_key");
  parts.pool_size = to_index(args["pool_size"], name + "pool_size");
  parts.children = to_index(args["n_children_spawned"], name + "n_children_spawned");
  return SeedSequenceValue{std::make_shared<SeedSequence>(std::move(parts))};
}

Value generate_state(const Arguments& args, Session&) {
  const auto* self = args.values()[0].as<SeedSequenceValue>();
  if (self == nullptr) throw TypeError("generate_state() needs a SeedSequence");
  constexpr int64_t kMostWords = int64_t{1} << 28;
  const int64_t count = to_index(args["n_words"], "generate_state(): n_words");
  if (count > kMostWords) throw InvalidArgument("generate_state(): n_words is too large");
  const DType dtype = to_dtype(args["dtype"], "generate_state(): dtype");
  if (dtype == DType::uint32) return local::from_bytes(self->sequence->generate_state(count).data(), dtype, {count});
  if (dtype == DType::uint64) return local::from_bytes(self->sequence->generate_state_64(count).data(), dtype, {count});
  throw InvalidArgument("only support uint32 or uint64");
}

// Of a SeedSequence and of a generator.
Value spawn(const Arguments& args, Session&) {
  const int64_t count = to_index(args["n_children"], args.function().name + "(): n_children");
  constexpr int64_t kMostChildren = 1 << 20;
  if (count > kMostChildren) throw InvalidArgument("spawn(): at most 1048576 children at a time");
  std::vector<Value> children;
  if (const auto* seeds = args.values()[0].as<SeedSequenceValue>()) {
    for (SeedSequence& child : seeds->sequence->spawn(count))
      children.emplace_back(SeedSequenceValue{std::make_shared<SeedSequence>(std::move(child))});
  } else if (const auto* generator = args.values()[0].as<GeneratorValue>()) {
    for (local::Generator& child : generator->generator->spawn(count))
      children.push_back(generator_value(std::move(child)));
  } else {
    throw TypeError("spawn() needs a generator or a SeedSequence");
  }
  return Value::list(std::move(children));
}

// bytes(length) of a generator.
Value random_bytes(const Arguments& args, Session&) {
  const auto* self = args.values()[0].as<GeneratorValue>();
  if (self == nullptr) throw TypeError("bytes() needs a generator: random.default_rng(seed)");
  return Bytes{self->generator->bytes(to_index(args["length"], "bytes(): length"))};
}

// Functions whose values are the same for both kinds of arrays, but for arrays among them.
Handler with_chunked_result(Value (*handler)(const Arguments&, Session&)) {
  return [handler](const Arguments& args, Session& session) { return chunked_result(handler(args, session)); };
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
        args.values()[I + 1], args.function().name + "(): " + args.function().parameters()[I + 1].name, keep)...);
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

// The same of the generator of chunked arrays: call(draws, arguments...).
template <Text signature, class F, class R, class... A>
Row both_row(Row row, const F& call, R (local::Generator::*)(A...)) {
  row.chunked = handler_by_forms<signature>(call, List<chunked_rows::Draws, chunked_t<std::remove_cvref_t<A>>...>(),
                                            /*as_tuple=*/false);
  row.memory = Memory::streams;
  return row;
}

#define QUARRY_GENERATOR_local(symbol, signature, summary) \
  method_row(#symbol, "random.Generator." #symbol, signature, summary, &local::Generator::symbol)
#define QUARRY_GENERATOR_both(symbol, signature, summary)                                           \
  both_row<Text(signature)>(                                                                        \
      QUARRY_GENERATOR_local(symbol, signature, summary),                                           \
      [](const chunked_rows::Draws& self, const auto&... args) -> decltype(self->symbol(args...)) { \
        return self->symbol(args...);                                                               \
      },                                                                                            \
      &local::Generator::symbol)

}  // namespace

std::vector<Row> random_rows() {
  return {
      Row{false, "default_rng", "random.default_rng", "(seed=None)", "A generator of random numbers.", 1,
          make_generator, make_chunked_generator, Memory::streams},
      Row{false, "SeedSequence", "random.SeedSequence",
          "(entropy=None, *, spawn_key=(), pool_size=4, n_children_spawned=0)",
          "Words that seed generators, mixed from entropy as NumPy mixes it.", 4, make_seed_sequence,
          make_seed_sequence, Memory::streams},
      Row{false, "generate_state", "random.SeedSequence.generate_state", "(self, n_words, dtype=uint32)",
          "So many words of 32 or 64 bits.", 3, generate_state, with_chunked_result(generate_state), Memory::whole},
      Row{false, "spawn", "random.SeedSequence.spawn", "(self, n_children)", "Sequences that depend on this one alone.",
          2, spawn, spawn, Memory::streams},
      Row{false, "spawn", "random.Generator.spawn", "(self, n_children)",
          "Generators of the same kind, seeded by the children of this one's SeedSequence.", 2, spawn},
      Row{false, "bytes", "random.Generator.bytes", "(self, length)", "Random bytes.", 2, random_bytes},
      Row{false, "Generator", "random.Generator", "(bit_generator)", "A generator over a bit generator.", 1,
          generator_of},
#define QUARRY_BIT_GENERATOR(symbol, where, signature, summary) \
  maker_row(#symbol, "random." #symbol, signature, summary, &local::symbol),
#define QUARRY_GENERATOR(symbol, where, signature, summary) QUARRY_GENERATOR_##where(symbol, signature, summary),
#include "quarry/local/ops/functions/random.def"
#undef QUARRY_GENERATOR
#undef QUARRY_BIT_GENERATOR
  };
}

}  // namespace quarry::apps::expression
