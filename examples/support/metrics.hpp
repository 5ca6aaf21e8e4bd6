// Counts that many threads add to, and their text for Prometheus (format 0.0.4).
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <string>
#include <vector>

namespace support {

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Seconds, for requests and calls.
inline const std::vector<double> latency_bounds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5};

// How many values were at most each bound, and their sum.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void add(double value) {
    std::size_t i = 0;
    while (i < bounds_.size() && value > bounds_[i]) ++i;
    counts_[i].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }

 private:
  friend class MetricsText;
  std::vector<double> bounds_;
  std::deque<std::atomic<std::uint64_t>> counts_;  // of each bound alone, and of what is above all
  std::atomic<double> sum_ = 0;
};

// How many answers had each status.
class StatusCounts {
 public:
  void add(int status) {
    if (status >= 0 && static_cast<std::size_t>(status) < counts_.size())
      counts_[static_cast<std::size_t>(status)].fetch_add(1, std::memory_order_relaxed);
  }
  std::uint64_t all() const {
    std::uint64_t sum = 0;
    for (const auto& count : counts_) sum += count.load(std::memory_order_relaxed);
    return sum;
  }

 private:
  friend class MetricsText;
  std::array<std::atomic<std::uint64_t>, 600> counts_ = {};
};

class MetricsText {
 public:
  const std::string& text() const { return text_; }

  void gauge(const std::string& name, const char* help, double value) {
    begin(name, help, "gauge");
    sample(name, value);
  }
  void counts(const std::string& name, const char* help, const StatusCounts& counts) {
    begin(name, help, "counter");
    for (std::size_t status = 0; status < counts.counts_.size(); ++status)
      if (const std::uint64_t count = counts.counts_[status].load(std::memory_order_relaxed))
        sample(name + "{code=\"" + std::to_string(status) + "\"}", static_cast<double>(count));
  }
  // Each bucket has the values of those before it too.
  void histogram(const std::string& name, const char* help, const Histogram& of) {
    begin(name, help, "histogram");
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < of.counts_.size(); ++i) {
      count += of.counts_[i].load(std::memory_order_relaxed);
      const std::string bound = i < of.bounds_.size() ? number(of.bounds_[i]) : "+Inf";
      sample(name + "_bucket{le=\"" + bound + "\"}", static_cast<double>(count));
    }
    sample(name + "_sum", of.sum_.load(std::memory_order_relaxed));
    sample(name + "_count", static_cast<double>(count));
  }

 private:
  static std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.15g", value);
    return text;
  }
  void begin(const std::string& name, const char* help, const char* type) {
    text_ += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  void sample(const std::string& name, double value) { text_ += name + " " + number(value) + "\n"; }

  std::string text_;
};

}  // namespace support
