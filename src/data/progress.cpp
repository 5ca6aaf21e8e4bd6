// The progress bar.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "weft/data/progress.hpp"

namespace weft {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(const char* label, std::int64_t total)
    : total_(std::max<std::int64_t>(total, 1)), start_(now()), terminal_(isatty(STDERR_FILENO) != 0) {
  drawn_ = terminal_ ? 0 : start_;  // a terminal sees the first step at once
  std::snprintf(label_, sizeof label_, "%s", label);
}
Progress::~Progress() {
  try {
    draw(true);
  } catch (...) {  // the number could not be computed: whoever needs it is told
  }
}

void Progress::tick() {
  ++done_;
  if ((!terminal_ && done_ * 10 / total_ > shown_tenths_) || now() - drawn_ >= (terminal_ ? 0.1 : 10)) draw(false);
}

void Progress::draw(bool last) {
  drawn_ = now();
  std::int64_t tenths = done_ * 10 / total_;
  if (!terminal_ && last && done_ == shown_) return;  // that line is there already
  shown_ = done_;
  shown_tenths_ = tenths;
  double seconds = drawn_ - start_, rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  char text[160];
  int length = std::snprintf(text, sizeof text, "%lld/%lld  %.0f/s  %.1f s", static_cast<long long>(done_),
                             static_cast<long long>(total_), rate,
                             last || rate <= 0 ? seconds : static_cast<double>(total_ - done_) / rate);
  std::string line(text, static_cast<std::size_t>(length));
  line += last || done_ >= total_ ? "" : " left";
  if (number_.defined()) {
    std::snprintf(text, sizeof text, "  %.4f", number_.item());
    line += text;
  }
  if (!terminal_) {
    std::fprintf(stderr, "%s  %s\n", label_, line.c_str());
    return;
  }
  int room = columns() - static_cast<int>(std::char_traits<char>::length(label_) + line.size()) - 6;
  std::string bar(static_cast<std::size_t>(std::clamp(room, 0, 40)), '.');
  std::fill_n(bar.begin(),
              static_cast<std::size_t>(std::min(done_, total_)) * bar.size() / static_cast<std::size_t>(total_), '#');
  std::fprintf(stderr, "\r\033[K%s [%s] %s%s", label_, bar.c_str(), line.c_str(), last ? "\n" : "");
  std::fflush(stderr);
}

}  // namespace weft
