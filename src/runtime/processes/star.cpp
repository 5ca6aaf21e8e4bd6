// A group over sockets: each process has a connection to that of rank 0, which combines what all send and answers each.
// Meant for what is small or rare: numbers to print, parameters at the start, tests; the traffic of rank 0 grows with
// the number of processes. Gradients of devices go by NCCL (runtime/cuda/collective.hpp), and of CPUs by MPI (mpi.cpp).
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

#include "base/fail.hpp"
#include "runtime/processes/process_group.hpp"
#include "runtime/processes/socket.hpp"
#include "runtime/processes/sum.hpp"

namespace weft::runtime {

namespace {

using Texts = std::vector<std::string>;  // by rank
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds longest_start(120);    // until all processes are there
constexpr std::chrono::seconds longest_greeting(10);  // of one that has connected: anybody may
constexpr std::chrono::seconds answer_of_rank_0(2);   // which knows who is late
constexpr std::uint64_t most_of_text = std::uint64_t{1} << 40;
constexpr std::uint64_t most_of_greeting = 256;  // bytes
const std::string greeting = "weft 1";

std::string ended(int rank) { return concat_text("rank ", rank, " has ended, or its connection is lost"); }

// Connections of rank 0 to all others, by rank, and of the others to rank 0: every process makes them at once.
class Connections {
 public:
  Connections(const Member& own, const Socket* listener, const std::string& host, const std::string& port)
      : all_(static_cast<std::size_t>(own.rank == 0 ? own.size : 1)) {
    const Clock::time_point until = Clock::now() + longest_start;
    if (own.rank > 0) {
      all_[0] = connect_to(host, port, until);
      const std::string hello = concat_text(greeting, " ", own.size, " ", own.rank);
      const auto answer = all_[0].send_text(hello) ? all_[0].receive_text(most_of_text) : std::nullopt;
      if (!answer) fail("distributed", {}, ended(0), ", at the start");
      if (!answer->empty()) throw Error(answer->c_str());
      return;
    }
    for (int here = 1; here < own.size;) {
      Socket connection = accept(*listener, until);
      if (!connection.is_open())
        fail("distributed", {}, "of ", own.size, " processes only ", here, " are here after ", longest_start.count(),
             " seconds");
      here += admit(own, std::move(connection), std::min(until, Clock::now() + longest_greeting));
    }
    for (std::size_t rank = 1; rank < all_.size(); ++rank) all_[rank].send_text("");
  }

  void close() {
    for (Socket& each : all_) each = Socket();
  }
  const Socket& operator[](int rank) const { return all_[static_cast<std::size_t>(rank)]; }
  int count() const { return static_cast<int>(all_.size()); }

 private:
  // Whether it is a process of the group that was missing. Who else connects is sent away.
  bool admit(const Member& own, Socket connection, Clock::time_point until) {
    const std::optional<std::string> hello = connection.receive_text(most_of_greeting, until);
    int size = 0, rank = 0;
    if (!hello || !hello->starts_with(greeting + " ") ||
        std::sscanf(hello->c_str() + greeting.size(), " %d %d", &size, &rank) != 2)
      return false;
    const bool fits = size == own.size && rank > 0 && rank < size && !all_[static_cast<std::size_t>(rank)].is_open();
    if (!fits) {
      connection.send_text(concat_text("[distributed] rank ", rank, " of ", size, " has no place in the group: it has ",
                                       own.size, " processes, each with a rank of its own"));
      return false;
    }
    all_[static_cast<std::size_t>(rank)] = std::move(connection);
    return true;
  }

