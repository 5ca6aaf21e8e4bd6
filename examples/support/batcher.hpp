// Dynamic batching: requests of many threads become few large calls. A batch is called when it is full, or when its
// oldest request has waited `delay`; which comes first.
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "examples/support/metrics.hpp"

namespace support {

// What a request is answered with instead of a result.
struct Refusal {
  int status;  // of HTTP
  std::string why;
};

using Tokens = std::vector<std::int64_t>;  // of a text
using Vector = std::vector<float>;         // its embedding

// Texts that are padded with 0 to one length.
struct Batch {
  std::size_t count = 0, length = 0;
  std::vector<std::int64_t> tokens, mask;  // [count, length]; the mask is 1 for tokens and 0 for padding
};
// Many threads call it at once. The embeddings of the texts, in their order: [count, width]. What it throws fails the
// requests of the batch, and no others.
using Embed = std::function<std::vector<float>(const Batch&)>;

struct BatchingOptions {
  std::size_t texts = 32;                 // of a batch at most, and of a request
  std::size_t waiting = 256;              // texts that wait at most; a request beyond them is refused
  std::size_t multiple = 8;               // lengths are padded to a multiple of this, so that few sizes come
  std::size_t workers = 2;                // threads that call
  std::chrono::microseconds delay{2000};  // that a request waits for others
};

class Batcher {
 public:
  Batcher(const BatchingOptions& options, Embed embed)
      : options_(options),
        embed_(std::move(embed)),
        texts_of_batches_({1, 2, 4, 8, 16, 32, 64, 128}),
        seconds_of_batches_(latency_bounds) {
    for (std::size_t i = 0; i < options_.workers; ++i) threads_.emplace_back([this] { work(); });
  }
  Batcher(const Batcher&) = delete;
  // Calls with what waits, and ends.
  ~Batcher() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    for (std::thread& each : threads_) each.join();
  }

  // Waits for the embeddings of these texts. Throws Refusal 503 where too many wait.
  std::vector<Vector> embed(std::vector<Tokens> texts) {
    Request request{std::move(texts)};
    std::future<std::vector<Vector>> answer = request.answer.get_future();
    {
      const std::lock_guard lock(mutex_);
      if (waiting_ + request.texts.size() > options_.waiting)
        throw Refusal{503, std::to_string(waiting_) + " texts wait already: try again later"};
      waiting_ += request.texts.size();
      queue_.push_back(std::move(request));
    }
    changed_.notify_one();
    return answer.get();
  }

  void print(MetricsText& to) {
    std::size_t waiting = 0;
    {
      const std::lock_guard lock(mutex_);
      waiting = waiting_;
    }
    to.gauge("serve_waiting_texts", "Texts that wait for a batch.", static_cast<double>(waiting));
    to.histogram("serve_batch_texts", "Texts of a batch.", texts_of_batches_);
    to.histogram("serve_batch_seconds", "Time of a call of the package.", seconds_of_batches_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Request {
    std::vector<Tokens> texts;
    Clock::time_point arrival = Clock::now();
    std::promise<std::vector<Vector>> answer = {};
  };

  void work() {
    for (std::vector<Request> requests; !(requests = take()).empty();) {
      try {
        answer(requests);
      } catch (...) {
        for (Request& each : requests) each.answer.set_exception(std::current_exception());
      }
    }
  }

  // The oldest requests, as many as one batch takes. None at the end.
  std::vector<Request> take() {
    std::unique_lock lock(mutex_);
    const auto is_due = [&] {
      return queue_.empty() || ending_ || waiting_ >= options_.texts ||
             Clock::now() >= queue_.front().arrival + options_.delay;
    };
    do {
      changed_.wait(lock, [&] { return ending_ || !queue_.empty(); });
      while (!is_due()) changed_.wait_until(lock, queue_.front().arrival + options_.delay);
    } while (queue_.empty() && !ending_);  // another worker took them
    std::vector<Request> taken;
    for (std::size_t texts = 0; !queue_.empty(); queue_.pop_front()) {
      texts += queue_.front().texts.size();
      if (!taken.empty() && texts > options_.texts) break;
      waiting_ -= queue_.front().texts.size();
      taken.push_back(std::move(queue_.front()));
    }
    if (!queue_.empty()) changed_.notify_one();  // the next batch is another worker's
    return taken;
  }

  void answer(std::vector<Request>& requests) {
    Batch batch;
    for (const Request& request : requests)
      for (const Tokens& text : request.texts) ++batch.count, batch.length = std::max(batch.length, text.size());
    batch.length = (batch.length + options_.multiple - 1) / options_.multiple * options_.multiple;
    batch.tokens.assign(batch.count * batch.length, 0);
    batch.mask = batch.tokens;
    std::size_t row = 0;
    for (const Request& request : requests)
      for (const Tokens& text : request.texts) {
        const auto at = static_cast<std::ptrdiff_t>(row++ * batch.length);
        std::ranges::copy(text, batch.tokens.begin() + at);
        std::fill_n(batch.mask.begin() + at, text.size(), 1);
      }
    const Clock::time_point begin = Clock::now();
    const std::vector<float> values = embed_(batch);
    seconds_of_batches_.add(seconds_since(begin));
    texts_of_batches_.add(static_cast<double>(batch.count));
    const auto width = static_cast<std::ptrdiff_t>(values.size() / batch.count);
    auto next = values.begin();
    std::vector<std::vector<Vector>> answers(requests.size());  // all before the first is given: that can't fail
    for (std::size_t i = 0; i < requests.size(); ++i)
      for (std::size_t j = 0; j < requests[i].texts.size(); ++j, next += width)
        answers[i].emplace_back(next, next + width);
    for (std::size_t i = 0; i < requests.size(); ++i) requests[i].answer.set_value(std::move(answers[i]));
  }

  const BatchingOptions options_;
  const Embed embed_;
  Histogram texts_of_batches_, seconds_of_batches_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> queue_;
  std::size_t waiting_ = 0;  // texts of the queue
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace support
