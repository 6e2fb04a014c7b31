#include "quarry/apps/language/parser.h"

#include <algorithm>
#include <array>

#include "quarry/apps/language/lexer.h"

namespace quarry::apps::expression {

namespace {

// Bounds the recursion of the parser, of the evaluator and of the destructor.
constexpr int kMaxNesting = 200;
constexpr int kMaxDepth = 1000;

constexpr std::array<std::string_view, 35> kKeywords = {
    "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
    "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
    "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
    "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield",
};

bool is_keyword(std::string_view word) {
  return std::find(kKeywords.begin(), kKeywords.end(), word) != kKeywords.end();
}

int depth_of(const ExprPtr& expr) { return expr ? expr->depth : 0; }

class Parser {
 public:
  explicit Parser(const Source& source) : source_(source), tokens_(tokenize(source)) {}

  ExprPtr whole() {
    if (peek().kind == Token::Kind::end) fail(peek().span, "the expression is empty");
    ExprPtr result = tuple_or_expression();
    expect_end();
    return result;
  }

  std::optional<Statement> statement() {
    if (peek().kind == Token::Kind::end) return std::nullopt;
    const Token name = peek();
    const auto expected = [&] {
      fail(name.span, "expected a statement NAME = EXPRESSION or NAME[INDEX] = EXPRESSION");
    };
    if (name.kind != Token::Kind::name || is_keyword(name.text) || tokens_[1].kind != Token::Kind::op) expected();
    Statement result{name.text, name.span, nullptr};
    if (tokens_[1].text == "[") {
      result.target = primary();
      const auto* subscript = std::get_if<Subscript>(&result.target->node);
      if (subscript == nullptr || !std::holds_alternative<Name>(subscript->object->node)) expected();
      result.update = update_operator();
    } else {
      at_ = 1;
    }
    const Token sign = peek();
    if (sign.kind != Token::Kind::op || (sign.text != "=" && !result.update)) expected();
    ++at_;
    if (peek().kind == Token::Kind::end) fail(sign.span, "expected an expression after '" + sign.text + "'");
    result.value = tuple_or_expression();
    expect_end();
    return result;
  }

 private:
  // Counts the recursion of the grammar's rules.
  class Level {
   public:
    explicit Level(Parser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMaxNesting) parser_.fail(parser_.peek().span, "the expression is nested too deeply");
    }
    ~Level() { --parser_.nesting_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Parser& parser_;
  };

  [[noreturn]] void fail(Span span, const std::string& message) const { throw ExpressionError(source_, span, message); }

  // The operation of +=, -= and so on, where the next token is one.
  std::optional<BinaryOp> update_operator() const {
    constexpr std::pair<std::string_view, BinaryOp> kUpdates[] = {
        {"+=", BinaryOp::add},     {"-=", BinaryOp::subtract},      {"*=", BinaryOp::multiply},
        {"/=", BinaryOp::divide},  {"//=", BinaryOp::floor_divide}, {"%=", BinaryOp::remainder},
        {"**=", BinaryOp::power},  {"<<=", BinaryOp::left_shift},   {">>=", BinaryOp::right_shift},
        {"&=", BinaryOp::bit_and}, {"^=", BinaryOp::bit_xor},       {"|=", BinaryOp::bit_or}};
    for (const auto& [text, op] : kUpdates)
      if (at_op(text)) return op;
    return std::nullopt;
  }

  const Token& peek() const { return tokens_[at_]; }
  bool at_op(std::string_view op) const { return peek().kind == Token::Kind::op && peek().text == op; }
  bool at_word(std::string_view word) const { return peek().kind == Token::Kind::name && peek().text == word; }
  bool take_op(std::string_view op) {
    if (!at_op(op)) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view word) {
    if (!at_word(word)) return false;
    ++at_;
    return true;
  }
  int64_t last_end() const { return tokens_[at_ - 1].span.end; }

