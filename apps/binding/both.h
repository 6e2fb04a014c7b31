// A row's function over local arrays and the one over chunked arrays, by one signature.
//
// The local function says the types. The chunked one has the same parameters with Array for NdArray and Operand for
// Arg; it is called and not named as a pointer, so that it may be overloaded and have defaults. Where a parameter is a
// variant, each of its types may have an overload of its own. Parameters that mean nothing for arrays that are lazy and
// never written (out, order, device ...) and trailing ones may be missing: a call that gives them is refused.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>
#include <tuple>
#include <utility>

#include "quarry/apps/binding/binding.h"
#include "quarry/chunked/api/joining.h"
#include "quarry/local/ops/manipulation/manipulation.h"

namespace quarry::apps::expression {

// The chunked type for the type of a local function's parameter.
template <class T>
struct ChunkedType {
  using type = T;
};
template <class T>
using chunked_t = typename ChunkedType<T>::type;
template <>
struct ChunkedType<NdArray> {
  using type = Array;
};
template <>
struct ChunkedType<local::Arg> {
  using type = Operand;
};
template <>
struct ChunkedType<local::Blocks> {
  using type = quarry::Blocks;
};
template <>
struct ChunkedType<local::ArrayTuple> {
  using type = ChunkedTuple;
};
template <class T>
struct ChunkedType<std::optional<T>> {
  using type = std::optional<chunked_t<T>>;
};
template <class T>
struct ChunkedType<std::vector<T>> {
  using type = std::vector<chunked_t<T>>;
};
template <class... T>
struct ChunkedType<std::variant<T...>> {
  using type = std::variant<chunked_t<T>...>;
};
template <class T, class U>
struct ChunkedType<std::pair<T, U>> {
  using type = std::pair<chunked_t<T>, chunked_t<U>>;
};

template <class... T>
struct List {};

// The types as which an argument may be passed, the first that fits first. Numbers come before arrays: an array of one
// element converts to a number by being computed.
template <class T>
struct Forms {
  using type = List<T>;
};
template <class T>
using forms_t = typename Forms<T>::type;
template <>
struct Forms<Array> {
  using type = List<Array, NdArray>;
};
template <>
struct Forms<Operand> {
  using type = List<Operand, Scalar, Array>;
};
template <>
struct Forms<local::Ints> {
  using type = List<local::Ints, Dims>;
};
template <>
struct Forms<local::Size> {
  using type = List<local::Size, Dims>;
};
template <class... T>
struct Forms<std::variant<T...>> {
  using type = List<std::variant<T...>, T...>;
};
template <class T, class List>
struct OptionalForms;
template <class T, class... Form>
struct OptionalForms<T, List<Form...>> {
  using type = List<std::optional<Form>..., Form...>;  // without optional None is the C++ function's own default
};
template <class T>
struct Forms<std::optional<T>> : OptionalForms<T, forms_t<T>> {};

// A parameter whose form is chosen: parameters of one type have one form, so that there are few combinations to try.
template <class T, class Form>
struct Fixed {};
template <class T, class Form>
struct Forms<Fixed<T, Form>> {
  using type = List<Form>;
};
template <class T, class Form, class List>
struct FixedIn;
template <class T, class Form, class... Rest>
struct FixedIn<T, Form, List<Rest...>> {
  using type = List<std::conditional_t<std::is_same_v<T, Rest>, Fixed<T, Form>, Rest>...>;
};
template <class T, class Form, class List>
using fixed_in_t = typename FixedIn<T, Form, List>::type;

// Truth values and floats as arguments: they convert to nothing else, so that an order of parameters that is not the
// local function's does not compile.
template <class T>
struct Strict {
  T value;
  template <class U>
  requires std::is_same_v<T, U>
  operator U() const { return value; }
};
template <class T>
using strict_t = std::conditional_t<std::is_same_v<T, bool> || std::is_same_v<T, double>, Strict<T>, T>;
template <class T>
decltype(auto) strict(const T& value) {
  if constexpr (std::is_same_v<strict_t<T>, T>)
    return (value);
  else
    return Strict<T>{value};
}

// Whether f takes arguments of the types Done and, behind them, of some forms of the types Rest.
template <class F, class Done, class Rest>
struct Reaches;
template <class F, class... Done>
struct Reaches<F, List<Done...>, List<>> : std::bool_constant<std::is_invocable_v<const F&, const strict_t<Done>&...>> {
};
template <class F, class Done, class First, class Rest, class Forms>
struct ReachesByForm;
template <class F, class... Done, class First, class Rest, class... Form>
struct ReachesByForm<F, List<Done...>, First, Rest, List<Form...>>
    : std::disjunction<Reaches<F, List<Done..., Form>, fixed_in_t<First, Form, Rest>>...> {};
template <class F, class Done, class First, class... Rest>
struct Reaches<F, Done, List<First, Rest...>> : ReachesByForm<F, Done, First, List<Rest...>, forms_t<First>> {};

// A string as an argument of templates.
template <size_t N>
struct Text {
  char text[N] = {};
  consteval Text(const char (&given)[N]) {
    for (size_t i = 0; i < N; ++i) text[i] = given[i];
  }
  constexpr std::string_view view() const { return {text, N - 1}; }
};

// The parameters of a signature that C++ functions have, in order: all but "/", "*" and "**name".
struct NameInSignature {
  std::string_view name;
  bool is_optional = false;
};
constexpr size_t kMostParameters = 32;
struct NamesInSignature {
  std::array<NameInSignature, kMostParameters> names = {};
  size_t count = 0;
};
consteval NamesInSignature names_in(std::string_view signature) {
  NamesInSignature result;
  std::string_view rest = signature.substr(1, signature.size() - 2);
  while (!rest.empty()) {
    size_t end = 0;
    for (int depth = 0; end < rest.size() && (depth > 0 || rest[end] != ','); ++end)
      depth += rest[end] == '(' ? 1 : rest[end] == ')' ? -1 : 0;
    std::string_view item = rest.substr(0, end);
    rest = rest.substr(end < rest.size() ? end + 1 : end);
    while (item.starts_with(' ')) item.remove_prefix(1);
    if (item == "/" || item == "*" || item.starts_with("**")) continue;
    const bool is_variadic = item.starts_with('*');
    if (is_variadic) item.remove_prefix(1);
    size_t equals = 0;  // find('=') is no constant expression for GCC 12 with -fsanitize=undefined
    while (equals < item.size() && item[equals] != '=') ++equals;
    result.names[result.count++] = {item.substr(0, equals), is_variadic || equals < item.size()};
  }
  return result;
}

// What a chunked function may lack, each line with all before it.
constexpr std::array<std::string_view, 6> kMayLack = {"",
                                                      " out ",
                                                      " order subok device ",
                                                      " casting ",
                                                      " copy writeable overwrite_input overwrite_a overwrite_b ",
                                                      " where check_finite optimize "};

consteval bool is_word_of(std::string_view words, std::string_view name) {
  for (size_t at = words.find(name); at != std::string_view::npos; at = words.find(name, at + 1))
    if (words[at - 1] == ' ' && words[at + name.size()] == ' ') return true;
  return false;
}

// Which parameters the chunked function takes, a bit for each: without some lines of kMayLack, and without some of the
// last ones. The candidates with most parameters come first.
struct Candidates {
  std::array<uint64_t, kMayLack.size() * (kMostParameters + 1)> masks = {};
  std::array<uint64_t, kMayLack.size() * (kMostParameters + 1)> untruncated = {};  // with the last ones
  size_t count = 0;
};
consteval Candidates candidates_of(const NamesInSignature& names) {
  Candidates all;
  uint64_t mask = names.count == 64 ? ~uint64_t{0} : (uint64_t{1} << names.count) - 1;
  for (const std::string_view line : kMayLack) {
    for (size_t i = 0; i < names.count; ++i)
      if (!line.empty() && is_word_of(line, names.names[i].name)) mask &= ~(uint64_t{1} << i);
    uint64_t shorter = mask;
    all.untruncated[all.count] = mask;
    all.masks[all.count++] = shorter;
    for (size_t i = names.count; i-- > 0 && names.names[i].is_optional;) {
      if ((shorter >> i & 1) == 0) continue;
      shorter &= ~(uint64_t{1} << i);
      all.untruncated[all.count] = mask;
      all.masks[all.count++] = shorter;
    }
  }
  for (size_t i = 1; i < all.count; ++i) {  // stable
    for (size_t j = i; j > 0 && std::popcount(all.masks[j - 1]) < std::popcount(all.masks[j]); --j) {
      std::swap(all.masks[j - 1], all.masks[j]);
      std::swap(all.untruncated[j - 1], all.untruncated[j]);
    }
  }
  size_t kept = 0;
  for (size_t i = 0; i < all.count; ++i) {
    bool is_new = true;
    for (size_t j = 0; j < kept; ++j) is_new = is_new && all.masks[j] != all.masks[i];
    if (!is_new) continue;
    all.untruncated[kept] = all.untruncated[i];
    all.masks[kept++] = all.masks[i];
  }
  all.count = kept;
  return all;
}

template <uint64_t mask, size_t at, class Done, class Rest>
struct Taken;
template <uint64_t mask, size_t at, class Done>
struct Taken<mask, at, Done, List<>> {
  using type = Done;
};
template <uint64_t mask, size_t at, class... Done, class First, class... Rest>
struct Taken<mask, at, List<Done...>, List<First, Rest...>>
    : Taken<mask, at + 1, std::conditional_t<(mask >> at & 1) != 0, List<Done..., First>, List<Done...>>,
            List<Rest...>> {};

// Numbers convert into each other, so that a function could take one for another parameter than it was meant for.
template <class T>
struct Confusable {
  using type = std::conditional_t<std::is_arithmetic_v<T>, double, T>;
};
template <class T>
struct Confusable<std::optional<T>> {
  using type = std::conditional_t<std::is_arithmetic_v<T>, double, std::optional<T>>;
};
template <class T, class... Other>
consteval std::array<bool, sizeof...(Other)> confusable_with() {
  return {std::is_same_v<typename Confusable<T>::type, typename Confusable<Other>::type>...};
}

// Whether the types of the parameters in `mask` are also those of others in `all`, in order.
template <class... T>
consteval bool is_ambiguous(uint64_t mask, uint64_t all, List<T...>) {
  constexpr std::array<std::array<bool, sizeof...(T)>, sizeof...(T)> same = {confusable_with<T, T...>()...};
  std::array<int, sizeof...(T) + 1> ways = {1};  // of placing so many of the parameters in what was seen of `all`
  for (size_t at = 0; at < sizeof...(T); ++at) {
    if ((all >> at & 1) == 0) continue;
    auto placed = static_cast<size_t>(std::popcount(mask));
    for (size_t i = sizeof...(T); i-- > 0;) {
      if ((mask >> i & 1) == 0) continue;
      if (same[i][at]) ways[placed] = std::min(2, ways[placed] + ways[placed - 1]);
      --placed;
    }
  }
  return ways[static_cast<size_t>(std::popcount(mask))] > 1;
}

constexpr uint64_t kNoCall = UINT64_MAX, kAmbiguous = UINT64_MAX - 1;
// The first candidate by which F can be called, kNoCall if there is none, kAmbiguous if F lacks one of the last
// parameters and may mean another one.
template <class F, class All, Text signature, size_t candidate = 0>
consteval uint64_t taken_mask() {
  constexpr Candidates all = candidates_of(names_in(signature.view()));
  if constexpr (candidate == all.count)
    return kNoCall;
  else if constexpr (Reaches<F, List<>, typename Taken<all.masks[candidate], 0, List<>, All>::type>::value)
    return is_ambiguous(all.masks[candidate], all.untruncated[candidate], All()) ? kAmbiguous : all.masks[candidate];
  else
    return taken_mask<F, All, signature, candidate + 1>();
}

// The first form that goes on to a call of F.
template <class F, class Done, class First, class Rest, class Forms>
struct PickForm;
template <class F, class... Done, class First, class Rest, class Form, class... More>
struct PickForm<F, List<Done...>, First, Rest, List<Form, More...>>
    : std::conditional_t<Reaches<F, List<Done..., Form>, fixed_in_t<First, Form, Rest>>::value,
                         std::type_identity<Form>, PickForm<F, List<Done...>, First, Rest, List<More...>>> {};

// The type that a parameter had before its form was chosen.
template <class T>
struct Unfixed {
  using type = T;
};
template <class T, class Form>
struct Unfixed<Fixed<T, Form>> {
  using type = T;
};

// A parameter that the chunked function does not have: throws NotSupported where the call asks for something.
void refuse_missing(const Arguments& args, size_t position);
// out= of any function of chunked arrays: throws TypeError where it is given.
void refuse_out(const Arguments& args);
// A function that computes nothing, as promote_types(): the local one, to which an array stands for its dtype.
Handler shared_handler(const Handler& handler);
// Local arrays inside become chunked ones. With `as_tuple` a list becomes a tuple.
Value chunked_result(Value value, bool as_tuple = false);

// A call and which of its parameters the C++ function takes.
struct CallArguments {
  const Arguments& args;
  Keep& keep;
  uint64_t mask;

