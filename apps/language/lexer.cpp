#include "quarry/apps/language/lexer.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "quarry/local/base/error.h"

namespace quarry::apps::expression {

namespace {

// Longest first, so that the first match is the token.
constexpr std::array<std::string_view, 40> kOperators = {
    "...", "**=", "//=", ">>=", "<<=", "**", "//", "<<", ">>", "<=", ">=", "==", "!=", ":=",
    "->",  "+=",  "-=",  "*=",  "/=",  "%=", "&=", "|=", "^=", "+",  "-",  "*",  "/",  "%",
    "@",   "&",   "|",   "^",   "~",   "<",  ">",  "=",  ",",  ":",  ".",  ";",
};

bool name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool digit(char c) { return c >= '0' && c <= '9'; }
bool name_part(char c) { return name_start(c) || digit(c); }

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3f));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  }
}

class Lexer {
 public:
  explicit Lexer(const Source& source) : source_(source), text_(source.text) {}

  std::vector<Token> run() {
    while (skip_space()) {
      const char c = text_[at_];
      if (digit(c) || (c == '.' && at_ + 1 < text_.size() && digit(text_[at_ + 1]))) {
        number();
      } else if (c == '"' || c == '\'') {
        string({}, at_);
      } else if (name_start(c)) {
        name();
      } else {
        op();
      }
    }
    if (!open_.empty()) {
      fail(open_.back(), open_.back() + 1, std::string("'") + text_[open_.back()] + "' was never closed");
    }
    add(Token::Kind::end, text_.size(), text_.size(), "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(size_t begin, size_t end, const std::string& message) const {
    throw ExpressionError(source_, {static_cast<int64_t>(begin), static_cast<int64_t>(end)}, message);
  }

  void add(Token::Kind kind, size_t begin, size_t end, std::string text) {
    tokens_.push_back({kind, {static_cast<int64_t>(begin), static_cast<int64_t>(end)}, std::move(text), Int{0}});
  }

  // Moves to the next token; false at the end.
  bool skip_space() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == '\n' && open_.empty()) {
        if (text_.find_first_not_of(" \t\r\n", at_) == std::string_view::npos) return false;
        if (!tokens_.empty()) fail(at_, at_ + 1, "invalid syntax: the expression goes on after a line break");
        ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f') {
        ++at_;
      } else {
        return true;
      }
    }
    return false;
  }

  // Digits of `base` with single underscores between them, without the underscores.
  std::string digits(int base, size_t literal, bool underscore_first) {
    std::string result;
    bool underscore = !underscore_first;  // a leading underscore is allowed after a base prefix only
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '_') {
        if (underscore) break;
        underscore = true;
      } else if (base == 16 ? std::isxdigit(static_cast<unsigned char>(c)) != 0 : digit(c)) {
        if (base < 10 && c - '0' >= base) {
          fail(at_, at_ + 1,
               std::string("invalid digit '") + c + "' in " + (base == 8 ? "octal" : "binary") + " literal");
        }
        result += c;
        underscore = false;
      } else {
        break;
      }
      ++at_;
    }
    if (result.empty() || text_[at_ - 1] == '_' || (at_ < text_.size() && text_[at_] == '_')) {
      fail(literal, std::min(at_ + 1, text_.size()), bad_literal(base));
    }
    return result;
  }

  static std::string bad_literal(int base) {
    return std::string("invalid ") +
           (base == 16  ? "hexadecimal"
            : base == 8 ? "octal"
            : base == 2 ? "binary"
                        : "decimal") +
           " literal";
  }

  Int to_int(const std::string& digits, int base, size_t begin) const {
    try {
      return Int::parse(digits, base).value();
    } catch (const local::InvalidArgument& e) {  // too long
      fail(begin, at_, e.what());
    }
  }

  void number() {
    const size_t begin = at_;
    if (text_[at_] == '0' && at_ + 1 < text_.size()) {
      const char prefix = static_cast<char>(std::tolower(static_cast<unsigned char>(text_[at_ + 1])));
      const int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 0;
      if (base != 0) {
        at_ += 2;
        const std::string value = digits(base, begin, /*underscore_first=*/true);
        finish_number(begin, base, to_int(value, base, begin));
        return;
      }
    }
    std::string value;
    bool is_float = false;
    if (text_[at_] != '.') value = digits(10, begin, false);
    if (at_ < text_.size() && text_[at_] == '.') {
      is_float = true;
      value += '.';
      ++at_;
      if (at_ < text_.size() && digit(text_[at_])) value += digits(10, begin, false);
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      const size_t sign = at_ + 1;
      const bool signed_exponent = sign < text_.size() && (text_[sign] == '+' || text_[sign] == '-');
      const size_t first = sign + (signed_exponent ? 1 : 0);
      if (first < text_.size() && digit(text_[first])) {
        is_float = true;
        value += 'e';
        if (signed_exponent) value += text_[sign];
        at_ = first;
        value += digits(10, begin, false);
      }
    }
    const bool imaginary = at_ < text_.size() && (text_[at_] == 'j' || text_[at_] == 'J');
    if (imaginary || is_float) {
      const double real = std::strtod(value.c_str(), nullptr);  // correctly rounded; inf beyond the range, as Python
      if (imaginary) {
        ++at_;
        finish_number(begin, 10, std::complex<double>(0, real));
      } else {
        finish_number(begin, 10, real);
      }
      return;
    }
    if (value.size() > 1 && value[0] == '0' && value.find_first_not_of('0') != std::string::npos) {
      fail(begin, at_, "leading zeros in decimal integer literals are not permitted; use an 0o prefix for octal");
    }
    finish_number(begin, 10, to_int(value, 10, begin));
  }

  template <class T>
  void finish_number(size_t begin, int base, T value) {
    if (at_ < text_.size() && name_part(text_[at_])) {
      size_t end = at_;
      while (end < text_.size() && name_part(text_[end])) ++end;
      fail(begin, end, bad_literal(base));
    }
    add(Token::Kind::number, begin, at_, "");
    tokens_.back().number = value;
  }

  void name() {
    const size_t begin = at_;
    while (at_ < text_.size() && name_part(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      std::string prefix;
      for (const char c : word.substr(0, 3)) {
        prefix += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      }
      const bool raw = prefix == "r" || prefix == "br" || prefix == "rb";
      const bool bytes = prefix == "b" || prefix == "br" || prefix == "rb";
      if (!raw && !bytes && prefix != "u") {
        fail(begin, at_ + 1, "strings with the prefix '" + std::string(word) + "' are not part of expressions");
      }
      string({raw, bytes}, begin);
      return;
    }
    add(Token::Kind::name, begin, at_, std::string(word));
  }

  // One to three octal digits.
  uint32_t octal_escape() {
    uint32_t code = 0;
    for (int i = 0; i < 3 && at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '7'; ++i, ++at_) {
      code = code * 8 + static_cast<uint32_t>(text_[at_] - '0');
    }
    return code;
  }

  uint32_t hex_escape(size_t escape, int count) {
    uint32_t code = 0;
    for (int i = 0; i < count; ++i, ++at_) {
      if (at_ >= text_.size() || std::isxdigit(static_cast<unsigned char>(text_[at_])) == 0) {
        fail(escape, at_, "truncated escape in the string literal");
      }
      const char c = text_[at_];
      code = code * 16 +
             static_cast<uint32_t>(digit(c) ? c - '0' : std::tolower(static_cast<unsigned char>(c)) - 'a' + 10);
    }
    if (code > 0x10ffff) fail(escape, at_, "illegal Unicode character in the string literal");
    return code;
  }

  // Of a literal of bytes, an escape gives a byte.
  void escaped(std::string& value, bool bytes, uint32_t code) const {
    if (bytes)
      value += static_cast<char>(code);
    else
      append_utf8(value, code);
  }

  struct Prefix {
    bool raw = false, bytes = false;
  };

  void string(Prefix prefix, size_t begin) {
    const char quote = text_[at_++];
    std::string value;
    while (true) {
      if (at_ >= text_.size() || text_[at_] == '\n') fail(begin, at_, "unterminated string literal");
      const char c = text_[at_++];
      if (c == quote) break;
      if (prefix.bytes && static_cast<unsigned char>(c) >= 0x80) {
        fail(at_ - 1, at_, "bytes can only contain ASCII literal characters");
      }
      if (c != '\\') {
        value += c;
        continue;
      }
      if (at_ >= text_.size()) fail(begin, at_, "unterminated string literal");
      const size_t escape = at_ - 1;
      const char kind = text_[at_++];
      if (prefix.raw) {
        value += '\\';
        value += kind;
        continue;
      }
      switch (kind) {
        case '\\':
        case '\'':
        case '"':
          value += kind;
          break;
        case 'n':
          value += '\n';
          break;
        case 't':
          value += '\t';
          break;
        case 'r':
          value += '\r';
          break;
        case 'a':
          value += '\a';
          break;
        case 'b':
          value += '\b';
          break;
        case 'f':
          value += '\f';
          break;
        case 'v':
          value += '\v';
          break;
        case 'x':
          escaped(value, prefix.bytes, hex_escape(escape, 2));
          break;
        default:
          if (kind >= '0' && kind <= '7') {
            --at_;
            escaped(value, prefix.bytes, octal_escape() & (prefix.bytes ? 0xffu : 0x1ffu));
          } else if (!prefix.bytes && (kind == 'u' || kind == 'U')) {
            append_utf8(value, hex_escape(escape, kind == 'u' ? 4 : 8));
          } else {  // as Python: an unknown escape stays as written
            value += '\\';
            value += kind;
          }
      }
    }
    add(prefix.bytes ? Token::Kind::bytes : Token::Kind::string, begin, at_, std::move(value));
  }

  void op() {
    const char c = text_[at_];
    const size_t begin = at_;
    if (c == '(' || c == '[' || c == '{') {
      open_.push_back(at_++);
      add(Token::Kind::op, begin, at_, std::string(1, c));
      return;
    }
    if (c == ')' || c == ']' || c == '}') {
      const char opening = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (open_.empty()) fail(at_, at_ + 1, std::string("unmatched '") + c + "'");
      if (text_[open_.back()] != opening) {
        fail(at_, at_ + 1,
             std::string("closing '") + c + "' does not match opening '" + text_[open_.back()] + "' of column " +
                 std::to_string(open_.back() + 1));
      }
      open_.pop_back();
      ++at_;
      add(Token::Kind::op, begin, at_, std::string(1, c));
      return;
    }
    for (const std::string_view candidate : kOperators) {
      if (text_.substr(at_).starts_with(candidate)) {
        at_ += candidate.size();
        add(Token::Kind::op, begin, at_, std::string(candidate));
        return;
      }
    }
    size_t end = at_ + 1;
    while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xc0u) == 0x80u) ++end;
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    fail(at_, end,
         control ? "invalid character (code " + std::to_string(static_cast<unsigned char>(c)) + ")"
                 : "invalid character '" + std::string(text_.substr(at_, end - at_)) + "'");
  }

  const Source& source_;
  std::string_view text_;
  size_t at_ = 0;
  std::vector<size_t> open_;  // brackets not closed yet
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(const Source& source) { return Lexer(source).run(); }

}  // namespace quarry::apps::expression