  static std::string found(const Token& token) {
    switch (token.kind) {
      case Token::Kind::end:
        return "the end";
      case Token::Kind::number:
        return "a number";
      case Token::Kind::string:
        return "a string";
      case Token::Kind::bytes:
        return "a bytes literal";
      case Token::Kind::name:
      case Token::Kind::op:
        return "'" + token.text + "'";
    }
    return "";
  }

  void expect_end() {
    const Token& token = peek();
    if (token.kind == Token::Kind::end) return;
    if (at_op("=")) fail(token.span, "'=' is no operator of expressions; equality is '=='");
    if (at_op(":=")) fail(token.span, "assignment expressions are not part of quarry's expressions");
    if (at_word("for")) fail(token.span, "comprehensions are not part of quarry's expressions");
    fail(token.span, "invalid syntax: expected an operator or the end, found " + found(token));
  }

  void expect_op(std::string_view op) {
    if (take_op(op)) return;
    if (at_word("for")) fail(peek().span, "comprehensions are not part of quarry's expressions");
    if (at_op("=")) fail(peek().span, "'=' is no operator of expressions; equality is '=='");
    fail(peek().span, "invalid syntax: expected '" + std::string(op) + "', found " + found(peek()));
  }

  template <class T>
  ExprPtr make(int64_t begin, T node, int depth) {
    auto expr = std::make_unique<Expr>();
    expr->span = {begin, last_end()};
    expr->node = std::move(node);
    expr->depth = depth + 1;
    if (expr->depth > kMaxDepth) fail(expr->span, "the expression has too many operations in a row; use a script");
    return expr;
  }

  bool starts_expression() const {
    const Token& token = peek();
    if (token.kind == Token::Kind::end) return false;
    if (token.kind == Token::Kind::op) {
      constexpr std::array<std::string_view, 7> kStarts = {"(", "[", "+", "-", "~", "...", "{"};
      return std::find(kStarts.begin(), kStarts.end(), token.text) != kStarts.end();
    }
    return true;
  }

  ExprPtr tuple_or_expression() {
    const int64_t begin = peek().span.begin;
    ExprPtr first = expression();
    if (!at_op(",")) return first;
    return rest_of_tuple(begin, std::move(first));
  }

  ExprPtr rest_of_tuple(int64_t begin, ExprPtr first) {
    Sequence tuple{false, {}};
    int depth = first->depth;
    tuple.items.push_back(std::move(first));
    while (take_op(",")) {
      if (!starts_expression()) break;
      tuple.items.push_back(expression());
      depth = std::max(depth, tuple.items.back()->depth);
    }
    return make(begin, std::move(tuple), depth);
  }

  ExprPtr expression() {
    const Level level(*this);
    const int64_t begin = peek().span.begin;
    if (take_word("lambda")) return lambda(begin);
    ExprPtr then = disjunction();
    if (!take_word("if")) return then;
    ExprPtr condition = disjunction();
    if (!take_word("else")) fail(peek().span, "expected 'else' after an 'if' expression, found " + found(peek()));
    ExprPtr otherwise = expression();
    const int depth = std::max({then->depth, condition->depth, otherwise->depth});
    return make(begin, Conditional{std::move(then), std::move(condition), std::move(otherwise)}, depth);
  }

  ExprPtr lambda(int64_t begin) {
    Lambda result;
    int depth = 0;
    while (!at_op(":")) {
      const Token name = peek();
      if (name.kind != Token::Kind::name || is_keyword(name.text)) {
        fail(name.span, "expected the name of a parameter, found " + found(name));
      }
      if (std::find(result.parameters.begin(), result.parameters.end(), name.text) != result.parameters.end()) {
        fail(name.span, "the parameter '" + name.text + "' is named twice");
      }
      ++at_;
      ExprPtr value = take_op("=") ? expression() : nullptr;
      if (!value && !result.defaults.empty() && result.defaults.back()) {
        fail(name.span, "a parameter without a default follows one that has one");
      }
      depth = std::max(depth, depth_of(value));
      result.parameters.push_back(name.text);
      result.defaults.push_back(std::move(value));
      if (!take_op(",")) break;
    }
    expect_op(":");
    result.body = expression();
    depth = std::max(depth, result.body->depth);
    return make(begin, std::move(result), depth);
  }

