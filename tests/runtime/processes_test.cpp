// Process groups over sockets: connections of strangers, and processes that come to different collectives. The
// processes are threads of this one.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <time.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "base/fail.hpp"
#include "runtime/processes/process_group.hpp"
#include "runtime/processes/socket.hpp"

using namespace weft;
using namespace weft::runtime;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

const std::string host = "127.0.0.1";

struct Pair {
  Socket here, there;
};
Pair connected() {
  const Socket listener = listen_at(host, "0");
  Pair pair;
  pair.there = connect_to(host, port_of(listener), Clock::now() + 10s);
  pair.here = accept(listener, Clock::now() + 10s);
  return pair;
}

std::string free_port() { return port_of(listen_at(host, "0")); }

// Does `each` in as many processes as are asked for; `before_others`, once rank 0 begins to wait for the others.
// Returns what each was told by an Error, by rank.
std::vector<std::string> in_group(
    int size, const std::function<void(ProcessGroup&)>& each, const std::string& port = free_port(),
    const std::function<void()>& before_others = [] {}) {
  std::vector<std::string> told(static_cast<std::size_t>(size));
  std::vector<std::thread> processes;
  for (int rank = 0; rank < size; ++rank) {
    if (rank == 1) before_others();
    processes.emplace_back([&, rank] {
      try {
        const std::unique_ptr<ProcessGroup> group = join_by_sockets({rank, size, rank}, host, port);
        each(*group);
      } catch (const Error& error) {
        told[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& process : processes) process.join();
  return told;
}

}  // namespace

TEST_CASE("a text that is longer than allowed is not read") {
  const Pair pair = connected();
  const std::uint64_t claimed = std::uint64_t{1} << 39;
  REQUIRE(pair.there.send(&claimed, sizeof claimed));
  const auto begin = Clock::now();
  CHECK_FALSE(pair.here.receive_text(256, Clock::now() + 60s));
  CHECK(Clock::now() - begin < 30s);
  REQUIRE(pair.there.send_text("1234"));
  CHECK(pair.here.receive_text(4, Clock::now() + 60s).value_or("") == "1234");
}

TEST_CASE("a deadline is that of the whole text, also where single bytes of it come before") {
  const Pair pair = connected();
  std::thread slow([&] {
    const std::uint64_t claimed = 200;
    for (std::size_t i = 0; i < 40; ++i) {
      const char byte = i < sizeof claimed ? reinterpret_cast<const char*>(&claimed)[i] : 'x';
      if (!pair.there.send(&byte, 1)) return;
      std::this_thread::sleep_for(20ms);
    }
  });
  const auto begin = Clock::now();
  CHECK_FALSE(pair.here.receive_text(256, begin + 300ms));
  CHECK(Clock::now() - begin < 2s);
  slow.join();
}

TEST_CASE("a process without a free descriptor waits for one, and uses no processor meanwhile") {
  const Socket listener = listen_at(host, "0");
  const Socket waiting = connect_to(host, port_of(listener), Clock::now() + 10s);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  const auto used = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double begin = used();
  const Socket refused = accept(listener, Clock::now() + 500ms);
  const double seconds = used() - begin;
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK_FALSE(refused.is_open());
  CHECK(seconds < 0.1);
  CHECK(accept(listener, Clock::now() + 10s).is_open());
}

TEST_CASE("strangers that connect take no memory, and do not keep the others from joining") {
  const std::string port = free_port();
  std::vector<Socket> strangers;
  const auto connect = [&] {
    for (int i = 0; i < 3; ++i) {
      const std::uint64_t claimed = std::uint64_t{1} << 39;
      strangers.push_back(connect_to(host, port, Clock::now() + 30s));
      strangers.back().send(&claimed, sizeof claimed);
    }
  };
  for (const std::string& told : in_group(
           3, [](ProcessGroup& group) { group.exchange("", "a barrier"); }, port, connect))
    CHECK(told == "");
}

TEST_CASE("processes that come to different collectives are all told both") {
  using Kind = CollectiveOperation::Kind;
  struct Act {
    std::string text;
    std::function<void(ProcessGroup&)> run;
  };
  std::vector<Act> acts{{"a barrier", [](ProcessGroup& group) { group.exchange("", "a barrier"); }}};
  const auto add = [&](CollectiveOperation what, std::int64_t count) {
    what.processes = 3;
    acts.push_back({describe(what, count), [=](ProcessGroup& group) {
                      std::array<double, 64> from{}, to{};
                      group.run(what, count, from.data(), to.data());
                    }});
  };
  for (const Kind kind :
       {Kind::all_reduce, Kind::broadcast, Kind::reduce_to_root, Kind::all_gather, Kind::reduce_scatter})
    add({kind, DType::f32}, 6);
  add({Kind::all_reduce, DType::i32}, 6);
  acts.push_back({"the first run of a compiled function with collectives",
                  [](ProcessGroup& group) { group.agree(std::vector<std::string>{"an all_reduce of 6 f32"}); }});
  add({Kind::all_reduce, DType::f32}, 9);
  add({Kind::broadcast, DType::f32, 1, 1}, 6);
  add({Kind::reduce_to_root, DType::f32, 1, 2}, 6);
  for (std::size_t i = 0; i < acts.size(); ++i)
    for (std::size_t j = i; j < acts.size(); ++j) {
      const std::vector<std::string> told =
          in_group(3, [&](ProcessGroup& group) { acts[group.own().rank == 1 ? j : i].run(group); });
      const std::string expected =
          i == j ? "" : concat_text("rank 0 is at ", acts[i].text, ", rank 1 at ", acts[j].text, ".");
      for (const std::string& each : told) {
        CAPTURE(acts[i].text);
        CAPTURE(acts[j].text);
        CHECK((each == "") == (i == j));
        CHECK(each.find(expected) != std::string::npos);
      }
    }
}

TEST_CASE("processes compare the collectives of a function once, whoever compiles it") {
  const std::vector<std::string> few{"an all_reduce of 3 f32"}, more{"an all_reduce of 3 f32", "a broadcast of 1 i32"};
  const std::vector<std::string> told = in_group(4, [&](ProcessGroup& group) {
    group.agree(few);
    group.agree(more);
    if (group.own().rank == 2) group.agree(few);  // another specialization of the same collectives
    group.exchange("", "a barrier");
  });
  for (const std::string& each : told) CHECK(each == "");
}

TEST_CASE("a function that does other collectives in one process is an Error in all, with the first that differs") {
  const std::vector<std::string> all{"an all_reduce of 3 f32", "an all_reduce of 4 f32", "a broadcast of 1 i32"};
  const std::vector<std::string> others[] = {
      {all[0], "an all_reduce of 5 f32", all[2]}, {all[0], all[2], all[1]}, {all[0]}};
  const std::string expected[] = {"an all_reduce of 5 f32 (collective 2 of 3 of a compiled function)",
                                  "a broadcast of 1 i32 (collective 2 of 3 of a compiled function)",
                                  "the end of a compiled function of 1 collective"};
  for (std::size_t i = 0; i < 3; ++i)
    for (const std::string& each :
         in_group(4, [&](ProcessGroup& group) { group.agree(group.own().rank == 3 ? others[i] : all); }))
      CHECK(each.find("rank 0 is at an all_reduce of 4 f32 (collective 2 of 3 of a compiled function), rank 3 at " +
                      expected[i] + ".") != std::string::npos);
}

TEST_CASE("a process that does not come to compare is named to the others in time") {
  for (const int missing : {0, 2}) {
    std::atomic<int> ended = 0;
    const std::vector<std::string> told = in_group(4, [&](ProcessGroup& group) {
      const std::vector<std::string> own{"an all_reduce of 3 f32"};
      if (group.own().rank == missing) {
        while (ended < 3) std::this_thread::sleep_for(10ms);
        return;
      }
      try {
        group.agree(own, 1s);
      } catch (...) {
        ++ended;
        throw;
      }
      ++ended;
    });
    const std::string expected = missing == 0 ? "a process has not come" : "rank 2 has not come";
    for (int rank = 0; rank < 4; ++rank)
      CHECK(told[static_cast<std::size_t>(rank)] ==
            (rank == missing ? ""
                             : "[distributed] " + expected +
                                   " to the first run of a compiled function with collectives within 1 second"));
  }
}

TEST_CASE("a process that has one collective fewer and ends is named to all others") {
  for (const int fewer : {0, 2}) {
    const std::vector<std::string> told = in_group(4, [&](ProcessGroup& group) {
      const CollectiveOperation what{CollectiveOperation::Kind::all_reduce, DType::f32, 4};
      float from = 1, to = 0;
      for (int i = 0; i < (group.own().rank == fewer ? 2 : 3); ++i) group.run(what, 1, &from, &to);
    });
    for (int rank = 0; rank < 4; ++rank) {
      const std::string& each = told[static_cast<std::size_t>(rank)];
      CHECK((each.find(concat_text("rank ", fewer, " has ended")) != std::string::npos) == (rank != fewer));
    }
  }
}
