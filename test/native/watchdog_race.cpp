// SPDX-License-Identifier: Apache-2.0
// Owner and watchdog race for thousands of cycles around their deadlines; each cycle must have one owner.
#include <cstdio>
#include <random>
#include <thread>
#include <vector>

#include "cycle_clock.hpp"
#include "deadline_watchdog.hpp"

using namespace vla_edge;

int main() {
  constexpr std::int64_t kPeriodNs = 40'000;
  constexpr std::int64_t kFirst = 5;
  constexpr std::int64_t kLast = kFirst + 4000;
  DeadlineWatchdog watchdog(kPeriodNs);
  const std::int64_t first_deadline = steady_ns() + 1'000'000;
  watchdog.arm(kFirst, first_deadline);

  std::vector<std::int64_t> watched, owned;
  bool early = false;
  std::thread watching([&] {
    while (const auto cycle = watchdog.wait()) {
      early |= steady_ns() < first_deadline + (*cycle - kFirst) * kPeriodNs;
      watched.push_back(*cycle);
    }
  });

  std::mt19937 random(1);
  std::uniform_int_distribution<std::int64_t> around(-kPeriodNs, kPeriodNs);
  for (std::int64_t cycle = kFirst; cycle <= kLast; ++cycle) {
    if (random() % 16 == 0) continue;  // never asked for: the watchdog's, or jumped over
    const std::int64_t when = first_deadline + (cycle - kFirst) * kPeriodNs + around(random);
    while (steady_ns() < when) {
    }
    if (watchdog.claim(cycle)) owned.push_back(cycle);
    if (watchdog.claim(cycle)) {
      std::printf("cycle %lld claimed twice\n", static_cast<long long>(cycle));
      return 1;
    }
  }
  watchdog.stop();
  watching.join();

  std::vector<int> owners(kLast + 1, 0);
  std::int64_t beyond = 0;
  for (const auto* claims : {&watched, &owned}) {
    for (std::size_t i = 0; i < claims->size(); ++i) {
      const std::int64_t cycle = (*claims)[i];
      if (i > 0 && cycle <= (*claims)[i - 1]) return std::printf("claims out of order\n"), 1;
      if (cycle > kLast) {
        ++beyond;
      } else if (++owners[cycle] > 1) {
        return std::printf("cycle %lld has two owners\n", static_cast<long long>(cycle)), 1;
      }
    }
  }
  const auto claimed = static_cast<std::int64_t>(watched.size() + owned.size());
  const std::int64_t highest = std::max(watched.empty() ? 0 : watched.back(), owned.empty() ? 0 : owned.back());
  if (early) return std::printf("the watchdog claimed before a deadline\n"), 1;
  if (claimed + watchdog.never_claimed() != highest - kFirst + 1) return std::printf("a cycle is missing\n"), 1;
  if (watchdog.claimed_by_owner() != static_cast<std::int64_t>(owned.size())) return std::printf("miscounted\n"), 1;
  if (watchdog.claimed_by_watchdog() != static_cast<std::int64_t>(watched.size())) return std::printf("miscounted\n"), 1;
  if (watchdog.claim(kLast + 1000)) return std::printf("claimed after the stop\n"), 1;
  std::printf("ok: %zu owned, %zu watched, %lld beyond\n", owned.size(), watched.size(), static_cast<long long>(beyond));
  return 0;
}
