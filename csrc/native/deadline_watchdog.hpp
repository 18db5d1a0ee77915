// SPDX-License-Identifier: Apache-2.0
// DeadlineWatchdog: decides who answers a control cycle, the thread that computes or the one that watches.
//
// `last_claimed_` is the highest cycle that somebody has claimed. To claim a cycle is to raise it to that
// cycle by compare-and-swap: it only ever rises, so every cycle has at most one owner, and a result that comes
// after its cycle, or after a later one, was answered is refused. The watching thread claims each cycle whose
// deadline has passed, in order; in a long stall of the other thread it therefore returns once a period. A
// watching thread that was itself held up for periods (a suspended process) claims the newest overdue cycle
// only: nobody can follow a burst of actions for times gone by.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

namespace vla_edge {

class DeadlineWatchdog {
 public:
  explicit DeadlineWatchdog(std::int64_t period_ns) : period_ns_(period_ns) {
    if (period_ns <= 0) throw std::invalid_argument("period_ns must be positive, got " + std::to_string(period_ns));
  }

  // Watch `cycle`, due at the steady time `deadline_ns`, and each later one, a period apart.
  void arm(std::int64_t cycle, std::int64_t deadline_ns) {
    const std::lock_guard lock(mutex_);
    first_cycle_ = cycle;
    first_deadline_ns_ = deadline_ns;
    stopped_ = false;
    last_claimed_.store(cycle - 1, std::memory_order_release);
    changed_.notify_all();
  }

  // No cycle can be claimed by anybody, and a wait goes on until the next arm().
  void disarm() {
    const std::lock_guard lock(mutex_);
    last_claimed_.store(kDisarmed, std::memory_order_release);
  }

  // As disarm(), and waits end with nothing, those in progress at once, until the next arm().
  void stop() {
    const std::lock_guard lock(mutex_);
    last_claimed_.store(kDisarmed, std::memory_order_release);
    stopped_ = true;
    ++stops_;
    changed_.notify_all();
  }

  // Any thread, wait-free in practice: true when the caller, and nobody else, answers `cycle`.
  [[nodiscard]] bool claim(std::int64_t cycle) {
    std::int64_t last = last_claimed_.load(std::memory_order_acquire);
    do {
      if (cycle <= last) return false;  // also when disarmed
    } while (!last_claimed_.compare_exchange_weak(last, cycle, std::memory_order_acq_rel));
    claimed_by_owner_.fetch_add(1, std::memory_order_relaxed);
    never_claimed_.fetch_add(cycle - last - 1, std::memory_order_relaxed);
    return true;
  }

  // The watching thread: sleeps until the lowest unclaimed cycle is overdue, claims and returns it.
  // Nothing when stopped.
  std::optional<std::int64_t> wait() {
    std::unique_lock lock(mutex_);
    const std::uint64_t stops = stops_;  // counted: a stop() with an arm() right behind it is seen all the same
    while (!stopped_ && stops_ == stops) {
      // Only arm, disarm and stop go against the claims' direction, and they need the mutex.
      std::int64_t last = last_claimed_.load(std::memory_order_acquire);
      if (last == kDisarmed) {
        changed_.wait(lock);
        continue;
      }
      std::int64_t cycle = last + 1;
      const auto deadline = deadline_of(cycle);
      const auto now = std::chrono::steady_clock::now();
      if (now < deadline) {
        changed_.wait_until(lock, deadline);
        continue;
      }
      const std::int64_t periods_late = std::chrono::nanoseconds(now - deadline).count() / period_ns_;
      if (periods_late > kMaxCatchUp) cycle += periods_late;
      if (last_claimed_.compare_exchange_strong(last, cycle, std::memory_order_acq_rel)) {
        claimed_by_watchdog_.fetch_add(1, std::memory_order_relaxed);
        never_claimed_.fetch_add(cycle - last - 1, std::memory_order_relaxed);
        return cycle;
      }
    }
    return std::nullopt;
  }

  // Since construction. Never claimed: jumped over by a claim of a later cycle.
  std::int64_t claimed_by_owner() const { return claimed_by_owner_.load(std::memory_order_relaxed); }
  std::int64_t claimed_by_watchdog() const { return claimed_by_watchdog_.load(std::memory_order_relaxed); }
  std::int64_t never_claimed() const { return never_claimed_.load(std::memory_order_relaxed); }

 private:
  // Above every cycle, so that a disarmed watchdog refuses claims without a second variable to race with.
  static constexpr std::int64_t kDisarmed = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int64_t kMaxCatchUp = 1;  // periods late for which every cycle is still answered

  std::chrono::steady_clock::time_point deadline_of(std::int64_t cycle) const {
    const std::int64_t ns = first_deadline_ns_ + (cycle - first_cycle_) * period_ns_;
    return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns));
  }

  const std::int64_t period_ns_;
  std::atomic<std::int64_t> last_claimed_{kDisarmed};  // raised by both threads, set anew under mutex_
  std::atomic<std::int64_t> claimed_by_owner_{0};
  std::atomic<std::int64_t> claimed_by_watchdog_{0};
  std::atomic<std::int64_t> never_claimed_{0};

  std::mutex mutex_;  // protects what follows; never held while anybody computes
  std::condition_variable changed_;
  std::int64_t first_cycle_ = 0;
  std::int64_t first_deadline_ns_ = 0;
  bool stopped_ = false;
  std::uint64_t stops_ = 0;
};

}  // namespace vla_edge