  ExprPtr disjunction() {
    const int64_t begin = peek().span.begin;
    ExprPtr left = conjunction();
    while (take_word("or")) {
      ExprPtr right = conjunction();
      const int depth = std::max(left->depth, right->depth);
      left = make(begin, BoolOp{false, std::move(left), std::move(right)}, depth);
    }
    return left;
  }

  ExprPtr conjunction() {
    const int64_t begin = peek().span.begin;
    ExprPtr left = inversion();
    while (take_word("and")) {
      ExprPtr right = inversion();
      const int depth = std::max(left->depth, right->depth);
      left = make(begin, BoolOp{true, std::move(left), std::move(right)}, depth);
    }
    return left;
  }

  ExprPtr inversion() {
    const int64_t begin = peek().span.begin;
    if (!take_word("not")) return comparison();
    const Level level(*this);
    ExprPtr operand = inversion();
    const int depth = operand->depth;
    return make(begin, Unary{UnaryOp::logical_not, std::move(operand)}, depth);
  }

  std::optional<CompareOp> compare_op() {
    static constexpr std::pair<std::string_view, CompareOp> kOps[] = {
        {"<", CompareOp::less},           {"<=", CompareOp::less_equal}, {">", CompareOp::greater},
        {">=", CompareOp::greater_equal}, {"==", CompareOp::equal},      {"!=", CompareOp::not_equal}};
    for (const auto& [text, op] : kOps) {
      if (take_op(text)) return op;
    }
    if (at_word("in") || at_word("is") || (at_word("not") && tokens_[at_ + 1].text == "in")) {
      fail(peek().span, "'" + peek().text + "' comparisons are not part of quarry's expressions");
    }
    return std::nullopt;
  }

  ExprPtr comparison() {
    const int64_t begin = peek().span.begin;
    ExprPtr first = binary(0);
    std::optional<CompareOp> op = compare_op();
    if (!op) return first;
    int depth = first->depth;
    Compare chain{std::move(first), {}, {}};
    while (op) {
      chain.ops.push_back(*op);
      chain.rest.push_back(binary(0));
      depth = std::max(depth, chain.rest.back()->depth);
      op = compare_op();
    }
    return make(begin, std::move(chain), depth);
  }

  // Left-associative levels, loosest first.
  static std::optional<BinaryOp> binary_op(int level, std::string_view text) {
    static constexpr struct {
      int level;
      std::string_view text;
      BinaryOp op;
    } kOps[] = {{0, "|", BinaryOp::bit_or},        {1, "^", BinaryOp::bit_xor},      {2, "&", BinaryOp::bit_and},
                {3, "<<", BinaryOp::left_shift},   {3, ">>", BinaryOp::right_shift}, {4, "+", BinaryOp::add},
                {4, "-", BinaryOp::subtract},      {5, "*", BinaryOp::multiply},     {5, "/", BinaryOp::divide},
                {5, "//", BinaryOp::floor_divide}, {5, "%", BinaryOp::remainder},    {5, "@", BinaryOp::matmul}};
    for (const auto& row : kOps) {
      if (row.level == level && row.text == text) return row.op;
    }
    return std::nullopt;
  }
  static constexpr int kBinaryLevels = 6;

  ExprPtr binary(int level) {
    if (level == kBinaryLevels) return factor();
    const int64_t begin = peek().span.begin;
    ExprPtr left = binary(level + 1);
    while (peek().kind == Token::Kind::op) {
      const std::optional<BinaryOp> op = binary_op(level, peek().text);
      if (!op) break;
      const Span op_span = peek().span;
      ++at_;
      ExprPtr right = binary(level + 1);
      const int depth = std::max(left->depth, right->depth);
      left = make(begin, Binary{*op, op_span, std::move(left), std::move(right)}, depth);
    }
    return left;
  }

