// What readers of ufunc.def and reduction.def need to take a row apart.
#pragma once

// QUARRY_EACH(macro, data, (a, b)): macro(data, a) macro(data, b), for a list of at most three.
#define QUARRY_EACH(macro, data, list) QUARRY_EACH_OF(macro, data, QUARRY_UNPACK list)
#define QUARRY_EACH_OF(macro, data, ...) __VA_OPT__(QUARRY_EACH_1(macro, data, __VA_ARGS__))
#define QUARRY_EACH_1(macro, data, first, ...) macro(data, first) __VA_OPT__(QUARRY_EACH_2(macro, data, __VA_ARGS__))
#define QUARRY_EACH_2(macro, data, first, ...) macro(data, first) __VA_OPT__(QUARRY_EACH_3(macro, data, __VA_ARGS__))
#define QUARRY_EACH_3(macro, data, first) macro(data, first)
#define QUARRY_UNPACK(...) __VA_ARGS__

// The names of a list as a text, separated by spaces.
#define QUARRY_WORDS(list) "" QUARRY_EACH(QUARRY_WORD, , list)
#define QUARRY_WORD(unused, name) #name " "

// The parts of a field of a state in reduction.def: (dtype, start, map, combine).
#define QUARRY_FIELD_DTYPE(dtype, start, map, combine) dtype
#define QUARRY_FIELD_START(dtype, start, map, combine) start
#define QUARRY_FIELD_MAP(dtype, start, map, combine) map
#define QUARRY_FIELD_COMBINE(dtype, start, map, combine) combine
// Through one more macro, for `#` and `##` see what a macro expands to only there.
#define QUARRY_TEXT(...) QUARRY_TEXT_OF(__VA_ARGS__)
#define QUARRY_TEXT_OF(...) #__VA_ARGS__

// QUARRY_PUBLIC(rule, text): the text for the rows of ufunc.def that are functions by a name, nothing for those that
// other functions are made of (OpRule in local/program/op.h).
#define QUARRY_PUBLIC(rule, ...) QUARRY_PUBLIC_##rule(__VA_ARGS__)
#define QUARRY_PUBLIC_plain(...) __VA_ARGS__
#define QUARRY_PUBLIC_no_bool(...) __VA_ARGS__
#define QUARRY_PUBLIC_true_divide(...) __VA_ARGS__
#define QUARRY_PUBLIC_double_only(...) __VA_ARGS__
#define QUARRY_PUBLIC_comparison(...) __VA_ARGS__
#define QUARRY_PUBLIC_logical(...) __VA_ARGS__
#define QUARRY_PUBLIC_select(...) __VA_ARGS__
#define QUARRY_PUBLIC_scale(...) __VA_ARGS__
#define QUARRY_PUBLIC_storage(...) __VA_ARGS__
#define QUARRY_PUBLIC_part(...)
#define QUARRY_PUBLIC_cast(...)
#define QUARRY_PUBLIC_random(...)
#define QUARRY_PUBLIC_bounded(...)
#define QUARRY_PUBLIC_sampler(...)
