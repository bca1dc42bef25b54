// Collectives against plain loops; what happens when a rank fails, leaves, or calls something else.

#include "canter/sync/communicator.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "canter/base/error.hpp"

namespace {

using canter::CommunicationError;
using canter::Communicator;

// runs body(rank's end) in one thread per rank; returns the error texts, "" where there was none
std::vector<std::string> run_ranks(int size, double timeout_seconds,
                                   const std::function<void(Communicator&)>& body) {
  auto ranks = canter::make_thread_communicators(size, timeout_seconds);
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < errors.size(); ++r)
    threads.emplace_back([&, r, rank = std::move(ranks[r])]() mutable {
      try {
        body(*rank);
      } catch (const CommunicationError& error) {
        errors[r] = error.what();
      }
      rank.reset();
    });
  for (auto& thread : threads) thread.join();
  return errors;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// values whose sum depends on the order of the additions
float float_of(int rank, int round, std::size_t i) {
  return std::ldexp(1.0f + 0.1f * static_cast<float>(i % 7),
                    (rank * 11 + round + static_cast<int>(i)) % 20);
}

struct Variable {
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  const char* name_;
};

}  // namespace

TEST_CASE("all_reduce adds in rank order, the same bits on every rank, round after round") {
  for (int size : {1, 2, 3, 5}) {
    constexpr std::size_t kNumFloats = 1003, kNumDoubles = 5;
    constexpr int kRounds = 50;
    const auto errors = run_ranks(size, 30, [&](Communicator& rank) {
      for (int round = 0; round < kRounds; ++round) {
        std::vector<float> data(kNumFloats), expected(kNumFloats);
        std::vector<double> tail(kNumDoubles), expected_tail(kNumDoubles);
        for (int r = 0; r < size; ++r) {
          for (std::size_t i = 0; i < kNumFloats; ++i) expected[i] += float_of(r, round, i);
          for (std::size_t i = 0; i < kNumDoubles; ++i) expected_tail[i] += 0.1 * (r + round);
        }
        for (std::size_t i = 0; i < kNumFloats; ++i) data[i] = float_of(rank.rank(), round, i);
        for (double& x : tail) x = 0.1 * (rank.rank() + round);
        rank.all_reduce(data, tail);
        const bool same =
            std::memcmp(data.data(), expected.data(), kNumFloats * sizeof(float)) == 0;
        CHECK(same);
        const bool same_tail =
            std::memcmp(tail.data(), expected_tail.data(), kNumDoubles * sizeof(double)) == 0;
        CHECK(same_tail);
      }
    });
    for (const auto& error : errors) CHECK(error == "");
  }
}

