// Paths of the parts of models, and patterns of them.
#include "weft/tree.hpp"

#include <cstdio>
#include <string>

#include "base/fail.hpp"
#include "base/path_name.hpp"
#include "base/wildcards.hpp"
#include "record/composite.hpp"

namespace weft {
namespace detail {
namespace {

unsigned append(char* text, unsigned size, unsigned capacity, const char* part, unsigned length) {
  int written = std::snprintf(text + size, capacity - size, "%s%.*s", size ? "." : "", static_cast<int>(length), part);
  if (written < 0 || static_cast<unsigned>(written) >= capacity - size)
    fail("model", {}, "the path of a parameter is longer than ", capacity, " characters: ", text);
  return size + static_cast<unsigned>(written);
}

}  // namespace

const char* Path::interned() const { return interned_text(intern_text(text_)).c_str(); }

Path::Segment::Segment(Path& path, std::int64_t number, MemberName name) : path_(path), before_(path.size_) {
  std::string text = name.text ? std::string(name.text, name.size) : std::to_string(number);
  path.size_ =
      append(path.text_, path.size_, sizeof path.text_, path_name(text).data(), static_cast<unsigned>(text.size()));
}
Path::Segment::~Segment() {
  path_.size_ = before_;
  path_.text_[before_] = 0;
}

void refuse_other_structure(const Path& path, const char* what, std::uint64_t first, std::uint64_t other, Loc loc) {
  fail("tree", loc, "the models differ", *path.text() ? " at " : "", path.text(), ": ", what, " ", first, " and ",
       other);
}

}  // namespace detail

bool tree::matches(const char* pattern, const char* path) { return match_stars(pattern, path).has_value(); }

}  // namespace weft
