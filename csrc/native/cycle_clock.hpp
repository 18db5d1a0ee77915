// SPDX-License-Identifier: Apache-2.0
// CycleClock: wakes one thread on a fixed grid of steady times, and never runs after missed points.
//
// Grid point `cycle` lies at epoch + cycle * period. A wait sleeps until shortly before the next future point,
// then spins: the kernel's wake-up is some 50 us late, a short spin hides most of that. Points missed by a
// long cycle are counted and left out, there is no burst of cycles to catch up.
#pragma once

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

namespace vla_edge {

// CLOCK_MONOTONIC in libstdc++ and libc++ on Linux, as Python's time.monotonic_ns().
inline std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Tick {
  std::int64_t cycle;
  std::int64_t scheduled_ns;
  std::int64_t woke_ns;
  std::int64_t skipped;  // grid points between the last tick, or the start, and this one
};

class CycleClock {
 public:
  CycleClock(std::int64_t period_ns, std::int64_t spin_ns) : period_ns_(period_ns), spin_ns_(spin_ns) {
    if (period_ns <= 0) throw std::invalid_argument("period_ns must be positive, got " + std::to_string(period_ns));
    if (spin_ns < 0 || spin_ns > std::min(period_ns, kMaxSpinNs)) {
      throw std::invalid_argument("spin_ns must be 0 to " + std::to_string(std::min(period_ns, kMaxSpinNs)) +
                                  ", got " + std::to_string(spin_ns));
    }
  }

  // Begin a run on the grid through `epoch_ns`. The points up to now do not count as skipped.
  void start(std::int64_t epoch_ns) {
    stop();
    epoch_ns_.store(epoch_ns, std::memory_order_relaxed);
    last_cycle_.store(cycle_at(steady_ns(), epoch_ns), std::memory_order_relaxed);
    runs_.fetch_add(1, std::memory_order_release);
  }

  // Any thread: a wait in progress, and every later one until the next start, ends without a tick.
  void stop() {
    if (running(runs_.load(std::memory_order_relaxed))) runs_.fetch_add(1, std::memory_order_release);
  }

  // One thread. Nothing when stopped, at most kMaxSleepNs after stop().
  std::optional<Tick> wait_next() {
    const auto run = runs_.load(std::memory_order_acquire);
    if (!running(run)) return std::nullopt;
    const std::int64_t epoch = epoch_ns_.load(std::memory_order_relaxed);
    const std::int64_t last = last_cycle_.load(std::memory_order_relaxed);
    const std::int64_t cycle = std::max(last, cycle_at(steady_ns(), epoch)) + 1;
    const std::int64_t scheduled = epoch + cycle * period_ns_;

    std::int64_t now;
    while ((now = steady_ns()) < scheduled - spin_ns_) {
      if (runs_.load(std::memory_order_relaxed) != run) return std::nullopt;
      sleep_until(std::min(scheduled - spin_ns_, now + kMaxSleepNs));
    }
    while ((now = steady_ns()) < scheduled) std::this_thread::yield();
    if (runs_.load(std::memory_order_relaxed) != run) return std::nullopt;

    const std::int64_t skipped = cycle - last - 1;
    last_cycle_.store(cycle, std::memory_order_relaxed);
    total_skipped_.fetch_add(skipped, std::memory_order_relaxed);
    return Tick{cycle, scheduled, now, skipped};
  }

  std::int64_t total_skipped() const { return total_skipped_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::int64_t kMaxSpinNs = 1'000'000;
  static constexpr std::int64_t kMaxSleepNs = 20'000'000;  // how long a stop may go unnoticed

  static bool running(std::uint64_t runs) { return runs & 1; }

  // The newest grid point at or before `now`, rounding down below the epoch too.
  std::int64_t cycle_at(std::int64_t now, std::int64_t epoch) const {
    const std::int64_t since = now - epoch;
    return since / period_ns_ - (since % period_ns_ < 0);
  }

  static void sleep_until(std::int64_t when_ns) {
    const timespec when{static_cast<time_t>(when_ns / 1'000'000'000), static_cast<long>(when_ns % 1'000'000'000)};
    // A signal ends it early; the caller looks at the time again.
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr);
  }

  const std::int64_t period_ns_;
  const std::int64_t spin_ns_;
  // Odd while running. A count, not a flag: a wait that sleeps through stop() and start() ends all the same.
  std::atomic<std::uint64_t> runs_{0};
  std::atomic<std::int64_t> epoch_ns_{0};
  std::atomic<std::int64_t> last_cycle_{0};
  std::atomic<std::int64_t> total_skipped_{0};
};

}  // namespace vla_edge
