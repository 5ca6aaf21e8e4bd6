// The allocator: alignment, reuse without the heap, bounds, threads, and running out of memory.
#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "base/storage.hpp"
#include "weft/error.hpp"

using namespace weft;

namespace {

// A block and the byte that it is filled with.
struct Owned {
  Storage* storage;
  unsigned char mark;
};
bool intact(const Owned& owned) {
  const auto* bytes = static_cast<const unsigned char*>(owned.storage->data);
  for (std::size_t i = 0; i < owned.storage->bytes; ++i)
    if (bytes[i] != owned.mark) return false;
  return true;
}

}  // namespace

TEST_CASE("blocks are aligned, as large as asked, writable, and unique until they are retained") {
  for (std::size_t bytes : {0, 1, 63, 64, 65, 256, 257, 4096, 100000, 3 << 20}) {
    Storage* storage = allocate(Device::cpu(), bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(storage->data) % 64 == 0);
    CHECK(storage->bytes == bytes);
    std::memset(storage->data, 1, bytes);
    CHECK(unique(storage));
    retain(storage);
    CHECK_FALSE(unique(storage));
    release(storage);
    CHECK(unique(storage));
    storage->borrowed = true;
    CHECK_FALSE(unique(storage));
    storage->borrowed = false;
    release(storage);
  }
}

TEST_CASE("a freed block is the next one of its size, and forgets what it was") {
  for (std::size_t bytes : {40, 5000, 8 << 20}) {
    Storage* first = allocate(Device::cpu(), bytes);
    void* data = first->data;
    Queue queue;
    Storage* const used[] = {first};
    note_work(&queue, {used});
    CHECK(first->last_use.load() == 1);
    release(first);
    Storage* second = allocate(Device::cpu(), bytes);
    CHECK(second->data == data);
    CHECK(second->last_use.load() == 0);
    CHECK(second->queue.load() == nullptr);
    CHECK(second->references == 1);
    release(second);
  }
}

TEST_CASE("live blocks do not overlap") {
  std::mt19937 random(5);
  std::vector<Owned> live;
  for (int step = 0; step < 3000; ++step) {
    if (live.size() > 60 || (!live.empty() && random() % 3 == 0)) {
      std::size_t which = random() % live.size();
      REQUIRE(intact(live[which]));
      release(live[which].storage);
      live[which] = live.back();
      live.pop_back();
    } else {
      std::size_t bytes = (random() % 64 + 1) << (random() % 10);
      Owned owned{allocate(Device::cpu(), bytes), static_cast<unsigned char>(random())};
      std::memset(owned.storage->data, owned.mark, owned.storage->bytes);
      live.push_back(owned);
    }
  }
  for (const Owned& owned : live) {
    CHECK(intact(owned));
    release(owned.storage);
  }
}

TEST_CASE("one thread allocates, others free, and threads end with blocks cached") {
  for (int round = 0; round < 3; ++round) {
    std::vector<Storage*> blocks;
    for (int i = 0; i < 400; ++i) {
      blocks.push_back(allocate(Device::cpu(), static_cast<std::size_t>(i) * 37));
      std::memset(blocks.back()->data, i, blocks.back()->bytes);
    }
    std::atomic<int> overwritten = 0;
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = t; i < blocks.size(); i += 4) {
          overwritten += !intact({blocks[i], static_cast<unsigned char>(i)});
          release(blocks[i]);
          Storage* own = allocate(Device::cpu(), i * 37);  // which nobody else has by now
          std::memset(own->data, 0xee, own->bytes);
          overwritten += !intact({own, 0xee});
          release(own);
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(overwritten == 0);
  }
}

TEST_CASE("what can't be had is a typed error, and the next call works") {
  for (std::size_t bytes : {SIZE_MAX, SIZE_MAX / 2, std::size_t{1} << 47})
    CHECK_THROWS_AS(release(allocate(Device::cpu(), bytes)), OutOfMemory);
  Storage* storage = allocate(Device::cpu(), 100);
  CHECK(storage->data != nullptr);
  release(storage);
  CHECK_THROWS_WITH_AS(release(allocate(Device::cuda(), 100)), doctest::Contains("cuda"), Error);
}

namespace {
std::int64_t told = 0;
}
TEST_CASE("who listens is told of each block and of its end; without WEFT_TRACE nobody is, from the first block on") {
  release(allocate(Device::cpu(), 100));
  const bool nobody = told_of_storage.load() == nullptr;
  REQUIRE(nobody);
  Storage* const before = allocate(Device::cpu(), 100);
  told = tell_of_storage([](std::int64_t bytes) { told += bytes; });
  CHECK(told == 0);
  Storage* const block = allocate(Device::cpu(), 1000);
  CHECK(told == static_cast<std::int64_t>(block->bytes));
  release(block);
  CHECK(told == 0);
  tell_of_storage(nullptr);
  release(before);
  CHECK(told == 0);
}
