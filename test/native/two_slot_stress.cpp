// SPDX-License-Identifier: Apache-2.0
// Negative control: two slots and a published version, under the stall of slot_stress.cpp. It must tear, and
// ThreadSanitizer must see the race; a check that passes this one proves nothing about FrameSlot.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kBytes = 16 * 32 * 3;

class TwoSlot {
 public:
  void write(const std::uint8_t* pixels) {
    const std::uint64_t next = version_.load(std::memory_order_relaxed) + 1;
    std::memcpy(slots_[next % 2], pixels, kBytes);
    version_.store(next, std::memory_order_release);
  }
  const std::uint8_t* latest() const { return slots_[version() % 2]; }
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  // Relaxed, so that waiting for it orders nothing and hides no race.
  std::uint64_t written() const { return version_.load(std::memory_order_relaxed); }

 private:
  std::uint8_t slots_[2][kBytes] = {};
  std::atomic<std::uint64_t> version_{0};
};

}  // namespace

int main() {
  TwoSlot slot;
  std::atomic<bool> reader_done{false};
  std::thread writer([&] {
    std::vector<std::uint8_t> pixels(kBytes);
    for (std::uint64_t sequence = 1; !reader_done.load(std::memory_order_relaxed); ++sequence) {
      std::memset(pixels.data(), static_cast<int>(sequence % 251), kBytes);
      slot.write(pixels.data());
    }
  });

  while (slot.written() == 0) std::this_thread::yield();
  const std::uint8_t* pixels = slot.latest();
  const std::uint8_t first = pixels[0];
  for (const std::uint64_t until = slot.written() + 6; slot.written() < until;) std::this_thread::yield();
  const bool torn = pixels[kBytes - 1] != first;
  reader_done = true;
  writer.join();
  std::printf(torn ? "torn\n" : "ok\n");
  return torn ? 1 : 0;
}