  size_t next(size_t position) const {
    while ((mask >> position & 1) == 0) ++position;
    return position;
  }
  std::string what(size_t position) const {
    return args.function().name + "(): " + args.function().parameters()[position].name;
  }
};

template <class F, class... Done>
Value call_by_forms(const F& f, const CallArguments&, size_t, List<>, const Done&... done) {
  if constexpr (std::is_void_v<std::invoke_result_t<const F&, const strict_t<Done>&...>>) {
    f(strict(done)...);
    return Value();
  } else {
    return to_value(f(strict(done)...));
  }
}

// Throws NotSupported where a call gives parameters behind the position at which it leaves the rest to C++'s defaults.
void refuse_later(const CallArguments& call, size_t position);

template <class F, class First, class... Rest, class... Done>
Value call_by_forms(const F& f, const CallArguments& call, size_t at, List<First, Rest...>, const Done&... done) {
  using Original = typename Unfixed<First>::type;
  const size_t position = call.next(at);
  const Value& value = call.args.values()[position];
  const auto go_on = [&]<class Form>(List<Form>) {
    const Form argument = Convert<Form>::from(value, call.what(position), call.keep);
    return call_by_forms(f, call, position + 1, fixed_in_t<First, Form, List<Rest...>>(), done..., argument);
  };
  if constexpr (is_variant<First>::value && !Reaches<F, List<Done..., First>, List<Rest...>>::value) {
    // The overload for the type that the value is meant for.
    std::optional<Value> result;
    const auto try_type = [&]<class Type>(List<Type>) {
      if (!Convert<Type>::fits(value)) return false;
      if constexpr (ReachesByForm<F, List<Done...>, First, List<Rest...>, forms_t<Type>>::value)
        result = go_on(List<typename PickForm<F, List<Done...>, First, List<Rest...>, forms_t<Type>>::type>());
      else
        throw local::NotSupported(call.what(position) + " cannot be a " + type_name(value) + " for chunked arrays");
      return true;
    };
    const bool found = [&]<class... Type>(List<std::variant<Type...>>) {
      return (try_type(List<Type>()) || ...);
    }(List<First>());
    if (!found) throw local::TypeError(call.what(position) + " cannot be a " + type_name(value));
    return *std::move(result);
  } else {
    using Form = typename PickForm<F, List<Done...>, First, List<Rest...>, forms_t<First>>::type;
    if constexpr (std::is_same_v<First, Array> && std::is_same_v<Form, Array> &&
                  Reaches<F, List<Done..., NdArray>, fixed_in_t<First, NdArray, List<Rest...>>>::value) {
      // Numbers of the expression are known without a computation.
      if (!value.is<Array>()) return go_on(List<NdArray>());
    }
    if constexpr (is_optional<Original>::value && !is_optional<Form>::value) {
      if (value.is_none()) {
        refuse_later(call, position);
        if constexpr (Reaches<F, List<Done...>, List<>>::value)
          return call_by_forms(f, call, position, List<>(), done...);
        else
          throw local::NotSupported(call.what(position) + " must be given for chunked arrays");
      }
    }
    return go_on(List<Form>());
  }
}

// Calls f with the arguments of a call. Parameter: the chunked types of all parameters of the signature.
template <Text signature, class F, class... Parameter>
Handler handler_by_forms(const F& f, List<Parameter...>, bool as_tuple) {
  using All = List<Parameter...>;
  constexpr NamesInSignature names = names_in(signature.view());
  static_assert(names.count == sizeof...(Parameter), "the signature has other parameters than the C++ function");
  constexpr uint64_t mask = taken_mask<F, All, signature>();
  static_assert(mask != kAmbiguous,
                "the function of chunked arrays lacks a parameter, and its types do not say which: write an adapter in "
                "apps/binding/chunked_rows.h");
  static_assert(
      mask != kNoCall,
      "the function of chunked arrays cannot be called with the parameters of the local one: give it the same "
      "signature, or an adapter in apps/binding/chunked_rows.h");
  return [f, as_tuple](const Arguments& args, Session&) -> Value {
    refuse_out(args);
    for (size_t i = 0; i < names.count; ++i) {
      if ((mask >> i & 1) == 0) refuse_missing(args, i);
    }
    Keep keep;
    using TakenTypes = typename Taken<mask, 0, List<>, All>::type;
    return chunked_result(call_by_forms(f, CallArguments{args, keep, mask}, 0, TakenTypes()), as_tuple);
  };
}

template <Text signature, class F, class R, class... A>
Handler chunked_handler(const F& f, R (*)(A...)) {
  return handler_by_forms<signature>(f, List<chunked_t<std::remove_cvref_t<A>>...>(),
                                     std::is_same_v<R, local::ArrayTuple>);
}
// Of a function that chunked arrays alone have: its own types are the parameters'.
template <class R, class... A>
Handler own_handler(R (*function)(A...)) {
  return [handler = bound_handler(function)](const Arguments& args, Session& session) {
    return chunked_result(handler(args, session));
  };
}

}  // namespace quarry::apps::expression

