// SPDX-License-Identifier: Apache-2.0
// FrameSlot: hands the newest camera frame from writers that take turns to one reader thread.
//
// A triple buffer with leases. Every slot has exactly one place at any time:
//
//   back    being filled                                   owned by whose turn it is to write
//   middle  published last, perhaps unread                 owned by the index byte
//   kept    the newest taken frame and frames still held   owned by the reader
//
// Both sides swap a slot of theirs with the middle by one atomic exchange, so no slot is ever in two places:
// a frame cannot be overwritten while it is read, however long a thread is stalled in mid-copy. The writer
// needs nothing from the reader: it never waits for it, never fails because of it, never allocates.
//
// Which thread writes does not matter, so an executor may call from another thread each time; that no two writes
// overlap does. A turn is one atomic exchange to take and one store to give back. A write that finds the turn taken is
// refused and counted: to wait would hold up a camera's callback, to go on would tear a frame.
//
// A taken frame is lent out: while a FrameLease on a slot lives, the reader does not swap that slot away.
// When all kept slots are lent and a newer frame is there, the reader gets LeasesExhausted; the writer goes on.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace vla_edge {

struct FrameShape {
  std::size_t height, width, channels;
  std::size_t bytes() const { return height * width * channels; }
};

struct LeasesExhausted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct OverlappingWrite : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class FrameLease;

class FrameSlot : public std::enable_shared_from_this<FrameSlot> {
 public:
  // `leases`: frames that may be held at the same time, the newest among them.
  FrameSlot(FrameShape shape, std::size_t leases) : shape_(checked(shape)), slots_(checked(leases) + 2) {
    // Whole pages of its own, so that page-locking the slots locks nothing else. A cache line a slot at least,
    // so that the two threads do not share one. Touched now, so that no page fault comes later.
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    stride_ = round_up(shape.bytes(), kCacheLine);
    memory_bytes_ = round_up(stride_ * slots_.size(), page);
    memory_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(page, memory_bytes_)));
    if (!memory_) throw std::bad_alloc();
    std::memset(memory_.get(), 0, memory_bytes_);

    back_ = 0;
    middle_.store(1, std::memory_order_relaxed);
    for (std::size_t index = 2; index < slots_.size(); ++index) kept_.push_back(static_cast<std::uint8_t>(index));
  }

  // Any thread, one at a time: OverlappingWrite, and nothing changed, while another write is in progress.
  // Copies `shape().bytes()` bytes; returns whether a frame was overwritten that nobody had read.
  bool write(const std::uint8_t* pixels, std::int64_t stamp_ns) {
    const WriterTurn turn(*this);
    const std::int64_t sequence = written_.load(std::memory_order_relaxed) + 1;
    std::memcpy(pixels_of(back_), pixels, shape_.bytes());
    slots_[back_].sequence = sequence;
    slots_[back_].stamp_ns = stamp_ns;
    // Release: the copy above is complete for whoever takes the slot. Acquire: whoever gave `before` back has
    // finished reading it before the next copy into it begins.
    const std::uint8_t before = middle_.exchange(back_ | kUnread, std::memory_order_acq_rel);
    back_ = before & kIndexMask;
    written_.store(sequence, std::memory_order_relaxed);
    if (!(before & kUnread)) return false;
    overwritten_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  // Reader thread only. Nothing before the first frame; LeasesExhausted see above.
  std::optional<FrameLease> latest();

  const FrameShape& shape() const { return shape_; }
  std::size_t leases() const { return kept_.size(); }
  const std::uint8_t* memory() const { return memory_.get(); }
  std::size_t memory_bytes() const { return memory_bytes_; }
  std::int64_t written() const { return written_.load(std::memory_order_relaxed); }
  std::int64_t overwritten() const { return overwritten_.load(std::memory_order_relaxed); }
  std::int64_t taken() const { return taken_.load(std::memory_order_relaxed); }
  std::int64_t refused_writes() const { return refused_writes_.load(std::memory_order_relaxed); }

 private:
  friend class FrameLease;

  static constexpr std::uint8_t kUnread = 0x80;
  static constexpr std::uint8_t kIndexMask = 0x3f;
  static constexpr std::size_t kMaxLeases = kIndexMask + 1u - 2u;  // all indices less back and middle
  static constexpr std::size_t kCacheLine = 64;

  struct alignas(kCacheLine) Slot {
    std::int64_t sequence = 0;    // written with the pixels, ordered with them by the exchange
    std::int64_t stamp_ns = 0;
    std::atomic<int> leases{0};   // raised by the reader, lowered by whichever thread ends a lease
  };
  struct Free {
    void operator()(std::uint8_t* memory) const { std::free(memory); }
  };

  static const FrameShape& checked(const FrameShape& shape) {
    constexpr std::size_t kMaxSide = 1u << 16;
    for (std::size_t side : {shape.height, shape.width, shape.channels}) {
      if (side < 1 || side > kMaxSide) {
        throw std::invalid_argument("frame sides must be 1 to " + std::to_string(kMaxSide) + ", got " +
                                    std::to_string(shape.height) + " x " + std::to_string(shape.width) + " x " +
                                    std::to_string(shape.channels));
      }
    }
    return shape;
  }

  static std::size_t checked(std::size_t leases) {
    if (leases < 1 || leases > kMaxLeases) {
      throw std::invalid_argument("leases must be 1 to " + std::to_string(kMaxLeases) + ", got " +
                                  std::to_string(leases));
    }
    return leases;
  }

  static std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }
  std::uint8_t* pixels_of(std::uint8_t index) const { return memory_.get() + stride_ * index; }

  // Held for the length of one write.
  class WriterTurn {
   public:
    explicit WriterTurn(FrameSlot& slot) : slot_(slot) {
      // Acquire: all that the writer before did to `back_` and its slot, in whichever thread, is seen from here on.
      if (slot_.writing_.exchange(true, std::memory_order_acquire)) {
        slot_.refused_writes_.fetch_add(1, std::memory_order_relaxed);
        throw OverlappingWrite("FrameSlot.write called while another write is in progress; writes must not overlap");
      }
    }
    WriterTurn(const WriterTurn&) = delete;
    WriterTurn& operator=(const WriterTurn&) = delete;
    ~WriterTurn() { slot_.writing_.store(false, std::memory_order_release); }

   private:
    FrameSlot& slot_;
  };

  const FrameShape shape_;
  std::size_t stride_ = 0;
  std::size_t memory_bytes_ = 0;
  std::unique_ptr<std::uint8_t[], Free> memory_;
  std::vector<Slot> slots_;

  // One cache line for each side and one between them.
  alignas(kCacheLine) std::atomic<std::uint8_t> middle_;  // index | kUnread; the only point where both meet

  alignas(kCacheLine) std::atomic<bool> writing_{false};  // the writers' turn; it orders what they write below
  std::uint8_t back_;                                     // whose turn it is
  std::atomic<std::int64_t> refused_writes_{0};
  std::atomic<std::int64_t> written_{0};
  std::atomic<std::int64_t> overwritten_{0};

  alignas(kCacheLine) std::uint8_t front_ = 0;  // reader: the newest taken frame, one of kept_
  std::vector<std::uint8_t> kept_;              // reader
  std::atomic<std::int64_t> taken_{0};
};