TEST_CASE("broadcast, all_gather and barrier, mixed with sums of changing sizes") {
  const auto errors = run_ranks(3, 30, [](Communicator& rank) {
    for (int round = 0; round < 20; ++round) {
      std::vector<int> numbers(static_cast<std::size_t>(1 + round % 4), 100 * rank.rank() + round);
      rank.broadcast(std::as_writable_bytes(std::span(numbers)), round % 3);
      CHECK(numbers == std::vector<int>(numbers.size(), 100 * (round % 3) + round));

      const int mine = rank.rank() * 7 + round;
      std::vector<int> all(3);
      rank.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
      CHECK(all == std::vector<int>{round, 7 + round, 14 + round});

      rank.barrier();
      std::vector<double> sums(static_cast<std::size_t>(round), 1.0);
      rank.all_reduce(sums);
      CHECK(sums == std::vector<double>(sums.size(), 3.0));
    }
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("abort ends the waits of the others, and whatever they try later") {
  const auto errors = run_ranks(3, 1000, [](Communicator& rank) {
    rank.barrier();
    if (rank.rank() == 1) return rank.abort();
    std::vector<float> data(4);
    CHECK_THROWS_AS(rank.all_reduce(data), CommunicationError);
    rank.barrier();
  });
  CHECK(errors[1] == "");
  for (const std::size_t r : {0u, 2u}) {
    CHECK(contains(errors[r], "rank " + std::to_string(r) + " of 3: barrier()"));
    CHECK(contains(errors[r], "aborted by rank 1"));
  }
}

TEST_CASE("abort from another thread than the rank's own") {
  auto ranks = canter::make_thread_communicators(2, 1000);
  std::thread watchdog([&] { ranks[0]->abort(); });
  CHECK_THROWS_AS(ranks[0]->barrier(), CommunicationError);
  watchdog.join();
  CHECK_THROWS_AS(ranks[1]->barrier(), CommunicationError);
}

TEST_CASE("a rank that leaves is named at once, not at the deadline") {
  const auto errors = run_ranks(2, 1000, [](Communicator& rank) {
    rank.barrier();
    if (rank.rank() == 1) return;
    std::vector<float> data(8);
    rank.all_reduce(data);
  });
  CHECK(contains(errors[0], "rank 0 of 2: all_reduce(float[8], double[0]): rank 1 has left"));
}

TEST_CASE("a rank that does not come is named at the deadline") {
  auto ranks = canter::make_thread_communicators(3, 0.05);
  std::string error;
  try {
    ranks[1]->barrier();
  } catch (const CommunicationError& e) {
    error = e.what();
  }
  CHECK(error == "rank 1 of 3: barrier(): waited 0.05 s for rank 0, rank 2");
  CHECK_THROWS_AS(ranks[0]->barrier(), CommunicationError);
}

TEST_CASE("ranks that call different things all throw, and name both calls") {
  const auto errors = run_ranks(2, 1000, [](Communicator& rank) {
    std::vector<float> data(rank.rank() == 0 ? 8 : 9);
    rank.all_reduce(data);
  });
  for (const auto& error : errors)
    CHECK(contains(error,
                   "rank 0 calls all_reduce(float[8], double[0]), but rank 1 calls "
                   "all_reduce(float[9], double[0])"));
}

TEST_CASE("wrong arguments are refused by the caller alone") {
  auto ranks = canter::make_thread_communicators(2, 1000);
  std::vector<std::byte> in(4), out(7);
  CHECK_THROWS_AS(ranks[0]->broadcast(in, 2), canter::InvalidArgument);
  CHECK_THROWS_AS(ranks[0]->all_gather(in, out), canter::InvalidArgument);
  CHECK_THROWS_AS(Communicator::single()->broadcast(in, 1), canter::InvalidArgument);
  CHECK_THROWS_AS(Communicator::single()->all_gather(in, out), canter::InvalidArgument);
  CHECK_THROWS_AS(canter::make_thread_communicators(0), canter::InvalidArgument);
  CHECK_THROWS_AS(canter::make_thread_communicators(2, 0), canter::InvalidArgument);
}

TEST_CASE("single is the identity") {
  const auto one = Communicator::single();
  CHECK(one->size() == 1);
  CHECK(one->rank() == 0);
  std::vector<float> data{1, 2};
  one->all_reduce(data);
  CHECK(data == std::vector<float>{1, 2});
  const int in = 5;
  int out = 0;
  one->all_gather(std::as_bytes(std::span(&in, 1)), std::as_writable_bytes(std::span(&out, 1)));
  CHECK(out == 5);
  one->abort();
  CHECK_THROWS_AS(one->barrier(), CommunicationError);
}

TEST_CASE("from_environment names the launcher and what is missing") {
  for (const char* name :
       {"WORLD_SIZE", "RANK", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_JOB_ID", "SLURM_STEP_ID",
        "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    unsetenv(name);
  const auto message = [] {
    try {
      return "size " + std::to_string(Communicator::from_environment()->size());
    } catch (const CommunicationError& error) {
      return std::string(error.what());
    }
  };
  CHECK(message() == "size 1");
  SUBCASE("torchrun") {
    const Variable size("WORLD_SIZE", "2"), rank("RANK", "1");
    CHECK(contains(message(), "rank 1 of 2 (torchrun: WORLD_SIZE=2): missing"));
  }
  SUBCASE("one rank") {
    const Variable size("WORLD_SIZE", "1"), rank("RANK", "0");
    CHECK(message() == "size 1");
  }
  SUBCASE("malformed") {
    const Variable size("WORLD_SIZE", "two");
    CHECK(message() == "WORLD_SIZE must be an integer >= 0, got 'two'");
  }
  SUBCASE("srun") {
    const Variable job("SLURM_JOB_ID", "9"), size("SLURM_NTASKS", "4"), rank("SLURM_PROCID", "3"),
        step("SLURM_STEP_NUM_TASKS", "4");
    CHECK(contains(message(), "rank 3 of 4 (srun: SLURM_NTASKS=4): missing"));
  }
  SUBCASE("a batch script is one process, however many tasks were asked for") {
    const Variable job("SLURM_JOB_ID", "9"), size("SLURM_NTASKS", "4"), rank("SLURM_PROCID", "0");
    CHECK(message() == "size 1");
  }
  SUBCASE("mpirun") {
    const Variable size("OMPI_COMM_WORLD_SIZE", "3");
    CHECK(contains(message(), "rank unknown of 3 (mpirun: OMPI_COMM_WORLD_SIZE=3): missing"));
  }
}