// QUARRY_ROW_WORD(is_method, symbol, names, signature, summary) for each word of the rows' second column. Functions of
// chunked arrays are looked up in QUARRY_CHUNKED_ROWS.
#define QUARRY_CHUNKED_CALL(symbol)                                           \
  [](const auto&... args) -> decltype(QUARRY_CHUNKED_ROWS::symbol(args...)) { \
    return QUARRY_CHUNKED_ROWS::symbol(args...);                              \
  }
#define QUARRY_LOCAL_PART(is_method, symbol, names, signature, summary)                \
  is_method, #symbol, names, signature, summary, parameter_count(&local::ops::symbol), \
      bound_handler(&local::ops::symbol)
#define QUARRY_ROW_local(...) Row{QUARRY_LOCAL_PART(__VA_ARGS__)},
#define QUARRY_ROW_shared(is_method, symbol, ...) \
  Row{QUARRY_LOCAL_PART(is_method, symbol, __VA_ARGS__), shared_handler(bound_handler(&local::ops::symbol))},
#define QUARRY_BOTH_ROW(is_method, symbol, names, signature, summary, memory) \
  Row{QUARRY_LOCAL_PART(is_method, symbol, names, signature, summary),        \
      chunked_handler<Text(signature)>(QUARRY_CHUNKED_CALL(symbol), &local::ops::symbol), memory},
#define QUARRY_CHUNKED_ROW(is_method, symbol, names, signature, summary, memory) \
  Row{is_method, #symbol,                                                        \
      names,     signature,                                                      \
      summary,   parameter_count(&QUARRY_CHUNKED_ROWS::symbol),                  \
      {},        own_handler(&QUARRY_CHUNKED_ROWS::symbol),                      \
      memory},
#define QUARRY_ROW_both(...) QUARRY_BOTH_ROW(__VA_ARGS__, Memory::streams)
#define QUARRY_ROW_both_settles(...) QUARRY_BOTH_ROW(__VA_ARGS__, Memory::settles)
#define QUARRY_ROW_both_whole(...) QUARRY_BOTH_ROW(__VA_ARGS__, Memory::whole)
#define QUARRY_ROW_chunked(...) QUARRY_CHUNKED_ROW(__VA_ARGS__, Memory::streams)
#define QUARRY_ROW_chunked_settles(...) QUARRY_CHUNKED_ROW(__VA_ARGS__, Memory::settles)
#define QUARRY_ROW_chunked_whole(...) QUARRY_CHUNKED_ROW(__VA_ARGS__, Memory::whole)
