// SPDX-License-Identifier: Apache-2.0
// FrameSlot at full speed: one writer, one reader that stalls in mid-frame, leases ended by a third thread.
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "frame_slot.hpp"

using namespace vla_edge;

namespace {

constexpr FrameShape kShape{16, 32, 3};
constexpr std::size_t kLeases = 3;
constexpr int kTakes = 2000;

std::uint8_t fill_of(std::int64_t sequence) { return static_cast<std::uint8_t>(sequence % 251); }

bool all_are(const std::uint8_t* begin, std::size_t count, std::uint8_t value) {
  return std::all_of(begin, begin + count, [value](std::uint8_t byte) { return byte == value; });
}

int fail(const char* rule, std::int64_t sequence) {
  std::printf("%s at sequence %lld\n", rule, static_cast<long long>(sequence));
  return 1;
}

}  // namespace

int main() {
  const auto slot = std::make_shared<FrameSlot>(kShape, kLeases);
  std::atomic<bool> reader_done{false};
  std::mutex mutex;
  std::deque<FrameLease> ended;  // leases that the third thread is to end

  std::thread writer([&] {
    std::vector<std::uint8_t> pixels(kShape.bytes());
    for (std::int64_t sequence = 1; !reader_done.load(std::memory_order_relaxed); ++sequence) {
      std::fill(pixels.begin(), pixels.end(), fill_of(sequence));
      slot->write(pixels.data(), sequence * 1000);
      if (sequence % 8 == 0) std::this_thread::yield();
    }
  });
  std::atomic<int> result{0};
  std::thread releaser([&] {
    while (!reader_done.load(std::memory_order_relaxed)) {
      std::optional<FrameLease> held;
      {
        const std::lock_guard lock(mutex);
        if (ended.empty()) continue;
        held.emplace(std::move(ended.front()));
        ended.pop_front();
      }
      // Read and end it outside the lock, which would order this thread with the reader by itself.
      if (!all_are(held->pixels(), kShape.bytes(), fill_of(held->sequence()))) {
        result = fail("changed while held", held->sequence());
      }
    }
  });

  int stalls = 0;
  std::int64_t newest = 0;
  for (int takes = 0; takes < kTakes && result == 0;) {
    try {
      std::optional<FrameLease> frame = slot->latest();
      if (!frame || !frame->is_new()) continue;
      ++takes;
      const std::int64_t sequence = frame->sequence();
      if (sequence <= newest) result = fail("sequence went back", sequence);
      newest = sequence;
      const std::size_t half = kShape.bytes() / 2;
      if (!all_are(frame->pixels(), half, fill_of(sequence))) result = fail("torn", sequence);
      if (takes % 20 == 0) {  // in mid-copy, until every slot of a two- or three-slot buffer was written again
        for (const std::int64_t until = sequence + 6; slot->written() < until;) std::this_thread::yield();
        ++stalls;
      }
      if (!all_are(frame->pixels() + half, half, fill_of(sequence))) result = fail("torn", sequence);
      if (frame->stamp_ns() != sequence * 1000) result = fail("stamp of another frame", sequence);
      const std::lock_guard lock(mutex);
      ended.push_back(std::move(*frame));
    } catch (const LeasesExhausted&) {
      std::this_thread::yield();  // the writer is not held up by it, the releaser ends one
    }
  }
  reader_done = true;
  writer.join();
  releaser.join();
  ended.clear();

  const std::optional<FrameLease> last = slot->latest();
  if (result == 0 && last->sequence() != slot->written()) result = fail("not the newest after the end", newest);
  if (result == 0 && slot->written() != slot->overwritten() + slot->taken()) result = fail("miscounted", newest);
  if (result == 0) std::printf("ok: %d takes, %d stalls\n", kTakes, stalls);
  return result;
}