  ExprPtr factor() {
    const int64_t begin = peek().span.begin;
    std::optional<UnaryOp> op;
    if (take_op("-"))
      op = UnaryOp::minus;
    else if (take_op("+"))
      op = UnaryOp::plus;
    else if (take_op("~"))
      op = UnaryOp::invert;
    if (!op) return power();
    const Level level(*this);
    ExprPtr operand = factor();
    const int depth = operand->depth;
    return make(begin, Unary{*op, std::move(operand)}, depth);
  }

  // ** binds tighter than a unary operator on its left and looser than one on its right.
  ExprPtr power() {
    const int64_t begin = peek().span.begin;
    ExprPtr base = primary();
    if (!at_op("**")) return base;
    const Span op_span = peek().span;
    ++at_;
    const Level level(*this);
    ExprPtr exponent = factor();
    const int depth = std::max(base->depth, exponent->depth);
    return make(begin, Binary{BinaryOp::power, op_span, std::move(base), std::move(exponent)}, depth);
  }

  ExprPtr primary() {
    const int64_t begin = peek().span.begin;
    ExprPtr result = atom();
    while (true) {
      const int depth = result->depth;
      if (take_op(".")) {
        const Token name = peek();
        if (name.kind != Token::Kind::name || is_keyword(name.text)) {
          fail(name.span, "expected a name after '.', found " + found(name));
        }
        ++at_;
        result = make(begin, Attribute{std::move(result), name.text, name.span}, depth);
      } else if (take_op("(")) {
        result = call(begin, std::move(result));
      } else if (take_op("[")) {
        ExprPtr index = subscript_index();
        expect_op("]");
        const int deepest = std::max(depth, index->depth);
        result = make(begin, Subscript{std::move(result), std::move(index)}, deepest);
      } else {
        return result;
      }
    }
  }

  ExprPtr call(int64_t begin, ExprPtr function) {
    int depth = function->depth;
    Call result{std::move(function), {}, {}};
    while (!at_op(")")) {
      if (at_op("*") || at_op("**")) fail(peek().span, "starred arguments are not part of quarry's expressions");
      const Token token = peek();
      if (token.kind == Token::Kind::name && tokens_[at_ + 1].kind == Token::Kind::op && tokens_[at_ + 1].text == "=") {
        if (is_keyword(token.text)) fail(token.span, "'" + token.text + "' cannot name an argument");
        for (const Keyword& other : result.keywords) {
          if (other.name == token.text) fail(token.span, "keyword argument repeated: " + token.text);
        }
        at_ += 2;
        result.keywords.push_back({token.text, token.span, expression()});
        depth = std::max(depth, result.keywords.back().value->depth);
      } else {
        ExprPtr value = expression();
        if (!result.keywords.empty()) fail(value->span, "positional argument follows keyword argument");
        depth = std::max(depth, value->depth);
        result.args.push_back(std::move(value));
      }
      if (!take_op(",")) break;
    }
    expect_op(")");
    return make(begin, std::move(result), depth);
  }

  ExprPtr subscript_index() {
    const int64_t begin = peek().span.begin;
    if (at_op("]")) fail(peek().span, "expected an index");
    ExprPtr first = slice();
    if (!at_op(",")) return first;
    Sequence tuple{false, {}};
    int depth = first->depth;
    tuple.items.push_back(std::move(first));
    while (take_op(",")) {
      if (at_op("]")) break;
      tuple.items.push_back(slice());
      depth = std::max(depth, tuple.items.back()->depth);
    }
    return make(begin, std::move(tuple), depth);
  }

