// What a library of a device answers, for the life of the process. In: a question and who asks it. Out: the answer.
// Threads that come with different questions ask side by side; those that come with one wait for the first of them.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace weft::runtime::cuda {

template <class Question, class Answer>
class Answers {
 public:
  // Where `ask` throws, the next one asks again.
  template <class Ask>
  Answer find(const Question& question, const Ask& ask) {
    const std::shared_ptr<Entry> entry = entry_of(question);
    const std::lock_guard lock(entry->mutex);
    return entry->found(ask);
  }
  // For a later find(). Nothing where the answer is known, or another thread is at the question.
  template <class Ask>
  std::optional<Answer> find_ahead(const Question& question, const Ask& ask) {
    const std::shared_ptr<Entry> entry = entry_of(question);
    const std::unique_lock lock(entry->mutex, std::try_to_lock);
    if (!lock) return std::nullopt;
    entry->is_promised = false;  // whatever comes of it
    if (entry->answer) return std::nullopt;
    return entry->found(ask);
  }
  // Says that a find_ahead() of this question follows, by any thread.
  void promise(const Question& question) { entry_of(question)->is_promised = true; }
  // The answer, unless another thread is at the question or has promised to be: then nothing, at once.
  template <class Ask>
  std::optional<Answer> find_unless_awaited(const Question& question, const Ask& ask) {
    const std::shared_ptr<Entry> entry = entry_of(question);
    const std::unique_lock lock(entry->mutex, std::try_to_lock);
    if (!lock || (entry->is_promised && !entry->answer)) return std::nullopt;
    return entry->found(ask);
  }

 private:
  struct Entry {
    std::mutex mutex;
    std::atomic<bool> is_promised = false;
    std::optional<Answer> answer;
    template <class Ask>
    const Answer& found(const Ask& ask) {
      if (!answer) answer.emplace(ask());
      return *answer;
    }
  };
  static constexpr std::size_t most_kept = 512;

  std::shared_ptr<Entry> entry_of(const Question& question) {
    std::map<Question, std::shared_ptr<Entry>> dropped;  // destroyed when nobody waits for the lock
    const std::lock_guard lock(mutex_);
    if (const auto known = entries_.find(question); known != entries_.end()) return known->second;
    if (entries_.size() >= most_kept) dropped.swap(entries_);
    return entries_.emplace(question, std::make_shared<Entry>()).first->second;
  }

  std::mutex mutex_;
  std::map<Question, std::shared_ptr<Entry>> entries_;
};

}  // namespace weft::runtime::cuda
