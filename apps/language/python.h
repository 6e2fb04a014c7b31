// Python's numbers: arithmetic, comparison and text of bool, int (within 64 bits), float and complex.
#pragma once

#include <complex>
#include <string>
#include <variant>

#include "quarry/apps/language/ast.h"

namespace quarry::apps::expression {

using Number = std::variant<bool, Int, double, std::complex<double>>;

// As Python computes it; ints become floats under / and under ** with a negative exponent. Throws TypeError for operand
// types Python refuses, InvalidArgument for division by zero, for negative shift counts and for results that fit
// neither int64 nor uint64.
Number unary(UnaryOp op, const Number& value);
Number binary(BinaryOp op, const Number& left, const Number& right);
// Exact between ints and floats. Throws TypeError where a complex is ordered.
bool compare(CompareOp op, const Number& left, const Number& right);
bool truth(const Number& value);
const char* type_name(const Number& value);  // "int"

std::string to_string(Int value);
// Python's repr(), which is its str() too for numbers.
std::string repr(bool value);
std::string repr(Int value);
std::string repr(double value);
std::string repr(std::complex<double> value);
std::string repr(const std::string& value);
std::string repr(const Number& value);

}  // namespace quarry::apps::expression
