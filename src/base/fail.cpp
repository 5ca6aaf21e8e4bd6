#include "base/fail.hpp"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstring>
#include <new>
#include <typeinfo>

#include "base/dim_expression.hpp"
#include "base/named_sizes.hpp"

namespace weft {

struct Exception::Text {
  std::atomic<int> count{1};
  std::string text;
};

Exception::Exception(const char* text) : text_(new Text) { text_->text = text; }
Exception::Exception(const Exception& other) noexcept : std::exception(other), text_(other.text_) {
  text_->count.fetch_add(1, std::memory_order_relaxed);
}
Exception& Exception::operator=(const Exception& other) noexcept {
  Exception copy(other);
  std::swap(text_, copy.text_);
  return *this;
}
Exception::~Exception() {
  if (text_->count.fetch_sub(1, std::memory_order_acq_rel) == 1) delete text_;
}
const char* Exception::what() const noexcept { return text_->text.c_str(); }

std::string counted(std::int64_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string to_string(Loc loc) {
  if (!loc.file) return {};
  const char* slash = std::strrchr(loc.file, '/');
  return std::string(slash ? slash + 1 : loc.file) + ":" + std::to_string(loc.line);
}

std::string sizes_named(const std::string& message, std::span<const std::int64_t> sizes) {
  std::string text;
  if (message.find(", where s") != std::string::npos) return text;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::string name = "s" + std::to_string(i);
    for (std::size_t at = message.find(name); at != std::string::npos; at = message.find(name, at + 1)) {
      const char before = at ? message[at - 1] : ' ',
                 after = at + name.size() < message.size() ? message[at + name.size()] : ' ';
      if (std::isalnum(static_cast<unsigned char>(before)) || before == '_' ||
          std::isalnum(static_cast<unsigned char>(after)))
        continue;
      text += (text.empty() ? ", where " : ", ") + name + " = " + std::to_string(sizes[i]);
      break;
    }
  }
  return text;
}

void rethrow_with_sizes(const Error& error, std::span<const std::int64_t> sizes) {
  std::string text = error.what();
  const std::string named = sizes_named(text, sizes);
  if (named.empty() || typeid(error) != typeid(Error)) throw;
  text.insert(std::min(text.rfind(", at "), text.size()), named);
  throw Error(text.c_str());
}

const char*& called_operation() {
  thread_local const char* name = nullptr;
  return name;
}

std::string error_text(std::string_view operation, Loc loc, const std::string& message) {
  if (called_operation() && !operation.empty()) operation = called_operation();
  std::string text;
  if (!operation.empty()) text.append("[").append(operation).append("] ");
  for (const char c : message) text += c == '\0' ? '?' : c;  // what() ends at the first 0
  if (loc.file) text.append(", at ").append(to_string(loc));
  return text;
}
void throw_error(std::string_view operation, Loc loc, const std::string& message) {
  std::vector<std::int64_t> sizes;
  if (const DimEnvironment* const environment = DimEnvironment::current())
    for (const DimSymbol& symbol : environment->symbols) sizes.push_back(symbol.hint);
  throw Error(error_text(operation, loc, message + sizes_named(message, sizes)).c_str());
}
void throw_compile_error(std::string_view operation, Loc loc, std::string_view text) {
  if (const std::string_view own = "[compile] "; text.starts_with(own)) text.remove_prefix(own.size());
  std::size_t end = std::min(text.find('\n'), text.size());  // the compiler's words and the source's path follow
  if (end && text[end - 1] == ':') --end;
  throw CompileError(error_text(operation, loc, std::string(text.substr(0, end))).append(text.substr(end)).c_str());
}
void throw_internal(Loc loc, const std::string& message) {
  throw InternalError(concat_text("[internal] ", message, ", at ", to_string(loc)).c_str());
}

}  // namespace weft
