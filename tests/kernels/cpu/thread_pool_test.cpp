#include "kernels/cpu/thread_pool.h"

#include <sched.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace demi::cpu {
namespace {

using demi::testing::message_of;

class ThreadPools : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, ThreadPools, ::testing::Values(1, 2, 4, 7));

TEST_P(ThreadPools, RunEveryChunkOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (const std::int64_t chunks : {0, 1, 2, 3, 7, 100, 1000}) {
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(chunks));
    std::atomic<bool> thread_in_range = true;
    pool.parallel_for(chunks, [&](std::int64_t chunk, int thread) {
      ++runs[static_cast<std::size_t>(chunk)];
      if (thread < 0 || thread >= pool.threads()) thread_in_range = false;
    });
    for (const auto& count : runs) EXPECT_EQ(count, 1);
    EXPECT_TRUE(thread_in_range);
  }
}

TEST_P(ThreadPools, GiveEachThreadAnIndexOfItsOwn) {
  ThreadPool pool(GetParam());
  std::vector<std::set<std::thread::id>> ids(static_cast<std::size_t>(pool.threads()));
  for (int round = 0; round < 100; ++round) {
    pool.parallel_for(64, [&](std::int64_t, int thread) {
      ids[static_cast<std::size_t>(thread)].insert(std::this_thread::get_id());
    });
  }
  // On a busy machine the workers may take every chunk before the caller gets one.
  const std::thread::id caller = std::this_thread::get_id();
  for (std::size_t index = 0; index < ids.size(); ++index) {
    EXPECT_LE(ids[index].size(), 1u);
    if (!ids[index].empty()) {
      EXPECT_EQ(ids[index].count(caller) > 0, index == 0);
    }
  }
}

TEST_P(ThreadPools, MakeWritesVisibleToTheCaller) {
  ThreadPool pool(GetParam());
  std::vector<std::int64_t> values(64);
  for (std::int64_t round = 0; round < 5000; ++round) {
    pool.parallel_for(64, [&](std::int64_t chunk, int) {
      values[static_cast<std::size_t>(chunk)] = round * chunk;
    });
    for (std::int64_t i = 0; i < 64; ++i) {
      ASSERT_EQ(values[static_cast<std::size_t>(i)], round * i);
    }
  }
}

TEST_P(ThreadPools, RethrowAndStayUsable) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 50; ++round) {
    const auto failing = [&] {
      pool.parallel_for(40, [](std::int64_t chunk, int) {
        if (chunk >= 13) throw std::runtime_error("chunk failed");
      });
    };
    EXPECT_EQ(message_of<std::runtime_error>(failing), "chunk failed");
    std::atomic<int> ran = 0;
    pool.parallel_for(40, [&](std::int64_t, int) { ++ran; });
    EXPECT_EQ(ran, 40);
  }
}

TEST_P(ThreadPools, RunNestedCallsOnTheSameThread) {
  ThreadPool pool(GetParam());
  std::atomic<int> inner_runs = 0;
  std::atomic<bool> same_thread = true;
  pool.parallel_for(16, [&](std::int64_t, int outer) {
    const auto id = std::this_thread::get_id();
    pool.parallel_for(8, [&](std::int64_t, int inner) {
      ++inner_runs;
      if (inner != outer || std::this_thread::get_id() != id) same_thread = false;
    });
  });
  EXPECT_EQ(inner_runs, 16 * 8);
  EXPECT_TRUE(same_thread);
}

TEST(ThreadPool, SpreadsWorkOverItsThreads) {
  ThreadPool pool(2);
  // Chunk 0 waits for chunk 1, which only another thread can run meanwhile.
  std::atomic<bool> second_ran = false;
  pool.parallel_for(2, [&](std::int64_t chunk, int) {
    if (chunk == 1) second_ran = true;
    while (!second_ran) std::this_thread::yield();
  });
  EXPECT_TRUE(second_ran);
}

TEST(ThreadPool, WakesWorkersThatFellAsleep) {
  ThreadPool pool(3);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<bool> second_ran = false;
    pool.parallel_for(2, [&](std::int64_t chunk, int) {
      if (chunk == 1) second_ran = true;
      while (!second_ran) std::this_thread::yield();
    });
  }
}

TEST(ThreadPool, SleepingCallerIsWokenByTheLastWorker) {
  ThreadPool pool(2);
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> worker_started = false;
  std::atomic<bool> worker_finished = false;
  pool.parallel_for(2, [&](std::int64_t, int) {
    if (std::this_thread::get_id() == caller) {
      while (!worker_started) std::this_thread::yield();
    } else {
      worker_started = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      worker_finished = true;
    }
  });
  EXPECT_TRUE(worker_finished);
}

TEST(ThreadPool, ServesCallersFromSeveralThreads) {
  ThreadPool pool(3);
  std::atomic<std::int64_t> total = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        pool.parallel_for(10, [&](std::int64_t chunk, int) { total += chunk; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 200 * 45);
}

TEST(ThreadPool, WorksWhenPinnedToOneProcessor) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(default_thread_count(), 1);
  {
    ThreadPool pool(4);
    std::atomic<int> ran = 0;
    for (int round = 0; round < 200; ++round) {
      pool.parallel_for(32, [&](std::int64_t, int) { ++ran; });
    }
    EXPECT_EQ(ran, 200 * 32);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(ThreadPool, RefusesACountOutOfRange) {
  EXPECT_EQ(message_of<std::invalid_argument>([] { ThreadPool pool(0); }),
            "[threads] expected between 1 and 1024 threads. Received: 0.");
  EXPECT_THROW(ThreadPool pool(-3), std::invalid_argument);
  EXPECT_THROW(ThreadPool pool(100000), std::invalid_argument);
}

TEST(DefaultThreadCount, ComesFromTheEnvironment) {
  ASSERT_EQ(setenv("DEMI_NUM_THREADS", "3", 1), 0);
  EXPECT_EQ(default_thread_count(), 3);
  for (const char* bad : {"", "0", "-1", "two", "2x", "99999999999"}) {
    ASSERT_EQ(setenv("DEMI_NUM_THREADS", bad, 1), 0);
    EXPECT_EQ(
        message_of<std::invalid_argument>([] { static_cast<void>(default_thread_count()); }),
        "[threads] expected DEMI_NUM_THREADS to be an integer between 1 and 1024. Received: '" +
            std::string(bad) + "'.");
  }
  ASSERT_EQ(unsetenv("DEMI_NUM_THREADS"), 0);
  EXPECT_GE(default_thread_count(), 1);
}

}  // namespace
}  // namespace demi::cpu
