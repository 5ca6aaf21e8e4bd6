// Which calls are recorded and replayed.
#include "runtime/recordings.hpp"

#include <doctest/doctest.h>

using namespace weft;

namespace {

struct Counted final : RecordedWork {
  explicit Counted(int& replays) : replayed(replays) {}
  void replay(Queue*) const override { ++replayed; }
  int& replayed;
};

struct Calls {
  explicit Calls(bool at_once = false) : recordings(at_once) {}
  runtime::Recordings recordings;
  int done = 0, recorded = 0, replayed = 0;
  // With pointers that `at` determines, and a size.
  void call(std::size_t at, std::int64_t size = 1) {
    void* pointers[] = {reinterpret_cast<void*>(64 * at), reinterpret_cast<void*>(64 * at + 8)};
    const std::span sizes(&size, 1);
    if (const runtime::Recording* const found = recordings.find(pointers, sizes))
      return found->front()->replay(nullptr);
    ++done;
    if (!recordings.is_worth_recording(pointers, sizes)) return;
    ++recorded;
    runtime::Recording recording;
    recording.push_back(std::make_unique<Counted>(replayed));
    recordings.add(pointers, sizes, std::move(recording));
  }
};

// Steps that can be recorded are "r", others "."; of the pieces in order, "R" are steps that are recorded.
std::string divided(std::string_view steps, std::size_t least) {
  std::vector<bool> can;
  for (const char step : steps) can.push_back(step == 'r');
  std::string text;
  for (const auto& [first, last, is_recorded] : runtime::divide(can, least))
    text += (text.empty() ? "" : " ") +
            (is_recorded ? std::string(last - first, 'R') : std::string(steps.substr(first, last - first)));
  return text;
}

}  // namespace

TEST_CASE("a call is recorded when it comes back, and replayed from then on") {
  Calls calls;
  for (int i = 0; i < 10; ++i) calls.call(1);
  CHECK(calls.recorded == 1);
  CHECK(calls.done == 2);
  CHECK(calls.replayed == 8);
  calls.call(1, 2);  // another size is another call
  CHECK(calls.done == 3);
  calls.call(2);
  CHECK(calls.done == 4);
  CHECK(calls.recorded == 1);
}

TEST_CASE("a result that alternates between places has a recording for each") {
  Calls calls;
  for (std::size_t i = 0; i < 30; ++i) calls.call(i % 3);
  CHECK(calls.recorded == 3);
  CHECK(calls.done == 6);
  CHECK(calls.replayed == 24);
}

TEST_CASE("calls that never come back, or come back too late, are not recorded for ever") {
  Calls calls;
  for (std::size_t i = 0; i < 100; ++i) calls.call(i);
  CHECK(calls.recorded == 0);
  for (std::size_t i = 0; i < 400; ++i) calls.call(i / 2 % 50);  // twice each, then others
  CHECK(calls.recorded <= 5);
  CHECK(calls.done + calls.replayed == 500);
}

TEST_CASE("who reduces overhead has up to sixteen new calls recorded at once, then those that come back") {
  Calls calls(/*at_once=*/true);
  for (std::size_t i = 0; i < 48; ++i) calls.call(i % 16);
  CHECK(calls.recorded == 16);
  CHECK(calls.done == 16);
  CHECK(calls.replayed == 32);
  for (std::size_t i = 0; i < 200; ++i) calls.call(100 + i);  // they never come back
  CHECK(calls.recorded == 16);
  for (std::size_t i = 0; i < 400; ++i) calls.call(1000 + i / 2);  // twice each
  CHECK(calls.recorded == 216);
  Calls stopped(/*at_once=*/true);
  stopped.recordings.stop();
  for (int i = 0; i < 5; ++i) stopped.call(1);
  CHECK(stopped.recorded == 0);
}

TEST_CASE("runs of steps that can be recorded are, but short ones, and all steps keep their order") {
  CHECK(divided("rrrr", 3) == "RRRR");
  CHECK(divided("rrr.rrrr", 3) == "RRR . RRRR");
  CHECK(divided("rr.rrr..r.rrr", 3) == "rr. RRR ..r. RRR");
  CHECK(divided("rr", 3) == "rr");
  CHECK(divided("...", 3) == "...");
  CHECK(divided("r.r", 1) == "R . R");
  CHECK(divided("", 1).empty());
}

TEST_CASE("nothing is recorded once that has failed") {
  Calls calls;
  calls.recordings.stop();
  for (int i = 0; i < 5; ++i) calls.call(1);
  CHECK(calls.recorded == 0);
  CHECK(calls.done == 5);
}
