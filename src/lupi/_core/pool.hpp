// A handful of threads that live as long as one call into the core.
//
// Work is cut into contiguous parts that threads take as they get free. Every number is computed by
// one thread in an order that does not depend on the cut, so results are bitwise the same for any
// number of threads.
#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "loops.hpp"

namespace lupi {

class Pool {
 public:
  explicit Pool(int threads) {
    for (int t = 1; t < threads; ++t) workers_.emplace_back([this] { work(); });
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    for (auto& w : workers_) w.join();
  }

  int threads() const { return int(workers_.size()) + 1; }

  // body(begin, end) for parts of [0, items), about `per_thread` of them for each thread.
  void run(i64 items, const std::function<void(i64, i64)>& body, i64 per_thread = 8) {
    if (threads() == 1 || items <= 1) {
      if (items > 0) body(0, items);
      return;
    }
    parts_ = std::min<i64>(items, per_thread * threads());
    next_.store(0, std::memory_order_relaxed);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      body_ = &body;
      items_ = items;
      pending_.store(int(workers_.size()), std::memory_order_relaxed);
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    take_parts(body, items);
    // The others are about done: spin before sleeping.
    for (int spin = 0; pending_.load(std::memory_order_acquire) > 0; ++spin)
      if (spin > 4000) std::this_thread::yield();
  }

 private:
  void take_parts(const std::function<void(i64, i64)>& body, i64 items) {
    for (i64 p; (p = next_.fetch_add(1, std::memory_order_relaxed)) < parts_;)
      body(items * p / parts_, items * (p + 1) / parts_);
  }

  void work() {
    unsigned seen = 0;
    for (;;) {
      for (int spin = 0; spin < 4000 && generation_.load(std::memory_order_acquire) == seen; ++spin) {
      }
      if (generation_.load(std::memory_order_acquire) == seen) {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return generation_.load(std::memory_order_acquire) != seen; });
      }
      seen = generation_.load(std::memory_order_acquire);
      const std::function<void(i64, i64)>* body;
      i64 items;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        if (stop_) return;
        body = body_;
        items = items_;
      }
      take_parts(*body, items);
      pending_.fetch_sub(1, std::memory_order_acq_rel);
    }
  }

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<unsigned> generation_{0};
  std::atomic<int> pending_{0};
  const std::function<void(i64, i64)>* body_ = nullptr;
  i64 items_ = 0, parts_ = 0;
  std::atomic<i64> next_{0};
  bool stop_ = false;
};

// Asked now and then from the calling thread; throws Interrupted when the caller wants to stop.
struct Interrupted {};
using Check = std::function<void()>;

}  // namespace lupi
