#include "base/fail.hpp"

#include <atomic>
#include <cstring>
#include <new>

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

std::string to_string(Loc loc) {
  if (!loc.file) return {};
  const char* slash = std::strrchr(loc.file, '/');
  return concat_text(slash ? slash + 1 : loc.file, ":", loc.line);
}

namespace {
std::string message_text(std::string_view operation, Loc loc, const std::string& message) {
  std::string text;
  if (!operation.empty()) text.append("[").append(operation).append("] ");
  text += message;
  if (loc.file) text.append(", at ").append(to_string(loc));
  return text;
}
}  // namespace

void throw_error(std::string_view operation, Loc loc, const std::string& message) {
  throw Error(message_text(operation, loc, message).c_str());
}
void throw_internal(Loc loc, const std::string& message) {
  throw InternalError(message_text("internal", loc, message).c_str());
}

}  // namespace weft