  std::vector<Socket> all_;
};

// ---- who watches the others -----------------------------------------------------------------------------------------

constexpr char bye = 'b', death = 'd';
Connections* watched = nullptr;

[[noreturn]] void end_with(const std::string& sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  std::fflush(nullptr);
  _exit(1);
}

// One process has died: rank 0 says so to the others, and all end.
[[noreturn]] void end_all(int rank) {
  const std::string sentence = concat_text("[distributed] ", ended(rank), ": this process ends too");
  for (int other = 1; other < watched->count(); ++other)
    if (other != rank && (*watched)[other].send(&death, 1)) (*watched)[other].send_text(sentence);
  end_with(sentence);
}

void watch_for_ever() {
  const int first = watched->count() > 1 ? 1 : 0;
  std::vector<pollfd> open;
  std::vector<int> ranks;
  for (int rank = first; rank < watched->count(); ++rank) {
    open.push_back({(*watched)[rank].descriptor(), POLLIN, 0});
    ranks.push_back(rank);
  }
  while (!open.empty()) {
    if (poll(open.data(), open.size(), -1) <= 0) continue;
    for (std::size_t i = open.size(); i-- > 0;) {
      if (open[i].revents == 0) continue;
      char said = 0;
      if (!(*watched)[ranks[i]].receive(&said, 1)) end_all(ranks[i]);
      if (said == death)
        end_with((*watched)[ranks[i]].receive_text(most_of_text).value_or("[distributed] " + ended(0)));
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
      ranks.erase(ranks.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

// A process that fails says nothing.
void say_bye(int status) {
  if (status != 0) return;
  for (int rank = watched->count() > 1 ? 1 : 0; rank < watched->count(); ++rank) (*watched)[rank].send(&bye, 1);
}

// ---- the group ------------------------------------------------------------------------------------------------------

class Star final : public ProcessGroup {
 public:
  Star(const Member& own, const Socket* listener, const std::string& host, const std::string& port)
      : ProcessGroup(own), others_(own, listener, host, port) {}

  void watch() override {
    if (watched) return;
    Socket listener;
    if (own().rank == 0) listener = listen_at("", "0");
    const std::string port = exchange(own().rank == 0 ? port_of(listener) : "", "the start of watching")[0];
    watched = new Connections(own(), &listener, own().rank == 0 ? "" : others_[0].peer_host(), port);
    at_end(say_bye);
    std::thread(watch_for_ever).detach();
  }
  void close() override {
    others_.close();
    if (watched) watched->close();
  }

 protected:
  void carry_out(const CollectiveOperation& what, std::int64_t count, const void* from, void* to,
                 const std::string& text) override {
    using Kind = CollectiveOperation::Kind;
    const std::size_t bytes = storage_bytes(what.dtype, count);
    const bool gives = what.kind != Kind::broadcast || own().rank == what.root;
    const std::string answer = round(std::string(static_cast<const char*>(from), gives ? bytes : 0), text,
                                     [&](Texts& parts) { return combined(what, count, parts); });
    const std::size_t expected = storage_bytes(what.dtype, what.result_count(count));
    if (what.kind == Kind::reduce_to_root && own().rank != what.root)
      std::memset(to, 0, expected);
    else
      std::memcpy(to, answer.data(), std::min(answer.size(), expected));
  }
  Texts gather(const std::string& given, const std::string& text, std::chrono::seconds longest) override {
    const auto joined = [](Texts& parts) {
      std::string all;
      for (const std::string& part : parts) {
        const std::uint64_t bytes = part.size();
        all.append(reinterpret_cast<const char*>(&bytes), sizeof bytes).append(part);
      }
      return Texts{all};
    };
    const std::string all = round(given, text, joined, longest);
    Texts texts;
    for (std::size_t at = 0; at < all.size(); at += texts.back().size()) {
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, all.data() + at, sizeof bytes);
      at += sizeof bytes;
      texts.push_back(all.substr(at, bytes));
    }
    return texts;
  }

 private:
  // What each rank is answered; one answer: all are.
  static Texts combined(const CollectiveOperation& what, std::int64_t count, Texts& parts) {
    using Kind = CollectiveOperation::Kind;
    if (what.kind == Kind::broadcast) return {std::move(parts[static_cast<std::size_t>(what.root)])};
    if (what.kind == Kind::all_gather) {
      std::string joined;
      for (const std::string& part : parts) joined += part;
      return {joined};
    }
    std::vector<const void*> values;
    for (const std::string& part : parts) values.push_back(part.data());
    std::string& sum = parts[0];
    sum_in_order(what.dtype, count, values, sum.data());
    Texts answers;
    for (std::size_t rank = 0; what.kind != Kind::all_reduce && rank < parts.size(); ++rank) {
      if (what.kind == Kind::reduce_to_root)
        answers.push_back(static_cast<int>(rank) == what.root ? sum : "");
      else
        answers.push_back(sum.substr(rank * (sum.size() / parts.size()), sum.size() / parts.size()));
    }
    return answers.empty() ? Texts{std::move(sum)} : answers;
  }

  // Each process sends, rank 0 combines and answers. `text`: what this is, the same in all processes. `longest`: until
  // all have come; zero: for ever.
  std::string round(std::string part, const std::string& text, const std::function<Texts(Texts&)>& combine,
                    std::chrono::seconds longest = std::chrono::seconds(0)) {
    Deadline until;
    if (longest.count() > 0) until = Clock::now() + longest;
    const auto is_late = [&] { return until && Clock::now() >= *until; };
    if (own().rank > 0) {
      if (until) *until += answer_of_rank_0;
      const bool sent = others_[0].send_text(text) && others_[0].send_text(part);
      const std::optional<std::string> failure = sent ? others_[0].receive_text(most_of_text, until) : std::nullopt;
      if (failure && !failure->empty()) throw Error(failure->c_str());
      const std::optional<std::string> answer = failure ? others_[0].receive_text(most_of_text, until) : std::nullopt;
      if (!answer && is_late()) fail("distributed", {}, late("a process", text, longest));
      if (!answer) fail("distributed", {}, ended(0), "; this process is at ", text);
      return *answer;
    }
    // All are read, also where one is lost: the others are told.
    Texts parts{std::move(part)}, texts{text};
    std::string failure;
    for (int rank = 1; rank < own().size; ++rank) {
      std::optional<std::string> said = others_[rank].receive_text(most_of_text, until);
      std::optional<std::string> given = said ? others_[rank].receive_text(most_of_text, until) : std::nullopt;
      if (!given && failure.empty())
        failure = "[distributed] " + (is_late() ? late(concat_text("rank ", rank), text, longest)
                                                : ended(rank) + "; the others are at " + text);
      texts.push_back(given ? *said : text);
      parts.push_back(given ? std::move(*given) : std::string());
    }
    Texts answers;
    try {
      if (!failure.empty()) throw Error(failure.c_str());
      if (std::ranges::any_of(texts, [&](const std::string& each) { return each != text; })) throw_difference(texts);
      answers = combine(parts);
    } catch (const std::exception& error) {
      for (int rank = 1; rank < own().size; ++rank) others_[rank].send_text(error.what());
      throw;
    }
    for (int rank = 1; rank < own().size; ++rank)  // one that is lost is found in the next round
      if (others_[rank].send_text(""))
        others_[rank].send_text(answers[answers.size() == 1 ? 0 : static_cast<std::size_t>(rank)]);
    return std::move(answers[0]);
  }

  Connections others_;
};

}  // namespace

std::unique_ptr<ProcessGroup> join_by_sockets(const Member& own, const std::string& host, const std::string& port) {
  Socket listener;
  if (own.rank == 0) listener = listen_at(host, port);
  return std::make_unique<Star>(own, &listener, host, port);
}

}  // namespace weft::runtime