// Keeps one frame unchanged, and its slot's memory alive, for as long as it lives. May end in any thread.
class FrameLease {
 public:
  FrameLease(FrameLease&& other) noexcept = default;
  FrameLease& operator=(FrameLease&&) = delete;

  ~FrameLease() {
    // Release: the holder's reads are over before the reader, which looks with acquire, swaps the slot away.
    if (owner_) owner_->slots_[index_].leases.fetch_sub(1, std::memory_order_release);
  }

  const std::uint8_t* pixels() const { return owner_->pixels_of(index_); }
  const FrameShape& shape() const { return owner_->shape(); }
  std::int64_t sequence() const { return owner_->slots_[index_].sequence; }
  std::int64_t stamp_ns() const { return owner_->slots_[index_].stamp_ns; }
  bool is_new() const { return is_new_; }

 private:
  friend class FrameSlot;
  FrameLease(std::shared_ptr<FrameSlot> owner, std::uint8_t index, bool is_new)
      : owner_(std::move(owner)), index_(index), is_new_(is_new) {
    owner_->slots_[index_].leases.fetch_add(1, std::memory_order_relaxed);
  }

  std::shared_ptr<FrameSlot> owner_;
  std::uint8_t index_;
  bool is_new_;
};

inline std::optional<FrameLease> FrameSlot::latest() {
  // Relaxed: only the reader clears the bit, so a set bit stays set until the exchange below, which orders.
  const bool is_new = middle_.load(std::memory_order_relaxed) & kUnread;
  if (is_new) {
    const auto spare = std::find_if(kept_.begin(), kept_.end(), [this](std::uint8_t index) {
      return slots_[index].leases.load(std::memory_order_acquire) == 0;
    });
    if (spare == kept_.end()) {
      throw LeasesExhausted("all " + std::to_string(kept_.size()) +
                            " leases of the FrameSlot are held; drop views of older frames before taking a new one");
    }
    // Acquire: the writer's copy is complete. Release: every read of the spare slot is over.
    front_ = middle_.exchange(*spare, std::memory_order_acq_rel) & kIndexMask;
    *spare = front_;
    taken_.fetch_add(1, std::memory_order_relaxed);
  } else if (taken() == 0) {
    return std::nullopt;
  }
  return FrameLease(shared_from_this(), front_, is_new);
}

}  // namespace vla_edge
