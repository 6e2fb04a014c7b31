// Python's numbers: arithmetic, comparison and text of bool, int, float and complex.
#pragma once

#include <complex>
#include <optional>
#include <string>
#include <variant>

#include "quarry/apps/language/ast.h"

namespace quarry::apps::expression {

using Number = std::variant<bool, Int, double, std::complex<double>>;

// As Python computes it; ints become floats under / and under ** with a negative exponent. Throws TypeError for operand
// types Python refuses, InvalidArgument for division by zero, for negative shift counts, for ints too large for a float
// and for ints of more than Int::kMostBits bits.
Number unary(UnaryOp op, const Number& value);
Number binary(BinaryOp op, const Number& left, const Number& right);
// Exact between ints and floats. Throws TypeError where a complex is ordered.
bool compare(CompareOp op, const Number& left, const Number& right);
bool truth(const Number& value);
const char* type_name(const Number& value);  // "int"

// Python's functions of numbers. pow(base, exponent, modulus) is of ints; `digits` of round() may be negative.
Number absolute(const Number& value);
Number power_modulo(const Number& base, const Number& exponent, const Number& modulus);
Number round(const Number& value, const std::optional<Int>& digits);
// int(x) of a finite number, and of text with a base, float(x), complex(x) of text. Throw InvalidArgument as Python's
// ValueError and OverflowError.
Int to_integer(const Number& value);
Int parse_integer(const std::string& text, int base);
double parse_float(const std::string& text);
std::complex<double> parse_complex(const std::string& text);
double to_float(const Number& value);  // of bool, int and float
std::complex<double> to_complex(const Number& value);

// Python's repr(), which is its str() too for numbers.
std::string repr(bool value);
std::string repr(const Int& value);
std::string repr(double value);
std::string repr(std::complex<double> value);
std::string repr(const std::string& value);
std::string repr(const Bytes& value);
std::string repr(const Number& value);

}  // namespace quarry::apps::expression