  ExprPtr slice() {
    const int64_t begin = peek().span.begin;
    ExprPtr start;
    if (!at_op(":")) {
      start = expression();
      if (!at_op(":")) return start;
    }
    ++at_;
    const auto part = [&]() -> ExprPtr { return at_op(":") || at_op(",") || at_op("]") ? nullptr : expression(); };
    SliceRange range{std::move(start), part(), nullptr};
    if (take_op(":")) range.step = part();
    const int depth = std::max({depth_of(range.start), depth_of(range.stop), depth_of(range.step)});
    return make(begin, std::move(range), depth);
  }

  ExprPtr atom() {
    const Token token = peek();
    const int64_t begin = token.span.begin;
    switch (token.kind) {
      case Token::Kind::number: {
        ++at_;
        Literal literal;
        std::visit([&](const auto& value) { literal.value = value; }, token.number);
        return make(begin, std::move(literal), 0);
      }
      case Token::Kind::string:
      case Token::Kind::bytes: {
        std::string value;
        while (peek().kind == token.kind) value += tokens_[at_++].text;
        if (peek().kind == Token::Kind::string || peek().kind == Token::Kind::bytes) {
          fail(peek().span, "cannot mix bytes and nonbytes literals");
        }
        return token.kind == Token::Kind::bytes ? make(begin, Literal{Bytes{std::move(value)}}, 0)
                                                : make(begin, Literal{std::move(value)}, 0);
      }
      case Token::Kind::name:
        return name_atom(token);
      case Token::Kind::end:
        fail(token.span, "invalid syntax: expected an expression, found the end");
      case Token::Kind::op:
        break;
    }
    if (take_op("...")) return make(begin, EllipsisLiteral{}, 0);
    if (take_op("(")) return parenthesised(begin);
    if (take_op("[")) return list(begin);
    if (take_op("{")) return dict(begin);
    fail(token.span, "invalid syntax: expected an expression, found " + found(token));
  }

  ExprPtr name_atom(const Token& token) {
    ++at_;
    const int64_t begin = token.span.begin;
    if (token.text == "True") return make(begin, Literal{true}, 0);
    if (token.text == "False") return make(begin, Literal{false}, 0);
    if (token.text == "None") return make(begin, NoneLiteral{}, 0);
    if (is_keyword(token.text)) {
      fail(token.span, "invalid syntax: expected an expression, found '" + token.text + "'");
    }
    return make(begin, Name{token.text}, 0);
  }

  ExprPtr parenthesised(int64_t begin) {
    if (take_op(")")) return make(begin, Sequence{false, {}}, 0);
    const int64_t inner = peek().span.begin;
    ExprPtr first = expression();
    if (at_op(",")) first = rest_of_tuple(inner, std::move(first));
    expect_op(")");
    first->span = {begin, last_end()};
    return first;
  }

  ExprPtr list(int64_t begin) {
    Sequence result{true, {}};
    int depth = 0;
    while (!at_op("]")) {
      result.items.push_back(expression());
      depth = std::max(depth, result.items.back()->depth);
      if (!take_op(",")) break;
    }
    expect_op("]");
    return make(begin, std::move(result), depth);
  }

  ExprPtr dict(int64_t begin) {
    Dict result;
    int depth = 0;
    while (!at_op("}")) {
      ExprPtr key = expression();
      if (at_op(",") || at_op("}")) fail({begin, last_end()}, "sets are not part of quarry's expressions");
      expect_op(":");
      ExprPtr value = expression();
      depth = std::max({depth, key->depth, value->depth});
      result.items.emplace_back(std::move(key), std::move(value));
      if (!take_op(",")) break;
    }
    expect_op("}");
    return make(begin, std::move(result), depth);
  }

  const Source& source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace

ExprPtr parse(const Source& source) { return Parser(source).whole(); }
std::optional<Statement> parse_statement(const Source& source) { return Parser(source).statement(); }

}  // namespace quarry::apps::expression
