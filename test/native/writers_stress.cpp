// SPDX-License-Identifier: Apache-2.0
// FrameSlot with three writing threads, as an executor of several threads has: writes take turns or are refused.
// Nothing but the slot's own turn orders the writers, so ThreadSanitizer sees whether it does.
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "frame_slot.hpp"

using namespace vla_edge;

namespace {

constexpr FrameShape kShape{16, 32, 3};
constexpr int kWriters = 3;
constexpr std::int64_t kFrames = 2000;  // a writer, at least
constexpr int kHandovers = 20;          // that the reader must see: on one busy core that may take more frames
constexpr auto kLongest = std::chrono::seconds(60);
constexpr std::int64_t kStampStride = 1'000'000'000;

std::uint8_t fill_of(std::int64_t stamp_ns) { return static_cast<std::uint8_t>(stamp_ns % 251); }

int fail(const char* rule, std::int64_t sequence) {
  std::printf("%s at sequence %lld\n", rule, static_cast<long long>(sequence));
  return 1;
}

}  // namespace

int main() {
  const auto slot = std::make_shared<FrameSlot>(kShape, 2);
  std::atomic<std::int64_t> refused{0}, written{0};
  std::atomic<int> writing{kWriters};
  std::atomic<bool> seen_enough{false};
  const auto give_up = std::chrono::steady_clock::now() + kLongest;

  std::vector<std::thread> writers;
  for (int number = 0; number < kWriters; ++number) {
    writers.emplace_back([&, number] {
      std::vector<std::uint8_t> pixels(kShape.bytes());
      const auto goes_on = [&](std::int64_t frame) {
        if (frame < kFrames) return true;
        return !seen_enough.load(std::memory_order_relaxed) && std::chrono::steady_clock::now() < give_up;
      };
      for (std::int64_t frame = 0; goes_on(frame);) {
        const std::int64_t stamp = number * kStampStride + frame;
        std::fill(pixels.begin(), pixels.end(), fill_of(stamp));
        try {
          slot->write(pixels.data(), stamp);
          ++frame;
          written.fetch_add(1, std::memory_order_relaxed);
          // So that the others get a turn in between, and the role of the writer moves from thread to thread.
          if (frame % 4 == 0) std::this_thread::yield();
        } catch (const OverlappingWrite&) {
          refused.fetch_add(1, std::memory_order_relaxed);
        }
      }
      writing.fetch_sub(1, std::memory_order_relaxed);
    });
  }

  int result = 0;
  int handovers = 0;
  std::int64_t newest = 0;
  std::int64_t last_stamp[kWriters] = {-1, -1, -1};
  int last_writer = -1;
  while (result == 0) {
    const bool over = writing.load(std::memory_order_relaxed) == 0;
    const std::optional<FrameLease> frame = slot->latest();
    if (frame && frame->is_new()) {
      const std::int64_t sequence = frame->sequence(), stamp = frame->stamp_ns();
      const auto writer = static_cast<int>(stamp / kStampStride);
      for (std::size_t i = 0; i < kShape.bytes(); ++i) {
        if (frame->pixels()[i] != fill_of(stamp)) result = fail("torn", sequence);
      }
      if (sequence <= newest) result = fail("sequence went back", sequence);
      if (stamp <= last_stamp[writer]) result = fail("a writer's frames out of order", sequence);
      handovers += writer != last_writer;
      if (handovers == kHandovers) seen_enough.store(true, std::memory_order_relaxed);
      newest = sequence;
      last_stamp[writer] = stamp;
      last_writer = writer;
    } else if (over) {
      break;
    }
  }
  for (std::thread& writer : writers) writer.join();
  if (result != 0) return result;
  if (slot->written() != written) return fail("frames lost or counted twice", slot->written());
  if (newest > slot->written()) return fail("a sequence that was never written", newest);
  if (slot->refused_writes() != refused) return fail("refusals miscounted", slot->refused_writes());
  std::printf("ok: %d handovers, %lld refused\n", handovers, static_cast<long long>(refused.load()));
  return 0;
}
